"""Lines: what every reader hands over, one (query, doc, value) per line with ids as numbers.

They come from files (`assay.io.formats` reads TREC text) and from data in memory: dictionaries,
tuples, records and data frames. pandas, polars and pyarrow are read and made through narwhals. None
of these packages is imported unless a frame of it is given or requested.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.arrays import Bytes, Floats, Ints, Ints32
from assay.core.ids import Ids
from assay.core.text import unguard_formula
from assay.errors import (
    FormatError,
    IdError,
    InputError,
    MismatchError,
    UsageError,
    ValueRangeError,
    need,
)
from assay.io.columns import (
    Dialect,
    FileTable,
    Where,
    missing_cell,
    open_delimited,
    parse_numbers,
    pick_column,
    read_columns,
    read_records,
    require_columns,
    require_kind,
    shift,
    table_of_records,
)
from assay.io.streams import FilePath
from assay.native import kernels
from assay.native.signatures import NUMBER_TYPES
from assay.tables.table import Table as Page

if TYPE_CHECKING:
    import narwhals as nw


Kind = Literal["run", "qrels", "values"]
_EXACT: Final = 2**53  # float64 holds every whole number up to here
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
        for row, value in enumerate(values):  # the first value that has a fault of its own
            try:
                Ids.of([value], what)
            except IdError as fault:
                words = str(fault).replace(" in row 0", "")
                raise IdError(f"{where(row)}: {words}") from None
        raise IdError(str(error)) from None


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
    if ids.kind == "text":
        first = kernels().match_ids(*ids.utf8, *ids.utf8)
    else:
        _, places, inverse = np.unique(ids.numbers, return_index=True, return_inverse=True)
        first = places[inverse]
    is_first = first == np.arange(len(ids))
    number = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return ids.take(np.flatnonzero(is_first)), number[first]


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
        for row, value in enumerate(values):
            if not -_EXACT <= value <= _EXACT and isinstance(value, int | np.integer):
                raise _lost_digits_error(int(value), kind, where(row))
    return np.fromiter(values, np.float64, len(values))


def _not_a_number(value: Any, kind: Kind, place: str) -> ValueRangeError:
    name, text = VALUE_NAME[kind], repr(value)
    text = text if len(text) <= 60 else f"{text[:59]}…"
    if value is None:
        return ValueRangeError(f"{place}: the {name} is missing. Give a number.")
    return ValueRangeError(
        f"{place}: the {name} {text} is of type {type(value).__name__}, not a number. "
        "Convert it first."
    )


def _lost_digits_error(value: int, kind: Kind, place: str) -> ValueRangeError:
    digits = str(value) if abs(value) < 10**30 else f"of {value.bit_length()} bits"
    return ValueRangeError(
        f"{place}: the {VALUE_NAME[kind]} {digits} is a whole number beyond 2^53, which float64 "
        "cannot tell from its neighbours. Scale or shift the values."
    )


def exact_floats(values: npt.NDArray[Any], kind: Kind, where: Where) -> Floats:
    """Return an array of numbers as float64; whole numbers that would lose digits are refused."""
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        bad = (values > _EXACT) | ((values < -_EXACT) if values.dtype.kind == "i" else False)
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


# Files


# Tables without a header have the columns of a TREC file, or are refused.
_TREC: Final = {
    "run": ("query", "Q0", "doc", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "doc", "grade"),
}


def lines_of_file(path: FilePath, kind: Kind, format: str) -> Lines:
    """Read a run or qrels from CSV, TSV, JSON, JSONL or parquet.

    JSON is {query: {doc: value}}, {query: [doc, …]}, or records or tuples, one a line in JSONL.
    """
    name = os.fspath(path)
    if format in ("csv", "tsv"):
        return _lines_of_delimited(path, kind, "," if format == "csv" else "\t")
    if format == "parquet":

        def choose(names: Sequence[str]) -> list[str]:
            subtopic = subtopic_column(names, kind, name)
            return [*find_columns(names, kind, name)[:3], *([subtopic] if subtopic else [])]

        return lines_of_frame(read_columns(path, choose), kind, f"{name}, row {{}}".format, name)
    data, where = read_records(path, format)
    if isinstance(data, dict):
        return lines_of_mapping(data, kind, name)
    if isinstance(data, list):
        return lines_of_records(data, kind, where, name)
    raise FormatError(f"{name}: expected a JSON object or array, found {repr(data)[:40]}.")


def _lines_of_delimited(path: FilePath, kind: Kind, delimiter: str) -> Lines:
    """Read a CSV or TSV file with a header, or with the columns of a TREC file and none."""

    def unnamed(first: list[str]) -> Sequence[str] | None:
        has_names = knows_columns(first, kind) or len(first) != len(_TREC[kind])
        return None if has_names else _TREC[kind]

    table = open_delimited(path, Dialect(delimiter), unnamed)
    columns = find_columns(table.names, kind, table.head)
    packed: dict[str, list[Ids]] = {"query": [], "doc": []}
    parts: list[Floats] = []
    n_lines = 0
    for queries, docs, values in table.batches(columns[:3]):
        where = shift(table.where, n_lines)
        for ids, what in ((queries, "query"), (docs, "doc")):
            # `write_run` guards ids against formulas in CSV.
            guarded = delimiter == "," and "'" in "".join(ids)
            packed[what].append(
                pack_ids(list(map(unguard_formula, ids)) if guarded else ids, what, where)
            )
        parts.append(parse_numbers(values, VALUE_NAME[kind], where))
        n_lines += len(values)
    query_ids, query_numbers = number_ids(Ids.concat(packed["query"]))
    doc_ids, doc_numbers = number_ids(Ids.concat(packed["doc"]))
    scores = -np.concatenate(parts) if columns.by_rank else np.concatenate(parts)
    lines = Lines(query_ids, doc_ids, query_numbers, doc_numbers, scores)
    subtopic = subtopic_column(table.names, kind, table.source)
    if subtopic is not None:
        lines = lines._replace(subtopics=lambda: table.columns([subtopic])[0])
    return check_values(lines, kind, table.where)


# Data in memory


_ARRAY_BUILDERS: Final = {
    "run": "Ranking.from_scores or Ranking.from_arrays",
    "qrels": "Judgments.from_labels or Judgments.from_targets",
}
# The package of each backend, and the extra that installs it.
_BACKENDS = {"pandas": "pandas", "polars": "polars", "pyarrow": "parquet"}


def lines_of_data(data: Any, kind: Kind) -> Lines:
    """From whatever a user may have in memory."""
    if isinstance(data, Mapping):
        return lines_of_mapping(data, kind)
    if is_frame(data):
        return lines_of_frame(data, kind)
    return lines_of_records(data, kind, "row {}".format, kind)


def lines_of_mapping(data: Mapping[Any, Any], kind: Kind, source: str = "") -> Lines:
    """From {query: {doc: value}}, or {query: [doc, …]}.

    A list of a run is its ranking, best first, without ties; in qrels it holds the relevant docs.

    >>> lines_of_mapping({"q": ["b", "a"]}, "run").values.tolist()
    [0.0, -1.0]
    """
    rows = list(data.values())
    _check_rows(data, rows, kind, source)
    names = list(data)
    prefix = f"{source}, " if source else ""
    key = f"{prefix}key {{}}".format
    read = kernels().number_rows(rows, NUMBER_TYPES, kind != "run") if rows else None
    if read is not None:
        blob, offsets, ends, docs, values = read
        queries = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(ends))
        query_ids = pack_ids(names, "query", key)
        return Lines(query_ids, Ids.from_utf8(blob, offsets), queries, docs, values)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(sizes)

    def where(line: int) -> str:
        return f"{prefix}query {names[int(np.searchsorted(ends, line, side='right'))]!r}"

    doc_ids, docs = number_ids(pack_ids(list(chain.from_iterable(rows)), "doc", where))
    query_ids = pack_ids(names, "query", key)
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
    odd = {each for each in set(map(type, rows)) if not issubclass(each, allowed)}
    if odd:
        query, row = next(item for item in data.items() if type(item[1]) in odd)
        unordered = kind == "run" and isinstance(row, set | frozenset)
        hint = "; a set has no order, so it is not a ranking" if unordered else ""
        raise UsageError(
            f"{source + ': ' if source else ''}the entry of query {query!r} in the {kind} is of "
            f"type {type(row).__name__}. Give {{query: {{doc: {VALUE_NAME[kind]}}}}} "
            f"or {{query: [doc, …]}}, the same for all queries{hint}."
        )


def lines_of_records(records: Iterable[Any], kind: Kind, where: Where, source: str) -> Lines:
    """From tuples (query, doc, value), named tuples or mappings with columns of known names.

    In qrels a pair (query, doc) means grade 1.

    >>> lines_of_records([("q", "a", 0.5)], "run", "row {}".format, "tuples").values.tolist()
    [0.5]
    """
    rows = _list_records(records, kind)
    if not rows:
        raise InputError(f"{source}: the {kind} holds no lines.")
    first = rows[0]
    lines = _lines_of_plain_tuples(rows, kind)
    if lines is not None:
        return lines
    if isinstance(first, Mapping):
        table = table_of_records(rows, where, source)
        names = find_columns(table.names, kind, source)
        columns, by_rank = table.columns(names[:3]), names.by_rank
    else:
        columns, by_rank = _of_tuples(rows, kind, where, source)
    query_ids, queries = number_column(columns[0], "query", where)
    doc_ids, docs = number_column(columns[1], "doc", where)
    values = plain_floats(columns[2], kind, where)
    lines = Lines(query_ids, doc_ids, queries, docs, -values if by_rank else values)
    fields = list(first if isinstance(first, Mapping) else getattr(first, "_fields", ()))
    subtopic = subtopic_column(fields, kind, source)
    if subtopic is not None:
        key = subtopic if isinstance(first, Mapping) else fields.index(subtopic)
        lines = lines._replace(subtopics=lambda: [row[key] for row in rows])
    return check_values(lines, kind, where)


def _lines_of_plain_tuples(rows: list[Any], kind: Kind) -> Lines | None:
    """Tuples of text ids and numbers, read in one pass; None where there is anything else."""
    if type(rows[0]) is not tuple:
        return None
    width = 2 if kind == "qrels" and len(rows[0]) == 2 else 3
    read = kernels().number_tuples(rows, width, NUMBER_TYPES, kind != "run")
    if read is None:
        return None
    return Lines(Ids.from_utf8(*read[:2]), Ids.from_utf8(*read[2:4]), *read[4:])


def _list_records(records: Iterable[Any], kind: Kind) -> list[Any]:
    if isinstance(records, str | bytes | np.ndarray) or not isinstance(records, Iterable):
        raise UsageError(
            f"Cannot read a {kind} from {type(records).__name__}. Give a path, a dict "
            f"{{query: {{doc: {VALUE_NAME[kind]}}}}}, (query, doc, {VALUE_NAME[kind]}) tuples or a "
            f"data frame; for arrays use {_ARRAY_BUILDERS[kind]}."
        )
    return list(records)


def _of_tuples(
    rows: list[Any], kind: Kind, where: Where, source: str
) -> tuple[list[list[Any]], bool]:
    require_kind(rows, (tuple, list), "a (query, doc, value) tuple", where)
    fields = getattr(rows[0], "_fields", None)
    if fields is not None:
        names = find_columns(fields, kind, source)
        return _pick_columns(rows, [fields.index(name) for name in names[:3]], where), names.by_rank
    width = _width(rows, kind, where)
    columns = _pick_columns(rows, range(width), where)
    return (columns if width == 3 else [*columns, [1] * len(rows)]), False


def _width(rows: list[Any], kind: Kind, where: Where) -> int:
    width = len(rows[0]) if kind == "qrels" and len(rows[0]) == 2 else 3
    if set(map(len, rows)) != {width}:
        at = next(at for at, row in enumerate(rows) if len(row) != width)
        names = ", ".join(("query", "doc", VALUE_NAME[kind])[:width])
        raise FormatError(
            f"{where(at)}: expected {width} elements ({names}), found {len(rows[at])}: "
            f"{repr(rows[at])[:80]}.{_hint_of_trec(rows[at], kind)}"
        )
    return width


# The columns of a line of TREC, and where those stand that count.
_OF_TREC: Final[dict[Kind, tuple[str, int]]] = {
    "run": ("query, Q0, doc, rank, score, tag", 4),
    "qrels": ("query, iteration, doc, grade", 3),
}


def _hint_of_trec(row: Any, kind: Kind) -> str:
    columns, value = _OF_TREC[kind]
    if len(row) != columns.count(",") + 1:
        return ""
    return (
        f" It has as many as a line of TREC ({columns}). Take three of these: "
        f"[(row[0], row[2], row[{value}]) for row in rows]."
    )


def _pick_columns(rows: list[Any], places: Iterable[int], where: Where) -> list[list[Any]]:
    width = max(places, default=-1) + 1
    at = next((at for at, row in enumerate(rows) if len(row) < width), None)
    if at is not None:
        raise FormatError(
            f"{where(at)}: a column of the first line is absent here: {repr(rows[at])[:80]}."
        )
    return [[row[place] for row in rows] for place in places]


def is_frame(data: Any) -> bool:
    """Tell whether something has named columns, without importing what it comes from."""
    kind = type(data)  # asking the value itself would make a lazy frame work
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def lines_of_frame(
    data: Any, kind: Kind, where: Where = "row {}".format, source: str = "data frame"
) -> Lines:
    """Read query, doc and score or grade columns, recognised by their names."""
    frame = _eager(data)
    names = find_columns(frame.columns, kind, source)
    if not len(frame):
        raise InputError(f"{source}: the {kind} holds no rows.")
    clean = [_number_clean_text(frame[name]) for name in names[:2]]
    for name, read in zip(names[:3], (*clean, None), strict=True):
        if read is None:
            _refuse_missing(frame[name], where)
    query_ids, queries = clean[0] or _number_column(frame[names.query], "query", where)
    doc_ids, docs = clean[1] or _number_column(frame[names.doc], "doc", where)
    values = _frame_numbers(frame[names.value], kind, where)
    lines = Lines(query_ids, doc_ids, queries, docs, -values if names.by_rank else values)
    subtopic = subtopic_column(frame.columns, kind, source)
    if subtopic is not None:
        lines = lines._replace(subtopics=frame[subtopic].to_list)
    return check_values(lines, kind, where)


def table_of_frame(data: Any) -> FileTable:
    """Take the columns of a data frame; none that is read may have gaps."""
    frame = _eager(data)
    where: Where = "row {}".format

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        for name in names:
            _refuse_missing(frame[name], where)
        yield [frame[name].to_list() for name in names]

    return FileTable("data frame", frame.columns, where, read)


def _eager(data: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise UsageError(
            f"Cannot read a table from {type(data).__name__}. "
            "Give a pandas, polars or pyarrow data frame."
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise FormatError(f"data frame: {str(error)[:120]}. Rename or drop columns.") from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _refuse_missing(column: nw.Series[Any], where: Where) -> None:
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise missing_cell(column.name, where(row))


def _number_clean_text(column: nw.Series[Any]) -> tuple[Ids, Ints32] | None:
    """`_number_column` of text that has neither gaps nor unclean ids, which the same pass sees."""
    import narwhals as nw

    if not isinstance(column.dtype, nw.String | nw.Object):
        return None
    held = _utf8_of(column)
    if held is not None:
        numbered = kernels().number_ids(*held)
    else:
        numbered = kernels().number_texts(column.to_list())
    return None if numbered is None else (Ids.from_utf8(numbered[0], numbered[1]), numbered[2])


def _utf8_of(column: nw.Series[Any]) -> tuple[Bytes, Ints] | None:
    """Return bytes and offsets of text that Arrow holds without gaps."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or str(getattr(column.to_native(), "dtype", "")) == "object":
        return None
    held = column.to_arrow().cast(arrow.large_string())
    if isinstance(held, arrow.ChunkedArray):
        held = held.combine_chunks()
    if held.null_count:
        return None
    _, places, text = held.buffers()
    offsets = np.frombuffer(places, np.int64, len(held) + 1, 8 * held.offset)
    blob = np.frombuffer(text or b"", np.uint8)
    return blob[offsets[0] : offsets[-1]], offsets - offsets[0]


