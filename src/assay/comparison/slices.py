"""Slices of the queries: a verdict for each, whether the difference depends on it, and their mean.

All pairs in all slices are one family. Whether a difference depends on the slice is a test of
contrasts, each slice against the mean of the others, with variances of their own (Hasler & Hothorn
2008, Biometrical Journal 50), whose largest is drawn by random signs as that of pairs is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import Flags, Floats, Ints, or_none
from assay.comparison.alignment import Aligned
from assay.comparison.pairs import ComparisonSettings, Pair, compare_pairs
from assay.comparison.tables import (
    SystemBlock,
    difference_cells,
    pair_cells,
    pair_interval_head,
)
from assay.comparison.verdict import describe_p, describe_test, join_names
from assay.core.text import natural_order, signed
from assay.errors import UsageError
from assay.measures import Measure
from assay.stats import Interval, JointPairs, compare_jointly
from assay.stats.choices import MOST_PAIRS
from assay.tables.table import Cell, Page, Table, Words

FEWEST_UNITS: Final = 6  # the fewest of which all signs together can be significant at 5 %
MOST_SLICES: Final = 100


@dataclass(frozen=True)
class Contrast:
    """A difference a − b over slices: the mean of all, or that of one beside the others' mean.

    The interval is simultaneous and leaves out 0 exactly if p ≤ `level`.
    """

    measure: str
    a: str
    b: str
    slice: str  # empty for the mean of all
    interval: Interval
    p: float
    level: float

    @property
    def difference(self) -> float:
        """The estimate."""
        return self.interval.estimate

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.interval.low

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.interval.high

    @property
    def clear(self) -> bool:
        """Whether it is significant."""
        return self.p <= self.level

    def seen_from(self, first: str) -> Contrast:
        """Return it as a difference of this system to the other."""
        if first == self.a:
            return self
        return replace(self, a=self.b, b=self.a, interval=-self.interval)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**self.interval.to_dict("difference"), "p": or_none(self.p)}


def call_measures(parts: Iterable[Any], names: Mapping[str, str]) -> tuple[Any, ...]:
    """Return parts of a comparison with other names of their measures."""
    return tuple(replace(part, measure=names.get(part.measure, part.measure)) for part in parts)


@dataclass(frozen=True, eq=False)
class SliceComparison:
    """Systems compared in slices of the queries; made by `compare` with `slices`.

    `interactions` say of each pair and slice (of two slices, the first) by how much the difference
    is another than in the mean of the other slices, `macro` what it is in the mean of slices, in
    which each counts the same, and `means` what that is for each (measure, system). All three are
    of the slices that were tested, and empty where fewer than two were.
    """

    column: str
    measures: tuple[Measure, ...]
    settings: ComparisonSettings
    slices: tuple[SystemBlock, ...]
    interactions: tuple[Contrast, ...]
    macro: tuple[Contrast, ...]
    means: dict[tuple[str, str], Interval]
    remarks: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the slices, in natural order."""
        return tuple(block.name for block in self.slices_on(self.measures[0]))

    def called(self, names: Mapping[str, str], measures: tuple[Measure, ...]) -> SliceComparison:
        """Return a copy with other names of measures; see `Comparison.called`."""
        blocks = [replace(part, pairs=call_measures(part.pairs, names)) for part in self.slices]
        return replace(
            self,
            measures=measures,
            slices=call_measures(blocks, names),
            interactions=call_measures(self.interactions, names),
            macro=call_measures(self.macro, names),
            means={(names.get(m, m), system): part for (m, system), part in self.means.items()},
        )

    def slices_on(self, measure: str | Measure) -> tuple[SystemBlock, ...]:
        """Return the slices on one measure."""
        return tuple(block for block in self.slices if block.measure == str(measure))

    def tested_on(self, measure: str | Measure) -> tuple[SystemBlock, ...]:
        """Return those that are large enough."""
        return tuple(block for block in self.slices_on(measure) if block.pairs)

    def interactions_on(self, measure: str | Measure) -> list[Contrast]:
        """Return each pair in each slice beside the mean of the others."""
        return [contrast for contrast in self.interactions if contrast.measure == str(measure)]

    def macro_on(self, measure: str | Measure) -> list[Contrast]:
        """Return each pair in the mean of slices."""
        return [contrast for contrast in self.macro if contrast.measure == str(measure)]

    def interaction_p(self, a: str, b: str, measure: str | Measure) -> float:
        """p of a difference that is the same in all slices; NaN where it was not tested."""
        p_values = [c.p for c in self.interactions_on(measure) if {c.a, c.b} == {a, b}]
        return min((p for p in p_values if not math.isnan(p)), default=math.nan)

    @property
    def family(self) -> str:
        """What shares one error rate, in words."""
        tested = self.tested_on(self.measures[0])
        if not tested:
            return "no slice is large enough"
        pairs = "one pair" if len(tested[0].pairs) == 1 else f"all {len(tested[0].pairs)} pairs"
        return f"{pairs} in {len(tested)} slice{'' if len(tested) == 1 else 's'} by {self.column}"

    @property
    def method(self) -> str:
        """How the slices were corrected, and over which family."""
        return slice_method(self)

    @cached_property
    def verdicts(self) -> dict[str, list[str]]:
        """For each measure: where who is better, whether it depends on the slice, and the mean."""
        return {str(measure): list(slice_sentences(self, measure)) for measure in self.measures}

    def table(self, measure: str | Measure) -> Table:
        """Return a row for each slice and pair.

        Then, if there are two, the mean of slices.
        """
        return slice_pairs_table(self, str(measure))

    def means_table(self, measure: str | Measure) -> Table:
        """Return a row for each slice with the means of the systems.

        Last, the mean of slices.
        """
        return slice_means_table(self, str(measure))

    def page_on(self, measure: str | Measure) -> Page:
        """Return sentences and tables of one measure."""
        return slice_page(self, str(measure))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return {
            "column": self.column,
            "family": self.family,
            "measures": {name: self._measure_data(name) for name in map(str, self.measures)},
            "remarks": list(self.remarks),
        }

    def _measure_data(self, measure: str) -> dict[str, Any]:
        means = {
            name: mean
            for (name_of_measure, name), mean in self.means.items()
            if name_of_measure == measure
        }
        return {
            "verdicts": self.verdicts[measure],
            "slices": [block.to_dict() for block in self.slices_on(measure)],
            "interaction": list(self._interaction_data(measure)),
            "macro": {
                "systems": [{"name": name, **mean.to_dict("mean")} for name, mean in means.items()],
                "pairs": [{"a": c.a, "b": c.b, **c.to_dict()} for c in self.macro_on(measure)],
            },
        }

    def _interaction_data(self, measure: str) -> Iterator[dict[str, Any]]:
        contrasts = self.interactions_on(measure)
        for a, b in dict.fromkeys((c.a, c.b) for c in contrasts):
            yield {
                "a": a,
                "b": b,
                "p": or_none(self.interaction_p(a, b, measure)),
                "beside_the_others": [
                    {"slice": c.slice, **c.to_dict()} for c in contrasts if (c.a, c.b) == (a, b)
                ],
            }


