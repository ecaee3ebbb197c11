"""Tables of predictions: systems and baselines, classes, ranks, groups, seeds, imported files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assay.stats import Interval
from assay.tables.table import Cell, Table
from assay.tasks.prediction.result import PredictionResult
from assay.tasks.prediction.seeds import SeedReport, SeedRow, WelchRow

if TYPE_CHECKING:
    from assay.tasks.prediction.imported import ImportedResults

__all__ = [
    "class_table",
    "group_table",
    "import_table",
    "mistake_table",
    "rank_table",
    "seed_table",
    "summary_table",
    "welch_table",
]


def summary_table(
    models: Mapping[str, Sequence[PredictionResult]], baselines: Sequence[PredictionResult] = ()
) -> Table:
    """A row for each measure, a column for each model (the mean over its seeds) and baseline.

    A single result has its interval beside it. The last columns are guessing at random, one for
    each size of vocabulary.
    """
    values = [_over_seeds(seeds) for seeds in models.values()]
    others = [_over_seeds([one]) for one in baselines]
    results = [one for seeds in models.values() for one in seeds]
    ends = results[0].intervals() if len(results) == 1 else None
    uniform = _guessing(results)
    names = dict.fromkeys(name for column in values for name in column)
    rows = []
    for name in names:
        own = [column[name] for column in values]
        cells = [Cell(value, "fraction", value == _best(own)) for value in own]
        cells += [] if ends is None else _ends(ends.get(name))
        beside = [*others, *uniform.values()]
        cells += [Cell(column.get(name, math.nan), "fraction") for column in beside]
        rows.append((Cell(name), *cells))
    titles = [_title(name, len(seeds)) for name, seeds in models.items()]
    titles += [] if ends is None else ["95 % from", "to"]
    titles += [one.name for one in baselines]
    return Table(("measure", *titles, *uniform), tuple(rows))


def _guessing(results: Sequence[PredictionResult]) -> dict[str, Mapping[str, float]]:
    """Expected values of a random ranking; the title says of how many classes if models differ."""
    found = {one.n_classes: one.uniform() for one in results}
    known = {size: values for size, values in found.items() if values is not None}
    if len(known) == 1:
        return {"uniform": next(iter(known.values()))}
    return {f"uniform of {size}": values for size, values in sorted(known.items())}


def _ends(interval: Interval | None) -> list[Cell]:
    """Top-1 averages over classes have no interval: their samples are not added up."""
    low, high = (math.nan,) * 2 if interval is None else (interval.low, interval.high)
    return [Cell(low, "fraction"), Cell(high, "fraction")]


def _over_seeds(seeds: Sequence[PredictionResult]) -> dict[str, float]:
    each = [one.means() for one in seeds]
    return {name: math.fsum(one[name] for one in each) / len(each) for name in each[0]}


def _title(name: str, n_seeds: int) -> str:
    return name if n_seeds == 1 else f"{name} (mean of {n_seeds} seeds)"


def _best(values: Sequence[float]) -> float:
    """The highest of several values that are not all equal."""
    known = [value for value in values if not math.isnan(value)]
    return max(known) if len(set(known)) > 1 else math.nan


def class_table(models: Sequence[PredictionResult]) -> Table:
    """Support, predictions and top-1 measures of each class, the most frequent first."""
    kinds = {"class": "text", "support": "count", "predicted": "count", "right": "count"}
    rows = []
    for one in models:
        ordered = sorted(one.by_class(), key=lambda row: -row["support"])
        for row in ordered:
            cells = (Cell(value, kinds.get(key, "fraction")) for key, value in row.items())
            rows.append((*_front(one, models), *cells))
    columns = ("class", "support", "predicted", "right", "precision", "recall", "F1")
    return Table((*_front_names(models), *columns), tuple(rows))


def mistake_table(models: Sequence[PredictionResult]) -> Table:
    """The classes that are most often predicted for another one."""
    rows = [
        (*_front(one, models), Cell(str(true)), Cell(str(wrong)), Cell(n, "count"))
        for one in models
        for true, wrong, n in one.mistakes()
    ]
    return Table((*_front_names(models), "class", "predicted instead", "samples"), tuple(rows))


def _front(one: PredictionResult, models: Sequence[PredictionResult]) -> tuple[Cell, ...]:
    """The model's name in front of its rows, where there are several."""
    return (Cell(one.name),) if len(models) > 1 else ()


