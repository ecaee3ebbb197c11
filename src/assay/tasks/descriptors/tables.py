"""Descriptor results as tables, as plain data for JSON, and as records for a store or a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from assay.arrays import or_none
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.stats import Interval, interval
from assay.tables.table import Cell, Table
from assay.tasks.descriptors.pooled_hits import RULES, TASKS, PooledResult
from assay.tasks.descriptors.workbench_csv import row_with_metadata

if TYPE_CHECKING:
    from assay.tasks.descriptors.compare import CategorySummary
    from assay.tasks.descriptors.result import DescriptorCost, DescriptorResult

__all__ = [
    "category_data",
    "category_table",
    "descriptor_record",
    "ends_of",
    "interval_aggregate",
    "interval_data",
    "rank_table",
    "result_data",
    "scene_table",
    "task_table",
    "timing_table",
    "wide_table",
]

_HEADLINE: Final = ("Success@1", "Success@10")
_LAST: Final = "metadata"
_ABOUT: Final = ("descriptor", "category", "scenes", "queries", "excluded", "failed")


def category_table(summaries: Sequence[CategorySummary]) -> Table:
    """A row for each descriptor and category, with both kinds of mean and their intervals."""
    level = f"{100 * summaries[0].micro.level:g} %"
    means = ("mAP (micro)", level, "mAP (macro)", level)
    columns = (*_ABOUT, *means, *_HEADLINE, "chance mAP")
    best = {one.category: _best(summaries, one.category) for one in summaries}
    rows = [
        (
            *_about(one),
            Cell(one.micro.estimate, "fraction", one.micro.estimate == best[one.category]),
            Cell(ends_of(one.micro), "figure"),
            Cell(one.macro.estimate, "fraction"),
            Cell(ends_of(one.macro), "figure"),
            *(Cell(one.means.get(name), "fraction") for name in _HEADLINE),
            Cell(one.chance, "fraction"),
        )
        for one in summaries
    ]
    return Table(columns, tuple(rows))


def _about(one: CategorySummary) -> list[Cell]:
    counts = [Cell(getattr(one, name), "count") for name in _ABOUT[2:]]
    return [Cell(one.descriptor), Cell(one.category), *counts]


def _best(summaries: Sequence[CategorySummary], category: str) -> float:
    values = [one.micro.estimate for one in summaries if one.category == category]
    known = [value for value in values if not math.isnan(value)]
    return max(known) if len(known) > 1 else math.nan


def ends_of(one: Interval) -> str | None:
    """The ends of an interval as tables show them; None without any."""
    return None if math.isnan(one.low) else f"[{one.low:.4f}, {one.high:.4f}]"


def interval_data(one: Interval) -> dict[str, Any]:
    """A mean with its interval as plain data; undefined numbers are None."""
    ends = {"low": or_none(one.low), "high": or_none(one.high)}
    about = {"level": one.level, "method": one.method, "note": one.note}
    return {"mean": or_none(one.estimate), **ends, **about}


def interval_aggregate(measure: str, one: Interval, **about: Any) -> Aggregate:
    """A mean with its interval as a number of a stored run; scenes were resampled as a whole."""
    return Aggregate(
        measure,
        one.estimate,
        low=one.low,
        high=one.high,
        level=one.level,
        method=one.method,
        clusters="scene",
        **{"n": one.n, "note": one.note, **about},
    )


def category_data(summaries: Sequence[CategorySummary]) -> Table:
    """The same for programs: every digit, the ends of intervals in columns of their own."""
    names = list(summaries[0].means)
    micro = ("true_map_micro", "micro_low", "micro_high")
    macro = ("true_map_macro_by_scene", "macro_low", "macro_high")
    columns = (*_ABOUT, *micro, *macro, *names, "chance", "ceiling")
    rows = [
        (
            *_about(one),
            *(
                Cell(value, "fraction")
                for mean in (one.micro, one.macro)
                for value in (mean.estimate, mean.low, mean.high)
            ),
            *(Cell(one.means[name], "fraction") for name in names),
            Cell(one.chance, "fraction"),
            Cell(one.ceiling, "fraction"),
        )
        for one in summaries
    ]
    return Table(columns, tuple(rows))


def task_table(
    results: Sequence[DescriptorResult], rule: str, resampling: Mapping[str, Any]
) -> Table | None:
    """Verification, retrieval and image tasks, with the counts of labels; None without any."""
    rows = [row for one in results for row in _task_rows(one, rule, resampling)]
    level = f"{100 * resampling.get('level', 0.95):g} %"
    columns = ("descriptor", "task", "AP", level, "+1", "0", "-1")
    return Table(columns, tuple(rows)) if rows else None


def _task_rows(
    result: DescriptorResult, rule: str, resampling: Mapping[str, Any]
) -> list[tuple[Cell, ...]]:
    rows = []
    for task in TASKS:
        found = result.task(task)
        if found is None:
            continue
        right, wrong = found.author_counts()
        counts: dict[str, Sequence[int | None]] = {"authors": (right, None, wrong)}
        for kind in _kinds(task):
            name = f"keypoint {task} (authors)"
            if kind != "authors":
                name = f"keypoint {task}, {kind} ({rule})"
            one = found.interval(kind, rule, **resampling)
            labels = counts.get(kind, tuple(found.counts().values()))
            rows.append(_task_row(result.name, name, one, labels))
    for task, one in image_intervals(result, resampling).items():
        rows.append(_task_row(result.name, task.replace("_", " "), one, (None, None, None)))
    return rows


def _kinds(task: str) -> tuple[str, ...]:
    return ("pooled", "per query", "authors") if task == "retrieval" else ("pooled", "authors")


def _task_row(
    name: str, task: str, one: Interval, counts: Sequence[int | None]
) -> tuple[Cell, ...]:
    value = (Cell(one.estimate, "fraction"), Cell(ends_of(one), "figure"))
    return (Cell(name), Cell(task), *value, *(Cell(n, "count") for n in counts))


def image_intervals(result: DescriptorResult, resampling: Mapping[str, Any]) -> dict[str, Interval]:
    """Image matching and image retrieval, as far as they were evaluated; scenes are resampled."""
    tasks = {"image_matching": result.matching, "image_retrieval": result.image_retrieval}
    return {
        name: interval(
            scores["AP"], clusters=scores.groups["scene"], bounds=(0.0, 1.0), **resampling
        )
        for name, scores in tasks.items()
        if scores is not None
    }


def scene_table(results: Sequence[DescriptorResult]) -> Table:
    """A row for each descriptor and scene, with all counts."""
    counts = ("pairs", "queries", "with_truth", "excluded", "outside", "failed", "failed_pairs")
    means = ("AP", "AP_including_zeros", "Success@1", "Success@5", "Success@10")
    columns = ("descriptor", "scene", "category", *counts, "pool", *means)
    rows = []
    for result in results:
        for row in result.scene_rows():
            rows.append(
                (
                    Cell(result.name),
                    Cell(row["scene"]),
                    Cell(row["category"]),
                    *(Cell(row[name], "count") for name in (*counts, "pool")),
                    *(Cell(row.get(name), "fraction") for name in means),
                )
            )
    return Table(columns, tuple(rows))


def rank_table(results: Sequence[DescriptorResult]) -> Table:
    """How many true matches stand at which ranks, a column for each descriptor."""
    bins = [result.rank_histogram() for result in results]
    rows = [
        (Cell(row[0].label), *(Cell(one.queries, "count") for one in row))
        for row in zip(*bins, strict=True)
    ]
    rows.append((Cell("failed"), *(Cell(result.n_failed, "count") for result in results)))
    return Table(("rank", *(result.name for result in results)), tuple(rows))


def timing_table(costs: Sequence[tuple[str, Mapping[str, float], DescriptorCost]]) -> Table:
    """By descriptor seconds of each stage, then bytes and time of one descriptor."""
    stages = list(dict.fromkeys(stage for _, timings, _ in costs for stage in timings))
    rows = [
        (
            Cell(name),
            *(Cell(_rounded(timings.get(stage), 2), "figure") for stage in stages),
            Cell(cost.row_bytes or None, "count"),
            Cell(_rounded(cost.microseconds, 1), "figure"),
        )
        for name, timings, cost in costs
    ]
    return Table(("seconds", *stages, "bytes each", "µs each"), tuple(rows))


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def wide_table(results: Sequence[DescriptorResult], rule: str) -> Table:
    """The workbench's wide rows, with its metadata as the last column."""
    rows = [row_with_metadata(one, rule=rule) for one in results]
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key != _LAST]
    cells = [tuple(_cell(row.get(column)) for column in (*columns, _LAST)) for row in rows]
    return Table((*columns, _LAST), tuple(cells))


