"""How well a number tells two kinds apart: areas under curves, with ties taken together."""

from __future__ import annotations

import math

import numpy as np

from assay.arrays import Flags, Floats
from assay.stats.special import normal_quantile

__all__ = ["auroc", "auroc_interval", "false_positive_rate", "grouped_ap"]


def auroc(inside: Floats, outside: Floats) -> float:
    """The share of pairs in which the one inside is higher; half of a tie counts.

    >>> auroc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    return float(_placements(inside, outside).mean())


def _placements(a: Floats, b: Floats) -> Floats:
    """For each of `a` the share of `b` that is below it; half of what ties."""
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a) + np.searchsorted(ordered, a, side="right")
    return below / (2 * len(b))


def auroc_interval(inside: Floats, outside: Floats) -> tuple[float, float]:
    """95 % by the variance of DeLong et al. (1988), on the scale of the logit."""
    area = auroc(inside, outside)
    if min(len(inside), len(outside)) < 2 or not 0 < area < 1:
        return math.nan, math.nan
    parts = (_placements(inside, outside), 1 - _placements(outside, inside))
    variance = sum(part.var(ddof=1) / len(part) for part in parts)
    middle = np.log(area / (1 - area))
    half = -normal_quantile(0.025) * np.sqrt(variance) / (area * (1 - area))
    low, high = (1 / (1 + np.exp(-(middle + side * half))) for side in (-1, 1))
    return float(low), float(high)


def false_positive_rate(inside: Floats, outside: Floats, share: float) -> float:
    """The share of `outside` at or above the threshold that this share of `inside` reaches."""
    at = len(inside) - int(np.ceil(share * len(inside)))
    return float((outside >= np.sort(inside)[at]).mean())


def grouped_ap(distance: Floats, right: Flags, missed: int = 0) -> float:
    """AP as scikit-learn has it: equal distances are taken together; NaN without a right one.

    >>> grouped_ap(np.array([1.0, 2.0, 2.0]), np.array([True, False, True]))
    0.8333333333333333
    """
    total = int(right.sum()) + missed
    if not total:
        return math.nan
    order = np.argsort(distance, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(distance[order]) > 0, True)) if len(order) else order
    hits = np.cumsum(right[order])[ends]
    gained = np.diff(hits, prepend=0)
    return math.fsum((gained / total * hits / (ends + 1)).tolist())
