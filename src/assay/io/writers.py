"""Runs, judgments and scores into files, always written beside and renamed.

Numbers are written so that reading gives back the same bits. The text cells of a score table in
CSV or TSV, and the ids of a run or qrels in CSV, get a leading apostrophe where a spreadsheet would
take them for a formula (= + - @); reading a run or qrels takes it away again. In all other formats
ids are written as they are. Integer ids become text where the format knows text only (trec, csv,
tsv, and the keys of json).

ir_metadata is a header of YAML in comments that says how a TREC run was made:

    # ir_metadata.start
    # schema-version: 0.1
    # tag: bm25
    # ir_metadata.end

The schema (https://www.ir-metadata.org) names platform, research goal, implementation, method,
actor and data. Readers of runs skip the lines, as all comments.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from textwrap import dedent
from typing import Any, BinaryIO, Final, TextIO

import numpy as np

from assay import __version__
from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.core.text import guard_formula
from assay.errors import FormatError, IdError, MismatchError, UsageError, need
from assay.io.fingerprints import git_commit, versions
from assay.io.formats import check_path
from assay.io.lines import build_frame
from assay.io.plain_data import parse_yaml, read_config_text, to_yaml
from assay.io.streams import FilePath, atomic_write, ending_of, named_format, need_zstd, read_lines

# One query with its docs and their scores or grades.
Row = tuple[str | int, list[str | int], list[float]]

_TEXT = ("trec", "csv", "tsv", "json", "jsonl")
# Endings that mean TREC text; a name without any does, too.
_TREC_ENDINGS = ("", ".run", ".txt", ".trec", ".qrels")
DELIMITERS = {"csv": ",", "tsv": "\t"}


_NOT_IN_TAG: Final = {"\0", *map(chr, range(0xD800, 0xE000))}  # no UTF-8 for half a character


def write_run(
    ranking: Ranking,
    path: FilePath,
    *,
    format: str | None = None,
    tag: str | None = None,
    metadata: Mapping[str, Any] | str | None = None,
) -> None:
    """Write a ranking as trec, csv, tsv, json, jsonl, parquet or npz, by the name's ending.

    The tie-breaking rule is not part of any file: read with the conventions that you wrote with.

    Args:
        ranking: The ranking.
        path: The file; text files may be .gz or .zst.
        format: The format, where the name's ending does not say it.
        tag: The last column of a TREC run; by default the ranking's name, or "assay".
        metadata: What goes into the ir_metadata header of a TREC run.

    Raises:
        UsageError: The format or the tag cannot be written.
        StorageError: The file could not be written; what was there before is unchanged.

    Example:
        write_run(ranking, "dense.run", tag="dense")
    """
    require_kind(ranking, Ranking, "write_run")
    layout = choose_format(path, format, (*_TEXT, "parquet", "npz"))
    if metadata and layout != "trec":
        raise UsageError(f"ir_metadata is for TREC runs; {layout} has none. Write trec.")
    header = format_header(metadata) if metadata else ""
    if layout == "npz":
        _write_npz(ranking, path)
        return
    rows = _RowsByQuery(ranking, ranking.scores, "run", layout)
    if layout == "trec":
        tag = tag or ranking.name or "assay"
        if not tag.strip() or any(c.isspace() or c in _NOT_IN_TAG for c in tag):
            raise UsageError(f"The tag {tag!a} must be one word without white space.")
        lines = _trec_run(rows, tag)
        write_text(path, chain([header], lines))
    else:
        _write_lines(rows, path, layout, "score")


def write_qrels(judgments: Judgments, path: FilePath, *, format: str | None = None) -> None:
    """Write judgments of pairs as trec, csv, tsv, json, jsonl or parquet.

    Args:
        judgments: The judgments; labels are refused, which would take queries × documents.
        path: The file; its ending says the format, and .gz or .zst compresses text.
        format: The format, where the name's ending does not say it.

    Raises:
        UsageError: The judgments are labels, or the format is not known.
        StorageError: The file could not be written; what was there before is unchanged.

    Example:
        write_qrels(judgments, "qrels.parquet")
    """
    require_kind(judgments, Judgments, "write_qrels")
    layout = choose_format(path, format, (*_TEXT, "parquet"))
    if not isinstance(judgments, Qrels):
        raise UsageError(
            f"{type(judgments).__name__} cannot be written as qrels. Save the labels themselves, "
            "e.g. in a .npz with query_labels and doc_labels."
        )
    rows = _RowsByQuery(judgments, judgments.grades, "qrels", layout)
    if layout == "trec":
        write_text(path, _trec_qrels(rows))
    else:
        _write_lines(rows, path, layout, "relevance")


class _RowsByQuery:
    """The rows of a ranking or of judgments, one query at a time."""

    def __init__(self, source: Ranking | Qrels, values: Any, kind: str, format: str) -> None:
        self._source, self._values = source, values
        self._ends = source.offsets.tolist()
        if format != "json":
            self._refuse_empty(kind, format)
        if format == "trec":
            self._refuse_comments()

    def _refuse_empty(self, kind: str, format: str) -> None:
        """Refuse a query without lines: a file of lines cannot hold it."""
        empty = np.flatnonzero(np.diff(self._source.offsets) == 0)
        if len(empty):
            raise MismatchError(
                f"Query {self._source.query_ids[int(empty[0])]!r} has no documents in the {kind} "
                f"({len(empty)} such queries), which {format} cannot express. Write json, or "
                "remove these queries."
            )

    def _refuse_comments(self) -> None:
        """Refuse a query that a TREC line would begin with like a comment."""
        for query in self._source.query_ids:
            if str(query).startswith(("#", "\ufeff")):
                raise IdError(
                    f"The query id {query!r} would read as a comment or a byte order mark in a "
                    "TREC file. Rename it, or write another format."
                )

    def __iter__(self) -> Iterator[Row]:
        docs = self._source.doc_ids.to_list()
        for number, query in enumerate(self._source.query_ids):
            inside = slice(self._ends[number], self._ends[number + 1])
            names = [docs[doc] for doc in self._source.docs[inside].tolist()]
            yield query, names, self._values[inside].tolist()

    def columns(self) -> dict[str, Any]:
        """Return query, doc and value of all lines as three columns."""
        source = self._source
        lengths = np.diff(source.offsets)
        query_rows = np.repeat(np.arange(len(lengths)), lengths)
        return {
            "query": _column(source.query_ids, query_rows),
            "doc": _column(source.doc_ids, source.docs),
            "value": self._values,
        }


def _column(ids: Any, places: Any) -> Any:
    taken = ids.take(np.asarray(places, np.int64))
    return taken.numbers if ids.kind == "integer" else taken.to_list()


def choose_format(path: FilePath, name_of_format: str | None, formats: tuple[str, ...]) -> str:
    """Choose the format: as given, or by the name's ending; refuse an unknown one."""
    name = os.fspath(check_path(path))
    by_name = named_format(name) or ("trec" if ending_of(name) in _TREC_ENDINGS else "")
    format = name_of_format or by_name
    if name_of_format is None and format not in formats:
        endings = [f".{each}" for each in formats if each != "trec"]
        trec = [*_TREC_ENDINGS[1:]] if "trec" in formats else []
        raise UsageError(
            f"The file extension of {name} is unknown. Use one of {', '.join(trec + endings)}, or "
            "name the format."
        )
    if format not in formats:
        raise UsageError(f"Cannot write {format!r} here. Known formats: {', '.join(formats)}.")
    if format not in _TEXT and name.lower().endswith((".gz", ".zst")):
        raise UsageError(f"{name}: {format} is compressed already. Drop the last extension.")
    return format


