"""Lines from plain Python data: dictionaries, tuples and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from assay.errors import FormatError, InputError, UsageError
from assay.io.lines import (
    VALUE_NAME,
    Kind,
    Lines,
    Where,
    check_values,
    find_columns,
    number_ids,
    pack_ids,
    plain_floats,
)

__all__ = ["lines_of_mapping", "lines_of_records"]


def lines_of_mapping(data: Mapping[Any, Any], kind: Kind, source: str = "") -> Lines:
    """From {query: {doc: value}}, or {query: [doc, …]}.

    A list of a run is its ranking, best first, without ties; in qrels it holds the relevant docs.

    >>> lines_of_mapping({"q": ["b", "a"]}, "run").values.tolist()
    [0.0, -1.0]
    """
    rows = list(data.values())
    _check_rows(data, rows, kind, source)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(sizes)
    names = list(data)
    prefix = f"{source}, " if source else ""

    def where(line: int) -> str:
        return f"{prefix}query {names[int(np.searchsorted(ends, line, side='right'))]!r}"

    doc_ids, docs = number_ids(pack_ids(list(chain.from_iterable(rows)), "doc", where))
    query_ids = pack_ids(names, "query", f"{prefix}key {{}}".format)
    queries = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
    if rows and isinstance(rows[0], Mapping):
        every_value = list(chain.from_iterable(row.values() for row in rows))
        values = plain_floats(every_value, kind, where)
    elif kind == "run":
        values = np.repeat(ends - sizes, sizes).astype(np.float64) - np.arange(len(queries))
    else:
        values = np.ones(len(queries))
    lines = Lines(query_ids, doc_ids, queries, docs, values)
    return check_values(lines, kind, where)


def _check_rows(data: Mapping[Any, Any], rows: list[Any], kind: Kind, source: str) -> None:
    """All rows are mappings, or all are collections of docs (with an order, for a run)."""
    ordered = (list, tuple, np.ndarray)
    collections = ordered if kind == "run" else (*ordered, set, frozenset)
    allowed: tuple[type, ...] = (Mapping,) if rows and isinstance(rows[0], Mapping) else collections
    odd = {one for one in set(map(type, rows)) if not issubclass(one, allowed)}
    if odd:
        query, row = next(item for item in data.items() if type(item[1]) in odd)
        raise UsageError(
            f"{source + ': ' if source else ''}the entry of query {query!r} in the {kind} is of "
            f"type {type(row).__name__}. Give {{query: {{doc: {VALUE_NAME[kind]}}}}} "
            f"or {{query: [doc, …]}}, the same for all queries{_set_hint(row, kind)}."
        )


def _set_hint(row: Any, kind: Kind) -> str:
    unordered = kind == "run" and isinstance(row, set | frozenset)
    return "; a set has no order, so it is no ranking" if unordered else ""


def lines_of_records(records: Iterable[Any], kind: Kind, where: Where, source: str) -> Lines:
    """From tuples (query, doc, value), named tuples or mappings with columns of known names.

    In qrels a pair (query, doc) means grade 1.

    >>> lines_of_records([("q", "a", 0.5)], "run", "row {}".format, "tuples").values.tolist()
    [0.5]
    """
    rows = _listed(records, kind)
    if not rows:
        raise InputError(f"{source}: the {kind} holds no lines.")
    first = rows[0]
    if isinstance(first, Mapping):
        columns, by_rank = _of_mappings(rows, kind, where, source)
    else:
        columns, by_rank = _of_tuples(rows, kind, where, source)
    query_ids, queries = number_ids(pack_ids(columns[0], "query", where))
    doc_ids, docs = number_ids(pack_ids(columns[1], "doc", where))
    values = plain_floats(columns[2], kind, where)
    lines = Lines(query_ids, doc_ids, queries, docs, -values if by_rank else values)
    return check_values(lines, kind, where)


def _listed(records: Iterable[Any], kind: Kind) -> list[Any]:
    if isinstance(records, str | bytes | np.ndarray) or not isinstance(records, Iterable):
        raise UsageError(
            f"Cannot read a {kind} from {type(records).__name__}. Give a path, a dict "
            f"{{query: {{doc: {VALUE_NAME[kind]}}}}}, (query, doc, {VALUE_NAME[kind]}) tuples or a "
            f"data frame; for arrays use {_ARRAY_BUILDERS[kind]}."
        )
    return list(records)


_ARRAY_BUILDERS = {
    "run": "Ranking.from_scores or Ranking.from_arrays",
    "qrels": "Judgments.from_labels or Judgments.from_targets",
}


def _of_mappings(
    rows: list[Any], kind: Kind, where: Where, source: str
) -> tuple[list[list[Any]], bool]:
    _require(rows, Mapping, where)
    wanted = find_columns(list(rows[0]), kind, source)
    return _picked(rows, wanted[:3], where), wanted.by_rank


def _of_tuples(
    rows: list[Any], kind: Kind, where: Where, source: str
) -> tuple[list[list[Any]], bool]:
    _require(rows, (tuple, list), where)
    fields = getattr(rows[0], "_fields", None)
    if fields is not None:
        wanted = find_columns(fields, kind, source)
        return _picked(rows, [fields.index(name) for name in wanted[:3]], where), wanted.by_rank
    width = _width(rows, kind, where)
    columns = _picked(rows, range(width), where)
    return (columns if width == 3 else [*columns, [1] * len(rows)]), False


def _require(rows: list[Any], kind_of_row: Any, where: Where) -> None:
    odd = {one for one in set(map(type, rows)) if not issubclass(one, kind_of_row)}
    if odd:
        at = next(at for at, row in enumerate(rows) if type(row) in odd)
        raise FormatError(
            f"{where(at)}: found {repr(rows[at])[:60]} of type {type(rows[at]).__name__}; "
            "each line must be a (query, doc, value) tuple, or each a mapping."
        )


def _width(rows: list[Any], kind: Kind, where: Where) -> int:
    width = len(rows[0]) if kind == "qrels" and len(rows[0]) == 2 else 3
    if set(map(len, rows)) != {width}:
        at = next(at for at, row in enumerate(rows) if len(row) != width)
        raise FormatError(
            f"{where(at)}: expected {width} elements (query, doc, {VALUE_NAME[kind]}), "
            f"found {len(rows[at])}: {repr(rows[at])[:80]}."
        )
    return width


def _picked(rows: list[Any], keys: Iterable[Any], where: Where) -> list[list[Any]]:
    return [_column(rows, key, where) for key in keys]


def _column(rows: list[Any], key: Any, where: Where) -> list[Any]:
    try:
        return [row[key] for row in rows]
    except (KeyError, IndexError):
        at = next(at for at, row in enumerate(rows) if not _has(row, key))
        raise FormatError(
            f"{where(at)}: a column of the first line is absent here: {repr(rows[at])[:80]}."
        ) from None


def _has(row: Any, key: Any) -> bool:
    return key in row if isinstance(row, Mapping) else key < len(row)