def _front_names(models: Sequence[PredictionResult]) -> tuple[str, ...]:
    return ("model",) if len(models) > 1 else ()


def rank_table(models: Sequence[PredictionResult]) -> Table:
    """How many targets stand at which ranks, and what share at these or better."""
    rows = []
    for one in models:
        bins = one.rank_histogram()
        total, so_far = sum(each.samples for each in bins), 0
        for each in bins:
            so_far += each.samples
            shares = (Cell(each.samples / total, "fraction"), Cell(so_far / total, "fraction"))
            rows.append(
                (*_front(one, models), Cell(each.label), Cell(each.samples, "count"), *shares)
            )
    return Table((*_front_names(models), "rank", "samples", "share", "so far"), tuple(rows))


def group_table(models: Sequence[PredictionResult], column: str) -> Table:
    """For each model the mean over samples (micro), over groups (macro), and each group."""
    rows = []
    for one in models:
        front = _front(one, models)
        micro, macro = one.mean(), one.mean(by=column)
        lines: list[tuple[str, int, Mapping[str, float]]] = [
            ("micro (over samples)", micro.n, micro),
            (f"macro (over {column})", macro.n, macro),
            *((name, macro.sizes[name], values) for name, values in macro.groups.items()),
        ]
        rows += [
            (*front, Cell(label), Cell(n, "count"), *(Cell(v, "fraction") for v in values.values()))
            for label, n, values in lines
        ]
    return Table((*_front_names(models), column, "n", *models[0].mean()), tuple(rows))


def seed_table(report: SeedReport) -> Table:
    """Mean, standard deviation and interval over seeds, a row for each model and measure."""
    measures = dict.fromkeys(row.measure for row in report.rows)
    title = _data_title(report.rows)
    order = {measure: place for place, measure in enumerate(measures)}
    rows = tuple(
        (
            *(Cell(row.data) for _ in title),
            Cell(row.measure),
            Cell(row.model),
            Cell(row.n_seeds, "count"),
            Cell(row.mean, "fraction"),
            Cell(row.sd, "fraction"),
            Cell(row.interval.low, "fraction"),
            Cell(row.interval.high, "fraction"),
        )
        for row in sorted(report.rows, key=lambda row: order[row.measure])
    )
    level = f"{report.rows[0].interval.level * 100:g} %" if report.rows else ""
    columns = ("measure", "model", "seeds", "mean", "sd", f"{level} from", "to")
    return Table((*title, *columns), rows)


def _data_title(rows: Sequence[SeedRow | WelchRow]) -> tuple[str, ...]:
    """The set of samples stands in front of its rows, where it is known."""
    return ("samples",) if any(row.data for row in rows) else ()


def welch_table(report: SeedReport) -> Table:
    """Welch's test between models, over seeds."""
    title = _data_title(report.welch)
    rows = tuple(
        (
            *(Cell(row.data) for _ in title),
            Cell(row.measure),
            Cell(f"{row.a} − {row.b}"),
            Cell(row.difference, "fraction"),
            Cell(row.test.p, "fraction"),
            Cell(row.test.note),
        )
        for row in report.welch
    )
    columns = ("measure", "models", "difference", "p (Welch)", "note")
    return Table((*title, *columns), rows)


def import_table(imported: ImportedResults) -> Table:
    """A row for each result file, values as fractions; dataset and split where any is known."""
    told = [key for key in ("dataset", "split") if any(getattr(r, key) for r in imported.results)]
    measures = imported.measures
    rows = tuple(
        (
            Cell(one.path),
            Cell(one.model),
            *(Cell(getattr(one, key)) for key in told),
            *(Cell(one.values.get(name, math.nan), "fraction") for name in measures),
            Cell(one.total, "count"),
        )
        for one in imported.results
    )
    return Table(("file", "model", *told, *measures, "samples"), rows)
