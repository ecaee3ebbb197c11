"""PredictionResult: scores of every sample, counts of every class, ranks, and their tables.

Several seeds of a model have a mean, a spread and Student's interval. Welch's test compares the
means of seeds; the paired test compares models sample by sample, on the mean over seeds of each
sample. The second is the one to prefer, and `ADVICE` says why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Ints, numbers_or_none
from assay.comparison.alignment import cluster_labels, cluster_settings
from assay.comparison.compare import Comparison, compare
from assay.comparison.verdict import verdict_words
from assay.core.hits import Hits
from assay.core.text import did_you_mean
from assay.errors import MismatchError, UsageError
from assay.prediction.classes import AVERAGES, Confusion
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.chance import chance
from assay.scoring.output import limit_remarks, tied_remark
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, TestResult, interval, intervals, welch_test
from assay.tables.svg import Drawing, heat_map
from assay.tables.table import Cell, Page, Shown, Table, Words, table_of

_LOW_ENDS: Final = ("95 % low", "95 % CI low", "95 % from")
_ENDS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
CLASS_MEASURES = ("F1", "Precision", "Recall")
_CLASS_COLUMNS: Final = ("class", "support", "predicted", "right", "precision", "recall", "f1")
# By the counts of a result, and of its samples.
_REMARKS: Final = {
    "n_without_target": "{} samples without a target were left out",
    "masked": "{} of {} samples have -inf at their true class: it ranks last, tied with all masked "
    "classes",
    "unlisted": "{} of {} samples have a true class that no list names (counted as 0)",
    "empty": "{} of {} samples have an empty list (counted as 0)",
    "repeated": "{} repeated candidates in lists (only the first mention counts)",
}
_FIELD_NAMES: Final = {
    **{"Success": "Acc", "RR": "MRR", "nDCG": "NDCG"},
    **{"F1(avg=weighted)": "F1", "F1(avg=macro)": "macro F1"},
}
ADVICE: Final = (
    "Prefer the paired test over samples: it uses every sample, while Welch's test has one "
    "number per seed and covers variation between seeds only."
)
_ONLY_WELCH: Final = (
    "Result files hold means only. Pass predictions of each sample for the more powerful "
    "paired test."
)


@dataclass(frozen=True)
class RankBin:
    """Number of targets with ranks `first` to `last`; both 0 if not found."""

    first: int
    last: int
    samples: int

    @property
    def label(self) -> str:
        """The ranks in words."""
        if not self.first:
            return "not found"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class ClusterSize:
    """Number and effective number of groups of dependent samples, such as users.

    Groups of uneven size count like fewer: (Σ n)² / Σ n² (Kish 1965, Survey sampling).

    >>> str(ClusterSize("user", 3, 2.7))
    'user(n=3,effective=2.7)'
    """

    column: str
    n: int
    effective: float

    @classmethod
    def of(cls, scores: Scores, column: str) -> ClusterSize | None:
        """Count the groups of the samples that have a target; None without a column."""
        labels = cluster_labels(scores, column) if column else None
        if labels is None:
            return None
        sizes = np.unique(labels[~np.isnan(scores.values).all(axis=0)], return_counts=True)[1]
        effective = float(sizes.sum()) ** 2 / max(float((sizes**2).sum()), 1.0)
        return cls(column, len(sizes), effective)

    def __str__(self) -> str:
        return f"{self.column}(n={self.n},effective={self.effective:.1f})"

    @property
    def sentence(self) -> str:
        """Resampling unit, in words."""
        return (
            f"Intervals and tests resample whole groups by {self.column} ({self.n:,}; "
            f"effective number {self.effective:.1f})."
        )


@dataclass(frozen=True, eq=False)
class PredictionResult(Shown):
    """One model on one set of samples, in the order of their ids.

    Args:
        name: Name of the model.
        hits: Ranks of the true classes.
        scores: A value per measure and sample.
        targets: True class of each sample, −1 or an empty text where there is none.
        predicted: First class of each sample, likewise.
        confusion: Counts of the top-1 predictions by class.
        clusters: Groups whose samples are not independent; None where all are.
        depth: Length of the candidate lists, 0 where all classes were ranked.
        repeated: Number of places at which a list names a class again.
        masked: Number of samples with a score of −inf at their true class.
        unlisted: Number of samples whose true class no list of any sample names.
        empty: Number of samples with an empty list.

    >>> from assay.prediction import evaluate_predictions
    >>> result = evaluate_predictions([[0.1, 0.9], [0.6, 0.4]], [1, 1])
    >>> result.rank.tolist(), result.mean()["Acc@1"]
    ([1, 2], 0.5)
    """

    name: str
    hits: Hits
    scores: Scores
    targets: NDArray[Any]
    predicted: NDArray[Any]
    confusion: Confusion
    clusters: ClusterSize | None = None
    depth: int = 0
    repeated: int = 0
    masked: int = 0
    unlisted: int = 0
    empty: int = 0

    @property
    def users(self) -> NDArray[Any] | None:
        """The cluster of each sample; None where samples are independent."""
        return self.scores.groups[self.clusters.column] if self.clusters else None

    @property
    def cluster_column(self) -> str:
        """The column of groups whose samples are not independent; empty where there is none."""
        return self.clusters.column if self.clusters else ""

    @property
    def n_samples(self) -> int:
        """Number of samples, with or without a target."""
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
        """Return the warnings."""
        yield from self.scores.remarks
        for name, words in _REMARKS.items():
            if count := getattr(self, name):
                yield words.format(count, self.n_samples)
        yield from filter(None, [tied_remark(self.scores, "samples")])
        yield from limit_remarks(self.scores, self.uniform())

    def intervals(self, *, level: float = 0.95, seed: int = 0) -> dict[str, Interval]:
        """Return a confidence interval of each ranked measure.

        The method is that for the kind of values; see `assay.stats.interval`.
        """
        bounds = [measure.bounds for measure in self.scores.measures]
        groups = self.users
        ends = intervals(self.scores.values, level=level, seed=seed, bounds=bounds, clusters=groups)
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
        columns = [counts.classes, counts.actual, counts.predicted, counts.right]
        columns += [counts.precision_by_class(), counts.recall_by_class(), counts.f1_by_class()]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [dict(zip(_CLASS_COLUMNS, row, strict=True)) for row in rows]

    def mistakes(self, limit: int = 20) -> list[tuple[Any, Any, int]]:
        """Return the most frequent pairs of a true class and a wrong prediction."""
        pairs = zip(self.targets.tolist(), self.predicted.tolist(), strict=True)
        counts = Counter(pair for pair in pairs if pair[0] not in (-1, "") and pair[0] != pair[1])
        return [(*pair, n) for pair, n in counts.most_common(limit)]

    def confusion_counts(self) -> list[tuple[str, str, int, float]]:
        """Return true class, predicted class, samples and their share of the true class."""
        pairs = np.stack([self.targets.astype(str), self.predicted.astype(str)], axis=1)
        pairs[:, 1][np.isin(self.predicted.astype(str), ("-1", ""))] = "none"
        pairs = pairs[~np.isin(self.targets.astype(str), ("-1", ""))]
        unique, counts = np.unique(pairs, axis=0, return_counts=True)
        sizes = Counter(pairs[:, 0].tolist())
        rows = zip(unique.tolist(), counts.tolist(), strict=True)
        return [(true, first, n, n / sizes[true]) for (true, first), n in rows]

    def draw_confusion(self, largest: int = 60) -> Drawing:
        """Draw the confusion matrix; beyond `largest` classes the rarest become one.

        Returns:
            A square: rows are true classes, columns predicted ones, colours shares of a row.
        """
        counts = self.confusion_counts()
        weights = Counter[str]()
        for true, first, n, _ in counts:
            weights.update({true: n, first: 0})
        names = [name for name, _ in weights.most_common()]
        if len(names) > largest:
            names = [*names[: largest - 1], f"{len(names) - largest + 1} other classes"]
        place = {name: at for at, name in enumerate(names)}
        square = np.zeros((len(names), len(names)))
        for true, first, n, _ in counts:
            square[place.get(true, len(names) - 1), place.get(first, len(names) - 1)] += n
        total = square.sum(axis=1, keepdims=True)
        shares = np.divide(square, total, out=np.full_like(square, np.nan), where=total > 0)
        title = f"{self.name}: predicted classes"
        return heat_map(names, shares, title=title, rows="true class", columns="predicted")

    def to_dict(
        self, *, per_class: bool = False, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None.

        `columns` are those of the groups to show; by default all but the clusters.
        """
        counts = {"repeated_candidates": self.repeated, "masked_targets": self.masked}
        counts |= {"unlisted_targets": self.unlisted, "empty_lists": self.empty}
        result = {
            "name": self.name,
            "samples": self.n_samples,
            "without_target": self.n_without_target,
            "classes": self.n_classes or None,
            "list_length": self.depth or None,
            **counts,
            "signature": self.scores.signature,
            "measures": self.scores.to_dict(per_query=False)["measures"],
            "intervals": {
                name: {
                    **numbers_or_none({"low": mean.low, "high": mean.high}),
                    **{key: getattr(mean, key) for key in ("level", "method", "note")},
                }
                for name, mean in self.intervals().items()
            },
            "top1": numbers_or_none(self.class_means()),
            "uniform": None if self.uniform() is None else numbers_or_none(self.uniform() or {}),
            "ranks": [asdict(rank_bin) for rank_bin in self.rank_histogram()],
            **({"clusters": asdict(self.clusters)} if self.clusters else {}),
        }
        group_names = [name for name in self.scores.groups if name != self.cluster_column]
        for column in group_names if columns is None else columns:
            macro = self.mean(by=column)
            groups = {name: numbers_or_none(values) for name, values in macro.groups.items()}
            group_means = {"macro": numbers_or_none(macro), "groups": groups, "sizes": macro.sizes}
            result.setdefault("by", {})[column] = group_means
        if per_class:
            keys = ("class", "predicted", "samples")
            mistakes = [dict(zip(keys, row, strict=True)) for row in self.mistakes()]
            result |= {"per_class": self.by_class(), "mistakes": mistakes}
        return result

    def records(self, *, name: str | None = None, number: int = 1) -> list[RunRecord]:
        """Return the record of this model, or of one seed by its number."""
        facts: Any = {"average": "classes", "n": self.confusion.n}
        record = RunRecord(
            name or self.name,
            self.scores,
            task="prediction",
            model=self.name,
            config={"seed_number": number},
            clusters=self.cluster_column,
            chance=self.uniform(),
            aggregates=[Aggregate(*mean, **facts) for mean in self.class_means().items()],
        )
        return [record]

    def __repr__(self) -> str:
        """Return name, size and means."""
        means = ", ".join(f"{name}={value:.4f}" for name, value in self.mean().items())
        return f"PredictionResult({self.name}, {self.n_samples} samples: {means})"

    def page(self) -> Page:
        """Return the means in percent as a table, then remarks and signature."""
        table = field_table({self.name: [self]}, measures=list(self.mean()))
        remarks = [Words(remark, "remark") for remark in self.remarks]
        return [table, *remarks, Words(self.scores.signature, "signature")]


