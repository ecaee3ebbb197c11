"""The schema of a store: tables and types of columns, triggers, the view `wide_results`, upgrades.

`Run` lists the columns of a run. Triggers keep finished runs as they are. Alembic is imported only
for an upgrade.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, inspect, select
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from assay.errors import StorageError, UsageError, need
from assay.store.run import COLUMNS

if TYPE_CHECKING:
    from alembic.operations import Operations


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


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _reader(
    expected: str, types: tuple[type, ...], convert: Callable[[Any], Any]
) -> staticmethod[[Any], Any]:
    """Return the function that reads a cell and refuses one of another type."""

    def read(value: Any) -> Any:
        if type(value) not in types:
            raise StorageError(
                f"Expected {expected}, but the store holds {value!r:.60}: it is damaged. Find "
                "the run with 'assay runs check', and restore a backup."
            )
        return convert(value)

    return staticmethod(read)


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
    read = _reader("a text", (str,), unescape_text)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the cell for the database."""
        return escape_text(value) if isinstance(value, str) else value


class TextOrNone(EscapedText):
    """A column of text or None."""

    cache_ok = True
    read = _reader("a text", (str, NoneType), lambda value: value and unescape_text(value))


class Count(_Checked):
    """A column of integers."""

    impl: Any = sa.BigInteger
    cache_ok = True
    read = _reader("an integer", (int,), int)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the cell for the database."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise UsageError("A number exceeds 64 bits. Store a smaller one.")
        return value


class Position(Count):
    """A column of integers that count rows."""

    impl = sa.Integer
    cache_ok = True


class Number(_Checked):
    """A column of finite numbers; None stands for what is not defined, as infinity is not."""

    impl = sa.Float(53)
    cache_ok = True
    read = _reader("a number", (float, int, NoneType), _finite)

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
    read = _reader("bytes", (bytes, memoryview), bytes)


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


# Versions: how a schema is created, which one a store has, and upgrades

# Schemas 0001 to 0005 existed before the first release; stores of these are refused.
FIRST_VERSION: Final = "0006"
# Each later schema with the function that leads to it from the one before, oldest first. What it
# makes must equal what `create` makes; digests cover the columns of runs, so one that adds a column
# seals the runs again.
REVISIONS: Final[dict[str, Callable[[Operations], None]]] = {
    "0007": lambda operations: _make_view(operations.execute, "DROP VIEW wide_results"),
}


def known_versions() -> list[str]:
    """Return all schemas, oldest first.

    >>> known_versions()[0]
    '0006'
    """
    return [FIRST_VERSION, *REVISIONS]


def newest_version() -> str:
    """Return the schema that this program writes."""
    return known_versions()[-1]


def version_of(connection: Connection) -> str | None:
    """Return the schema version of a store; None for a new one."""
    if not inspect(connection).has_table(VERSION.name):
        return None
    version = connection.execute(select(VERSION)).scalar()
    if version is None:
        raise no_version_error(f"The table {VERSION.name}")
    return str(version)


def no_version_error(place: object) -> StorageError:
    """Return the error for a store whose table of the schema is empty."""
    return StorageError(
        f"{place} lacks the schema version: the store is damaged. Restore a backup."
    )


def create(connection: Connection) -> None:
    """Make a store of the newest schema, inside the transaction of the connection."""
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(VERSION.insert(), {"version_num": newest_version()})
    guards = _sqlite_guards if connection.dialect.name == "sqlite" else _postgres_guards
    _make_view(connection.exec_driver_sql, *guards())


def upgrade(connection: Connection) -> None:
    """Upgrade a store to the newest schema.

    All inside the transaction of the connection: a kill on the way changes nothing.
    """
    need("alembic", "a store of an older schema", "store")
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    version = version_of(connection) or ""
    operations = Operations(MigrationContext.configure(connection))
    for later, change in REVISIONS.items():
        if later > version:
            change(operations)
    connection.execute(VERSION.update().values(version_num=newest_version()))


# Triggers: a finished run does not change, but may be deleted as a whole

