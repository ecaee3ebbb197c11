"""Lines: what every reader hands over, one (query, doc, value) per line with ids as numbers.

They come from files (`assay.io.formats` reads TREC text) and from data in memory: dictionaries,
tuples, records and data frames. pandas, polars and pyarrow are read and made through narwhals. None
of these packages is imported unless a frame of it is given or requested.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from assay import errors
from assay.arrays import NUMBER_TYPES, Bytes, Floats, Ints, Ints32
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.core.text import Remark, did_you_mean, unguard_formula
from assay.io import columns as tabular
from assay.io.streams import FilePath
from assay.native import kernels
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
    remarks: tuple[str, ...] = ()


NO_QUERIES: Final = "A collection needs queries. Pass them (--queries)."
_JOIN_TEXTS: Final = (
    "this looks like text, not ids. Pass the file with ids and texts of the queries as --queries "
    "(in Python queries=), or replace the white space."
)
_SPLIT_DOCS: Final = (
    "an id cannot hold white space. Separate documents by ';', write spaces of file names as "
    "%20, or replace the white space."
)


def pack_ids(values: Sequence[Any], what: str, where: tabular.Where) -> Ids:
    """Check and pack ids; an error names the place."""
    try:
        return Ids.of(values, what)
    except errors.IdError as error:
        for row, value in enumerate(values):  # the first value that has a fault of its own
            try:
                Ids.of([value], what)
            except errors.IdError as fault:
                words = str(fault).replace(" in row 0", "")
                if what in ("query", "doc") and isinstance(value, str) and len(value.split()) > 1:
                    advice = _JOIN_TEXTS if what == "query" else _SPLIT_DOCS
                    words = f"{words.removesuffix(words.rpartition(': ')[2])}{advice}"
                raise errors.IdError(f"{where(row)}: {words}") from None
        raise errors.IdError(str(error)) from None


def number_column(values: Sequence[Any], what: str, where: tabular.Where) -> tuple[Ids, Ints32]:
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


def plain_floats(values: Sequence[Any], kind: Kind, where: tabular.Where) -> Floats:
    """Return Python numbers as float64; refuse text, None and integers that lose digits."""
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


def _not_a_number(value: Any, kind: Kind, place: str) -> errors.ValueRangeError:
    name, text = VALUE_NAME[kind], repr(value)
    text = text if len(text) <= 60 else f"{text[:59]}…"
    if value is None:
        return errors.ValueRangeError(f"{place}: the {name} is missing. Give a number.")
    return errors.ValueRangeError(
        f"{place}: the {name} {text} is of type {type(value).__name__}, not a number. "
        "Convert it first."
    )


def _lost_digits_error(value: int, kind: Kind, place: str) -> errors.ValueRangeError:
    digits = str(value) if abs(value) < 10**30 else f"of {value.bit_length()} bits"
    return errors.ValueRangeError(
        f"{place}: the {VALUE_NAME[kind]} {digits} is a whole number beyond 2^53, where float64 "
        "is not exact. Scale or shift the values."
    )


def exact_floats(values: npt.NDArray[Any], kind: Kind, where: tabular.Where) -> Floats:
    """Return an array of numbers as float64; whole numbers that would lose digits are refused."""
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        bad = (values > _EXACT) | ((values < -_EXACT) if values.dtype.kind == "i" else False)
        if bad.any():
            row = int(np.argmax(bad))
            raise _lost_digits_error(int(values[row]), kind, where(row))
    return values.astype(np.float64)


def check_values(lines: Lines, kind: Kind, where: tabular.Where) -> Lines:
    """Return the lines, if there are any queries and every value is finite."""
    if not len(lines.query_ids):
        raise errors.InputError(f"The {kind} holds no queries. Add some.")
    bad = ~np.isfinite(lines.values)
    if bad.any():
        row = int(np.argmax(bad))
        query, doc = lines.query_ids[int(lines.queries[row])], lines.doc_ids[int(lines.docs[row])]
        name, value = VALUE_NAME[kind], float(lines.values[row])
        fault = "missing or not a number" if math.isnan(value) else "not finite"
        raise errors.ValueRangeError(
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
            raise errors.MismatchError(
                f"Document {lines.doc_ids[doc]!r} of query {lines.query_ids[query]!r} is judged "
                f"for the subtopics {before!r} and {subtopic!r}; Assay reads one grade per "
                "document. Keep the line with the highest grade, or the lines of one subtopic."
            )


class Columns(NamedTuple):
    """Names of the columns that matter. With `by_rank` the value is a rank: smaller is better.

    Judgments may have no column of grades, and texts of questions (`text`) beside their ids. With
    `split`, a cell holds several documents with ';' between them, or a list.
    """

    query: str
    doc: str
    value: str | None
    by_rank: bool = False
    split: bool = False
    text: str | None = None

    def names(self) -> list[str]:
        """Return the columns to read."""
        return [self.query, self.doc, *([self.value] if self.value else [])]


def find_columns(names: Sequence[str], kind: Kind, source: str) -> Columns:
    """Find query, doc and score or grade among the names; `source` is for the message.

    A run without scores may have ranks instead, and judgments without grades mean grade 1.

    >>> find_columns(["query-id", "corpus-id", "score"], "qrels", "test.tsv")[:3]
    ('query-id', 'corpus-id', 'score')
    >>> find_columns(["question", "relevant_docs"], "qrels", "judged.csv")[:3]
    ('question', 'relevant_docs', None)
    """
    if kind == "qrels":
        return _find_judged(names, source)
    roles = {"query": "query", "doc": "doc", "score": "score (or rank)"}
    by_rank = tabular.pick_column(names, "score", source) is None
    if by_rank and tabular.pick_column(names, "rank", source) is not None:
        roles = {"query": "query", "doc": "doc", "rank": "rank"}
    advice = "Rename the columns, e.g. to query_id, doc_id and score."
    query, doc, value = tabular.require_columns(names, roles, source, advice)
    return Columns(query, doc, value, by_rank)


_GRADE_WORDS: Final = {"grade", "grades", "relevance", "judgment", "judgement"}


def _find_judged(names: Sequence[str], source: str) -> Columns:
    """Find the columns of judgments; a column that may hold grades is never passed over."""
    roles = {"judged query": "query", "judged doc": "doc"}
    advice = "Rename the columns, e.g. to query_id, doc_id and relevance."
    query, doc = tabular.require_columns(names, roles, source, advice)
    rest = [name for name in names if name not in (query, doc)]
    grade = tabular.pick_column(rest, "grade", source)
    if grade is None:
        for name in rest:
            if tabular.pick_column([name], "score", source) or tabular.pick_column(
                [name], "rank", source
            ):
                raise errors.FormatError(
                    f"{source}: the column {name!r} belongs to a run. For judgments, rename it to "
                    "'relevance', or remove it (then every grade is 1)."
                )
            near = did_you_mean(str(name).lower(), tabular.ROLES["grade"], cutoff=0.75)
            if near or _GRADE_WORDS & set(re.split(r"[\W_]+", str(name).lower())):
                raise errors.FormatError(
                    f"{source}: the column {name!r} may hold grades.{near} Rename it to "
                    "'relevance', or remove it (then every grade is 1)."
                )
    is_plain = tabular.pick_column([doc], "doc", source) is not None and grade is not None
    return Columns(
        query, doc, grade, split=not is_plain, text=tabular.pick_column(rest, "question", "")
    )


def subtopic_column(names: Sequence[str], kind: Kind, source: str) -> str | None:
    """Return the column of qrels that may tell apart judgments of one document, if there is one."""
    return tabular.pick_column(names, "subtopic", source) if kind == "qrels" else None


def knows_columns(names: Sequence[str], kind: Kind) -> bool:
    """Tell whether the names say which column is which."""
    try:
        find_columns(names, kind, "")
    except errors.FormatError:
        return False
    return True


class Questions:
    """Ids of queries for files that name them by their texts.

    Args:
        ids: Ids of the queries; None to number the questions of the file itself.
        texts: Text of each.
        source: Where the texts stand, for messages.
    """

    def __init__(self, ids: Iterable[object] | None, texts: Iterable[str] = (), source: str = ""):
        self.is_open, self.source, self.n_joined = ids is None, source, 0
        self.texts: dict[str, str] = {}  # by id
        self._ids: dict[str, list[str]] = {}  # by text
        for id, text in zip(() if ids is None else ids, texts, strict=False):
            self._add(str(id), text)

    def _add(self, id: str, text: str) -> str:
        self.texts[id] = text
        self._ids.setdefault(_one_line(text), []).append(id)
        return id

    def have_words(self) -> bool:
        """Tell whether any text has several words, as no id has."""
        return any(len(text.split()) > 1 for text in self.texts.values())

    def name(
        self, cells: Iterable[Any], where: tabular.Where, texts: Iterable[Any] = ()
    ) -> list[Any]:
        """Return the id of each cell, which is an id or a text.

        Raises:
            MismatchError: A text is that of no query, or of two.
        """
        names: list[Any] = []
        absent: dict[str, int] = {}
        for row, (cell, text) in enumerate(zip_longest(cells, texts)):
            key = str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell
            if not isinstance(key, str):
                raise errors.IdError(
                    f"{where(row)}: expected query id or text, found {cell!r:.40}."
                )
            ids = [key] if key in self.texts else self._ids.get(_one_line(key), [])
            if not ids and self.is_open:
                has_text = isinstance(text, str)
                number = str(len(self.texts))
                ids = [self._add(key, text) if has_text else self._add(number, key)]
            if len(ids) > 1:
                raise errors.MismatchError(
                    f"{where(row)}: {key!r:.60} is the text of the queries {name_few(ids)} in "
                    f"{self.source}. Name the query by its id."
                )
            self.n_joined += bool(ids) and ids[0] != key
            absent.update({} if ids else {key: row})
            names += ids
        if absent:
            first = next(iter(absent))
            near = describe_near(absent, self._ids) or did_you_mean(first, map(repr, self._ids))
            raise errors.MismatchError(
                f"{where(absent[first])}: {name_few(list(absent), 3)} "
                f"{'is' if len(absent) == 1 else 'are'} neither id nor text of a query in "
                f"{self.source}.{near} Correct it, or add the query."
            )
        return names


def _one_line(text: str) -> str:
    return " ".join(text.split())


# Files


# Tables without a header have the columns of a TREC file, or are refused.
_TREC: Final = {
    "run": ("query", "Q0", "doc", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "doc", "grade"),
}


def lines_of_file(
    path: FilePath, kind: Kind, format: str, questions: Questions | None = None
) -> Lines:
    """Read a run or qrels from CSV, TSV, JSON, JSONL or parquet.

    JSON is {query: {doc: value}}, {query: [doc, …]}, or records or tuples, one a line in JSONL;
    for judgments also what LlamaIndex saves, {"queries": …, "relevant_docs": {query: [doc, …]}}.
    """
    name = os.fspath(path)
    if format in ("csv", "tsv"):
        return lines_of_table(_open_lines(path, kind, format), kind, questions)
    if format == "parquet":

        def choose(names: Sequence[str]) -> list[str]:
            columns = find_columns(names, kind, name)
            more = (columns.text, subtopic_column(names, kind, name))
            return list(dict.fromkeys([*columns.names(), *filter(None, more)]))

        frame = tabular.read_columns(path, choose)
        return lines_of_frame(frame, kind, f"{name}, row {{}}".format, name, questions)
    data, where = tabular.read_records(path, format)
    if isinstance(data, dict):
        nested = data.get("relevant_docs") if kind == "qrels" and "queries" in data else None
        whole = nested if isinstance(nested, Mapping) else data
        return lines_of_mapping(whole, kind, name, questions)
    if isinstance(data, list):
        return lines_of_records(data, kind, where, name, questions)
    raise errors.FormatError(f"{name}: expected a JSON object or array, found {repr(data)[:40]}.")


def _open_lines(path: FilePath, kind: Kind, format: str) -> tabular.FileTable:
    """Open a CSV or TSV file with a header, or with the columns of a TREC file and none."""

    def unnamed(first: list[str]) -> Sequence[str] | None:
        is_data = len(first) == len(_TREC[kind]) and (
            tabular.is_number(first[-1]) or not knows_columns(first, kind)
        )
        return _TREC[kind] if is_data else None

    table = tabular.open_delimited(path, tabular.Dialect("," if format == "csv" else "\t"), unnamed)

    def unguard(cells: list[str]) -> list[str]:
        return list(map(unguard_formula, cells)) if "'" in "".join(cells) else cells

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        for cells in table.read(names):  # `write_run` guards ids against formulas
            yield [*map(unguard, cells[:2]), *cells[2:]]

    return replace(table, read=read) if format == "csv" else table


class _NumberedRows(NamedTuple):
    """Some lines with ids numbered among themselves."""

    query_ids: Ids
    queries: Ints32
    doc_ids: Ids
    docs: Ints32
    values: Floats
    rows: Ints  # of the table, for each line
    n_lists: int = 0


def lines_of_table(
    table: tabular.FileTable,
    kind: Kind,
    questions: Questions | None = None,
    columns: Columns | None = None,
    gaps: Collection[str] = (),
) -> Lines:
    """Read the lines of a table, a batch at a time; `columns` where names do not tell them.

    Cells that are missing in `gaps` are refused as ids and numbers that are missing.
    """
    stated = columns is not None
    columns = columns or find_columns(table.names, kind, table.head or table.source)
    text = columns.text if questions is not None and questions.is_open else None
    parts: list[_NumberedRows] = []
    starts, n_rows = [0], 0
    for cells in table.batches([*columns.names(), *([text] if text else [])], gaps):
        where = tabular.shift(table.where, n_rows)
        n_rows += len(cells[0])
        if questions is not None:
            texts = _as_list(cells.pop()) if text else ()
            cells[0] = questions.name(_as_list(cells[0]), where, texts)
        parts.append(_read_part(cells, columns, kind, where, table.is_text))
        starts.append(n_rows)
    if not parts:
        raise errors.InputError(f"{table.source}: the {kind} holds no rows. Check the file.")
    if questions is not None and questions.is_open and not stated and not questions.have_words():
        raise errors.UsageError(NO_QUERIES)  # the column holds ids
    query_ids, queries = _join_numbers([(part.query_ids, part.queries) for part in parts])
    doc_ids, docs = _join_numbers([(part.doc_ids, part.docs) for part in parts])
    values = np.concatenate([part.values for part in parts]) if parts[1:] else parts[0].values
    lines = Lines(query_ids, doc_ids, queries, docs, -values if columns.by_rank else values)
    n_lists = sum(part.n_lists for part in parts)
    if kind == "qrels" and not stated:
        remarks = _describe_reading(table, columns, n_lists, questions)
        lines = lines._replace(remarks=remarks + _describe_joined(lines.doc_ids, columns))
    subtopic = subtopic_column(table.names, kind, table.source)
    if subtopic is not None and not n_lists:
        lines = lines._replace(subtopics=lambda: _as_list(table.columns([subtopic])[0]))
    rows = np.concatenate([part.rows + at for part, at in zip(parts, starts, strict=False)])
    return check_values(lines, kind, lambda line: table.where(int(rows[line])))


def _read_part(
    cells: list[Any], columns: Columns, kind: Kind, where: tabular.Where, is_text: bool
) -> _NumberedRows:
    query_ids, queries = number_cells(cells[0], "query", where)
    values = np.ones(len(queries))
    if columns.value:
        values = _numbers(cells[2], kind, where, is_text)
    lists = _split_cells(cells[1], columns, kind, where)
    if lists is None:
        numbered = number_cells(cells[1], "doc", where)
        return _NumberedRows(query_ids, queries, *numbered, values, np.arange(len(queries)))
    sizes = np.array([len(docs) for docs in lists], np.int64)
    rows = np.repeat(np.arange(len(lists)), sizes)
    docs = list(chain.from_iterable(lists))
    numbered = number_column(docs, "doc", lambda row: where(int(rows[row])))
    n_lists = int((sizes != 1).sum())
    return _NumberedRows(query_ids, queries[rows], *numbered, values[rows], rows, n_lists)


def _split_cells(
    cells: Any, columns: Columns, kind: Kind, where: tabular.Where
) -> list[Sequence[Any]] | None:
    """Return the documents of each cell of judgments; None where each cell is one."""
    if kind != "qrels":
        return None
    if not isinstance(cells, list):
        kind_of_cell = str(cells.dtype)
        if not (cells.dtype.is_nested() or kind_of_cell == "Object" or columns.split):
            return None
        refuse_missing(cells, where)
        cells = cells.to_list()
    kinds = set(map(type, cells))
    if kinds <= {str}:
        text = "".join(cells) if columns.split else ""
        if not columns.split or not ("" in cells or any(mark in text for mark in ";[\n")):
            return None
    elif not any(issubclass(each, (*_LISTS, Mapping)) for each in kinds):
        return None
    return [_documents(cell, columns, where, row) for row, cell in enumerate(cells)]


_LISTS: Final = (list, tuple, set, frozenset, np.ndarray)


def _documents(cell: Any, columns: Columns, where: tabular.Where, row: int) -> Sequence[Any]:
    """Return the documents that a cell names: a list, or text with ';' between them."""
    if isinstance(cell, str) and columns.split:
        text = cell.strip()
        if text.startswith("["):  # numpy writes no commas, and Python would join such texts
            listed = tabular.parse_list(re.sub(r"(?<=['\"])\s+(?=['\"])", ", ", text), where(row))
        else:
            listed = re.split("[;\n]", text)
        if isinstance(listed, list):
            parts = [part.strip() if isinstance(part, str) else part for part in listed]
            return [part for part in parts if part != ""]
    if isinstance(cell, Mapping):
        raise errors.FormatError(
            f"{where(row)}: the column {columns.doc!r} holds {cell!r:.60}. Give a document id or "
            "a list of ids."
        )
    return list(cell) if isinstance(cell, _LISTS) else [cell]


def _describe_reading(
    table: tabular.FileTable, columns: Columns, n_lists: int, questions: Questions | None
) -> tuple[str, ...]:
    """Say how columns were read that are not those of qrels elsewhere."""
    n_joined = questions.n_joined if questions is not None and not questions.is_open else 0
    if columns.value and not n_lists and not n_joined:
        return ()
    joined = f" (joined with texts in {questions.source})" if questions and n_joined else ""
    lists = f" ({n_lists:,} of its cells with another number than one)" if n_lists else ""
    grades = f"grades in {columns.value!r}" if columns.value else "no grades: each counts 1"
    others = [name for name in table.names if name not in (*columns.names(), columns.text)]
    unread = f"; not read: {tabular.list_names(others)}" if others else ""
    words = f"judgments read from {columns.query!r}{joined} and {columns.doc!r}{lists}, {grades}"
    short = f"judgments read from {columns.query!r} and {columns.doc!r}, {grades}"
    return (Remark(f"{words}{unread}", short, n=0),)


def _describe_joined(doc_ids: Ids, columns: Columns) -> tuple[str, ...]:
    """Say which ids may be several documents, separated otherwise than by ';'."""
    if not columns.split or doc_ids.kind != "text":
        return ()
    blob = doc_ids.utf8[0]
    if not np.isin(np.frombuffer(b"|,", np.uint8), blob).any():
        return ()
    joined = [id for id in doc_ids.to_list() if "|" in str(id) or "," in str(id)]
    return (
        Remark(
            f"{len(joined):,} cells of {columns.doc!r} count as one document each although they "
            f"hold ',' or '|' (first: {str(joined[0])[:60]!r}): separate documents by ';'",
            f"{len(joined):,} cells with ',' or '|' count as one document each",
        ),
    )


def _as_list(column: Any) -> list[Any]:
    """Return the cells of a column of a table or a data frame."""
    return column if isinstance(column, list) else list(column.to_list())


def _join_numbers(parts: list[tuple[Ids, Ints32]]) -> tuple[Ids, Ints32]:
    """Return the numbers of several batches as if they were one."""
    if len(parts) == 1:
        return parts[0]
    ids, codes = number_ids(Ids.concat([ids for ids, _ in parts]))
    starts = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    shifted = [numbers + start for (_, numbers), start in zip(parts, starts, strict=False)]
    return ids, codes[np.concatenate(shifted)]


# Data in memory


_ARRAY_BUILDERS: Final = {
    "run": "Ranking.from_scores or Ranking.from_arrays",
    "qrels": "Judgments.from_labels or Judgments.from_targets",
}
# The package of each backend, and the extra that installs it.
_BACKENDS = {"pandas": "pandas", "polars": "polars", "pyarrow": "parquet"}


def lines_of_data(data: Any, kind: Kind, questions: Questions | None = None) -> Lines:
    """Read lines from data in memory."""
    if isinstance(data, Mapping):
        return lines_of_mapping(data, kind, "", questions)
    if is_frame(data):
        return lines_of_frame(data, kind, questions=questions)
    return lines_of_records(data, kind, "row {}".format, kind, questions)


def lines_of_mapping(
    data: Mapping[Any, Any], kind: Kind, source: str = "", questions: Questions | None = None
) -> Lines:
    """Read lines from {query: {doc: value}}, or {query: [doc, …]}.

    A list of a run is its ranking, best first, without ties; in qrels it holds the relevant docs.

    >>> lines_of_mapping({"q": ["b", "a"]}, "run").values.tolist()
    [0.0, -1.0]
    """
    rows = list(data.values())
    _check_rows(data, rows, kind, source)
    names = list(data)
    prefix = f"{source}, " if source else ""
    key = f"{prefix}key {{}}".format
    query_names = names if questions is None else questions.name(names, key)
    read = kernels().number_rows(rows, NUMBER_TYPES, kind != "run") if rows else None
    if read is not None:
        blob, offsets, ends, docs, values = read
        queries = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(ends))
        query_ids = pack_ids(query_names, "query", key)
        return Lines(query_ids, Ids.from_utf8(blob, offsets), queries, docs, values)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(sizes)

    def where(line: int) -> str:
        return f"{prefix}query {names[int(np.searchsorted(ends, line, side='right'))]!r}"

    doc_ids, docs = number_ids(pack_ids(list(chain.from_iterable(rows)), "doc", where))
    query_ids = pack_ids(query_names, "query", key)
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
    """Check that all rows are mappings, or all collections (ordered ones, for a run)."""
    ordered = (list, tuple, np.ndarray)
    collections = ordered if kind == "run" else (*ordered, set, frozenset)
    allowed: tuple[type, ...] = (Mapping,) if rows and isinstance(rows[0], Mapping) else collections
    odd = {each for each in set(map(type, rows)) if not issubclass(each, allowed)}
    if odd:
        query, row = next(item for item in data.items() if type(item[1]) in odd)
        unordered = kind == "run" and isinstance(row, set | frozenset)
        hint = "; a set has no order, so it is not a ranking" if unordered else ""
        raise errors.UsageError(
            f"{source + ': ' if source else ''}the entry of query {query!r} in the {kind} is of "
            f"type {type(row).__name__}. Give {{query: {{doc: {VALUE_NAME[kind]}}}}} or {{query: "
            f"[doc, …]}}, in one form for all queries{hint}."
        )


def lines_of_records(
    records: Iterable[Any],
    kind: Kind,
    where: tabular.Where,
    source: str,
    questions: Questions | None = None,
) -> Lines:
    """Read lines from tuples (query, doc, value), named tuples or mappings.

    In qrels a pair (query, doc) means grade 1, and a list of documents may stand for one.

    >>> lines_of_records([("q", "a", 0.5)], "run", "row {}".format, "tuples").values.tolist()
    [0.5]
    """
    if isinstance(records, str | bytes | np.ndarray) or not isinstance(records, Iterable):
        raise errors.UsageError(
            f"Cannot read a {kind} from {type(records).__name__}. Give a path, a dict "
            f"{{query: {{doc: {VALUE_NAME[kind]}}}}}, (query, doc, {VALUE_NAME[kind]}) tuples or a "
            f"data frame; for arrays use {_ARRAY_BUILDERS[kind]}."
        )
    rows = list(records)
    if not rows:
        raise errors.InputError(f"{source}: the {kind} holds no lines. Check the input.")
    lines = _lines_of_plain_tuples(rows, kind) if questions is None else None
    if lines is not None:
        return lines
    if isinstance(rows[0], Mapping):
        return lines_of_table(tabular.table_of_records(rows, where, source), kind, questions)
    tabular.require_kind(rows, (tuple, list), "a (query, doc, value) tuple", where)
    fields, columns = getattr(rows[0], "_fields", None), None
    if fields is None:
        fields = ("query", "doc", "value")[: _width(rows, kind, where)]
        columns = Columns("query", "doc", "value" if len(fields) == 3 else None)
    table = tabular.FileTable(
        source, list(fields), where, partial(_read_tuples, rows, fields, where)
    )
    return lines_of_table(table, kind, questions, columns, gaps=fields)


def _read_tuples(
    rows: list[Any], fields: Sequence[str], where: tabular.Where, names: Sequence[str]
) -> Iterator[list[Any]]:
    at = next((at for at, row in enumerate(rows) if len(row) < len(fields)), None)
    if at is not None:
        raise errors.FormatError(
            f"{where(at)}: a column of the first line is missing: {repr(rows[at])[:80]}. Add it."
        )
    places = [list(fields).index(name) for name in names]
    yield [[row[place] for row in rows] for place in places]


def _lines_of_plain_tuples(rows: list[Any], kind: Kind) -> Lines | None:
    """Read tuples of text ids and numbers in one pass; None for anything else."""
    if type(rows[0]) is not tuple:
        return None
    width = 2 if kind == "qrels" and len(rows[0]) == 2 else 3
    read = kernels().number_tuples(rows, width, NUMBER_TYPES, kind != "run")
    if read is None:
        return None
    return Lines(Ids.from_utf8(*read[:2]), Ids.from_utf8(*read[2:4]), *read[4:])


def _width(rows: list[Any], kind: Kind, where: tabular.Where) -> int:
    width = len(rows[0]) if kind == "qrels" and len(rows[0]) == 2 else 3
    if set(map(len, rows)) != {width}:
        at = next(at for at, row in enumerate(rows) if len(row) != width)
        names = ", ".join(("query", "doc", VALUE_NAME[kind])[:width])
        hint, n_trec = "", len(_TREC[kind])
        if len(rows[at]) == n_trec:
            place = _TREC[kind].index(VALUE_NAME[kind])
            hint = (
                f" A line of TREC has that many ({', '.join(_TREC[kind])}); pass three: [(row[0], "
                f"row[2], row[{place}]) for row in rows]."
            )
        raise errors.FormatError(
            f"{where(at)}: expected {width} elements ({names}), found {len(rows[at])}: "
            f"{repr(rows[at])[:80]}.{hint}"
        )
    return width


def is_frame(data: Any) -> bool:
    """Tell whether something has named columns, without importing what it comes from."""
    kind = type(data)  # asking the value itself would make a lazy frame work
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def lines_of_frame(
    data: Any,
    kind: Kind,
    where: tabular.Where = "row {}".format,
    source: str = "data frame",
    questions: Questions | None = None,
) -> Lines:
    """Read query, doc and score or grade columns, recognised by their names."""
    return lines_of_table(table_of_frame(data, where, source, as_lists=False), kind, questions)


def table_of_frame(
    data: Any,
    where: tabular.Where = "row {}".format,
    source: str = "data frame",
    *,
    as_lists: bool = True,
) -> tabular.FileTable:
    """Take the columns of a data frame; as lists, none that is read may have gaps."""
    frame = _eager(data)

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        if len(frame):
            columns = [frame[name] for name in names]
            for column in columns if as_lists else ():
                refuse_missing(column, where)
            yield list(map(_as_list, columns)) if as_lists else columns

    return tabular.FileTable(source, frame.columns, where, read)


def _eager(data: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise errors.UsageError(
            f"Cannot read a table from {type(data).__name__}. "
            "Give a pandas, polars or pyarrow data frame."
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise errors.FormatError(f"data frame: {str(error)[:120]}. Rename columns.") from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def refuse_missing(column: nw.Series[Any], where: tabular.Where) -> None:
    """Refuse a column of a data frame with a gap."""
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise tabular.missing_cell(column.name, where(row))


def number_cells(column: Any, what: str, where: tabular.Where) -> tuple[Ids, Ints32]:
    """Return the distinct ids of a column, and for each row the number of its id."""
    if isinstance(column, list):
        return number_column(column, what, where)
    clean = _number_clean_text(column)
    if clean is not None:
        return clean
    import narwhals as nw

    refuse_missing(column, where)
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    if isinstance(column.dtype, (nw.String, *_wide())):
        return number_column(column.to_list(), what, where)
    if column.dtype.is_integer():
        return number_ids(Ids.of(column.to_numpy(), what))
    raise errors.IdError(
        f"column {column.name!r} holds {column.dtype}, and {what} ids are text or integers. "
        "Convert it (integers with a gap become floats in pandas)."
    )


def _number_clean_text(column: nw.Series[Any]) -> tuple[Ids, Ints32] | None:
    """Return numbers of text without gaps or unclean ids, which the same pass sees."""
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


def _wide() -> tuple[type, ...]:
    """Return types whose values only Python can read."""
    import narwhals as nw

    return nw.Object, nw.Int128, nw.UInt128


def _numbers(column: Any, kind: Kind, where: tabular.Where, is_text: bool) -> Floats:
    """Return scores or grades: of text, of Python values or of a data frame."""
    if is_text:
        truths = ("true", "false")  # as pandas and Excel write them
        if kind == "qrels" and column[0].lower() in truths:
            column = [str(int(t.lower() == "true")) if t.lower() in truths else t for t in column]
        return tabular.parse_numbers(column, VALUE_NAME[kind], where)
    if isinstance(column, list):
        return plain_floats(column, kind, where)
    import narwhals as nw

    refuse_missing(column, where)
    if isinstance(column.dtype, _wide()):
        return plain_floats(column.to_list(), kind, where)
    if isinstance(column.dtype, nw.Boolean) and kind == "qrels":
        column = column.cast(nw.Int8)
    if isinstance(column.dtype, nw.Decimal):
        column = column.cast(nw.Float64)
    if not column.dtype.is_numeric():
        raise errors.ValueRangeError(
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

    if not isinstance(backend, str) or backend not in _BACKENDS:
        raise errors.UsageError(f"Unknown backend {backend!r:.80}. Known: {', '.join(_BACKENDS)}.")
    package = errors.need(backend, f"a {backend} data frame", _BACKENDS[backend])
    frame = nw.from_dict(columns, backend=package)
    if backend != "pandas":
        frame = frame.with_columns(selectors.by_dtype(nw.Float64).fill_nan(None))
    return frame.to_native()
