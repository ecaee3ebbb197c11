"""Tables of descriptor results: by category, by task, by scene, ranks, and the wide rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from assay.stats import Interval
from assay.tables.table import Cell, Table
from assay.tasks.descriptors.compare import CategorySummary
from assay.tasks.descriptors.pooled_hits import TASKS
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.workbench_csv import metadata_text, wide_row

__all__ = [
    "category_data",
    "category_table",
    "rank_table",
    "scene_table",
    "task_table",
    "timing_table",
    "wide_table",
]

_SHOWN: Final = ("Success@1", "Success@10")


def category_table(summaries: Sequence[CategorySummary]) -> Table:
    """A row for each descriptor and category, with both kinds of mean and their intervals."""
    level = f"{100 * summaries[0].micro.level:g} %"
    columns = (
        "descriptor",
        "category",
        "scenes",
        "queries",
        "excluded",
        "failed",
        "mAP (micro)",
        level,
        "mAP (macro)",
        level,
        *_SHOWN,
        "chance mAP",
    )
    best = {one.category: _best(summaries, one.category) for one in summaries}
    rows = [
        (
            Cell(one.descriptor),
            Cell(one.category),
            *(Cell(n, "count") for n in (one.scenes, one.queries, one.excluded, one.failed)),
            Cell(one.micro.estimate, "fraction", one.micro.estimate == best[one.category]),
            Cell(_ends(one.micro), "figure"),
            Cell(one.macro.estimate, "fraction"),
            Cell(_ends(one.macro), "figure"),
            *(Cell(one.means.get(name), "fraction") for name in _SHOWN),
            Cell(one.chance, "fraction"),
        )
        for one in summaries
    ]
    return Table(columns, tuple(rows))


def _best(summaries: Sequence[CategorySummary], category: str) -> float:
    values = [one.micro.estimate for one in summaries if one.category == category]
    known = [value for value in values if not math.isnan(value)]
    return max(known) if len(known) > 1 else math.nan


def _ends(one: Interval) -> str | None:
    return None if math.isnan(one.low) else f"[{one.low:.4f}, {one.high:.4f}]"


def category_data(summaries: Sequence[CategorySummary]) -> Table:
    """The same for programs: every digit, the ends of intervals in columns of their own."""
    names = list(summaries[0].means)
    columns = (
        "descriptor",
        "category",
        "scenes",
        "queries",
        "excluded",
        "failed",
        "true_map_micro",
        "micro_low",
        "micro_high",
        "true_map_macro_by_scene",
        "macro_low",
        "macro_high",
        *names,
        "chance",
        "ceiling",
    )
    rows = [
        (
            Cell(one.descriptor),
            Cell(one.category),
            *(Cell(n, "count") for n in (one.scenes, one.queries, one.excluded, one.failed)),
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


def task_table(results: Sequence[DescriptorResult], rule: str) -> Table | None:
    """Verification, retrieval and image tasks, with the counts of labels; None without any."""
    rows = [row for one in results for row in _task_rows(one, rule)]
    columns = ("descriptor", "task", "AP", "+1", "0", "-1")
    return Table(columns, tuple(rows)) if rows else None


def _task_rows(result: DescriptorResult, rule: str) -> list[tuple[Cell, ...]]:
    rows = []
    for task in TASKS:
        found = result.task(task)
        if found is None:
            continue
        counts = [Cell(n, "count") for n in found.counts().values()]
        kinds = {"pooled": found.mean(rule)}
        if task == "retrieval":
            kinds["per query"] = found.query_mean(rule)
        for kind, value in kinds.items():
            name = f"keypoint {task}, {kind} ({rule})"
            rows.append((Cell(result.name), Cell(name), Cell(value, "fraction"), *counts))
    for name, scores in (
        ("image matching", result.matching),
        ("image retrieval", result.image_retrieval),
    ):
        if scores is not None:
            mean = Cell(scores.mean(empty="skip")["AP"], "fraction")
            rows.append((Cell(result.name), Cell(name), mean, *[Cell(None, "count")] * 3))
    return rows


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


def timing_table(results: Sequence[DescriptorResult]) -> Table:
    """Seconds of each stage, a row for each descriptor."""
    stages = list(dict.fromkeys(stage for one in results for stage in one.timings))
    rows = [
        (Cell(one.name), *(Cell(_seconds(one.timings.get(stage)), "figure") for stage in stages))
        for one in results
    ]
    return Table(("seconds", *stages), tuple(rows))


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def wide_table(results: Sequence[DescriptorResult], rule: str) -> Table:
    """The workbench's wide rows, with its metadata as the last column."""
    rows: list[dict[str, Any]] = [wide_row(one, rule=rule) for one in results]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [
        (*(_cell(row.get(column)) for column in columns), Cell(metadata_text(one, rule=rule)))
        for row, one in zip(rows, results, strict=True)
    ]
    return Table((*columns, "metadata"), tuple(cells))


def _cell(value: Any) -> Cell:
    if isinstance(value, int):
        return Cell(value, "count")
    return Cell(value, "fraction" if isinstance(value, float) else "text")
