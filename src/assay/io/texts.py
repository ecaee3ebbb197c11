"""Texts with their ids from files: JSON lines, JSON, CSV, TSV, parquet, or a folder of texts.

Ids of a collection are text: a file may number its rows with JSON integers, and 7 is then '7', as
it is in every CSV. A file that mixes 7 and '7' is refused.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from assay.core import checks
from assay.core.ids import Ids
from assay.errors import FormatError, IdError, StorageError, UsageError
from assay.io.formats import ending_of
from assay.io.json_text import parse_json
from assay.io.lines import Where, pack_ids, pick_column
from assay.io.parquet import read_columns
from assay.io.streams import FilePath, read_lines, read_text

__all__ = [
    "Role",
    "TextColumns",
    "Texts",
    "as_text_ids",
    "check_texts",
    "find_text_columns",
    "join_title",
    "parquet_parts",
    "read_folder",
    "read_texts",
]

Role = Literal["doc", "query"]

# Case, '-', '_', '.' and spaces are ignored; earlier names win.
_ID: Final = {
    "doc": ("id", "docid", "docno", "documentid", "corpusid", "passageid", "pid", "did"),
    "query": ("id", "queryid", "qid", "topicid", "topicno", "topic"),
}
_TEXT: Final = {
    "doc": ("text", "contents", "content", "body", "passage", "document", "doc"),
    "query": ("text", "query", "question", "contents", "title"),
}


class TextColumns(NamedTuple):
    """Names of the fields; without an id, rows are numbered; a title comes before the text."""

    id: str | None
    text: str
    title: str | None


def find_text_columns(names: Sequence[str], role: Role, source: str) -> TextColumns:
    """Find id, text and title among the names; `source` is for the message.

    >>> find_text_columns(["_id", "title", "text"], "doc", "corpus.jsonl")
    TextColumns(id='_id', text='text', title='title')
    """
    text = pick_column(names, _TEXT[role], source)
    if text is None:
        shown = ", ".join(repr(str(name))[:40] for name in list(names)[:8]) or "none"
        raise FormatError(
            f"{source}: cannot tell which field holds the text; found {shown}. "
            f"Name it 'text', and the id '{'_id' if role == 'doc' else 'query_id'}'."
        )
    title = pick_column(names, ("title",), source) if role == "doc" else None
    return TextColumns(pick_column(names, _ID[role], source), text, title)


_FOLDER_ENDINGS: Final = (".txt", ".md", ".markdown")


def read_folder(folder: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Ids and texts of all text files below a folder, in the order of their ids.

    An id is the path with '/', white space written as %20: `guide/first%20steps.md`. Hidden files
    and folders, and links, are left out.
    """
    found = sorted(_files(Path(folder)))
    if not found:
        raise FormatError(f"{os.fspath(folder)} holds no {', '.join(_FOLDER_ENDINGS)} files.")
    return [name for name, _ in found], [_read(path) for _, path in found]


def _files(folder: Path) -> list[tuple[str, Path]]:
    def refuse(error: OSError) -> None:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}.") from error

    found = []
    for where, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(where, name)
            wanted = path.suffix.lower() in _FOLDER_ENDINGS and not name.startswith(".")
            if wanted and path.is_file() and not path.is_symlink():
                found.append((_id(path.relative_to(folder).as_posix()), path))
    return found


def _id(path: str) -> str:
    """White space would tear an id apart in a run file."""
    return "".join(quote(c) if c.isspace() or c == "%" else c for c in path)


def _read(path: Path) -> str:
    return read_text(path) if path.stat().st_size else ""


_LONGEST: Final = 256 << 20  # a line holds a whole document
_ENDINGS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_PARQUET: Final = (".parquet", ".pq")


class Texts(NamedTuple):
    """Ids, all text and each once, and the text of each."""

    ids: Ids
    texts: tuple[str, ...]