def compare_slices(
    aligned: Aligned,
    column: str,
    index_pairs: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
    baseline: str | None,
) -> SliceComparison:
    """Compare the systems in each slice of the queries that the labels of `aligned` make."""
    if settings.correction == "tukey":
        raise UsageError("Correction tukey is of one set of queries; slices go with max-t or holm.")
    cut = _SliceQueries.of(aligned, column)
    slices: list[SystemBlock] = []
    interactions: list[Contrast] = []
    macro: list[Contrast] = []
    means: dict[tuple[str, str], Interval] = {}
    for row, measure in enumerate(aligned.measures):
        task = _OneMeasure(aligned, measure, aligned.values[:, row], cut, index_pairs, settings)
        slices += task.slices(baseline)
        n = len(cut.tested)
        if n > 1:
            beside = _beside_others(n)
            interactions += task.contrasts(beside, cut.tested[: len(beside)])
            macro += task.contrasts(np.full((1, n), 1 / n), [""])
            means |= {(str(measure), name): mean for name, mean in task.macro_means(n)}
    return SliceComparison(
        column,
        aligned.measures,
        settings,
        tuple(slices),
        tuple(interactions),
        tuple(macro),
        means,
        tuple(_remarks(column, cut, settings)),
    )


@dataclass(frozen=True, eq=False)
class _SliceQueries:
    """Which query is in which slice; `numbers` are those of the slices that are tested, or −1."""

    names: list[str]
    tested: list[str]
    inside: dict[str, Flags]
    n_units: dict[str, int]
    numbers: Ints
    n_without: int

    @classmethod
    def of(cls, aligned: Aligned, column: str) -> _SliceQueries:
        labels = np.asarray(aligned.slices)
        names = sorted(set(labels.tolist()) - {""}, key=natural_order)
        if not names:
            raise UsageError(f"No query has a slice: the column {column!r} is empty.")
        inside = {name: labels == name for name in names}
        n_units = {name: _count_units(aligned, inside[name]) for name in names}
        tested = [name for name in names if n_units[name] >= FEWEST_UNITS]
        if len(tested) > MOST_SLICES:
            raise UsageError(
                f"The column {column!r} cuts the queries into {len(tested):,} slices, more than "
                f"{MOST_SLICES}. Slices are a few kinds of queries; if these are groups of "
                "dependent queries, name the column with by (--by)."
            )
        numbers = np.full(len(labels), -1)
        for number, name in enumerate(tested):
            numbers[inside[name]] = number
        return cls(names, tested, inside, n_units, numbers, int((labels == "").sum()))


