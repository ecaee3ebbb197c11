"""A digest of everything that a run shows, since when it vouches, and one of notes and tags.

The digests of runs that are there are computed after the upgrade, in its transaction.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0006"
down_revision = "0005"

# Only a finished run that has no digest yet may get one.
_GUARD = "CREATE TRIGGER runs_digest_stays BEFORE UPDATE OF digest, digest_from ON runs"
_WHEN = "OLD.status = 'finished' AND OLD.digest <> ''"


def upgrade() -> None:
    """Add the columns and guard them."""
    for name in ("digest", "digest_from", "marks"):
        op.add_column("runs", sa.Column(name, sa.Text, nullable=False, server_default=""))
    if op.get_context().dialect.name == "sqlite":
        refuse = "BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END"
        op.execute(sa.text(f"{_GUARD} WHEN {_WHEN} {refuse}"))
    else:
        stay = "EXECUTE FUNCTION assay_run_stays()"
        op.execute(sa.text(f"{_GUARD} FOR EACH ROW WHEN ({_WHEN}) {stay}"))
