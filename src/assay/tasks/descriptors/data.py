"""Descriptor results as plain data for JSON, and as records for a store or a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from assay.runs.aggregates import Aggregate
from assay.runs.record import RunRecord
from assay.tasks.descriptors.compare import CategorySummary
from assay.tasks.descriptors.pooled_hits import RULES, TASKS, PooledResult
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.workbench_csv import metadata_text, wide_row

__all__ = ["descriptor_record", "result_data"]


def result_data(
    result: DescriptorResult, summaries: Sequence[CategorySummary], *, rule: str
) -> dict[str, Any]:
    """Everything about one descriptor; undefined numbers are None."""
    return {
        "descriptor": result.name,
        "tau": result.tau,
        "keypoints": result.keypoints,
        "metric": result.metric,
        "query_set": result.query_set,
        "signature": result.scores.signature,
        "wide": plain_numbers(wide_row(result, rule=rule)),
        "metadata": metadata_text(result, rule=rule),
        "categories": [one.to_dict() for one in summaries if one.descriptor == result.name],
        "scenes": [plain_numbers(row) for row in result.scene_rows()],
        "ranks": [asdict(one) for one in result.rank_histogram()],
        "chance": plain_numbers(result.chance()),
        "ceiling": plain_numbers(result.ceiling()),
        "tasks": {task: _task(result, found) for task in TASKS if (found := result.task(task))},
        "timings": dict(result.timings),
        "failures": [asdict(one) for one in result.failures],
    }


def plain_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with None where a number is not defined."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in row.items()
    }


def _task(result: DescriptorResult, found: PooledResult) -> dict[str, Any]:
    names = ("", *result.category_names)
    means = {
        rule: plain_numbers(
            {name or "all": found.mean(rule, category=name or None) for name in names}
        )
        for rule in RULES
    }
    per_query = {rule: found.query_mean(rule) for rule in RULES}
    return {
        "pooled": means,
        "per_query": plain_numbers(per_query),
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
) -> RunRecord:
    """The record of one descriptor; queries are grouped by scene, which is drawn as a whole."""
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
        aggregates=_aggregates(result, rule),
        clusters="scene",
    )


def _aggregates(result: DescriptorResult, rule: str) -> list[Aggregate]:
    """Numbers that are no plain means over keypoints, for the store's wide results."""
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
            value = pooled.mean(rule, category=name or None) if pooled else math.nan
            found.append(
                Aggregate("PooledAP", value, average="pooled", subset=subset, note=f"rule {rule}")
            )
    for name, scores in (
        ("image_matching_map", result.matching),
        ("image_retrieval_map", result.image_retrieval),
    ):
        if scores is not None:
            value = scores.mean(empty="skip")["AP"]
            found.append(Aggregate(name, value, average="images", n=scores.n_queries))
    row = wide_row(result, rule=rule)
    precision, by_scene = row["mean_precision"], row["legacy_macro_precision_by_scene"]
    found.append(Aggregate("mean_precision", precision, n=len(result.pairs)))
    found.append(Aggregate("mean_precision", by_scene, average="macro", by_column="scene"))
    return found
