"""Columns of a user's table: open the file, pick columns by role, say where a value stands.

A table is CSV, TSV, JSON, JSONL or parquet, or the arrays of an npz file. `open_table` gives its
names; its `find` and `require` pick columns by what they hold, `choose` by the name in
`FILE:COLUMN`. Cells of CSV and TSV are always text, so '007' stays '007'; JSON and parquet know
the difference between 7 and "7". Parquet files are not trusted: a few bytes may claim any number
of rows, so text stays a dictionary of distinct values until the size of all rows was counted.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.core.on_demand import OnDemand
from assay.core.text import did_you_mean, parse_whole
from assay.core.work import parse_python
from assay.errors import AssayError, FormatError, IdError, MismatchError, ValueRangeError, need
from assay.io import streams
from assay.io.streams import LONGEST_LINE, FilePath

if TYPE_CHECKING:
    from assay.io import arrays
    from assay.io.plain_data import parse_json
else:  # TREC text needs none of them, nor the csv module
    arrays = OnDemand("assay.io.arrays")
    parse_json = OnDemand("assay.io.plain_data").parse_json

# Says where a row stands, for messages: "run.csv, line 7" or "query 'q1'".
Where = Callable[[int], str]

BATCH: Final = 1 << 14  # rows
_BATCH_OF_PARQUET: Final = 1 << 16
_WEIGHT_OF_VALUE: Final = 64  # bytes of a value once it is a Python object in a list
_NOT_IN_NUMBER: Final = re.compile(r"[^0-9+\-.eE]")

_QUERY_IDS: Final = ("queryid", "qid", "topicid", "topicno", "topic")
_QUESTIONS: Final = (
    *("question", "questiontext", "querytext", "userinput", "prompt", "questions", "userquestion"),
    *("userquery", "searchquery", "searchterm"),
)
_DOC_IDS: Final = (
    *("docid", "docno", "documentid", "corpusid", "passageid", "pid", "did"),
    *("chunkid", "contextid", "nodeid"),
)

# Documents that somebody named relevant to a question: `relevant_doc`, `gold_chunk_ids`, … Ids come
# before texts, such as reference_context_ids before reference_contexts in files for Ragas.
_RELEVANT_DOCS: Final = tuple(
    f"{mark}{thing}{end}"
    for end in ("ids", "id", "s", "")
    for mark in (
        *("relevant", "gold", "golden", "expected", "correct", "positive", "reference"),
        *("groundtruth", "target", "true", "supporting", "matching", "answer"),
    )
    for thing in (
        *("doc", "document", "passage", "chunk", "context", "node", "source", "section"),
        *("file", "page", "url", "item", "article"),
    )
)
_BARE_DOCS: Final = ("relevantids", "relevant", "positives", "positive", "gold", "golds")
_DOC_LISTS: Final = (
    *("docids", "documentids", "chunkids", "contextids", "ids", "docs", "documents"),
    *("filename", "filepath", "file", "path", "url", "source", "sources", "chunk"),
)

# The spellings of a column by what it holds. Case, '-', '_', '.' and spaces are ignored. Earlier
# spellings win: a table with `qid` and `query` has ids in the first and texts in the second.
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    # runs and qrels
    "query": (*_QUERY_IDS, "questionid", "query", "q", *_QUESTIONS),
    "question": (*_QUESTIONS, "query", "text"),
    "doc": (*_DOC_IDS, "document", "doc"),
    "judged query": (*_QUERY_IDS, "questionid", "query", "q", *_QUESTIONS, "text"),
    "judged doc": (*_RELEVANT_DOCS, *_DOC_IDS, "document", "doc", *_BARE_DOCS, *_DOC_LISTS),
    "score": ("score", "similarity", "sim"),
    "rank": ("rank",),
    "grade": (
        *("grade", "relevance", "rel", "label", "judgment", "judgement", "score", "rating"),
        *("relevancescore", "relevancegrade", "relevancelabel", "isrelevant", "relevant"),
        *("gradedrelevance", "relevancelevel", "relevancy", "relscore", "gain"),
    ),
    "subtopic": ("subtopicid", "subtopic", "intent", "aspect", "facet", "iteration", "iter"),
    "span start": ("start", "startindex", "startchar", "startoffset", "charstart", "begin"),
    "span end": ("end", "endindex", "endchar", "endoffset", "charend", "stop"),
    "span text": ("content", "excerpt", "quote", "passagetext", "spantext"),
    "spans": ("references", "spans", "highlights"),
    # collections
    "doc id": ("id", *_DOC_IDS),
    "doc text": ("text", "contents", "content", "body", "passage", "document", "doc"),
    "doc title": ("title",),
    "query id": ("id", *_QUERY_IDS),
    "query text": ("text", "query", "question", "contents", "title"),
    "answered query": ("id", "queryid", "qid", "query", "question", "text"),
    "answers": ("answers", "answer", "goldanswers"),
    # values of many tasks
    "system": ("system", "systemname", "model", "modelname", "run", "runname", "name"),
    "task": ("task", "taskname", "dataset", "datasetname", "collection"),
    "item": ("queryid", "qid", "topicid", "query", "topic", "q", "example", "item"),
    "value": ("value", "score", "mainscore", "result"),
    # predictions
    "sample": ("queryids", "queryid", "sampleid", "id"),
    "scores": ("scores", "logits"),
    "target": ("targets", "target", "truey", "groundtruth", "label", "labels"),
    "candidates": ("candidates",),
}


def pick_column(names: Sequence[str], role: str, source: str) -> str | None:
    """Return the column that holds `role`, or None.

    Args:
        names: The columns that there are.
        role: A key of `ROLES`.
        source: Where the names stand, for the message.

    Raises:
        FormatError: Two columns have the same spelling.

    >>> pick_column(["query-id", "Query", "score"], "query", "test.tsv")
    'query-id'
    """
    # What stands in brackets, as in `Grade (0-3)`, counts where no column is named without it.
    for ignored in ("[-_. ]", r"\(.*?\)|[\W_]"):
        plain = [re.sub(ignored, "", str(name).lower()) for name in names]
        for spelling in ROLES[role]:
            columns = [name for name, word in zip(names, plain, strict=True) if word == spelling]
            if len(columns) > 1:
                raise FormatError(
                    f"{source}: the columns {columns[0]!r} and {columns[1]!r} mean the same. "
                    "Remove or rename one."
                )
            if columns:
                return columns[0]
    return None


def require_columns(
    names: Sequence[str], roles: Mapping[str, str], source: str, advice: str
) -> list[str]:
    """Return the column of each role; `roles` maps a role to its word in messages.

    Raises:
        FormatError: A role has no column; the message names the first, and ends with `advice`.
    """
    columns = [pick_column(names, role, source) for role in roles]
    if None in columns:
        word = list(roles.values())[columns.index(None)]
        raise FormatError(
            f"{source}: cannot tell which column holds the {word}; found {list_names(names)}. "
            f"{advice}"
        )
    return [name for name in columns if name is not None]


def list_names(names: Sequence[Any]) -> str:
    """Quote the first column names for a message."""
    return ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"


def split_column(source: str) -> tuple[str, str]:
    """Split `FILE:COLUMN`; the column is empty where only a file is named.

    >>> split_column("groups.tsv:language"), split_column("groups.tsv")
    (('groups.tsv', 'language'), ('groups.tsv', ''))
    """
    path, colon, column = source.rpartition(":")
    return (source, "") if not colon or os.path.exists(source) else (path, column)


def choose_column(names: Sequence[str] | None, column: str, source: str) -> int:
    """Return the place of the column that a user named, by its name or its number from 1.

    Raises:
        FormatError: There is none; the message names the nearest.
    """
    if names is not None and column in names:
        return list(names).index(column)
    number = parse_whole(column) or 0
    if number > 0:
        return number - 1
    there = f"{', '.join(names)}.{did_you_mean(column, names)}" if names else "no header."
    raise FormatError(f"{source} has no column {column!r}; it has: {there}")


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, of records or of a data frame.

    Args:
        source: The file, for messages.
        names: The columns that there are.
        where: Says where a row stands.
        read: Reads columns by their names, a batch of rows at a time; None is a missing cell.
        head: Where the names stand, for messages.
        is_text: Whether every cell is text.
    """

    source: str
    names: Sequence[str]
    where: Where
    read: Callable[[Sequence[str]], Iterator[list[Any]]]
    head: str = ""
    is_text: bool = False

    def find(self, role: str) -> str | None:
        """Return the column of a role, or None."""
        return pick_column(self.names, role, self.head or self.source)

    def require(self, roles: Mapping[str, str], advice: str) -> list[str]:
        """Return the column of each role, as `require_columns`."""
        return require_columns(self.names, roles, self.head or self.source, advice)

    def choose(self, column: str) -> str:
        """Return the column that a user named, by its name or its number from 1."""
        place = choose_column(self.names, column, self.source)
        if place >= len(self.names):
            raise FormatError(f"{self.source} has {len(self.names)} columns, not {column}.")
        return self.names[place]

    def batches(self, names: Sequence[str], gaps: Collection[str] = ()) -> Iterator[list[Any]]:
        """Read columns a batch of rows at a time; only those in `gaps` may have missing cells."""
        n_rows = 0
        for columns in self.read(names):
            for name, column in zip(names, columns, strict=True):
                if not self.is_text and name not in gaps and isinstance(column, list):
                    refuse_gap(column, name, shift(self.where, n_rows))
            yield columns
            n_rows += len(columns[0])

    def columns(self, names: Sequence[str], gaps: Collection[str] = ()) -> list[Any]:
        """Read whole columns."""
        batches = list(self.batches(names, gaps))
        if len(batches) == 1:
            return batches[0]
        return [list(chain.from_iterable(parts)) for parts in zip(*batches, strict=True)]


