"""ranx's ways to bring scores to one scale and to make one run of several, and their search.

A fusion makes a score of the scores, or ranks, that a document has in the runs that hold it. Those
that are trained by judgments of another collection are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, log, power
from assay.compat.ranx.data_structures import Qrels, Run, metric_label
from assay.compat.ranx.metrics import evaluate
from assay.tables.table import Cell, Table, as_text

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
    return _rescale(run, lambda s: (s - s.min()) / max((s - s.min()).sum(), _LEAST))


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
        raise ValueError(f"Unknown normalization {method!r}. Use one of {', '.join(_NORMS)}.")
    return _NORMS[method.replace("_", "-")]


def normalize(run: Run, norm: str = "min-max") -> Any:
    """Return a run with its scores brought to one scale."""
    return norm_switch(norm)(run)


def _combine(
    runs: Sequence[Run], score: Callable[[Floats], Floats], name: str, *, ranks: bool = False
) -> Run:
    """Fuse runs by a score of runs × documents, NaN where absent.

    With `ranks` it takes places from 0 instead of scores.
    """
    fused = {}
    for query in runs[0].get_query_ids():
        lists: list[dict[str, float]] = [run.in_order()[query] for run in runs]
        if ranks:
            lists = [{doc: place for place, doc in enumerate(docs)} for docs in lists]
        docs = list(dict.fromkeys(doc for ranked in lists for doc in ranked))
        rows = [[ranked.get(doc, np.nan) for doc in docs] for ranked in lists]
        table = np.array(rows, np.float64)
        fused[query] = dict(zip(docs, score(table).tolist() if docs else (), strict=True))
    return Run(fused, name)


def _total(table: Floats) -> Floats:
    return np.asarray(np.nan_to_num(table).sum(axis=0))


def _held(table: Floats) -> Floats:
    """Count the runs that hold each document."""
    return np.asarray((~np.isnan(table)).sum(axis=0), np.float64)


def _column(weights: Sequence[float]) -> Floats:
    return np.array(weights, np.float64)[:, None]


def _fusion(name: str, score: Callable[[Floats], Floats]) -> Callable[..., Run]:
    """Return the function of a fusion that has no parameter."""

    def fuse_runs(runs: Sequence[Run], name: str = name) -> Run:
        return _combine(runs, score, name)

    fuse_runs.__name__ = fuse_runs.__qualname__ = name
    fuse_runs.__doc__ = f"Fuse runs by {name}."
    return fuse_runs


comb_sum = _fusion("comb_sum", _total)
comb_min = _fusion("comb_min", lambda table: np.nanmin(table, axis=0))
comb_max = _fusion("comb_max", lambda table: np.nanmax(table, axis=0))
comb_med = _fusion("comb_med", lambda table: np.nanmedian(table, axis=0))
comb_anz = _fusion("comb_anz", lambda table: _total(table) / _held(table))
comb_mnz = _fusion("comb_mnz", lambda table: _total(table) * _held(table))


def comb_gmnz(runs: Sequence[Run], gamma: float, name: str = "comb_gmnz") -> Run:
    """Return the sum of the scores times a power of their number."""
    return _combine(runs, lambda table: _total(table) * power(_held(table), gamma), name)


def wsum(runs: Sequence[Run], weights: Sequence[float], name: str = "weighted_sum") -> Run:
    """Return the weighted sum of the scores."""
    return _combine(runs, lambda table: _total(table * _column(weights)), name)


def wmnz(runs: Sequence[Run], weights: Sequence[float], name: str = "wmnz") -> Run:
    """Multiply the scores' sum by the weights of runs with the document."""

    def score(table: Floats) -> Floats:
        return _total(table) * _total(np.where(np.isnan(table), 0.0, _column(weights)))

    return _combine(runs, score, name)


def mixed(runs: Sequence[Run], weights: Sequence[float], name: str = "mixed") -> Run:
    """Multiply the weighted sum by the root of the scores' number."""
    return _combine(runs, lambda t: _total(t * _column(weights)) * np.sqrt(_held(t)), name)