_REFUSAL: Final = "a finished run does not change"
_DIGEST: Final = ("digest", "digest_from")
# All columns of runs but the notes, which are written about a run, like its tags.
_FIXED: Final = [name for name, column in COLUMNS.items() if column.sealed and name not in _DIGEST]
_GUARDED: Final = [table.name for table in OWN_TABLES if table is not TAGS]
_GUARDS_OF_RUNS: Final = {
    "runs_stay": (_FIXED, "OLD.status = 'finished'"),
    # Only a finished run that has no digest yet may get one.
    "runs_digest_stays": (_DIGEST, "OLD.status = 'finished' AND OLD.digest <> ''"),
}


def _sqlite_guards() -> Iterator[str]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    finished = "WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND"
    for name, (columns, condition) in _GUARDS_OF_RUNS.items():
        event = f"BEFORE UPDATE OF {', '.join(columns)} ON runs"
        yield f"CREATE TRIGGER {name} {event} WHEN {condition} {refuse}"
    # INSERT OR REPLACE deletes the old row, and no trigger hears of that.
    replaced = "(id = NEW.id OR uid = NEW.uid))"
    yield f"CREATE TRIGGER runs_not_replaced BEFORE INSERT ON runs {finished} {replaced} {refuse}"
    rows = {"INSERT": "NEW.run_id", "UPDATE": "OLD.run_id, NEW.run_id", "DELETE": "OLD.run_id"}
    for table in _GUARDED:
        for event, runs in rows.items():
            yield (
                f"CREATE TRIGGER {table}_stay_{event.lower()} BEFORE {event} ON {table} "
                f"{finished} id IN ({runs})) {refuse}"
            )
    # What belongs to a run goes after it, when there is no finished run any more: also where
    # another program deletes it and does not enforce foreign keys.
    parts = " ".join(f"DELETE FROM {table.name} WHERE run_id = OLD.id;" for table in OWN_TABLES)
    yield f"CREATE TRIGGER runs_go_whole AFTER DELETE ON runs BEGIN {parts} END"


def _postgres_guards() -> Iterator[str]:
    function = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    yield f"CREATE FUNCTION assay_run_stays() {function} RAISE EXCEPTION '{_REFUSAL}'; END $$"
    # A condition of a trigger cannot look into another table; a function can.
    yield (
        f"CREATE FUNCTION assay_part_stays() {function} IF EXISTS (SELECT 1 FROM runs WHERE "
        "status = 'finished' AND id IN (OLD.run_id, NEW.run_id)) THEN "
        f"RAISE EXCEPTION '{_REFUSAL}'; END IF; RETURN coalesce(NEW, OLD); END $$"
    )
    for name, (columns, condition) in _GUARDS_OF_RUNS.items():
        event = f"BEFORE UPDATE OF {', '.join(columns)} ON runs FOR EACH ROW"
        yield f"CREATE TRIGGER {name} {event} WHEN ({condition}) EXECUTE FUNCTION assay_run_stays()"
    for table in _GUARDED:
        event = f"BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
        yield f"CREATE TRIGGER {table}_stay {event} EXECUTE FUNCTION assay_part_stays()"


# The view wide_results: rows under the column names of descriptor benches

