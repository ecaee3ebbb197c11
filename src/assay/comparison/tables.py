"""Blocks, the unit of every comparison, and their tables, pages and data.

A comparison has one block of all queries for each measure, slices have one each, and a comparison
over tasks is one block whose queries are weighed by task. Verdict, tables and pages are those of
blocks, whichever they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import or_none
from assay.comparison.pairs import POWER, ComparisonSettings, Pair
from assay.comparison.standings import standings_table
from assay.comparison.verdict import describe_test, verdict_against, verdict_of_all
from assay.core.text import signed
from assay.stats import INTERVAL_NAMES, Interval
from assay.stats.choices import MOST_PAIRS
from assay.tables.table import Cell, Page, Table, Words, html_page, latex_page, text_page

if TYPE_CHECKING:
    from assay.comparison.slices import SliceComparison
    from assay.comparison.standings import Standing
    from assay.tables.table import Page, Table


if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.comparison.pairs import Pair
    from assay.comparison.standings import Standing


_FEW_PAIRS: Final = 10  # of five systems; they fit on a screen below their means


def system_table(compared: Compared, measure: str | None = None) -> Table:
    """Return a row for each system, best first; of one measure or of all."""
    return standings_table(
        [row for row in compared.standings if measure is None or row.measure == measure]
    )


def pair_interval_head(pair: Pair) -> str:
    """Return the heading of intervals of pairs: simultaneous, of one pair, or not of the test."""
    head = Interval.heading(1 - pair.settings.level)
    if pair.items != "queries":
        return f"simultaneous {head}"
    return head if pair.coherent else f"{head} ({pair.interval.kind}, not of the test)"


def pair_table(compared: Compared, measure: str | None = None) -> Table:
    """Return a row for each pair: the better mean first, or each system − the baseline.

    Differences that the test separates are marked. Over tasks, wins, ties and losses count tasks
    and have no effect size.
    """
    blocks = [block for block in compared.blocks if measure is None or block.measure == measure]
    first = blocks[0].pairs[0]
    whole = first.items == "queries"
    counts = ("W/T/L", "d") if whole else (f"{first.items} W/T/L",)
    head = ("pair", "difference", pair_interval_head(first), "p", *counts)
    rows = [
        (*([Cell(block.measure)] if len(blocks) > 1 else []), *pair_cells(pair, name)[: len(head)])
        for block in blocks
        for pair, name in block.ordered_pairs
    ]
    front = ("measure",) if len(blocks) > 1 else ()
    return Table((*front, *head), tuple(rows), n_optional=2 if whole else 1)


def pair_cells(pair: Pair, first: str) -> tuple[Cell, ...]:
    """Return the cells of one pair, with one of the two first."""
    turn = 1 if first == pair.a else -1
    counts = (pair.effect.wins, pair.effect.ties, pair.effect.losses)[::turn]
    d = turn * pair.effect.standardised
    return (
        *difference_cells(
            f"{first} − {pair.other(first)}",
            pair.interval_of(first),
            pair.p,
            clear=pair.winner is not None,
        ),
        Cell("/".join(map(str, counts)), "figure"),
        Cell(None if math.isnan(d) else f"{d:+.2f}", "figure"),
    )


def difference_cells(name: str, interval: Interval, p: float, *, clear: bool) -> tuple[Cell, ...]:
    """Return name, difference, interval and p; a clear difference is marked."""
    difference = interval.estimate
    return (
        Cell(name),
        Cell(None if math.isnan(difference) else signed(difference), "figure", clear),
        interval.cell(sign=True),
        Cell(format_p(p), "figure", clear),
    )


def format_p(p: float) -> str | None:
    """Return four decimals; a smaller p is not rounded to 0."""
    if math.isnan(p):
        return None
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


_OUTCOME: Final = ("a", "b", "outcome")
_NUMBERS: Final = ("difference", "low", "high", "p", "p_uncorrected")
_TASK_DATA: Final = (*_OUTCOME, *_NUMBERS, "tasks_won", "tasks_tied", "tasks_lost")
_DATA: Final = (
    "measure",
    *_OUTCOME,
    "mean_a",
    "mean_b",
    *_NUMBERS,
    "n",
    "removed",
    "wins",
    "ties",
    "losses",
    "standardised",
    "minimum_detectable",
)


def data_table(compared: Compared) -> Table:
    """Return everything about each pair, every digit, for CSV; with slices, also in each."""
    blocks = list(compared.blocks)
    columns = _DATA if blocks[0].pairs[0].items == "queries" else _TASK_DATA
    if compared.slices is not None:
        columns, blocks = ("slice", *columns), [*blocks, *compared.slices.slices]
    rows = [
        {
            "slice": block.name,
            "measure": block.measure,
            "mean_a": block.means[pair.a],
            "mean_b": block.means[pair.b],
            **outcome_data(pair),
            **_count_data(pair),
        }
        for block in blocks
        for pair in block.pairs
    ]
    return Table(columns, tuple(tuple(_data_cell(row[name]) for name in columns) for row in rows))


def _data_cell(value: Any) -> Cell:
    kinds = {str: "text", int: "count"}
    return Cell(value, kinds.get(type(value), "fraction"))


def tables_on(compared: Compared, block: SystemBlock) -> list[Table]:
    """Return the systems and, where they can be read, the pairs."""
    tables = [system_table(compared, block.measure)]
    if len(block.pairs) <= MOST_PAIRS:
        tables.append(pair_table(compared, block.measure))
    return tables


def method_note(comparison: Comparison) -> str:
    """Return how p-values and intervals were computed, and over which family."""
    settings, pair = comparison.settings, comparison.pairs[0]
    drawn = f"{settings.resamples:,} resamples, seed {settings.seed}"
    unit = "" if settings.by is None else f"; queries of one {settings.by} are resampled together"
    span = f"{100 * (1 - settings.level):g} %"
    sliced = "" if comparison.slices is None else f" {comparison.slices.method}"
    if not pair.coherent:
        name = INTERVAL_NAMES[settings.interval]
        between = f"Intervals of differences: {name}, corrected alike, but not of this test"
    elif pair.interval.method in ("max-t", "tukey"):
        between = f"Intervals of differences: {span} for all of them together, of the same draws"
    else:
        between = "Intervals of differences: all that the test does not reject"
    return (
        f"p: {describe_test(settings, pair.n_pairs)} ({comparison.family}), {drawn}. {between}; of "
        f"means: {describe_intervals(comparison.standings)}, each for itself{unit}.{sliced}"
    )


def describe_intervals(standings: Iterable[Standing]) -> str:
    """Return level and kind of the intervals of means, as they came out."""
    means = [standing.mean for standing in standings]
    kinds = dict.fromkeys(mean.kind for mean in means)
    return f"{100 * means[0].level:g} % {' or '.join(kinds)}"


def power_note(compared: Compared, measure: str) -> str:
    """Return the minimum detectable difference of these queries as a sentence."""
    sizes = [
        pair.minimum_detectable
        for block in compared.blocks
        if block.measure == measure
        for pair in block.pairs
        if not math.isnan(pair.minimum_detectable)
    ]
    if not sizes or max(sizes) == 0:
        return ""
    low, high = f"{min(sizes):.4f}", f"{max(sizes):.4f}"
    least = low if low == high else f"{low} to {high}, depending on the pair"
    return f"Minimum detectable difference ({100 * POWER:g} % power): {least}."


def comparison_page(compared: Compared, extra: Iterable[Words | Table] = ()) -> Page:
    """Return verdict and tables of each block, then `extra`, remarks, method and signature."""
    page: Page = []
    for block in compared.blocks:
        page += [Words(sentence, "verdict") for sentence in compared.sentences_on(block)]
        page += tables_on(compared, block)
        page.append(Words(power_note(compared, block.measure), "method"))
        if compared.slices is not None:
            page += compared.slices.page_on(block.measure)
    page += [Words(remark, "remark") for remark in compared.remarks]
    method = Words(compared.method, "method")
    return [*page, *extra, method, Words(compared.signature, "signature")]


def comparison_screen(comparison: Comparison, extra: Iterable[Words | Table] = ()) -> Page:
    """Return a page for one screen: verdicts, one table of all measures, the pairs if few.

    The verdict on the first measure is the headline; those on others follow the table.
    """
    verdicts = list(comparison.verdicts.values())
    page: Page = [Words(verdicts[0], "verdict"), system_table(comparison)]
    page += [Words(verdict) for verdict in verdicts[1:]]
    if len(verdicts) == 1 and len(comparison.pairs) <= _FEW_PAIRS:
        page.append(pair_table(comparison))
    if comparison.slices is not None:
        for measure in comparison.verdicts:
            page += comparison.slices.page_on(measure)
    page += [Words(remark, "remark") for remark in comparison.remarks]
    return [*page, *extra, Words(comparison.signature, "signature")]


def outcome_data(pair: Pair) -> dict[str, Any]:
    """Return what came out for a pair as plain data; undefined numbers are None."""
    return {
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


def _count_data(pair: Pair) -> dict[str, Any]:
    effect = pair.effect
    if pair.items == "tasks":
        return {
            "tasks_won": effect.wins,
            "tasks_tied": effect.ties,
            "tasks_lost": effect.losses,
        }
    return {
        "n": effect.n,
        "removed": effect.n_removed,
        "wins": effect.wins,
        "ties": effect.ties,
        "losses": effect.losses,
        "standardised": or_none(effect.standardised),
        "superiority": or_none(effect.superiority),
        "minimum_detectable": or_none(pair.minimum_detectable),
    }


def pair_data(pair: Pair) -> dict[str, Any]:
    """Return everything about a pair as plain data; undefined numbers are None."""
    note = {"note": pair.test.note}
    if pair.items == "tasks":
        return {**outcome_data(pair), **_count_data(pair), **note}
    guess = pair.queries_needed if pair.outcome == "not separable" else None
    least, best, most = guess or (None, None, None)
    data = {
        **outcome_data(pair),
        "test": describe_test(pair.settings, pair.n_pairs, pair.n_slices),
        "exact": pair.test.exact,
        **_count_data(pair),
        "interval": pair.interval.method,
        "coherent": pair.coherent,
        "queries_needed": best,
        "queries_needed_low": least,
        "queries_needed_high": most,
        **note,
    }
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
    has no pairs: `note` says so.
    """

    name: str
    measure: str
    n_queries: int
    means: dict[str, float]
    pairs: tuple[Pair, ...]
    baseline: str | None = None
    note: str = ""

    @property
    def ranked(self) -> list[str]:
        """The systems, best mean first."""
        return sorted(
            self.means, key=lambda name: (math.isnan(self.means[name]), -self.means[name])
        )

    @property
    def verdict(self) -> str:
        """A sentence about the systems on these queries."""
        if not self.pairs:
            return f"Not tested on {self.measure}: {self.note}"
        if self.baseline is not None:
            return verdict_against(self.baseline, self.measure, self.pairs)
        return verdict_of_all(self.measure, self.ranked, self.pairs)

    @property
    def ordered_pairs(self) -> list[tuple[Pair, str]]:
        """Pairs by the place of their systems, and the system to put first."""
        place = {name: i for i, name in enumerate(self.ranked)}
        if self.baseline is not None:
            return [(pair, pair.a) for pair in sorted(self.pairs, key=lambda pair: place[pair.a])]
        pairs = sorted(self.pairs, key=lambda pair: sorted((place[pair.a], place[pair.b])))
        return [(pair, min(pair.a, pair.b, key=lambda name: place[name])) for pair in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.name,
            "n": self.n_queries,
            "verdict": self.verdict,
            "note": self.note,
            "means": {name: or_none(mean) for name, mean in self.means.items()},
            "pairs": [pair_data(pair) for pair in self.pairs],
        }


