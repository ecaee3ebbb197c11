"""Rankings and judgments from whatever the user has: paths, dictionaries, tuples, data frames.

TREC text is parsed here; other formats are read when they are met. A line of TREC text is

    query  Q0    doc  rank  score  tag        in a run
    query  iter  doc  grade                   in qrels

Columns are separated by spaces or tabs; lines end with LF or CRLF; a byte order mark, blank lines
and lines that begin with '#' are skipped. The text is UTF-8. Numbers are decimal, whatever the
locale. The score decides the order; the rank column is only compared with it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, SupportsFloat

from assay import errors
from assay.arrays import Floats, Ints32
from assay.core.conventions import Conventions, as_conventions
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.on_demand import OnDemand
from assay.core.ranking import Ranking
from assay.io.lines import Lines, Questions, lines_of_data, lines_of_file, refuse_subtopics
from assay.io.streams import FilePath, find_format, open_chunks, read_lines, split_array, unreadable
from assay.native import kernels

if TYPE_CHECKING:
    from assay.io import arrays, texts
    from assay.native.signatures import Parser, TextFault
else:  # a TREC file needs none
    arrays, texts = OnDemand("assay.io.arrays"), OnDemand("assay.io.texts")


class Frame(Protocol):
    """A data frame of pandas or polars; that of narwhals, too."""

    @property
    def columns(self) -> Any:  # noqa: D102
        ...


class ArrowTable(Protocol):
    """A table of pyarrow."""

    @property
    def column_names(self) -> Any:  # noqa: D102
        ...


_Records = Iterable[tuple[Any, ...]] | Iterable[Mapping[str, Any]] | Frame | ArrowTable
_Nested = Mapping[Any, Mapping[Any, SupportsFloat]]
# What a run and judgments may be given as: a file, the value itself, {query: {doc: number}},
# {query: [doc, …]}, (query, doc, number) tuples, records or a data frame.
RunLike = Ranking | FilePath | _Nested | Mapping[Any, Sequence[Any]] | _Records
QrelsLike = Judgments | FilePath | _Nested | Mapping[Any, Collection[Any]] | _Records

_SWAPPED: Final = "Run and qrels may be swapped: the run comes first."


def read_run(
    path: FilePath,
    *,
    format: str | None = None,
    conventions: str | Conventions = "trec_eval",
    queries: FilePath | None = None,
) -> Ranking:
    """Read a run file: TREC text, CSV, TSV, JSON, JSONL, parquet, npz or npy.

    Args:
        path: The file; text files may be .gz or .zst.
        format: The format, where neither the name's ending nor the content says it.
        conventions: How equal scores are ordered, and in which precision they are compared.
        queries: A file with ids and texts of the queries, where the run has their texts.

    Returns:
        The ranking.

    Raises:
        FormatError: The file cannot be read as what it claims to be.
        StorageError: There is no such file, or it cannot be read.

    Example:
        ranking = read_run("dense.run.gz", conventions="beir")
    """
    rules = as_conventions(conventions)
    return _ranking_of_file(check_path(path), rules, format, read_questions(queries))


def read_qrels(
    path: FilePath, *, format: str | None = None, queries: FilePath | None = None
) -> Judgments:
    """Read a file of judgments, in the formats that `read_run` knows.

    Tables may name queries by text, several documents in a cell (`a;b`, or a list), and no grades:
    `question,relevant_doc` is enough. How they were read stands in the remarks of what is scored.

    Args:
        path: The file; text files may be .gz or .zst.
        format: The format, where neither the name's ending nor the content says it.
        queries: A file with ids and texts of the queries, where the judgments have their texts.

    Returns:
        The judgments.

    Raises:
        FormatError: The file cannot be read as what it claims to be.
        StorageError: There is no such file, or it cannot be read.

    Example:
        qrels = read_qrels("judged.csv", queries="queries.jsonl")
    """
    return _judgments_of_file(check_path(path), format, read_questions(queries))


def read_questions(path: FilePath | None) -> Questions | None:
    """Read ids and texts of queries, to join texts in other files with; None without a file."""
    if path is None:
        return None
    return Questions(*texts.read_texts(check_path(path), "query"), os.fspath(path))


def check_path(path: Any) -> FilePath:
    """Return the path, if it is one that can name a file."""
    plain = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(plain, str) and "\0" in plain:
        raise errors.StorageError(f"Cannot open {plain[:80]!r}: a path cannot hold NUL. Remove it.")
    if isinstance(plain, str):
        path_as_given: FilePath = path
        return path_as_given
    raise errors.UsageError(
        f"Expected the path of a file, as text or pathlib.Path, found {type(path).__name__}: "
        f"{repr(path)[:60]}."
    )


def as_ranking(run: RunLike, rules: Conventions, questions: Questions | None = None) -> Ranking:
    """Return a `Ranking` from any source; the conventions say how equal scores are ordered.

    `questions` name queries that the source has texts of.

    >>> as_ranking({"q": ["b", "a"]}, Conventions()).row("q")
    [('b', 0.0), ('a', -1.0)]
    """
    if isinstance(run, Ranking):
        return run
    if isinstance(run, str | os.PathLike):
        return _ranking_of_file(run, rules, None, questions)
    if isinstance(run, Judgments):
        raise errors.UsageError(f"The run is {run!r}, which holds judgments. {_SWAPPED}")
    return _ranking(lines_of_data(run, "run", questions), rules)


def as_judgments(qrels: QrelsLike, questions: Questions | None = None) -> Judgments:
    """Return `Judgments` from any source; `questions` name queries that it has texts of.

    >>> as_judgments({"q": {"a", "b"}})
    Qrels(1 queries, 2 judgments)
    """
    if isinstance(qrels, Judgments):
        return qrels
    if isinstance(qrels, str | os.PathLike):
        return _judgments_of_file(qrels, None, questions)
    if isinstance(qrels, Ranking):
        raise errors.UsageError(f"The judgments are {qrels!r}, which holds a run. {_SWAPPED}")
    return _judgments(lines_of_data(qrels, "qrels", questions))


@contextmanager
def _naming(path: FilePath) -> Iterator[None]:
    """Let every message about wrong data begin with the file that it came from."""
    try:
        yield
    except errors.InputError as error:
        name, message = split_array(path)[0], str(error)
        if message.startswith((f"{name}:", f"{name},", f"{name} ")):
            raise
        raise type(error)(f"{name}: {message[:1].lower()}{message[1:]}") from error


def as_ranking_and_lines(
    source: Any, rules: Conventions, questions: Questions | None = None
) -> tuple[Ranking, RunLines | None]:
    """Return a ranking, and the lines of its file if that is TREC text, read once."""
    if not isinstance(source, str | os.PathLike) or find_format(source) != "trec":
        return as_ranking(source, rules, questions), None
    with _naming(source):
        run = parse_run(source)
        return _ranking(_lines_of_run(run), rules, owned=True), run


def _ranking_of_file(
    path: FilePath, rules: Conventions, named: str | None, questions: Questions | None
) -> Ranking:
    format = find_format(path, named)
    with _naming(path):
        if format in ("npz", "npy"):
            return arrays.read_ranking_arrays(path, format, rules)
        if format == "trec":
            return _ranking(_lines_of_run(parse_run(path)), rules, owned=True)
        return _ranking(lines_of_file(path, "run", format, questions), rules)


def _judgments_of_file(path: FilePath, named: str | None, questions: Questions | None) -> Judgments:
    format = find_format(path, named)
    with _naming(path):
        if format in ("npz", "npy"):
            return arrays.read_judgment_arrays(path, format)
        if format == "trec":
            return _judgments(parse_qrels(path))
        return _judgments(lines_of_file(path, "qrels", format, questions))


def _lines_of_run(run: RunLines) -> Lines:
    return Lines(*run[:5], name=run.tag)


def _ranking(lines: Lines, rules: Conventions, *, owned: bool = False) -> Ranking:
    return Ranking.from_lines(
        lines.query_ids,
        lines.doc_ids,
        queries=lines.queries,
        docs=lines.docs,
        scores=lines.values,
        tiebreak=rules.tiebreak,
        precision=rules.scores,
        name=lines.name,
        owned=owned,
    )


def _judgments(lines: Lines) -> Judgments:
    try:
        judgments = Judgments.from_pairs(
            lines.query_ids, lines.doc_ids, lines.queries, lines.docs, lines.values
        )
    except errors.MismatchError:  # a pair with two grades
        refuse_subtopics(lines)
        raise
    if judgments.repeated:
        refuse_subtopics(lines)
    return replace(judgments, remarks=lines.remarks) if lines.remarks else judgments


_COLUMNS = {"run": "query, Q0, doc, rank, score, tag", "qrels": "query, iter, doc, grade"}
_VALUE = {"run": "score", "qrels": "grade"}


class RunLines(NamedTuple):
    """The lines of a run in the order of the file. Ids are numbered by first appearance."""

    query_ids: Ids
    doc_ids: Ids
    queries: Ints32
    docs: Ints32
    values: Floats
    tag: str
    rank_disagreements: int
    rank_unreadable: int
    overlong: int


def parse_run(path: FilePath) -> RunLines:
    """Read a run file, plain or compressed.

    `tag` is that of the last line. `rank_disagreements` counts adjacent lines of one query whose
    ranks and scores rise together or fall together; `rank_unreadable` lines without a number there.
    """
    parser = _parse(path, "run")
    counts = parser.rank_disagreements, parser.rank_unreadable, parser.overlong
    return RunLines(*_columns(parser, path, "run"), parser.tag.decode(), *counts)


def parse_qrels(path: FilePath) -> Lines:
    """Read a qrels file, plain or compressed; grades may be negative and fractional."""
    columns = _columns(_parse(path, "qrels"), path, "qrels")
    return Lines(*columns, subtopics=partial(read_iterations, path))


def read_iterations(path: FilePath) -> list[str]:
    """Return the second column of a qrels file: the subtopic, in some."""
    rows = (line.split() for line in read_lines(path) if not line.startswith("#"))
    return [cells[1] for cells in rows if cells]


def _parse(path: FilePath, kind: str) -> Parser:
    parser = kernels().TrecParser(kind, os.path.getsize(path) if os.path.isfile(path) else 0)
    try:
        fine = all(map(parser.feed, open_chunks(path, 0))) and parser.finish()
    except OSError as error:  # one without a number is an error of ours
        raise unreadable(os.fspath(path), error) if error.errno else error from None
    if not fine and parser.fault is not None:
        raise fault_error(os.fspath(path), kind, parser.fault)
    return parser


def _columns(parser: Parser, path: FilePath, kind: str) -> tuple[Ids, Ids, Ints32, Ints32, Floats]:
    query_blob, query_offsets, doc_blob, doc_offsets, queries, docs, values = parser.take_columns()
    if not len(values):
        raise errors.FormatError(
            f"{os.fspath(path)} holds no {kind} lines, only comments or blank lines. "
            f"Each line needs the columns {_COLUMNS[kind]}."
        )
    for column in (queries, docs, values):
        column.flags.writeable = False
    query_ids = Ids.from_utf8(query_blob, query_offsets)
    return query_ids, Ids.from_utf8(doc_blob, doc_offsets), queries, docs, values


def fault_error(name: str, kind: str, fault: TextFault) -> errors.InputError:
    """Turn a parser's fault into the error to raise."""
    line, what, text, n_columns = fault
    columns, value = _COLUMNS[kind], _VALUE[kind]
    decoded = text.decode(errors="replace")
    excerpt = repr(decoded if len(decoded) <= 60 else f"{decoded[:59]}…")
    messages = {
        "columns": f"expected {columns.count(',') + 1} columns ({columns}), found {n_columns}: "
        f"{excerpt}. {_columns_cure(kind, n_columns)}",
        "number": f"the {value} {excerpt} is not a number. Write it like 12, -0.5 or 1.5e-3.",
        "not_finite": f"the {value} {excerpt} is not finite. Remove the line or fix the {value}.",
        "overflow": f"the {value} {excerpt} is too large for a float64. Scale the values.",
        "utf8": f"the text is not UTF-8: {excerpt}. Convert the file to UTF-8.",
        "nul": f"the line holds a NUL byte: {excerpt}. If the file is UTF-16, convert it to UTF-8.",
        "white_space": "the line holds a stray carriage return, vertical tab or form feed: "
        f"{excerpt}. Separate columns by spaces or tabs, and end lines with LF or CRLF.",
        "too_long": f"the line is longer than 1 MiB: {excerpt}. Check that this is a {kind} file.",
    }
    error = errors.ValueRangeError if what in ("not_finite", "overflow") else errors.FormatError
    return error(f"{name}, line {line}: {messages[what]}")


def _columns_cure(kind: str, n_columns: int) -> str:
    cures = {
        ("qrels", 6): "This is a line of a run. Swap run and judgments.",
        ("qrels", 3): "Insert 0 as the second column, or name the columns in a .tsv file.",
        ("run", 4): "This is a line of judgments (qrels). Name the run here.",
    }
    return cures.get((kind, n_columns), "Separate columns by spaces or tabs; ids hold neither.")
