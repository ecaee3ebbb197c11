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
from assay.native import kernels

__all__ = [
    "Columns",
    "Kind",
    "Lines",
    "Where",
    "check_values",
    "exact_floats",
    "find_columns",
    "knows_columns",
    "number_column",
    "number_ids",
    "pack_ids",
    "pick_column",
    "plain_floats",
    "refuse_subtopics",
    "subtopic_column",
]


Kind = Literal["run", "qrels", "values"]
# Says where a line stands, for messages: "run.csv, line 7" or "query 'q1'".
Where = Callable[[int], str]

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
    """`number_ids` of ids that are still to be packed; clean text in one pass."""
    listed = values if isinstance(values, list) else list(values)
    found = kernels().number_texts(listed)
    if found is None:
        return number_ids(pack_ids(listed, what, where))
    return Ids.from_utf8(found[0], found[1]), found[2]


def number_ids(ids: Ids) -> tuple[Ids, Ints32]:
    """The distinct ids in order of first appearance, and the number of each.

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
    odd = {one for one in kinds if not issubclass(one, allowed)}
    odd |= {bool} & kinds if kind == "run" else set()
    if odd:
        row = next(row for row, value in enumerate(values) if type(value) in odd)
        raise _not_a_number(values[row], kind, where(row))
    if any(issubclass(one, int | np.integer) for one in kinds - {bool}):
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
    shown = str(value) if abs(value) < 10**30 else f"of {value.bit_length()} bits"
    return ValueRangeError(
        f"{place}: the {VALUE_NAME[kind]} {shown} is a whole number beyond 2^53, which float64 "
        "cannot tell from its neighbours. Scale or shift the values."
    )


def exact_floats(values: npt.NDArray[Any], kind: Kind, where: Where) -> Floats:
    """An array of numbers as float64; whole numbers that would lose digits are refused."""
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        limit = 2**53
        bad = (values > limit) | ((values < -limit) if values.dtype.kind == "i" else False)
        if bad.any():
            row = int(np.argmax(bad))
            raise _lost_digits_error(int(values[row]), kind, where(row))
    return values.astype(np.float64)


def check_values(lines: Lines, kind: Kind, where: Where) -> Lines:
    """The lines, if there are any queries and every value is finite."""
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
    for query, doc, found in zip(lines.queries.tolist(), lines.docs.tolist(), column, strict=False):
        before = first.setdefault((query, doc), found)
        if str(before) != str(found):
            raise MismatchError(
                f"Document {lines.doc_ids[doc]!r} of query {lines.query_ids[query]!r} is judged "
                f"for the subtopics {before!r} and {found!r}, and here a document has one grade. "
                "Keep one line a document, such as that with the highest grade, or the lines of "
                "one subtopic."
            )


# Case, '-', '_', '.' and spaces are ignored. Earlier names win: a table with `qid` and `query`
# has ids in the first and texts in the second.
_QUERY = ("queryid", "qid", "topicid", "topicno", "topic", "query", "q")


_DOC = ("docid", "docno", "documentid", "corpusid", "passageid", "pid", "did", "document", "doc")


_SCORE = ("score", "similarity", "sim")


_GRADE = ("grade", "relevance", "rel", "label", "judgment", "judgement", "score")


_RANK = ("rank",)


_SUBTOPIC = ("subtopicid", "subtopic", "intent", "aspect", "facet", "iteration", "iter")


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
    query = pick_column(names, _QUERY, source)
    doc = pick_column(names, _DOC, source)
    value = pick_column(names, _SCORE if kind == "run" else _GRADE, source)
    rank = pick_column(names, _RANK, source) if kind == "run" and value is None else None
    found = value if value is not None else rank
    if query is None or doc is None or found is None:
        raise FormatError(_describe_unrecognised(names, kind, source))
    return Columns(query, doc, found, by_rank=value is None)


def subtopic_column(names: Sequence[str], kind: Kind, source: str) -> str | None:
    """The column of qrels that may tell apart judgments of one document, if there is one."""
    return pick_column(names, _SUBTOPIC, source) if kind == "qrels" else None


def knows_columns(names: Sequence[str], kind: Kind) -> bool:
    """Tell whether the names say which column is which."""
    try:
        find_columns(names, kind, "")
    except FormatError:
        return False
    return True


def _plain(name: str) -> str:
    return "".join(c for c in str(name).lower() if c not in "-_. ")


def pick_column(names: Sequence[str], known: Sequence[str], source: str) -> str | None:
    """The first of the known names that is there; two that mean the same are refused."""
    for wanted in known:
        found = [name for name in names if _plain(name) == wanted]
        if len(found) > 1:
            raise FormatError(
                f"{source}: the columns {found[0]!r} and {found[1]!r} mean the same. "
                "Remove or rename one."
            )
        if found:
            return found[0]
    return None


def _describe_unrecognised(names: Sequence[str], kind: Kind, source: str) -> str:
    shown = ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"
    value = "score (or rank)" if kind == "run" else "grade (or relevance, label, score)"
    return (
        f"{source}: cannot tell which columns hold query, doc and {value}; found {shown}. "
        "Name them so, for example query_id, doc_id and "
        f"{'score' if kind == 'run' else 'relevance'}."
    )
