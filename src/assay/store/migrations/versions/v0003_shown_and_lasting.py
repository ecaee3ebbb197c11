"""What is shown of a query, and finished runs that no statement can change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0003"
down_revision = "0002"

_SAYING = "a finished run does not change"
# All columns of runs but the notes, which are written about a run, like its tags.
_FIXED = (
    "id",
    "uid",
    "batch",
    "rerun_of",
    "name",
    "task",
    "dataset",
    "model",
    "status",
    "message",
    "created",
    "updated",
    "finished",
    "seconds",
    "n_queries",
    "done",
    "total",
    "conventions",
    "signature",
    "search",
    "command",
    "folder",
    "origin",
    "git_commit",
    "config",
    "versions",
    "seeds",
    "data",
    "timings",
)
_OWNED = ("aggregates", "blobs", "shown")
_PARTS = (*_OWNED, "tags")


def upgrade() -> None:
    """Add the table and the triggers."""
    _make_shown()
    if op.get_context().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgres()


def _make_shown() -> None:
    op.create_table(
        "shown",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("query_key", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("raw_bytes", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "query_key"),
    )


def _guard_sqlite() -> None:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_SAYING}'); END"
    _run(
        f"CREATE TRIGGER runs_stay BEFORE UPDATE OF {', '.join(_FIXED)} ON runs "
        f"WHEN OLD.status = 'finished' {refuse}"
    )
    # INSERT OR REPLACE deletes the old row, and no trigger hears of that.
    _run(
        "CREATE TRIGGER runs_not_replaced BEFORE INSERT ON runs WHEN EXISTS (SELECT 1 FROM runs "
        f"WHERE status = 'finished' AND (id = NEW.id OR uid = NEW.uid)) {refuse}"
    )
    for table in _OWNED:
        for event, runs in (
            ("INSERT", "NEW.run_id"),
            ("UPDATE", "OLD.run_id, NEW.run_id"),
            ("DELETE", "OLD.run_id"),
        ):
            _run(
                f"CREATE TRIGGER {table}_stay_{event.lower()} BEFORE {event} ON {table} "
                "WHEN EXISTS (SELECT 1 FROM runs WHERE status = 'finished' "
                f"AND id IN ({runs})) {refuse}"
            )
    # A whole run may go. What belongs to it goes after it, when there is no finished run any more;
    # SQLite looks at foreign keys when the statement is done.
    gone = " ".join(f"DELETE FROM {table} WHERE run_id = OLD.id;" for table in _PARTS)
    _run(f"CREATE TRIGGER runs_go_whole AFTER DELETE ON runs BEGIN {gone} END")


def _guard_postgres() -> None:
    _run(
        "CREATE FUNCTION assay_run_stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{_SAYING}'; END $$"
    )
    _run(
        f"CREATE TRIGGER runs_stay BEFORE UPDATE OF {', '.join(_FIXED)} ON runs "
        "FOR EACH ROW WHEN (OLD.status = 'finished') EXECUTE FUNCTION assay_run_stays()"
    )
    # A condition of a trigger cannot look into another table; a function can.
    _run(
        "CREATE FUNCTION assay_part_stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF EXISTS (SELECT 1 FROM runs WHERE status = 'finished' "
        f"AND id IN (OLD.run_id, NEW.run_id)) THEN RAISE EXCEPTION '{_SAYING}'; END IF; "
        "RETURN coalesce(NEW, OLD); END $$"
    )
    for table in _OWNED:
        _run(
            f"CREATE TRIGGER {table}_stay BEFORE INSERT OR UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION assay_part_stays()"
        )
    # A whole run may go. What belongs to it goes after it, when there is no finished run any more.
    for table in _PARTS:
        _run(
            f"ALTER TABLE {table} DROP CONSTRAINT {table}_run_id_fkey, "
            f"ADD CONSTRAINT {table}_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs (id) "
            "ON DELETE CASCADE"
        )


def _run(statement: str) -> None:
    op.execute(sa.text(statement))
