"""The column that was resampled as whole groups gets a place of its own.

Before, it was part of the method of an interval: `bca by scene`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0004"
down_revision = "0003"

_BY = " by "
# Triggers of 0003 that keep finished runs as they are; they come back as they were.
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END"
_GUARD = (
    "CREATE TRIGGER aggregates_stay_update BEFORE UPDATE ON aggregates WHEN EXISTS (SELECT 1 FROM "
    f"runs WHERE status = 'finished' AND id IN (OLD.run_id, NEW.run_id)) {_REFUSE}"
)


def upgrade() -> None:
    """Add the column and fill it."""
    op.add_column("aggregates", sa.Column("clusters", sa.Text, nullable=False, server_default=""))
    if op.get_context().dialect.name == "sqlite":
        _run("DROP TRIGGER aggregates_stay_update")
        _split("instr(method, :by)")
        _run(_GUARD)
    else:
        _run("ALTER TABLE aggregates DISABLE TRIGGER aggregates_stay")
        _split("strpos(method, :by)")
        _run("ALTER TABLE aggregates ENABLE TRIGGER aggregates_stay")


def _split(place: str) -> None:
    statement = sa.text(
        f"UPDATE aggregates SET clusters = substr(method, {place} + {len(_BY)}), "
        f"method = substr(method, 1, {place} - 1) WHERE {place} > 0"
    )
    op.execute(statement.bindparams(by=_BY))


def _run(statement: str) -> None:
    op.execute(sa.text(statement))
