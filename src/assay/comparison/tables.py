"""Tables and text of comparisons: systems, pairs, conventions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import or_none
from assay.comparison.pairs import POWER
from assay.comparison.verdict import describe_test
from assay.core.text import fixed, signed
from assay.stats import INTERVAL_NAMES
from assay.stats.ranks import split_letters
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison, Standing
    from assay.comparison.pairs import Pair
    from assay.stats import RankInterval

__all__ = [
    "MOST_PAIRS",
    "comparison_page",
    "comparison_screen",
    "data_table",
    "describe_intervals",
    "ends_text",
    "format_p",
    "method_note",
    "outcome_data",
    "pair_cells",
    "pair_data",
    "pair_interval_head",
    "pair_table",
    "rank_text",
    "system_table",
    "tables_on",
]

MOST_PAIRS: Final = 45  # all pairs of ten systems; a longer table is not readable
_FEW_PAIRS: Final = 10  # of five systems; they fit on a screen below their means
_WORDS: Final = {"identical": "identical", "undecided": "–", "contradictory": "unclear"}


def system_table(comparison: Comparison, measure: str | None = None) -> Table:
    """A row for each system, best first; those that may be the best are marked."""
    named = [measure] if measure else list(map(str, comparison.measures))
    several = len(named) > 1
    versus = comparison.baseline is not None
    rows = []
    for name in named:
        front = (Cell(name),) if several else ()
        rows += [(*front, *row) for row in _system_rows(comparison, name)]
    last = f"vs {comparison.baseline}" if versus else "group letters"
    head = ("measure",) if several else ()
    return Table((*head, "system", "mean", _interval_head(comparison), "rank", last), tuple(rows))


def _interval_head(comparison: Comparison) -> str:
    return f"{100 * (1 - comparison.settings.level):g} % interval"


def pair_interval_head(pair: Pair) -> str:
    """What the intervals of pairs are: simultaneous, of one pair, or not of the test."""
    head = f"{100 * (1 - pair.settings.level):g} % interval"
    if not pair.coherent:
        return f"{head} ({INTERVAL_NAMES[pair.interval.method]}, not of the test)"
    return head


def _system_rows(comparison: Comparison, measure: str) -> Iterator[tuple[Cell, ...]]:
    standings = comparison.standings_on(measure)
    outcomes = {pair.a: pair.outcome for pair in comparison.pairs_on(measure)}
    top = set(split_letters(standings[0].letters))
    for one in standings:
        first = bool(top & set(split_letters(one.letters)))
        if comparison.baseline is None:
            last = Cell(one.letters or None)
        else:
            last = Cell(_against(one.name, comparison.baseline, outcomes))
            first = outcomes.get(one.name) == "better"
        yield (
            Cell(one.name),
            Cell(one.mean.estimate, "fraction", first),
            Cell(ends_text(one.mean.low, one.mean.high), "figure"),
            Cell(rank_text(one.rank), "figure"),
            last,
        )


def _against(name: str, baseline: str, outcomes: dict[str, str]) -> str:
    if name == baseline:
        return "baseline"
    return _WORDS.get(outcomes[name], outcomes[name])


def rank_text(rank: RankInterval) -> str | None:
    """A rank and its ends, if any."""
    if math.isnan(rank.rank):
        return None
    if math.isnan(rank.low):
        return f"{rank.rank:g}"
    return f"{rank.rank:g} [{rank.low:g}, {rank.high:g}]"


def ends_text(low: float, high: float, *, sign: bool = False) -> str | None:
    """The ends of an interval; None where there are none."""
    if math.isnan(low):
        return None
    return f"[{fixed(low, sign=sign)}, {fixed(high, sign=sign)}]"


def pair_table(comparison: Comparison, measure: str | None = None) -> Table:
    """A row for each pair: the better mean first, or each system − the baseline.

    Differences that the test separates are marked.
    """
    named = [measure] if measure else list(map(str, comparison.measures))
    several = len(named) > 1
    rows = []
    for name in named:
        front = (Cell(name),) if several else ()
        rows += [(*front, *pair_cells(pair, first)) for pair, first in _in_order(comparison, name)]
    head = ("measure",) if several else ()
    columns = ("pair", "difference", pair_interval_head(comparison.pairs[0]), "p", "W/T/L", "d")
    return Table((*head, *columns), tuple(rows), n_optional=2)


def _in_order(comparison: Comparison, measure: str) -> list[tuple[Pair, str]]:
    """Pairs by the place of their systems, and the system to put first."""
    place = {one.name: i for i, one in enumerate(comparison.standings_on(measure))}
    if comparison.baseline is not None:
        pairs = sorted(comparison.pairs_on(measure), key=lambda pair: place[pair.a])
        return [(pair, pair.a) for pair in pairs]
    found = [
        (pair, min(pair.a, pair.b, key=lambda name: place[name]))
        for pair in comparison.pairs_on(measure)
    ]
    return sorted(found, key=lambda one: sorted((place[one[0].a], place[one[0].b])))


def pair_cells(pair: Pair, first: str) -> tuple[Cell, ...]:
    """The cells of one pair, with one of the two first."""
    second = pair.b if first == pair.a else pair.a
    difference, low, high = pair.difference_of(first)
    turn = 1 if first == pair.a else -1
    counts = (pair.effect.wins, pair.effect.ties, pair.effect.losses)[::turn]
    clear = pair.winner is not None
    d = turn * pair.effect.standardised
    return (
        Cell(f"{first} − {second}"),
        Cell(None if math.isnan(difference) else signed(difference), "figure", clear),
        Cell(ends_text(low, high, sign=True), "figure"),
        Cell(format_p(pair.p), "figure", clear),
        Cell("/".join(map(str, counts)), "figure"),
        Cell(None if math.isnan(d) else f"{d:+.2f}", "figure"),
    )


def format_p(p: float) -> str | None:
    """Four decimals; a smaller p is not rounded to 0."""
    if math.isnan(p):
        return None
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def data_table(comparison: Comparison) -> Table:
    """Everything about each pair, every digit, for CSV; with slices, also those of each slice."""
    sliced = comparison.slices is not None
    columns = (
        *(["slice"] if sliced else []),
        "measure",
        "a",
        "b",
        "outcome",
        "mean_a",
        "mean_b",
        "difference",
        "low",
        "high",
        "p",
        "p_uncorrected",
        "n",
        "removed",
        "wins",
        "ties",
        "losses",
        "standardised",
        "minimum_detectable",
    )
    return Table(columns, tuple(_data_rows(comparison)))


def _data_rows(comparison: Comparison) -> Iterator[tuple[Cell, ...]]:
    means = {(one.measure, one.name): one.mean.estimate for one in comparison.standings}
    found = comparison.slices
    for pair in comparison.pairs:
        own = (means[pair.measure, pair.a], means[pair.measure, pair.b])
        yield (*([] if found is None else [Cell("")]), *_data_row(pair, own))
    for one in () if found is None else found.slices:
        for pair in one.pairs:
            yield (Cell(one.name), *_data_row(pair, (one.means[pair.a], one.means[pair.b])))


def _data_row(pair: Pair, means: tuple[float, float]) -> tuple[Cell, ...]:
    effect, interval = pair.effect, pair.interval
    numbers = (*means, pair.difference, interval.low, interval.high, pair.p, pair.test.p)
    counts = (effect.n, effect.n_removed, effect.wins, effect.ties, effect.losses)
    return (
        *(Cell(text) for text in (pair.measure, pair.a, pair.b, pair.outcome)),
        *(Cell(number, "fraction") for number in numbers),
        *(Cell(count, "count") for count in counts),
        *(Cell(x, "fraction") for x in (effect.standardised, pair.minimum_detectable)),
    )


def tables_on(comparison: Comparison, measure: str) -> list[Table]:
    """The systems and, where they can be read, the pairs."""
    tables = [system_table(comparison, measure)]
    if len(comparison.pairs_on(measure)) <= MOST_PAIRS:
        tables.append(pair_table(comparison, measure))
    return tables


def method_note(comparison: Comparison) -> str:
    """How p-values and intervals were computed, and over which family."""
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
    """Level and kind of the intervals of means, as they came out."""
    means = [one.mean for one in standings]
    kinds = dict.fromkeys(INTERVAL_NAMES[one.method] for one in means)
    return f"{100 * means[0].level:g} % {' or '.join(kinds)}"


def power_note(comparison: Comparison, measure: str) -> str:
    """The minimum detectable difference of these queries."""
    found = [pair.minimum_detectable for pair in comparison.pairs_on(measure)]
    known = [number for number in found if not math.isnan(number)]
    if not known or max(known) == 0:
        return ""
    low, high = f"{min(known):.4f}", f"{max(known):.4f}"
    least = low if low == high else f"{low} to {high}, depending on the pair"
    return f"Minimum detectable difference ({100 * POWER:g} % power): {least}."


def comparison_page(comparison: Comparison, extra: Iterable[Words | Table] = ()) -> Page:
    """Verdict and tables of each measure, then `extra`, remarks, method and signature."""
    page: Page = []
    for measure, verdict in comparison.verdicts.items():
        page.append(Words(verdict, "verdict"))
        page += tables_on(comparison, measure)
        page.append(Words(power_note(comparison, measure), "method"))
        if comparison.slices is not None:
            page += comparison.slices.page_on(measure)
    page += [Words(remark, "remark") for remark in comparison.remarks]
    method = Words(comparison.method, "method")
    return [*page, *extra, method, Words(comparison.signature, "signature")]


def comparison_screen(comparison: Comparison, extra: Iterable[Words | Table] = ()) -> Page:
    """The same on one screen: the verdicts, one table of all measures, the pairs if they are few.

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