def refuse_gap(column: Sequence[Any], name: str, where: Where) -> None:
    """Refuse a column with a missing cell, and say where it is."""
    row = next((row for row, cell in enumerate(column) if cell is None), None)
    if row is not None:
        raise missing_cell(name, where(row))


def missing_cell(name: str, place: str) -> IdError | ValueRangeError:
    """Return the error of a cell that is missing."""
    kind = IdError if name.strip("_").lower() == "id" else ValueRangeError
    return kind(f"{place}: column {name!r} is missing. Fill it or drop the row.")


def shift(where: Where, start: int) -> Where:
    """Return `where` for the rows of a batch that begins at row `start`."""
    return lambda row: where(start + row)


class Dialect(NamedTuple):
    """How the cells and lines of a delimited file are written."""

    delimiter: str = ","
    quotes: bool = True
    strict: bool = True
    skip_spaces: bool = True
    longest: int = LONGEST_LINE


def open_table(
    path: FilePath,
    what: str,
    *,
    layout: Dialect | None = None,
    unnamed: Callable[[list[str]], Sequence[str] | None] | None = None,
) -> FileTable:
    """Open a CSV, TSV, JSON, JSONL, parquet or npz file; the ending or the content tells which.

    Args:
        path: The file.
        what: What it should hold, for the message: "a table of tasks".
        layout: How cells are written in CSV and TSV; the ending says the delimiter.
        unnamed: Returns the names of the columns where the first line of CSV or TSV has none.

    Raises:
        FormatError: The file is no table, or damaged.
    """
    name, format = os.fspath(path), streams.find_format(path)
    layout = layout or Dialect()
    if format in ("csv", "tsv"):
        delimiter = "," if format == "csv" else "\t"
        return open_delimited(path, layout._replace(delimiter=delimiter), unnamed)
    if format in ("json", "jsonl"):
        records, where = read_records(path, format, longest=layout.longest)
        if not isinstance(records, list):
            raise FormatError(f"{name}: expected a JSON array of records, found {records!r:.40}.")
        return table_of_records(records, where, name)
    if format == "parquet":
        return open_parquet_table(path)
    if format == "npz":
        return _open_arrays(name)
    raise FormatError(f"{name}: {what} must end in .csv, .tsv, .json, .jsonl or .parquet.")


