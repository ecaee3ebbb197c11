"""Assay inside other tools: pytest, experiment trackers, torchmetrics, scikit-learn, model cards.

Names load when first used, each with the package that it is for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assay.integrations.assertions import assert_at_least, assert_not_worse
    from assay.integrations.cards import model_card, read_model_card
    from assay.integrations.sklearn import ranking_score, ranking_scorer
    from assay.integrations.torchmetrics import RetrievalMetric
    from assay.integrations.trackers import log_mlflow, log_wandb

__all__ = [
    "RetrievalMetric",
    "assert_at_least",
    "assert_not_worse",
    "log_mlflow",
    "log_wandb",
    "model_card",
    "ranking_score",
    "ranking_scorer",
    "read_model_card",
]

_HOME: Final = {
    "RetrievalMetric": "torchmetrics",
    "assert_at_least": "assertions",
    "assert_not_worse": "assertions",
    "log_mlflow": "trackers",
    "log_wandb": "trackers",
    "model_card": "cards",
    "ranking_score": "sklearn",
    "ranking_scorer": "sklearn",
    "read_model_card": "cards",
}


if not TYPE_CHECKING:  # else a checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'assay.integrations' has no attribute {name!r}")
        value = getattr(import_module(f"assay.integrations.{_HOME[name]}"), name)
        globals()[name] = value
        return value