def _needed_data(pair: Pair) -> dict[str, int | None]:
    guess = pair.queries_needed if pair.outcome == "not separable" else None
    least, best, most = guess or (None, None, None)
    return {
        "queries_needed": best,
        "queries_needed_low": least,
        "queries_needed_high": most,
    }


def outcome_data(pair: Pair) -> dict[str, Any]:
    """What came out for a pair as plain data; undefined numbers are None."""
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


def pair_data(pair: Pair) -> dict[str, Any]:
    """Everything about a pair as plain data; undefined numbers are None."""
    data = {
        **outcome_data(pair),
        "test": describe_test(pair.settings, pair.n_pairs, pair.n_slices),
        "exact": pair.test.exact,
        "n": pair.effect.n,
        "removed": pair.effect.n_removed,
        "wins": pair.effect.wins,
        "ties": pair.effect.ties,
        "losses": pair.effect.losses,
        "standardised": or_none(pair.effect.standardised),
        "superiority": or_none(pair.effect.superiority),
        "minimum_detectable": or_none(pair.minimum_detectable),
        "interval": pair.interval.method,
        "coherent": pair.coherent,
        **_needed_data(pair),
        "note": pair.test.note,
    }
    if pair.equivalence is not None:
        data["p_equivalent"] = or_none(pair.equivalence.p)
        for key, name in (("p_a_non_inferior", pair.a), ("p_b_non_inferior", pair.b)):
            test = pair.non_inferiority(name)
            data[key] = None if test is None else or_none(test.p)
    return data
