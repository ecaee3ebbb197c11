"""Lines from table files: CSV, TSV, JSON, JSONL and parquet; and groups of queries.

Ids in CSV and TSV are always text, so '007' stays '007'. JSON and parquet know the difference
between 7 and "7", and so do the ids read from them.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core.checks import name_few
from assay.core.id_hints import describe_near
from assay.core.ids import Ids
from assay.core.numbers import parse_whole
from assay.core.text import unguard_formula
from assay.errors import FormatError, MismatchError
from assay.io.frames import lines_of_frame, lines_of_mapping, lines_of_records
from assay.io.json_text import parse_json
from assay.io.lines import (
    VALUE_NAME,
    Columns,
    Kind,
    Lines,
    Where,
    check_values,
    find_columns,
    knows_columns,
    number_ids,
    pack_ids,
    subtopic_column,
)
from assay.io.parquet import read_columns
from assay.io.streams import FilePath, open_chunks, read_lines, read_text

__all__ = [
    "delimited_rows",
    "groups_path",
    "jsonl_records",
    "line_number",
    "numbered_rows",
    "parse_numbers",
    "read_delimited",
    "read_groups",
    "read_json",
    "read_jsonl",
    "read_parquet",
    "require_width",
]


_BATCH = 1 << 14
_ODD_IN_NUMBER = re.compile(r"[^0-9+\-.eE]")
# Tables without a header have the columns of a TREC file, or are refused.
_TREC = {
    "run": ("query", "Q0", "doc", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "doc", "grade"),
}


def read_delimited(path: FilePath, kind: Kind, *, delimiter: str) -> Lines:
    """Read a CSV or TSV file with a header, or with the columns of a TREC file and none."""
    name = os.fspath(path)
    rows = delimited_rows(path, delimiter)
    first = next(rows, None)
    if first is None:
        raise FormatError(f"{name} holds no lines, only blank ones.")
    has_header = knows_columns(first, kind) or len(first) != len(_TREC[kind])
    header = first if has_header else _TREC[kind]
    columns = find_columns(header, kind, f"{name}, first line")
    body = rows if has_header else chain([first], rows)

    def where(row: int) -> str:
        return f"{name}, line {line_number(path, delimiter, row + has_header)}"

    parts = _read_parts(body, header, columns, kind, where, guarded=delimiter == ",")
    if not parts:
        raise FormatError(f"{name} holds a header and no lines.")
    lines = _join_parts(parts, by_rank=columns.by_rank)
    subtopic = subtopic_column(header, kind, name)
    if subtopic is not None:
        at = list(header).index(subtopic)
        lines = lines._replace(subtopics=lambda: _cells(path, delimiter, at)[has_header:])
    return check_values(lines, kind, where)


def _cells(path: FilePath, delimiter: str, column: int) -> list[str]:
    return [row[column] for row in _rows(_reader(path, delimiter), os.fspath(path))]


def delimited_rows(path: FilePath, delimiter: str) -> Iterator[list[str]]:
    """The cells of each line that is not blank."""
    return _rows(_reader(path, delimiter), os.fspath(path))


def numbered_rows(path: FilePath, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not blank, and the line in which they end."""
    reader = _reader(path, delimiter)
    return ((reader.line_num, row) for row in _rows(reader, os.fspath(path)))


def _reader(path: FilePath, delimiter: str) -> Any:
    return csv.reader(read_lines(path), delimiter=delimiter, strict=True, skipinitialspace=True)


def _rows(reader: Any, name: str) -> Iterator[list[str]]:
    """Go through the rows that are not blank."""
    try:
        yield from filter(None, reader)
    except csv.Error as error:
        raise FormatError(
            f"{name}, line {reader.line_num}: {error}. Check the quotes and the line ends."
        ) from None


def line_number(path: FilePath, delimiter: str, row: int) -> int:
    """The line in which a row ends, for a message: quoted cells and blank lines count, too."""
    reader = _reader(path, delimiter)
    next(islice(_rows(reader, os.fspath(path)), row, None))
    number: int = reader.line_num
    return number


