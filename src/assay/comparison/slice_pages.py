"""Sentences and tables of slices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from assay.comparison.tables import (
    MOST_PAIRS,
    ends_text,
    format_p,
    pair_cells,
    pair_interval_head,
)
from assay.comparison.verdict import describe_p, describe_test, join_names
from assay.core.text import fixed, signed
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table

if TYPE_CHECKING:
    from assay.comparison.slices import Contrast, Slice, SliceComparison
    from assay.measures import Measure

__all__ = [
    "slice_means_table",
    "slice_method",
    "slice_page",
    "slice_pairs_table",
    "slice_sentences",
]

_MEAN: Final = "mean of slices"


def slice_page(found: SliceComparison, measure: str) -> Page:
    """Sentences, means and, where they can be read, pairs of one measure."""
    page: Page = [Words(sentence) for sentence in found.verdicts[measure]]
    tables = [slice_means_table(found, measure), slice_pairs_table(found, measure)]
    return [*page, *(table for table in tables[: 1 + (len(tables[1].rows) <= MOST_PAIRS)])]


def slice_sentences(found: SliceComparison, measure: str | Measure) -> Iterator[str]:
    """Where who is better, whether the difference depends on the slice, and the mean of slices."""
    yield f"By {found.column}: {_where(found.slices_on(measure))}"
    first = _first(found, str(measure))
    unlike = {
        (pair.a, pair.b)
        for one in found.tested_on(measure)
        for pair in one.pairs
        if pair.outcome != "identical"
    }
    contrasts, macro = (
        [
            one.seen_from(first[one.a, one.b])
            for one in every
            if not math.isnan(one.p) and (one.a, one.b) in unlike
        ]
        for every in (found.interactions_on(measure), found.macro_on(measure))
    )
    if contrasts:
        yield _dependence(found.column, contrasts, [one.name for one in found.tested_on(measure)])
    if len(macro) == 1:
        yield f"In the mean of {len(found.tested_on(measure))} slices {_describe_macro(macro[0])}"


def _first(found: SliceComparison, measure: str) -> dict[tuple[str, str], str]:
    """Of each pair the one whose difference to the other is shown: the same in all slices."""
    tested = found.tested_on(measure)
    return {
        (pair.a, pair.b): pair.b
        if tested[0].baseline is None and _total(tested, pair.a) < _total(tested, pair.b)
        else pair.a
        for pair in (tested[0].pairs if tested else ())
    }


def _total(slices: Sequence[Slice], name: str) -> float:
    known = [one for one in slices if not math.isnan(one.means[name])]
    return math.fsum(one.n_queries * one.means[name] for one in known)


def _where(slices: Sequence[Slice]) -> str:
    """In which slices who is better; of several pairs, how many are separated."""
    groups: dict[str, list[str]] = {}
    for one in slices:
        groups.setdefault(_outcome(one), []).append(one.name)
    return "; ".join(f"{what} in {join_names(names)}" for what, names in groups.items())


def _outcome(one: Slice) -> str:
    if not one.pairs:
        return "too few queries"
    if len(one.pairs) > 1:
        clear = sum(pair.winner is not None for pair in one.pairs)
        return f"{clear or 'none'} of {len(one.pairs)} pairs separated"
    pair = one.pairs[0]
    return pair.outcome if pair.winner is None else f"{pair.winner} better than {pair.loser}"


def _dependence(column: str, contrasts: Sequence[Contrast], names: Sequence[str]) -> str:
    """Whether a difference depends on the slice; of several pairs, one of which that is shown."""
    how = "max-t" if len(contrasts) == 1 else f"max-t over {len(contrasts)} contrasts"
    one_pair = len({(c.a, c.b) for c in contrasts}) == 1
    clear = sorted((c for c in contrasts if c.clear), key=lambda c: c.p)
    if not clear:
        smallest = describe_p(min(c.p for c in contrasts))
        what = "The difference is not" if one_pair else "No difference is"
        return f"{what} shown to depend on {column}: {smallest} ({how})"
    most = clear[0]
    turn, how_much = (1, "larger") if most.difference > 0 else (-1, "smaller")
    low, high = sorted((turn * most.low, turn * most.high))
    also = [c.slice if one_pair else f"{c.slice} ({c.a} − {c.b})" for c in clear[1:]]
    others = names[1] if len(names) == 2 else "the mean of the others"
    more = f"; it is another also in {join_names(also)}" if also else ""
    return (
        f"The difference {most.a} − {most.b} depends on {column}: in {most.slice} it is {how_much} "
        f"by {abs(most.difference):.4f} [{fixed(low)}, {fixed(high)}] than in {others}, "
        f"{describe_p(most.p)} ({how}){more}"
    )


def _describe_macro(found: Contrast) -> str:
    ends = "no interval" if math.isnan(found.low) else f"[{fixed(found.low)}, {fixed(found.high)}]"
    words = f"{signed(found.difference)} {ends}, {describe_p(found.p)} (max-t)"
    if not found.clear:
        return f"{found.a} and {found.b} are not separable: {words}"
    return f"{found.a} is {'better' if found.difference > 0 else 'worse'} than {found.b}: {words}"


def slice_method(found: SliceComparison) -> str:
    """How the slices were corrected, and over which family."""
    tested = found.tested_on(found.measures[0])
    if not tested:
        return f"Slices: {found.family}."
    pair = tested[0].pairs[0]
    words = describe_test(found.settings, pair.n_pairs, pair.n_slices)
    rest = "; their mean and dependence: max-t, families of their own" if found.macro else ""
    return f"Slices: {words} ({found.family}){rest}."


def slice_pairs_table(found: SliceComparison, measure: str) -> Table:
    """A row for each slice and pair, then the mean of slices; differences are always a − b."""
    first, tested = _first(found, measure), found.tested_on(measure)
    rows = [row for one in found.slices_on(measure) for row in _slice_rows(one, first)]
    rows += [_contrast_row(one.seen_from(first[one.a, one.b])) for one in found.macro_on(measure)]
    head = pair_interval_head(tested[0].pairs[0]) if tested else "interval"
    columns = (found.column, "n", "pair", "difference", head, "p", "W/T/L")
    return Table(columns, tuple(rows), n_optional=1)


def _slice_rows(one: Slice, first: dict[tuple[str, str], str]) -> Iterator[tuple[Cell, ...]]:
    front = (Cell(one.name), Cell(one.n_queries, "count"))
    if not one.pairs:
        yield (*front, Cell("too few to test"), *(Cell(None, "figure") for _ in range(4)))
    for pair in one.pairs:
        yield (*front, *pair_cells(pair, first[pair.a, pair.b])[:5])


def _contrast_row(found: Contrast) -> tuple[Cell, ...]:
    known = not math.isnan(found.difference)
    return (
        Cell(_MEAN),
        Cell(None, "count"),
        Cell(f"{found.a} − {found.b}"),
        Cell(signed(found.difference) if known else None, "figure", found.clear),
        Cell(ends_text(found.low, found.high, sign=True), "figure"),
        Cell(format_p(found.p), "figure", found.clear),
        Cell(None, "figure"),
    )


def slice_means_table(found: SliceComparison, measure: str) -> Table:
    """A row for each slice with the means of the systems; last, the mean of slices."""
    slices = found.slices_on(measure)
    rows = [
        (Cell(one.name), Cell(one.n_queries, "count"), *_mean_cells(list(one.means.values())))
        for one in slices
    ]
    macro = [mean.estimate for (own, _), mean in found.means.items() if own == measure]
    if macro:
        rows.append((Cell(_MEAN), Cell(None, "count"), *_mean_cells(macro)))
    return Table((found.column, "n", *slices[0].means), tuple(rows))


def _mean_cells(means: Sequence[float]) -> Iterator[Cell]:
    top = max((mean for mean in means if not math.isnan(mean)), default=math.nan)
    return (Cell(mean, "fraction", mean == top) for mean in means)