Row = Sequence[str | float | int | None]


def field_table(
    models: Mapping[str, Sequence[PredictionResult]],
    baselines: Sequence[PredictionResult] = (),
    *,
    measures: Sequence[str],
    paired: Comparison | None = None,
) -> Table:
    """Return a row per model in percent, under the names of the field.

    Args:
        models: Results of the seeds of each model; several show mean ± standard deviation.
        baselines: Results shown below the models.
        measures: Which of their means to show.
        paired: The comparison of the models, which says which of them may be the best.

    Returns:
        The table. A model of one seed has its intervals below; the last rows are random guesses.
    """
    results = [result for seeds in models.values() for result in seeds]
    rows: list[tuple[Cell, ...]] = []
    for model, seeds in models.items():
        each = [result.means() for result in seeds]
        best = [paired is not None and _may_be_best(paired, name, model) for name in measures]
        values = ([mean[name] for mean in each] for name in measures)
        cells = map(_percent, values, best)
        rows.append((Cell(model_label(model, seeds)), *cells))
        if len(seeds) == 1:
            ends = seeds[0].intervals()
            below = (Cell(_ends_in_percent(ends.get(name)), "figure") for name in measures)
            rows.append((Cell(f"  {Interval.heading()}"), *below))
    guesses = _expect_guessing(results).items()
    for name, means in [*((result.name, result.means()) for result in baselines), *guesses]:
        rows.append((Cell(name), *(Cell(means.get(key), "percent") for key in measures)))
    return Table(("model (%)", *map(name_in_field, measures)), tuple(rows))