def read_texts(path: FilePath, role: Role) -> Texts:
    """Texts of documents or queries; the ending of the name says how they are written.

    A title, where there is one, comes before the text, with a space between. Records without an
    id are numbered from 0. A folder of parquet files, without texts, is one table.
    """
    if os.path.isdir(path):
        parts = parquet_parts(path)
        if parts and not _files(Path(path)):
            return _read_parquet(parts, role, os.fspath(path))
        return check_texts(*read_folder(path), role, f"{os.fspath(path)}, file {{}}".format)
    ending = ending_of(path)
    if ending in (".jsonl", ".ndjson"):
        return _read_json_lines(path, role)
    if ending == ".json":
        return _read_json(path, role)
    if ending in (".csv", ".tsv"):
        return _read_table(path, role, "," if ending == ".csv" else "\t")
    if ending in _PARQUET:
        return _read_parquet([Path(path)], role, os.fspath(path))
    raise UsageError(
        f"{os.fspath(path)}: texts are read from {', '.join(_ENDINGS)} (also .gz, .zst) or from a "
        "folder of .txt and .md files. Rename or convert it."
    )


def join_title(title: str, text: str) -> str:
    """The text of a document that has a title: both, with a space between.

    >>> join_title("Wings", "They lift."), join_title("", "They lift.")
    ('Wings They lift.', 'They lift.')
    """
    return f"{title} {text}".strip() if title else text


def as_text_ids(ids: Sequence[Any]) -> list[Any]:
    """Whole numbers as text, if all are; anything else as it is, to be checked."""
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in ids)
    return [str(one) for one in ids] if whole else list(ids)


def check_texts(ids: Sequence[Any], texts: Sequence[Any], role: Role, where: Where) -> Texts:
    """Ids and texts as they are, each id once; `where` names a row in messages."""
    packed = pack_ids(as_text_ids(ids), role, where)
    pair = packed.first_duplicate()
    if pair is not None:
        raise IdError(
            f"{where(pair[1])}: the {role} id {packed[pair[0]]!r} appears there a second time; the "
            f"first is {where(pair[0])}. Each {role} id must be unique."
        )
    for row, text in enumerate(texts):
        flaw = checks.flaw_of(text)  # an empty text has none, and is counted later
        if flaw:
            raise FormatError(f"{where(row)}: the text of {packed[row]!r} {flaw}.")
    return Texts(packed, tuple(texts))


def _read_json_lines(path: FilePath, role: Role) -> Texts:
    name = os.fspath(path)
    numbers, records = [], []
    for number, line in enumerate(read_lines(path, longest=_LONGEST), 1):
        if not line.isspace():
            numbers.append(number)
            records.append(parse_json(line, f"{name}, line {number}"))
    return _read_records(records, role, name, lambda row: f"{name}, line {numbers[row]}")


def _read_json(path: FilePath, role: Role) -> Texts:
    """A list of records or texts, or {id: text}."""
    name = os.fspath(path)
    data = parse_json(read_text(path), name)
    where = f"{name}, entry {{}}".format
    if isinstance(data, Mapping):
        return check_texts(list(data), list(data.values()), role, where)
    if not isinstance(data, list):
        raise FormatError(f"{name}: expected a JSON object or array, found {data!r:.40}.")
    return _read_records(data, role, name, where)


def _read_records(records: list[Any], role: Role, name: str, where: Where) -> Texts:
    if not records:
        raise FormatError(f"{name} holds no {role}.")
    if all(isinstance(one, str) for one in records):
        return check_texts(range(len(records)), records, role, where)
    odd = next((i for i, one in enumerate(records) if not isinstance(one, Mapping)), None)
    if odd is not None:
        raise FormatError(f"{where(odd)}: expected an object, found {records[odd]!r:.60}.")
    columns = find_text_columns(list(records[0]), role, where(0))
    ids = range(len(records)) if columns.id is None else _fields(records, columns.id, where)
    titles = [one.get(columns.title) or "" for one in records] if columns.title else None
    return check_texts(
        ids, _join_titles(titles, _fields(records, columns.text, where)), role, where
    )


