"""Predictions of one class for each sample: the next place, the next item, the right label.

`evaluate_predictions` takes scores or logits of all classes, `evaluate_candidates` lists of
candidates, an `Accumulator` batches of scores, and `evaluate_files` files of several models and
seeds. `evaluate_confidence` looks at calibration, `distance_errors` at metres and
`measure_predictability` at the visits themselves. `evaluate_baselines` says what is easily
predicted, `compare_models` which model is better, and `import_results` reads result files of other
projects. `records()` of a result go into a store or a report.
"""

from assay.core.on_demand import open_door

__getattr__, __dir__ = open_door(__name__, __file__)
