"""Rankings and judgments from whatever the user has: paths, dictionaries, tuples, data frames."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsFloat

from assay.core.conventions import Conventions, as_conventions
from assay.core.judgments import Judgments
from assay.core.on_demand import OnDemand
from assay.core.ranking import Ranking
from assay.errors import InputError, MismatchError, StorageError, UsageError
from assay.io.frames import lines_of_data
from assay.io.lines import Kind, Lines, refuse_subtopics
from assay.io.streams import open_chunks, split_array
from assay.io.trec import RunLines, parse_qrels, parse_run, read_iterations

if TYPE_CHECKING:
    from assay.io import arrays, tables
else:  # a TREC file needs neither
    arrays = OnDemand("assay.io.arrays")
    tables = OnDemand("assay.io.tables")

__all__ = [
    "FORMATS",
    "QrelsLike",
    "RunLike",
    "as_judgments",
    "as_ranking",
    "as_ranking_and_lines",
    "find_format",
    "read_qrels",
    "read_run",
]


class Frame(Protocol):
    """A data frame of pandas or polars; that of narwhals, too."""

    @property
    def columns(self) -> Any: ...


class ArrowTable(Protocol):
    """A table of pyarrow."""

    @property
    def column_names(self) -> Any: ...


_Records = Iterable[tuple[Any, ...]] | Iterable[Mapping[str, Any]] | Frame | ArrowTable
_Nested = Mapping[Any, Mapping[Any, SupportsFloat]]
# What a run and judgments may be given as: a file, the value itself, {query: {doc: number}},
# {query: [doc, …]}, (query, doc, number) tuples, records or a data frame.
RunLike = Ranking | str | os.PathLike[str] | _Nested | Mapping[Any, Sequence[Any]] | _Records
QrelsLike = Judgments | str | os.PathLike[str] | _Nested | Mapping[Any, Collection[Any]] | _Records

_SWAPPED: Final = "Are run and qrels swapped? The run comes first, then the judgments."
FORMATS: Final = ("trec", "csv", "tsv", "json", "jsonl", "parquet", "npz", "npy")
_SUFFIXES: Final = {f".{name}": name for name in FORMATS} | {".ndjson": "jsonl", ".pq": "parquet"}
MAGIC: Final = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def read_run(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    conventions: str | Conventions = "trec_eval",
) -> Ranking:
    """Read a run file: TREC text, CSV, TSV, JSON, JSONL, parquet, npz or npy.

    The name's ending says the format, else the content does; `format` overrides both. Text files
    may be .gz or .zst. The conventions say how equal scores are ordered.
    """
    return _ranking_of_file(check_path(path), as_conventions(conventions), format)


def read_qrels(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
) -> Judgments:
    """Read a file of judgments, in the formats that `read_run` knows."""
    return _judgments_of_file(check_path(path), format)


def check_path(path: Any) -> str | os.PathLike[str]:
    """The path, if it is one that can name a file."""
    plain = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(plain, str) and "\0" in plain:
        raise StorageError(f"{plain[:80]!r} cannot be opened: it holds NUL, as no path does.")
    if isinstance(plain, str):
        given: str | os.PathLike[str] = path
        return given
    raise UsageError(
        f"Expected the path of a file, as text or pathlib.Path, found {type(path).__name__}: "
        f"{repr(path)[:60]}."
    )


def as_ranking(run: RunLike, rules: Conventions) -> Ranking:
    """A `Ranking` from any source; the conventions say how equal scores are ordered.

    >>> as_ranking({"q": ["b", "a"]}, Conventions()).row("q")
    [('b', 0.0), ('a', -1.0)]
    """
    if isinstance(run, Ranking):
        return run
    if isinstance(run, str | os.PathLike):
        return _ranking_of_file(run, rules, None)
    if isinstance(run, Judgments):
        raise UsageError(f"The run is {run!r}, which are judgments. {_SWAPPED}")
    return _ranking(lines_of_data(run, "run"), rules)


def as_judgments(qrels: QrelsLike) -> Judgments:
    """`Judgments` from any source.

    >>> as_judgments({"q": {"a", "b"}})
    Qrels(1 queries, 2 judgments)
    """
    if isinstance(qrels, Judgments):
        return qrels
    if isinstance(qrels, str | os.PathLike):
        return _judgments_of_file(qrels, None)
    if isinstance(qrels, Ranking):
        raise UsageError(f"The judgments (qrels) are {qrels!r}, which is a run. {_SWAPPED}")
    return _judgments(lines_of_data(qrels, "qrels"))


def find_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Tell the format of a file: as given, by the name's ending, or by the first bytes.

    >>> find_format("run.tsv.gz")
    'tsv'
    """
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"Unknown format {format!r}. Known: {', '.join(FORMATS)}.")
        return format
    return named_format(path) or _format_of_content(path)


