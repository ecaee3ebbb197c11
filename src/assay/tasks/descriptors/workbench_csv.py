"""The workbench's wide row of results, and its `key=value;` metadata, which reads back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from assay.core.numbers import is_decimal, parse_number, parse_whole
from assay.errors import FormatError
from assay.tasks.descriptors.sampling import as_key

if TYPE_CHECKING:
    from assay.tasks.descriptors.result import DescriptorResult

__all__ = ["CATEGORIES", "metadata_text", "read_metadata", "row_with_metadata", "wide_row"]

CATEGORIES: Final = ("viewpoint", "illumination")  # columns that are always there
_CUTS: Final = (1, 5, 10)


def wide_row(result: DescriptorResult, *, rule: str = "paper") -> dict[str, Any]:
    """One row with the workbench's columns; NaN where something was not computed.

    `true_map_…` are AP with one true match per query, `precision_at_k` and `recall_at_k` are
    Success@k, columns of a category and `mean_average_precision` are means over scenes, as in the
    workbench's own rows; all others over keypoints unless their name says scene. Fractions, never
    percent.
    """
    zeros = {empty: result.mean(empty=empty) for empty in ("skip", "zero")}
    by_scene = {empty: result.mean(by="scene", empty=empty) for empty in ("skip", "zero")}
    row: dict[str, Any] = {
        "descriptor": result.name,
        "keypoint_set": result.keypoints,
        "tau": result.tau,
        "true_map_micro": zeros["skip"]["AP"],
        "true_map_macro": by_scene["skip"]["AP"],
        "true_map_macro_by_scene": by_scene["skip"]["AP"],
        "true_map_micro_including_zeros": zeros["zero"]["AP"],
        "true_map_macro_by_scene_including_zeros": by_scene["zero"]["AP"],
        "mean_average_precision": by_scene["skip"]["AP"],
    }
    categories = sorted({*CATEGORIES, *result.category_names})
    for category in categories:
        row[f"{category}_map"] = result.category_mean(category)
        row[f"{category}_map_including_zeros"] = result.category_mean(category, empty="zero")
    for task, column in (
        ("verification", "keypoint_verification_ap"),
        ("retrieval", "keypoint_retrieval_ap"),
    ):
        found = result.task(task)
        row[column] = math.nan if found is None else found.mean(rule)
        for category in categories:
            value = math.nan if found is None else found.mean(rule, category=category)
            row[f"{task}_{category}_ap"] = value
    row |= _retrieval_counts(result)
    row["image_matching_map"] = _mean_ap(result.matching)
    row["image_retrieval_map"] = _mean_ap(result.image_retrieval)
    for k in _CUTS:
        row[f"precision_at_{k}"] = row[f"recall_at_{k}"] = zeros["skip"].get(
            f"Success@{k}", math.nan
        )
    row |= _legacy_precision(result)
    row |= {
        "total_queries_processed": result.n_queries - result.n_excluded,
        "total_queries_excluded": result.n_excluded,
        "total_queries_failed": result.n_failed,
        "processing_time_ms": 1000 * math.fsum(result.timings.values()),
    }
    return row


def _retrieval_counts(result: DescriptorResult) -> dict[str, int]:
    names = {"+1": "true_positives", "0": "hard_negatives", "-1": "distractors"}
    found = result.task("retrieval")
    counts = dict.fromkeys(names, 0) if found is None else found.counts()
    return {f"retrieval_num_{names[label]}": count for label, count in counts.items()}


def _mean_ap(scores: Any) -> float:
    return math.nan if scores is None else float(scores.mean(empty="skip")["AP"])


def _legacy_precision(result: DescriptorResult) -> dict[str, float]:
    if "Success@1" not in map(str, result.measures):
        return {"mean_precision": math.nan, "legacy_macro_precision_by_scene": math.nan}
    return {
        "mean_precision": result.legacy.mean()["Success@1"],
        "legacy_macro_precision_by_scene": result.legacy.mean(by="scene")["Success@1"],
    }


def row_with_metadata(result: DescriptorResult, *, rule: str = "paper") -> dict[str, Any]:
    """The wide row with its metadata as the last column: what a CSV file and a store get."""
    row = wide_row(result, rule=rule)
    return {**row, "metadata": _as_pairs({**row, **_scene_values(result)})}


def metadata_text(result: DescriptorResult, *, rule: str = "paper") -> str:
    """All numbers as `key=value;`, with those of every scene; undefined ones are left out."""
    return str(row_with_metadata(result, rule=rule)["metadata"])


def _scene_values(result: DescriptorResult) -> dict[str, float]:
    """What the workbench tells of each scene: enough to compute every mean of AP again."""
    found: dict[str, float] = {}
    for row in result.scene_rows():
        scene = row["scene"]
        found |= {
            f"{scene}_true_map": row["AP"],
            f"{scene}_true_map_with_zeros": row["AP_including_zeros"],
            f"{scene}_query_count": row["with_truth"],
            f"{scene}_excluded_count": row["excluded"],
        }
    return found


def _as_pairs(values: Mapping[str, Any]) -> str:
    numbers = {key: value for key, value in values.items() if not isinstance(value, str)}
    defined = {key: value for key, value in numbers.items() if not math.isnan(value)}
    return "".join(f"{as_key(key)}={value!r};" for key, value in defined.items())


def read_metadata(text: str, place: str = "metadata") -> dict[str, float | int | str]:
    """Read `key=value;` back: numbers where they are some, else text; line breaks do not matter.

    >>> read_metadata("true_map_micro=0.3724;total_queries_processed=215939;")
    {'true_map_micro': 0.3724, 'total_queries_processed': 215939}
    """
    found: dict[str, float | int | str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise FormatError(f"{place}: {part[:60]!r} is not of the form key=value.")
        name = unquote(key.strip())
        if name in found:
            raise FormatError(f"{place}: the key {name!r} appears twice. Keep one of the two.")
        found[name] = _value(value.strip(), f"{place}: {name}")
    return found


def _value(text: str, place: str) -> float | int | str:
    whole, number = parse_whole(text), parse_number(text)
    if number is None and is_decimal(text):
        raise FormatError(f"{place} is {text[:40]!r}, beyond the range of a float.")
    return unquote(text) if number is None else number if whole is None else whole
