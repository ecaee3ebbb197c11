"""Standings and blocks: systems best first and pair by pair, as tables and plain data.

`COLUMNS` declares what a table of systems shows: a column that is added here shows wherever systems
are listed. A block is the unit of every comparison: systems on one measure and one set of queries,
be it all of them, a slice, or tasks that weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, or_none
from assay.comparison.pairs import ComparisonSettings, Pair, shown_better
from assay.comparison.verdict import Verdict, describe_holes, describe_test, sum_up
from assay.core.text import signed
from assay.stats import Interval, RankInterval, compact_letters, rank_intervals
from assay.stats.corrections import ranks_of
from assay.tables.table import Cell, Table, table_of

_BASELINE: Final = "baseline"
_WORDS: Final = {"undecided": "–", "contradictory": "unclear", "not separable": "not significant"}


@dataclass(frozen=True)
class Standing:
    """One system on one measure: its mean and rank with intervals, and its group letters.

    Systems that share a letter are not separable; comparisons with a baseline, which do not test
    all pairs, have no letters but an `outcome`, such as better. `leads`: it may be the best, as it
    has the highest mean, or a test did not show it to be worse than that. Over tasks, `borda` is
    the number of systems that it beats, summed over tasks, ties counted half.
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
    Column("group", lambda s: s.letters or None, applies=lambda s: not _have_baseline(s)),
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
    estimates = [mean.estimate for mean in means]
    order = sorted(range(len(names)), key=lambda i: (math.isnan(estimates[i]), -estimates[i]))
    ranked = [names[i] for i in order]
    leaders = _leaders(ranked[0], pairs) | {
        name for name, mean in zip(names, estimates, strict=True) if mean == estimates[order[0]]
    }
    if baseline is not None:
        ranks = rank_intervals(
            values, clusters=clusters, level=1 - settings.level, **settings.draws
        )
        outcomes = {pair.a: pair.outcome for pair in pairs} | {baseline: _BASELINE}
        return [
            Standing(name, measure, means[i], ranks[i], "", outcomes[name], name in leaders)
            for i, name in zip(order, ranked, strict=True)
        ]
    undecided = all(pair.outcome == "undecided" for pair in pairs)
    ranks = _ranks(values, shown_better(names, pairs), settings, pairs[0] if undecided else None)
    better = shown_better(ranked, pairs)
    letters = [""] * len(names) if undecided else compact_letters(better | better.T)
    return [
        Standing(names[i], measure, means[i], ranks[i], group, leads=names[i] in leaders)
        for i, group in zip(order, letters, strict=True)
    ]


def _leaders(first: str, pairs: Sequence[Pair]) -> set[str]:
    """Return the systems that a test compared with the first and did not show to be worse."""
    tested = [pair for pair in pairs if first in (pair.a, pair.b) and pair.outcome != "undecided"]
    return {pair.other(first) for pair in tested if pair.winner != first}


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


def describe_intervals(standings: Iterable[Standing]) -> str:
    """Return level and kind of the intervals of means, as they came out."""
    means = [standing.mean for standing in standings]
    kinds = dict.fromkeys(mean.kind for mean in means)
    return f"{100 * means[0].level:g} % {' or '.join(kinds)}"


def pair_interval_head(pair: Pair) -> str:
    """Return the heading of intervals of pairs: simultaneous, of one pair, or not of the test."""
    head = Interval.heading(1 - pair.settings.level)
    if pair.items != "queries":
        return f"simultaneous {head}"
    return head if pair.coherent else f"{head} ({pair.interval.kind}, not of the test)"


def pair_cells(pair: Pair, first: str) -> tuple[Cell, ...]:
    """Return the cells of one pair, with one of the two first."""
    turn = 1 if first == pair.a else -1
    counts = (pair.effect.wins, pair.effect.ties, pair.effect.losses)[::turn]
    d = turn * pair.effect.standardised
    name = f"{first} − {pair.other(first)}"
    return (
        *difference_cells(name, pair.interval_of(first), pair.p),
        Cell("/".join(map(str, counts)), "figure"),
        Cell(None if math.isnan(d) else f"{d:+.2f}", "figure"),
    )


def difference_cells(name: str, interval: Interval, p: float) -> tuple[Cell, ...]:
    """Return name, difference, interval and p."""
    difference = interval.estimate
    return (
        Cell(name),
        Cell(None if math.isnan(difference) else signed(difference), "figure"),
        interval.cell(sign=True),
        Cell(format_p(p), "figure"),
    )


def format_p(p: float) -> str | None:
    """Return four decimals; a smaller p is not rounded to 0."""
    if math.isnan(p):
        return None
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


_NUMBERS: Final = ("a", "b", "outcome", "difference", "low", "high", "p", "p_uncorrected")
_TASK_COLUMNS: Final = (*_NUMBERS, "tasks_won", "tasks_tied", "tasks_lost")
_QUERY_COLUMNS: Final = (
    *("measure", *_NUMBERS[:3], "mean_a", "mean_b", *_NUMBERS[3:], "n", "removed"),
    *("wins", "ties", "losses", "standardised", "minimum_detectable"),
)


