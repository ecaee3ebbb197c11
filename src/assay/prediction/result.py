"""PredictionResult: scores of every sample, counts of every class, ranks, and their tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from assay.tables.table import Cell, Table

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
        """Return means over samples (micro), or over the groups of a column (macro)."""
        return self.scores.mean(by=by)

    def class_means(self) -> dict[str, float]:
        """Return accuracy, and F1, precision and recall under each average."""
        means = {"Accuracy": self.confusion.accuracy()}
        for name in CLASS_MEASURES:
            function = getattr(self.confusion, name.lower())
            means |= {f"{name}(avg={avg})": function(avg) for avg in reversed(AVERAGES)}
        return means

    def means(self) -> dict[str, float]:
        """Return means of the ranked measures and the top-1 measures of all classes."""
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
        """Return a confidence interval of each ranked measure.

        The method is that for the kind of values; see `assay.stats.interval`.
        """
        bounds = [measure.bounds for measure in self.scores.measures]
        ends = intervals(self.scores.values, level=level, seed=seed, bounds=bounds)
        return dict(zip(map(str, self.scores.measures), ends, strict=True))

    def uniform(self) -> dict[str, float] | None:
        """Return the expectation of a random ranking of all classes, in closed form.

        None where the size of the vocabulary is not known.
        """
        if not self.n_classes:
            return None
        sample = self.hits.select(self.hits.pool_row[:1])  # all samples with a target are alike
        expected = dict(chance(sample, self.scores.measures).mean(empty="skip"))
        return {**expected, "Accuracy": 1 / self.n_classes}

    def rank_histogram(self) -> list[RankBin]:
        """Count targets by rank: one by one to 5, then in growing steps."""
        has = np.diff(self.hits.pool_offsets) > 0
        ranks = self.rank[has]
        ranked = ranks[ranks > 0]
        top = int(ranked.max(initial=0))
        edges = [*range(1, 6), *_ENDS, top]
        ends = sorted({end for end in edges if end < top} | {top}) if top else []
        bins = [
            RankBin(first, last, int(((ranked >= first) & (ranked <= last)).sum()))
            for first, last in zip([1, *(end + 1 for end in ends)], ends, strict=False)
        ]
        missed = len(ranks) - len(ranked)
        return [*bins, RankBin(0, 0, missed)] if missed else bins

    def by_class(self) -> list[dict[str, Any]]:
        """Return support, predictions, hits, precision, recall and F1 of each class."""
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
        """Return the most frequent pairs of a true class and a wrong prediction."""
        pairs = zip(self.targets.tolist(), self.predicted.tolist(), strict=True)
        counts = Counter(pair for pair in pairs if pair[0] not in (-1, "") and pair[0] != pair[1])
        return [(*pair, n) for pair, n in counts.most_common(limit)]

    def to_dict(self, *, per_class: bool = False) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        data = self.scores.to_dict(per_query=False)
        result = {
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
            "intervals": {
                name: {
                    **numbers_or_none({"low": mean.low, "high": mean.high}),
                    "level": mean.level,
                    "method": mean.method,
                    "note": mean.note,
                }
                for name, mean in self.intervals().items()
            },
            "top1": numbers_or_none(self.class_means()),
            "uniform": None if self.uniform() is None else numbers_or_none(self.uniform() or {}),
            "ranks": [asdict(rank_bin) for rank_bin in self.rank_histogram()],
        }
        for column in self.scores.groups:
            macro = self.mean(by=column)
            groups = {name: numbers_or_none(values) for name, values in macro.groups.items()}
            group_means = {"macro": numbers_or_none(macro), "groups": groups, "sizes": macro.sizes}
            result.setdefault("by", {})[column] = group_means
        if per_class:
            result["per_class"] = self.by_class()
            result["mistakes"] = [
                {"class": true, "predicted": wrong, "samples": n}
                for true, wrong, n in self.mistakes()
            ]
        return result

    def records(self, *, name: str | None = None, number: int = 1) -> list[RunRecord]:
        """Return the record of this model, or of one seed by its number."""
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


def name_targets(numbers: Ints, names: NDArray[Any]) -> NDArray[Any]:
    """Return class numbers as names; −1, which is none, becomes −1 or an empty text."""
    if not len(names):
        return numbers
    none = -1 if names.dtype.kind in "iu" else ""
    labels: NDArray[Any] = np.where(numbers >= 0, names[np.maximum(numbers, 0)], none)
    return labels


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
    """Return records of models, one per seed."""
    return [
        record.but(model=name)
        for name, seeds in models.items()
        for number, result in enumerate(seeds, 1)
        for record in result.records(
            name=name if len(seeds) == 1 else f"{name} ({number})", number=number
        )
    ]


def summary_table(
    models: Mapping[str, Sequence[PredictionResult]], baselines: Sequence[PredictionResult] = ()
) -> Table:
    """Return a row per measure, a column per model (mean over seeds) and baseline.

    A single result has its interval beside it. The last columns are guessing at random, one for
    each size of vocabulary.
    """
    values = [_over_seeds(seeds) for seeds in models.values()]
    baseline_means = [_over_seeds([result]) for result in baselines]
    results = [result for seeds in models.values() for result in seeds]
    ends = results[0].intervals() if len(results) == 1 else None
    uniform = _guessing(results)
    names = dict.fromkeys(name for column in values for name in column)
    rows = []
    for name in names:
        row = [column[name] for column in values]
        cells = [Cell(value, "fraction", value == _best(row)) for value in row]
        if ends is not None:  # averages over classes have no interval
            mean = ends.get(name)
            low, high = (math.nan, math.nan) if mean is None else (mean.low, mean.high)
            cells += [Cell(low, "fraction"), Cell(high, "fraction")]
        beside = [*baseline_means, *uniform.values()]
        cells += [Cell(column.get(name, math.nan), "fraction") for column in beside]
        rows.append((Cell(name), *cells))
    titles = [
        name if len(seeds) == 1 else f"{name} (mean of {len(seeds)} seeds)"
        for name, seeds in models.items()
    ]
    titles += [] if ends is None else ["95 % from", "to"]
    titles += [result.name for result in baselines]
    return Table(("measure", *titles, *uniform), tuple(rows))


def _guessing(results: Sequence[PredictionResult]) -> dict[str, Mapping[str, float]]:
    """Return the expectation of a random ranking for each size of vocabulary."""
    expected = {result.n_classes: result.uniform() for result in results}
    sizes = {size: values for size, values in expected.items() if values is not None}
    if len(sizes) == 1:
        return {"uniform": next(iter(sizes.values()))}
    return {f"uniform of {size}": values for size, values in sorted(sizes.items())}


def _over_seeds(seeds: Sequence[PredictionResult]) -> dict[str, float]:
    each = [result.means() for result in seeds]
    return {name: math.fsum(result[name] for result in each) / len(each) for name in each[0]}


def _best(values: Sequence[float]) -> float:
    """Return the highest of several values that are not all equal."""
    defined = [value for value in values if not math.isnan(value)]
    return max(defined) if len(set(defined)) > 1 else math.nan


def _model_table(
    models: Sequence[PredictionResult],
    columns: Iterable[str],
    rows_of: Callable[[PredictionResult], Iterable[tuple[Cell, ...]]],
) -> Table:
    """Return the rows of all models, with the model's name in front where there are several."""
    if len(models) == 1:
        return Table(tuple(columns), tuple(rows_of(models[0])))
    rows = ((Cell(result.name), *row) for result in models for row in rows_of(result))
    return Table(("model", *columns), tuple(rows))


