"""What `assay descriptors patches` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli import output
from assay.report.tables import Cell, Table
from assay.tasks.descriptors_data import result_data
from assay.tasks.descriptors_summary import summarize
from assay.tasks.descriptors_tables import category_data, category_table

if TYPE_CHECKING:
    from assay.tasks.descriptors_patches import PatchResult

__all__ = ["show_patches"]


def show_patches(found: PatchResult, layout: str, file: str | None) -> None:
    """Print patch mAP by category, matching mAP and FPR@95."""
    result = found.result
    summaries = summarize(result)
    signature = result.scores.signature
    if layout == "json":
        data = {"command": "descriptors patches", "signature": signature, "fpr95": found.fpr95,
                "seed": found.seed,
                "result": result_data(result, summaries, rule="paper")}  # fmt: skip
        output.put(output.as_json(data), file)
    elif layout in ("csv", "tsv"):
        output.show([category_data(summaries)], layout=layout, file=file, signature=signature)
    else:
        tables = [category_table(summaries), _task_table(found)]
        output.show(tables, layout=layout, file=file, signature=signature)


def _task_table(found: PatchResult) -> Table:
    rows = [(Cell("patch mAP"), Cell(found.patch_map, "fraction"))]
    if found.result.matching is not None:
        matching = found.result.matching.mean(empty="skip")["AP"]
        rows.append((Cell("matching mAP"), Cell(matching, "fraction")))
    for kind, value in found.fpr95.items():
        rows.append((Cell(f"FPR@95, wrong pairs of {_words(kind)}"), Cell(value, "fraction")))
    return Table(("task", found.result.name), tuple(rows))


def _words(kind: str) -> str:
    """The kind of wrong pairs in words: `same/easy` are those of the same scene, easy patches."""
    where, _, difficulty = kind.partition("/")
    place = "the same scene" if where == "same" else "other scenes"
    return f"{place}, {difficulty}" if difficulty else place