def rrf(runs: Sequence[Run], k: int = 60, name: str = "rrf") -> Run:
    """Return the sum of 1 / (k + rank)."""
    return _combine(runs, lambda places: _total(1 / (k + places + 1)), name, ranks=True)


def rbc(runs: Sequence[Run], phi: float, name: str = "rbc") -> Run:
    """Sum the chances that a reader with patience phi gets there."""
    return _combine(runs, lambda places: _total((1 - phi) * power(phi, places)), name, ranks=True)


def _inverse_squares(runs: Sequence[Run], weight: Callable[[Floats], Floats], name: str) -> Run:
    """Sum 1 / rank², weighted by the number of runs."""

    def score(places: Floats) -> Floats:
        return _total(1 / (places + 1) ** 2) * weight(_held(places))

    return _combine(runs, score, name, ranks=True)


def isr(runs: Sequence[Run], name: str = "isr") -> Run:
    """Sum 1 / rank², times the number of runs."""
    return _inverse_squares(runs, lambda held: held, name)


def log_isr(runs: Sequence[Run], name: str = "log_isr") -> Run:
    """Sum 1 / rank², times the logarithm of the number of runs."""
    return _inverse_squares(runs, log, name)


def logn_isr(runs: Sequence[Run], sigma: float = 0.01, name: str = "logn_isr") -> Run:
    """Fuse as log_isr with sigma added to the number of runs.

    One run counts, too.
    """
    if not 0.0 <= sigma <= 1.0:
        raise AssertionError(f"sigma must be from 0 to 1, found {sigma}.")
    return _inverse_squares(runs, lambda held: log(held + sigma), name)


def weighted_bordafuse(
    runs: Sequence[Run], weights: Sequence[float], name: str = "weighted_bordafuse"
) -> Run:
    """Give weighted points by rank; absent documents share the rest."""

    def score(places: Floats) -> Floats:
        held = (~np.isnan(places)).sum(axis=1, keepdims=True)
        points = places.shape[1] - places
        rest = (places.shape[1] - held + 1) / 2
        return _total(np.where(np.isnan(points), rest, points) * _column(weights))

    return _combine(runs, score, name, ranks=True)


def bordafuse(runs: Sequence[Run], name: str = "bordafuse") -> Run:
    """Give points by rank; absent documents share the rest."""
    return weighted_bordafuse(runs, [1.0] * len(runs), name)


_METHODS: Final[dict[str, Callable[..., Run]]] = {
    **{"anz": comb_anz, "bordafuse": bordafuse, "gmnz": comb_gmnz, "isr": isr},
    **{"log_isr": log_isr, "logn_isr": logn_isr, "max": comb_max, "med": comb_med},
    **{"min": comb_min, "mixed": mixed, "mnz": comb_mnz, "rbc": rbc, "rrf": rrf},
    **{"sum": comb_sum, "w_bordafuse": weighted_bordafuse, "wmnz": wmnz, "wsum": wsum},
}
_ABSENT: Final = {
    **dict.fromkeys(("condorcet", "w_condorcet"), "bordafuse counts votes by rank too"),
    **dict.fromkeys(
        ("bayesfuse", "mapfuse", "posfuse", "probfuse", "segfuse", "slidefuse"),
        "use wsum with optimize_fusion, or assay's own tune_fusion, which learns weights by "
        "cross-validation",
    ),
}


def fusion_switch(method: str) -> Callable[..., Run]:
    """Return the function of a name."""
    if method in _ABSENT:
        raise NotImplementedError(f"assay.compat.ranx has no {method}: {_ABSENT[method]}.")
    if method not in _METHODS:
        raise ValueError(f"Unknown fusion {method!r}. Use one of {', '.join(_METHODS)}.")
    return _METHODS[method]


def fuse(
    runs: Sequence[Run],
    norm: str | None = "min-max",
    method: str = "wsum",
    params: dict[str, Any] | None = None,
) -> Run:
    """Fuse several runs, whose scores are brought to one scale first."""
    return fusion_switch(method)(_scaled(runs, norm), **(params or {}))