def model_label(model: str, seeds: Sequence[PredictionResult]) -> str:
    """Return the model's name, with the number of its seeds where there are several."""
    return model if len(seeds) == 1 else f"{model} ({len(seeds)} seeds)"


def name_in_field(measure: str) -> str:
    """Return the name by which papers on predictions know a measure.

    >>> [name_in_field(name) for name in ("Success@5", "RR", "nDCG@10", "F1(avg=weighted)")]
    ['Acc@5', 'MRR', 'NDCG@10', 'F1']
    """
    for name, label in _FIELD_NAMES.items():
        if measure == name or measure.startswith(f"{name}@"):
            return label + measure.removeprefix(name)
    return measure


def _may_be_best(paired: Comparison, measure: str, model: str) -> bool:
    rows = (row for row in paired.standings if (row.name, row.measure) == (model, measure))
    return any(row.leads for row in rows)


def _percent(values: Sequence[float], best: bool) -> Cell:
    """Return one value, or mean ± standard deviation of several, in percent."""
    if len(values) == 1:
        return Cell(values[0], "percent", best)
    sd = np.std(values, ddof=1)
    return Cell(f"{100 * _average(values):.2f}±{100 * sd:.2f}", "figure", best)


def _ends_in_percent(mean: Interval | None) -> str | None:
    if mean is None or math.isnan(mean.low):
        return None
    return f"{100 * mean.low:.1f}–{100 * mean.high:.1f}"


