"""The sizes of the house only fall; a new room raises the total by its own budget."""

from __future__ import annotations

import json

import pytest

from tests import house

RECORDED = json.loads(house.RECORD.read_text("utf-8"))


def test_sizes_and_empty_names_only_fall() -> None:
    measured = house.measure_sizes()
    print(json.dumps(measured, indent=1))
    risen = house.compare_sizes(measured, {k: v for k, v in RECORDED.items() if k != "walks"})
    assert not risen, "python -m tests.house prints all sizes"


@pytest.mark.parametrize("command", ["eval", "compare"])
def test_walks_only_fall(command: str) -> None:
    entered = house.trace_walks((command,))[command]
    print(command, len(entered), *entered)
    assert len(entered) <= RECORDED["walks"][command]
