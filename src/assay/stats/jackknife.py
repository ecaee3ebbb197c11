"""The interval of a number that is no mean over queries, from leaving out each group in turn."""

from __future__ import annotations

import math

import numpy as np

from assay.arrays import Floats
from assay.stats.bounded import constant_ends
from assay.stats.intervals import Interval
from assay.stats.samples import check_level, too_few
from assay.stats.special import t_quantile

__all__ = ["jackknife_interval"]


def jackknife_interval(estimate: float, left_out: Floats, *, level: float = 0.95) -> Interval:
    """Student's interval of a share such as a pooled AP; `left_out` is it without each group.

    Errors are those of the jackknife over groups (Efron & Stein 1981), on the scale of the logit,
    or of the share itself where one of the values is 0 or 1.

    >>> jackknife_interval(0.5, np.array([0.4, 0.5, 0.6]))
    Interval(0.5000 [0.1177, 0.8823], 95 % jackknife, n=3)
    """
    known = left_out[np.isfinite(left_out)]
    n, share = len(known), check_level(level)
    note = "" if math.isnan(estimate) else too_few(n, "groups") or ""
    if math.isnan(estimate) or note:
        return Interval(estimate, math.nan, math.nan, share, "jackknife", n, note=note)
    if np.ptp(known) == 0:
        low, high = constant_ends(estimate, n, share, (0.0, 1.0))
    else:
        low, high = _student_ends(estimate, known, share)
    return Interval(estimate, low, high, share, "jackknife", n).within(0, 1)


def _student_ends(estimate: float, left_out: Floats, level: float) -> tuple[float, float]:
    values, n = np.append(left_out, estimate), len(left_out)
    curved = bool(((values > 0) & (values < 1)).all())
    moved = np.log(values / (1 - values)) if curved else values
    apart = moved[:-1] - moved[:-1].mean()
    half = t_quantile((1 + level) / 2, n - 1) * math.sqrt((apart @ apart) * (n - 1) / n)
    ends = np.array([moved[-1] - half, moved[-1] + half])
    low, high = (1 / (1 + np.exp(-ends)) if curved else ends).tolist()
    return low, high
