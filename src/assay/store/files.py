"""Runs in files: JSON holds all of a run, CSV and parquet the values of every query.

`export_runs` and `write_records` write them; `read_runs` reads them, also those that another
program wrote in the same layout, and checks all that they say.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.core.text import guard_formula, unguard_formula
from assay.errors import AssayError, FormatError, UsageError, need
from assay.io.columns import Dialect, open_delimited, read_columns
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, read_text
from assay.runs.record import RunRecord, check_tags
from assay.runs.results import (
    Aggregate,
    QueryResults,
    aggregates_of_record,
    find_contradictions,
    results_from_data,
    results_to_data,
)
from assay.scoring.score_data import id_kind, require_text, scores_from_data, scores_to_data
from assay.scoring.scores import Scores
from assay.store.codec import SAVED, UNSIGNED, UPGRADED, digest_lines, json_values, now, pack_scores
from assay.store.run import COLUMNS, Payload, Run, score_columns, start_values

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
        raise UsageError(f"{os.fspath(file)}: unknown ending. Use {', '.join(FORMATS)}.")
    return FORMATS[ending]


def export_runs(runs: Sequence[Run], file: str | os.PathLike[str]) -> None:
    """Write runs to a file, whole or not at all; its ending says in which format."""
    layout = format_of(file)
    if layout == "json":
        _write_runs(map(_run_data, runs), file)
    else:
        (_write_csv if layout == "csv" else _write_parquet)(runs, file)


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
    """Return a record as a finished run of a store."""
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
    return {**data, "digest": digest_lines([data])}


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
    """Return the order-independent digest of a run's rows."""
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


# Reading


def read_csv_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file."""
    table = open_delimited(name, Dialect(strict=False, skip_spaces=False))
    header = [unguard_formula(cell) for cell in table.names]
    _check_header(header, name)
    for columns in table.batches(table.names):
        for cells in zip(*columns, strict=True):
            yield dict(zip(header, map(unguard_formula, cells), strict=True))


def read_parquet_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a parquet file."""

    def check(header: Sequence[str]) -> list[str]:
        _check_header(list(header), name)
        return list(header)

    table = read_columns(name, check)
    for field in table.schema:
        if field.type.num_fields:  # a struct, a list or a map
            raise FormatError(
                f"{name}: column {field.name!r} holds {field.type}, not one value. Export it again."
            )
    for batch in table.to_batches():
        yield from batch.to_pylist()


def _check_header(header: list[str], name: str) -> None:
    absent = [column for column in FRONT if column not in header]
    if absent:
        raise FormatError(
            f"{name} holds no runs: column {', '.join(absent)} is missing. Export it again."
        )
    if len(set(header)) < len(header):
        raise FormatError(f"{name}: a column occurs twice. Keep one.")


