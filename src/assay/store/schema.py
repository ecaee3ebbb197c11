"""The tables of a store and the types of their columns; `Run` lists those of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from assay.errors import StorageError, UsageError
from assay.store.run import COLUMNS

_UNSTORABLE = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPE = re.compile("\x1b([0-9a-f]{4})")


def escape_text(text: str) -> str:
    r"""Return the text without characters that a database refuses.

    >>> escape_text("a\x00b")
    'a\x1b0000b'
    """
    return _UNSTORABLE.sub(lambda match: f"\x1b{ord(match.group()):04x}", text)


def unescape_text(text: str) -> str:
    r"""Return the text as it was.

    >>> unescape_text(escape_text("a\x00\x1b\ud800"))
    'a\x00\x1b\ud800'
    """
    if "\x1b" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)


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


def _damage_error(expected: str, value: object) -> StorageError:
    return StorageError(
        f"Where {expected} should be, the store has {value!r:.60}: it is damaged there. "
        "'assay runs check' names the run; restore a backup."
    )


class _Checked(TypeDecorator[Any]):
    """A column whose values have one type: a flipped bit of a SQLite file can make any of it."""

    impl: Any = sa.Text
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
        """Return the cell for the database."""
        return escape_text(value) if isinstance(value, str) else value


class TextOrNone(EscapedText):
    """The same, or nothing."""

    cache_ok = True
    read = staticmethod(lambda value: None if value is None else _read_text(value))


class Count(_Checked):
    """A column of integers."""

    impl: Any = sa.BigInteger
    cache_ok = True
    read = staticmethod(_read_count)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the cell for the database."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise UsageError("A number is too large to be stored: it has more than 64 bits.")
        return value


class Position(Count):
    """A column of integers that count rows."""

    impl = sa.Integer
    cache_ok = True


class Number(_Checked):
    """A column of finite numbers; None stands for what is not defined, as infinity is not."""

    impl = sa.Float(53)
    cache_ok = True
    read = staticmethod(_read_number)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the cell for the database."""
        try:
            return _finite(value)
        except OverflowError:
            return None


class Bytes(_Checked):
    """A column of bytes."""

    impl = sa.LargeBinary
    cache_ok = True
    read = staticmethod(_read_bytes)


METADATA: Final = sa.MetaData()
_CELLS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "text": (EscapedText, {"nullable": False, "server_default": ""}),
    "text or none": (TextOrNone, {}),
    "count": (Count, {"nullable": False, "server_default": "0"}),
    "number": (Number, {}),
}


def _column(name: str, cell: str = "text", **facts: Any) -> sa.Column[Any]:
    """Return a column of one type of cell; what is not given has the default of its type."""
    kind, defaults = _CELLS[cell]
    return sa.Column(name, kind, **defaults, **facts)


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return [_column(name, "number") for name in names]


def _counts(*names: str) -> list[sa.Column[Any]]:
    return [_column(name, "count") for name in names]


def _run_id() -> sa.Column[Any]:
    owner = sa.ForeignKey("runs.id", ondelete="CASCADE")
    return sa.Column("run_id", Position, owner, primary_key=True)


# A name of its own, so that the store may share a database with other programs.
VERSION: Final = sa.Table(
    "assay_schema",
    METADATA,
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="assay_schema_pkc"),
)

_INDEXED: Final = ("task", "dataset", "model", "name", "status", "created", "batch")

# `Run` lists the columns; `marks` is the digest of the notes and tags, which may change.
RUNS: Final = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *(_column(name, column.kind.cell) for name, column in COLUMNS.items() if name != "id"),
    _column("marks"),
    sa.UniqueConstraint("uid", name="runs_uid"),
    sa.CheckConstraint("status in ('running', 'finished', 'failed')", name="runs_status"),
    *(sa.Index(f"runs_{name}", name) for name in _INDEXED),
    sqlite_autoincrement=True,  # the number of a deleted run is not given to another
)

# Digests are over the columns in this order.
AGGREGATES: Final = sa.Table(
    "aggregates",
    METADATA,
    _run_id(),
    sa.Column("position", Position, primary_key=True),
    *map(_column, ("measure", "average", "by_column", "subset")),
    *_numbers("value", "value_skip", "value_zero", "low", "high", "level"),
    *map(_column, ("method", "note")),
    *_numbers("chance", "ceiling"),
    *_counts("n", "empty", "missing", "tied", "groups_left_out"),
    _column("clusters"),
    sa.Index("aggregates_measure", "measure", "run_id"),
)

TAGS: Final = sa.Table(
    "tags",
    METADATA,
    _run_id(),
    sa.Column("tag", EscapedText, primary_key=True),
    sa.Index("tags_tag", "tag"),
)

# One row for each array of a run, so that a reader takes only the measure that it needs. `part` is
# empty in a finished run, and names a finished piece of one that is still running.
BLOBS: Final = sa.Table(
    "blobs",
    METADATA,
    _run_id(),
    _column("part", primary_key=True),
    _column("kind", primary_key=True),
    sa.Column("position", Position, primary_key=True),
    *map(_column, ("name", "encoding")),
    *_counts("size", "raw_bytes"),
    _column("checksum"),
    sa.Column("content", Bytes, nullable=False),
)

# One row for each query whose results are stored.
SHOWN: Final = sa.Table(
    "shown",
    METADATA,
    _run_id(),
    sa.Column("query_key", EscapedText, primary_key=True),
    sa.Column("position", Position, nullable=False),
    sa.Column("raw_bytes", Count, nullable=False),
    sa.Column("checksum", EscapedText, nullable=False),
    sa.Column("content", Bytes, nullable=False),
)

# One row for each cell of the row that a run has under another program's column names.
WIDE_VALUES: Final = sa.Table(
    "wide_values",
    METADATA,
    _run_id(),
    sa.Column("position", Position, nullable=False),
    sa.Column("name", EscapedText, primary_key=True),
    sa.Column("number", Number),
    sa.Column("text", TextOrNone),
)

# Tables that hold what belongs to a run.
OWN_TABLES: Final = (AGGREGATES, TAGS, BLOBS, SHOWN, WIDE_VALUES)
