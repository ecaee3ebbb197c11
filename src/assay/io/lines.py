"""Lines: what every reader hands over, one (query, doc, value) per line with ids as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.arrays import Floats, Ints32
from assay.core.ids import Ids
from assay.errors import FormatError, IdError, InputError, MismatchError, ValueRangeError
from assay.io.columns import Where, pick_column, require_columns
from assay.native import kernels

Kind = Literal["run", "qrels", "values"]
VALUE_NAME = {"run": "score", "qrels": "grade", "values": "value"}


class Lines(NamedTuple):
    """One (query number, doc number, value) per line; ids are numbered by first appearance.

    `subtopics` reads the column that tells apart judgments of one document, where there is one.
    """

    query_ids: Ids
    doc_ids: Ids
    queries: Ints32
    docs: Ints32
    values: Floats
    name: str = ""
    subtopics: Callable[[], Sequence[Any]] | None = None


def pack_ids(values: Sequence[Any], what: str, where: Where) -> Ids:
    """Check and pack ids; an error names the place."""
    try:
        return Ids.of(values, what)
    except IdError as error:
        raise _locate_error(values, what, where, error) from None


def number_column(values: Sequence[Any], what: str, where: Where) -> tuple[Ids, Ints32]:
    """Return `number_ids` of ids that are still to be packed; clean text in one pass."""
    listed = values if isinstance(values, list) else list(values)
    numbered = kernels().number_texts(listed)
    if numbered is None:
        return number_ids(pack_ids(listed, what, where))
    return Ids.from_utf8(numbered[0], numbered[1]), numbered[2]


def number_ids(ids: Ids) -> tuple[Ids, Ints32]:
    """Return the distinct ids in order of first appearance, and the number of each.

    >>> distinct, numbers = number_ids(Ids.of(["b", "a", "b"]))
    >>> distinct, numbers.tolist()
    (Ids(2 text: 'b', 'a'), [0, 1, 0])
    """
    first = _first_places(ids)
    is_first = first == np.arange(len(ids))
    number = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return ids.take(np.flatnonzero(is_first)), number[first]


def _first_places(ids: Ids) -> npt.NDArray[np.int64]:
    if ids.kind == "text":
        return kernels().match_ids(*ids.utf8, *ids.utf8)
    _, first, inverse = np.unique(ids.numbers, return_index=True, return_inverse=True)
    return first[inverse]


def _locate_error(values: Sequence[Any], what: str, where: Where, error: IdError) -> IdError:
    """The same fault, said with the place of the first value that has it."""
    for row, value in enumerate(values):
        try:
            Ids.of([value], what)
        except IdError as fault:
            return IdError(f"{where(row)}: {str(fault).replace(' in row 0', '')}")
    return error


def plain_floats(values: Sequence[Any], kind: Kind, where: Where) -> Floats:
    """Python numbers as float64; text, None and whole numbers that lose digits are refused."""
    fine = (int, float, np.integer, np.floating)
    allowed = fine if kind == "run" else (*fine, np.bool_)  # a bool is an int, too
    kinds = set(map(type, values))
    odd = {each for each in kinds if not issubclass(each, allowed)}
    odd |= {bool} & kinds if kind == "run" else set()
    if odd:
        row = next(row for row, value in enumerate(values) if type(value) in odd)
        raise _not_a_number(values[row], kind, where(row))
    if any(issubclass(each, int | np.integer) for each in kinds - {bool}):
        _refuse_lost_digits(values, kind, where)
    return np.fromiter(values, np.float64, len(values))


def _not_a_number(value: Any, kind: Kind, place: str) -> ValueRangeError:
    name = VALUE_NAME[kind]
    if value is None:
        return ValueRangeError(f"{place}: the {name} is missing. Give a number.")
    return ValueRangeError(
        f"{place}: the {name} {_short(value)} is of type {type(value).__name__}, not a number. "
        "Convert it first."
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _refuse_lost_digits(values: Sequence[Any], kind: Kind, where: Where) -> None:
    limit = 2**53
    for row, value in enumerate(values):
        if not -limit <= value <= limit and isinstance(value, int | np.integer):
            raise _lost_digits_error(int(value), kind, where(row))


def _lost_digits_error(value: int, kind: Kind, place: str) -> ValueRangeError:
    digits = str(value) if abs(value) < 10**30 else f"of {value.bit_length()} bits"
    return ValueRangeError(
        f"{place}: the {VALUE_NAME[kind]} {digits} is a whole number beyond 2^53, which float64 "
        "cannot tell from its neighbours. Scale or shift the values."
    )


def exact_floats(values: npt.NDArray[Any], kind: Kind, where: Where) -> Floats:
    """Return an array of numbers as float64; whole numbers that would lose digits are refused."""
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        limit = 2**53
        bad = (values > limit) | ((values < -limit) if values.dtype.kind == "i" else False)
        if bad.any():
            row = int(np.argmax(bad))
            raise _lost_digits_error(int(values[row]), kind, where(row))
    return values.astype(np.float64)


def check_values(lines: Lines, kind: Kind, where: Where) -> Lines:
    """Return the lines, if there are any queries and every value is finite."""
    if not len(lines.query_ids):
        raise InputError(f"The {kind} holds no queries.")
    bad = ~np.isfinite(lines.values)
    if bad.any():
        row = int(np.argmax(bad))
        query, doc = lines.query_ids[int(lines.queries[row])], lines.doc_ids[int(lines.docs[row])]
        name, value = VALUE_NAME[kind], float(lines.values[row])
        fault = "missing or not a number" if math.isnan(value) else "not finite"
        raise ValueRangeError(
            f"{where(row)}: the {name} of doc {doc!r} for query {query!r} is {value}, {fault}. "
            f"Remove the line or fix the {name}."
        )
    return lines


def refuse_subtopics(lines: Lines) -> None:
    """Refuse judgments of one document for several subtopics of its query: a pair has one grade."""
    first: dict[tuple[int, int], Any] = {}
    column = [] if lines.subtopics is None else lines.subtopics()
    for query, doc, subtopic in zip(
        lines.queries.tolist(), lines.docs.tolist(), column, strict=False
    ):
        before = first.setdefault((query, doc), subtopic)
        if str(before) != str(subtopic):
            raise MismatchError(
                f"Document {lines.doc_ids[doc]!r} of query {lines.query_ids[query]!r} is judged "
                f"for the subtopics {before!r} and {subtopic!r}, and here a document has one "
                "grade. Keep one line a document, such as that with the highest grade, or the "
                "lines of one subtopic."
            )


class Columns(NamedTuple):
    """Names of the columns that matter. With `by_rank` the value is a rank: smaller is better."""

    query: str
    doc: str
    value: str
    by_rank: bool = False


def find_columns(names: Sequence[str], kind: Kind, source: str) -> Columns:
    """Find query, doc and score or grade among the names; `source` is for the message.

    A run without scores may have ranks instead.

    >>> find_columns(["query-id", "corpus-id", "score"], "qrels", "test.tsv")
    Columns(query='query-id', doc='corpus-id', value='score', by_rank=False)
    """
    values = {"score": "score (or rank)"} if kind == "run" else {"grade": "grade"}
    by_rank = kind == "run" and pick_column(names, "score", source) is None
    if by_rank and pick_column(names, "rank", source) is not None:
        values = {"rank": "rank"}
    advice = (
        "Name the columns so, for example query_id, doc_id and "
        f"{'score' if kind == 'run' else 'relevance'}."
    )
    roles = {"query": "query", "doc": "doc", **values}
    query, doc, value = require_columns(names, roles, source, advice)
    return Columns(query, doc, value, by_rank)


def subtopic_column(names: Sequence[str], kind: Kind, source: str) -> str | None:
    """Return the column of qrels that may tell apart judgments of one document, if there is one."""
    return pick_column(names, "subtopic", source) if kind == "qrels" else None


def knows_columns(names: Sequence[str], kind: Kind) -> bool:
    """Tell whether the names say which column is which."""
    try:
        find_columns(names, kind, "")
    except FormatError:
        return False
    return True
