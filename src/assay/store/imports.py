"""Runs read from files that `export_runs` wrote, or another program in the same layout."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from assay.core.text import unguard_formula
from assay.errors import AssayError, FormatError
from assay.io.json_text import parse_json
from assay.io.parquet import read_columns
from assay.io.streams import read_text
from assay.runs.aggregates import find_contradictions
from assay.runs.record import RunRecord, check_name, check_tags
from assay.runs.results import Aggregate, QueryResults, results_from_data
from assay.scoring.score_data import require_text, scores_from_data
from assay.scoring.scores import Scores
from assay.store.codec import SAVED, UNSIGNED, UPGRADED, data_digest, pack_scores
from assay.store.exports import FRONT, GROUP, LAYOUT, TEXTS, format_of, table_digest
from assay.store.payload import Payload
from assay.store.timestamps import now, start_of

__all__ = ["ImportedRun", "pivot_rows", "read_csv_rows", "read_parquet_rows", "read_runs"]


def read_csv_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a CSV file."""
    reader = csv.reader(io.StringIO(read_text(name), newline=""))
    try:
        header = [unguard_formula(cell) for cell in next(reader, [])]
        _check_header(header, name)
        for cells in reader:
            if len(cells) != len(header):
                raise FormatError(
                    f"{name}, line {reader.line_num}: found {len(cells)} columns, "
                    f"the header has {len(header)}."
                )
            yield dict(zip(header, map(unguard_formula, cells), strict=True))
    except csv.Error as error:
        raise FormatError(f"{name}, line {reader.line_num}: {error}.") from None


