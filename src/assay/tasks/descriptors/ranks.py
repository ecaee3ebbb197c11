"""PairRanks: where the true match of each keypoint stands among the keypoints of another image.

Ranks are counted, never sorted: by the exact search for float descriptors, by counting exact
Hamming distances for binary ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Ints
from assay.core import checks
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.search.engine import rank, target_ranks
from assay.search.engine.target_search import target_scores
from assay.tasks.descriptors.distances import hamming_apart, hamming_nearest, hamming_target_ranks

__all__ = [
    "MATCHED",
    "NO_MATCH",
    "OUTSIDE",
    "STATUSES",
    "PairRanks",
    "choose_metric",
    "rank_pair",
]


Metric = Literal["l2", "cosine", "hamming"]

STATUSES: Final = ("matched", "no_match", "outside")
MATCHED, NO_MATCH, OUTSIDE = range(3)
METRICS: Final = ("l2", "cosine", "hamming")


@dataclass(frozen=True, eq=False)
class PairRanks:
    """One image pair: for each keypoint of the first image where its true match stands.

    `above` keypoints of the second image are nearer than the true match, `tied` others are as
    near, `before` of these have a lower number; −1 where there is no true match or the descriptor
    failed. `status` is a number into `STATUSES`; `failed` marks keypoints whose own descriptor, or
    that of their true match, could not be computed or has length 0. `n_docs` keypoints could be
    chosen from. `nearest` is the score of the nearest keypoint (minus its distance) and `right`
    whether that is the true match; both are empty where nobody asked for them. `truth` is a
    fingerprint of which keypoints are the true matches.
    """

    scene: str
    pair: str
    category: str
    query_ids: tuple[str, ...]
    above: Ints
    tied: Ints
    before: Ints
    status: NDArray[np.uint8]
    failed: Flags
    n_docs: int
    nearest: Floats = field(default_factory=lambda: np.empty(0))
    right: Flags = field(default_factory=lambda: np.empty(0, bool))
    truth: str = ""

    @property
    def n_queries(self) -> int:
        """How many keypoints the first image has."""
        return len(self.query_ids)

    @property
    def has_truth(self) -> Flags:
        """Which keypoints have a true match."""
        return np.asarray(self.status == MATCHED)

    @property
    def n_excluded(self) -> int:
        """Keypoints without a true match, in or outside the second image."""
        return self.n_queries - int(self.has_truth.sum())

    @property
    def n_failed(self) -> int:
        """Keypoints with a true match that the descriptor failed on."""
        return int((self.failed & self.has_truth).sum())

    @property
    def judged(self) -> tuple[Floats, Floats]:
        """Distances of nearest neighbours: of right ones, and of wrong ones."""
        found = ~np.isnan(self.nearest)
        return -self.nearest[self.right], -self.nearest[~self.right & found]

    def __repr__(self) -> str:
        """Sizes in one line."""
        return f"PairRanks({self.scene} {self.pair}: {self.n_queries} queries, {self.n_docs} docs)"


def choose_metric(stated: str | None, kind: str, what: str) -> Metric:
    """L2 for floats and Hamming for bits, unless something else is stated that fits them.

    >>> choose_metric(None, "binary", "ORB"), choose_metric("cosine", "float", "SIFT")
    ('hamming', 'cosine')
    """
    bits = kind == "binary"
    if stated is None:
        return "hamming" if bits else "l2"
    if bits and stated != "hamming":
        raise UsageError(
            f"{what} gives bits, which are compared by Hamming distance. Leave metric: {stated} "
            "out, or say metric: hamming."
        )
    if stated == "hamming" and not bits:
        raise UsageError(
            f"{what} gives floats, and Hamming distances are of bits. Leave metric: hamming out, "
            "or say metric: l2 or cosine."
        )
    return stated  # type: ignore[return-value]


def rank_pair(
    query_vectors: Any,
    target_vectors: Any,
    *,
    truth: Any,
    scene: str,
    pair: str,
    category: str = "",
    metric: Metric = "l2",
    query_ids: Any = None,
    outside: Any = None,
    failed_queries: Any = None,
    failed_targets: Any = None,
    matching: bool = False,
    threads: int | None = None,
) -> PairRanks:
    """Rank the true match of every keypoint; `truth` is its row among the targets, −1 for none.

    `outside` marks keypoints whose projection lies outside the second image, `failed_…` rows whose
    descriptor could not be computed; float rows of length 0 are added to these. A failed target
    stands behind all others, a failed query finds nothing. `matching` also looks for the nearest
    target of each query.

    >>> found = rank_pair([[0.5], [5.0]], [[1.0], [4.0]], truth=[0, 0], scene="s", pair="1-2")
    >>> found.above.tolist()
    [0, 1]
    """
    queries, docs = _vectors(query_vectors, target_vectors, metric)
    wanted = _truth(truth, len(queries), len(docs))
    lost = _find_failed(queries, failed_queries, metric, "failed_queries")
    lost_docs = _find_failed(docs, failed_targets, metric, "failed_targets")
    ids = _ids(query_ids, len(queries))
    has = wanted >= 0
    failed = lost.copy()
    failed[has] |= lost_docs[wanted[has]]
    kept = np.flatnonzero(~lost_docs)
    above, tied, before = _count_ranks(queries, docs, wanted, has & ~failed, kept, metric, threads)
    nearest, right = np.empty(0), np.empty(0, bool)
    if matching:
        first = np.where(above == 0, wanted, -1)
        nearest, right = _nearest(queries, docs, wanted, ~lost, kept, metric, threads, first)
        right[above == 0] = before[above == 0] == 0
    return PairRanks(
        scene,
        pair,
        category,
        ids,
        above,
        tied,
        before,
        _statuses(has, outside),
        failed,
        len(docs),
        nearest,
        right,
        hashlib.sha256(wanted.tobytes()).hexdigest()[:16],
    )


def _vectors(queries: Any, docs: Any, metric: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if metric not in METRICS:
        raise UsageError(f"metric must be one of {', '.join(METRICS)}, found {metric!r}.")
    left, right = (
        checks.real_matrix(each, what)
        for each, what in ((queries, "query_vectors"), (docs, "target_vectors"))
    )
    if left.shape[1] != right.shape[1]:
        raise MismatchError(
            f"query_vectors have {left.shape[1]} columns and target_vectors {right.shape[1]}: "
            "descriptors of two kinds cannot be compared."
        )
    packed = left.dtype == right.dtype == np.uint8
    if metric == "hamming" and not packed:
        raise ValueRangeError(
            f"Hamming distances need bits packed in uint8, found {left.dtype} and {right.dtype}. "
            "Pack them with numpy.packbits."
        )
    return left, right


def _truth(truth: Any, n_queries: int, n_docs: int) -> Ints:
    array = checks.plain_array(truth, "truth")
    checks.check_lengths(truth=len(array), query_vectors=n_queries)
    return checks.check_numbers(array + 1, n_docs + 1, "truth + 1") - 1


def _find_failed(vectors: NDArray[Any], given: Any, metric: str, what: str) -> Flags:
    """Rows that failed, and float rows of length 0."""
    flags = np.zeros(len(vectors), bool) if given is None else checks.plain_array(given, what)
    checks.check_lengths(**{what: len(flags), "vectors": len(vectors)})
    if flags.dtype != bool:
        raise ValueRangeError(f"{what} must be True or False for each row, found {flags.dtype}.")
    if metric == "hamming":
        return flags.copy()
    if vectors.dtype.kind == "f":
        kept = np.where(flags[:, None], 0, vectors) if flags.any() else vectors
        checks.check_finite(kept, what.replace("failed_", "vectors of "))
    zero: Flags = np.asarray(~vectors[:, :8].any(axis=1))  # most rows show it soon
    zero[zero] = ~vectors[zero].any(axis=1)
    return np.asarray(flags | zero)


def _ids(query_ids: Any, n_queries: int) -> tuple[str, ...]:
    if query_ids is None:
        return _count_up(n_queries)
    ids = tuple(map(str, checks.as_list(query_ids, "query_ids")))
    checks.check_lengths(query_ids=len(ids), query_vectors=n_queries)
    return ids


@lru_cache(8)
def _count_up(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))


def _statuses(has: Flags, outside: Any) -> NDArray[np.uint8]:
    status = np.where(has, MATCHED, NO_MATCH).astype(np.uint8)
    if outside is not None:
        beyond = checks.plain_array(outside, "outside").astype(bool)
        checks.check_lengths(outside=len(beyond), truth=len(has))
        status[beyond & ~has] = OUTSIDE
    return status


def _count_ranks(
    queries: NDArray[Any],
    docs: NDArray[Any],
    wanted: Ints,
    asked: Flags,
    kept: Ints,
    metric: str,
    threads: int | None,
) -> tuple[Ints, Ints, Ints]:
    """Counts for the selected queries, among the documents that did not fail."""
    counts = tuple(np.full(len(queries), -1, np.int64) for _ in range(3))
    rows = np.flatnonzero(asked)
    if len(rows):
        place = wanted[rows] if len(kept) == len(docs) else np.searchsorted(kept, wanted[rows])
        left, right = _taken(queries, rows), _taken(docs, kept)
        if metric == "hamming":
            found = hamming_target_ranks(left, right, place, threads=threads)
        else:
            found = target_ranks(left, right, place, metric=metric, threads=threads)  # type: ignore[arg-type]
        for whole, part in zip(counts, (found.above, found.tied, found.before), strict=True):
            whole[rows] = part
    return counts  # type: ignore[return-value]


def _score_pairs(
    queries: NDArray[Any], docs: NDArray[Any], places: Ints, metric: str, threads: int | None
) -> Floats:
    """The score of one document for each query, as a search would give it."""
    if metric == "hamming":
        return -hamming_apart(queries, docs[places]).astype(np.float64)
    return target_scores(
        queries, docs, places, metric=metric, zero="error", threads=threads, engine=None
    )


def _taken(vectors: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """Some rows; all of them are not copied."""
    return vectors if len(rows) == len(vectors) else vectors[rows]


def _nearest(
    queries: NDArray[Any],
    docs: NDArray[Any],
    wanted: Ints,
    asked: Flags,
    kept: Ints,
    metric: str,
    threads: int | None,
    first: Ints,
) -> tuple[Floats, Flags]:
    """The score of the nearest document, NaN for failed queries, and whether it is the true one.

    Where `first` names a document than which none is nearer, only its score is computed.
    """
    score, right = np.full(len(queries), np.nan), np.zeros(len(queries), bool)
    known, rows = np.flatnonzero(first >= 0), np.flatnonzero(asked & (first < 0))
    pool = _taken(docs, kept)
    if len(known):
        places = np.searchsorted(kept, first[known])
        score[known] = _score_pairs(_taken(queries, known), pool, places, metric, threads)
    if len(rows) and len(kept):
        left = _taken(queries, rows)
        if metric == "hamming":
            found, scores = hamming_nearest(left, pool, threads=threads)
            at = kept[found]
        else:
            ranking = rank(left, pool, 1, metric=metric, threads=threads)  # type: ignore[arg-type]
            at, scores = kept[ranking.docs], ranking.scores
        score[rows], right[rows] = scores, at == wanted[rows]
    return score, right
