"""Runs written to files: JSON holds all of a run, CSV and parquet the values of every query."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.core.text import guard_formula
from assay.errors import UsageError, need
from assay.io.atomic import atomic_write
from assay.runs.results import results_to_data
from assay.scoring.scores import Scores
from assay.store.codec import id_kind
from assay.store.run import Run

__all__ = ["FRONT", "GROUP", "LAYOUT", "export_runs", "format_of"]

LAYOUT: Final = "assay runs 1"
FORMATS: Final = {".json": "json", ".csv": "csv", ".parquet": "parquet"}
GROUP: Final = "group:"

# Columns of every row of a table; those of the groups follow.
FRONT: Final = (
    "run",
    "name",
    "task",
    "dataset",
    "model",
    "created",
    "conventions",
    "id_kind",
    "query",
    "measure",
    "value",
    "tied",
    "missing",
)
# The last columns: what made the numbers beside the conventions. Version 0.1 did not write them.
MADE: Final = ("signature", "search", "settings")
# What holds for one store only is not exported.
_NOT_EXPORTED: Final = ("id", "origin", "done", "total", "updated", "aggregates", "_store")


def format_of(file: str | os.PathLike[str]) -> str:
    """json, csv or parquet, by the ending of the file."""
    ending = Path(file).suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{os.fspath(file)}: a file of runs ends in {', '.join(FORMATS)}.")
    return FORMATS[ending]


def export_runs(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    """Write runs to a file, whole or not at all; its ending says in which format."""
    write = {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}
    write[format_of(file)](runs, file)


def _write_json(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    with atomic_write(file) as stream:
        stream.write(f'{{"layout": "{LAYOUT}", "runs": ['.encode())
        for number, run in enumerate(runs):
            stream.write(b",\n" if number else b"\n")
            stream.write(json.dumps(_run_data(run), allow_nan=False).encode())
        stream.write(b"\n]}\n")


def _run_data(run: Run) -> dict[str, Any]:
    """All of a run, with every digit of every value."""
    data = {key: value for key, value in vars(run).items() if key not in _NOT_EXPORTED}
    data["aggregates"] = [one.to_dict() for one in run.aggregates]
    data["details"] = run.details()
    data["wide"] = run.wide()
    data["shown"] = [[query, results_to_data(one)] for query, one in run.all_results().items()]
    data["scores"] = _scores_data(run.scores()) if run.conventions else None
    return data


def _scores_data(scores: Scores) -> dict[str, Any]:
    names = list(map(str, scores.measures))
    return {
        "measures": names,
        "id_kind": id_kind(scores.query_ids),
        "queries": scores.query_ids.to_list(),
        "values": [[or_none(v) for v in row] for row in scores.values.tolist()],
        "tied": [np.flatnonzero(row).tolist() for row in scores.tied],
        "missing": np.flatnonzero(scores.missing).tolist(),
        "extra_kind": id_kind(scores.extra),
        "extra": scores.extra.to_list(),
        "groups": {name: column.tolist() for name, column in scores.groups.items()},
        "settings": dict(scores.settings),
        "remarks": list(scores.remarks),
    }


def _rows(runs: Iterable[Run], columns: Sequence[str]) -> Iterator[list[Any]]:
    """A row for each value of each query of each run that has any."""
    for run in runs:
        if not run.conventions:
            continue
        scores = run.scores()
        front = [
            run.uid,
            run.name,
            run.task,
            run.dataset,
            run.model,
            run.created,
            run.conventions,
            id_kind(scores.query_ids),
        ]
        made = [run.signature, run.search, json.dumps(dict(scores.settings))]
        groups = {f"{GROUP}{name}": column.tolist() for name, column in scores.groups.items()}
        queries = scores.query_ids.to_list()
        for number, measure in enumerate(scores.measures):
            values, tied = scores.values[number].tolist(), scores.tied[number].tolist()
            for row, query in enumerate(queries):
                value = values[row]
                back = [groups[name][row] if name in groups else None for name in columns]
                yield [
                    *front,
                    str(query),
                    str(measure),
                    or_none(value),
                    tied[row],
                    bool(scores.missing[row]),
                    *back,
                    *made,
                ]


def _group_columns(runs: Iterable[Run]) -> list[str]:
    found = (one.by_column for run in runs for one in run.aggregates if one.by_column)
    return [f"{GROUP}{name}" for name in dict.fromkeys(found)]


def _write_csv(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    columns = _group_columns(runs)
    with atomic_write(file) as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors="backslashreplace", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*FRONT, *map(guard_formula, columns), *MADE])
        for row in _rows(runs, columns):
            writer.writerow([_cell(cell) for cell in row])
        text.flush()
        text.detach()


def _cell(cell: Any) -> Any:
    if isinstance(cell, bool):
        return int(cell)
    return guard_formula(cell) if isinstance(cell, str) else cell


def _write_parquet(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    arrow = need("pyarrow", "writing parquet files", "parquet")
    parquet = need("pyarrow.parquet", "writing parquet files", "parquet")
    columns = _group_columns(runs)
    types = {"value": arrow.float64(), "tied": arrow.bool_(), "missing": arrow.bool_()}
    schema = arrow.schema([(n, types.get(n, arrow.string())) for n in (*FRONT, *columns, *MADE)])
    with atomic_write(file) as stream, parquet.ParquetWriter(stream, schema) as writer:
        for run in runs:  # one run at a time, so that memory is bounded by the largest
            rows = [[_valid_utf8(cell) for cell in row] for row in _rows([run], columns)]
            if rows:
                arrays = map(arrow.array, map(list, zip(*rows, strict=True)), schema.types)
                writer.write_table(arrow.Table.from_arrays(list(arrays), schema=schema))


def _valid_utf8(cell: Any) -> Any:
    """Text that UTF-8 can hold."""
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
