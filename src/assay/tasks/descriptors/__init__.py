"""Image descriptors: how well keypoints of one image find their true match in another.

Ranks of true matches are counted (`rank_pair`), become a `DescriptorResult`, and that gives mAP,
Success@k, intervals over scenes, chance and comparisons. `run_experiment` does all of it from an
experiment file, and `ExperimentReport` makes tables of it. `records()` of a result go into a store
or a report.
"""

from __future__ import annotations

from assay.tasks.descriptors.compare import CategorySummary, compare_descriptors, summarize
from assay.tasks.descriptors.experiment import Experiment, experiment_from, read_experiment
from assay.tasks.descriptors.image_matching import Estimator, MatchedPair, Matcher, error_auc
from assay.tasks.descriptors.image_retrieval import evaluate_image_retrieval
from assay.tasks.descriptors.imports import ImportReport, import_results, report_import
from assay.tasks.descriptors.match_report import MatchingReport, MatchingResult, match_images
from assay.tasks.descriptors.patch_report import PatchReport
from assay.tasks.descriptors.patches import (
    PatchResult,
    PatchScene,
    demo_patch_scenes,
    describe_patch_scenes,
    evaluate_patches,
    read_patch_scenes,
)
from assay.tasks.descriptors.pooled_hits import Candidates, PooledResult, count_candidates
from assay.tasks.descriptors.pr_curves import PRCurve, draw_curves
from assay.tasks.descriptors.ranks import PairRanks, rank_pair
from assay.tasks.descriptors.report import (
    ExperimentReport,
    draw_matches,
)
from assay.tasks.descriptors.result import DescriptorResult
from assay.tasks.descriptors.run import ExperimentResult, run_experiment
from assay.tasks.descriptors.workbench_csv import metadata_text, read_metadata, wide_row

__all__ = [
    "Candidates",
    "CategorySummary",
    "DescriptorResult",
    "Estimator",
    "Experiment",
    "ExperimentReport",
    "ExperimentResult",
    "ImportReport",
    "MatchedPair",
    "Matcher",
    "MatchingReport",
    "MatchingResult",
    "PRCurve",
    "PairRanks",
    "PatchReport",
    "PatchResult",
    "PatchScene",
    "PooledResult",
    "compare_descriptors",
    "count_candidates",
    "demo_patch_scenes",
    "describe_patch_scenes",
    "draw_curves",
    "draw_matches",
    "error_auc",
    "evaluate_image_retrieval",
    "evaluate_patches",
    "experiment_from",
    "import_results",
    "match_images",
    "metadata_text",
    "rank_pair",
    "read_experiment",
    "read_metadata",
    "read_patch_scenes",
    "report_import",
    "run_experiment",
    "summarize",
    "wide_row",
]