# CSV and TSV


def open_delimited(
    path: FilePath,
    layout: Dialect,
    unnamed: Callable[[list[str]], Sequence[str] | None] | None = None,
) -> FileTable:
    """Open a CSV or TSV file; `unnamed` gives names where the first line is no header."""
    name = os.fspath(path)
    rows = _rows(_reader(path, layout), name)
    with _long_cells(layout):
        first = next(rows, None)
    if first is None:
        raise FormatError(f"{name} holds only blank lines. Check the file.")
    names = unnamed(first) if unnamed is not None else None
    n_headers = int(names is None)
    header = first if names is None else names
    # The first reading goes on behind the header; another one opens the file again.
    opened = [rows if n_headers else chain([first], rows)]

    def where(row: int) -> str:
        return f"{name}, line {_line_number(path, layout, row + n_headers)}"

    def read(columns: Sequence[str]) -> Iterator[list[Any]]:
        again = islice(_rows(_reader(path, layout), name), n_headers, None)
        body = opened.pop() if opened else again
        places = [list(header).index(column) for column in columns]
        n_rows = 0

        def take_rows() -> list[list[str]]:
            with _long_cells(layout):
                return list(islice(body, BATCH))

        while batch := take_rows():
            require_width(batch, len(header), shift(where, n_rows))
            yield [[row[place] for row in batch] for place in places]
            n_rows += len(batch)
        if not n_rows:
            raise FormatError(f"{name} holds a header but no rows. Check the file.")

    return FileTable(name, header, where, read, head=f"{name}, first line", is_text=True)


