"""Image descriptors: how well keypoints of one image find their true match in another.

Ranks of true matches are counted (`rank_pair`), become a `DescriptorResult`, and that gives mAP,
Success@k, intervals over scenes, chance and comparisons. `run_experiment` does all of it from an
experiment file; `ExperimentMetrics` is the workbench's container by its own names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.tasks.descriptors_compare import compare_descriptors
    from assay.tasks.descriptors_file import experiment_from, read_experiment
    from assay.tasks.descriptors_images import evaluate_image_retrieval
    from assay.tasks.descriptors_imports import import_results
    from assay.tasks.descriptors_metrics import ExperimentMetrics, QueryAPResult, compute_query_ap
    from assay.tasks.descriptors_patches import PatchScene, evaluate_patches, read_patch_scenes
    from assay.tasks.descriptors_pooled import Candidates, PooledResult, count_candidates
    from assay.tasks.descriptors_ranks import PairRanks, rank_pair
    from assay.tasks.descriptors_result import DescriptorResult
    from assay.tasks.descriptors_run import ExperimentResult, run_experiment
    from assay.tasks.descriptors_settings import Experiment
    from assay.tasks.descriptors_summary import CategorySummary, summarize
    from assay.tasks.descriptors_wide import metadata_text, read_metadata, wide_row

_HOME = {
    "Candidates": "pooled",
    "CategorySummary": "summary",
    "DescriptorResult": "result",
    "Experiment": "settings",
    "ExperimentMetrics": "metrics",
    "ExperimentResult": "run",
    "PairRanks": "ranks",
    "PatchScene": "patches",
    "PooledResult": "pooled",
    "QueryAPResult": "metrics",
    "compare_descriptors": "compare",
    "compute_query_ap": "metrics",
    "count_candidates": "pooled",
    "evaluate_image_retrieval": "images",
    "evaluate_patches": "patches",
    "experiment_from": "file",
    "import_results": "imports",
    "metadata_text": "wide",
    "rank_pair": "ranks",
    "read_experiment": "file",
    "read_metadata": "wide",
    "read_patch_scenes": "patches",
    "run_experiment": "run",
    "summarize": "summary",
    "wide_row": "wide",
}

__all__ = [
    "Candidates",
    "CategorySummary",
    "DescriptorResult",
    "Experiment",
    "ExperimentMetrics",
    "ExperimentResult",
    "PairRanks",
    "PatchScene",
    "PooledResult",
    "QueryAPResult",
    "compare_descriptors",
    "compute_query_ap",
    "count_candidates",
    "evaluate_image_retrieval",
    "evaluate_patches",
    "experiment_from",
    "import_results",
    "metadata_text",
    "rank_pair",
    "read_experiment",
    "read_metadata",
    "read_patch_scenes",
    "run_experiment",
    "summarize",
    "wide_row",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assay.tasks.descriptors' has no attribute {name!r}")
    return getattr(import_module(f"assay.tasks.descriptors_{_HOME[name]}"), name)
