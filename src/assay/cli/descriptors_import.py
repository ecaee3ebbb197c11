"""What `assay descriptors import` shows: earlier results, alone or beside new ones."""

from __future__ import annotations

import math
from typing import Any

from assay.cli import output
from assay.errors import AssayError
from assay.report.tables import Cell, Table
from assay.tasks.descriptors_imports import (
    ImportedRow,
    ImportedRows,
    compare_scenes,
    import_results,
)

__all__ = ["show_import"]

_SHOWN = ("true_map_micro", "true_map_macro_by_scene", "viewpoint_map", "illumination_map",
          "keypoint_verification_ap", "keypoint_retrieval_ap", "precision_at_1", "precision_at_5",
          "mean_precision")  # fmt: skip


def show_import(file: str, unit: str, against: str | None, layout: str, target: str | None) -> int:
    """Print the results of a file; 1 if something in it contradicts something."""
    from assay import __version__

    sources = {"imported": import_results(file, unit=unit)}
    if against is not None:
        sources["new"] = import_results(against, unit="fraction")
    said = [line for found in sources.values() for line in found.contradictions]
    comparison = _compared(sources)
    signature = f"imported|unit:{unit}|version:{__version__}"
    if layout == "json":
        data = {"command": "descriptors import", "signature": signature, "contradictions": said,
                **{name: [_plain(row) for row in found.rows] for name, found in sources.items()},
                "comparison": None if comparison is None else comparison.to_dict()}  # fmt: skip
        output.put(output.as_json(data), target)
    else:
        for line in said:
            output.narrate(line)
        shown = None if layout in ("csv", "tsv") else _SHOWN
        tables = [_table(sources, shown)]
        if comparison is not None and shown is not None:
            output.narrate("compared on the means of scenes; their keypoints may differ")
            tables += [comparison.table(), comparison.pair_table()]
        output.show(tables, layout=layout, file=target, signature=signature)
    return 1 if said else 0


def _compared(sources: dict[str, ImportedRows]) -> Any:
    """New results with earlier ones, where both have means of the same scenes."""
    if "new" not in sources:
        return None
    try:
        return compare_scenes([row for found in sources.values() for row in found.rows])
    except AssayError as error:
        output.narrate(f"not compared: {error}")
        return None


def _table(sources: dict[str, ImportedRows], wanted: tuple[str, ...] | None) -> Table:
    every = list(dict.fromkeys(name for found in sources.values() for name in found.columns))
    columns = every if wanted is None else [name for name in wanted if name in every]
    rows = [
        (
            Cell(source), Cell(row.name), Cell(len(row.scenes), "count"),
            *(Cell(row.values.get(name, math.nan), "fraction") for name in columns),
        )
        for source, found in sources.items() for row in found.rows
    ]  # fmt: skip
    return Table(("source", "descriptor", "scenes", *columns), tuple(rows))


def _plain(row: ImportedRow) -> dict[str, Any]:
    return {"place": row.place, "descriptor": row.name, "values": row.values,
            "counts": row.counts, "scenes": row.scenes, "about": row.about}  # fmt: skip