def _number_column(column: nw.Series[Any], what: str, where: Where) -> tuple[Ids, Ints32]:
    """Return the distinct ids of a column, and for each row the number of its id."""
    import narwhals as nw

    if isinstance(column.dtype, _wide()):
        return number_column(column.to_list(), what, where)
    if column.dtype.is_integer():
        return number_ids(Ids.of(column.to_numpy(), what))
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    if isinstance(column.dtype, nw.String):
        return number_column(column.to_list(), what, where)
    raise IdError(
        f"column {column.name!r} holds {column.dtype}, and {what} ids are text or integers. "
        "Convert it (integers with a gap become floats in pandas)."
    )


def _wide() -> tuple[type, ...]:
    """Types whose values only Python can look at."""
    import narwhals as nw

    return nw.Object, nw.Int128, nw.UInt128


def _frame_numbers(column: nw.Series[Any], kind: Kind, where: Where) -> Floats:
    import narwhals as nw

    if isinstance(column.dtype, _wide()):
        return plain_floats(column.to_list(), kind, where)
    if isinstance(column.dtype, nw.Boolean) and kind == "qrels":
        column = column.cast(nw.Int8)
    if isinstance(column.dtype, nw.Decimal):
        column = column.cast(nw.Float64)
    if not column.dtype.is_numeric():
        raise ValueRangeError(
            f"column {column.name!r} holds {column.dtype}, not numbers. Convert it first."
        )
    return exact_floats(column.to_numpy(), kind, where)


def frame_of(table: Page, backend: str) -> Any:
    """Return a table as a data frame: every digit, and undefined numbers missing."""
    return build_frame(
        {name: [row[at].value for row in table.rows] for at, name in enumerate(table.columns)},
        backend,
    )


def build_frame(columns: dict[str, Any], backend: str) -> Any:
    """Return a data frame of the package that `backend` names: pandas, polars or pyarrow.

    NaN means undefined: polars and pyarrow, which tell NaN from a missing value, get the latter.
    """
    import narwhals as nw
    from narwhals import selectors

    if backend not in _BACKENDS:
        raise UsageError(f"Unknown backend {backend!r}. Known: {', '.join(_BACKENDS)}.")
    package = need(backend, f"a {backend} data frame", _BACKENDS[backend])
    frame = nw.from_dict(columns, backend=package)
    if backend != "pandas":
        frame = frame.with_columns(selectors.by_dtype(nw.Float64).fill_nan(None))
    return frame.to_native()
