"""The measures that only trec_eval has, for the list of one query.

Each takes the list and its parameters as they were typed. Their formulas and the order of their
sums are those of trec_eval 10.0, whose output they have to match in the last printed digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints

__all__ = ["FORMULAS", "QueryList", "relstring"]

_EPSILON: Final = 1e-5  # of infAP


class QueryList(NamedTuple):
    """The judged documents of one query's list in rank order, and what the pool holds."""

    rank: Ints
    grade: Floats
    n_ret: int
    pool_grade: Floats
    pool_count: Ints
    level: int
    n_docs: int

    @property
    def good(self) -> Ints:
        """The ranks of relevant documents."""
        return self.rank[(self.grade >= 0) & (self.grade >= self.level)]

    @property
    def n_rel(self) -> int:
        """How many documents are relevant, retrieved or not."""
        chosen = (self.pool_grade >= 0) & (self.pool_grade >= self.level)
        return int(self.pool_count[chosen].sum())

    def gains(self, params: tuple[str, ...]) -> tuple[Ints, Floats, Floats]:
        """Ranks and gains of what was retrieved, and the gains of the ideal list."""
        table = {float(grade): float(gain) for grade, _, gain in (p.partition("=") for p in params)}
        judged = self.grade >= 0
        gain = np.array([table.get(one, one) for one in self.grade[judged].tolist()], np.float64)
        ideal = np.array([table.get(one, one) for one in self.pool_grade.tolist()], np.float64)
        ideal = np.repeat(ideal, np.where(self.pool_grade >= 0, self.pool_count, 0))
        return self.rank[judged], gain, -np.sort(-ideal[ideal > 0])


def relstring(query: QueryList, length: int) -> str:
    """The grades of the first documents, a sign each."""
    signs = ["-"] * min(length, query.n_ret)
    for rank, grade in zip(query.rank.tolist(), query.grade.tolist(), strict=True):
        if rank <= len(signs):
            signs[rank - 1] = "." if grade < 0 else ">" if grade > 9 else str(int(grade))
    return "".join(signs)


def _inferred_ap(query: QueryList, params: tuple[str, ...]) -> float:
    relevant = others = unknown = 0
    total = 0.0
    for rank, grade in zip(query.rank.tolist(), query.grade.tolist(), strict=True):
        if grade < 0:
            unknown += 1
        elif grade < query.level:
            others += 1
        else:
            above, judged = rank - 1, relevant + others
            share = (relevant + _EPSILON) / (judged + 2 * _EPSILON)
            seen = (above / rank) * ((judged + unknown) / above) if above else 0.0
            total += 1 / rank + seen * share
            relevant += 1
    return total / query.n_rel if query.n_rel else total


def _binary_g(query: QueryList, params: tuple[str, ...]) -> float:
    good = query.good
    above = good - np.arange(1, len(good) + 1)
    return float((1 / np.log2(2.0 + above)).sum() / query.n_rel) if len(good) else 0.0


