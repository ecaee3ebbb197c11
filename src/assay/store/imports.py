"""Runs read from files that `export_runs` wrote, or somebody else in the same layout."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from assay.errors import AssayError, FormatError
from assay.ids import Ids
from assay.io.json_text import parse_json
from assay.io.text_lines import read_text
from assay.measures import parse
from assay.scores import Scores
from assay.store.about import checked_name, checked_tags
from assay.store.aggregates import Aggregate
from assay.store.exports import LAYOUT, format_of
from assay.store.import_tables import csv_rows, grid_of, parquet_rows
from assay.store.moments import after, now
from assay.store.numbers import Numbers
from assay.store.packing import conventions_of
from assay.store.shown import ShownQuery, from_plain

__all__ = ["Imported", "read_runs"]

_TEXTS: Final = ("uid", "batch", "rerun_of", "name", "task", "dataset", "model", "status",
                 "message", "created", "conventions", "signature", "search", "folder",
                 "git_commit", "notes")  # fmt: skip
_DATA: Final = ("config", "versions", "seeds", "data", "timings")
_AGGREGATE: Final = {field.name for field in fields(Aggregate)}


@dataclass(frozen=True)
class Imported:
    """A run from a file: its row, tags and numbers."""

    row: dict[str, Any]
    tags: tuple[str, ...]
    numbers: Numbers


def read_runs(file: str | os.PathLike[str]) -> list[Imported]:
    """All runs of a file, checked; its ending says the format."""
    name = os.fspath(file)
    format = format_of(file)
    if format == "json":
        return list(_from_json(parse_json(read_text(file), name), name))
    cells = parquet_rows(name) if format == "parquet" else csv_rows(name)
    return list(_from_rows(cells, name))


def _from_json(data: Any, name: str) -> Iterator[Imported]:
    if not isinstance(data, dict) or data.get("layout") != LAYOUT:
        raise FormatError(f"{name} holds no runs: its layout is not {LAYOUT!r}.")
    runs = data.get("runs")
    for number, run in enumerate(runs if isinstance(runs, list) else [None]):
        where = f"{name}, run {number}"
        try:
            yield _imported(run, where, name)
        except FormatError:
            raise
        except (AssayError, KeyError, TypeError, ValueError, AttributeError) as error:
            words = f"it has no {error}" if isinstance(error, KeyError) else error
            raise FormatError(f"{where} cannot be read: {words}") from None


def _imported(run: Any, where: str, origin: str) -> Imported:
    if not isinstance(run, dict):
        raise FormatError(f"{where} is not an object.")
    row: dict[str, Any] = {key: _text(run[key], f"{where}, {key}") for key in _TEXTS}
    for key in ("name", "task", "dataset", "model", "batch", "rerun_of", "uid"):
        checked_name(row[key], key, empty=key != "name")
    for key in _DATA:
        if not isinstance(run[key], dict):
            raise FormatError(f"{where}, {key} is not an object.")
        row[key] = json.dumps(run[key])
    row["command"] = json.dumps([_text(part, f"{where}, command") for part in run["command"]])
    row |= _state(run, where) | {"origin": origin}
    extra = [Aggregate(**{k: v for k, v in one.items() if k in _AGGREGATE})
             for one in run["aggregates"]]  # fmt: skip
    scores = None if run["scores"] is None else _scores(run["scores"], row["conventions"], where)
    packed = Numbers.of(None, details=run["details"], shown=_shown(run.get("shown", []), where))
    blobs = Numbers.of(scores).blobs if scores is not None else ()
    row["n_queries"] = 0 if scores is None else scores.n_queries
    numbers = Numbers((*blobs, *packed.blobs), tuple(extra), shown=packed.shown)
    return Imported(row, checked_tags(run["tags"]), numbers)


def _shown(pairs: list[Any], where: str) -> dict[str, ShownQuery]:
    """What is shown of queries; files of earlier versions hold nothing of the kind."""
    found = {_text(query, f"{where}, shown"): from_plain(data) for query, data in pairs}
    if len(found) < len(pairs):
        raise FormatError(f"{where}: a query is shown twice. Keep one of them.")
    return found


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where} is not a text but {value!r:.60}.")
    return value


def _state(run: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Nothing runs in a file: what was running then has failed now."""
    status = run["status"]
    if status not in ("running", "finished", "failed"):
        raise FormatError(f"{where}, status is {status!r:.60}: running, finished or failed.")
    uid = run["uid"]
    if len(uid) != 32 or not set(uid) <= set("0123456789abcdef"):
        raise FormatError(f"{where}, uid is {uid!r:.60}, not 32 hexadecimal digits.")
    seconds = run["seconds"]
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise FormatError(f"{where}, seconds is {seconds!r:.60}, not a number.")
    state = {"seconds": seconds, "updated": now(), "created": after(run["created"]),
             "finished": None if run["finished"] is None else after(run["finished"])}  # fmt: skip
    if status == "running":
        state |= {"status": "failed", "message": "it was running when it was exported"}
    return state