def pivot_rows(rows: list[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """Return the layout of JSON from rows of (query, measure, value)."""
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    places = {query: i for i, query in enumerate(dict.fromkeys(row["query"] for row in rows))}
    if len({(row["measure"], row["query"]) for row in rows}) != len(rows) or len(rows) != len(
        measures
    ) * len(places):
        raise FormatError(f"{where}: measures differ in length. Give one value per query.")
    values: dict[str, list[Any]] = {name: [None] * len(places) for name in measures}
    tied: dict[str, list[int]] = {name: [] for name in measures}
    for row in rows:
        place = places[row["query"]]
        cell = row["value"]
        values[row["measure"]][place] = None if cell in (None, "") else float(cell)
        if _flag(row["tied"], where):
            tied[row["measure"]].append(place)
    of_query = [row for row in rows if row["measure"] == measures[0]]
    kind = rows[0]["id_kind"]
    columns = [name for name in rows[0] if name.startswith(GROUP) and any(r[name] for r in rows)]
    return {
        "measures": measures,
        "id_kind": kind,
        "queries": [int(query) for query in places] if kind in _NUMBERS else list(places),
        "values": list(values.values()),
        "tied": list(tied.values()),
        "missing": [places[row["query"]] for row in of_query if _flag(row["missing"], where)],
        "extra_kind": kind,
        "extra": [],
        "groups": {name[len(GROUP) :]: [row[name] for row in of_query] for name in columns},
        "settings": parse_json(rows[0].get("settings") or "{}", f"{where}, settings"),
    }


def _flag(cell: Any, where: str) -> bool:
    if cell not in (True, False, "0", "1"):
        raise FormatError(f"{where}: tied or missing is not 0 or 1: {cell!r:.60}.")
    return cell in (True, "1")


_SINCE: Final = (SAVED, UPGRADED, UNSIGNED)
_NUMBERS: Final = ("integer", "numbered")
_LARGEST: Final = 2**63 - 1
_FAULTS: Final = (AssayError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError)
_COMPUTED: Final = ("n_queries", "digest_from")
_ANY_INTEGER: Final = ("config", "versions", "seeds", "data", "details")  # stored as text
_AGGREGATE: Final = {field.name for field in fields(Aggregate)}


@dataclass(frozen=True)
class ImportedRun:
    """A run from a file: its fields, tags and payload."""

    values: dict[str, Any]
    tags: tuple[str, ...]
    payload: Payload


def read_runs(file: str | os.PathLike[str]) -> list[ImportedRun]:
    """Return all runs of a file, checked; its ending says the format."""
    name = os.fspath(file)
    layout = format_of(file)
    by_run: dict[Any, Any] = {}
    if layout == "json":
        data = parse_json(read_text(file), name)
        if not isinstance(data, dict) or data.get("layout") != LAYOUT:
            raise FormatError(f"{name} holds no runs (layout {LAYOUT!r}). Export it again.")
        runs = data.get("runs")
        by_run = dict(enumerate(runs if isinstance(runs, list) else [None]))
    else:
        for row in read_parquet_rows(name) if layout == "parquet" else read_csv_rows(name):
            by_run.setdefault(require_text(row["run"], f"{name}, run"), []).append(row)
    make = _import_run if layout == "json" else _import_rows
    imported = []
    for key, source in by_run.items():
        where = f"{name}, run {key!r:.60}"
        try:
            imported.append(make(source, where, name))
        except FormatError:
            raise
        except _FAULTS as error:  # whatever a wrong file leads to
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            raise FormatError(f"Cannot read {where}: {why}. Export it again.") from None
    return imported


def _import_run(run: Any, where: str, origin: str) -> ImportedRun:
    if not isinstance(run, dict):
        raise FormatError(f"{where} is not an object.")
    _check_numbers(run, where)
    values = {name: _check(name, run[name], where) for name in EXPORTED if name not in _COMPUTED}
    _check_state(values, where)
    aggregates = tuple(map(_import_aggregate, run["aggregates"]))
    scores = None
    if run["scores"] is not None:
        scores = scores_from_data(run["scores"], values["conventions"], where)
        for line in find_contradictions(aggregates, scores):
            raise FormatError(
                f"{where}: {line}. The file was changed after export. Export it again."
            )
    record = RunRecord(
        values["name"],
        details=run["details"],
        results=_results(run.get("shown", []), where),
        wide=run.get("wide", {}),
    )
    # The aggregates of the file are kept: they may hold more than the scores say.
    packed = replace(Payload.of(record), aggregates=aggregates)
    if scores is not None:
        packed = replace(packed, blobs=(*pack_scores(scores), *packed.blobs))
    rest = {key: value for key, value in run.items() if key != "digest"}
    values |= {
        "origin": origin,
        "updated": now(),
        "n_queries": 0 if scores is None else scores.n_queries,
        "digest_from": _check_digest(run, lambda: digest_lines([rest]), where),
    }
    return ImportedRun(values, check_tags(run["tags"]), packed)


def _check(name: str, value: Any, where: str) -> Any:
    return COLUMNS[name].kind.check(value, where, name)


def _check_numbers(run: Mapping[str, Any], where: str) -> None:
    """Refuse numbers that cannot be stored; values of queries are checked as one array."""
    scores = run.get("scores")
    rest = {**scores, "values": None} if isinstance(scores, dict) else scores
    for key, value in {**run, "scores": rest}.items():
        largest = math.inf if key in _ANY_INTEGER else _LARGEST
        fit = (
            abs(number) <= largest if isinstance(number, int) else math.isfinite(number)
            for number in _numbers(value)
        )
        if not all(fit):
            raise FormatError(f"{where}, {key}: an infinite or too large number. Export again.")


def _numbers(data: Any) -> Iterator[float]:
    """Yield all numbers in plain data."""
    rest = [data]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int | float):
            yield value


def _check_digest(data: Mapping[str, Any], compute: Callable[[], str], where: str) -> str:
    """Return since when a digest vouches; refuse one that does not match."""
    digest, since = data.get("digest"), data.get("digest_from")
    if not digest:
        return UNSIGNED
    if digest != compute():
        raise FormatError(
            f"{where} does not match its digest: the file was changed. Export the run again, "
            "or remove the digest to import it unsigned."
        )
    return since if since in _SINCE else UNSIGNED


def _import_aggregate(data: Mapping[str, Any]) -> Aggregate:
    """Return an aggregate; its `method` also names the column: 'bca by scene'."""
    fields_ = {key: value for key, value in data.items() if key in _AGGREGATE}
    if isinstance(method := fields_.get("method"), str):
        fields_["method"], _, fields_["clusters"] = method.partition(" by ")
    return Aggregate(**fields_)


def _results(pairs: list[Any], where: str) -> dict[str, QueryResults]:
    """Return the results of queries; files of version 0.1 have none."""
    results = {
        require_text(query, f"{where}, shown"): results_from_data(data) for query, data in pairs
    }
    if len(results) < len(pairs):
        raise FormatError(f"{where}: a query has results twice. Keep one.")
    return results


def _check_state(values: dict[str, Any], where: str) -> None:
    """Check status and uid; a run that was running when it was exported has failed."""
    status, uid = values["status"], values["uid"]
    if status not in ("running", "finished", "failed"):
        raise FormatError(f"{where}, status is {status!r:.60}. Use running, finished or failed.")
    if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
        raise FormatError(f"{where}, uid is {uid!r:.60}, not 32 hex digits. Export it again.")
    if status == "running":
        values |= {"status": "failed", "message": "it was running when it was exported"}


def _import_rows(rows: list[Mapping[str, Any]], where: str, origin: str) -> ImportedRun:
    first = rows[0]
    scores = scores_from_data(pivot_rows(rows, where), first["conventions"], where)
    search = require_text(first.get("search") or "", f"{where}, search")
    texts = {key: first.get(key) or "" for key in TEXTS}
    since = _check_digest(first, lambda: table_digest(texts, scores), where)
    payload = Payload.of(RunRecord(first["name"], replace(scores, search=search)))
    values = {
        **{name: _check(name, first[name], where) for name in ("name", "task", "dataset", "model")},
        "uid": first["run"],
        "batch": uuid.uuid4().hex,
        "status": "finished",
        "created": _check("created", first["created"], where),
        "updated": now(),
        "origin": origin,
        "digest_from": since,
        "command": (),
        **{name: {} for name in ("config", "versions", "seeds", "data", "timings")},
        **payload.columns,
    }
    _check_state(values, where)
    values["finished"] = values["created"]
    if first.get("signature"):
        values["signature"] = _check("signature", first["signature"], where)
    return ImportedRun(values, (), payload)