def summary_table(
    models: Mapping[str, Sequence[PredictionResult]],
    baselines: Sequence[PredictionResult] = (),
    *,
    with_classes: bool = True,
) -> Table:
    """Return a row per measure, a column per model (mean over seeds) and baseline.

    A single result has its interval beside it. The last columns are guessing at random, one for
    each size of vocabulary. Without classes, only the ranked measures are shown.
    """
    values = [average_means(seeds) for seeds in models.values()]
    baseline_means = [average_means([result]) for result in baselines]
    results = [result for seeds in models.values() for result in seeds]
    ends = results[0].intervals() if len(results) == 1 else None
    uniform = _expect_guessing(results)
    rows = []
    for name in values[0] if with_classes else results[0].mean():
        cells = [Cell(column[name], "fraction") for column in values]
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
    titles += [] if ends is None else [f"{Interval.heading()} low", "high"]
    titles += [result.name for result in baselines]
    return Table(("measure", *titles, *uniform), tuple(rows))


def for_people(table: Table) -> Table:
    """Return the table with an interval in one column and the field's names of measures."""
    rows, columns = [list(row) for row in table.rows], list(table.columns)
    if at := next((i for i, name in enumerate(columns) if name in _LOW_ENDS), 0):
        columns[at : at + 2] = [Interval.heading()]
        for row in rows:
            ends = f"[{row[at].text}, {row[at + 1].text}]" if row[at].exact else None
            row[at : at + 2] = [Cell(ends, "figure")]
    if "measure" in columns:
        place = columns.index("measure")
        for row in rows:
            row[place] = Cell(name_in_field(row[place].text))
    else:
        columns = [*map(name_in_field, columns)]
    return replace(table, columns=tuple(columns), rows=tuple(map(tuple, rows)))


def _expect_guessing(results: Sequence[PredictionResult]) -> dict[str, Mapping[str, float]]:
    """Return the expectation of a random ranking for each size of vocabulary."""
    expected = {result.n_classes: result.uniform() for result in results}
    sizes = {size: values for size, values in expected.items() if values is not None}
    title = "random guess" if len(sizes) == 1 else "random guess of {}"
    return {title.format(size): values for size, values in sorted(sizes.items())}