def _scores(data: Mapping[str, Any], conventions: str, where: str) -> Scores:
    n = len(data["queries"])
    shape = (len(data["measures"]), n)
    values = np.array([[np.nan if v is None else v for v in row] for row in data["values"]], float)
    if values.reshape(-1).shape != (shape[0] * n,) or len(data["tied"]) != shape[0]:
        raise FormatError(f"{where}: {shape[0]} measures × {n} queries need as many values.")
    tied = np.zeros(shape, bool)
    for number, places in enumerate(data["tied"]):
        tied[number] = _marked(places, n, where)
    groups = {
        name: np.asarray([_text(group, where) for group in column], np.str_)
        for name, column in data["groups"].items()
    }
    if any(len(column) != n for column in groups.values()):
        raise FormatError(f"{where}: a group column does not have a group for each query.")
    return _in_order(
        Scores(
            measures=tuple(parse(name) for name in data["measures"]),
            query_ids=_ids(data["queries"], data["id_kind"]),
            values=values.reshape(shape),
            tied=tied,
            missing=_marked(data["missing"], n, where),
            conventions=conventions_of(conventions),
            extra=_ids(data["extra"], data["extra_kind"]),
            groups=groups,
        ),
        where,
    )


def _ids(values: list[Any], kind: str) -> Ids:
    if kind == "integer":
        return Ids.of(np.asarray(values, np.int64), "query")
    return Ids.of([_text(one, "a query id") for one in values], "query") if values else _NO_TEXT


_NO_TEXT: Final = Ids.from_utf8(np.zeros(0, np.uint8), np.zeros(1, np.int64))


def _marked(places: list[int], n: int, where: str) -> Any:
    marks = np.zeros(n, bool)
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < n:
            raise FormatError(f"{where}: there is no query at place {place!r:.60}.")
        marks[place] = True
    return marks


def _in_order(scores: Scores, where: str) -> Scores:
    """Scores as we make them: queries in the order of their ids, none of them twice."""
    pair = scores.query_ids.first_duplicate()
    if pair is not None:
        raise FormatError(f"{where}: query {scores.query_ids[pair[0]]!r} is there twice.")
    if np.isinf(scores.values).any():
        raise FormatError(f"{where}: a value is infinite.")
    return Scores.merge(scores) if scores.n_queries else scores


def _from_rows(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Imported]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault(_text(row["run"], f"{name}, run"), []).append(row)
    for uid, found in by_run.items():
        where = f"{name}, run {uid!r:.60}"
        try:
            yield _of_rows(uid, found, where, name)
        except FormatError:
            raise
        except (AssayError, TypeError, ValueError) as error:
            raise FormatError(f"{where} cannot be read: {error}") from None


def _of_rows(uid: str, rows: list[Mapping[str, Any]], where: str, origin: str) -> Imported:
    first = rows[0]
    scores = _scores(grid_of(rows, where), first["conventions"], where)
    numbers = Numbers.of(scores)
    row = {key: _text(first[key], f"{where}, {key}") for key in ("name", "task", "dataset",
                                                                 "model")}  # fmt: skip
    for key, text in row.items():
        checked_name(text, key, empty=key != "name")
    moment = after(first["created"])
    state = _state({"status": "finished", "uid": uid, "seconds": None, "created": moment,
                    "finished": None}, where)  # fmt: skip
    row |= {"uid": uid, "batch": uuid.uuid4().hex, "status": "finished", "origin": origin,
            "command": "[]", **dict.fromkeys(_DATA, "{}"), **state, **dict(numbers.columns or {}),
            "finished": moment}  # fmt: skip
    return Imported(row, (), numbers)
