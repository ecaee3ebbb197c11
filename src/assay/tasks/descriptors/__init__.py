"""Image descriptors: how well keypoints of one image find their true match in another.

Ranks of true matches are counted (`rank_pair`), become a `DescriptorResult`, and that gives mAP,
Success@k, intervals over scenes, chance and comparisons. `run_experiment` does all of it from an
experiment file; `ExperimentMetrics` is the workbench's container by its own names.
"""

from __future__ import annotations

from assay.tasks.descriptors.compare import CategorySummary, compare_descriptors, summarize
from assay.tasks.descriptors.experiment import Experiment, experiment_from, read_experiment
from assay.tasks.descriptors.image_retrieval import evaluate_image_retrieval
from assay.tasks.descriptors.imports import import_results
from assay.tasks.descriptors.patches import PatchScene, evaluate_patches, read_patch_scenes
from assay.tasks.descriptors.pooled_hits import Candidates, PooledResult, count_candidates
from assay.tasks.descriptors.ranks import PairRanks, rank_pair
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.run import ExperimentResult, run_experiment
from assay.tasks.descriptors.workbench import ExperimentMetrics, QueryAPResult, compute_query_ap
from assay.tasks.descriptors.workbench_csv import metadata_text, read_metadata, wide_row

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
