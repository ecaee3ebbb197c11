"""The guard of speed and the table of README: their parts work; no time is held to a bound here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("resource", reason="processor time of other processes is asked of the system")
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("runs", "headlines", "guard", "table")
    found = {name: __import__(name) for name in names}
    yield found
    for name in names:
        sys.modules.pop(name, None)


def test_what_moved_by_more_than_the_bound_is_told(scripts: dict[str, ModuleType]) -> None:
    before = {"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0, "e": 1.0}
    now = {"a": 11.4, "b": 11.6, "c": 8.8, "d": 8.6, "new": 5.0}
    assert scripts["guard"].moved(before, now) == pytest.approx({"b": 0.16, "d": -0.14})


@pytest.mark.parametrize(("stored", "code"), [(1e-9, 0), (1e9, 1)])
def test_only_what_became_slower_fails(
    scripts: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stored: float,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    guard, headlines = scripts["guard"], scripts["headlines"]
    monkeypatch.setattr(guard, "STORED", tmp_path / "guard.json")
    small = [one._replace(small=20) for one in headlines.HEADLINES if one.name == "randomisation"]
    monkeypatch.setattr(guard, "measurable", lambda: small)
    guard.STORED.write_text(json.dumps({"randomisation": stored}))
    assert guard.main(["--repeats", "1"]) == code
    assert "randomisation moved by" in capsys.readouterr().out
    assert guard.main(["--repeats", "1", "--store"]) == 0
    assert json.loads(guard.STORED.read_text())["randomisation"] not in (stored, None)


@pytest.mark.parametrize("name", ["search", "prepared search", "codes", "randomisation"])
def test_both_sides_of_a_figure_run(scripts: dict[str, ModuleType], name: str) -> None:
    headlines = scripts["headlines"]
    one = next(one for one in headlines.HEADLINES if one.name == name)
    timing = headlines.measure(one, 200, 1)
    assert timing.ours > 0
    assert timing.theirs > 0


def test_there_are_ten_with_names_of_their_own(scripts: dict[str, ModuleType]) -> None:
    assert len({one.name for one in scripts["headlines"].HEADLINES}) == 10


def test_the_table_stands_between_its_marks(scripts: dict[str, ModuleType]) -> None:
    table = scripts["table"]
    figures = {
        "search": {"size": 200_000, "ours": 2.0, "theirs": 3.0, "load": 1.0},
        "start-up": {"size": 10, "ours": 3.0, "theirs": 2.0, "load": 1.0},
    }
    text = table.table(figures)
    assert "| exact top 100 of 200,000 vectors, d = 384, 500 queries | 2 s | numpy's" in text
    assert "1.50 ×" in text
    assert "0.67 ×" in text
    page = table.insert(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", text)
    assert page == f"before\n{table.BEGIN}\n{text}\n{table.END}\nafter\n"
    with pytest.raises(SystemExit, match="lacks"):
        table.insert("no marks", text)


def test_readme_holds_the_figures_that_were_measured_last(scripts: dict[str, ModuleType]) -> None:
    table = scripts["table"]
    page = table.README.read_text("utf-8")
    assert table.insert(page, table.table(json.loads(table.FIGURES.read_text("utf-8")))) == page