def _scaled(runs: Sequence[Run], norm: str | None) -> list[Run]:
    if len(runs) < 2:
        raise AssertionError("Nothing to fuse. Pass two runs or more.")
    for place, run in enumerate(runs):
        if run.keys() != runs[0].keys():
            raise AssertionError(f"The queries of runs 0 and {place} do not match.")
    if norm == "borda":
        return norm_switch(norm)(runs)  # type: ignore[no-any-return]
    return list(runs) if norm is None else [norm_switch(norm)(run) for run in runs]


# The parameter of each method that is searched for, with the lowest, the highest and the step.
_GRIDS: Final[dict[str, tuple[str, float, float, float]]] = {
    **dict.fromkeys(("wsum", "wmnz", "mixed", "w_bordafuse"), ("weights", 0, 1, 0.1)),
    "gmnz": ("gamma", 0.01, 1.0, 0.01),
    "logn_isr": ("sigma", 0.01, 1.0, 0.01),
    "rbc": ("phi", 0.01, 1.0, 0.01),
    "rrf": ("k", 10, 100, 10),
}


class OptimizationReport:
    """Score of every tried parameter."""

    def __init__(
        self,
        method: str,
        configs: list[str],
        results: list[float],
        metric: str,
        rounding_digits: int = 3,
        show_percentages: bool = False,
    ) -> None:
        self.method, self.configs, self.results, self.metric = method, configs, results, metric
        self.rounding_digits, self.show_percentages = rounding_digits, show_percentages

    def to_table(self) -> str:
        """Return plain text, a line for each parameter.

        A star stands at the best.
        """
        best = int(np.argmax(self.results))
        factor, digits = (100, 2) if self.show_percentages else (1, 0)
        places = max(0, self.rounding_digits - digits)
        rows = tuple(
            (Cell(config), Cell(f"{factor * score:.{places}f}{' *' if place == best else ''}"))
            for place, (config, score) in enumerate(zip(self.configs, self.results, strict=True))
        )
        return as_text(Table((_GRIDS[self.method][0], metric_label(self.metric)), rows))

    def __repr__(self) -> str:
        return self.to_table()


def optimize_fusion(
    qrels: Qrels,
    runs: Sequence[Run],
    norm: str | None = "min-max",
    method: str = "wsum",
    metric: str = "ndcg",
    return_optimization_report: bool = False,
    rounding_digits: int = 3,
    show_percentages: bool = False,
    show_progress: bool = True,
    **grid: float,
) -> Any:
    """Return the parameters for `fuse` that score best on these queries.

    The last of those that are equal.

    Weights go from 0 to 1 in steps (`step`) and add up to 1. The score flatters: it is that of the
    queries that the parameters were chosen by. `show_progress` is not used.
    """
    function = fusion_switch(method)
    if method not in _GRIDS:
        raise ValueError(f"{method} has no parameter to search. Use one of {', '.join(_GRIDS)}.")
    for run in runs:
        if run.keys() != qrels.keys():
            raise AssertionError(f"The queries of qrels and of {run.name or 'a run'} do not match.")
    scaled = _scaled(runs, norm)
    name = _GRIDS[method][0]
    results = {
        value: float(evaluate(qrels, function(scaled, value), metric, save_results_in_run=False))
        for value in _trials(method, len(runs), grid)
    }
    best = max(results.values())
    params = {name: [value for value, score in results.items() if score == best][-1]}
    if not return_optimization_report:
        return params
    trials = list(map(str, results)), list(results.values())
    how = rounding_digits, show_percentages
    return params, OptimizationReport(method, *trials, metric, *how)


def _trials(method: str, n_runs: int, grid: dict[str, float]) -> Iterable[Any]:
    name, low, high, step = _GRIDS[method]
    low, high = grid.pop(f"min_{name}", low), grid.pop(f"max_{name}", high)
    step = grid.pop("step", step)
    if grid:
        raise TypeError(f"optimize_fusion with {method} does not take {', '.join(grid)}.")
    digits = 0 if float(step).is_integer() else len(str(step).partition(".")[2])
    values = [round(float(x), digits) for x in np.arange(low, high + step / 2, step)]
    if name == "weights":
        return [weights for weights in product(values, repeat=n_runs) if sum(weights) == 1.0]
    return [int(x) for x in values] if name == "k" else values
