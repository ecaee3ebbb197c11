"""The search kernels in numpy: state and decisions; candidates come from products by BLAS."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.arrays import Bytes, Floats, Floats32, Ints, Ints32, Words32, offsets_of
from assay.native.tie_order import rank_order, sides_of
from assay.native.twins import canonical

_METRICS: Final[tuple[Literal["cosine", "dot", "l2"], ...]] = ("cosine", "dot", "l2")
_STORED: Final = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16")
_ZERO_SCORE: Final = -2.0
_NOBODY: Final = np.iinfo(np.int64).max  # the number of the documents of `seed`: after all others
# Below the bound of documents of which nothing is known: no limit is ever beyond these.
_LARGEST: Final = np.finfo(np.float32).max / 8
_NO_FLOOR: Final = -_LARGEST
_SLACK: Final = 2.0**-21


def widen(rows: npt.NDArray[Any], stored: int, wide: Floats32, threads: int) -> None:
    """Elements of a narrower type, given by their bits, one row after the other."""
    name = _STORED[stored]
    if name == "bfloat16":
        wide[:] = (rows.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(-1)
    else:
        wide[:] = rows.view(name).reshape(-1)


class QueryBlock(NamedTuple):
    """Queries: their rows for canonical scores, and those for the product."""

    exact: npt.NDArray[Any]
    exponents: Ints32
    norm_hi: Floats
    norm_lo: Floats
    rows: Floats32
    weight: Floats
    shift: Floats


class DocBlock(NamedTuple):
    """Documents: their rows for canonical scores, and those for the product."""

    exact: npt.NDArray[Any]
    exponents: Ints32
    norm_hi: Floats
    norm_lo: Floats
    rows: Floats32
    scale: Floats32
    bias: Floats32
    bound: Floats32
    unit: float
    first: int


def fused_rows() -> int:
    """There is no fused product here."""
    return 0


def square_norms(rows: npt.NDArray[Any], exponents: Ints32, threads: int) -> tuple[Floats, Floats]:
    """Square norms as pairs; the threads are numpy's own affair."""
    return canonical.square_norms(rows, exponents)


def pair_scores(
    metric: int, queries: QueryBlock, docs: DocBlock, offsets: Ints, candidates: Words32
) -> Floats:
    """Canonical scores of each query with its candidates."""
    at_query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    at_doc = candidates.astype(np.int64)
    scores = canonical.pair_scores(
        _METRICS[metric],
        queries.exact,
        queries.exponents,
        (queries.norm_hi, queries.norm_lo),
        docs.exact,
        docs.exponents,
        (docs.norm_hi, docs.norm_lo),
        at_query,
        at_doc,
    )
    if metric == 0:
        nowhere = (queries.norm_hi[at_query] == 0.0) | (docs.norm_hi[at_doc] == 0.0)
        scores[nowhere] = _ZERO_SCORE
    return scores


