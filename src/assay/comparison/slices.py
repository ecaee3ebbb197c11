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
from assay.comparison.slice_pages import (
    slice_means_table,
    slice_method,
    slice_page,
    slice_pairs_table,
    slice_sentences,
)
from assay.comparison.tables import pair_data
from assay.comparison.verdict import join_names, verdict_against, verdict_of_all
from assay.core.text import natural_order
from assay.errors import UsageError
from assay.measures import Measure
from assay.stats import Interval, JointPairs, compare_jointly
from assay.tables.page import Page
from assay.tables.table import Table

__all__ = ["Contrast", "Slice", "SliceComparison", "call_measures", "compare_slices"]

FEWEST_UNITS: Final = 6  # the fewest of which all signs together can be significant at 5 %
MOST_SLICES: Final = 100


@dataclass(frozen=True, eq=False)
class Slice:
    """One slice on one measure; `pairs` are as in a comparison, corrected over all slices.

    A slice of fewer than six queries (groups) is not tested and has no pairs: `note` says so.
    """

    name: str
    measure: str
    n_queries: int
    means: dict[str, float]
    pairs: tuple[Pair, ...]
    baseline: str | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """A sentence about the systems on these queries."""
        if not self.pairs:
            return f"Not tested on {self.measure}: {self.note}"
        if self.baseline is not None:
            return verdict_against(self.baseline, self.measure, self.pairs)
        return verdict_of_all(self.measure, _best_first(self.means), self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "n": self.n_queries,
            "verdict": self.verdict,
            "note": self.note,
            "means": {name: or_none(mean) for name, mean in self.means.items()},
            "pairs": [pair_data(pair) for pair in self.pairs],
        }


def _best_first(means: dict[str, float]) -> list[str]:
    return sorted(means, key=lambda name: (math.isnan(means[name]), -means[name]))


