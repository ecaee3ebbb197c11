"""Texts with their ids from .txt (one a line), .jsonl and parquet files, plain or packed."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

from assay.cluster.remote_files import local_file
from assay.errors import FormatError
from assay.io.json_text import parse_json
from assay.io.packages import need
from assay.io.sources import ending_of
from assay.io.text_lines import read_lines

__all__ = ["ENDINGS", "Texts", "read_texts"]

ENDINGS: Final = (".txt", ".jsonl", ".ndjson", ".parquet", ".pq")
_IDS: Final = ("_id", "id", "doc_id", "docid", "query_id", "pid", "qid")
_TEXTS: Final = ("text", "contents", "content", "body", "query", "passage")


class Texts(NamedTuple):
    """Texts, and their ids where the file has some."""

    texts: list[str]
    ids: list[str] | None


def read_texts(name: str) -> Texts:
    """Read a file; a title is put before its text."""
    with local_file(name) as path:
        ending = ending_of(name)
        if ending == ".txt":
            return Texts([line.rstrip("\r\n") for line in read_lines(path)], None)
        if ending in (".parquet", ".pq"):
            return _of_records(_parquet_records(path, name), name)
        records = [
            (parse_json(line, f"{name}, line {row}"), row)
            for row, line in enumerate(read_lines(path), 1)
            if line.strip()
        ]
        return _of_records([_record(one, f"{name}, line {row}") for one, row in records], name)


def _record(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(
            f"{place}: expected an object with an id and a text, found {value!r:.60}."
        )
    return value


def _parquet_records(path: str, name: str) -> list[dict[str, Any]]:
    parquet = need("pyarrow.parquet", "reading parquet files", "parquet")
    arrow = need("pyarrow", "reading parquet files", "parquet")
    try:
        with parquet.ParquetFile(os.fspath(path)) as file:
            known = [one for one in file.schema_arrow.names if one in (*_IDS, *_TEXTS, "title")]
            records: list[dict[str, Any]] = file.read(columns=known).to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(f"{name} is no sound parquet file ({str(error)[:120]}).") from None
    return records


def _of_records(records: list[dict[str, Any]], name: str) -> Texts:
    if not records:
        raise FormatError(f"{name} holds no texts.")
    text_key = next((key for key in _TEXTS if key in records[0]), None)
    id_key = next((key for key in _IDS if key in records[0]), None)
    if text_key is None or id_key is None:
        raise FormatError(
            f"{name} needs an id ({', '.join(_IDS[:3])}) and a text ({', '.join(_TEXTS[:3])}); "
            f"its first record has {', '.join(map(repr, records[0])) or 'nothing'}."
        )
    texts, ids = [], []
    for row, record in enumerate(records):
        text, one = record.get(text_key), record.get(id_key)
        if not isinstance(text, str) or one is None:
            raise FormatError(f"{name}, record {row}: its {text_key} or {id_key} is missing.")
        title = record.get("title")
        texts.append(f"{title} {text}" if isinstance(title, str) and title.strip() else text)
        ids.append(str(one))
    return Texts(texts, ids)
