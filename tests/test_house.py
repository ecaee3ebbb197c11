"""The sizes of the house only fall; a new room raises the total by its own budget."""

from __future__ import annotations

import json
import re

import pytest

from tests import house

RECORDED = json.loads(house.RECORD.read_text("utf-8"))


def test_sizes_and_empty_names_only_fall() -> None:
    measured = house.measure_sizes()
    print(json.dumps(measured, indent=1))
    risen = house.compare_sizes(measured, {k: v for k, v in RECORDED.items() if k != "walks"})
    assert not risen, "python -m tests.house prints all sizes"


@pytest.fixture(scope="module")
def walks() -> dict[str, list[str]]:
    return house.trace_walks()


@pytest.mark.parametrize("command", house.WALKS)
def test_walks_only_fall_and_the_page_shows_them(command: str, walks: dict[str, list[str]]) -> None:
    print(command, len(walks[command]), *walks[command])
    assert len(walks[command]) <= RECORDED["walks"][command]
    page = (house.ROOT / "docs" / "architecture.md").read_text("utf-8")
    shown = page.partition(f"**`assay {house.WALKS[command]}`**")[2].partition("**")[0]
    # Threads enter some files in any order.
    assert set(re.findall(r"[\w/]+(?= →|\n)", shown)) == {
        file.removesuffix(".py") for file in walks[command]
    }
