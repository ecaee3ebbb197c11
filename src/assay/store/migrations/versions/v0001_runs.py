"""Runs, their aggregates, tags and arrays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None

_INDEXED = ("task", "dataset", "model", "name", "status", "created", "batch")


def upgrade() -> None:
    """Make the tables."""
    _make_runs()
    _make_aggregates()
    op.create_table(
        "tags",
        _run_id(),
        sa.Column("tag", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "tag"),
    )
    op.create_index("tags_tag", "tags", ["tag"])
    op.create_table(
        "blobs",
        _run_id(),
        *_texts("part", "kind"),
        sa.Column("position", sa.Integer, nullable=False),
        *_texts("name", "encoding"),
        *_counts("size", "raw_bytes"),
        *_texts("checksum"),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "part", "kind", "position"),
    )


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        *_texts(
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
        ),
        sa.Column("finished", sa.Text),
        sa.Column("seconds", sa.Float(53)),
        *_counts("n_queries"),
        *_texts(
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
            "notes",
        ),
        sa.UniqueConstraint("uid", name="runs_uid"),
        sa.CheckConstraint("status in ('running', 'finished', 'failed')", name="runs_status"),
        sqlite_autoincrement=True,  # the number of a deleted run is not given to another
    )
    for column in _INDEXED:
        op.create_index(f"runs_{column}", "runs", [column])


def _make_aggregates() -> None:
    op.create_table(
        "aggregates",
        _run_id(),
        sa.Column("position", sa.Integer, nullable=False),
        *_texts("measure", "average", "by_column", "subset"),
        *_numbers("value", "value_skip", "value_zero", "low", "high", "level"),
        *_texts("method", "note"),
        *_numbers("chance", "ceiling"),
        *_counts("n", "empty", "missing", "tied", "groups_left_out"),
        sa.PrimaryKeyConstraint("run_id", "position"),
    )
    op.create_index("aggregates_measure", "aggregates", ["measure", "run_id"])


def _run_id() -> sa.Column[int]:
    return sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False, server_default="") for name in names]


def _numbers(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Float(53)) for name in names]


def _counts(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False, server_default="0") for name in names]