def data_table(blocks: Sequence[SystemBlock]) -> Table:
    """Return everything about each pair, every digit, for CSV; slices have their name in front."""
    columns = _QUERY_COLUMNS if blocks[0].pairs[0].items == "queries" else _TASK_COLUMNS
    if any(block.name for block in blocks):
        columns = ("slice", *columns)
    rows = []
    for block in blocks:
        for pair in block.pairs:
            means = {"mean_a": block.means[pair.a], "mean_b": block.means[pair.b]}
            data = {
                "slice": block.name,
                "measure": block.measure,
                **means,
                **pair_data(pair, brief=True),
            }
            rows.append([data[name] for name in columns])
    return table_of(columns, rows)


def pair_data(pair: Pair, *, brief: bool = False) -> dict[str, Any]:
    """Return everything about a pair as plain data; undefined numbers are None.

    `brief` leaves out what takes further tests, and how p was computed.
    """
    effect, counts = pair.effect, (pair.effect.wins, pair.effect.ties, pair.effect.losses)
    data: dict[str, Any] = {
        "a": pair.a,
        "b": pair.b,
        "outcome": pair.outcome,
        "winner": pair.winner,
        "difference": or_none(pair.difference),
        "low": or_none(pair.interval.low),
        "high": or_none(pair.interval.high),
        "p": or_none(pair.p),
        "p_uncorrected": or_none(pair.test.p),
    }
    if pair.items == "tasks":
        data |= zip(_TASK_COLUMNS[-3:], counts, strict=True)
        return {**data, "note": pair.test.note}
    if not brief:
        data["test"] = describe_test(pair.settings, pair.n_pairs, pair.n_slices)
        data["exact"] = pair.test.exact
    data |= {
        "n": effect.n,
        "removed": effect.n_removed,
        **dict(zip(("wins", "ties", "losses"), counts, strict=True)),
        "standardised": or_none(effect.standardised),
        "superiority": or_none(effect.superiority),
        "minimum_detectable": or_none(pair.minimum_detectable),
    }
    if brief:
        return data
    data |= {"interval": pair.interval.method, "coherent": pair.coherent, "note": pair.test.note}
    if pair.equivalence is not None:
        data["p_equivalent"] = or_none(pair.equivalence.p)
        for key, name in (("p_a_non_inferior", pair.a), ("p_b_non_inferior", pair.b)):
            test = pair.non_inferiority(name)
            data[key] = None if test is None else or_none(test.p)
    return data


@dataclass(frozen=True, eq=False)
class SystemBlock:
    """Systems on one measure and one set of queries: all of them, a slice, or tasks.

    A block without a name is of all queries. A slice of too few queries (groups) is not tested and
    has no pairs: `note` says so. Slices have means, all queries and tasks also `standings`.
    `bounds` of the pairs are there under `unjudged: bounds`.
    """

    name: str
    measure: str
    n_queries: int
    means: dict[str, float]
    pairs: tuple[Pair, ...]
    baseline: str | None = None
    note: str = ""
    standings: tuple[Standing, ...] = ()
    bounds: tuple[Any, ...] = ()

    @property
    def ranked(self) -> list[str]:
        """The systems, best mean first."""
        return sorted(
            self.means, key=lambda name: (math.isnan(self.means[name]), -self.means[name])
        )

    @property
    def verdict(self) -> Verdict:
        """A sentence about the systems on these queries, and its numbers."""
        if not self.pairs:
            return Verdict(f"Not tested on {self.measure}: {self.note}")
        verdict = sum_up(self.measure, self.ranked, self.pairs, self.baseline)
        return verdict.extended(holes=describe_holes(self.bounds))

    @property
    def ordered_pairs(self) -> list[tuple[Pair, str]]:
        """Pairs by the place of their systems, and the system to put first."""
        place = {name: i for i, name in enumerate(self.ranked)}
        if self.baseline is not None:
            return [(pair, pair.a) for pair in sorted(self.pairs, key=lambda pair: place[pair.a])]
        pairs = sorted(self.pairs, key=lambda pair: sorted((place[pair.a], place[pair.b])))
        return [(pair, min(pair.a, pair.b, key=lambda name: place[name])) for pair in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        pairs = [pair_data(pair) for pair in self.pairs]
        if self.standings:
            systems = [standing.to_dict() for standing in self.standings]
            bounds = [each.to_dict() for each in self.bounds]
            more = {"bounds": bounds} if bounds else {}
            return {"verdict": self.verdict, "systems": systems, "pairs": pairs, **more}
        means = {name: or_none(mean) for name, mean in self.means.items()}
        front = {"name": self.name, "n": self.n_queries, "verdict": self.verdict}
        return {**front, "note": self.note, "means": means, "pairs": pairs}
