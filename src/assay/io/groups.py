"""Groups of queries from a file: a query and its group in each line, TSV or CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator

from assay.core.ids import Ids
from assay.errors import FormatError
from assay.io.streams import open_chunks

__all__ = ["path_of", "read_groups"]


def read_groups(source: str, queries: Ids) -> tuple[str, dict[str | int, str]]:
    """The column's name and {query: group}, from `FILE` or `FILE:COLUMN`.

    A first line whose first cell is none of the queries is the header. COLUMN is a name from the
    header or the number of a column; without it the second column is taken.
    """
    path, column = _split(source)
    rows = list(_rows(path))
    known: dict[str, str | int] = {str(query): query for query in queries}
    header = rows.pop(0)[1] if rows[0][1][0] not in known else None
    place = _place(column, header, path)
    name = column if header is None or column else header[place]
    groups: dict[str | int, str] = {}
    for line, cells in rows:
        if len(cells) <= place:
            raise FormatError(
                f"{path}, line {line}: found {len(cells)} columns, the group is in column "
                f"{place + 1}. Separate columns by tabs (or by commas in a .csv file)."
            )
        query = known.get(cells[0])
        if query is None:
            continue  # a group of a query that nobody judged changes nothing
        if groups.setdefault(query, cells[place]) != cells[place]:
            raise FormatError(
                f"{path}, line {line}: query {cells[0]!r} is already in group "
                f"{groups[query]!r}, found {cells[place]!r}. A query belongs to one group."
            )
    return name or "group", groups


def path_of(source: str) -> str:
    """The file in `FILE` or `FILE:COLUMN`."""
    return _split(source)[0]


def _split(source: str) -> tuple[str, str]:
    path, colon, column = source.rpartition(":")
    return (source, "") if not colon or os.path.exists(source) else (path, column)


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
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


def _place(column: str, header: list[str] | None, path: str) -> int:
    if not column and header is not None and len(header) < 2:
        raise FormatError(
            f"{path}: the first line has one column, {header[0][:60]!r}; each line needs a query "
            "and its group. Separate columns by tabs, or by commas."
        )
    if not column:
        return 1
    if header is not None and column in header:
        return header.index(column)
    if column.isdecimal() and int(column) > 0:
        return int(column) - 1
    have = ", ".join(header) if header else "no header"
    raise FormatError(f"{path} has no column {column!r}; it has: {have}.")
