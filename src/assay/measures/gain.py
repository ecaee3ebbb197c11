"""The gain of a grade: relevant or not, a number, a chance to stop, a preference."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.errors import MeasureError

__all__ = ["GAINS", "GAIN_PARAMS", "gain_function"]


_LARGEST_GAIN = 1e290  # so that no sum of gains reaches infinity

GAINS = ("relevant", "graded", "relevant or graded", "preference", "judged", "stop")
GAIN_PARAMS = ("rel", "gain", "gains", "gmax", "graded")


@cache
def gain_function(kind: str, **params: Any) -> Callable[[Floats], Floats]:
    """The function from grades to gains; a negative grade is in the pool but has no gain.

    The same kind and parameters give the same function, so that views can be shared.
    """
    if kind == "relevant or graded":
        kind = "graded" if params.get("graded", False) else "relevant"
    if kind == "relevant":
        return lambda grade: _is_relevant(grade, params["rel"]).astype(np.float64)
    if kind == "preference":
        return lambda grade: _preference(grade, params["rel"])
    if kind == "judged":
        return lambda grade: (grade >= 0).astype(np.float64)
    if kind == "graded":
        return lambda grade: _graded(grade, params.get("gain", "linear"), params.get("gains", ()))
    return lambda grade: _chance_to_stop(grade, params.get("gmax", 4))


def _preference(grade: Floats, rel: float) -> Floats:
    judged = np.where(grade >= 0, -1.0, 0.0)
    return np.where(_is_relevant(grade, rel), 1.0, judged)


def _is_relevant(grade: Floats, rel: float) -> NDArray[np.bool_]:
    return grade >= max(rel, 0)


def _graded(grade: Floats, scale: str, gains: tuple[tuple[float, float], ...]) -> Floats:
    gain = np.maximum(grade, 0.0)
    if scale != "linear":
        with np.errstate(over="ignore"):
            gain = np.exp2(gain) - 1.0
    for level, value in gains:
        gain = np.where(grade == level, value, gain)
    if gain.max(initial=0.0) > _LARGEST_GAIN:
        raise MeasureError(
            f"A grade of {grade.max():g} is too large for gain={scale}: sums of gains would "
            "overflow. Use smaller grades, or give gains of your own."
        )
    return gain


def _chance_to_stop(grade: Floats, gmax: float) -> Floats:
    top = grade.max(initial=0.0)
    if top > gmax:
        raise MeasureError(
            f"A judgment has grade {top:g}, above gmax={gmax:g}. Write ERR(gmax={top:g})."
        )
    return np.asarray((np.exp2(np.maximum(grade, 0.0)) - 1.0) / np.exp2(gmax))
