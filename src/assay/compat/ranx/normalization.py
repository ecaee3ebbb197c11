"""ranx's ways to bring the scores of each query to one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.compat.ranx.data_structures.run import Run

_LEAST: Final = 1e-9  # what ranx divides by where all scores are equal


def _rescale(run: Run, scale: Callable[[Floats], Floats]) -> Run:
    """Return the run with the scores of each query, best first, replaced."""
    lists = {}
    for query, docs in run.in_order().items():
        scores = np.array(list(docs.values()), np.float64)
        lists[query] = dict(zip(docs, scale(scores).tolist() if docs else (), strict=True))
    return Run(lists, run.name)


def min_max_norm(run: Run, invert: bool = False) -> Run:
    """Rescale from 0 (lowest score) to 1 (highest), or inverted."""

    def scale(scores: Floats) -> Floats:
        low, high = scores.min(), scores.max()
        span = max(high - low, _LEAST)
        return np.asarray((high - scores if invert else scores - low) / span)

    return _rescale(run, scale)


def max_norm(run: Run) -> Run:
    """Divide by the highest score."""
    return _rescale(run, lambda scores: scores / max(scores.max(), _LEAST))


def sum_norm(run: Run) -> Run:
    """Rescale from 0 for the lowest score, adding up to 1."""

    def scale(scores: Floats) -> Floats:
        above = scores - scores.min()
        return np.asarray(above / max(above.sum(), _LEAST))

    return _rescale(run, scale)


def zmuv_norm(run: Run) -> Run:
    """Rescale to mean 0 and variance 1."""
    return _rescale(run, lambda scores: (scores - scores.mean()) / max(scores.std(), _LEAST))


def rank_norm(run: Run) -> Run:
    """Replace scores by ranks, from 1 down in equal steps."""
    return _rescale(run, lambda scores: 1 - np.arange(len(scores)) / len(scores))


def borda_norm(runs: Sequence[Run]) -> list[Run]:
    """Replace scores by ranks; absent documents share the rest."""
    rescaled: list[dict[str, dict[str, float]]] = [{} for _ in runs]
    for query in runs[0].get_query_ids():
        lists = [run.in_order()[query] for run in runs]
        union = dict.fromkeys(doc for docs in lists for doc in docs)
        for scores, docs in zip(rescaled, lists, strict=True):
            absent = 0.5 - (len(docs) - 1) / (2 * len(union)) if union else 0.0
            places = {doc: 1 - place / len(union) for place, doc in enumerate(docs)}
            scores[query] = {doc: places.get(doc, absent) for doc in union}
    return [Run(scores, run.name) for scores, run in zip(rescaled, runs, strict=True)]


_NORMS: Final[dict[str, Callable[..., Any]]] = {
    "borda": borda_norm,
    "max": max_norm,
    "min-max": min_max_norm,
    "min-max-inverted": lambda run: min_max_norm(run, invert=True),
    "rank": rank_norm,
    "sum": sum_norm,
    "zmuv": zmuv_norm,
}


def norm_switch(method: str = "min-max") -> Callable[..., Any]:
    """Return the function of a name.

    That of borda takes all runs at once.
    """
    if method.replace("_", "-") not in _NORMS:
        raise ValueError(f"There is no normalization {method!r}; use one of {', '.join(_NORMS)}.")
    return _NORMS[method.replace("_", "-")]


def normalize(run: Run, norm: str = "min-max") -> Any:
    """Return a run with its scores brought to one scale."""
    return norm_switch(norm)(run)
