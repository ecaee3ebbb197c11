"""Predictions of one class for each sample: the next place, the next item, the right label.

`evaluate_predictions` takes scores or logits of all classes, `evaluate_candidates` lists of
candidates, an `Accumulator` batches of scores, and `evaluate_files` files of several models and
seeds. `evaluate_confidence` looks at calibration, `distance_errors` at metres and
`measure_predictability` at the visits themselves. `evaluate_baselines` says what is easily
predicted, `compare_models` which model is better, and `import_results` reads result files of other
projects. `records()` of a result go into a store or a report.
"""

from __future__ import annotations

from assay.tasks.prediction.baselines import Training, evaluate_baselines
from assay.tasks.prediction.confidence import evaluate_confidence
from assay.tasks.prediction.evaluate import (
    Accumulator,
    evaluate_candidates,
    evaluate_predictions,
)
from assay.tasks.prediction.files import read_labels, read_prediction_file
from assay.tasks.prediction.imported import ImportedResults
from assay.tasks.prediction.imports import import_results
from assay.tasks.prediction.models import ModelResults, PredictionRequest, evaluate_files
from assay.tasks.prediction.places import distance_errors, measure_predictability
from assay.tasks.prediction.result import PredictionResult
from assay.tasks.prediction.seeds import SeedReport, compare_models, compare_seed_means

__all__ = [
    "Accumulator",
    "ImportedResults",
    "ModelResults",
    "PredictionRequest",
    "PredictionResult",
    "SeedReport",
    "Training",
    "compare_models",
    "compare_seed_means",
    "distance_errors",
    "evaluate_baselines",
    "evaluate_candidates",
    "evaluate_confidence",
    "evaluate_files",
    "evaluate_predictions",
    "import_results",
    "measure_predictability",
    "read_labels",
    "read_prediction_file",
]