def average_means(seeds: Sequence[PredictionResult]) -> dict[str, float]:
    """Return the mean over seeds of every measure."""
    each = [result.means() for result in seeds]
    return {name: math.fsum(result[name] for result in each) / len(each) for name in each[0]}


def _model_table(
    models: Sequence[PredictionResult],
    columns: Iterable[str],
    rows_of: Callable[[PredictionResult], Iterable[Row]],
) -> Table:
    """Return the rows of all models, with the model's name in front where there are several."""
    if len(models) == 1:
        return table_of(columns, rows_of(models[0]))
    rows = ((result.name, *row) for result in models for row in rows_of(result))
    return table_of(("model", *columns), rows)


def class_table(models: Sequence[PredictionResult]) -> Table:
    """Return support and top-1 measures of each class, the most frequent first."""

    def rows_of(result: PredictionResult) -> Iterator[Row]:
        rows = sorted(result.by_class(), key=lambda row: -row["support"])
        return ((str(label), *numbers) for label, *numbers in (row.values() for row in rows))

    return _model_table(models, (*_CLASS_COLUMNS[:-1], "F1"), rows_of)


def mistake_table(models: Sequence[PredictionResult]) -> Table:
    """Return the classes that are most often predicted for another one."""

    def rows_of(result: PredictionResult) -> Iterator[Row]:
        return ((str(true), str(wrong), n) for true, wrong, n in result.mistakes())

    return _model_table(models, ("class", "predicted instead", "samples"), rows_of)


def confusion_table(models: Sequence[PredictionResult]) -> Table:
    """Return how often each class was predicted for each, with its share of the true class."""
    columns = ("class", "predicted", "samples", "share")
    return _model_table(models, columns, PredictionResult.confusion_counts)


def rank_table(models: Sequence[PredictionResult]) -> Table:
    """Return targets by rank, with cumulative shares."""

    def rows_of(result: PredictionResult) -> Iterator[Row]:
        bins = result.rank_histogram()
        total, so_far = sum(rank_bin.samples for rank_bin in bins), 0
        for rank_bin in bins:
            so_far += rank_bin.samples
            yield rank_bin.label, rank_bin.samples, rank_bin.samples / total, so_far / total

    return _model_table(models, ("rank", "samples", "share", "so far"), rows_of)


def group_table(models: Sequence[PredictionResult], column: str) -> Table:
    """Return the mean over samples (micro), over groups (macro), and of each group."""

    def rows_of(result: PredictionResult) -> Iterator[Row]:
        micro, macro = result.mean(), result.mean(by=column)
        yield "micro (over samples)", micro.n, *micro.values()
        yield f"macro (over {column})", macro.n, *macro.values()
        for name, values in macro.groups.items():
            yield name, macro.sizes[name], *values.values()

    return _model_table(models, (column, "n", *models[0].mean()), rows_of)


Means = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class SeedRow:
    """One model on one measure: mean over seeds, standard deviation between them, interval."""

    model: str
    measure: str
    mean: float
    sd: float
    interval: Interval
    n_seeds: int

    @classmethod
    def of(cls, model: str, measure: str, values: Sequence[float], level: float) -> SeedRow:
        """Average the seeds of one model; undefined means are left out."""
        mean = interval(values, method="t", level=level)
        defined = _drop_undefined(values)
        sd = float(np.std(defined, ddof=1)) if len(defined) > 1 else math.nan
        return cls(model, measure, mean.estimate, sd, mean, len(defined))

    @property
    def cells(self) -> Row:
        """Its row in a table."""
        ends = self.interval.low, self.interval.high
        return self.measure, self.model, self.n_seeds, self.mean, self.sd, *ends

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        names = {"model": self.model, "measure": self.measure}
        ends = {"sd": self.sd, "low": self.interval.low, "high": self.interval.high}
        facts = {"seeds": self.n_seeds, "note": self.interval.note}
        return {**names, **numbers_or_none({"mean": self.mean, **ends}), **facts}