def _read_parts(
    rows: Iterator[list[str]],
    header: Sequence[str],
    columns: Columns,
    kind: Kind,
    where: Where,
    *,
    guarded: bool,
) -> list[tuple[Ids, Ids, Floats]]:
    query, doc, value = (list(header).index(name) for name in columns[:3])
    parts: list[tuple[Ids, Ids, Floats]] = []
    done = 0
    while batch := list(islice(rows, _BATCH)):
        place = _shift(where, done)
        require_width(batch, len(header), place)
        queries = pack_ids(_ids_in(batch, query, guarded), "query", place)
        docs = pack_ids(_ids_in(batch, doc, guarded), "doc", place)
        parts.append((queries, docs, parse_numbers([row[value] for row in batch], kind, place)))
        done += len(batch)
    return parts


def _ids_in(batch: list[list[str]], column: int, guarded: bool) -> list[str]:
    """Ids as they were before the guard against formulas that `write_run` puts into CSV."""
    ids = [row[column] for row in batch]
    return list(map(unguard_formula, ids)) if guarded and "'" in "".join(ids) else ids


def _shift(where: Where, done: int) -> Where:
    return lambda row: where(done + row)


def _join_parts(parts: list[tuple[Ids, Ids, Floats]], *, by_rank: bool) -> Lines:
    query_parts, doc_parts, value_parts = zip(*parts, strict=True)
    query_ids, queries = number_ids(Ids.concat(query_parts))
    doc_ids, docs = number_ids(Ids.concat(doc_parts))
    values = np.concatenate(value_parts)
    return Lines(query_ids, doc_ids, queries, docs, -values if by_rank else values)


def require_width(cells: Sequence[list[str]], width: int, where: Where) -> None:
    """Refuse lines with more or fewer cells than the header."""
    if set(map(len, cells)) != {width}:
        at = next(at for at, row in enumerate(cells) if len(row) != width)
        raise FormatError(
            f"{where(at)}: expected {width} columns, found {len(cells[at])}: "
            f"{repr(cells[at])[:80]}."
        )


