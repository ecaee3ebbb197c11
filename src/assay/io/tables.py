"""Runs and qrels from table files: CSV, TSV, JSON, JSONL and parquet; and groups of queries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.core.text import unguard_formula
from assay.errors import FormatError, MismatchError
from assay.io.columns import (
    Dialect,
    choose_column,
    find_delimiter,
    numbered_rows,
    open_delimited,
    parse_numbers,
    read_columns,
    read_records,
    shift,
    split_column,
)
from assay.io.lines import (
    VALUE_NAME,
    Kind,
    Lines,
    check_values,
    find_columns,
    knows_columns,
    lines_of_frame,
    lines_of_mapping,
    lines_of_records,
    number_ids,
    pack_ids,
    subtopic_column,
)
from assay.io.streams import FilePath

# Tables without a header have the columns of a TREC file, or are refused.
_TREC: Final = {
    "run": ("query", "Q0", "doc", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "doc", "grade"),
}


def read_delimited(path: FilePath, kind: Kind, *, delimiter: str) -> Lines:
    """Read a CSV or TSV file with a header, or with the columns of a TREC file and none."""

    def unnamed(first: list[str]) -> Sequence[str] | None:
        has_names = knows_columns(first, kind) or len(first) != len(_TREC[kind])
        return None if has_names else _TREC[kind]

    table = open_delimited(path, Dialect(delimiter), unnamed)
    columns = find_columns(table.names, kind, table.head)
    parts: list[tuple[Ids, Ids, Floats]] = []
    n_lines = 0
    for queries, docs, values in table.batches(columns[:3]):
        where = shift(table.where, n_lines)
        query_ids, doc_ids = (
            pack_ids(_unguard_ids(ids) if delimiter == "," else ids, what, where)
            for ids, what in ((queries, "query"), (docs, "doc"))
        )
        parts.append((query_ids, doc_ids, parse_numbers(values, VALUE_NAME[kind], where)))
        n_lines += len(values)
    lines = _join_parts(parts, by_rank=columns.by_rank)
    subtopic = subtopic_column(table.names, kind, table.source)
    if subtopic is not None:
        lines = lines._replace(subtopics=lambda: table.columns([subtopic])[0])
    return check_values(lines, kind, table.where)


def _unguard_ids(ids: list[str]) -> list[str]:
    """Return ids as they were before the guard against formulas that `write_run` puts into CSV."""
    return list(map(unguard_formula, ids)) if "'" in "".join(ids) else ids


def _join_parts(parts: list[tuple[Ids, Ids, Floats]], *, by_rank: bool) -> Lines:
    query_parts, doc_parts, value_parts = zip(*parts, strict=True)
    query_ids, queries = number_ids(Ids.concat(query_parts))
    doc_ids, docs = number_ids(Ids.concat(doc_parts))
    values = np.concatenate(value_parts)
    return Lines(query_ids, doc_ids, queries, docs, -values if by_rank else values)


def read_json(path: FilePath, kind: Kind, *, format: str = "json") -> Lines:
    """Read {query: {doc: value}}, {query: [doc, …]}, or records or tuples, one a line in JSONL."""
    name = os.fspath(path)
    data, where = read_records(path, format)
    if isinstance(data, dict):
        return lines_of_mapping(data, kind, name)
    if isinstance(data, list):
        return lines_of_records(data, kind, where, name)
    raise FormatError(f"{name}: expected a JSON object or array, found {repr(data)[:40]}.")


def read_parquet(path: FilePath, kind: Kind) -> Lines:
    """Read the query, doc and score or grade columns of a parquet file."""
    name = os.fspath(path)

    def choose(names: Sequence[str]) -> list[str]:
        subtopic = subtopic_column(names, kind, name)
        return [*find_columns(names, kind, name)[:3], *([subtopic] if subtopic else [])]

    table = read_columns(path, choose)
    return lines_of_frame(table, kind, f"{name}, row {{}}".format, name)


def read_groups(source: str, queries: Ids) -> tuple[str, dict[str | int, str]]:
    """Read the column's name and {query: group} from `FILE` or `FILE:COLUMN`.

    A first line whose first cell is none of the queries is the header. COLUMN is a name from the
    header or the number of a column; without it the second column is taken.
    """
    path, column = split_column(source)
    layout = Dialect(find_delimiter(path, 100), strict=False, skip_spaces=False)
    rows = [
        (line, [cell.strip() for cell in cells])
        for line, cells in numbered_rows(path, layout=layout)
        if cells[0].strip() and not cells[0].startswith("#")
    ]
    if not rows:
        raise FormatError(f"{path} holds no lines. Each needs a query and its group.")
    query_of: dict[str, str | int] = {str(query): query for query in queries}
    header = rows.pop(0)[1] if rows[0][1][0] not in query_of else None
    if not column and header is not None and len(header) < 2:
        raise FormatError(
            f"{path}: the first line has one column, {header[0][:60]!r}; each line needs a query "
            "and its group. Separate columns by tabs, or by commas."
        )
    place = choose_column(header, column, path) if column else 1
    name = column if header is None or column else header[place]
    groups: dict[str | int, str] = {}
    unknown: list[str] = []
    for line, cells in rows:
        if len(cells) <= place:
            raise FormatError(
                f"{path}, line {line}: found {len(cells)} columns, the group is in column "
                f"{place + 1}. Separate columns by tabs (or by commas in a .csv file)."
            )
        query = query_of.get(cells[0])
        if query is None:
            unknown.append(cells[0])
            continue  # a group of a query that nobody judged changes nothing
        if groups.setdefault(query, cells[place]) != cells[place]:
            raise FormatError(
                f"{path}, line {line}: query {cells[0]!r} is already in group "
                f"{groups[query]!r}, found {cells[place]!r}. A query belongs to one group."
            )
    absent = [query for query in query_of if query_of[query] not in groups]
    near = describe_near(absent, unknown)
    if near:
        raise MismatchError(f"{path} has no group for {name_few(absent)}.{near} Write them alike.")
    if unknown and not groups:
        raise MismatchError(
            f"None of the {len(query_of):,} queries is in {path}: not {name_few(absent, 3)}; it "
            f"has {name_few(unknown, 3)}. Give a file with groups of these queries."
        )
    return name or "group", groups


def groups_path(source: str) -> str:
    """Return the file of `FILE` or `FILE:COLUMN`."""
    return split_column(source)[0]
