"""How far a running run is, and a view with the wide column names of descriptor benches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"

# column of the view: (measure, average, column of the groups, subset, which value)
_COLUMNS = {
    "true_map_micro": ("AP", "micro", "", "", "value_skip"),
    "true_map_macro": ("AP", "macro", "scene", "", "value_skip"),
    "true_map_macro_by_scene": ("AP", "macro", "scene", "", "value_skip"),
    "true_map_micro_including_zeros": ("AP", "micro", "", "", "value_zero"),
    "true_map_macro_by_scene_including_zeros": ("AP", "macro", "scene", "", "value_zero"),
    "mean_average_precision": ("AP", "micro", "", "", "value"),
    "viewpoint_map": ("AP", "macro", "scene", "viewpoint", "value_skip"),
    "illumination_map": ("AP", "macro", "scene", "illumination", "value_skip"),
    "keypoint_verification_ap": ("PooledAP", "pooled", "", "verification", "value"),
    "verification_viewpoint_ap": ("PooledAP", "pooled", "", "verification/viewpoint", "value"),
    "verification_illumination_ap": (
        "PooledAP",
        "pooled",
        "",
        "verification/illumination",
        "value",
    ),
    "keypoint_retrieval_ap": ("PooledAP", "pooled", "", "retrieval", "value"),
    "retrieval_viewpoint_ap": ("PooledAP", "pooled", "", "retrieval/viewpoint", "value"),
    "retrieval_illumination_ap": ("PooledAP", "pooled", "", "retrieval/illumination", "value"),
    "precision_at_1": ("Success@1", "micro", "", "", "value_skip"),
    "precision_at_5": ("Success@5", "micro", "", "", "value_skip"),
    "precision_at_10": ("Success@10", "micro", "", "", "value_skip"),
    "recall_at_1": ("Success@1", "micro", "", "", "value_skip"),
    "recall_at_5": ("Success@5", "micro", "", "", "value_skip"),
    "recall_at_10": ("Success@10", "micro", "", "", "value_skip"),
    "mean_precision": ("mean_precision", "micro", "", "", "value"),
    "legacy_macro_precision_by_scene": ("mean_precision", "macro", "scene", "", "value"),
}


def upgrade() -> None:
    """Add two columns and the view."""
    for name in ("done", "total"):
        op.add_column("runs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.execute(sa.text(f"CREATE VIEW wide_results AS {_select()}"))


def _select() -> str:
    columns = ",\n".join(f"MAX({_case(*found)}) AS {name}" for name, found in _COLUMNS.items())
    return f"""
        SELECT runs.id AS run_id, runs.name AS descriptor, runs.task, runs.dataset, runs.model,
        runs.status, runs.created,
        {columns},
        MAX(CASE WHEN a.average = 'micro' THEN runs.n_queries - a.empty END)
            AS total_queries_processed,
        MAX(CASE WHEN a.average = 'micro' THEN a.empty END) AS total_queries_excluded,
        1000 * runs.seconds AS processing_time_ms, runs.config AS metadata
        FROM runs LEFT JOIN aggregates a ON a.run_id = runs.id
        GROUP BY runs.id
    """


def _case(measure: str, average: str, by: str, subset: str, value: str) -> str:
    return (
        f"CASE WHEN a.measure = '{measure}' AND a.average = '{average}' "
        f"AND a.by_column = '{by}' AND a.subset = '{subset}' THEN a.{value} END"
    )
