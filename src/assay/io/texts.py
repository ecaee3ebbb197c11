"""Texts with their ids from files: JSON lines, JSON, CSV, TSV, parquet, or a folder of texts.

Ids of a collection are text: a file may number its rows with JSON integers, and 7 is then '7', as
it is in every CSV. A file that mixes 7 and '7' is refused.

`ir:ID` is a collection of the package ir_datasets, such as ir:beir/scifact/test. The package
fetches what is not on this machine yet, and says where from.

Documents may be cut into chunks by a stated rule; every character that is not white space lies in
some chunk:

    characters:1000:200   windows of 1000 characters, each sharing 200 with the one before
    tokens:128:16         windows of words and punctuation marks, as a regular expression finds them
    sentences:5:1         windows of sentences
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.specs import Consent
from assay.errors import FormatError, IdError, UsageError, error_text, need
from assay.io import columns as tabular
from assay.io.lines import number_ids, pack_ids
from assay.io.streams import FilePath, ending_of, missing_file, read_text, unreadable

Role = Literal["doc", "query"]


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
    advice = f"Name it 'text', and the id '{'_id' if role == 'doc' else 'query_id'}'."
    text = tabular.require_columns(names, {f"{role} text": "text"}, source, advice)[0]
    title = tabular.pick_column(names, "doc title", source) if role == "doc" else None
    return TextColumns(tabular.pick_column(names, f"{role} id", source), text, title)


# What a folder is read for, if nobody says otherwise; any other text goes by choice.
_HTML: Final = (".html", ".htm", ".xhtml")
FOLDER_ENDINGS: Final = (
    *(".txt", ".text", ".md", ".markdown", ".mdx", ".rst", ".org", ".adoc", ".asciidoc"),
    *_HTML,
)
_NAMED: Final = 5


class TextFolder(os.PathLike[str]):
    """The text files below a folder as documents, by the endings of their names.

    An id is the path with '/', white space written as %20: `guide/first%20steps.md`. Hidden files
    and folders are passed over; links and files of other endings are left out, and counted.

    Args:
        folder: The folder.
        endings: Endings such as ".py", read as well as `FOLDER_ENDINGS`.

    Raises:
        UsageError: An ending is not written as ".EXT".

    Example:
        folder = TextFolder("notes", [".py"])
        collection = load_collection(folder, "queries.jsonl", "qrels.tsv")
        folder.describe_left_out()
    """

    def __init__(self, folder: FilePath, endings: Iterable[str] = ()) -> None:
        self._folder = Path(folder)
        more = sorted({f".{ending.removeprefix('.').lower()}" for ending in endings})
        if odd := [ending for ending in more if not re.fullmatch(r"(\.[\w+-]+)+", ending)]:
            raise UsageError(f"Cannot read extension {odd[0]!r:.40}. Write it like .py or .tex.")
        self.endings = (*FOLDER_ENDINGS, *more)

    def __fspath__(self) -> str:
        """Return the path."""
        return str(self._folder)

    def read(self) -> tuple[list[str], list[str]]:
        """Return ids and texts, in the order of the ids; HTML as its text."""
        if not self.files:
            kinds = ", ".join(self.endings)
            raise FormatError(f"{self._folder} holds no {kinds} files. {self.describe_left_out()}")
        # White space would tear an id apart in a run file.
        ids = {
            "".join(quote(c) if c.isspace() or c == "%" else c for c in name): self._folder / name
            for name in self.files
        }
        return sorted(ids), [_read_document(ids[id]) for id in sorted(ids)]

    def describe_left_out(self) -> str:
        """Return how many files were left out, of which kinds; empty if none was."""
        kinds = Counter(Path(name).suffix.lower() or "no ending" for name in self.left_out)
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_NAMED))
        more = ", …" if len(kinds) > _NAMED else ""
        files = "1 file" if len(self.left_out) == 1 else f"{len(self.left_out):,} files"
        return f"{files} of {self._folder} left out ({listed}{more})" if kinds else ""

    @cached_property
    def left_out(self) -> list[str]:
        """The names of files that are no documents."""
        return [name for name in self._names if name not in set(self.files)]

    @cached_property
    def files(self) -> list[str]:
        """The names of the files to read."""
        texts = [name for name in self._names if name.lower().endswith(self.endings)]
        paths = {name: self._folder / name for name in texts}
        return [name for name in texts if paths[name].is_file() and not paths[name].is_symlink()]

    @cached_property
    def _names(self) -> list[str]:
        def refuse(error: OSError) -> None:
            raise unreadable(error.filename, error) from error

        paths: list[Path] = []
        for where, folders, names in os.walk(self._folder, onerror=refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [Path(where, name) for name in names if not name.startswith(".")]
        return sorted(path.relative_to(self._folder).as_posix() for path in paths)


def _read_document(path: Path) -> str:
    if not path.stat().st_size:
        return ""
    if path.suffix.lower() not in _HTML:
        return read_text(path)
    raw = path.read_bytes()
    stated = re.search(rb"charset=[\"']?([\w-]+)", raw[:2048])
    try:
        return html_text(raw.decode(stated[1].decode() if stated else "utf-8"))
    except (UnicodeDecodeError, LookupError):
        return html_text(read_text(path))


_UNSEEN: Final = ("script", "style", "template", "svg")
_INLINE: Final = re.compile(
    "a|abbr|b|bdi|bdo|cite|code|em|font|i|kbd|mark|q|s|small|span|strong|sub|sup|tt|u|var|wbr"
)


class _HtmlText(HTMLParser):
    """Collects the text of a page: a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._unseen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a line, unless the tag stands inside one."""
        self._unseen += [tag] if tag in _UNSEEN else []
        self.handle_data("" if _INLINE.fullmatch(tag) else "\n")

    def handle_endtag(self, tag: str) -> None:
        """End a line, or what is not seen."""
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        self.handle_data("" if _INLINE.fullmatch(tag) else "\n")

    def handle_data(self, data: str) -> None:
        """Take the text."""
        self.parts += [] if self._unseen else [data]


def html_text(page: str) -> str:
    """Return the text of an HTML page, without scripts and styles; blocks are lines.

    >>> html_text("<title>A &amp; B</title><style>p {}</style><p>One <b>t</b>wo.<p>Three.")
    'A & B\\nOne two.\\nThree.'
    """
    parser = _HtmlText()
    parser.feed(re.sub(r"<!\[[^>]*>?", "", page))  # marked sections, of which the parser fails
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).splitlines())
    return "\n".join(filter(None, lines))


_LONGEST: Final = 256 << 20  # a line holds a whole document
_ENDINGS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_PARQUET: Final = (".parquet", ".pq")


class Texts(NamedTuple):
    """Ids, all text and each once, and the text of each."""

    ids: Ids
    texts: tuple[str, ...]


def read_texts(path: FilePath, role: Role) -> Texts:
    """Return texts of documents or queries; the ending of the name says how they are written.

    A title, where there is one, comes before the text, with a space between. Records without an
    id are numbered from 0. A folder of parquet files, without texts, is one table.
    """
    if os.path.isdir(path):
        parts = parquet_parts(path)
        folder = path if isinstance(path, TextFolder) else TextFolder(path)
        if parts and not folder.files:
            return _read_parquet(parts, role, os.fspath(path))
        texts = check_texts(*folder.read(), role, f"{os.fspath(path)}, file {{}}".format)
        if folder.left_out and folder is not path:  # nobody else can tell
            warnings.warn(f"{folder.describe_left_out()}.", stacklevel=2)
        return texts
    ending = ending_of(path)
    if ending not in (*_ENDINGS, ".pq"):
        if not os.path.exists(path):
            raise UsageError(str(missing_file(os.fspath(path))))
        raise UsageError(
            f"Cannot read texts from {os.fspath(path)}. Convert it to {', '.join(_ENDINGS)} (also "
            f".gz, .zst), or give a folder of {', '.join(FOLDER_ENDINGS)} files."
        )
    if ending in _PARQUET:
        return _read_parquet([Path(path)], role, os.fspath(path))
    if ending in (".csv", ".tsv"):
        # Quotes mean something in CSV only: in TSV, texts are full of quotes that nobody closed.
        layout = tabular.Dialect(quotes=ending == ".csv", skip_spaces=False, longest=_LONGEST)
        table = tabular.open_table(
            path, "a table of texts", layout=layout, unnamed=partial(_unnamed, role)
        )
        return check_texts(*_read_rows(table, role), role, table.where)
    return _read_json(path, role, "json" if ending == ".json" else "jsonl")


def join_title(title: str, text: str) -> str:
    """Return the text of a document that has a title: both, with a space between.

    >>> join_title("Wings", "They lift."), join_title("", "They lift.")
    ('Wings They lift.', 'They lift.')
    """
    return f"{title} {text}".strip() if title else text


def as_text_ids(ids: Sequence[Any]) -> list[Any]:
    """Return whole numbers as text, if all are; anything else unchanged."""
    whole = all(isinstance(id, int) and not isinstance(id, bool) for id in ids)
    return [str(id) for id in ids] if whole else list(ids)


def check_texts(
    ids: Sequence[Any], texts: Sequence[Any], role: Role, where: tabular.Where
) -> Texts:
    """Return ids and texts as they are, each id once; `where` names a row in messages."""
    packed = pack_ids(as_text_ids(ids), role, where)
    pair = packed.first_duplicate()
    if pair is not None:
        raise IdError(
            f"{where(pair[1])}: the {role} id {packed[pair[0]]!r} appears twice, first in "
            f"{where(pair[0])}. Each {role} id must be unique; remove or rename one."
        )
    for row, text in enumerate(texts):
        flaw = checks.flaw_of(text)  # an empty text has none, and is counted later
        if flaw:
            raise FormatError(f"{where(row)}: the text of {packed[row]!r} {flaw}.")
    return Texts(packed, tuple(texts))


def _unnamed(role: Role, first: list[str]) -> list[str] | None:
    """Return the names of two columns without a header, an id and a text."""
    try:
        find_text_columns(first, role, "")
    except FormatError:
        return ["id", "text"] if len(first) == 2 else None
    return None


def _read_json(path: FilePath, role: Role, format: str) -> Texts:
    """Read records or texts, one a line in JSONL, or {id: text}."""
    name = os.fspath(path)
    data, where = tabular.read_records(path, format, longest=_LONGEST)
    if isinstance(data, Mapping):
        return check_texts(list(data), list(data.values()), role, where)
    if not isinstance(data, list):
        raise FormatError(f"{name}: expected a JSON object or array, found {data!r:.40}.")
    if not data:
        raise FormatError(f"{name} holds no {role}. Check the file.")
    if all(isinstance(record, str) for record in data):
        return check_texts(range(len(data)), data, role, where)
    table = tabular.table_of_records(data, where, name)
    return check_texts(*_read_rows(table, role), role, where)


def _read_rows(table: tabular.FileTable, role: Role, start: int = 0) -> tuple[list[Any], list[Any]]:
    """Read ids and texts; rows without an id are numbered from `start`."""
    columns = find_text_columns(table.names, role, table.head or table.source)
    names = [name for name in columns if name is not None]
    cells = dict(zip(names, table.columns(names, gaps=[columns.title or ""]), strict=True))
    texts = cells[columns.text]
    ids = range(start, start + len(texts)) if columns.id is None else cells[columns.id]
    if columns.title:
        texts = [
            join_title(title, text) if isinstance(title, str) and isinstance(text, str) else text
            for title, text in zip(cells[columns.title], texts, strict=True)
        ]
    return list(ids), list(texts)


def parquet_parts(folder: FilePath, name: str = "*") -> list[Path]:
    """Return the parquet files in a folder whose names match, by name."""
    paths = [path for ending in _PARQUET for path in Path(folder).glob(f"{name}{ending}")]
    return sorted(path for path in paths if path.is_file() and not path.name.startswith("."))


def _read_parquet(parts: Sequence[Path], role: Role, name: str) -> Texts:
    """Read one table in one or more files; all have the columns of the first."""
    ids: list[Any] = []
    texts: list[Any] = []
    for part in parts:
        more_ids, more_texts = _read_rows(tabular.open_parquet_table(part), role, len(ids))
        ids += more_ids
        texts += more_texts
    if not texts:
        raise FormatError(f"{name} holds no {role}. Check the file.")
    return check_texts(ids, texts, role, f"{name}, row {{}}".format)


_PREFIX: Final = "ir:"
_PACKAGE: Final = "ir_datasets"


def is_ir(corpus: object) -> bool:
    """Tell whether this names a collection of ir_datasets."""
    return isinstance(corpus, str) and corpus.startswith(_PREFIX)


def allow_corpus(paths: list[str], params: Mapping[str, Any], consent: Consent, place: str) -> None:
    """Refuse a collection of a stored command that may be downloaded, or an address."""
    for path in paths:
        allow_ir(path, consent, place)
        if "://" in path:
            consent.check_endpoint(path, place)


def allow_ir(corpus: object, consent: Consent, place: str) -> None:
    """Refuse to download a collection named in a config unless allowed."""
    if is_ir(corpus):
        consent.check_download(f"the collection {corpus!r}", _PACKAGE, place)


def read_ir(corpus: str) -> tuple[Texts, Texts, Qrels]:
    """Read documents, queries and judgments."""
    package = need(_PACKAGE, f"The collection {corpus!r}", "ir")
    name = corpus.removeprefix(_PREFIX)
    try:
        data = package.load(name)
    except KeyError:
        raise UsageError(f"ir_datasets has no collection {name!r:.80}. Check the name.") from None
    for part, words in {"docs": "documents", "queries": "queries", "qrels": "judgments"}.items():
        if not getattr(data, f"has_{part}")():
            raise UsageError(f"{corpus} has no {words}. Name a part of it, such as a split.")
    try:
        docs, queries = list(data.docs_iter()), list(data.queries_iter())
        judged = list(data.qrels_iter())
    except Exception as error:  # another's package: a download fails in many ways
        raise FormatError(
            f"Cannot read {corpus}: {error_text(error)}. Download it by ir_datasets first."
        ) from error
    return (
        _texts([(record.doc_id, record) for record in docs], "doc", corpus),
        _texts([(record.query_id, record) for record in queries], "query", corpus),
        _qrels(judged, corpus),
    )


def _texts(records: list[tuple[Any, Any]], role: Role, name: str) -> Texts:
    if not records:
        raise FormatError(f"{name} holds no {role}. Check the file.")
    texts = [_text(record) for _, record in records]
    return check_texts([id for id, _ in records], texts, role, f"{name}, {role} {{}}".format)


def _text(record: Any) -> Any:
    """Return what the package takes for the text of a record, or title and text."""
    if not hasattr(record, "default_text"):
        return join_title(getattr(record, "title", None) or "", record.text)
    text = record.default_text()
    return text.removeprefix(" ") if getattr(record, "title", None) == "" else text  # as in files


def _qrels(judged: list[Any], name: str) -> Qrels:
    where = f"{name}, judgment {{}}".format
    query_ids, queries = number_ids(pack_ids([pair.query_id for pair in judged], "query", where))
    doc_ids, docs = number_ids(pack_ids([pair.doc_id for pair in judged], "doc", where))
    grades = np.array([float(judgment.relevance) for judgment in judged])
    return Judgments.from_pairs(query_ids, doc_ids, queries, docs, grades)


# Chunks


UNITS: Final = ("characters", "sentences", "tokens")
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
# A sentence ends with a mark and white space, or with an empty line; the rest is one, too.
_SENTENCE: Final = re.compile(r".+?(?:[.!?…。！？]+[\"'”’)\]]*(?=\s)|\n\s*\n|\Z)", re.S)


@dataclass(frozen=True)
class ChunkRule:
    """How documents are cut: windows of `size` units, each sharing `overlap` with the last.

    >>> ChunkRule.parse("sentences:5:1")
    ChunkRule(unit='sentences', size=5, overlap=1)
    >>> str(ChunkRule("tokens", 128))
    'tokens:128:0'
    """

    unit: str
    size: int
    overlap: int = 0

    def __post_init__(self) -> None:
        """Refuse a rule that would not move on."""
        if self.unit not in UNITS:
            raise UsageError(f"Unknown chunk unit {self.unit!r}. Use one of {', '.join(UNITS)}.")
        checks.check_cutoff(self.size, "The size of chunks")
        if self.overlap:
            checks.check_cutoff(self.overlap, "The overlap of chunks")
        if self.overlap >= self.size:
            raise UsageError(f"Chunks by {self}: the overlap must be smaller than the size.")

    @classmethod
    def parse(cls, text: str) -> ChunkRule:
        """Read UNIT:SIZE or UNIT:SIZE:OVERLAP."""
        match = re.fullmatch(r"(\w+):([0-9]{1,15})(?::([0-9]{1,15}))?", text)
        if match is None:
            raise UsageError(
                f"Cannot read the chunk rule {text[:80]!r}. Write UNIT:SIZE[:OVERLAP], such as "
                f"sentences:5:1, with UNIT one of {', '.join(UNITS)}."
            )
        return cls(match[1], int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        """Return the rule as written, also for fingerprints."""
        return f"{self.unit}:{self.size}:{self.overlap}"


@dataclass(frozen=True, eq=False)
class Chunks:
    """Pieces of documents in order: chunk i is `texts[i]`, of document number `doc[i]`.

    Its id is the document's with `#1`, `#2`, … behind it; `spans[i]` are the characters where it
    begins and ends.
    """

    ids: Ids
    texts: tuple[str, ...]
    doc: NDArray[np.int64]
    spans: NDArray[np.int64]


def chunk_text(text: str, rule: ChunkRule) -> list[str]:
    """Return the chunks of one text; none where there is nothing but white space.

    >>> chunk_text("One. Two! Three? Four.", ChunkRule("sentences", 2, 1))
    ['One. Two!', 'Two! Three?', 'Three? Four.']
    """
    return [text[start:end] for start, end in _find_spans(text, rule)]


def _find_spans(text: str, rule: ChunkRule) -> list[tuple[int, int]]:
    """Return where each chunk begins and ends, without white space at its ends."""
    units = find_units(text, rule.unit)
    starts = range(0, max(len(units) - rule.overlap, 1), rule.size - rule.overlap)
    windows = [units[start : start + rule.size] for start in starts]
    spans = []
    for begin, end in [(window[0][0], window[-1][1]) for window in windows if window]:
        piece = text[begin:end]
        if plain := piece.strip():
            start = begin + len(piece) - len(piece.lstrip())
            spans.append((start, start + len(plain)))
    return spans


def find_units(text: str, unit: str) -> list[tuple[int, int]]:
    """Return where each character, token or sentence of a text begins and ends.

    >>> find_units("Stop!", "tokens")
    [(0, 4), (4, 5)]
    """
    if unit == "characters":
        return [(i, i + 1) for i in range(len(text))]
    pattern = _TOKEN if unit == "tokens" else _SENTENCE
    return [match.span() for match in pattern.finditer(text) if match.group().strip()]


def chunk_docs(ids: Ids, texts: Sequence[str], rule: ChunkRule) -> Chunks:
    """Return all documents cut by one rule; one without text has no chunk."""
    spans = [_find_spans(text, rule) for text in texts]
    counts = [len(some) for some in spans]
    pieces = [text[a:b] for text, some in zip(texts, spans, strict=True) for a, b in some]
    names = [f"{id}#{i + 1}" for id, n in zip(ids, counts, strict=True) for i in range(n)]
    chunk_ids = Ids.of(names, "chunk")
    checks.check_unique(chunk_ids, "chunk")
    places = np.array([span for some in spans for span in some], np.int64).reshape(-1, 2)
    return Chunks(chunk_ids, tuple(pieces), np.repeat(np.arange(len(texts)), counts), places)