def require_kind(value: Any, kind: type, function: str) -> None:
    """Refuse a value of another type, naming the function that takes it."""
    if not isinstance(value, kind):
        raise UsageError(
            f"{function} takes {kind.__name__}, found {type(value).__name__}: {repr(value)[:60]}."
        )


def _number(value: float) -> str:
    """Return the shortest text that reads back as the same float64; whole grades without '.0'."""
    return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _trec_run(rows: Iterable[Row], tag: str) -> Iterator[str]:
    for query, docs, scores in rows:
        ranked = enumerate(zip(docs, scores, strict=True), 1)
        yield "".join(f"{query} Q0 {doc} {rank} {s!r} {tag}\n" for rank, (doc, s) in ranked)


def _trec_qrels(rows: Iterable[Row]) -> Iterator[str]:
    for query, docs, grades in rows:
        pairs = zip(docs, grades, strict=True)
        yield "".join(f"{query} 0 {doc} {_number(grade)}\n" for doc, grade in pairs)


def _write_lines(rows: _RowsByQuery, path: FilePath, format: str, value_name: str) -> None:
    if format == "parquet":
        need_parquet()
        columns = rows.columns()
        columns[value_name] = columns.pop("value")
        write_parquet(build_frame(columns, "pyarrow"), path)
    elif format == "json":
        write_text(path, _json_object(rows))
    elif format == "jsonl":
        write_text(path, _json_lines(rows, value_name))
    else:
        header = [("query", "doc", value_name)]
        guard = str if format == "tsv" else guard_formula
        lines = (
            (guard(str(query)), guard(str(doc)), value)
            for query, docs, values in rows
            for doc, value in zip(docs, values, strict=True)
        )
        write_delimited(chain(header, lines), path, DELIMITERS[format])


