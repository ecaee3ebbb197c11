"""Dictionaries and tuples of Python as columns: the twins of native/objects."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Bytes, Floats, Ints, Ints32, offsets_of
from assay.native.tie_order import rank_order
from assay.native.twins.trec import check_codes, number_texts, require, to_float32

if TYPE_CHECKING:
    from assay.native.signatures import JoinedRows

_EXACT: Final = 2**53  # from here on float64 does not hold every whole number


def number_rows(
    rows: list[Any], number_types: tuple[type, ...], truths: bool
) -> tuple[Bytes, Ints, Ints, Ints32, Floats] | None:
    """Give the keys of {doc: value} numbers; see `signatures.Kernels.number_rows`."""
    if not set(map(type, rows)) <= {dict}:
        return None
    docs = number_texts(list(chain.from_iterable(rows)))
    values = _numbers(chain.from_iterable(row.values() for row in rows), number_types, truths)
    if docs is None or values is None:
        return None
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return docs[0], docs[1], offsets, docs[2], values


def number_tuples(
    rows: list[Any], width: int, number_types: tuple[type, ...], truths: bool
) -> tuple[Bytes, Ints, Bytes, Ints, Ints32, Ints32, Floats] | None:
    """Give (query, doc, value) tuples numbers; see `signatures.Kernels.number_tuples`."""
    require(width in (2, 3), "width must be 2 or 3")
    if any(type(row) is not tuple or len(row) != width for row in rows):
        return None
    queries, docs = (number_texts([row[at] for row in rows]) for at in (0, 1))
    if width == 2:
        values: Floats | None = np.ones(len(rows))
    else:
        values = _numbers((row[2] for row in rows), number_types, truths)
    if queries is None or docs is None or values is None:
        return None
    return queries[0], queries[1], docs[0], docs[1], queries[2], docs[2], values


def _numbers(values: Iterable[Any], number_types: tuple[type, ...], truths: bool) -> Floats | None:
    listed = list(values)
    kinds = set(map(type, listed))
    if not kinds <= {float, int, *number_types, *([bool] if truths else [])}:
        return None
    if kinds != {float} and not all(map(_is_exact, listed)):
        return None
    numbers = np.fromiter(listed, np.float64, len(listed))
    return numbers if np.isfinite(numbers).all() else None


def _is_exact(value: Any) -> bool:
    """Tell whether a number is a float, or one that float64 can tell from its neighbours."""
    number = value if isinstance(value, int) else float(value)
    return type(value) is float or -_EXACT < number < _EXACT


def join_rows(
    rows: list[Any],
    judged: list[Any],
    judged_row: Ints,
    number_types: tuple[type, ...],
    ties: int,
    float32: bool,
) -> JoinedRows | None:
    """Find docs of {doc: grade} in {doc: score}; see `signatures.Kernels.join_rows`."""
    require(ties in (-1, 0, 1), "ties must be -1, 0 or 1")
    require(len(judged_row) == len(rows), "each row needs the number of its judged row")
    check_codes(judged_row, -1, len(judged), "judged row out of range")
    judgments, run = number_rows(judged, number_types, True), number_rows(rows, number_types, False)
    if judgments is None or run is None:
        return None
    values = to_float32(run[4]) if float32 else run[4]
    if not np.isfinite(values).all():
        return None
    scored = [values[begin:end].tolist() for begin, end in pairwise(run[2].tolist())]
    lines_of_rows = [
        _hits_of_row(list(row), scores, judged[judged_of] if judged_of >= 0 else {}, ties)
        for row, scores, judged_of in zip(rows, scored, judged_row.tolist(), strict=True)
    ]
    table = np.array([line for lines in lines_of_rows for line in lines], np.float64).reshape(-1, 5)
    rank, lo, hi = (np.ascontiguousarray(column, np.int64) for column in table.T[:3])
    hits = offsets_of(list(map(len, lines_of_rows))), rank, lo, hi, table[:, 3].copy()
    judged_docs, ranked = set(chain.from_iterable(judged)), set(chain.from_iterable(rows))
    seen = np.array([doc in ranked for doc in dict.fromkeys(chain.from_iterable(judged))], np.uint8)
    constant = all(len(set(row)) <= 1 for row in scored) and any(len(row) > 1 for row in scored)
    return judgments, hits, table[:, 4].copy(), seen, ranked <= judged_docs, constant


def join_tuples(
    rows: list[Any],
    judged: list[Any],
    width: int,
    number_types: tuple[type, ...],
    ties: int,
    float32: bool,
) -> tuple[tuple[Bytes, Ints], tuple[Bytes, Ints], Ints, JoinedRows] | None:
    """Find docs of judged tuples in a run of tuples; see `signatures.Kernels.join_tuples`."""
    sides = (
        number_tuples(rows, 3, number_types, False),
        number_tuples(judged, width, number_types, True),
    )
    run, judgments = (
        None if read is None else _grouped(lines, read)
        for lines, read in zip((rows, judged), sides, strict=True)
    )
    require(ties in (-1, 0, 1), "ties must be -1, 0 or 1")
    if sides[0] is None or sides[1] is None or run is None or judgments is None:
        return None
    row_of = {query: at for at, query in enumerate(judgments)}
    to_judged = np.array([row_of.get(query, -1) for query in run], np.int64)
    joined = join_rows(
        list(run.values()), list(judgments.values()), to_judged, number_types, ties, float32
    )
    lengths = np.fromiter(map(len, run.values()), np.int64, len(run))
    return None if joined is None else (sides[0][:2], sides[1][:2], lengths, joined)


def _grouped(lines: list[Any], read: tuple[Any, ...]) -> dict[str, dict[str, Any]] | None:
    """Return {query: {doc: value}}; None if a query is split or has a doc twice."""
    groups: dict[str, dict[str, Any]] = {}
    for line in lines:
        groups.setdefault(line[0], {})[line[1]] = line[2] if len(line) == 3 else 1.0
    together = bool((np.diff(read[4]) >= 0).all())
    return groups if together and sum(map(len, groups.values())) == len(lines) else None


def _hits_of_row(
    docs: list[str], scores: list[float], grades: dict[str, Any], ties: int
) -> list[tuple[int, int, int, float, float]]:
    """Return rank, first and last tied rank, grade and score of the judged docs of a row."""
    codes = _tie_numbers(docs, ties)
    ranked = rank_order(np.array(scores), tiebreak=codes, row=np.zeros(len(docs), np.int64))
    ordered = sorted(scores, reverse=True)
    lines = []
    for rank, place in enumerate(ranked.tolist(), 1):
        if docs[place] in grades:
            first = ordered.index(scores[place]) + 1
            last = first + ordered.count(scores[place]) - 1
            lines.append((rank, first, last, float(grades[docs[place]]), scores[place]))
    return lines


def _tie_numbers(docs: list[str], ties: int) -> Ints:
    """Return numbers that order docs of equal score: by UTF-8 bytes, or as they stand."""
    if ties == 0:
        return np.arange(len(docs), dtype=np.int64)
    place = {doc: at for at, doc in enumerate(sorted(docs, key=str.encode, reverse=ties < 0))}
    return np.array([place[doc] for doc in docs], np.int64)