def _fields(records: list[Any], key: str, where: Where) -> list[Any]:
    absent = next((i for i, one in enumerate(records) if key not in one), None)
    if absent is not None:
        raise FormatError(f"{where(absent)}: there is no {key!r} here, as there is in the first.")
    return [one[key] for one in records]


def _join_titles(titles: Sequence[Any] | None, texts: Sequence[Any]) -> list[Any]:
    if titles is None:
        return list(texts)
    return [
        join_title(title, text) if isinstance(title, str) and isinstance(text, str) else text
        for title, text in zip(titles, texts, strict=True)
    ]


def parquet_parts(folder: str | os.PathLike[str], name: str = "*") -> list[Path]:
    """The parquet files in a folder whose names match, by name."""
    found = [one for ending in _PARQUET for one in Path(folder).glob(f"{name}{ending}")]
    return sorted(one for one in found if one.is_file() and not one.name.startswith("."))


def _read_parquet(parts: Sequence[Path], role: Role, name: str) -> Texts:
    """One table in one or more files; all have the columns of the first."""
    ids: list[Any] = []
    texts: list[Any] = []
    for part in parts:
        columns: list[TextColumns] = []

        def choose(names: Sequence[str], part: Path = part, into: Any = columns) -> list[str]:
            into.append(find_text_columns(names, role, os.fspath(part)))
            return [one for one in into[0] if one is not None]

        table = read_columns(part, choose)
        found = columns[0]
        values = {one: table.column(one).to_pylist() for one in table.column_names}
        rows = range(len(ids), len(ids) + table.num_rows)
        titles = [one or "" for one in values[found.title]] if found.title else None
        ids += rows if found.id is None else values[found.id]
        texts += _join_titles(titles, values[found.text])
    if not texts:
        raise FormatError(f"{name} holds no {role}.")
    return check_texts(ids, texts, role, f"{name}, row {{}}".format)


def _read_table(path: FilePath, role: Role, delimiter: str) -> Texts:
    name = os.fspath(path)
    rows, numbers = _rows(path, delimiter, name)
    columns, body = _head(rows, role, name)
    first = len(rows) - len(body)

    def where(row: int) -> str:
        return f"{name}, line {numbers[row + first]}"

    width = len(rows[0])
    odd = next((i for i, row in enumerate(body) if len(row) != width), None)
    if odd is not None:
        found = len(body[odd])
        raise FormatError(f"{where(odd)}: expected {width} columns, found {found}.")
    if not body:
        raise FormatError(f"{name} holds a header and no lines.")
    names = rows[0] if first else ["id", "text"]
    place = {key: names.index(key) for key in filter(None, columns)}
    ids = range(len(body)) if columns.id is None else [row[place[columns.id]] for row in body]
    titles = [row[place[columns.title]] for row in body] if columns.title else None
    return check_texts(
        ids, _join_titles(titles, [row[place[columns.text]] for row in body]), role, where
    )


def _head(rows: list[list[str]], role: Role, name: str) -> tuple[TextColumns, list[list[str]]]:
    """What the columns are, and the rows below the header; two columns need none."""
    try:
        return find_text_columns(rows[0], role, f"{name}, first line"), rows[1:]
    except FormatError:
        if len(rows[0]) != 2:
            raise
    return TextColumns("id", "text", None), rows


def _rows(path: FilePath, delimiter: str, name: str) -> tuple[list[list[str]], list[int]]:
    """Rows that are not blank, and the line that each ends in.

    Quotes mean something in CSV only: in TSV, texts are full of quotes that nobody closed.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    lines = read_lines(path, longest=_LONGEST)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, quoting=quoting)
    rows, numbers = [], []
    try:
        with _long_cells():
            for row in reader:
                if row:
                    rows.append(row)
                    numbers.append(reader.line_num)
    except csv.Error as error:
        raise FormatError(
            f"{name}, line {reader.line_num}: {error}. Check the quotes and the line ends."
        ) from None
    if not rows:
        raise FormatError(f"{name} holds no lines, only blank ones.")
    return rows, numbers


@contextmanager
def _long_cells() -> Iterator[None]:
    """The csv module limits cells to 128 kB unless changed, for the whole process."""
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)
