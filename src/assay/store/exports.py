"""Runs written to files: JSON holds all of a run, CSV and parquet the values of every query."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.core.text import guard_formula
from assay.errors import UsageError, need
from assay.io.atomic import atomic_write
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate, QueryResults, aggregates_of_record, results_to_data
from assay.scoring.score_data import id_kind, scores_to_data
from assay.scoring.scores import Scores
from assay.store.codec import data_digest, json_values
from assay.store.rows import score_columns, start_values
from assay.store.run import COLUMNS, Run

LAYOUT: Final = "assay runs 1"
FORMATS: Final = {".json": "json", ".csv": "csv", ".parquet": "parquet"}
GROUP: Final = "group:"

# Columns of every row of a table; those of the groups follow.
_FACTS: Final = ("run", "name", "task", "dataset", "model", "created", "conventions", "id_kind")
FRONT: Final = (*_FACTS, "query", "measure", "value", "tied", "missing")
# The last columns: what made the numbers beside the conventions, and a digest of the rows of the
# run. Version 0.1 did not write them.
MADE: Final = ("signature", "search", "settings", "digest_from", "digest")
# What these hold is the same in every row of a run.
TEXTS: Final = (*_FACTS, *MADE[:-1])
_COLUMNS: Final = {"run": "uid"}
# Fields of a run in files of JSON: what holds for one store only is not there.
EXPORTED: Final = [name for name, column in COLUMNS.items() if column.exported]


def format_of(file: str | os.PathLike[str]) -> str:
    """Return json, csv or parquet, by the ending of the file."""
    ending = Path(file).suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{os.fspath(file)}: a file of runs ends in {', '.join(FORMATS)}.")
    return FORMATS[ending]


def export_runs(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    """Write runs to a file, whole or not at all; its ending says in which format."""
    write = {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}
    write[format_of(file)](runs, file)


def _write_json(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    _write_runs(map(_run_data, runs), file)


def _write_runs(runs: Iterable[dict[str, Any]], file: str | os.PathLike[str]) -> None:
    with atomic_write(file) as stream:
        stream.write(f'{{"layout": "{LAYOUT}", "runs": ['.encode())
        for number, run in enumerate(runs):
            stream.write(b",\n" if number else b"\n")
            stream.write(json.dumps(run, allow_nan=False).encode())
        stream.write(b"\n]}\n")


def write_records(records: Iterable[RunRecord], file: str | os.PathLike[str]) -> None:
    """Write records as JSON that a store imports; none is needed."""
    _write_runs(map(_record_data, records), file)


def _record_data(record: RunRecord) -> dict[str, Any]:
    """Return a record as the finished run that a store would make of it now."""
    values = start_values(record)
    values |= {"status": "finished", "message": "", "finished": values["created"]}
    values |= {"seconds": record.seconds, "tags": record.tags}
    values |= {"conventions": "", "signature": "", "search": "", **score_columns(record.scores)}
    parts = {
        "aggregates": aggregates_of_record(record),
        "details": json_values(record.details, "details"),
        "wide": json_values(record.wide, "wide"),
        "results": record.results,
        "scores": record.scores,
    }
    return _file_data({key: json_values(value, key) for key, value in values.items()}, **parts)


def _run_data(run: Run) -> dict[str, Any]:
    """Return all of a run, with every digit of every value."""
    return _file_data(
        vars(run),
        aggregates=run.aggregates,
        details=run.details(),
        wide=run.wide(),
        results=run.all_results(),
        scores=run.scores() if run.conventions else None,
    )


def _file_data(
    values: Mapping[str, Any],
    *,
    aggregates: Iterable[Aggregate],
    details: Any,
    wide: Any,
    results: Mapping[str, QueryResults],
    scores: Scores | None,
) -> dict[str, Any]:
    """Return a run as files hold it, with its digest."""
    data = {
        **{name: values[name] for name in (*EXPORTED, "tags") if name in values},
        "aggregates": [aggregate.to_dict() for aggregate in aggregates],
        "details": details,
        "wide": wide,
        "shown": [[query, results_to_data(result)] for query, result in results.items()],
        "scores": None if scores is None else scores_to_data(scores),
    }
    return {**data, "digest": data_digest(data)}


def _rows(runs: Iterable[Run], columns: Sequence[str]) -> Iterator[list[Any]]:
    """Yield a row for each value of each query of each run."""
    for run in runs:
        if not run.conventions:
            continue
        scores = run.scores()
        kind = id_kind(scores.query_ids)
        front = [*(getattr(run, _COLUMNS.get(name, name)) for name in _FACTS[:-1]), kind]
        origin = [run.signature, run.search, json.dumps(dict(scores.settings)), run.digest_from]
        texts = dict(zip(TEXTS, map(_valid_utf8, (*front, *origin)), strict=True))
        origin.append(table_digest(texts, scores))
        groups = {f"{GROUP}{name}": column.tolist() for name, column in scores.groups.items()}
        queries = scores.query_ids.to_list()
        for number, measure in enumerate(scores.measures):
            values, tied = scores.values[number].tolist(), scores.tied[number].tolist()
            for row, query in enumerate(queries):
                value = or_none(values[row])
                back = [groups[name][row] if name in groups else None for name in columns]
                marks = [tied[row], bool(scores.missing[row])]
                yield [*front, str(query), str(measure), value, *marks, *back, *origin]


def table_digest(texts: Mapping[str, str], scores: Scores) -> str:
    """Return the digest of a run's rows, in whatever order they are."""
    merged = Scores.merge(scores) if scores.n_queries else scores
    digest = hashlib.sha256(json.dumps(dict(texts), sort_keys=True).encode())
    _add_texts(digest, map(str, merged.query_ids.to_list()))
    digest.update(np.packbits(merged.missing).tobytes())
    for name, column in sorted(merged.groups.items()):
        if any(column):
            _add_texts(digest, (name, *column.tolist()))
    for measure in sorted(map(str, merged.measures)):
        row = list(map(str, merged.measures)).index(measure)
        values = merged.values[row]
        _add_texts(digest, (measure,))
        digest.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
        digest.update(np.packbits(merged.tied[row]).tobytes())
    return digest.hexdigest()


def _add_texts(digest: Any, texts: Iterable[str]) -> None:
    digest.update("\0".join(texts).encode("utf-8", "backslashreplace") + b"\0\0")


def _group_columns(runs: Iterable[Run]) -> list[str]:
    names = (
        aggregate.by_column for run in runs for aggregate in run.aggregates if aggregate.by_column
    )
    return [f"{GROUP}{name}" for name in dict.fromkeys(names)]


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
    """Return text that UTF-8 can hold."""
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