def read_parquet_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file."""

    def check(header: Sequence[str]) -> list[str]:
        _check_header(list(header), name)
        return list(header)

    for batch in read_columns(name, check).to_batches():
        yield from batch.to_pylist()


def _check_header(header: list[str], name: str) -> None:
    absent = [column for column in FRONT if column not in header]
    if absent:
        raise FormatError(f"{name} holds no runs: it has no column {', '.join(absent)}.")
    if len(set(header)) < len(header):
        raise FormatError(f"{name}: a column occurs twice. Keep one of them.")


def pivot_rows(rows: list[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """The layout of JSON from rows of (query, measure, value)."""
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    places = {query: i for i, query in enumerate(dict.fromkeys(row["query"] for row in rows))}
    if len({(row["measure"], row["query"]) for row in rows}) != len(rows) or len(rows) != len(
        measures
    ) * len(places):
        raise FormatError(f"{where}: every measure needs one value for each query.")
    values: dict[str, list[Any]] = {name: [None] * len(places) for name in measures}
    tied: dict[str, list[int]] = {name: [] for name in measures}
    for row in rows:
        place = places[row["query"]]
        values[row["measure"]][place] = _value(row["value"])
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


def _value(cell: Any) -> float | None:
    return None if cell in (None, "") else float(cell)


def _flag(cell: Any, where: str) -> bool:
    if cell not in (True, False, "0", "1"):
        raise FormatError(f"{where}: tied and missing are 0 or 1, found {cell!r:.60}.")
    return cell in (True, "1")


_TEXTS: Final = (
    "uid",
    "batch",
    "rerun_of",
    "name",
    "task",
    "dataset",
    "model",
    "status",
    "message",
    "created",
    "conventions",
    "signature",
    "search",
    "folder",
    "git_commit",
    "notes",
)
_SINCE: Final = (SAVED, UPGRADED, UNSIGNED)
_NUMBERS: Final = ("integer", "numbered")
_LARGEST: Final = 2**63 - 1
_FAULTS: Final = (
    *(AssayError, LookupError, ArithmeticError),
    *(TypeError, ValueError, AttributeError),
)
_DATA: Final = ("config", "versions", "seeds", "data", "timings")
_ANY_INTEGER: Final = ("config", "versions", "seeds", "data", "details")  # stored as text
_AGGREGATE: Final = {field.name for field in fields(Aggregate)}


@dataclass(frozen=True)
class ImportedRun:
    """A run from a file: its row, tags and payload."""

    row: dict[str, Any]
    tags: tuple[str, ...]
    payload: Payload


def read_runs(file: str | os.PathLike[str]) -> list[ImportedRun]:
    """All runs of a file, checked; its ending says the format."""
    name = os.fspath(file)
    format = format_of(file)
    if format == "json":
        return list(_import_json(parse_json(read_text(file), name), name))
    cells = read_parquet_rows(name) if format == "parquet" else read_csv_rows(name)
    return list(_import_table(cells, name))


def _import_json(data: Any, name: str) -> Iterator[ImportedRun]:
    if not isinstance(data, dict) or data.get("layout") != LAYOUT:
        raise FormatError(f"{name} holds no runs: its layout is not {LAYOUT!r}.")
    runs = data.get("runs")
    for number, run in enumerate(runs if isinstance(runs, list) else [None]):
        where = f"{name}, run {number}"
        with _naming_faults(where):
            made = _import_run(run, where, name)
        yield made


@contextmanager
def _naming_faults(where: str) -> Iterator[None]:
    """Let whatever a wrong file leads to be an error that names the run."""
    try:
        yield
    except FormatError:
        raise
    except _FAULTS as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise FormatError(f"{where} cannot be read: {why}") from None


def _import_run(run: Any, where: str, origin: str) -> ImportedRun:
    if not isinstance(run, dict):
        raise FormatError(f"{where} is not an object.")
    _check_numbers(run, where)
    row: dict[str, Any] = {key: require_text(run[key], f"{where}, {key}") for key in _TEXTS}
    for key in ("name", "task", "dataset", "model", "batch", "rerun_of", "uid"):
        check_name(row[key], key, empty=key != "name")
    for key in _DATA:
        if not isinstance(run[key], dict):
            raise FormatError(f"{where}, {key} is not an object.")
        row[key] = json.dumps(run[key])
    row["timings"] = json.dumps({key: float(one) for key, one in run["timings"].items()})
    row["command"] = json.dumps(
        [require_text(part, f"{where}, command") for part in run["command"]]
    )
    row |= _check_state(run, where) | {"origin": origin}
    aggregates = tuple(map(_import_aggregate, run["aggregates"]))
    scores = (
        None
        if run["scores"] is None
        else scores_from_data(run["scores"], row["conventions"], where)
    )
    if scores is not None:
        _refuse_contradictions(aggregates, scores, where)
    packed = Payload.of(
        RunRecord(
            row["name"],
            details=run["details"],
            results=_results(run.get("shown", []), where),
            wide=run.get("wide", {}),
        )
    )
    blobs = pack_scores(scores) if scores is not None else ()
    row["n_queries"] = 0 if scores is None else scores.n_queries
    blobs = (*blobs, *packed.blobs)
    rest = {key: value for key, value in run.items() if key != "digest"}
    row["digest_from"] = _check_digest(run, lambda: data_digest(rest), where)
    payload = Payload(blobs, aggregates, results=packed.results, wide=packed.wide)
    return ImportedRun(row, check_tags(run["tags"]), payload)


def _check_numbers(run: Mapping[str, Any], where: str) -> None:
    """Refuse numbers that cannot be stored; values of queries are checked as one array."""
    scores = run.get("scores")
    rest = {**scores, "values": None} if isinstance(scores, dict) else scores
    for key, value in {**run, "scores": rest}.items():
        if any(not _can_be_stored(one, key in _ANY_INTEGER) for one in _numbers(value)):
            raise FormatError(f"{where}, {key}: a number is infinite or too large to be stored.")


def _can_be_stored(number: float, is_text: bool) -> bool:
    if isinstance(number, int):
        return is_text or -_LARGEST <= number <= _LARGEST
    return math.isfinite(number)


def _numbers(data: Any) -> Iterator[float]:
    """All numbers in plain data."""
    rest = [data]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int | float):
            yield value


def _check_digest(found: Mapping[str, Any], compute: Callable[[], str], where: str) -> str:
    """Since when a digest vouches for the run; one that does not match is refused."""
    given, since = found.get("digest"), found.get("digest_from")
    if not given:
        return UNSIGNED
    if given != compute():
        raise FormatError(
            f"{where} does not match its digest: the file was changed after it was exported. "
            "Export the run again; without its digest a run is imported, and marked as unsigned."
        )
    return since if since in _SINCE else UNSIGNED


def _refuse_contradictions(aggregates: Sequence[Aggregate], scores: Scores, where: str) -> None:
    for line in find_contradictions(aggregates, scores):
        raise FormatError(f"{where}: {line}. The file was changed after it was exported.")


def _import_aggregate(data: Mapping[str, Any]) -> Aggregate:
    """An aggregate of this layout, where `method` also names the column: 'bca by scene'."""
    known = {key: value for key, value in data.items() if key in _AGGREGATE}
    if isinstance(method := known.get("method"), str):
        known["method"], _, known["clusters"] = method.partition(" by ")
    return Aggregate(**known)


def _results(pairs: list[Any], where: str) -> dict[str, QueryResults]:
    """Results of queries; files of earlier versions hold nothing of the kind."""
    found = {
        require_text(query, f"{where}, shown"): results_from_data(data) for query, data in pairs
    }
    if len(found) < len(pairs):
        raise FormatError(f"{where}: a query has results twice. Keep one of them.")
    return found


def _check_state(run: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Status and times, checked; a run that was running when it was exported has failed."""
    status = run["status"]
    if status not in ("running", "finished", "failed"):
        raise FormatError(f"{where}, status is {status!r:.60}: running, finished or failed.")
    uid = run["uid"]
    if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
        raise FormatError(f"{where}, uid is {uid!r:.60}, not 32 hexadecimal digits.")
    seconds = run["seconds"]
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise FormatError(f"{where}, seconds is {seconds!r:.60}, not a number.")
    state = {
        "seconds": seconds,
        "updated": now(),
        "created": start_of(run["created"]),
        "finished": None if run["finished"] is None else start_of(run["finished"]),
    }
    if status == "running":
        state |= {"status": "failed", "message": "it was running when it was exported"}
    return state