@dataclass(frozen=True)
class Contrast:
    """A difference a − b over slices: the mean of all, or that of one beside the others' mean.

    The interval is simultaneous and leaves out 0 exactly if p ≤ `level`.
    """

    measure: str
    a: str
    b: str
    slice: str  # empty for the mean of all
    difference: float
    low: float
    high: float
    p: float
    level: float

    @property
    def clear(self) -> bool:
        """Whether it is significant."""
        return self.p <= self.level

    def seen_from(self, first: str) -> Contrast:
        """The same as a difference of this system to the other."""
        if first == self.a:
            return self
        ends = (-self.high, -self.low)
        return replace(
            self, a=self.b, b=self.a, difference=-self.difference, low=ends[0], high=ends[1]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {key: or_none(getattr(self, key)) for key in ("difference", "low", "high", "p")}


def call_measures(parts: Iterable[Any], names: Mapping[str, str]) -> tuple[Any, ...]:
    """Parts of a comparison with other names of their measures."""
    return tuple(replace(one, measure=names.get(one.measure, one.measure)) for one in parts)


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
    slices: tuple[Slice, ...]
    interactions: tuple[Contrast, ...]
    macro: tuple[Contrast, ...]
    means: dict[tuple[str, str], Interval]
    remarks: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the slices, in natural order."""
        return tuple(one.name for one in self.slices_on(self.measures[0]))

    def called(self, names: Mapping[str, str], measures: tuple[Measure, ...]) -> SliceComparison:
        """The same with other names of measures; see `Comparison.called`."""
        own = [replace(one, pairs=call_measures(one.pairs, names)) for one in self.slices]
        return replace(
            self,
            measures=measures,
            slices=call_measures(own, names),
            interactions=call_measures(self.interactions, names),
            macro=call_measures(self.macro, names),
            means={(names.get(m, m), system): one for (m, system), one in self.means.items()},
        )

    def slices_on(self, measure: str | Measure) -> tuple[Slice, ...]:
        """The slices on one measure."""
        return tuple(one for one in self.slices if one.measure == str(measure))

    def tested_on(self, measure: str | Measure) -> tuple[Slice, ...]:
        """Those that are large enough."""
        return tuple(one for one in self.slices_on(measure) if one.pairs)

    def interactions_on(self, measure: str | Measure) -> list[Contrast]:
        """Each pair in each slice beside the mean of the others."""
        return [one for one in self.interactions if one.measure == str(measure)]

    def macro_on(self, measure: str | Measure) -> list[Contrast]:
        """Each pair in the mean of slices."""
        return [one for one in self.macro if one.measure == str(measure)]

    def interaction_p(self, a: str, b: str, measure: str | Measure) -> float:
        """p of a difference that is the same in all slices; NaN where it was not tested."""
        own = [c.p for c in self.interactions_on(measure) if {c.a, c.b} == {a, b}]
        return min((p for p in own if not math.isnan(p)), default=math.nan)

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
        """A row for each slice and pair; then, if there are two, the mean of slices."""
        return slice_pairs_table(self, str(measure))

    def means_table(self, measure: str | Measure) -> Table:
        """A row for each slice with the means of the systems; last, the mean of slices."""
        return slice_means_table(self, str(measure))

    def page_on(self, measure: str | Measure) -> Page:
        """Sentences and tables of one measure."""
        return slice_page(self, str(measure))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        return {
            "column": self.column,
            "family": self.family,
            "measures": {name: self._measure_data(name) for name in map(str, self.measures)},
            "remarks": list(self.remarks),
        }

    def _measure_data(self, measure: str) -> dict[str, Any]:
        means = {name: mean for (own, name), mean in self.means.items() if own == measure}
        return {
            "verdicts": self.verdicts[measure],
            "slices": [one.to_dict() for one in self.slices_on(measure)],
            "interaction": list(self._interaction_data(measure)),
            "macro": {
                "systems": [
                    {
                        "name": name,
                        "mean": or_none(mean.estimate),
                        "low": or_none(mean.low),
                        "high": or_none(mean.high),
                    }
                    for name, mean in means.items()
                ],
                "pairs": [{"a": c.a, "b": c.b, **c.to_dict()} for c in self.macro_on(measure)],
            },
        }

    def _interaction_data(self, measure: str) -> Iterator[dict[str, Any]]:
        own = self.interactions_on(measure)
        for a, b in dict.fromkeys((c.a, c.b) for c in own):
            yield {
                "a": a,
                "b": b,
                "p": or_none(self.interaction_p(a, b, measure)),
                "beside_the_others": [
                    {"slice": c.slice, **c.to_dict()} for c in own if (c.a, c.b) == (a, b)
                ],
            }


def compare_slices(
    aligned: Aligned,
    column: str,
    wanted: Sequence[tuple[int, int]],
    settings: ComparisonSettings,
    baseline: str | None,
) -> SliceComparison:
    """Compare the systems in each slice of the queries that the labels of `aligned` make."""
    if settings.correction == "tukey":
        raise UsageError("Correction tukey is of one set of queries; slices go with max-t or holm.")
    cut = _SliceQueries.of(aligned, column)
    slices: list[Slice] = []
    interactions: list[Contrast] = []
    macro: list[Contrast] = []
    means: dict[tuple[str, str], Interval] = {}
    for row, measure in enumerate(aligned.measures):
        task = _OneMeasure(aligned, measure, aligned.values[:, row], cut, wanted, settings)
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
    """Queries of a slice, or groups of queries, for which some system has a value."""
    known = inside & ~np.isnan(aligned.values).all(axis=(0, 1))
    return int(known.sum()) if aligned.clusters is None else len(set(aligned.clusters[known]))


def _beside_others(n: int) -> Floats:
    """For each slice the difference in it less the mean of those in the others; one row of two."""
    found = np.full((n, n), -1 / (n - 1))
    np.fill_diagonal(found, 1.0)
    return found if n > 2 else found[:1]


@dataclass(frozen=True, eq=False)
class _OneMeasure:
    """What all that is said of one measure is computed from."""

    aligned: Aligned
    measure: Measure
    values: Floats
    cut: _SliceQueries
    wanted: Sequence[tuple[int, int]]
    settings: ComparisonSettings

    def slices(self, baseline: str | None) -> Iterator[Slice]:
        pairs = iter(self._pairs() if self.cut.tested else [])
        for name in self.cut.names:
            inside, tested = self.cut.inside[name], name in self.cut.tested
            own = tuple(next(pairs) for _ in self.wanted) if tested else ()
            note = "" if tested else _too_few(self.cut.n_units[name], self.settings)
            n, means = int(inside.sum()), self._means(inside)
            yield Slice(name, str(self.measure), n, means, own, baseline, note)

    def _pairs(self) -> list[Pair]:
        return compare_pairs(
            str(self.measure),
            self.aligned.names,
            self.values,
            self.wanted,
            settings=self.settings,
            clusters=self.aligned.clusters,
            slices=self.cut.numbers,
            bounds=self.measure.bounds,
        )

    def _means(self, inside: Flags) -> dict[str, float]:
        found = {}
        for name, row in zip(self.aligned.names, self.values[:, inside], strict=True):
            known = row[~np.isnan(row)]
            found[name] = math.fsum(known.tolist()) / len(known) if len(known) else math.nan
        return found

    def _infer(
        self, values: Floats, wanted: Sequence[tuple[int, int]], weights: Floats
    ) -> JointPairs:
        return compare_jointly(
            values,
            wanted,
            clusters=self.aligned.clusters,
            blocks=self.cut.numbers,
            contrasts=weights,
            level=self.settings.level,
            resamples=self.settings.resamples,
            seed=self.settings.seed,
            bounds=self.measure.bounds,
        )

    def contrasts(self, weights: Floats, names: Sequence[str]) -> Iterator[Contrast]:
        found, systems = self._infer(self.values, self.wanted, weights), self.aligned.names
        cells = [(name, a, b) for name in names for a, b in self.wanted]
        for number, (name, a, b) in enumerate(cells):
            yield Contrast(
                str(self.measure),
                systems[a],
                systems[b],
                name,
                difference=float(found.differences[number]),
                low=float(found.low[number]),
                high=float(found.high[number]),
                p=float(found.p[number]),
                level=self.settings.level,
            )

    def macro_means(self, n: int) -> Iterator[tuple[str, Interval]]:
        """The mean of slices of each system, with an interval of its own: that beside nothing."""
        least, most = self.measure.bounds or (-math.inf, math.inf)
        for name, row in zip(self.aligned.names, self.values, strict=True):
            nothing = np.where(np.isnan(row), np.nan, 0.0)
            found = self._infer(np.stack([row, nothing]), [(0, 1)], np.full((1, n), 1 / n))
            yield (
                name,
                Interval(
                    float(found.differences[0]),
                    float(np.maximum(found.low[0], least)),
                    float(np.minimum(found.high[0], most)),
                    1 - self.settings.level,
                    "max-t",
                    int((~np.isnan(row) & (self.cut.numbers >= 0)).sum()),
                    self.settings.resamples,
                    self.settings.seed,
                    note=found.note,
                ),
            )


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