def named_format(path: str | os.PathLike[str]) -> str | None:
    """The format that the name's ending stands for, if any."""
    return _SUFFIXES.get(ending_of(path))


def ending_of(path: str | os.PathLike[str]) -> str:
    """The name's ending in small letters, that of the compression left out.

    >>> ending_of("run.TSV.gz")
    '.tsv'
    """
    name = Path(split_array(path)[0]).name.lower()
    for packed in (".gz", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def _format_of_content(path: str | os.PathLike[str]) -> str:
    head = next(open_chunks(path, 16))
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "trec")


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let every message about wrong data begin with the file that it came from."""
    try:
        yield
    except InputError as error:
        name, message = split_array(path)[0], str(error)
        if message.startswith((f"{name}:", f"{name},", f"{name} ")):
            raise
        raise type(error)(f"{name}: {message[:1].lower()}{message[1:]}") from error


def as_ranking_and_lines(source: Any, rules: Conventions) -> tuple[Ranking, RunLines | None]:
    """A ranking, and the lines of the file it came from if that is TREC text: it is read once."""
    if not isinstance(source, str | os.PathLike) or find_format(source) != "trec":
        return as_ranking(source, rules), None
    with _naming(source):
        run = parse_run(source)
        return _ranking(_lines_of_run(run), rules, owned=True), run


def _ranking_of_file(
    path: str | os.PathLike[str], rules: Conventions, given: str | None
) -> Ranking:
    format = find_format(path, given)
    with _naming(path):
        if format in ("npz", "npy"):
            return arrays.read_ranking_arrays(path, format, rules)
        return _ranking(_lines_of_file(path, "run", format), rules, owned=format == "trec")


def _judgments_of_file(path: str | os.PathLike[str], given: str | None) -> Judgments:
    format = find_format(path, given)
    with _naming(path):
        if format in ("npz", "npy"):
            return arrays.read_judgment_arrays(path, format)
        return _judgments(_lines_of_file(path, "qrels", format))


def _lines_of_file(path: str | os.PathLike[str], kind: Kind, format: str) -> Lines:
    if format == "trec":
        return _lines_of_trec(path, kind)
    if format in ("csv", "tsv"):
        return tables.read_delimited(path, kind, delimiter="," if format == "csv" else "\t")
    read = {"json": tables.read_json, "jsonl": tables.read_jsonl, "parquet": tables.read_parquet}
    return read[format](path, kind)


def _lines_of_trec(path: str | os.PathLike[str], kind: Kind) -> Lines:
    if kind == "qrels":
        return Lines(*parse_qrels(path)[:5], subtopics=partial(read_iterations, path))
    return _lines_of_run(parse_run(path))


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
        found = Judgments.from_pairs(
            lines.query_ids, lines.doc_ids, lines.queries, lines.docs, lines.values
        )
    except MismatchError:  # a pair with two grades
        refuse_subtopics(lines)
        raise
    if found.repeated:
        refuse_subtopics(lines)
    return found
