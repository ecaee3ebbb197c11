"""Texts with their ids from .jsonl files, or without from .txt files, one a line; also packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from assay.cluster.remote_files import local_file
from assay.errors import FormatError
from assay.ids import Ids
from assay.io.json_text import parse_json
from assay.io.sources import ending_of
from assay.io.text_columns import find_text_columns
from assay.io.text_lines import read_lines
from assay.io.texts import read_texts

__all__ = ["ENDINGS", "TextShard", "read_text_shard"]

ENDINGS: Final = (".jsonl", ".ndjson", ".txt")


class TextShard(NamedTuple):
    """Texts, and their ids where the file has some."""

    texts: Sequence[str]
    ids: Ids | None


def read_text_shard(name: str) -> TextShard:
    """Read a file; records without an id have none, since their numbers would repeat."""
    with local_file(name) as path:
        if ending_of(name) == ".txt":
            return TextShard([line.rstrip("\r\n") for line in read_lines(path)], None)
        found = read_texts(path, "doc")
        return TextShard(found.texts, found.ids if _has_ids(path, name) else None)


def _has_ids(path: str, name: str) -> bool:
    """Whether the first record has an id."""
    first = next((line for line in read_lines(path) if not line.isspace()), "")
    record = parse_json(first, name)
    if not isinstance(record, Mapping):
        raise FormatError(f"{name}: expected objects with id and text, found {record!r:.60}.")
    return find_text_columns(list(record), "doc", name).id is not None