def numbered_rows(
    path: FilePath, delimiter: str = ",", layout: Dialect | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Read the cells of each line that is not blank, with the line in which they end."""
    reader = _reader(path, layout or Dialect(delimiter))
    return ((reader.line_num, row) for row in _rows(reader, os.fspath(path)))


def find_delimiter(path: FilePath, n_lines: int = 1) -> str:
    """Return a tab if one of the first lines holds one, else a comma."""
    return "\t" if any("\t" in line for line in islice(streams.read_lines(path), n_lines)) else ","


def _reader(path: FilePath, layout: Dialect) -> Any:
    import csv

    lines = streams.read_lines(path, longest=layout.longest)
    head = next(lines, "")
    # Excel separates by semicolons where a comma is the decimal sign, and copies cells with tabs.
    separators = set(re.sub('"[^"]*"', "", head)) & {",", ";", "\t"}
    return csv.reader(
        chain([head], lines),
        delimiter=separators.pop()
        if layout.delimiter == "," and len(separators) == 1
        else layout.delimiter,
        strict=layout.strict,
        skipinitialspace=layout.skip_spaces,
        quoting=csv.QUOTE_MINIMAL if layout.quotes else csv.QUOTE_NONE,
    )


def _rows(reader: Any, name: str) -> Iterator[list[str]]:
    """Yield the rows that are not blank."""
    import csv

    try:
        yield from filter(None, reader)
    except csv.Error as error:
        # What follows " - " speaks to programmers.
        place, words = f"{name}, line {reader.line_num}", str(error).partition(" - ")[0]
        raise FormatError(f"{place}: {words}. Check the quotes and the line ends.") from None


@contextmanager
def _long_cells(layout: Dialect) -> Iterator[None]:
    """Let cells be as long as lines where lines may be long.

    The csv module limits cells to 128 kB unless changed, for the whole process.
    """
    import csv

    before = csv.field_size_limit()
    if layout.longest > LONGEST_LINE:
        csv.field_size_limit(layout.longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _line_number(path: FilePath, layout: Dialect, row: int) -> int:
    """Return the line in which a row ends: quoted cells and blank lines count, too."""
    reader = _reader(path, layout)
    with _long_cells(layout):
        next(islice(_rows(reader, os.fspath(path)), row, None))
    return int(reader.line_num)


def require_width(rows: Sequence[list[str]], width: int, where: Where) -> None:
    """Refuse lines with more or fewer cells than the header."""
    if set(map(len, rows)) != {width}:
        at = next(at for at, row in enumerate(rows) if len(row) != width)
        raise FormatError(
            f"{where(at)}: expected {width} columns, found {len(rows[at])}: "
            f"{repr(rows[at])[:80]}. Check separators and quotes."
        )


def parse_numbers(texts: Sequence[str], word: str, where: Where) -> Floats:
    """Parse decimal numbers only: Python takes 'nan', '1_000' and digits of other scripts, too."""
    with suppress(ValueError):
        if _NOT_IN_NUMBER.search("".join(texts)) is None:
            return np.fromiter(map(float, texts), np.float64, len(texts))
    at = next(at for at, text in enumerate(texts) if not is_number(text))
    raise FormatError(
        f"{where(at)}: the {word} {texts[at][:60]!r} is not a finite number. "
        "Write it like 12, -0.5 or 1.5e-3."
    )


def is_number(text: str) -> bool:
    """Tell whether a text is a decimal number."""
    with suppress(ValueError):
        float(text)
        return _NOT_IN_NUMBER.search(text) is None
    return False


def parse_list(text: str, place: str) -> Any:
    """Return a list as Python or JSON write it; anything else is one text."""
    if not text.startswith("["):
        return text
    try:
        return parse_python(lambda: ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return parse_json(text, place)


def read_groups(source: str, queries: Ids) -> tuple[str, dict[str | int, str]]:
    """Read the column's name and {query: group} from `FILE` or `FILE:COLUMN`.

    A first line whose first cell is not one of the queries is the header. COLUMN is a name from the
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
        raise FormatError(f"{path} is empty. Write a query and its group on each line.")
    query_of: dict[str, str | int] = {str(query): query for query in queries}
    header = rows.pop(0)[1] if rows[0][1][0] not in query_of else None
    if not column and header is not None and len(header) < 2:
        raise FormatError(
            f"{path}: the first line has one column, {header[0][:60]!r}; each line needs a query "
            "and its group. Separate columns by tabs, commas or semicolons."
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
                f"{path}, line {line}: query {cells[0]!r} is in group {groups[query]!r} and in "
                f"group {cells[place]!r}. Keep one of them."
            )
    absent = [query for query in query_of if query_of[query] not in groups]
    if near := describe_near(absent, unknown):
        raise MismatchError(f"{path} has no group for {name_few(absent)}.{near} Write ids alike.")
    if unknown and not groups:
        raise MismatchError(
            f"None of the {len(query_of):,} queries is in {path} (missing: {name_few(absent, 3)}; "
            f"there: {name_few(unknown, 3)}). Pass the groups of these queries."
        )
    return name or "group", groups


# JSON and JSONL


def read_records(path: FilePath, format: str, *, longest: int = LONGEST_LINE) -> tuple[Any, Where]:
    """Read the value of a JSON file, or the list of values of a JSONL file, and where each is."""
    name = os.fspath(path)
    if format == "json":
        return parse_json(streams.read_text(path), name), f"{name}, entry {{}}".format
    lines = enumerate(streams.read_lines(path, longest=longest), 1)
    numbered = ((number, line) for number, line in lines if not line.isspace())
    numbers: list[int] = []
    records: list[Any] = []
    while batch := list(islice(numbered, BATCH)):
        records += _parse_lines([line for _, line in batch], batch, name)
        numbers += [number for number, _ in batch]
    return records, lambda row: f"{name}, line {numbers[row]}"


def _parse_lines(lines: list[str], numbered: list[tuple[int, str]], name: str) -> list[Any]:
    """Parse many lines as one array, which is quicker; if that fails, one by one."""
    with suppress(FormatError):
        records: list[Any] = parse_json(f"[{','.join(lines)}]", name)
        # Each line begins and ends one value: the next must not end what it begins.
        ends = (text[0] + text[-1] for text in map(str.strip, lines))
        if len(records) == len(lines) and all(pair in ("{}", "[]") for pair in ends):
            return records
    return [parse_json(line, f"{name}, line {number}") for number, line in numbered]


def table_of_records(records: list[Any], where: Where, source: str) -> FileTable:
    """Take the keys of the first record as columns.

    >>> table_of_records([{"id": 1}, {"id": 2}], "row {}".format, "records").columns(["id"])
    [[1, 2]]
    """
    if not records:
        raise FormatError(f"{source} holds no records. Check the file.")
    require_kind(records, Mapping, "an object with named values", where)

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        yield [[record.get(name) for record in records] for name in names]

    return FileTable(source, list(records[0]), where, read)


def require_kind(records: list[Any], kind: Any, what: str, where: Where) -> None:
    """Refuse records of another type than `kind`, and say where the first is."""
    strange = {each for each in set(map(type, records)) if not issubclass(each, kind)}
    if strange:
        at = next(at for at, record in enumerate(records) if type(record) in strange)
        raise FormatError(
            f"{where(at)}: expected {what}, found {records[at]!r:.60} of type "
            f"{type(records[at]).__name__}."
        )


# Parquet and npz


def open_parquet_table(path: FilePath) -> FileTable:
    """Open a parquet file; columns are read as lists."""
    name = os.fspath(path)
    with open_parquet(path) as file:
        columns = list(file.schema_arrow.names)

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        table = read_columns(path, lambda _: list(names))
        yield [table.column(column).to_pylist() for column in names]

    return FileTable(name, columns, f"{name}, row {{}}".format, read)


def _open_arrays(name: str) -> FileTable:
    """Open the arrays of a .npz file as columns."""

    def read(names: Sequence[str]) -> Iterator[list[Any]]:
        loaded = arrays.load_npz(name, tuple(names))
        yield [loaded[column] for column in names]

    return FileTable(name, arrays.npz_keys(name), f"{name}, row {{}}".format, read)


def read_columns(path: FilePath, choose: Callable[[Sequence[str]], list[str]]) -> Any:
    """Return the columns of a parquet file that `choose` picks, as a pyarrow table."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    name = os.fspath(path)
    with open_parquet(path) as file:
        columns = choose(file.schema_arrow.names)
        size = os.stat(path).st_size
        streams.refuse_bomb(file.metadata.num_rows * len(columns) * _WEIGHT_OF_VALUE, size, name)
        batches, weight = [], 0
        for batch in file.iter_batches(batch_size=_BATCH_OF_PARQUET, columns=columns):
            batch.validate(full=True)  # that text is UTF-8 and in its dictionary
            weight += sum(map(_weigh, batch.columns))
            streams.refuse_bomb(weight, size, name)
            batches.append(batch)
        schema = batches[0].schema if batches else file.schema_arrow
        table = arrow.Table.from_batches(batches, schema).select(columns)
        types = [  # text is no dictionary any more
            (part.name, part.type.value_type if hasattr(part.type, "index_type") else part.type)
            for part in table.schema
        ]
        return table.cast(arrow.schema(types))


@contextmanager
def open_parquet(path: FilePath) -> Iterator[Any]:
    """Open a parquet file; whatever is wrong with it is named."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    parquet = need("pyarrow.parquet", "reading parquet files", "parquet")
    # What cannot be opened, or is empty, is refused in its own words.
    next(streams.open_chunks(path, 1))
    try:
        metadata = parquet.read_metadata(path)
        columns = map(metadata.schema.column, range(metadata.num_columns))
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        streams.refuse_bomb(8 * metadata.num_rows, os.stat(path).st_size, os.fspath(path))
        with parquet.ParquetFile(path, memory_map=False, read_dictionary=texts) as file:
            yield file
    except AssayError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise FormatError(
            f"{os.fspath(path)} is not a valid parquet file ({str(error)[:120]}). "
            "Fetch or write it again."
        ) from None


def _weigh(column: Any) -> int:
    """Estimate the bytes that the values of a column take as Python objects."""
    arrow = need("pyarrow", "reading parquet files", "parquet")
    weight = _WEIGHT_OF_VALUE * len(column)
    if isinstance(column, arrow.DictionaryArray):
        compute = need("pyarrow.compute", "reading parquet files", "parquet")
        lengths = compute.binary_length(column.dictionary).fill_null(0).to_numpy()
        return weight + int(lengths[column.indices.drop_null().to_numpy()].sum(dtype=np.int64))
    if isinstance(column, arrow.StructArray):
        return weight + sum(map(_weigh, column.flatten()))
    if hasattr(column, "flatten"):  # a list of any kind
        return weight + _weigh(column.flatten())
    return weight + int(column.nbytes)