def _count_units(aligned: Aligned, inside: Flags) -> int:
    """Return queries of a slice, or groups of queries, for which some system has a value."""
    defined = inside & ~np.isnan(aligned.values).all(axis=(0, 1))
    return int(defined.sum()) if aligned.clusters is None else len(set(aligned.clusters[defined]))


def _beside_others(n: int) -> Floats:
    """Return for each slice the difference in it less the mean of those in the others.

    One row of two.
    """
    weights = np.full((n, n), -1 / (n - 1))
    np.fill_diagonal(weights, 1.0)
    return weights if n > 2 else weights[:1]


@dataclass(frozen=True, eq=False)
class _OneMeasure:
    """What all that is said of one measure is computed from."""

    aligned: Aligned
    measure: Measure
    values: Floats
    cut: _SliceQueries
    index_pairs: Sequence[tuple[int, int]]
    settings: ComparisonSettings

    def slices(self, baseline: str | None) -> Iterator[SystemBlock]:
        pairs = iter(self._pairs() if self.cut.tested else [])
        for name in self.cut.names:
            inside, tested = self.cut.inside[name], name in self.cut.tested
            tested_pairs = tuple(next(pairs) for _ in self.index_pairs) if tested else ()
            note = "" if tested else _too_few(self.cut.n_units[name], self.settings)
            n, means = int(inside.sum()), self._means(inside)
            yield SystemBlock(name, str(self.measure), n, means, tested_pairs, baseline, note)

    def _pairs(self) -> list[Pair]:
        return compare_pairs(
            str(self.measure),
            self.aligned.names,
            self.values,
            self.index_pairs,
            settings=self.settings,
            clusters=self.aligned.clusters,
            slices=self.cut.numbers,
            bounds=self.measure.bounds,
        )

    def _means(self, inside: Flags) -> dict[str, float]:
        means = {}
        for name, row in zip(self.aligned.names, self.values[:, inside], strict=True):
            values = row[~np.isnan(row)]
            means[name] = math.fsum(values.tolist()) / len(values) if len(values) else math.nan
        return means

    def _infer(
        self, values: Floats, index_pairs: Sequence[tuple[int, int]], weights: Floats
    ) -> JointPairs:
        return compare_jointly(
            values,
            index_pairs,
            clusters=self.aligned.clusters,
            blocks=self.cut.numbers,
            contrasts=weights,
            level=self.settings.level,
            resamples=self.settings.resamples,
            seed=self.settings.seed,
            bounds=self.measure.bounds,
        )

    def contrasts(self, weights: Floats, names: Sequence[str]) -> Iterator[Contrast]:
        joint, systems = self._infer(self.values, self.index_pairs, weights), self.aligned.names
        cells = [(name, a, b) for name in names for a, b in self.index_pairs]
        for number, (name, a, b) in enumerate(cells):
            yield Contrast(
                str(self.measure),
                systems[a],
                systems[b],
                name,
                self.settings.joint_interval(joint, number, self._count(self.values[[a, b]])),
                float(joint.p[number]),
                self.settings.level,
            )

    def _count(self, rows: Floats) -> int:
        """Return how many queries of tested slices have a value in all rows."""
        return int((~np.isnan(rows).any(axis=0) & (self.cut.numbers >= 0)).sum())

    def macro_means(self, n: int) -> Iterator[tuple[str, Interval]]:
        """Return the mean of slices of each system, with an interval of its own."""
        least, most = self.measure.bounds or (-math.inf, math.inf)
        for name, row in zip(self.aligned.names, self.values, strict=True):
            nothing = np.where(np.isnan(row), np.nan, 0.0)
            joint = self._infer(np.stack([row, nothing]), [(0, 1)], np.full((1, n), 1 / n))
            mean = self.settings.joint_interval(joint, 0, self._count(row[None]), note=joint.note)
            yield name, mean.within(least, most)


