"""The tables as this version of the program reads and writes them; `migrations` makes them."""

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
    "AnyText",
    "escaped",
    "unescaped",
]

_UNSTORABLE = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPE = re.compile("\x1b([0-9a-f]{4})")


def escaped(text: str) -> str:
    r"""The text without characters that a database refuses.

    >>> escaped("a\x00b")
    'a\x1b0000b'
    """
    return _UNSTORABLE.sub(lambda found: f"\x1b{ord(found.group()):04x}", text)


def unescaped(text: str) -> str:
    r"""The text as it was.

    >>> unescaped(escaped("a\x00\x1b\ud800"))
    'a\x00\x1b\ud800'
    """
    if "\x1b" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


class AnyText(TypeDecorator[str]):
    """A column of text in which every Python string can be stored and found."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        return escaped(value) if isinstance(value, str) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """On the way out: one call for each cell, because a list of runs has a hundred thousand."""
        return _read


def _read(value: Any) -> Any:
    return value if value is None or "\x1b" not in value else unescaped(value)


_METADATA: Final = MetaData()

# AnyText is for what people may write; the rest is our own, or JSON in ASCII.
RUNS: Final = Table(
    "runs",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("uid", Text),
    Column("batch", AnyText),
    Column("rerun_of", AnyText),
    Column("name", AnyText),
    Column("task", AnyText),
    Column("dataset", AnyText),
    Column("model", AnyText),
    Column("status", Text),
    Column("message", AnyText),
    Column("created", Text),
    Column("updated", Text),
    Column("finished", Text),
    Column("seconds", Float(53)),
    Column("n_queries", BigInteger),
    Column("done", BigInteger),
    Column("total", BigInteger),
    Column("conventions", AnyText),
    Column("signature", AnyText),
    Column("search", AnyText),
    Column("command", Text),
    Column("folder", AnyText),
    Column("origin", AnyText),
    Column("git_commit", AnyText),
    Column("config", Text),
    Column("versions", Text),
    Column("seeds", Text),
    Column("data", Text),
    Column("timings", Text),
    Column("notes", AnyText),
)

AGGREGATES: Final = Table(
    "aggregates",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("measure", AnyText),
    Column("average", AnyText),
    Column("by_column", AnyText),
    Column("subset", AnyText),
    Column("value", Float(53)),
    Column("value_skip", Float(53)),
    Column("value_zero", Float(53)),
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("level", Float(53)),
    Column("method", AnyText),
    Column("note", AnyText),
    Column("chance", Float(53)),
    Column("ceiling", Float(53)),
    Column("n", BigInteger),
    Column("empty", BigInteger),
    Column("missing", BigInteger),
    Column("tied", BigInteger),
    Column("groups_left_out", BigInteger),
)

TAGS: Final = Table(
    "tags",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("tag", AnyText, primary_key=True),
)

# One row for each array of a run, so that a reader takes only the measure that it needs. `part` is
# empty in a finished run, and names a finished piece of one that is still running.
BLOBS: Final = Table(
    "blobs",
    _METADATA,
    Column("run_id", Integer, primary_key=True),
    Column("part", AnyText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", AnyText),
    Column("encoding", Text),
    Column("size", BigInteger),
    Column("raw_bytes", BigInteger),
    Column("checksum", Text),
    Column("content", LargeBinary),
)

# One row for each query of which something is shown.
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

# Tables that hold what belongs to a run.
OWN_TABLES: Final = (AGGREGATES, TAGS, BLOBS, SHOWN)