def _g(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not len(ideal):
        return 0.0
    cost = np.concatenate([[0.0], np.cumsum(np.maximum(ideal, 1.0))])
    spent = cost[np.minimum(rank, len(ideal))] + np.maximum(rank - len(ideal), 0)
    some = gain != 0
    parts = gain[some] / np.log2(2 + spent - np.cumsum(gain))[some]
    return float(parts.sum() / ideal.sum())


def _dcg_after(rank: Ints, gain: Floats) -> Floats:
    """0, and the DCG after each of the documents."""
    return np.concatenate([[0.0], np.cumsum(gain / np.log2(rank + 1.0))])


def _ideal_after(ideal: Floats) -> Floats:
    return _dcg_after(np.arange(1, len(ideal) + 1), ideal)


def _dcg(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, _ = query.gains(params)
    return float(_dcg_after(rank, gain)[-1])


def _ideal_dcg(query: QueryList, params: tuple[str, ...]) -> float:
    return float(_ideal_after(query.gains(params)[2])[-1])


def _ndcg(query: QueryList, params: tuple[str, ...]) -> float:
    best = _ideal_dcg(query, params)
    return _dcg(query, params) / best if best else 0.0


def _ndcg_at_relevant(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not len(ideal):
        return 0.0
    found, best = _dcg_after(rank, gain), _ideal_after(ideal)
    at = np.flatnonzero(gain > 0)
    shares = found[at + 1] / best[np.minimum(rank[at], len(ideal))]
    rest = (len(ideal) - len(at)) * found[-1] / best[-1]
    return max(float((shares.sum() + rest) / len(ideal)), 0.0)


def _ndcg_at_levels(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(params)
    if not query.n_rel or not len(ideal):
        return 0.0
    found, best = _dcg_after(rank, gain), _ideal_after(ideal)
    ends = [*(np.flatnonzero(np.diff(ideal)) + 1).tolist(), len(ideal)]
    points = [(end, end) for end in ends]
    if query.n_ret > len(ideal) + 1:
        points.append((query.n_ret, len(ideal)))
    shares = [found[int(np.searchsorted(rank, k, "right"))] / best[i] for k, i in points]
    return float(sum(shares) / len(shares))


def _set_map(query: QueryList, params: tuple[str, ...]) -> float:
    sizes = query.n_ret * query.n_rel
    return len(query.good) ** 2 / sizes if sizes else 0.0


def _set_f(query: QueryList, params: tuple[str, ...]) -> float:
    n_good, weight = len(query.good), float(params[0])
    if not n_good:
        return 0.0
    precision, recall = n_good / query.n_ret, n_good / query.n_rel
    below = weight * precision + recall
    return (weight + 1) * precision * recall / below if below else 0.0


def _utility(query: QueryList, params: tuple[str, ...]) -> float:
    good, bad, missed = len(query.good), query.n_ret - len(query.good), query.n_rel
    cells = (good, bad, missed - good, query.n_docs - bad - missed)
    return math.fsum(float(p) * n for p, n in zip(params, cells, strict=True))


def _yaap(query: QueryList, params: tuple[str, ...]) -> float:
    good = query.good
    total = float((np.arange(1, len(good) + 1) / good).sum())
    return math.log((1 + total) / (1 + query.n_rel - total))


def _rbp(query: QueryList, params: tuple[str, ...]) -> float:
    rank, gain, ideal = query.gains(())
    gain = gain / max(ideal.max(initial=1.0), 1.0)
    parts = gain * _persistence(query, params)[rank - 1]
    return (1 - float(params[0])) * float(np.cumsum(np.append(parts, 0.0))[-1])


def _persistence(query: QueryList, params: tuple[str, ...]) -> Floats:
    """How likely a reader goes on to each rank, and beyond the last."""
    return np.concatenate([[1.0], np.full(query.n_ret, float(params[0]))]).cumprod()


def _rbp_residual(query: QueryList, params: tuple[str, ...]) -> float:
    weights, p = _persistence(query, params), float(params[0])
    unjudged = np.ones(query.n_ret, bool)
    unjudged[query.rank[query.grade >= 0] - 1] = False
    if not unjudged.any():
        return 0.0
    return float(weights[-1] + (1 - p) * weights[:-1][unjudged].sum())


FORMULAS: Final[dict[str, Callable[[QueryList, tuple[str, ...]], float]]] = {
    "infAP": _inferred_ap,
    "utility": _utility,
    "binG": _binary_g,
    "G": _g,
    "dcg": _dcg,
    "ideal_dcg": _ideal_dcg,
    "ndcg": _ndcg,
    "ndcg_rel": _ndcg_at_relevant,
    "Rndcg": _ndcg_at_levels,
    "set_map": _set_map,
    "set_F": _set_f,
    "yaap": _yaap,
    "rbp": _rbp,
    "rbp_resid": _rbp_residual,
}
