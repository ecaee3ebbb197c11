"""Rows under the column names of descriptor benches are stored as they were made.

Before, the view put them together from aggregates, which differed from what a command had written.
It still does so for runs that stored no such row.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0005"
down_revision = "0004"

_TEXTS = ("descriptor", "keypoint_set", "metadata")
_NUMBERS = ("tau", "processing_time_ms")
_COUNTS = {
    "retrieval_num_true_positives": "NULL",
    "retrieval_num_hard_negatives": "NULL",
    "retrieval_num_distractors": "NULL",
    "total_queries_processed": "runs.n_queries - a.total_queries_excluded",
    "total_queries_excluded": "a.total_queries_excluded",
    "total_queries_failed": "NULL",
}
_BY_SCENE = ("AP", "macro", "scene", "")
# column of the view: (measure, average, column of the groups, subset, which value)
_AGGREGATES = {
    "true_map_micro": ("AP", "micro", "", "", "value_skip"),
    "true_map_macro": (*_BY_SCENE, "value_skip"),
    "true_map_macro_by_scene": (*_BY_SCENE, "value_skip"),
    "true_map_micro_including_zeros": ("AP", "micro", "", "", "value_zero"),
    "true_map_macro_by_scene_including_zeros": (*_BY_SCENE, "value_zero"),
    "mean_average_precision": (*_BY_SCENE, "value_skip"),
    **{
        f"{category}_map{end}": ("AP", "macro", "scene", category, value)
        for category in ("viewpoint", "illumination")
        for end, value in (("", "value_skip"), ("_including_zeros", "value_zero"))
    },
    **{
        name: ("PooledAP", "pooled", "", subset, "value")
        for task in ("verification", "retrieval")
        for name, subset in (
            (f"keypoint_{task}_ap", task),
            (f"{task}_viewpoint_ap", f"{task}/viewpoint"),
            (f"{task}_illumination_ap", f"{task}/illumination"),
        )
    },
    "image_matching_map": ("image_matching_map", "images", "", "", "value"),
    "image_retrieval_map": ("image_retrieval_map", "images", "", "", "value"),
    **{
        f"{name}_at_{k}": (f"Success@{k}", "micro", "", "", "value_skip")
        for name in ("precision", "recall")
        for k in (1, 5, 10)
    },
    "mean_precision": ("mean_precision", "micro", "", "", "value"),
    "legacy_macro_precision_by_scene": ("mean_precision", "macro", "scene", "", "value"),
}


def upgrade() -> None:
    """Add the table, guard it, and make the view anew."""
    op.create_table(
        "wide_values",
        sa.Column(
            "run_id", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("number", sa.Float(53)),
        sa.Column("text", sa.Text),
        sa.PrimaryKeyConstraint("run_id", "name"),
    )
    if op.get_context().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _run(
            "CREATE TRIGGER wide_values_stay BEFORE INSERT OR UPDATE OR DELETE ON wide_values "
            "FOR EACH ROW EXECUTE FUNCTION assay_part_stays()"
        )
    _run("DROP VIEW wide_results")
    _run(f"CREATE VIEW wide_results AS {_select()}")


def _guard_sqlite() -> None:
    """As 0003 guards the other tables; what belongs to a run that goes, goes after it."""
    refuse = "BEGIN SELECT RAISE(ABORT, 'a finished run does not change'); END"
    for event, runs in (
        ("INSERT", "NEW.run_id"),
        ("UPDATE", "OLD.run_id, NEW.run_id"),
        ("DELETE", "OLD.run_id"),
    ):
        _run(
            f"CREATE TRIGGER wide_values_stay_{event.lower()} BEFORE {event} ON wide_values WHEN "
            f"EXISTS (SELECT 1 FROM runs WHERE status = 'finished' AND id IN ({runs})) {refuse}"
        )
    _run(
        "CREATE TRIGGER wide_values_go AFTER DELETE ON runs BEGIN "
        "DELETE FROM wide_values WHERE run_id = OLD.id; END"
    )


def _select() -> str:
    """The row that a run stored; of a run without one, what its aggregates say."""
    columns = {
        "keypoint_set": "NULL",
        "tau": "NULL",
        **{name: f"a.{name}" for name in _AGGREGATES},
        "mean_average_precision": "COALESCE(a.mean_average_precision, a.overall)",
        **_COUNTS,
        "processing_time_ms": "1000 * runs.seconds",
        "metadata": "NULL",
    }
    return f"""
        SELECT runs.id AS run_id, runs.name, {_chosen("descriptor", "runs.name")}, runs.task,
        runs.dataset, runs.model, runs.status, runs.created,
        {", ".join(_chosen(name, found) for name, found in columns.items())}
        FROM runs LEFT JOIN ({_pivot_aggregates()}) a ON a.run_id = runs.id
        LEFT JOIN ({_pivot_wide_values()}) w ON w.run_id = runs.id
    """


def _chosen(name: str, computed: str) -> str:
    stored = f"CAST(w.{name} AS BIGINT)" if name in _COUNTS else f"w.{name}"
    return f"CASE WHEN w.run_id IS NULL THEN {computed} ELSE {stored} END AS {name}"


def _pivot_aggregates() -> str:
    columns = "".join(f", MAX({_case(*found)}) AS {n}" for n, found in _AGGREGATES.items())
    overall = _case("AP", "micro", "", "", "value")
    return f"""
        SELECT run_id{columns}, MAX({overall}) AS overall,
        MAX(CASE WHEN average = 'micro' AND by_column = '' AND subset = '' THEN empty END)
            AS total_queries_excluded
        FROM aggregates GROUP BY run_id
    """


def _case(measure: str, average: str, by: str, subset: str, value: str) -> str:
    return (
        f"CASE WHEN measure = '{measure}' AND average = '{average}' "
        f"AND by_column = '{by}' AND subset = '{subset}' THEN {value} END"
    )


def _pivot_wide_values() -> str:
    kinds = {
        **dict.fromkeys(_TEXTS, "text"),
        **dict.fromkeys((*_NUMBERS, *_AGGREGATES, *_COUNTS), "number"),
    }
    columns = "".join(
        f", MAX(CASE WHEN name = '{name}' THEN {kind} END) AS {name}"
        for name, kind in kinds.items()
    )
    return f"SELECT run_id{columns} FROM wide_values GROUP BY run_id"


def _run(statement: str) -> None:
    op.execute(sa.text(statement))
