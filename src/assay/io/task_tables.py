"""Tables of many tasks: a line for each system, task and query with its value.

Without a column of queries a line holds the mean of a system on a task. Columns are found by their
names; CSV, TSV, JSON, JSONL and parquet files, data frames and records are read alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.checks import flaw_of
from assay.errors import FormatError, IdError, UsageError, ValueRangeError
from assay.io.formats import find_format
from assay.io.frames import columns_of_frame, is_frame
from assay.io.json_text import parse_json
from assay.io.lines import Where, pick_column, plain_floats
from assay.io.parquet import read_columns
from assay.io.streams import FilePath, read_text
from assay.io.tables import (
    delimited_rows,
    jsonl_records,
    line_number,
    parse_numbers,
    require_width,
)

__all__ = ["TaskLines", "join_lines", "lines_of_means", "read_task_lines", "task_lines"]

_BATCH = 1 << 14
_KNOWN = {
    "system": ("system", "systemname", "model", "modelname", "run", "runname", "name"),
    "task": ("task", "taskname", "dataset", "datasetname", "collection"),
    "query": ("queryid", "qid", "topicid", "query", "topic", "q", "example", "item"),
    "value": ("value", "score", "mainscore", "result"),
}
_FORMATS = "CSV, TSV, JSON, JSONL or parquet"


class TaskLines(NamedTuple):
    """A value on each line; systems, tasks and queries are numbered by first appearance.

    `queries` is empty, and `query` is zero, where the values are means over queries.
    """

    systems: list[str]
    tasks: list[str]
    queries: list[str | int]
    system: Ints
    task: Ints
    query: Ints
    values: Floats
    where: Where
    remarks: tuple[str, ...] = ()

    @property
    def means_only(self) -> bool:
        """Whether a value is the mean of a system on a task."""
        return not self.queries

    def in_order(self) -> TaskLines:
        """Tasks and queries by the text of their names: what is drawn goes by that order, and must
        not depend on which line comes first. Systems stay as they were named."""
        tasks = sorted(range(len(self.tasks)), key=self.tasks.__getitem__)
        queries = sorted(range(len(self.queries)), key=lambda row: str(self.queries[row]))
        return self._replace(
            tasks=[self.tasks[row] for row in tasks],
            queries=[self.queries[row] for row in queries],
            task=np.argsort(tasks)[self.task],
            query=np.argsort(queries)[self.query] if queries else self.query,
        )


def task_lines(data: Any) -> TaskLines:
    """From a path, a data frame, or records with the names of the columns.

    >>> task_lines([{"model": "bm25", "task": "NQ", "query": "q1", "value": 0.5}]).systems
    ['bm25']
    """
    if isinstance(data, str | os.PathLike):
        return read_task_lines(data)
    if is_frame(data):
        wanted: list[str] = []
        columns = columns_of_frame(data, lambda names: _choose(names, "data frame", wanted))
        return _of_columns(dict(zip(_roles(wanted), columns, strict=True)), "row {}".format, "")
    if isinstance(data, Mapping | bytes) or not isinstance(data, Iterable):
        raise UsageError(
            f"Cannot read a table of tasks from {type(data).__name__}. Give a path, a data frame, "
            "or records such as {'system': …, 'task': …, 'query': …, 'value': …}."
        )
    return _of_records(list(data), "row {}".format, "records")


def read_task_lines(path: FilePath) -> TaskLines:
    """Read a table file."""
    name, format = os.fspath(path), find_format(path)
    if format in ("csv", "tsv"):
        return _read_delimited(path, "," if format == "csv" else "\t")
    if format == "jsonl":
        return _of_records(*jsonl_records(path), name)
    if format == "json":
        data = parse_json(read_text(path), name)
        if not isinstance(data, list):
            raise FormatError(f"{name}: expected a JSON array of records, found {data!r:.40}.")
        return _of_records(data, f"{name}, entry {{}}".format, name)
    if format == "parquet":
        wanted: list[str] = []
        table = read_columns(path, lambda names: _choose(names, name, wanted))
        where = f"{name}, row {{}}".format
        columns = columns_of_frame(table, lambda _: wanted, where)
        return _of_columns(dict(zip(_roles(wanted), columns, strict=True)), where, name)
    raise FormatError(f"{name}: a table of tasks is {_FORMATS}. Name it by its ending.")


def lines_of_means(
    cells: Mapping[tuple[str, str], float], remarks: Sequence[str] = ()
) -> TaskLines:
    """From the mean of each (system, task)."""
    systems = list(dict.fromkeys(system for system, _ in cells))
    tasks = list(dict.fromkeys(task for _, task in cells))
    places = ({name: i for i, name in enumerate(each)} for each in (systems, tasks))
    of_system, of_task = places
    return TaskLines(
        systems,
        tasks,
        [],
        np.array([of_system[system] for system, _ in cells], np.int64),
        np.array([of_task[task] for _, task in cells], np.int64),
        np.zeros(len(cells), np.int64),
        np.array(list(cells.values()), np.float64),
        lambda row: "system {!r}, task {!r}".format(*list(cells)[row]),
        tuple(remarks),
    )


def join_lines(parts: Sequence[TaskLines]) -> TaskLines:
    """Several tables as one: each may hold some of the systems or tasks."""
    if len(parts) == 1:
        return parts[0]
    if len({part.means_only for part in parts}) > 1:
        raise FormatError(
            "Some of the tables have values of queries, others only means. Give one kind."
        )
    names: list[dict[Any, int]] = [{}, {}, {}]
    codes: list[list[Ints]] = [[], [], []]
    for part in parts:
        each: tuple[Sequence[Any], ...] = (part.systems, part.tasks, part.queries)
        for numbers, found, own, code in zip(names, codes, each, part[3:6], strict=True):
            places = np.array([numbers.setdefault(name, len(numbers)) for name in own], np.int64)
            found.append(places[code] if len(places) else code)
    ends = np.cumsum([len(part.values) for part in parts])

    def where(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return parts[number].where(row - int(ends[number] - len(parts[number].values)))

    systems, tasks, queries = map(list, names)
    system, task, query = map(np.concatenate, codes)
    values = np.concatenate([part.values for part in parts])
    remarks = tuple(remark for part in parts for remark in part.remarks)
    return TaskLines(systems, tasks, queries, system, task, query, values, where, remarks)


# Columns


def _find_columns(names: Sequence[str], source: str) -> dict[str, str]:
    """The column of each role; that of queries may be absent."""
    found = {role: pick_column(names, known, source) for role, known in _KNOWN.items()}
    absent = [role for role in ("system", "task", "value") if found[role] is None]
    if absent:
        shown = ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"
        raise FormatError(
            f"{source}: cannot tell which column holds the {absent[0]}; found {shown}. Name the "
            "columns system, task, query and value (without query, values are means of tasks)."
        )
    return {role: name for role, name in found.items() if name is not None}


def _choose(names: Sequence[str], source: str, wanted: list[str]) -> list[str]:
    """The columns to read; they are kept in `wanted`, too."""
    wanted[:] = _find_columns(names, source).values()
    return wanted


def _roles(wanted: Sequence[str]) -> list[str]:
    return [role for role in _KNOWN if role != "query" or len(wanted) == len(_KNOWN)]


def _read_delimited(path: FilePath, delimiter: str) -> TaskLines:
    name = os.fspath(path)
    rows = delimited_rows(path, delimiter)
    header = next(rows, None)
    if header is None:
        raise FormatError(f"{name} holds no lines, only blank ones.")
    columns = _find_columns(header, f"{name}, first line")
    places = {role: header.index(column) for role, column in columns.items()}

    def where(row: int) -> str:
        return f"{name}, line {line_number(path, delimiter, row + 1)}"

    return _number(_batches(rows, len(header), places, where), where, name)


def _batches(
    rows: Iterator[list[str]], width: int, places: Mapping[str, int], where: Where
) -> Iterator[dict[str, Any]]:
    done = 0
    while batch := list(islice(rows, _BATCH)):
        start = done

        def place(row: int, start: int = start) -> str:
            return where(start + row)

        require_width(batch, width, place)
        cells = {role: [row[at] for row in batch] for role, at in places.items()}
        yield {**cells, "value": parse_numbers(cells["value"], "values", place)}
        done += len(batch)


def _of_records(records: list[Any], where: Where, source: str) -> TaskLines:
    if not records:
        raise FormatError(f"{source}: the table holds no lines.")
    odd = next((at for at, row in enumerate(records) if not isinstance(row, Mapping)), None)
    if odd is not None:
        raise FormatError(
            f"{where(odd)}: found {records[odd]!r:.60}; each line is a record with the keys "
            "system, task, query and value."
        )
    columns = _find_columns(list(records[0]), source)
    found = {}
    for role, name in columns.items():
        gap = next((at for at, row in enumerate(records) if row.get(name) is None), None)
        if gap is not None:
            raise FormatError(
                f"{where(gap)}: {name!r} is missing there, and the first line has it."
            )
        found[role] = [row[name] for row in records]
    return _of_columns(found, where, source)


def _of_columns(columns: Mapping[str, list[Any]], where: Where, source: str) -> TaskLines:
    for role in ("system", "task", "query"):
        _check_types(columns.get(role, []), role, where)
    values = plain_floats(columns["value"], "values", where)
    return _number(iter([{**columns, "value": values}]), where, source)


def _number(batches: Iterator[Mapping[str, Any]], where: Where, source: str) -> TaskLines:
    """Number the names, batch by batch, and check that every value is finite."""
    names: dict[str, dict[Any, int]] = {"system": {}, "task": {}, "query": {}}
    codes: dict[str, list[Ints]] = {role: [] for role in names}
    values: list[Floats] = []
    for batch in batches:
        values.append(batch["value"])
        for role, numbers in names.items():
            column = batch.get(role)
            codes[role].append(
                np.zeros(len(batch["value"]), np.int64)
                if column is None
                else np.array([numbers.setdefault(one, len(numbers)) for one in column], np.int64)
            )
    if not values:
        raise FormatError(f"{source} holds a header and no lines.")
    joined = {role: np.concatenate(found) for role, found in codes.items()}
    for role, numbers in names.items():
        _check_names(list(numbers), role, joined[role], where)
    found = np.concatenate(values)
    if not np.isfinite(found).all():
        at = int(np.argmin(np.isfinite(found)))
        raise ValueRangeError(f"{where(at)}: the value {found[at]} is not a finite number.")
    return TaskLines(
        list(map(str, names["system"])),
        list(map(str, names["task"])),
        list(names["query"]),
        joined["system"],
        joined["task"],
        joined["query"],
        found,
        where,
    )


def _check_types(names: Sequence[Any], role: str, where: Where) -> None:
    """Names are texts or whole numbers, and all of a column are of one kind."""
    kinds = set(map(type, names))
    if len(kinds) > 1 or not kinds <= {str, int}:
        first = type(names[0]) if type(names[0]) in (str, int) else str
        at = next(at for at, name in enumerate(names) if type(name) is not first)
        raise IdError(
            f"{where(at)}: the {role} {names[at]!r:.60} is of type {type(names[at]).__name__}. "
            "Names are texts, or whole numbers, and all of a column of one type."
        )


def _check_names(names: list[Any], role: str, codes: Ints, where: Where) -> None:
    """No name is empty or holds what no file can hold."""
    for number, name in enumerate(names):
        text = str(name)
        flaw = "is empty" if not text.strip() else flaw_of(text)
        if flaw:
            raise IdError(f"{where(int(np.argmax(codes == number)))}: the {role} {flaw}.")
