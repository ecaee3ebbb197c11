"""PredictionResult: scores of every sample, top-1 counts of every class, and the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, numbers_or_none
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.measures import Measure
from assay.measures.classes import AVERAGES, Confusion
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.chance import chance
from assay.scoring.evaluate import score
from assay.scoring.output import limit_remarks, tied_remark
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, intervals

__all__ = [
    "CLASS_MEASURES",
    "PredictionResult",
    "RankBin",
    "make_result",
    "model_records",
    "name_targets",
]


_ENDS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_MOST_RESAMPLED = 20_000  # samples
CLASS_MEASURES = ("F1", "Precision", "Recall")


@dataclass(frozen=True)
class RankBin:
    """How many targets have a rank from `first` to `last`; both are 0 for those not found."""

    first: int
    last: int
    samples: int

    @property
    def label(self) -> str:
        """The ranks in words."""
        if not self.first:
            return "not found"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True, eq=False)
class PredictionResult:
    """One model on one set of samples, in the order of their ids.

    `scores` holds a value per measure and sample; `targets` the true class of each sample and
    `predicted` its first one, −1 or an empty text where there is none; `confusion` counts top-1
    predictions by class; `depth` is the length of the candidate lists, 0 where all classes were
    ranked; `repeated` is how often a list named a class again. `masked` samples have a score of
    −inf at their true class, `unlisted` ones a true class that no list of any sample names,
    `empty` ones an empty list.
    """

    name: str
    hits: Hits
    scores: Scores
    targets: NDArray[Any]
    predicted: NDArray[Any]
    confusion: Confusion
    depth: int = 0
    repeated: int = 0
    masked: int = 0
    unlisted: int = 0
    empty: int = 0

    @property
    def n_samples(self) -> int:
        """How many samples there are, with or without a target."""
        return self.hits.n_queries

    @property
    def n_without_target(self) -> int:
        """Samples that have no target; they are left out of every mean."""
        return self.n_samples - self.confusion.n

    @property
    def n_classes(self) -> int:
        """The size of the vocabulary; 0 where it is not known."""
        return int(self.hits.n_docs.max(initial=0))

    @cached_property
    def rank(self) -> Ints:
        """The target's rank for each sample; 0 where it was not found or there is none."""
        ranks = np.zeros(self.n_samples, np.int64)
        ranks[self.hits.row] = self.hits.rank
        return ranks

    def mean(self, *, by: str | None = None) -> Mean:
        """Means over samples (micro), or over the groups of a column (macro)."""
        return self.scores.mean(by=by)

    def class_means(self) -> dict[str, float]:
        """Accuracy, and F1, precision and recall under each average, from the top-1 counts."""
        found = {"Accuracy": self.confusion.accuracy()}
        for name in CLASS_MEASURES:
            function = getattr(self.confusion, name.lower())
            found |= {f"{name}(avg={avg})": function(avg) for avg in reversed(AVERAGES)}
        return found

    def means(self) -> dict[str, float]:
        """Means of the ranked measures over samples, and the top-1 measures of all classes."""
        return {**self.mean(), **self.class_means()}

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the numbers should know, a line each."""
        n = self.n_samples
        yield from self.scores.remarks
        if self.n_without_target:
            yield f"samples without a target, left out: {self.n_without_target}"
        if self.masked:
            yield (
                f"{self.masked} of {n} samples have -inf at their true class: it ranks last, with "
                "the other masked classes"
            )
        if self.unlisted:
            yield (
                f"{self.unlisted} of {n} samples have a true class that none of the lists names: "
                "they count 0"
            )
        if self.empty:
            yield f"{self.empty} of {n} samples have an empty list: they count 0"
        if self.repeated:
            yield f"repeated candidates in the lists: {self.repeated}; the first mention counts"
        yield from filter(None, [tied_remark(self.scores, "samples")])
        yield from limit_remarks(self.scores, self.uniform())

    def intervals(self, *, level: float = 0.95, seed: int = 0) -> dict[str, Interval]:
        """For each ranked measure how far the mean over other samples might lie.

        The method is that for the kind of values; see `assay.stats.interval`.
        """
        bounds = [measure.bounds for measure in self.scores.measures]
        found = intervals(self.scores.values, level=level, seed=seed, bounds=bounds)
        return dict(zip(map(str, self.scores.measures), found, strict=True))

    def uniform(self) -> dict[str, float] | None:
        """Expected value of a random ranking of all classes, in closed form.

        None where the size of the vocabulary is not known.
        """
        if not self.n_classes:
            return None
        one = self.hits.select(self.hits.pool_row[:1])  # all samples with a target are alike
        found = dict(chance(one, self.scores.measures).mean(empty="skip"))
        return {**found, "Accuracy": 1 / self.n_classes}

    def rank_histogram(self) -> list[RankBin]:
        """How many targets stand at which ranks: one by one to 5, then in growing steps."""
        has = np.diff(self.hits.pool_offsets) > 0
        ranks = self.rank[has]
        found = ranks[ranks > 0]
        top = int(found.max(initial=0))
        edges = [*range(1, 6), *_ENDS, top]
        ends = sorted({end for end in edges if end < top} | {top}) if top else []
        bins = []
        for first, last in zip([1, *(end + 1 for end in ends)], ends, strict=False):
            bins.append(RankBin(first, last, int(((found >= first) & (found <= last)).sum())))
        missed = len(ranks) - len(found)
        return [*bins, RankBin(0, 0, missed)] if missed else bins

    def by_class(self) -> list[dict[str, Any]]:
        """For each class its support, predictions, hits, precision, recall and F1."""
        counts = self.confusion
        columns = (
            counts.classes.tolist(),
            counts.actual.tolist(),
            counts.predicted.tolist(),
            counts.right.tolist(),
            counts.precision_by_class().tolist(),
            counts.recall_by_class().tolist(),
            counts.f1_by_class().tolist(),
        )
        keys = ("class", "support", "predicted", "right", "precision", "recall", "f1")
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def mistakes(self, limit: int = 20) -> list[tuple[Any, Any, int]]:
        """The most frequent pairs of a true class and another one that was predicted for it."""
        pairs = zip(self.targets.tolist(), self.predicted.tolist(), strict=True)
        counts = Counter(pair for pair in pairs if pair[0] not in (-1, "") and pair[0] != pair[1])
        return [(*pair, n) for pair, n in counts.most_common(limit)]

    def to_dict(self, *, per_class: bool = False) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        data = self.scores.to_dict(per_query=False)
        found = {
            "name": self.name,
            "samples": self.n_samples,
            "without_target": self.n_without_target,
            "classes": self.n_classes or None,
            "list_length": self.depth or None,
            "repeated_candidates": self.repeated,
            "masked_targets": self.masked,
            "unlisted_targets": self.unlisted,
            "empty_lists": self.empty,
            "signature": self.scores.signature,
            "measures": data["measures"],
            "intervals": {name: _ends(one) for name, one in self.intervals().items()},
            "top1": _plain(self.class_means()),
            "uniform": None if self.uniform() is None else _plain(self.uniform() or {}),
            "ranks": [
                {"first": b.first, "last": b.last, "samples": b.samples}
                for b in self.rank_histogram()
            ],
        }
        for column in self.scores.groups:
            macro = self.mean(by=column)
            groups = {name: _plain(values) for name, values in macro.groups.items()}
            shown = {"macro": _plain(macro), "groups": groups, "sizes": macro.sizes}
            found.setdefault("by", {})[column] = shown
        if per_class:
            found["per_class"] = self.by_class()
            found["mistakes"] = [
                {"class": true, "predicted": wrong, "samples": n}
                for true, wrong, n in self.mistakes()
            ]
        return found

    def records(self, *, name: str | None = None, number: int = 1) -> list[RunRecord]:
        """The record of this model, or of one seed of it by its number."""
        return [
            RunRecord(
                name or self.name,
                self.scores,
                task="prediction",
                model=self.name,
                config={"seed_number": number},
                chance=self.uniform(),
                aggregates=[
                    Aggregate(key, value, average="classes", n=self.confusion.n)
                    for key, value in self.class_means().items()
                ],
            )
        ]

    def __repr__(self) -> str:
        """Name, size and the means."""
        means = ", ".join(f"{name}={value:.4f}" for name, value in self.mean().items())
        return f"PredictionResult({self.name}, {self.n_samples} samples: {means})"


def _ends(interval: Interval) -> dict[str, Any]:
    ends = _plain({"low": interval.low, "high": interval.high})
    return {**ends, "level": interval.level, "method": interval.method, "note": interval.note}


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return numbers_or_none(values)


def name_targets(numbers: Ints, names: NDArray[Any]) -> NDArray[Any]:
    """Class numbers as names; −1, which is none, becomes −1 or an empty text."""
    if not len(names):
        return numbers
    none = -1 if names.dtype.kind in "iu" else ""
    found: NDArray[Any] = np.where(numbers >= 0, names[np.maximum(numbers, 0)], none)
    return found


def make_result(
    hits: Hits,
    confusion: Confusion,
    *,
    targets: NDArray[Any],
    predicted: NDArray[Any],
    query_ids: Any,
    measures: str | Measure | Iterable[str | Measure],
    name: str,
    groups: Mapping[str, Any] | None,
    conventions: str | Conventions,
    depth: int = 0,
    **counts: int,
) -> PredictionResult:
    """Score the hits; `targets` and `predicted` are in the order of `query_ids`.

    Groups are {column: {sample id: group}}, or lists where samples have no id.
    A rank beyond the end of a list is not known, so a cut-off must not lie there. `counts` are
    those of `PredictionResult`: repeated, masked, unlisted, empty.
    """
    scores = score(hits, measures, conventions=conventions).but_settings(
        n_docs=int(hits.n_docs.max(initial=0)) or None, list_length=depth or None
    )
    for measure in scores.measures:
        cutoff = measure.cutoff
        if depth and not (isinstance(cutoff, int) and cutoff <= depth):
            raise UsageError(
                f"{measure} looks beyond the end of lists of {depth} candidates. "
                f"Use {measure.name}@{depth} or a smaller cut-off, or give scores of all classes."
            )
    if groups is not None:
        checks.require(groups, Mapping, "groups", "{column: {sample id: group}}")
        scores = scores.with_groups(**groups)
    ids = Ids.count(len(targets)) if query_ids is None else Ids.of(query_ids, what="query")
    order = ids.order()  # as hits are
    return PredictionResult(
        name, hits, scores, targets[order], predicted[order], confusion, depth, **counts
    )


def model_records(models: Mapping[str, Sequence[PredictionResult]]) -> list[RunRecord]:
    """Records of models, each once for every seed."""
    return [
        record.but(model=name)
        for name, seeds in models.items()
        for number, one in enumerate(seeds, 1)
        for record in one.records(
            name=name if len(seeds) == 1 else f"{name} ({number})", number=number
        )
    ]