to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _json_lines(rows: Iterable[Row], value_name: str) -> Iterator[str]:
    for query, docs, values in rows:
        begin, middle = f'{{"query": {to_json(query)}, "doc": ', f', "{value_name}": '
        pairs = zip(docs, values, strict=True)
        yield "".join(f"{begin}{to_json(doc)}{middle}{value!r}}}\n" for doc, value in pairs)


def _json_object(rows: Iterable[Row]) -> Iterator[str]:
    """Write {query: {doc: value}} with a line per query."""
    before = "{\n"
    for query, docs, values in rows:
        yield f"{before}{to_json(str(query))}: {to_json(dict(zip(docs, values, strict=True)))}"
        before = ",\n"
    yield "\n}\n"


def write_delimited(rows: Iterable[Iterable[Any]], path: FilePath, delimiter: str) -> None:
    """Write rows as CSV or TSV, whole or not at all."""
    with _text_file(path) as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def write_text(path: FilePath, parts: Iterable[str]) -> None:
    """Write text as UTF-8, compressed if the name says so, whole or not at all."""
    with _text_file(path) as file:
        file.writelines(parts)


@contextmanager
def _text_file(path: FilePath) -> Iterator[TextIO]:
    """Give a UTF-8 text file, compressed if the name says so."""
    with atomic_write(path) as raw, _compress(raw, os.fspath(path).lower()) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()


@contextmanager
def _compress(raw: BinaryIO, name: str) -> Iterator[Any]:
    if name.endswith(".gz"):
        # Neither name nor time of writing: same input, same bytes.
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            yield packed
    elif name.endswith(".zst"):
        zstd = need_zstd("writing .zst files")
        options = {zstd.CompressionParameter.checksum_flag: 1}
        with zstd.ZstdFile(raw, "w", options=options) as packed:
            yield packed
    else:
        yield raw


def write_parquet(table: Any, path: FilePath) -> None:
    """Write a pyarrow table, whole or not at all."""
    with atomic_write(path) as file:
        need_parquet().write_table(table, file)


def need_parquet() -> Any:
    """Import the parquet writer, before a table is made: the message is about files."""
    return need("pyarrow.parquet", "writing parquet files", "parquet")