class Compared:
    """Systems compared block by block: what comparisons over queries and over tasks share."""

    names: tuple[str, ...]
    settings: ComparisonSettings
    standings: tuple[Standing, ...]
    baseline: str | None
    slices: SliceComparison | None

    @property
    def blocks(self) -> tuple[SystemBlock, ...]:
        """The blocks of all queries, one for each measure."""
        raise NotImplementedError

    @property
    def remarks(self) -> tuple[str, ...]:
        """What limits the numbers, a sentence each."""
        raise NotImplementedError

    @property
    def signature(self) -> str:
        """How the numbers were made."""
        raise NotImplementedError

    @property
    def method(self) -> str:
        """How p-values and intervals were computed."""
        raise NotImplementedError

    def sentences_on(self, block: SystemBlock) -> Sequence[str]:
        """Return the verdict on a block, a sentence each."""
        return (block.verdict,)

    @property
    def verdict(self) -> str:
        """The verdict on every measure, a line each."""
        return "\n".join(text for block in self.blocks for text in self.sentences_on(block))

    @property
    def family(self) -> str:
        """The pairs of a measure that share one error rate, in words."""
        n = len(self.blocks[0].pairs)
        if n == 1:
            return "one pair"
        if self.baseline is not None:
            return f"{n} systems against {self.baseline}"
        return f"all {n} pairs of {len(self.names)} systems"

    def data_table(self) -> Table:
        """Return everything about each pair, every digit, for CSV."""
        return data_table(self)

    def page(self) -> Page:
        """Return verdicts, tables and the method as words and tables."""
        return comparison_page(self)

    def to_latex(self) -> str:
        """Return verdicts, tables and the method, for a paper."""
        return latex_page(self.page())

    def __repr__(self) -> str:
        return text_page(self.page())

    def _repr_html_(self) -> str:
        return html_page(self.page())