@dataclass(frozen=True)
class WelchRow:
    """Two models on one measure: the difference of their means over seeds, and Welch's test."""

    a: str
    b: str
    measure: str
    difference: float
    test: TestResult

    @property
    def cells(self) -> Row:
        """Its row in a table."""
        models = f"{self.a} − {self.b}"
        return self.measure, models, self.difference, self.test.p, self.test.note

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        names = {"a": self.a, "b": self.b, "measure": self.measure}
        numbers = numbers_or_none({"difference": self.difference, "p": self.test.p})
        return {**names, **numbers, "note": self.test.note}


@dataclass(frozen=True, eq=False, repr=False)
class SeedReport(Shown):
    """Models over seeds and, where samples are known, over samples.

    Args:
        rows: Mean, spread and interval of each model and measure.
        welch: Welch's test of each pair of models on each measure.
        paired: The comparison sample by sample; None where only means are known.
        data: Name of the samples.

    >>> means = {"a": {"RR": [0.41, 0.43]}, "b": {"RR": [0.31, 0.30]}}
    >>> report = compare_seed_means(means)
    >>> round(report.welch[0].difference, 4), report.paired
    (0.115, None)
    """

    rows: tuple[SeedRow, ...]
    welch: tuple[WelchRow, ...]
    paired: Comparison | None = None
    data: str = ""

    @property
    def advice(self) -> str:
        """The recommended test; empty for a single model."""
        if not self.welch:
            return ""
        return _ONLY_WELCH if self.paired is None else ADVICE

    def seed_table(self) -> Table:
        """Return mean, sd and interval over seeds, a row for each model and measure."""
        order = list(dict.fromkeys(row.measure for row in self.rows))
        level = f"{self.rows[0].interval.level * 100:g} %" if self.rows else ""
        columns = ("measure", "model", "seeds", "mean", "sd", f"{level} from", "to")
        rows = sorted(self.rows, key=lambda row: order.index(row.measure))
        return self._data_table(columns, rows)

    def welch_table(self) -> Table:
        """Return Welch's test between models, over seeds."""
        columns = ("measure", "models", "difference", "p (Welch)", "note")
        return self._data_table(columns, self.welch)

    def page(self) -> Page:
        """Return verdicts, means over seeds, tests between models, and which test to believe."""
        verdicts = {} if self.paired is None else self.paired.verdicts
        page: Page = [*verdict_words(verdicts.values())]
        tables = map(for_people, (self.seed_table(), self.welch_table()))
        page += [table for table in tables if table.rows]
        return [*page, Words(self.advice, "method")]

    def _data_table(self, columns: Sequence[str], rows: Iterable[SeedRow | WelchRow]) -> Table:
        """Return a table with the samples in front, where they have a name."""
        front = [self.data] if self.data else []
        cells = ((*front, *row.cells) for row in rows)
        return table_of((*("samples" for _ in front), *columns), cells)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        data = {"data": self.data} if self.data else {}
        return {
            "models": [row.to_dict() | data for row in self.rows],
            "welch": [row.to_dict() | data for row in self.welch],
            "paired": None if self.paired is None else self.paired.to_dict(),
            "advice": self.advice,
        }


def compare_seed_means(
    means: Means, *, level: float = 0.95, data: str = "", baseline: str | None = None
) -> SeedReport:
    """Compare models of which only means are known.

    Args:
        means: {model: {measure: [a mean per seed]}}, all of the same samples.
        level: Confidence level of the intervals.
        data: Name of the samples in the rows.
        baseline: The model that the others are compared with. Without it, all pairs are compared.

    Returns:
        A row per model and measure, and Welch's test of each pair on the measures of both.

    >>> report = compare_seed_means({"a": {"RR": [0.41, 0.43, 0.42]}})
    >>> round(report.rows[0].mean, 4), round(report.rows[0].sd, 4)
    (0.42, 0.01)
    """
    rows = tuple(
        SeedRow.of(model, measure, values, level)
        for model, by_measure in means.items()
        for measure, values in by_measure.items()
    )
    pairs = list(combinations(means, 2))
    if baseline is not None:
        pairs = [(model, baseline) for model in means if model != baseline]
    shared = ((a, b, name) for a, b in pairs for name in means[a] if name in means[b])
    tests = []
    for a, b, measure in shared:
        left, right = means[a][measure], means[b][measure]
        difference = _average(left) - _average(right)
        tests.append(WelchRow(a, b, measure, difference, welch_test(left, right)))
    return SeedReport(rows, tuple(tests), data=data)


