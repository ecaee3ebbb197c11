"""Several seeds of a model: mean, spread, Student's interval, and tests between models.

Welch's test compares the means of seeds; the paired test compares models sample by sample, on the
mean over seeds of each sample. The second is the one to prefer, and `ADVICE` says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison, compare
from assay.errors import MismatchError, UsageError
from assay.prediction.result import PredictionResult
from assay.scoring.scores import Scores
from assay.stats import Interval, TestResult, interval, welch_test
from assay.tables.table import Cell, Table

ADVICE = (
    "Prefer the paired test over samples: it compares the models on the same samples, of which "
    "there are many, while Welch's test has as many numbers as there are seeds and only asks "
    "whether other seeds would change the means."
)
_ONLY_WELCH = (
    "Only means are known here. With the predictions of each sample, the paired test over samples "
    "would be the one to prefer."
)

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
    data: str = ""


@dataclass(frozen=True)
class WelchRow:
    """Two models on one measure: the difference of their means over seeds, and Welch's test."""

    a: str
    b: str
    measure: str
    difference: float
    test: TestResult
    data: str = ""


@dataclass(frozen=True, eq=False)
class SeedReport:
    """Models over seeds; `paired` compares them over samples, where samples are known."""

    rows: tuple[SeedRow, ...]
    welch: tuple[WelchRow, ...]
    paired: Comparison | None = None

    @property
    def advice(self) -> str:
        """Which test to believe; empty for a single model."""
        if not self.welch:
            return ""
        return _ONLY_WELCH if self.paired is None else ADVICE

    def seed_table(self) -> Table:
        """Return mean, sd and interval over seeds, a row for each model and measure."""
        order = list(dict.fromkeys(row.measure for row in self.rows))
        rows = tuple(
            (
                *_data_cells(row.data),
                Cell(row.measure),
                Cell(row.model),
                Cell(row.n_seeds, "count"),
                *(
                    Cell(value, "fraction")
                    for value in (row.mean, row.sd, row.interval.low, row.interval.high)
                ),
            )
            for row in sorted(self.rows, key=lambda row: order.index(row.measure))
        )
        level = f"{self.rows[0].interval.level * 100:g} %" if self.rows else ""
        columns = ("measure", "model", "seeds", "mean", "sd", f"{level} from", "to")
        return Table((*self._data_title, *columns), rows)

    def welch_table(self) -> Table:
        """Return Welch's test between models, over seeds."""
        rows = tuple(
            (
                *_data_cells(row.data),
                Cell(row.measure),
                Cell(f"{row.a} − {row.b}"),
                Cell(row.difference, "fraction"),
                Cell(row.test.p, "fraction"),
                Cell(row.test.note),
            )
            for row in self.welch
        )
        columns = ("measure", "models", "difference", "p (Welch)", "note")
        return Table((*self._data_title, *columns), rows)

    @property
    def _data_title(self) -> tuple[str, ...]:
        return ("samples",) if any(row.data for row in self.rows) else ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        return {
            "models": [_row_data(row) for row in self.rows],
            "welch": [
                {
                    "a": row.a,
                    "b": row.b,
                    "measure": row.measure,
                    "difference": or_none(row.difference),
                    "p": or_none(row.test.p),
                    "note": row.test.note,
                    **({"data": row.data} if row.data else {}),
                }
                for row in self.welch
            ],
            "paired": None if self.paired is None else self.paired.to_dict(),
            "advice": self.advice,
        }


def _data_cells(data: str) -> tuple[Cell, ...]:
    return (Cell(data),) if data else ()


def _row_data(row: SeedRow) -> dict[str, Any]:
    return {
        "model": row.model,
        "measure": row.measure,
        "mean": or_none(row.mean),
        "sd": or_none(row.sd),
        "low": or_none(row.interval.low),
        "high": or_none(row.interval.high),
        "seeds": row.n_seeds,
        "note": row.interval.note,
        **({"data": row.data} if row.data else {}),
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
    pairs = (
        combinations(means, 2)
        if baseline is None
        else ((model, baseline) for model in means if model != baseline)
    )
    rows = tuple(
        _seed_row(model, measure, values, level, data)
        for model, by_measure in means.items()
        for measure, values in by_measure.items()
    )
    tests = tuple(
        _welch_row(a, b, measure, means, data)
        for a, b in pairs
        for measure in means[a]
        if measure in means[b]
    )
    return SeedReport(rows, tests)


def _seed_row(
    model: str, measure: str, values: Sequence[float], level: float, data: str
) -> SeedRow:
    mean = interval(values, method="t", level=level)
    defined = _defined(values)
    sd = float(np.std(defined, ddof=1)) if len(defined) > 1 else math.nan
    return SeedRow(model, measure, mean.estimate, sd, mean, len(defined), data)


def _welch_row(a: str, b: str, measure: str, means: Means, data: str) -> WelchRow:
    left, right = means[a][measure], means[b][measure]
    difference = _mean(left) - _mean(right)
    return WelchRow(a, b, measure, difference, welch_test(left, right), data)


def _mean(values: Sequence[float]) -> float:
    defined = _defined(values)
    return math.fsum(defined) / len(defined) if defined else math.nan


def _defined(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def compare_models(
    models: Mapping[str, Sequence[PredictionResult]],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> SeedReport:
    """Compare models over seeds and, paired, over samples.

    Args:
        models: {model: results of its seeds}, all on the same samples, which are matched by id, or
            by row where there are no ids.
        level: Confidence level of the intervals.
        resamples: Number of resamples of the paired test.
        seed: Random seed of the paired test.

    Returns:
        Means over seeds, Welch's tests and the paired comparison.

    Raises:
        MismatchError: Results have other samples, targets or measures.
        UsageError: A model has no results.
    """
    for model, results in models.items():
        if not results:
            raise UsageError(f"Model {model!r} has no results.")
    _check_same_targets(models)
    averaged = {model: _over_seeds(model, results) for model, results in models.items()}
    report = compare_seed_means({m: _means(results) for m, results in models.items()}, level=level)
    if len(models) < 2:
        return report
    paired = compare(
        *averaged.values(),
        names=list(averaged),
        level=round(1 - level, 12),  # 0.05, not 0.050000000000000044
        resamples=resamples,
        seed=seed,
    )
    return replace(report, paired=paired)


def _means(results: Sequence[PredictionResult]) -> dict[str, list[float]]:
    """Return the ranked measures and F1; other top-1 measures add nothing."""
    each = [result.means() for result in results]
    names = [*results[0].mean(), "F1(avg=weighted)", "F1(avg=macro)"]
    return {name: [mean[name] for mean in each] for name in names}


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
                f"{result.targets[row]}. Only predictions of the same samples can be compared."
            )


def _over_seeds(model: str, results: Sequence[PredictionResult]) -> Scores:
    """Return the mean over seeds of every sample."""
    first = results[0].scores
    for number, result in enumerate(results[1:], 2):
        other = result.scores
        if other.query_ids != first.query_ids or other.measures != first.measures:
            raise MismatchError(
                f"Seed {number} of {model!r} has other samples or measures than seed 1. "
                "All seeds must predict the same samples."
            )
    values = np.mean([result.scores.values for result in results], axis=0)
    tied = np.any([result.scores.tied for result in results], axis=0)
    return replace(first, values=values, tied=tied)