class TopK:
    """The best documents of each query of a block, kept over many blocks of documents."""

    def __init__(self, n_queries: int, k: int, keep_ties: bool) -> None:
        self.n_queries, self.k, self.keep_ties = n_queries, k, keep_ties
        self.rows = np.empty(0, np.int64)
        self.docs = np.empty(0, np.int64)
        self.scores = np.empty(0)

    def scan(self, *_: object) -> None:
        """There is no fused product here."""
        raise ValueError("no fused product on this machine")

    def scan_coarse(self, *_: object) -> None:
        """There is no fused product here."""
        raise ValueError("no fused product on this machine")

    def decide(
        self,
        metric: int,
        queries: QueryBlock,
        docs: DocBlock,
        offsets: Ints,
        candidates: Words32,
    ) -> None:
        """Take over candidates of a block, by their canonical scores."""
        scores = pair_scores(metric, queries, docs, offsets, candidates)
        rows = np.repeat(np.arange(self.n_queries), np.diff(offsets))
        self._add(rows, candidates.astype(np.int64) + docs.first, scores)

    def seed(self, least: Floats) -> None:
        """Start with the certainty that documents below a score, if it is finite, do not matter."""
        rows = np.repeat(np.flatnonzero(np.isfinite(least)), self.k)
        self._add(rows, np.full(len(rows), _NOBODY), least[rows])

    def absorb(self, other: TopK) -> None:
        """Take over what was found in other documents."""
        self._add(other.rows, other.docs, other.scores)

    def floors(self, queries: QueryBlock, docs: DocBlock) -> Floats32:
        """For each query a score of the product below which no document can matter."""
        counts = np.bincount(self.rows, minlength=self.n_queries)
        full = counts >= self.k
        last = (np.cumsum(counts) - counts + self.k - 1)[full]
        floors = np.full(self.n_queries, _NO_FLOOR, np.float32)
        limits = limits_of(self.scores[last], docs.unit, queries.weight[full], queries.shift[full])
        floors[full] = limits[0]
        return floors

    def result(self, most: int) -> tuple[Ints, Ints32, Floats, Bytes]:
        """Offsets, documents and scores in rank order; and where one beyond the cut ties."""
        is_doc = self.docs != _NOBODY
        counts = np.bincount(self.rows[is_doc], minlength=self.n_queries)
        offsets, all_docs, all_scores = offsets_of(counts), self.docs[is_doc], self.scores[is_doc]
        lengths = np.diff(offsets)
        longer = np.flatnonzero(lengths > most)
        beyond = offsets[longer + 1] - 1
        tie_split = np.zeros(len(lengths), np.uint8)
        tie_split[longer] = all_scores[beyond] == all_scores[beyond - 1]
        docs = np.delete(all_docs, beyond).astype(np.int32)
        scores = np.delete(all_scores, beyond)
        return offsets_of(np.minimum(lengths, most)), docs, scores, tie_split

    def _add(self, rows: Ints, docs: Ints, scores: Floats) -> None:
        """Merge, sort by the tie rule, and cut each row after its k-th document."""
        rows = np.concatenate([self.rows, rows])
        docs = np.concatenate([self.docs, docs])
        scores = np.concatenate([self.scores, scores])
        order = rank_order(scores, tiebreak=docs, row=rows)
        rows, docs, scores = rows[order], docs[order], scores[order]
        first = np.searchsorted(rows, np.arange(self.n_queries))
        mask = np.arange(len(rows)) - first[rows] < self.k
        if self.keep_ties:
            kth = np.minimum(first + self.k, np.searchsorted(rows, np.arange(self.n_queries) + 1))
            mask |= scores == scores[kth[rows] - 1]
        self.rows, self.docs, self.scores = rows[mask], docs[mask], scores[mask]


def limits_of(
    scores: Floats, unit: float, weight: Floats, shift: Floats
) -> tuple[Floats32, Floats32]:
    """Scores of the product that are certainly below and above canonical ones."""
    with np.errstate(all="ignore"):
        units = unit * weight
        middle = units * (scores + shift)
        slack = units * (np.abs(scores) + np.abs(shift)) * _SLACK + np.finfo(np.float32).tiny
        sound = (units >= np.finfo(np.float64).tiny) & (np.abs(middle) + slack < _LARGEST)
        low = np.where(sound, middle - slack, _NO_FLOOR)
        high = np.where(sound, middle + slack, np.inf)
    return low.astype(np.float32), high.astype(np.float32)


def count_targets(*_: object) -> None:
    """There is no fused product here."""
    raise ValueError("no fused product on this machine")


count_coarse_targets = count_targets


def decide_targets(
    metric: int,
    queries: QueryBlock,
    docs: DocBlock,
    targets: Ints,
    target_scores: Floats,
    offsets: Ints,
    candidates: Words32,
    above: Ints,
    tied: Ints,
    before: Ints,
    weight: int,
) -> None:
    """Add `weight` for each candidate on its side of the target."""
    scores = pair_scores(metric, queries, docs, offsets, candidates)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    doc = candidates.astype(np.int64) + docs.first
    aimed = targets[rows] >= 0
    sides = sides_of(scores, doc, target_scores[rows], targets[rows])
    np.add.at(above, rows[aimed & sides.above], weight)
    np.add.at(tied, rows[aimed & sides.tied & (doc != targets[rows])], weight)
    np.add.at(before, rows[aimed & sides.before], weight)
