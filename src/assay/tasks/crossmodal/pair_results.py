"""Results of paired retrieval: the row that papers print, and each number with its interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, or_none
from assay.errors import UsageError
from assay.runs.aggregates import aggregates_of
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Mean, Scores, signature_of
from assay.stats import Interval, interval
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table
from assay.tasks.crossmodal.directions import Direction
from assay.tasks.crossmodal.first_ranks import FirstRanks

__all__ = ["PairedDirection", "PairedResult"]

RECALLS: Final = ("Success@1", "Success@5", "Success@10")
_RESAMPLES: Final = 1000
_COLUMNS: Final = (
    *("positives", "direction", "measure", "value", "95 % low", "95 % high"),
    *("chance", "ceiling", "queries", "empty", "tied share"),
)
_FEWEST: Final = 8  # pairs; with fewer a bootstrap is too narrow


@dataclass(frozen=True, eq=False)
class PairedDirection:
    """One direction: `scores` have the pair of each query as the group `label`; ranks by fold."""

    direction: Direction
    level: str
    scores: Scores
    chance: Scores
    ceiling: Scores
    ranks: list[FirstRanks]
    n_docs: int
    remarks: tuple[str, ...] = ()

    @property
    def pairs(self) -> NDArray[Any]:
        """The pair of each query."""
        return self.scores.groups["label"]

    @property
    def clusters(self) -> str:
        """The group whose queries are not independent: captions of one image."""
        return "label" if len(np.unique(self.pairs)) < len(self.pairs) else ""

    @cached_property
    def numbers(self) -> list[Aggregate]:
        """Every measure, then MedR and MeanR, with interval, chance and ceiling."""
        bare = replace(self.scores, groups={"label": self.pairs} if self.clusters else {})
        means = aggregates_of(
            bare,
            chance=self.chance.mean(),
            ceiling=self.ceiling.mean(),
            clusters=self.clusters,
        )
        return [*(one for one in means if one.average == "micro"), *self.rank_numbers]

    @cached_property
    def rank_numbers(self) -> list[Aggregate]:
        """Median and mean rank of the first positive; lower is better."""
        spans = {"MedR": self._median_interval(), "MeanR": self._mean_interval()}
        chances = {
            "MedR": np.mean([fold.chance_median() for fold in self.ranks]),
            "MeanR": np.mean([fold.chance_mean() for fold in self.ranks]),
        }
        return [
            Aggregate(
                name,
                span.estimate,
                low=span.low,
                high=span.high,
                level=span.level,
                method=span.method,
                chance=float(chances[name]),
                ceiling=1.0,
                n=span.n,
                empty=span.n_removed,
                clusters=self.clusters,
            )
            for name, span in spans.items()
        ]

    def _mean_interval(self) -> Interval:
        ranks = FirstRanks.merge(self.ranks).values
        bounds = (1.0, float(self.n_docs))
        return interval(ranks, clusters=self.pairs if self.clusters else None, bounds=bounds)

    def _median_interval(self) -> Interval:
        """A bootstrap of whole pairs within each fold, by the ends of its middle 95 %."""
        rng = np.random.default_rng(0)
        pair_of = dict(zip(self.scores.query_ids.to_list(), self.pairs.tolist(), strict=True))
        drawn = np.zeros(_RESAMPLES)
        for fold in self.ranks:
            pairs = np.array([pair_of[query] for query in fold.query_ids.to_list()])
            drawn += _draw_medians(fold.values, pairs, rng) / len(self.ranks)
        low, high = np.quantile(drawn, (0.025, 0.975), method="closest_observation")
        if len(np.unique(self.pairs)) < _FEWEST:
            low = high = np.nan
        value = float(np.mean([fold.median for fold in self.ranks]))
        n = sum(int(np.isfinite(fold.values).sum()) for fold in self.ranks)
        empty = len(self.pairs) - n
        return Interval(value, float(low), float(high), 0.95, "percentile", n, _RESAMPLES, 0, empty)


def _draw_medians(values: Floats, pairs: NDArray[Any], rng: np.random.Generator) -> Floats:
    """Medians, rounded down, of resamples of whole pairs."""
    known = np.isfinite(values)
    by_rank = np.argsort(values[known], kind="stable")
    ranks = values[known][by_rank]
    names, codes = np.unique(pairs[known][by_rank], return_inverse=True)
    drawn = np.full(_RESAMPLES, np.nan)
    for i in range(_RESAMPLES if len(names) else 0):
        times = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        total = np.cumsum(times[codes])
        middle = np.searchsorted(total, [(total[-1] + 1) // 2, total[-1] // 2 + 1])
        drawn[i] = np.floor(ranks[middle].mean())
    return drawn


@dataclass(frozen=True, eq=False)
class PairedResult:
    """Both directions at each level: `pair`, and `qrels` where further positives are given."""

    protocol: str
    about: str
    levels: dict[str, list[PairedDirection]]
    folds: int
    n_images: int
    expected_images: int | None = None

    def direction(self, name: str, level: str = "pair") -> PairedDirection:
        """One direction, such as `image2text`."""
        for one in self.levels.get(level, []):
            if one.direction.name == name:
                return one
        known = [one.direction.name for one in self.levels.get(level, [])]
        raise UsageError(f"There is no {name!r} at {level!r}; there are: {', '.join(known)}.")

    def means(self, direction: str, level: str = "pair") -> Mean:
        """The means over queries."""
        return self.direction(direction, level).scores.mean()

    def rsum(self, level: str = "pair") -> Aggregate:
        """The sum of the six R@K in percent, with an interval over images.

        As each query belongs to one image, the sum is a mean over images of what their queries
        add to it, and images are what is drawn anew.
        """
        both = self.levels[level]
        if len(both) != 2:
            raise UsageError(f"rSum needs both directions; {level!r} has {len(both)}.")
        images = np.unique(np.concatenate([one.pairs for one in both]))
        added = np.zeros(len(images))
        for one in both:
            place = np.searchsorted(images, one.pairs)
            for measure in RECALLS:
                values = one.scores[measure]
                known = np.isfinite(values)
                np.add.at(added, place[known], 100 * len(images) * values[known] / known.sum())
        span = interval(added).within(0.0, 600.0)
        limits = [
            100 * sum(getattr(one, kind).mean()[name] for one in both for name in RECALLS)
            for kind in ("chance", "ceiling")
        ]
        value = 100 * sum(one.scores.mean()[name] for one in both for name in RECALLS)
        return Aggregate(
            "rSum",
            value,
            average="both directions",
            low=span.low,
            high=span.high,
            level=span.level,
            method=span.method,
            chance=limits[0],
            ceiling=limits[1],
            n=len(images),
            clusters="label",
        )

    @property
    def signature(self) -> str:
        """The conventions and settings of all directions."""
        return signature_of([one.scores for both in self.levels.values() for one in both])

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        if self.expected_images not in (None, self.n_images):
            yield (
                f"{self.protocol} has {self.expected_images} images, here are {self.n_images}: "
                "not comparable with published numbers"
            )
        for level, both in self.levels.items():
            for one in both:
                start = f"{level}, " if len(self.levels) > 1 else ""
                yield from (f"{start}{one.direction.name}: {words}" for words in one.remarks)

    def paper_table(self) -> Table:
        """One row as papers print it, in percent; further levels are further rows."""
        both = self.levels["pair"]
        columns = [
            f"{one.direction.name} {name}" if not place else name
            for one in both
            for place, name in enumerate(_short(number.measure) for number in one.numbers)
        ]
        rows = [
            (Cell(level), *self._paper_cells(level), self._rsum_cell(level))
            for level in self.levels
        ]
        return Table(("positives", *columns, "rSum"), tuple(rows))

    def _paper_cells(self, level: str) -> Iterator[Cell]:
        known = {one.direction.name: one for one in self.levels[level]}
        for one in self.levels["pair"]:
            here = known.get(one.direction.name)
            for place, number in enumerate(one.numbers):
                yield _paper_cell(here.numbers[place] if here else replace(number, value=None))

    def _rsum_cell(self, level: str) -> Cell:
        whole = len(self.levels[level]) == 2
        return Cell(f"{self.rsum(level).value:.1f}" if whole else None, "figure")

    def table(self) -> Table:
        """A row for each level, direction and number: interval, chance, ceiling, counts."""
        rows = [
            (
                Cell(level),
                Cell(direction),
                Cell(one.measure),
                *(
                    Cell(value, "fraction")
                    for value in (one.value, one.low, one.high, one.chance, one.ceiling)
                ),
                Cell(one.n, "count"),
                Cell(one.empty, "count"),
                Cell(one.tied / max(one.n, 1) if one.measure not in _NO_TIES else None, "fraction"),
            )
            for level, direction, one in self._numbers()
        ]
        return Table(_COLUMNS, tuple(rows))

    def _numbers(self) -> Iterator[tuple[str, str, Aggregate]]:
        for level, both in self.levels.items():
            for one in both:
                yield from ((level, one.direction.name, number) for number in one.numbers)
            if len(both) == 2:
                yield level, "both", self.rsum(level)

    def page(self) -> Page:
        """The paper's row, then every number."""
        title = f"{self.protocol}: {self.about}"
        note = (
            "R@K: share of queries with a positive among the first K, in percent (VSE++). MedR and "
            "MeanR: rank of the first positive. Intervals draw images anew, with their captions."
        )
        tables = [self.paper_table(), self.table()]
        return [Words(title, "verdict"), *tables, Words(note), Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "protocol": self.protocol,
            "images": self.n_images,
            "folds": self.folds,
            "signature": self.signature,
            "levels": {
                level: {
                    **{one.direction.name: _direction_data(one) for one in both},
                    **({"rSum": _number_data(self.rsum(level))} if len(both) == 2 else {}),
                }
                for level, both in self.levels.items()
            },
            "remarks": list(self.remarks),
        }

    def records(self) -> list[RunRecord]:
        """A record for each direction and level."""
        return [
            RunRecord(
                f"{level}: {one.direction.name}" if len(self.levels) > 1 else one.direction.name,
                one.scores,
                task="crossmodal",
                config={
                    "protocol": self.protocol,
                    "level": level,
                    "direction": one.direction.name,
                },
                chance=one.chance.mean(),
                ceiling=one.ceiling.mean(),
                clusters=one.clusters,
                aggregates=[*one.rank_numbers, *([self.rsum(level)] if len(both) == 2 else [])],
            )
            for level, both in self.levels.items()
            for one in both
        ]


_NO_TIES: Final = ("MedR", "MeanR", "rSum")


def _short(measure: str) -> str:
    """The field's name of a measure: its R@K is Success@K, so that R@K has another one.

    >>> _short("Success@5"), _short("R@5")
    ('R@5', 'recall@5')
    """
    kind, at, cutoff = measure.partition("@")
    return {"Success": "R", "R": "recall"}.get(kind, kind) + at + cutoff


def _paper_cell(number: Aggregate) -> Cell:
    if number.value is None or number.measure in _NO_TIES:
        return Cell(None if number.value is None else f"{number.value:.1f}", "figure")
    return Cell(f"{100 * number.value:.1f}", "figure")


def _number_data(one: Aggregate) -> dict[str, Any]:
    keys = ("value", "low", "high", "chance", "ceiling", "n", "empty", "tied")
    return {key: or_none(getattr(one, key)) for key in keys} | {"interval": one.method}


def _direction_data(one: PairedDirection) -> dict[str, Any]:
    return {
        "queries": one.scores.n_queries,
        "docs": one.n_docs,
        "signature": one.scores.signature,
        "measures": {number.measure: _number_data(number) for number in one.numbers},
    }