def class_table(models: Sequence[PredictionResult]) -> Table:
    """Return support and top-1 measures of each class, the most frequent first."""
    kinds = {"class": "text", "support": "count", "predicted": "count", "right": "count"}

    def rows_of(result: PredictionResult) -> Iterator[tuple[Cell, ...]]:
        for row in sorted(result.by_class(), key=lambda row: -row["support"]):
            yield tuple(Cell(value, kinds.get(key, "fraction")) for key, value in row.items())

    return _model_table(models, (*kinds, "precision", "recall", "F1"), rows_of)


def mistake_table(models: Sequence[PredictionResult]) -> Table:
    """Return the classes that are most often predicted for another one."""

    def rows_of(result: PredictionResult) -> Iterator[tuple[Cell, ...]]:
        for true, wrong, n in result.mistakes():
            yield Cell(str(true)), Cell(str(wrong)), Cell(n, "count")

    return _model_table(models, ("class", "predicted instead", "samples"), rows_of)


def rank_table(models: Sequence[PredictionResult]) -> Table:
    """Return how many targets stand at which ranks, with cumulative shares."""

    def rows_of(result: PredictionResult) -> Iterator[tuple[Cell, ...]]:
        bins = result.rank_histogram()
        total, so_far = sum(rank_bin.samples for rank_bin in bins), 0
        for rank_bin in bins:
            so_far += rank_bin.samples
            shares = (rank_bin.samples / total, so_far / total)
            counts = Cell(rank_bin.label), Cell(rank_bin.samples, "count")
            yield (*counts, *(Cell(share, "fraction") for share in shares))

    return _model_table(models, ("rank", "samples", "share", "so far"), rows_of)


def group_table(models: Sequence[PredictionResult], column: str) -> Table:
    """Return the mean over samples (micro), over groups (macro), and of each group."""

    def rows_of(result: PredictionResult) -> Iterator[tuple[Cell, ...]]:
        micro, macro = result.mean(), result.mean(by=column)
        lines: list[tuple[str, int, Mapping[str, float]]] = [
            ("micro (over samples)", micro.n, micro),
            (f"macro (over {column})", macro.n, macro),
            *((name, macro.sizes[name], values) for name, values in macro.groups.items()),
        ]
        for label, n, values in lines:
            yield Cell(label), Cell(n, "count"), *(Cell(v, "fraction") for v in values.values())

    return _model_table(models, (column, "n", *models[0].mean()), rows_of)