_TEXTS: Final = ("descriptor", "keypoint_set", "metadata")
_NUMBERS: Final = ("tau", "processing_time_ms")
_LABELS, _TASKS = ("true_positives", "hard_negatives", "distractors"), ("matching", "retrieval")
_COUNTS: Final = {
    **dict.fromkeys((f"retrieval_num_{label}" for label in _LABELS), "NULL"),
    "total_queries_processed": "runs.n_queries - a.total_queries_excluded",
    "total_queries_excluded": "a.total_queries_excluded",
    "total_queries_failed": "NULL",
}
_CATEGORIES: Final = ("viewpoint", "illumination", "blur", "compression", "zoom")
_BY_SCENE: Final = ("AP", "macro", "scene", "")
# Column of the view: (measure, average, column of the groups, subset, which value)
_AGGREGATES: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "true_map_micro": ("AP", "micro", "", "", "value_skip"),
    **dict.fromkeys(("true_map_macro", "true_map_macro_by_scene"), (*_BY_SCENE, "value_skip")),
    "true_map_micro_including_zeros": ("AP", "micro", "", "", "value_zero"),
    "true_map_macro_by_scene_including_zeros": (*_BY_SCENE, "value_zero"),
    "mean_average_precision": (*_BY_SCENE, "value_skip"),
    **{
        f"{category}_map{end}": ("AP", "macro", "scene", category, value)
        for category in _CATEGORIES
        for end, value in (("", "value_skip"), ("_including_zeros", "value_zero"))
    },
    **{
        name: ("PooledAP", "pooled", "", subset, "value")
        for task in ("verification", "retrieval")
        for name, subset in (
            (f"keypoint_{task}_ap", task),
            *((f"{task}_{category}_ap", f"{task}/{category}") for category in _CATEGORIES),
        )
    },
    **{f"image_{task}_map": (f"image_{task}_map", "images", "", "", "value") for task in _TASKS},
    **{
        f"{name}_at_{k}": (f"Success@{k}", "micro", "", "", "value_skip")
        for name in ("precision", "recall")
        for k in (1, 5, 10)
    },
    "mean_precision": ("mean_precision", "micro", "", "", "value"),
    "legacy_macro_precision_by_scene": ("mean_precision", "macro", "scene", "", "value"),
}


def _make_view(execute: Callable[[str], Any], *first: str) -> None:
    """Make the view of wide rows after other statements; since 0007 with five categories."""
    for statement in (*first, f"CREATE VIEW wide_results AS {_wide_results()}"):
        execute(statement)


def _wide_results() -> str:
    """Select the row that a run stored; of a run without one, what its aggregates say."""
    columns = {
        **dict.fromkeys(("keypoint_set", "tau"), "NULL"),
        **{name: f"a.{name}" for name in _AGGREGATES},
        "mean_average_precision": "COALESCE(a.mean_average_precision, a.overall)",
        **_COUNTS,
        "processing_time_ms": "1000 * runs.seconds",
        "metadata": "NULL",
    }
    return f"""
        SELECT runs.id AS run_id, runs.name, {_stored_or("descriptor", "runs.name")}, runs.task,
        runs.dataset, runs.model, runs.status, runs.created,
        {", ".join(_stored_or(name, computed) for name, computed in columns.items())}
        FROM runs LEFT JOIN ({_pivot_aggregates()}) a ON a.run_id = runs.id
        LEFT JOIN ({_pivot_wide_values()}) w ON w.run_id = runs.id
    """


def _stored_or(name: str, computed: str) -> str:
    stored = f"CAST(w.{name} AS BIGINT)" if name in _COUNTS else f"w.{name}"
    return f"CASE WHEN w.run_id IS NULL THEN {computed} ELSE {stored} END AS {name}"


def _pivot_aggregates() -> str:
    sources: dict[str, Any] = {**_AGGREGATES, "overall": ("AP", "micro", "", "", "value")}
    cells = [
        f"MAX(CASE WHEN measure = '{measure}' AND average = '{average}' AND by_column = '{by}' "
        f"AND subset = '{subset}' THEN {value} END) AS {name}"
        for name, (measure, average, by, subset, value) in sources.items()
    ]
    return f"""
        SELECT run_id, {", ".join(cells)},
        MAX(CASE WHEN average = 'micro' AND by_column = '' AND subset = '' THEN empty END)
            AS total_queries_excluded
        FROM aggregates GROUP BY run_id
    """


def _pivot_wide_values() -> str:
    kinds = {
        **dict.fromkeys(_TEXTS, "text"),
        **dict.fromkeys((*_NUMBERS, *_AGGREGATES, *_COUNTS), "number"),
    }
    cells = "".join(
        f", MAX(CASE WHEN name = '{name}' THEN {kind} END) AS {name}"
        for name, kind in kinds.items()
    )
    return f"SELECT run_id{cells} FROM wide_values GROUP BY run_id"
