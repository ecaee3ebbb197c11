"""Tables and text of comparisons: systems, pairs, queries, conventions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from assay.comparison.pairs import POWER
from assay.comparison.verdict import METHOD_NAMES, method_words
from assay.core.text import signed
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison, Standing
    from assay.comparison.differences import QueryDifference, QueryDifferences
    from assay.comparison.pairs import Pair
    from assay.comparison.sensitivity import Sensitivity

__all__ = [
    "MOST_PAIRS",
    "comparison_page",
    "data_table",
    "difference_table",
    "method_note",
    "pair_table",
    "sensitivity_table",
    "system_table",
    "tables_on",
]

MOST_PAIRS: Final = 45  # all pairs of ten systems; beyond, nobody reads such a table
_MOST_MEANS: Final = 6
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
    last = f"vs {comparison.baseline}" if versus else "tie group"
    head = ("measure",) if several else ()
    return Table((*head, "system", "mean", _interval_head(comparison), "rank", last), tuple(rows))


def _interval_head(comparison: Comparison) -> str:
    return f"{100 * (1 - comparison.settings.level):g} % interval"


def _system_rows(comparison: Comparison, measure: str) -> Iterator[tuple[Cell, ...]]:
    standings = comparison.standings_on(measure)
    outcomes = {pair.a: pair.outcome for pair in comparison.pairs_on(measure)}
    top = set(_letters_of(standings[0]))
    for one in standings:
        first = bool(top & set(_letters_of(one)))
        if comparison.baseline is None:
            last = Cell(one.letters or None)
        else:
            last = Cell(_against(one.name, comparison.baseline, outcomes))
            first = outcomes.get(one.name) == "better"
        yield (
            Cell(one.name),
            Cell(one.mean.estimate, "fraction", first),
            Cell(_ends(one.mean.low, one.mean.high), "figure"),
            Cell(_rank(one), "figure"),
            last,
        )


def _letters_of(one: Standing) -> list[str]:
    return one.letters.split(",") if "," in one.letters else list(one.letters)


def _against(name: str, baseline: str, outcomes: dict[str, str]) -> str:
    if name == baseline:
        return "baseline"
    return _WORDS.get(outcomes[name], outcomes[name])


def _rank(one: Standing) -> str | None:
    if math.isnan(one.rank.rank):
        return None
    if math.isnan(one.rank.low):
        return f"{one.rank.rank:g}"
    return f"{one.rank.rank:g} [{one.rank.low:g}, {one.rank.high:g}]"


def _ends(low: float, high: float, *, sign: bool = False) -> str | None:
    if math.isnan(low):
        return None
    return f"[{signed(low)}, {signed(high)}]" if sign else f"[{low:.4f}, {high:.4f}]"


def pair_table(comparison: Comparison, measure: str | None = None) -> Table:
    """A row for each pair: the better mean first, or each system less the baseline.

    Differences that the test separates are marked.
    """
    named = [measure] if measure else list(map(str, comparison.measures))
    several = len(named) > 1
    rows = []
    for name in named:
        front = (Cell(name),) if several else ()
        rows += [(*front, *_pair_row(pair, first)) for pair, first in _in_order(comparison, name)]
    head = ("measure",) if several else ()
    columns = ("pair", "difference", _interval_head(comparison), "p", "W/T/L", "d")
    return Table((*head, *columns), tuple(rows), luxuries=2)


def _in_order(comparison: Comparison, measure: str) -> list[tuple[Pair, str]]:
    """Pairs by the place of their systems, and whom to put first."""
    place = {one.name: i for i, one in enumerate(comparison.standings_on(measure))}
    if comparison.baseline is not None:
        pairs = sorted(comparison.pairs_on(measure), key=lambda pair: place[pair.a])
        return [(pair, pair.a) for pair in pairs]
    found = [
        (pair, min(pair.a, pair.b, key=lambda name: place[name]))
        for pair in comparison.pairs_on(measure)
    ]
    return sorted(found, key=lambda one: sorted((place[one[0].a], place[one[0].b])))


def _pair_row(pair: Pair, first: str) -> tuple[Cell, ...]:
    second = pair.b if first == pair.a else pair.a
    difference, low, high = pair.seen_from(first)
    turn = 1 if first == pair.a else -1
    counts = (pair.effect.wins, pair.effect.ties, pair.effect.losses)[::turn]
    clear = pair.winner is not None
    d = turn * pair.effect.standardised
    return (
        Cell(f"{first} − {second}"),
        Cell(None if math.isnan(difference) else signed(difference), "figure", clear),
        Cell(_ends(low, high, sign=True), "figure"),
        Cell(shown_p(pair.p), "figure", clear),
        Cell("/".join(map(str, counts)), "figure"),
        Cell(None if math.isnan(d) else f"{d:+.2f}", "figure"),
    )


def shown_p(p: float) -> str | None:
    """Four decimals; what is smaller is not shown as 0."""
    if math.isnan(p):
        return None
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def data_table(comparison: Comparison) -> Table:
    """Everything about each pair, every digit, for CSV."""
    columns = (
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
    for pair in comparison.pairs:
        effect = pair.effect
        numbers = (
            means[pair.measure, pair.a],
            means[pair.measure, pair.b],
            pair.difference,
            pair.interval.low,
            pair.interval.high,
            pair.p,
            pair.test.p,
        )
        counts = (effect.n, effect.n_removed, effect.wins, effect.ties, effect.losses)
        yield (
            *(Cell(text) for text in (pair.measure, pair.a, pair.b, pair.outcome)),
            *(Cell(number, "fraction") for number in numbers),
            *(Cell(count, "count") for count in counts),
            *(Cell(x, "fraction") for x in (effect.standardised, pair.minimum_detectable)),
        )


def difference_table(found: QueryDifferences, n: int) -> Table:
    """The largest wins and the largest losses of the first system."""
    rows = [
        *(_query_row("win", row) for row in found.wins(n)),
        *(_query_row("loss", row) for row in reversed(found.losses(n))),
    ]
    return Table(("", "query", found.a, found.b, "difference"), tuple(rows))


def _query_row(kind: str, row: QueryDifference) -> tuple[Cell, ...]:
    return (
        Cell(kind),
        Cell(row.query),
        Cell(row.value_a, "fraction"),
        Cell(row.value_b, "fraction"),
        Cell(signed(row.difference), "figure"),
    )


def sensitivity_table(found: Sensitivity) -> Table:
    """A row for each rule that changes a number: means, who is first, and how surely."""
    names = found.base.names if len(found.base.names) <= _MOST_MEANS else ()
    rows = []
    for rule, comparison in found.comparisons.items():
        if rule in found.unchanged:
            continue
        means = {one.name: one.mean.estimate for one in comparison.standings}
        top = found.firsts()[rule]
        rows.append(
            (
                Cell(rule),
                *(Cell(means[name], "fraction", name in top) for name in names),
                Cell(" and ".join(top)),
                _surety(comparison),
            )
        )
    last = "p (1st, 2nd)" if found.base.baseline is None else f"better than {found.base.baseline}"
    return Table(("rule", *names, "first", last), tuple(rows))


def _surety(comparison: Comparison) -> Cell:
    """How surely the first is first, or who is better than the baseline."""
    from assay.comparison.sensitivity import top_pair

    if comparison.baseline is not None:
        return Cell(", ".join(pair.a for pair in comparison.pairs if pair.winner == pair.a) or None)
    pair = top_pair(comparison)
    return Cell(shown_p(pair.p), "figure", pair.winner is not None)


def tables_on(comparison: Comparison, measure: str) -> list[Table]:
    """The systems and, where they can be read, the pairs."""
    tables = [system_table(comparison, measure)]
    if len(comparison.pairs_on(measure)) <= MOST_PAIRS:
        tables.append(pair_table(comparison, measure))
    return tables


def method_note(comparison: Comparison) -> str:
    """How p-values and intervals were found, and what these queries can show."""
    settings = comparison.settings
    n_pairs = len(comparison.pairs) // len(comparison.measures)
    over = f" over {n_pairs} pairs" if n_pairs > 1 and settings.correction != "none" else ""
    drawn = f"{settings.resamples:,} resamples, seed {settings.seed}"
    unit = "" if settings.by is None else f"; queries of one {settings.by} are kept together"
    name = METHOD_NAMES.get(settings.interval, settings.interval)
    return (
        f"p: {method_words(settings, n_pairs)}{over}, {drawn}. Intervals: "
        f"{100 * (1 - settings.level):g} % {name}, not corrected{unit}."
    )


def power_note(comparison: Comparison, measure: str) -> str:
    """The smallest difference that these queries show reliably."""
    found = [pair.minimum_detectable for pair in comparison.pairs_on(measure)]
    known = [number for number in found if not math.isnan(number)]
    if not known or max(known) == 0:
        return ""
    low, high = f"{min(known):.4f}", f"{max(known):.4f}"
    least = low if low == high else f"{low} to {high}, depending on the pair"
    chance = f"{100 * POWER:g} %"
    return f"Smallest true difference that these queries show with a chance of {chance}: {least}."


def comparison_page(comparison: Comparison, extra: Iterable[Words | Table] = ()) -> Page:
    """Verdict and tables of each measure, what else was asked for, then how all was made."""
    page: Page = []
    for measure, verdict in comparison.verdicts.items():
        page.append(Words(verdict, "verdict"))
        page += tables_on(comparison, measure)
        page.append(Words(power_note(comparison, measure)))
    page += [Words(remark) for remark in comparison.remarks]
    return [*page, *extra, Words(comparison.method), Words(comparison.signature, "signature")]
