"""Runs read from files that `export_runs` wrote, or another program in the same layout."""

from __future__ import annotations

import csv
import io
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from assay.core.text import unguard_formula
from assay.errors import AssayError, FormatError
from assay.io.columns import read_columns
from assay.io.json_text import parse_json
from assay.io.streams import read_text
from assay.runs.record import RunRecord, check_tags
from assay.runs.results import Aggregate, QueryResults, find_contradictions, results_from_data
from assay.scoring.score_data import require_text, scores_from_data
from assay.scoring.scores import Scores
from assay.store.codec import SAVED, UNSIGNED, UPGRADED, data_digest, now, pack_scores
from assay.store.exports import EXPORTED, FRONT, GROUP, LAYOUT, TEXTS, format_of, table_digest
from assay.store.rows import Payload
from assay.store.run import COLUMNS


def read_csv_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file."""
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
    """Yield the rows of a parquet file."""

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
    """Return the layout of JSON from rows of (query, measure, value)."""
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


_SINCE: Final = (SAVED, UPGRADED, UNSIGNED)
_NUMBERS: Final = ("integer", "numbered")
_LARGEST: Final = 2**63 - 1
_FAULTS: Final = (
    *(AssayError, LookupError, ArithmeticError),
    *(TypeError, ValueError, AttributeError),
)
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
            imported = _import_run(run, where, name)
        yield imported


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
    values = {name: _check(name, run[name], where) for name in EXPORTED if name not in _COMPUTED}
    _check_state(values, where)
    aggregates = tuple(map(_import_aggregate, run["aggregates"]))
    scores = None
    if run["scores"] is not None:
        scores = scores_from_data(run["scores"], values["conventions"], where)
        _refuse_contradictions(aggregates, scores, where)
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
        "digest_from": _check_digest(run, lambda: data_digest(rest), where),
    }
    return ImportedRun(values, check_tags(run["tags"]), packed)


def _check(name: str, value: Any, where: str) -> Any:
    return COLUMNS[name].kind.check(value, where, name)


def _check_numbers(run: Mapping[str, Any], where: str) -> None:
    """Refuse numbers that cannot be stored; values of queries are checked as one array."""
    scores = run.get("scores")
    rest = {**scores, "values": None} if isinstance(scores, dict) else scores
    for key, value in {**run, "scores": rest}.items():
        if any(not _can_be_stored(number, key in _ANY_INTEGER) for number in _numbers(value)):
            raise FormatError(f"{where}, {key}: a number is infinite or too large to be stored.")


def _can_be_stored(number: float, is_text: bool) -> bool:
    if isinstance(number, int):
        return is_text or -_LARGEST <= number <= _LARGEST
    return math.isfinite(number)


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
            f"{where} does not match its digest: the file was changed after it was exported. "
            "Export the run again; without its digest a run is imported, and marked as unsigned."
        )
    return since if since in _SINCE else UNSIGNED


def _refuse_contradictions(aggregates: Sequence[Aggregate], scores: Scores, where: str) -> None:
    for line in find_contradictions(aggregates, scores):
        raise FormatError(f"{where}: {line}. The file was changed after it was exported.")


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
        raise FormatError(f"{where}: a query has results twice. Keep one of them.")
    return results


def _check_state(values: dict[str, Any], where: str) -> None:
    """Check status and uid; a run that was running when it was exported has failed."""
    status, uid = values["status"], values["uid"]
    if status not in ("running", "finished", "failed"):
        raise FormatError(f"{where}, status is {status!r:.60}: running, finished or failed.")
    if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
        raise FormatError(f"{where}, uid is {uid!r:.60}, not 32 hexadecimal digits.")
    if status == "running":
        values |= {"status": "failed", "message": "it was running when it was exported"}


def _import_table(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[ImportedRun]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault(require_text(row["run"], f"{name}, run"), []).append(row)
    for uid, cells in by_run.items():
        where = f"{name}, run {uid!r:.60}"
        with _naming_faults(where):
            imported = _import_rows(uid, cells, where, name)
        yield imported


def _import_rows(uid: str, rows: list[Mapping[str, Any]], where: str, origin: str) -> ImportedRun:
    first = rows[0]
    scores = scores_from_data(pivot_rows(rows, where), first["conventions"], where)
    search = require_text(first.get("search") or "", f"{where}, search")
    texts = {key: first.get(key) or "" for key in TEXTS}
    since = _check_digest(first, lambda: table_digest(texts, scores), where)
    payload = Payload.of(RunRecord(first["name"], replace(scores, search=search)))
    values = {
        **{name: _check(name, first[name], where) for name in ("name", "task", "dataset", "model")},
        "uid": uid,
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