def _write_npz(ranking: Ranking, path: FilePath) -> None:
    """Write rows padded with −1 to one length; unused places score 0.

    Rows that are only numbered get no ids. `by_line` says that equal scores stand in the order of
    places, as in any other file, and not in that of document numbers.
    """
    shape = (ranking.n_queries, max(int(ranking.lengths.max(initial=0)), 1))
    used = np.arange(shape[1]) < ranking.lengths[:, None]
    docs, scores = np.full(shape, -1, np.int32), np.zeros(shape)
    docs[used], scores[used] = ranking.docs, ranking.scores
    beside: dict[str, Any] = {}
    if not ranking.query_ids.numbered or ranking.query_ids != Ids.count(ranking.n_queries):
        beside["query_ids"] = np.asarray(ranking.query_ids.to_list())
    if not ranking.doc_ids.numbered:
        beside["doc_ids"] = np.asarray(ranking.doc_ids.to_list())
    else:
        docs[used] = ranking.doc_ids.numbers[ranking.docs]
    if ranking.by_line or ranking.tiebreak != "index":
        beside["by_line"] = np.True_
    with atomic_write(path) as file:
        np.savez(file, docs=docs, scores=scores, n_docs=np.int64(ranking.n_docs), **beside)


# ir_metadata


_START: Final = "ir_metadata.start"
_END: Final = "ir_metadata.end"
_NOT_PACKAGES: Final = ("python", "assay", "engine", "platform")


def read_ir_metadata(path: FilePath) -> dict[str, Any] | None:
    """Return the metadata in the header of a run; None where it has none. Dates are texts."""
    header = read_header(path)
    if not header:
        return None
    lines = [line.removeprefix("#") for line in header.splitlines()[1:-1]]
    name = f"{os.fspath(path)}, ir_metadata"
    metadata = parse_yaml(dedent("\n".join(lines)), name, dates=False)
    if not isinstance(metadata, dict):
        raise FormatError(f"{name} must be a table of entries, found {metadata!r:.60}.")
    return metadata


def read_header(path: FilePath) -> str:
    """Return the lines of the header as they stand; empty where the run has none."""
    lines: list[str] = []
    for line in read_lines(path):
        words = line.strip().removeprefix("#").strip()
        if not line.startswith("#") and words:
            break  # the first line of the run
        if lines or words == _START:
            lines.append(f"{line.rstrip()}\n")
        if lines and words == _END:
            return "".join(lines)
    if lines:
        raise FormatError(f"{os.fspath(path)}: '# {_START}' without '# {_END}'. Add that line.")
    return ""


def format_header(metadata: Mapping[str, Any] | str) -> str:
    """Return the lines of a header, from metadata or from another run's header."""
    if isinstance(metadata, str):
        if not all(line.startswith("#") for line in metadata.splitlines()):
            raise UsageError("Every line of a run's header must begin with #.")
        return metadata
    checks.require(metadata, Mapping, "metadata", "a dictionary")
    body = to_yaml(metadata).splitlines()
    return "".join(f"# {line}\n" for line in (_START, *body, _END))


def describe_run(
    tag: str, *, command: str = "", method: Mapping[str, Any] | None = None, file: str = "auto"
) -> dict[str, Any]:
    """Describe a run that is made now; the entries of a YAML file, if any, win.

    Actor, research goal and data are known to people only: their place is the file.
    """
    commit = git_commit()
    entries = {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": tag,
        "platform": _platform(),
        "implementation": {
            **({"executable": {"cmd": command}} if command else {}),
            **({"source": {"commit": commit}} if commit else {}),
        },
        "method": {"automatic": True, **(method or {})},
    }
    if file == "auto":
        return entries
    overrides = parse_yaml(read_config_text(file), file, dates=False)
    if not isinstance(overrides, dict):
        raise UsageError(f"{file} holds no entries. Write some, such as actor and research goal.")
    return _merge(entries, overrides)


def _platform() -> dict[str, Any]:
    packages_here = versions()
    packages = [
        f"{name}=={version}" for name, version in packages_here.items() if name not in _NOT_PACKAGES
    ]
    return {
        "hardware": {
            "cpu": {"architecture": platform.machine(), "number of cores": os.cpu_count() or 1}
        },
        "operating system": {
            "kernel": f"{platform.system()} {platform.release()}",
            "distribution": _distribution(),
        },
        "software": {
            "libraries": {"python": [f"python=={packages_here['python']}", *packages]},
            "retrieval toolkit": [f"assay=={__version__}"],
        },
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables entry by entry; the second wins."""
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        inner = isinstance(value, Mapping) and isinstance(before, dict)
        merged[str(key)] = _merge(before or {}, value) if inner else value
    return merged
