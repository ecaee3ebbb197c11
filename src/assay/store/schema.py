"""The tables as this version reads and writes them; `migrations` creates them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from assay.errors import StorageError, UsageError

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


def _read_text(value: Any) -> Any:
    if type(value) is not str:
        raise _damage_error("a text", value)
    return value if "\x1b" not in value else unescape_text(value)


def _read_count(value: Any) -> Any:
    if type(value) is not int:
        raise _damage_error("an integer", value)
    return value


def _read_number(value: Any) -> Any:
    if value is not None and type(value) not in (float, int):
        raise _damage_error("a number", value)
    return _finite(value)


def _read_bytes(value: Any) -> Any:
    if not isinstance(value, bytes | memoryview):
        raise _damage_error("bytes", value)
    return bytes(value)


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _damage_error(wanted: str, found: object) -> StorageError:
    return StorageError(
        f"Where {wanted} should be, the store has {found!r:.60}: it is damaged there. "
        "'assay runs check' names the run; restore a backup."
    )


class _Checked(TypeDecorator[Any]):
    """A column whose values have one type: a flipped bit of a SQLite file can make any of it."""

    impl: Any = Text
    cache_ok = True
    read: Callable[[Any], Any]

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """On the way out: one call for each cell, because a list of runs has a hundred thousand."""
        return self.read


class EscapedText(_Checked):
    """A column of text in which every Python string can be stored and found."""

    cache_ok = True
    read = staticmethod(_read_text)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        return escape_text(value) if isinstance(value, str) else value


class TextOrNone(EscapedText):
    """The same, or nothing."""

    cache_ok = True
    read = staticmethod(lambda value: None if value is None else _read_text(value))


class Count(_Checked):
    """A column of integers."""

    impl = BigInteger
    cache_ok = True
    read = staticmethod(_read_count)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise UsageError("A number is too large to be stored: it has more than 64 bits.")
        return value


class Number(_Checked):
    """A column of finite numbers; None stands for what is not defined, as infinity is not."""

    impl = Float(53)
    cache_ok = True
    read = staticmethod(_read_number)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """On the way in."""
        try:
            return _finite(value)
        except OverflowError:
            return None


class Bytes(_Checked):
    """A column of bytes."""

    impl = LargeBinary
    cache_ok = True
    read = staticmethod(_read_bytes)


_METADATA: Final = MetaData()

RUNS: Final = Table(
    "runs",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("uid", EscapedText),
    Column("batch", EscapedText),
    Column("rerun_of", EscapedText),
    Column("name", EscapedText),
    Column("task", EscapedText),
    Column("dataset", EscapedText),
    Column("model", EscapedText),
    Column("status", EscapedText),
    Column("message", EscapedText),
    Column("created", EscapedText),
    Column("updated", EscapedText),
    Column("finished", TextOrNone),
    Column("seconds", Number),
    Column("n_queries", Count),
    Column("done", Count),
    Column("total", Count),
    Column("conventions", EscapedText),
    Column("signature", EscapedText),
    Column("search", EscapedText),
    Column("command", EscapedText),
    Column("folder", EscapedText),
    Column("origin", EscapedText),
    Column("git_commit", EscapedText),
    Column("config", EscapedText),
    Column("versions", EscapedText),
    Column("seeds", EscapedText),
    Column("data", EscapedText),
    Column("timings", EscapedText),
    Column("notes", EscapedText),
    Column("digest", EscapedText),
    Column("digest_from", EscapedText),
    Column("marks", EscapedText),
)

AGGREGATES: Final = Table(
    "aggregates",
    _METADATA,
    Column("run_id", Count, primary_key=True),
    Column("position", Count, primary_key=True),
    Column("measure", EscapedText),
    Column("average", EscapedText),
    Column("by_column", EscapedText),
    Column("subset", EscapedText),
    Column("value", Number),
    Column("value_skip", Number),
    Column("value_zero", Number),
    Column("low", Number),
    Column("high", Number),
    Column("level", Number),
    Column("method", EscapedText),
    Column("note", EscapedText),
    Column("chance", Number),
    Column("ceiling", Number),
    Column("n", Count),
    Column("empty", Count),
    Column("missing", Count),
    Column("tied", Count),
    Column("groups_left_out", Count),
    Column("clusters", EscapedText),
)

TAGS: Final = Table(
    "tags",
    _METADATA,
    Column("run_id", Count, primary_key=True),
    Column("tag", EscapedText, primary_key=True),
)

# One row for each array of a run, so that a reader takes only the measure that it needs. `part` is
# empty in a finished run, and names a finished piece of one that is still running.
BLOBS: Final = Table(
    "blobs",
    _METADATA,
    Column("run_id", Count, primary_key=True),
    Column("part", EscapedText, primary_key=True),
    Column("kind", EscapedText, primary_key=True),
    Column("position", Count, primary_key=True),
    Column("name", EscapedText),
    Column("encoding", EscapedText),
    Column("size", Count),
    Column("raw_bytes", Count),
    Column("checksum", EscapedText),
    Column("content", Bytes),
)

# One row for each query whose results are stored.
SHOWN: Final = Table(
    "shown",
    _METADATA,
    Column("run_id", Count, primary_key=True),
    Column("query_key", EscapedText, primary_key=True),
    Column("position", Count),
    Column("raw_bytes", Count),
    Column("checksum", EscapedText),
    Column("content", Bytes),
)

# One row for each cell of the row that a run has under another program's column names.
WIDE_VALUES: Final = Table(
    "wide_values",
    _METADATA,
    Column("run_id", Count, primary_key=True),
    Column("position", Count),
    Column("name", EscapedText, primary_key=True),
    Column("number", Number),
    Column("text", TextOrNone),
)

# Tables that hold what belongs to a run.
OWN_TABLES: Final = (AGGREGATES, TAGS, BLOBS, SHOWN, WIDE_VALUES)
