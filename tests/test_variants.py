"""Thinned tests exist, have many variants, and lose none in a slow run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.variants import EVERY

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def collected() -> dict[str, Counter[str]]:
    """The number of variants of each thinned test: by default, and of the slow run."""
    files = sorted({f"tests/{test.partition('::')[0]}" for test in EVERY})
    return {marked: _count(marked, files) for marked in ("not slow", "slow")}


def _count(marked: str, files: list[str]) -> Counter[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marked, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = (line.partition("[")[0] for line in done.stdout.splitlines())
    return Counter(line.removeprefix("tests/") for line in lines)


def test_thinned_tests_are_where_they_are_said_to_be() -> None:
    """One that has moved would run all its variants."""
    for test in EVERY:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert f"def {name.rpartition('::')[2]}(" in text, test


@pytest.mark.slow
@pytest.mark.parametrize("test", EVERY)
def test_every_nth_variant_runs_and_the_others_are_slow(
    test: str, collected: dict[str, Counter[str]]
) -> None:
    quick, slow = (collected[marked][test] for marked in ("not slow", "slow"))
    assert quick >= 2
    assert slow >= (EVERY[test] - 1) * (quick - 1)
