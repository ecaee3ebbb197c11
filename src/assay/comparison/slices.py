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
from assay.comparison.standings import SystemBlock, difference_cells, pair_cells, pair_interval_head
from assay.comparison.verdict import describe_test, join_names
from assay.core.text import describe_p, natural_order, signed, spoken
from assay.errors import UsageError
from assay.measures import Measure
from assay.stats import Interval, JointPairs, compare_jointly
from assay.stats.choices import MOST_PAIRS
from assay.tables.table import Cell, Page, Table, Words

FEWEST_UNITS: Final = 6  # the fewest of which all signs together can be significant at 5 %
MOST_SLICES: Final = 100
_MEAN: Final = "mean of slices"


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
        """Return p of an equal difference in all slices; NaN where it was not tested."""
        p_values = [c.p for c in self.interactions_on(measure) if {c.a, c.b} == {a, b}]
        return min((p for p in p_values if not math.isnan(p)), default=math.nan)

    @property
    def family(self) -> str:
        """The comparisons that share one error rate, in words."""
        tested = self.tested_on(self.measures[0])
        if not tested:
            return "no slice is large enough"
        pairs = "one pair" if len(tested[0].pairs) == 1 else f"all {len(tested[0].pairs)} pairs"
        return f"{pairs} in {len(tested)} slice{'' if len(tested) == 1 else 's'} by {self.column}"

    @property
    def method(self) -> str:
        """How the slices were corrected, and over which family."""
        tested = self.tested_on(self.measures[0])
        if not tested:
            return f"Slices: {self.family}."
        pair = tested[0].pairs[0]
        words = describe_test(self.settings, pair.n_pairs, pair.n_slices)
        rest = "; their mean and dependence: max-t, families of their own" if self.macro else ""
        return f"Slices: {words} ({self.family}){rest}."

    @cached_property
    def verdicts(self) -> dict[str, list[str]]:
        """For each measure: where who is better, whether it depends on the slice, and the mean."""
        return {str(measure): list(self._sentences(measure)) for measure in self.measures}

    def _sentences(self, measure: Measure) -> Iterator[str]:
        tested, first = self.tested_on(measure), self._first(measure)
        outcomes: dict[str, list[str]] = {}
        for block in self.slices_on(measure):
            outcomes.setdefault(_outcome(block), []).append(block.name)
        where = "; ".join(f"{what} in {join_names(names)}" for what, names in outcomes.items())
        yield f"By {self.column}: {where}"
        pairs = [pair for block in tested for pair in block.pairs]
        unlike = {(pair.a, pair.b) for pair in pairs if pair.outcome != "identical"}
        contrasts, macro = (
            [
                part.seen_from(first[part.a, part.b])
                for part in every
                if not math.isnan(part.p) and (part.a, part.b) in unlike
            ]
            for every in (self.interactions_on(measure), self.macro_on(measure))
        )
        if contrasts:
            yield _dependence(self.column, contrasts, [block.name for block in tested])
        if len(macro) == 1:
            yield f"In the mean of {len(tested)} slices {_describe_macro(macro[0])}"

    def _first(self, measure: str | Measure) -> dict[tuple[str, str], str]:
        """Return the system of each pair that is shown first, the same one in all slices."""
        tested = self.tested_on(measure)

        def total(name: str) -> float:
            defined = [block for block in tested if not math.isnan(block.means[name])]
            return math.fsum(block.n_queries * block.means[name] for block in defined)

        return {
            (pair.a, pair.b): pair.b
            if tested[0].baseline is None and total(pair.a) < total(pair.b)
            else pair.a
            for pair in (tested[0].pairs if tested else ())
        }

    def table(self, measure: str | Measure) -> Table:
        """Return a row for each slice and pair, then, if there are two, the mean of slices.

        Differences are always a − b.
        """
        first, tested = self._first(measure), self.tested_on(measure)
        rows: list[tuple[Cell, ...]] = []
        for block in self.slices_on(measure):
            front = (Cell(block.name), Cell(block.n_queries, "count"))
            if not block.pairs:
                empty = (Cell(None, "figure") for _ in range(4))
                rows.append((*front, Cell("too few to test"), *empty))
            rows += [(*front, *pair_cells(p, first[p.a, p.b])[:5]) for p in block.pairs]
        for part in self.macro_on(measure):
            mean = part.seen_from(first[part.a, part.b])
            cells = difference_cells(f"{mean.a} − {mean.b}", mean.interval, mean.p)
            rows.append((Cell(_MEAN), Cell(None, "count"), *cells, Cell(None, "figure")))
        head = pair_interval_head(tested[0].pairs[0]) if tested else "interval"
        columns = (self.column, "n", "pair", "difference", head, "p", "wins/ties/losses")
        return Table(columns, tuple(rows), n_optional=1)

    def means_table(self, measure: str | Measure) -> Table:
        """Return a row for each slice with the means of the systems; last, the mean of slices."""
        slices = self.slices_on(measure)
        labelled: list[tuple[str, int | None, list[float]]] = [
            (block.name, block.n_queries, list(block.means.values())) for block in slices
        ]
        macro = [mean.estimate for mean in self._means_on(measure).values()]
        if macro:
            labelled.append((_MEAN, None, macro))
        rows = []
        for name, n, means in labelled:
            top = max((mean for mean in means if not math.isnan(mean)), default=math.nan)
            cells = (Cell(mean, "fraction", mean == top) for mean in means)
            rows.append((Cell(name), Cell(n, "count"), *cells))
        return Table((self.column, "n", *slices[0].means), tuple(rows))

    def _means_on(self, measure: str | Measure) -> dict[str, Interval]:
        return {name: mean for (of, name), mean in self.means.items() if of == str(measure)}

    def page_on(self, measure: str | Measure) -> Page:
        """Return sentences, means and, where they can be read, pairs of one measure."""
        page: Page = [Words(sentence) for sentence in self.verdicts[str(measure)]]
        page.append(self.means_table(measure))
        pairs = self.table(measure)
        return [*page, pairs] if len(pairs.rows) <= MOST_PAIRS else page

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return {
            "column": self.column,
            "family": self.family,
            "measures": {name: self._measure_data(name) for name in map(str, self.measures)},
            "remarks": list(self.remarks),
        }

    def _measure_data(self, measure: str) -> dict[str, Any]:
        contrasts, means = self.interactions_on(measure), self._means_on(measure)
        pairs = dict.fromkeys((contrast.a, contrast.b) for contrast in contrasts)
        return {
            "verdicts": self.verdicts[measure],
            "slices": [block.to_dict() for block in self.slices_on(measure)],
            "interaction": [
                {
                    "a": a,
                    "b": b,
                    "p": or_none(self.interaction_p(a, b, measure)),
                    "beside_the_others": [
                        {"slice": c.slice, **c.to_dict()} for c in contrasts if (c.a, c.b) == (a, b)
                    ],
                }
                for a, b in pairs
            ],
            "macro": {
                "systems": [{"name": name, **mean.to_dict("mean")} for name, mean in means.items()],
                "pairs": [{"a": c.a, "b": c.b, **c.to_dict()} for c in self.macro_on(measure)],
            },
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
        raise UsageError("Correction tukey does not support slices. Use max-t or holm.")
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
            # In each slice the difference less the mean of those in the others; one row of two.
            beside = np.full((n, n), -1 / (n - 1))
            np.fill_diagonal(beside, 1.0)
            beside = beside if n > 2 else beside[:1]
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
            raise UsageError(f"No query has a slice: the column {column!r} is empty. Fill it.")
        inside = {name: labels == name for name in names}
        defined = ~np.isnan(aligned.values).all(axis=(0, 1))  # for some system
        units = np.arange(len(labels)) if aligned.clusters is None else aligned.clusters
        n_units = {name: len(set(units[inside[name] & defined].tolist())) for name in names}
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


@dataclass(frozen=True, eq=False)
class _OneMeasure:
    """Inputs of all statements on one measure."""

    aligned: Aligned
    measure: Measure
    values: Floats
    cut: _SliceQueries
    index_pairs: Sequence[tuple[int, int]]
    settings: ComparisonSettings

    def slices(self, baseline: str | None) -> Iterator[SystemBlock]:
        pairs: Iterator[Pair] = iter(())
        if self.cut.tested:
            pairs = iter(
                compare_pairs(
                    str(self.measure),
                    self.aligned.names,
                    self.values,
                    self.index_pairs,
                    settings=self.settings,
                    clusters=self.aligned.clusters,
                    slices=self.cut.numbers,
                    bounds=self.measure.bounds,
                )
            )
        for name in self.cut.names:
            inside, tested = self.cut.inside[name], name in self.cut.tested
            tested_pairs = tuple(next(pairs) for _ in self.index_pairs) if tested else ()
            few = f"too few {_unit(self.settings)} ({self.cut.n_units[name]})"
            note = "" if tested else f"{few}: at least {FEWEST_UNITS} are needed"
            n, means = int(inside.sum()), self._means(inside)
            yield SystemBlock(name, str(self.measure), n, means, tested_pairs, baseline, note)

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
            bounds=self.measure.bounds,
            **self.settings.draws,
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
        """Return the mean of slices of each system, with its interval."""
        least, most = self.measure.bounds or (-math.inf, math.inf)
        for name, row in zip(self.aligned.names, self.values, strict=True):
            nothing = np.where(np.isnan(row), np.nan, 0.0)
            joint = self._infer(np.stack([row, nothing]), [(0, 1)], np.full((1, n), 1 / n))
            mean = self.settings.joint_interval(joint, 0, self._count(row[None]), note=joint.note)
            yield name, mean.within(least, most)


def _unit(settings: ComparisonSettings) -> str:
    return "queries" if settings.by is None else f"groups by {settings.by}"


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


def _outcome(block: SystemBlock) -> str:
    if not block.pairs:
        return "too few queries"
    if len(block.pairs) > 1:
        clear = sum(pair.winner is not None for pair in block.pairs)
        return f"{clear or 'none'} of {len(block.pairs)} pairs differ"
    pair = block.pairs[0]
    if pair.winner is None:
        return pair.outcome
    return f"{pair.winner} {'probably ' if pair.doubt else ''}better than {pair.loser}"


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
    more = f"; it also differs in {join_names(also)}" if also else ""
    return (
        f"The difference {most.a} − {most.b} depends on {column}: in {most.slice} it is {how_much} "
        f"by {interval.estimate:.4f} {spoken(interval.sentence())} than in {elsewhere}, "
        f"{describe_p(most.p)} ({how}){more}"
    )


def _describe_macro(contrast: Contrast) -> str:
    interval = contrast.interval
    numbers = spoken(f"{signed(interval.estimate)} {interval.sentence()}")
    words = f"{numbers}, {describe_p(contrast.p)} (max-t)"
    if not contrast.clear:
        return f"{contrast.a} and {contrast.b} do not differ significantly: {words}"
    how = "better" if contrast.difference > 0 else "worse"
    return f"{contrast.a} is {how} than {contrast.b}: {words}"