def _import_table(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[ImportedRun]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault(require_text(row["run"], f"{name}, run"), []).append(row)
    for uid, found in by_run.items():
        where = f"{name}, run {uid!r:.60}"
        with _naming_faults(where):
            made = _import_rows(uid, found, where, name)
        yield made


def _import_rows(uid: str, rows: list[Mapping[str, Any]], where: str, origin: str) -> ImportedRun:
    first = rows[0]
    scores = scores_from_data(pivot_rows(rows, where), first["conventions"], where)
    search = require_text(first.get("search") or "", f"{where}, search")
    texts = {key: first.get(key) or "" for key in TEXTS}
    since = _check_digest(first, lambda: table_digest(texts, scores), where)
    payload = Payload.of(RunRecord(first["name"], replace(scores, search=search)))
    row = {
        key: require_text(first[key], f"{where}, {key}")
        for key in ("name", "task", "dataset", "model")
    }
    for key, text in row.items():
        check_name(text, key, empty=key != "name")
    created = start_of(first["created"])
    state = _check_state(
        {"status": "finished", "uid": uid, "seconds": None, "created": created, "finished": None},
        where,
    )
    row |= {
        "uid": uid,
        "batch": uuid.uuid4().hex,
        "status": "finished",
        "origin": origin,
        "digest_from": since,
        "command": "[]",
        **dict.fromkeys(_DATA, "{}"),
        **state,
        **dict(payload.columns or {}),
        "finished": created,
    }
    if first.get("signature"):
        row["signature"] = require_text(first["signature"], f"{where}, signature")
    return ImportedRun(row, (), payload)
