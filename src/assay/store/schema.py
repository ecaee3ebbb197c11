"""The tables as this version reads and writes them; `migrations` creates them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

__all__ = [
    "AGGREGATES",
    "BLOBS",
    "OWN_TABLES",
    "RUNS",
    "SHOWN",
    "TAGS",
    "WIDE_VALUES",
    "EscapedText",
    "escape_text",
    "unescape_text",
]

_UNSTORABLE = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPE = re.compile("\x1b([0-9a-f]{4})")


def escape_text(text: str) -> str:
    r"""The text without characters that a database refuses.

    >>> escape_text("a\x00b")
    'a\x1b0000b'
    """
    return _UNSTORABLE.sub(lambda found: f"\x1b{ord(found.group()):04x}", text)


def unescape_text(text: str) -> str:
    r"""The text as it was.

    >>> unescape_text(escape_text("a\x00\x1b\ud800"))
    'a\x00\x1b\ud800'
    """
    if "\x1b" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


class EscapedText(TypeDecorator[str]):
    """A column of text in which every Python string can be stored and found."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        return escape_text(value) if isinstance(value, str) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """On the way out: one call for each cell, because a list of runs has a hundred thousand."""
        return _unescape_cell


def _unescape_cell(value: Any) -> Any:
    return value if value is None or "\x1b" not in value else unescape_text(value)


_METADATA: Final = MetaData()

# EscapedText is for what users write; the rest is our own, or JSON in ASCII.
RUNS: Final = Table(
    "runs",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("uid", Text),
    Column("batch", EscapedText),
    Column("rerun_of", EscapedText),
    Column("name", EscapedText),
    Column("task", EscapedText),
    Column("dataset", EscapedText),
    Column("model", EscapedText),
    Column("status", Text),
    Column("message", EscapedText),
    Column("created", Text),
    Column("updated", Text),
    Column("finished", Text),
    Column("seconds", Float(53)),
    Column("n_queries", BigInteger),
    Column("done", BigInteger),
    Column("total", BigInteger),
    Column("conventions", EscapedText),
    Column("signature", EscapedText),
    Column("search", EscapedText),
    Column("command", Text),
    Column("folder", EscapedText),
    Column("origin", EscapedText),
    Column("git_commit", EscapedText),
    Column("config", Text),
    Column("versions", Text),
    Column("seeds", Text),
    Column("data", Text),
    Column("timings", Text),
    Column("notes", EscapedText),
)

AGGREGATES: Final = Table(
    "aggregates",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("measure", EscapedText),
    Column("average", EscapedText),
    Column("by_column", EscapedText),
    Column("subset", EscapedText),
    Column("value", Float(53)),
    Column("value_skip", Float(53)),
    Column("value_zero", Float(53)),
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("level", Float(53)),
    Column("method", EscapedText),
    Column("note", EscapedText),
    Column("chance", Float(53)),
    Column("ceiling", Float(53)),
    Column("n", BigInteger),
    Column("empty", BigInteger),
    Column("missing", BigInteger),
    Column("tied", BigInteger),
    Column("groups_left_out", BigInteger),
    Column("clusters", EscapedText),
)

TAGS: Final = Table(
    "tags",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("tag", EscapedText, primary_key=True),
)

# One row for each array of a run, so that a reader takes only the measure that it needs. `part` is
# empty in a finished run, and names a finished piece of one that is still running.
BLOBS: Final = Table(
    "blobs",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("part", EscapedText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", EscapedText),
    Column("encoding", Text),
    Column("size", BigInteger),
    Column("raw_bytes", BigInteger),
    Column("checksum", Text),
    Column("content", LargeBinary),
)

# One row for each query whose results are stored.
SHOWN: Final = Table(
    "shown",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("query_key", Text, primary_key=True),
    Column("position", Integer),
    Column("raw_bytes", BigInteger),
    Column("checksum", Text),
    Column("content", LargeBinary),
)

# One row for each cell of the row that a run has under another program's column names.
WIDE_VALUES: Final = Table(
    "wide_values",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("position", Integer),
    Column("name", EscapedText, primary_key=True),
    Column("number", Float(53)),
    Column("text", EscapedText),
)

# Tables that hold what belongs to a run.
OWN_TABLES: Final = (AGGREGATES, TAGS, BLOBS, SHOWN, WIDE_VALUES)
