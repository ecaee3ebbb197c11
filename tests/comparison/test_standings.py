"""One table of systems for all comparisons, by declared columns."""

from __future__ import annotations

import numpy as np

from assay import compare, compare_tasks
from assay.comparison import standings as module
from assay.comparison.standings import COLUMNS, Column, standings_table
from tests.comparison.made_scores import scores_of

RNG = np.random.default_rng(5)
ROWS = [RNG.uniform(0.2, 0.4, 30) + 0.2 * system for system in range(3)]
SYSTEMS = [scores_of(row) for row in ROWS]


def over_tasks():
    return compare_tasks(
        {name: {"t": one, "u": one} for name, one in zip("ABC", SYSTEMS, strict=True)},
        resamples=200,
    )


def test_columns_are_those_that_the_standings_have() -> None:
    plain, versus = (compare(*SYSTEMS, baseline=name, resamples=200) for name in (None, "A"))
    ends = ("system", "mean", "95 % CI", "rank")
    assert plain.table().columns == (*ends, "group")
    assert versus.table().columns == (*ends, "vs A")
    assert over_tasks().table().columns == (*ends, "Borda", "Borda rank", "group")


def test_systems_that_lead_are_marked() -> None:
    plain, versus = (compare(*SYSTEMS, baseline=name, resamples=200) for name in (None, "A"))
    marked = [[row[1].best for row in found.table().rows] for found in (plain, versus)]
    # With a baseline no test compares the best two, so that only the highest is marked.
    assert marked == [[True, False, False], [True, False, False]]
    assert [row[-1].value for row in versus.table().rows] == ["better", "better", "baseline"]


def test_headings_change_and_columns_are_left_out() -> None:
    standings = compare(*SYSTEMS, resamples=200).standings
    table = standings_table(standings, headings={"system": "model"}, without=("rank",))
    assert table.columns == ("model", "mean", "95 % CI", "group")


def test_a_column_that_is_added_shows_in_every_comparison(monkeypatch) -> None:
    width = Column("half width", lambda standing: standing.mean.half_width, "fraction")
    monkeypatch.setattr(module.standings_table, "__kwdefaults__", _with_column(width))
    for found in (compare(*SYSTEMS, resamples=200), over_tasks()):
        assert found.table().columns[-1] == "half width"
        assert "half width" in repr(found)


def _with_column(column: Column) -> dict[str, object]:
    return {**module.standings_table.__kwdefaults__, "columns": (*COLUMNS, column)}