def parse_numbers(texts: Sequence[str], kind: Kind, where: Where) -> Floats:
    """Decimal numbers only: Python would also take 'nan', '1_000' and digits of other scripts."""
    try:
        if _ODD_IN_NUMBER.search("".join(texts)) is None:
            return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        pass
    at = next(at for at, text in enumerate(texts) if not _is_number(text))
    raise FormatError(
        f"{where(at)}: the {VALUE_NAME[kind]} {texts[at][:60]!r} is not a finite number. "
        "Write it like 12, -0.5 or 1.5e-3."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return _ODD_IN_NUMBER.search(text) is None


def read_json(path: FilePath, kind: Kind) -> Lines:
    """Read {query: {doc: value}}, {query: [doc, …]}, or a list of records or tuples."""
    name = os.fspath(path)
    data = parse_json(read_text(path), name)
    if isinstance(data, dict):
        return lines_of_mapping(data, kind, name)
    if isinstance(data, list):
        return lines_of_records(data, kind, f"{name}, entry {{}}".format, name)
    raise FormatError(f"{name}: expected a JSON object or array, found {repr(data)[:40]}.")


def read_jsonl(path: FilePath, kind: Kind) -> Lines:
    """Read one JSON object, or (query, doc, value) array, a line."""
    records, where = jsonl_records(path)
    return lines_of_records(records, kind, where, os.fspath(path))


def jsonl_records(path: FilePath) -> tuple[list[Any], Where]:
    """The JSON value of each line that is not blank, and where each stands."""
    name = os.fspath(path)
    numbered = ((n, line) for n, line in enumerate(read_lines(path), 1) if not line.isspace())
    numbers: list[int] = []
    records: list[Any] = []
    while batch := list(islice(numbered, _BATCH)):
        records += _parse_lines([line for _, line in batch], batch, name)
        numbers += [number for number, _ in batch]
    return records, lambda row: f"{name}, line {numbers[row]}"


def _parse_lines(lines: list[str], numbered: list[tuple[int, str]], name: str) -> list[Any]:
    """Parse many lines as one array, which is quicker; if that fails, one by one."""
    with suppress(FormatError):
        records: list[Any] = parse_json(f"[{','.join(lines)}]", name)
        if len(records) == len(lines) and all(map(_is_whole, lines)):
            return records
    return [parse_json(line, f"{name}, line {number}") for number, line in numbered]


def _is_whole(line: str) -> bool:
    """No line may begin what the next one ends."""
    text = line.strip()
    return text[0] + text[-1] in ("{}", "[]")


def read_parquet(path: FilePath, kind: Kind) -> Lines:
    """Read the query, doc and score or grade columns of a parquet file."""
    name = os.fspath(path)

    def choose(names: Sequence[str]) -> list[str]:
        found = [*find_columns(names, kind, name)[:3], subtopic_column(names, kind, name)]
        return [one for one in found if one is not None]

    table = read_columns(path, choose)
    return lines_of_frame(table, kind, f"{name}, row {{}}".format, name)


def read_groups(source: str, queries: Ids) -> tuple[str, dict[str | int, str]]:
    """The column's name and {query: group}, from `FILE` or `FILE:COLUMN`.

    A first line whose first cell is none of the queries is the header. COLUMN is a name from the
    header or the number of a column; without it the second column is taken.
    """
    path, column = _split_source(source)
    rows = list(_group_rows(path))
    known: dict[str, str | int] = {str(query): query for query in queries}
    header = rows.pop(0)[1] if rows[0][1][0] not in known else None
    place = _group_column(column, header, path)
    name = column if header is None or column else header[place]
    groups: dict[str | int, str] = {}
    strangers: list[str] = []
    for line, cells in rows:
        if len(cells) <= place:
            raise FormatError(
                f"{path}, line {line}: found {len(cells)} columns, the group is in column "
                f"{place + 1}. Separate columns by tabs (or by commas in a .csv file)."
            )
        query = known.get(cells[0])
        if query is None:
            strangers.append(cells[0])
            continue  # a group of a query that nobody judged changes nothing
        if groups.setdefault(query, cells[place]) != cells[place]:
            raise FormatError(
                f"{path}, line {line}: query {cells[0]!r} is already in group "
                f"{groups[query]!r}, found {cells[place]!r}. A query belongs to one group."
            )
    absent = [query for query in known if known[query] not in groups]
    near = describe_near(absent, strangers)
    if near:
        raise MismatchError(f"{path} has no group for {name_few(absent)}.{near} Write them alike.")
    return name or "group", groups


def groups_path(source: str) -> str:
    """The file in `FILE` or `FILE:COLUMN`."""
    return _split_source(source)[0]


def _split_source(source: str) -> tuple[str, str]:
    path, colon, column = source.rpartition(":")
    return (source, "") if not colon or os.path.exists(source) else (path, column)


def _group_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is neither blank nor a comment."""
    try:
        text = b"".join(open_chunks(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text ({error.reason}). Convert it.") from None
    delimiter = "\t" if "\t" in text[:10_000] else ","
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    found = False
    try:
        for cells in reader:
            if cells and cells[0].strip() and not cells[0].startswith("#"):
                found = True
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise FormatError(f"{path}, line {reader.line_num}: {error}.") from None
    if not found:
        raise FormatError(f"{path} holds no lines. Each needs a query and its group.")


def _group_column(column: str, header: list[str] | None, path: str) -> int:
    if not column and header is not None and len(header) < 2:
        raise FormatError(
            f"{path}: the first line has one column, {header[0][:60]!r}; each line needs a query "
            "and its group. Separate columns by tabs, or by commas."
        )
    if not column:
        return 1
    if header is not None and column in header:
        return header.index(column)
    number = parse_whole(column) or 0
    if number > 0:
        return number - 1
    have = ", ".join(header) if header else "no header"
    raise FormatError(f"{path} has no column {column!r}; it has: {have}.")