def _cell(value: Any) -> Cell:
    if isinstance(value, int):
        return Cell(value, "count")
    return Cell(value, "fraction" if isinstance(value, float) else "text")


def result_data(
    result: DescriptorResult,
    summaries: Sequence[CategorySummary],
    *,
    rule: str,
    resampling: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything about one descriptor; undefined numbers are None."""
    row = row_with_metadata(result, rule=rule)
    metadata = row.pop(_LAST)
    return {
        "descriptor": result.name,
        "tau": result.tau,
        "keypoints": result.keypoints,
        "metric": result.metric,
        "query_set": result.query_set,
        "signature": result.scores.signature,
        "wide": _plain_numbers(row),
        "metadata": metadata,
        "categories": [one.to_dict() for one in summaries if one.descriptor == result.name],
        "scenes": [_plain_numbers(row) for row in result.scene_rows()],
        "ranks": [asdict(one) for one in result.rank_histogram()],
        "chance": _plain_numbers(result.chance()),
        "ceiling": _plain_numbers(result.ceiling()),
        "tasks": {
            task: _task_data(result, found, rule, resampling)
            for task in TASKS
            if (found := result.task(task))
        },
        "image_tasks": {
            name: interval_data(one) for name, one in image_intervals(result, resampling).items()
        },
        "bytes_per_descriptor": result.cost.row_bytes or None,
        "timings": dict(result.timings),
        "failures": [asdict(one) for one in result.failures],
    }


def _plain_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with None where a number is not defined."""
    return {
        key: or_none(value) if isinstance(value, float) else value for key, value in row.items()
    }


def _task_data(
    result: DescriptorResult, found: PooledResult, rule: str, resampling: Mapping[str, Any]
) -> dict[str, Any]:
    names = ("", *result.category_names)
    means = {
        rule: _plain_numbers(
            {name or "all": found.mean(rule, category=name or None) for name in names}
        )
        for rule in RULES
    }
    per_query = {rule: found.query_mean(rule) for rule in RULES}
    authors = {name or "all": found.author_mean(name or None) for name in names}
    return {
        "pooled": means,
        "per_query": _plain_numbers(per_query),
        "authors": _plain_numbers(authors),
        "intervals": {
            kind: {
                name or "all": interval_data(
                    found.interval(kind, rule, category=name or None, **resampling)
                )
                for name in names
            }
            for kind in _kinds(found.scenes[0].task)
        },
        "labels": found.counts(),
        "distractors": {
            one.scene: {
                "scenes": list(one.chosen),
                "seed": one.seed,
                "keypoints": int(one.query_negatives.max(initial=0)),
            }
            for one in found.scenes
        },
    }


def descriptor_record(
    result: DescriptorResult,
    *,
    rule: str,
    name: str = "",
    config: Mapping[str, Any] | None = None,
    seeds: Mapping[str, Any] | None = None,
    resampling: Mapping[str, Any] | None = None,
) -> RunRecord:
    """The record of one descriptor; its scenes are resampled as a whole."""
    row = row_with_metadata(result, rule=rule)
    return RunRecord(
        name or result.name,
        result.scores,
        task="descriptors",
        model=result.name,
        config={
            "tau": result.tau,
            "keypoints": result.keypoints,
            "metric": result.metric,
            "rule": rule,
            "query_set": result.query_set,
            **(config or {}),
        },
        seeds=seeds or {},
        chance=result.chance(),
        ceiling=result.ceiling(),
        aggregates=_aggregates(result, rule, row, resampling or {}),
        clusters="scene",
        resampling=resampling or {},
        wide=row,
    )


def _aggregates(
    result: DescriptorResult, rule: str, row: Mapping[str, Any], resampling: Mapping[str, Any]
) -> list[Aggregate]:
    """Values that are not plain means over keypoints."""
    found = [
        Aggregate(
            "AP",
            result.category_mean(name),
            average="macro",
            by_column="scene",
            subset=name,
            value_skip=result.category_mean(name),
            value_zero=result.category_mean(name, empty="zero"),
        )
        for name in result.category_names
    ]
    for task in TASKS:
        pooled = result.task(task)
        for name in ("", *result.category_names) if pooled is not None else ():
            subset = f"{task}/{name}" if name else task
            for kind, note in (("pooled", f"rule {rule}"), ("authors", "")):
                assert pooled is not None
                one = pooled.interval(kind, rule, category=name or None, **resampling)
                about = {"average": kind, "subset": subset, "note": note or one.note}
                found.append(interval_aggregate("PooledAP", one, **about))
    for name, one in image_intervals(result, resampling).items():
        found.append(interval_aggregate(f"{name}_map", one, average="images"))
    precision, by_scene = row["mean_precision"], row["legacy_macro_precision_by_scene"]
    found.append(Aggregate("mean_precision", precision, n=len(result.pairs)))
    found.append(Aggregate("mean_precision", by_scene, average="macro", by_column="scene"))
    return found
