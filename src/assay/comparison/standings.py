"""Standings: systems best first, with mean, interval, rank and group; one table for all of them.

`COLUMNS` declares what the table shows: a column that is added here shows wherever systems are
listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.comparison.pairs import ComparisonSettings, Pair, shown_better
from assay.stats import Interval, RankInterval, compact_letters, rank_intervals
from assay.stats.ranks import ranks_of, split_letters
from assay.tables.table import Cell, Table

_BASELINE: Final = "baseline"
_WORDS: Final = {"undecided": "–", "contradictory": "unclear"}


@dataclass(frozen=True)
class Standing:
    """One system on one measure: its mean and rank with intervals, and its group letters.

    Systems that share a letter are not separable; comparisons with a baseline, which do not test
    all pairs, have no letters but an `outcome`, such as better. `leads` says that nothing was shown
    to be better, or that it is better than the baseline. Over tasks, `borda` is the number of
    systems that it beats, summed over tasks, ties counted half.
    """

    name: str
    measure: str
    mean: Interval
    rank: RankInterval
    letters: str
    outcome: str = ""
    leads: bool = False
    borda: float | None = None
    borda_rank: RankInterval | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        front = {"name": self.name, **self.mean.to_dict("mean")}
        ranks: dict[str, Any] = self.rank.to_dict()
        if self.borda_rank is None:
            end = {"letters": self.letters, "note": self.mean.note}
            return {**front, "n": self.mean.n, **ranks, **end}
        borda = {"borda": self.borda, **self.borda_rank.to_dict("borda_rank")}
        return {**front, **ranks, **borda, "letters": self.letters}


@dataclass(frozen=True)
class Column:
    """A column of the standings: its heading, the value of a system, and the kind of its cells.

    The heading may name `{interval}` (the level of the intervals) and `{baseline}`. A `marked`
    column marks the systems that lead; `applies` says whether these standings have the column.
    """

    heading: str
    value: Callable[[Standing], str | float | None]
    kind: str = "text"
    marked: bool = False
    applies: Callable[[Sequence[Standing]], bool] = bool

    def cell(self, standing: Standing) -> Cell:
        """Return the cell of one system."""
        return Cell(self.value(standing), self.kind, self.marked and standing.leads)


def _have_baseline(standings: Sequence[Standing]) -> bool:
    return any(standing.outcome for standing in standings)


def _have_borda(standings: Sequence[Standing]) -> bool:
    return standings[0].borda_rank is not None


COLUMNS: Final = (
    Column("measure", lambda s: s.measure, applies=lambda rows: len({s.measure for s in rows}) > 1),
    Column("system", lambda s: s.name),
    Column("mean", lambda s: s.mean.estimate, "fraction", marked=True),
    Column("{interval}", lambda s: s.mean.text(), "figure"),
    Column("rank", lambda s: s.rank.text(), "figure"),
    Column("Borda", lambda s: f"{s.borda:g}", "figure", applies=_have_borda),
    Column(
        "Borda rank",
        lambda s: s.borda_rank.text() if s.borda_rank else None,
        "figure",
        applies=_have_borda,
    ),
    Column("group letters", lambda s: s.letters or None, applies=lambda s: not _have_baseline(s)),
    Column("vs {baseline}", lambda s: _WORDS.get(s.outcome, s.outcome), applies=_have_baseline),
)


def standings_table(
    standings: Sequence[Standing],
    *,
    headings: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    columns: Sequence[Column] = COLUMNS,
) -> Table:
    """Return a row for each system; those that lead are marked.

    Args:
        standings: The systems, best first, on one measure or several.
        headings: Other headings by those of `columns`, such as `{"system": "model"}`.
        without: Headings of columns to leave out, such as `rank`.
        columns: What to show.

    Returns:
        The table; columns that these standings do not have are left out.
    """
    used = [
        column for column in columns if column.heading not in without and column.applies(standings)
    ]
    words = {
        "interval": Interval.heading(standings[0].mean.level),
        "baseline": next((s.name for s in standings if s.outcome == _BASELINE), ""),
    }
    names = [(headings or {}).get(column.heading, column.heading) for column in used]
    rows = tuple(tuple(column.cell(standing) for column in used) for standing in standings)
    return Table(tuple(name.format(**words) for name in names), rows)


def rank_systems(
    names: Sequence[str],
    measure: str,
    values: Floats,
    means: Sequence[Interval],
    pairs: Sequence[Pair],
    settings: ComparisonSettings,
    *,
    baseline: str | None = None,
    clusters: NDArray[Any] | None = None,
) -> list[Standing]:
    """Return the systems best first, with the ranks and letters that their pairs support.

    `values` are systems × queries (or tasks), `means` the intervals of their means. Where only
    pairs with a baseline were tested, ranks are those of all pairs.
    """
    order = sorted(range(len(names)), key=lambda i: _best_first(means[i].estimate))
    ranked = [names[i] for i in order]
    if baseline is not None:
        ranks = rank_intervals(
            values, clusters=clusters, level=1 - settings.level, **settings.draws
        )
        outcomes = {pair.a: pair.outcome for pair in pairs} | {baseline: _BASELINE}
        return [
            Standing(
                names[i],
                measure,
                means[i],
                ranks[i],
                "",
                outcomes[names[i]],
                outcomes[names[i]] == "better",
            )
            for i in order
        ]
    undecided = all(pair.outcome == "undecided" for pair in pairs)
    ranks = _ranks(values, shown_better(names, pairs), settings, pairs[0] if undecided else None)
    better = shown_better(ranked, pairs)
    letters = [""] * len(names) if undecided else compact_letters(better | better.T)
    first = set(split_letters(letters[0]))
    leads = [bool(first & set(split_letters(group))) for group in letters]
    return [
        Standing(names[i], measure, means[i], ranks[i], group, leads=lead)
        for i, group, lead in zip(order, letters, leads, strict=True)
    ]


def _best_first(mean: float) -> float:
    return math.inf if math.isnan(mean) else -mean


def _ranks(
    values: Floats, better: NDArray[np.bool_], settings: ComparisonSettings, undecided: Pair | None
) -> list[RankInterval]:
    """Return ranks as the pairs say; without ends where no pair can be decided."""
    n = int((~np.isnan(values).any(axis=0)).sum())
    note = "" if undecided is None else undecided.untestable
    shared = RankInterval(
        *(math.nan,) * 3,
        level=1 - settings.level,
        n=n,
        n_removed=values.shape[1] - n,
        note=note,
        **settings.draws,
    )
    return ranks_of(values, better, shared)
