"""The functions and the JSON of the next-location projects, by their old names and shapes.

Everything here is in percent where the old files are; nothing else in Assay is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.errors import InputError, MismatchError, ValueRangeError
from assay.search.engine.score_ranks import ranks_and_best
from assay.tasks.prediction.evaluate import as_array
from assay.tasks.prediction.units import CUTS

if TYPE_CHECKING:
    from assay.tasks.prediction.result import PredictionResult

__all__ = [
    "CUTS",
    "SUMS",
    "calculate_correct_total_prediction",
    "get_mrr",
    "get_ndcg",
    "get_performance_dict",
    "legacy_json",
    "top_k_accuracy",
]


SUMS = (*(f"correct@{k}" for k in CUTS), "rr", "ndcg", "total")


def calculate_correct_total_prediction(logits: Any, true_y: Any) -> tuple[Floats, Ints, Ints]:
    """Sums over a batch of logits [samples, classes], the true classes, and the top-1 classes.

    The sums are correct@1, correct@3, correct@5, correct@10, the sum of reciprocal ranks, the sum
    of nDCG@10 and the number of samples; add them over batches and divide by the last. Ranks are
    over all classes; of equal logits the lower class comes first. Samples whose true class is −1
    are left out of all three.

    >>> sums, true, top1 = calculate_correct_total_prediction([[0.1, 0.7, 0.2]], [2])
    >>> sums.tolist()[:5], true.tolist(), top1.tolist()
    ([0.0, 1.0, 1.0, 1.0, 0.5], [2], [1])
    """
    targets = as_array(true_y)
    ranks, best = ranks_and_best(as_array(logits), targets)
    known = ranks.has_target
    found = ranks.rank[known]
    hits = [_count_within(found, k) for k in CUTS]
    sums = np.array([*hits, _sum_rr(found), _sum_ndcg(found, CUTS[-1]), len(found)], np.float64)
    return sums, np.asarray(targets, np.int64)[known], best[known]


def top_k_accuracy(logits: Any, targets: Any, k: int) -> int:
    """How many samples have their true class among the first k: a count, not a share.

    >>> top_k_accuracy([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 2], 2)
    1
    """
    return _count_within(_known_ranks(logits, targets), checks.check_cutoff(k))


def get_mrr(prediction: Any, targets: Any) -> float:
    """The sum of 1 / rank over a batch of logits; divide it by the number of samples.

    >>> get_mrr([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 0])
    1.5
    """
    return _sum_rr(_known_ranks(prediction, targets))


def get_ndcg(prediction: Any, targets: Any, k: int = 10) -> float:
    """The sum of nDCG@k over a batch of logits; divide it by the number of samples.

    >>> round(get_ndcg([[0.1, 0.7, 0.2], [0.9, 0.1, 0.0]], [2, 0]), 4)
    1.6309
    """
    return _sum_ndcg(_known_ranks(prediction, targets), checks.check_cutoff(k))


def _known_ranks(logits: Any, targets: Any) -> Ints:
    ranks, _ = ranks_and_best(as_array(logits), as_array(targets))
    return ranks.rank[ranks.has_target]


def _count_within(ranks: Ints, k: int) -> int:
    return int((ranks <= k).sum())


def _sum_rr(ranks: Ints) -> float:
    counts = np.bincount(ranks)
    taken = np.flatnonzero(counts)
    return math.fsum((counts[taken] / taken).tolist())


def _sum_ndcg(ranks: Ints, k: int) -> float:
    counts = np.bincount(ranks[ranks <= k])
    taken = np.flatnonzero(counts)
    return math.fsum((counts[taken] / np.log2(taken + 1)).tolist())


def get_performance_dict(return_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Percentages from the sums of all batches.

    Takes correct@1, correct@3, correct@5, correct@10, rr, ndcg (sums), total and, if it is there,
    f1 as a fraction. Gives the counts back with acc@1, acc@3, acc@5, acc@10, mrr, ndcg and f1, all
    in percent.

    >>> sums = {"correct@1": 1, "correct@3": 2, "correct@5": 2, "correct@10": 2,
    ...         "rr": 1.5, "ndcg": 1.63, "total": 2, "f1": 0.5}
    >>> perf = get_performance_dict(sums)
    >>> perf["acc@1"], perf["mrr"], perf["f1"]
    (50.0, 75.0, 50.0)
    """
    checks.require(return_dict, Mapping, "return_dict", "a dictionary of sums")
    sums = {key: _sum_of(return_dict, key) for key in SUMS}
    total = sums["total"]
    if not total > 0:
        raise ValueRangeError(f"total is {total:g}: without samples there is no percentage.")
    for key in SUMS[:-1]:
        if not 0 <= sums[key] <= total * (1 + 1e-9):
            raise ValueRangeError(f"{key} is {sums[key]:g}, which does not fit total {total:g}.")
    counts = [*(f"correct@{k}" for k in CUTS), "rr", "total"]
    found = {key: return_dict[key] for key in counts}
    found |= {f"acc@{k}": 100 * sums[f"correct@{k}"] / total for k in CUTS}
    found |= {"mrr": 100 * sums["rr"] / total, "ndcg": 100 * sums["ndcg"] / total}
    if "f1" in return_dict:
        found["f1"] = 100 * _f1_of(return_dict)
    return found


def _sum_of(sums: Mapping[str, Any], key: str) -> float:
    if key not in sums:
        raise MismatchError(f"return_dict has no {key!r}; it has: {', '.join(map(str, sums))}.")
    try:
        value = float(sums[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueRangeError(f"{key} must be a finite number, found {sums[key]!r}.")
    return value


def _f1_of(sums: Mapping[str, Any]) -> float:
    value = _sum_of(sums, "f1")
    if not 0 <= value <= 1:
        raise ValueRangeError(f"f1 must be a fraction from 0 to 1, found {value:g}.")
    return value


def legacy_json(result: PredictionResult) -> dict[str, float]:
    """The result in the shape of the old result files: percentages, F1 weighted by support."""
    named = {f"acc@{k}": f"Success@{k}" for k in CUTS}
    named |= {"mrr": f"RR@{result.depth}" if result.depth else "RR", "ndcg": "nDCG@10"}
    means = result.mean()
    absent = [measure for measure in named.values() if measure not in means]
    if absent:
        raise InputError(
            f"The old JSON needs {', '.join(named.values())}; {', '.join(absent)} was not computed."
        )
    found = {key: 100 * means[measure] for key, measure in named.items()}
    return {**found, "f1": 100 * result.confusion.f1("weighted")}