def _unit(settings: ComparisonSettings) -> str:
    return "queries" if settings.by is None else f"groups by {settings.by}"


def _too_few(n: int, settings: ComparisonSettings) -> str:
    return f"too few {_unit(settings)}: {n}, at least {FEWEST_UNITS} are needed"


def _remarks(column: str, cut: _SliceQueries, settings: ComparisonSettings) -> Iterable[str]:
    if cut.n_without:
        have = "query has" if cut.n_without == 1 else "queries have"
        yield f"{cut.n_without:,} {have} no {column} and count in no slice"
    few = [name for name in cut.names if name not in cut.tested]
    if few:
        rest = f"; their mean is of the other {len(cut.tested)}" if len(cut.tested) > 1 else ""
        yield (
            f"slices of fewer than {FEWEST_UNITS} {_unit(settings)} are not tested: "
            f"{join_names(few)}{rest}"
        )


_MEAN: Final = "mean of slices"


def slice_page(sliced: SliceComparison, measure: str) -> Page:
    """Return sentences, means and, where they can be read, pairs of one measure."""
    page: Page = [Words(sentence) for sentence in sliced.verdicts[measure]]
    tables = [slice_means_table(sliced, measure), slice_pairs_table(sliced, measure)]
    return [*page, *(table for table in tables[: 1 + (len(tables[1].rows) <= MOST_PAIRS)])]


def slice_sentences(sliced: SliceComparison, measure: str | Measure) -> Iterator[str]:
    """Where who is better, whether the difference depends on the slice, and the mean of slices."""
    yield f"By {sliced.column}: {_where(sliced.slices_on(measure))}"
    first = _first(sliced, str(measure))
    unlike = {
        (pair.a, pair.b)
        for part in sliced.tested_on(measure)
        for pair in part.pairs
        if pair.outcome != "identical"
    }
    contrasts, macro = (
        [
            part.seen_from(first[part.a, part.b])
            for part in every
            if not math.isnan(part.p) and (part.a, part.b) in unlike
        ]
        for every in (sliced.interactions_on(measure), sliced.macro_on(measure))
    )
    if contrasts:
        yield _dependence(
            sliced.column, contrasts, [part.name for part in sliced.tested_on(measure)]
        )
    if len(macro) == 1:
        yield f"In the mean of {len(sliced.tested_on(measure))} slices {_describe_macro(macro[0])}"


def _first(sliced: SliceComparison, measure: str) -> dict[tuple[str, str], str]:
    """Of each pair the one whose difference to the other is shown: the same in all slices."""
    tested = sliced.tested_on(measure)
    return {
        (pair.a, pair.b): pair.b
        if tested[0].baseline is None and _total(tested, pair.a) < _total(tested, pair.b)
        else pair.a
        for pair in (tested[0].pairs if tested else ())
    }


def _total(slices: Sequence[SystemBlock], name: str) -> float:
    defined = [block for block in slices if not math.isnan(block.means[name])]
    return math.fsum(block.n_queries * block.means[name] for block in defined)


def _where(slices: Sequence[SystemBlock]) -> str:
    """In which slices who is better; of several pairs, how many are separated."""
    groups: dict[str, list[str]] = {}
    for block in slices:
        groups.setdefault(_outcome(block), []).append(block.name)
    return "; ".join(f"{what} in {join_names(names)}" for what, names in groups.items())


def _outcome(block: SystemBlock) -> str:
    if not block.pairs:
        return "too few queries"
    if len(block.pairs) > 1:
        clear = sum(pair.winner is not None for pair in block.pairs)
        return f"{clear or 'none'} of {len(block.pairs)} pairs separated"
    pair = block.pairs[0]
    return pair.outcome if pair.winner is None else f"{pair.winner} better than {pair.loser}"


