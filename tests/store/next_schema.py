"""A made-up schema after the newest one, for tests of upgrades."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

import assay.store
from assay.store.schema import REVISIONS, newest_version
from tests.store.places import make_scores

OLD = newest_version()
NEXT = "0008"


def make_old_store(place: object) -> None:
    """Make a store that is old once there is a next schema, with two runs."""
    with assay.store.open(str(place)) as store:
        for name in ("old 1", "old 2"):
            store.save(make_scores(1), name, tags=["t"], wide={"true_map_micro": 0.25})


def add_mood(operations: Any) -> None:
    """Lead to the next schema: another column of runs, with an index."""
    operations.add_column("runs", sa.Column("mood", sa.Text, server_default="", nullable=False))
    operations.create_index("runs_mood", "runs", ["mood"])
    operations.execute("UPDATE runs SET mood = 'fine'")


def add_revision() -> None:
    """Let this process know the next schema."""
    REVISIONS[NEXT] = add_mood