def _average(values: Sequence[float]) -> float:
    defined = _drop_undefined(values)
    return math.fsum(defined) / len(defined) if defined else math.nan


def _drop_undefined(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def compare_models(
    models: Mapping[str, Sequence[PredictionResult]],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    baseline: str | None = None,
) -> SeedReport:
    """Compare models over seeds and, paired, over samples or over clusters of them.

    Args:
        models: {model: results of its seeds}, all on the same samples, which are matched by id, or
            by row where there are no ids. The paired test draws their clusters.
        level: Confidence level of the intervals.
        resamples: Number of resamples of the paired test.
        seed: Random seed of the paired test.
        baseline: The model that the others are compared with. Without it, all pairs are compared.

    Returns:
        Means over seeds, Welch's tests and the paired comparison.

    Raises:
        MismatchError: Results have other samples, targets or measures.
        UsageError: A model has no results.

    >>> from assay.prediction import evaluate_predictions
    >>> result = evaluate_predictions([[0.1, 0.9], [0.6, 0.4]], [1, 1])
    >>> report = compare_models({"net": [result, result]})
    >>> report.rows[0].measure, report.rows[0].mean, report.rows[0].n_seeds
    ('Success@1', 0.5, 2)
    """
    if empty := [model for model, results in models.items() if not results]:
        raise UsageError(f"Model {empty[0]!r} has no results. Add one, or remove it.")
    _check_same_targets(models)
    averaged = {model: _average_seeds(model, results) for model, results in models.items()}
    means = {}
    for model, results in models.items():
        each = [result.means() for result in results]
        # Other top-1 measures than F1 add nothing.
        names = [*results[0].mean(), "F1(avg=weighted)", "F1(avg=macro)"]
        means[model] = {name: [mean[name] for mean in each] for name in names}
    if baseline is not None and baseline not in models:
        hint = did_you_mean(baseline, models, most=2, fallback=5)
        raise UsageError(f"The baseline {baseline!r} is not a model.{hint}")
    report = compare_seed_means(means, level=level, baseline=baseline)
    if len(models) < 2:
        return report
    runs = [(result.cluster_column, result.scores) for (result, *_) in models.values()]
    resampling: Any = {"resamples": resamples, "seed": seed, "by": cluster_settings(runs).get("by")}
    resampling["level"] = round(1 - level, 12)  # 0.05, not 0.050000000000000044
    names = list(averaged)
    paired = compare(*averaged.values(), names=names, baseline=baseline, **resampling)
    return replace(report, paired=paired)


def _check_same_targets(models: Mapping[str, Sequence[PredictionResult]]) -> None:
    """Refuse results of other samples: as many, but with other true classes."""
    named = [(model, result) for model, results in models.items() for result in results]
    first_name, first = named[0]
    for name, result in named[1:]:
        if result.scores.query_ids != first.scores.query_ids:
            continue  # the comparison aligns them by id, or refuses them
        other = result.targets != first.targets
        if np.any(other):
            row = int(np.argmax(other))
            raise MismatchError(
                f"{first_name} and {name} have different targets, first in sample "
                f"{first.scores.query_ids[row]!r}: {first.targets[row]} and "
                f"{result.targets[row]}. Compare predictions of the same samples."
            )


def _average_seeds(model: str, results: Sequence[PredictionResult]) -> Scores:
    """Return the mean over seeds of every sample."""
    first = results[0].scores
    for number, result in enumerate(results[1:], 2):
        other = result.scores
        if other.query_ids != first.query_ids or other.measures != first.measures:
            raise MismatchError(
                f"Seed {number} of {model!r} differs from seed 1 in samples or measures. Use "
                "the same for all seeds."
            )
    values = np.mean([result.scores.values for result in results], axis=0)
    tied = np.any([result.scores.tied for result in results], axis=0)
    return replace(first, values=values, tied=tied)