def _dependence(column: str, contrasts: Sequence[Contrast], names: Sequence[str]) -> str:
    """Return whether a difference depends on the slice.

    Of several pairs, one of which that is shown.
    """
    how = "max-t" if len(contrasts) == 1 else f"max-t over {len(contrasts)} contrasts"
    one_pair = len({(c.a, c.b) for c in contrasts}) == 1
    clear = sorted((c for c in contrasts if c.clear), key=lambda c: c.p)
    if not clear:
        smallest = describe_p(min(c.p for c in contrasts))
        what = "The difference is not" if one_pair else "No difference is"
        return f"{what} shown to depend on {column}: {smallest} ({how})"
    most = clear[0]
    turn, how_much = (1, "larger") if most.difference > 0 else (-1, "smaller")
    interval = most.interval if turn == 1 else -most.interval
    also = [c.slice if one_pair else f"{c.slice} ({c.a} − {c.b})" for c in clear[1:]]
    elsewhere = names[1] if len(names) == 2 else "the mean of the others"
    more = f"; it is another also in {join_names(also)}" if also else ""
    return (
        f"The difference {most.a} − {most.b} depends on {column}: in {most.slice} it is {how_much} "
        f"by {interval.estimate:.4f} {interval.text()} than in {elsewhere}, "
        f"{describe_p(most.p)} ({how}){more}"
    )


def _describe_macro(contrast: Contrast) -> str:
    interval = contrast.interval
    words = f"{signed(interval.estimate)} {interval.sentence()}, {describe_p(contrast.p)} (max-t)"
    if not contrast.clear:
        return f"{contrast.a} and {contrast.b} are not separable: {words}"
    how = "better" if contrast.difference > 0 else "worse"
    return f"{contrast.a} is {how} than {contrast.b}: {words}"


def slice_method(sliced: SliceComparison) -> str:
    """Return how the slices were corrected, and over which family."""
    tested = sliced.tested_on(sliced.measures[0])
    if not tested:
        return f"Slices: {sliced.family}."
    pair = tested[0].pairs[0]
    words = describe_test(sliced.settings, pair.n_pairs, pair.n_slices)
    rest = "; their mean and dependence: max-t, families of their own" if sliced.macro else ""
    return f"Slices: {words} ({sliced.family}){rest}."


def slice_pairs_table(sliced: SliceComparison, measure: str) -> Table:
    """Return a row for each slice and pair, then the mean of slices.

    Differences are always a − b.
    """
    first, tested = _first(sliced, measure), sliced.tested_on(measure)
    rows = [row for part in sliced.slices_on(measure) for row in _slice_rows(part, first)]
    rows += [
        _contrast_row(part.seen_from(first[part.a, part.b])) for part in sliced.macro_on(measure)
    ]
    head = pair_interval_head(tested[0].pairs[0]) if tested else "interval"
    columns = (sliced.column, "n", "pair", "difference", head, "p", "W/T/L")
    return Table(columns, tuple(rows), n_optional=1)


def _slice_rows(
    block: SystemBlock, first: dict[tuple[str, str], str]
) -> Iterator[tuple[Cell, ...]]:
    front = (Cell(block.name), Cell(block.n_queries, "count"))
    if not block.pairs:
        yield (*front, Cell("too few to test"), *(Cell(None, "figure") for _ in range(4)))
    for pair in block.pairs:
        yield (*front, *pair_cells(pair, first[pair.a, pair.b])[:5])


def _contrast_row(contrast: Contrast) -> tuple[Cell, ...]:
    name = f"{contrast.a} − {contrast.b}"
    return (
        Cell(_MEAN),
        Cell(None, "count"),
        *difference_cells(name, contrast.interval, contrast.p, clear=contrast.clear),
        Cell(None, "figure"),
    )


def slice_means_table(sliced: SliceComparison, measure: str) -> Table:
    """Return a row for each slice with the means of the systems.

    Last, the mean of slices.
    """
    slices = sliced.slices_on(measure)
    rows = [
        (Cell(block.name), Cell(block.n_queries, "count"), *_mean_cells(list(block.means.values())))
        for block in slices
    ]
    macro = [
        mean.estimate for (of_measure, _), mean in sliced.means.items() if of_measure == measure
    ]
    if macro:
        rows.append((Cell(_MEAN), Cell(None, "count"), *_mean_cells(macro)))
    return Table((sliced.column, "n", *slices[0].means), tuple(rows))


def _mean_cells(means: Sequence[float]) -> Iterator[Cell]:
    top = max((mean for mean in means if not math.isnan(mean)), default=math.nan)
    return (Cell(mean, "fraction", mean == top) for mean in means)
