"""PairRanks: where the true match of each keypoint stands among the keypoints of another image.

Ranks are counted, never sorted: by the exact search for float descriptors, by counting exact
Hamming distances for binary ones. All Hamming distances of a table are |a| + |b| − 2·a·b of the
bits as float32, which holds such small whole numbers exactly. Areas under precision over recall are
those of HPatches' program.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Floats32, Ints
from assay.core import checks
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.search.engine import TargetRanks, rank, target_ranks
from assay.search.engine.codes import Codes, distance_histogram, rank_codes
from assay.search.engine.targets import target_scores
from assay.vision.settings import METRICS, Metric

RECALLS: Final = tuple(step / 100 for step in range(101))


def trapezoid_area(wrong: Any, total: int) -> Floats:
    """Return the area under precision over recall, by trapezoids.

    `wrong` is how many wrong entries stand before the first, the second, … right one, along the
    last axis; `total` right ones could be found. Precision is 1 before the first entry.

    >>> float(trapezoid_area([0, 1], 2)), float(trapezoid_area([1], 1))
    (0.7916666666666666, 0.25)
    """
    false = np.asarray(wrong, np.float64)
    right = np.arange(1, false.shape[-1] + 1)
    with np.errstate(invalid="ignore"):
        before = np.where(right - 1 + false > 0, (right - 1) / (right - 1 + false), 1.0)
    after = right / (right + false)
    return np.asarray((before + after).sum(axis=-1) / (2 * total))


def chance_area(right: Any, size: Any) -> Floats:
    """Return the mean of `trapezoid_area` over all orders.

    There are `size` entries, `right` of them right. A right entry at any place has a share of
    (right − 1) / (size − 1) right ones before it.

    >>> float(chance_area(1, 2))
    0.625
    """
    n, r = np.asarray(size, np.float64), np.asarray(right, np.float64)
    sums = [
        float((1 / np.arange(1, count + 1)).sum())
        if count <= 1_000_000
        else math.log(count) + 0.5772156649015329 + 1 / (2 * count)
        for count in map(int, n.flat)
    ]
    harmonic = np.array(sums).reshape(n.shape) / n
    share = (r - 1) / np.maximum(n - 1, 1)
    return np.asarray((r / n + harmonic + share * (1 - harmonic)) / 2)


@dataclass(frozen=True, eq=False)
class PRCurve:
    """Precision at the recalls 0, 0.01, … 1 of one task; 0 where a recall is not reached.

    `name` is the descriptor, `part` the difficulty of patches or empty, `chance` the precision of
    a random order.
    """

    task: str
    name: str
    part: str
    precision: Floats
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"task": self.task, "descriptor": self.name, "part": self.part}
        points = {"recall": list(RECALLS), "precision": self.precision.tolist()}
        return {**about, "chance": None if math.isnan(self.chance) else self.chance, **points}


def curve_of(wrong: Ints, total: int) -> Floats:
    """Return precision at each of `RECALLS` of `total` right entries.

    >>> curve_of(np.array([0, 2]), 2)[[0, 50, 51, 100]].tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    right = np.arange(1, len(wrong) + 1)
    reached = right / (right + wrong)
    needed = np.maximum(np.ceil(np.array(RECALLS) * total - 1e-9).astype(np.int64), 1)
    place = np.minimum(needed, max(len(wrong), 1)) - 1
    if not len(wrong):
        return np.zeros(len(RECALLS))
    return np.where(needed <= len(wrong), reached[place], 0.0)


def mean_curve(curves: Iterable[Floats]) -> Floats:
    """Return the mean precision of several lists at each recall."""
    lists = list(curves)
    return np.mean(lists, axis=0) if lists else np.full(len(RECALLS), np.nan)


BLOCK = 1 << 22  # distances at a time


def hamming_distances(queries: NDArray[np.uint8], docs: NDArray[np.uint8]) -> Floats32:
    """Return all distances, queries × docs, as exact float32.

    >>> hamming_distances(np.array([[3]], np.uint8), np.array([[1], [255]], np.uint8)).tolist()
    [[1.0, 6.0]]
    """
    return _distances(_bits(queries), _bits(docs))


def hamming_target_ranks(
    queries: NDArray[np.uint8],
    docs: NDArray[np.uint8],
    targets: Ints,
    *,
    threads: int | None = None,
) -> TargetRanks:
    """Count documents nearer than each query's target, and as near.

    >>> codes = np.array([[0], [1], [2]], np.uint8)
    >>> hamming_target_ranks(codes[:1], codes, np.array([2])).rank.tolist()
    [3]
    """
    target_distance = hamming_apart(queries, docs[targets])[:, None]
    above, same, before = (np.zeros(len(queries), np.int64) for _ in range(3))
    step = max(1, BLOCK // (8 * queries.shape[1] + 1))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        counts = distance_histogram(_codes(queries[rows]), _codes(docs), threads=threads)
        same[rows] = np.take_along_axis(counts, target_distance[rows], axis=1)[:, 0]
        nearer = np.cumsum(counts, axis=1) - counts
        above[rows] = np.take_along_axis(nearer, target_distance[rows], axis=1)[:, 0]
    # Of documents as far as the target, those with a lower number stand before it.
    tied, bits = np.flatnonzero(same > 1), _bits(docs)
    step = max(1, BLOCK // len(docs))
    for start in range(0, len(tied), step):
        some = tied[start : start + step]
        lower = np.arange(len(docs)) < targets[some][:, None]
        equal = _distances(_bits(queries[some]), bits) == target_distance[some]
        before[some] = (equal & lower).sum(axis=1)
    return TargetRanks(above, same - 1, before, len(docs), search="hamming-exact")


def hamming_nearest(
    queries: NDArray[np.uint8], docs: NDArray[np.uint8], *, threads: int | None = None
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the nearest document of each query and its score.

    Of equally near ones it is the first.
    """
    ranking = rank_codes(_codes(queries), _codes(docs), 1, threads=threads)
    nearest = ranking.docs.astype(np.int64)
    return nearest, -hamming_apart(queries, docs[nearest]).astype(np.float64)


def hamming_apart(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Ints:
    """Return distances row by row.

    >>> hamming_apart(np.array([[3]], np.uint8), np.array([[255]], np.uint8)).tolist()
    [6]
    """
    return np.asarray(np.unpackbits(left ^ right, axis=1).sum(axis=1), np.int64)


def _codes(packed: NDArray[np.uint8]) -> Codes:
    return Codes(packed, 8 * packed.shape[1])


def _bits(packed: NDArray[np.uint8]) -> Floats32:
    return np.unpackbits(packed, axis=1).astype(np.float32)


def _distances(left: Floats32, right: Floats32) -> Floats32:
    sums = left.sum(axis=1)[:, None] + right.sum(axis=1)
    return np.asarray(sums - 2 * (left @ right.T), np.float32)


_GRID = 2.0**40
_ROWS = 64


def pair_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Return distances of all rows to all rows; L2 is squared.

    `scale` is the largest distance that any of the sets to be compared can have (see
    `largest_distance`), so that all of them share one grid.

    >>> pair_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 2.0]]), "l2", 8.0)
    array([[1., 4.]])
    """
    if metric == "hamming":
        return hamming_distances(left, right).astype(np.float64)
    a, b = _wide(left, metric), _wide(right, metric)
    return _on_grid(_squares(a)[:, None] + _squares(b) - 2 * (a @ b.T), scale)


def row_distances(left: NDArray[Any], right: NDArray[Any], metric: str, scale: float) -> Floats:
    """Return distances row by row, on the same grid.

    Products come from blocks: BLAS adds up those of fewer than 64 rows, and of a row alone, in
    another order, and one distance of some thousands would stand elsewhere on the grid.
    """
    if metric == "hamming":
        return hamming_apart(left, right).astype(np.float64)
    a, b = _wide(left, metric), _wide(right, metric)
    products = np.empty(len(a))
    for start in range(0, len(a), _ROWS):
        rows = slice(max(0, min(start, len(a) - _ROWS)), start + _ROWS)
        products[rows] = np.diagonal(a[rows] @ b[rows].T)
    return _on_grid(_squares(a) + _squares(b) - 2 * products, scale)


def _wide(vectors: NDArray[Any], metric: str) -> Floats:
    return unit_rows(vectors) if metric == "cosine" else vectors.astype(np.float64)


def _squares(rows: Floats) -> Floats:
    return np.asarray((rows * rows).sum(axis=1))


def _on_grid(squares: Floats, scale: float) -> Floats:
    unit = scale / _GRID
    return np.asarray(np.maximum(np.rint(squares / unit), 0.0) * unit)


def paired_distances(left: NDArray[Any], right: NDArray[Any], metric: str) -> Floats:
    """Return distances row by row, off the grid; L2 is squared.

    >>> paired_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]), "l2")
    array([5.])
    """
    if metric == "hamming":
        return hamming_apart(left, right).astype(np.float64)
    apart = unit_rows(left) - unit_rows(right) if metric == "cosine" else left.astype(float) - right
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


def largest_distance(*sets: NDArray[Any], metric: str) -> float:
    """Return a bound of all squared distances, a power of 2."""
    if metric == "hamming":
        return 1.0
    if metric == "cosine":
        return 4.0
    largest = max(
        (float((s.astype(np.float64) ** 2).sum(axis=1).max()) for s in sets if len(s)), default=0.0
    )
    return 2.0 ** np.ceil(np.log2(4 * largest)) if largest > 0 else 1.0


def unit_rows(vectors: NDArray[Any]) -> Floats:
    """Scale rows to length 1; zeros stay zeros."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(norms > 0, norms, 1.0), np.float64)


class Neighbours(NamedTuple):
    """For each row of one side the nearest of the other, its distance and that of the second."""

    nearest: Ints
    best: Floats
    second: Floats  # inf where there is no second


def nearest_two(left: NDArray[Any], right: NDArray[Any], metric: str) -> Neighbours:
    """Find the two nearest rows on the right; L2 is squared.

    >>> nearest_two(np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]]), "l2").nearest.tolist()
    [0, 1]
    """
    nearest = np.zeros(len(left), np.int64)
    best, second = np.full((2, len(left)), np.inf)
    scale = largest_distance(left, right, metric=metric)
    step = max(1, BLOCK // max(1, len(right)))
    for start in range(0, len(left) if len(right) else 0, step):
        rows = slice(start, start + step)
        apart = pair_distances(left[rows], right, metric, scale)
        nearest[rows] = apart.argmin(axis=1)
        two = np.partition(apart, 1, axis=1) if len(right) > 1 else apart
        best[rows] = two[:, 0]
        second[rows] = two[:, 1] if len(right) > 1 else np.inf
    return Neighbours(nearest, best, second)


STATUSES: Final = ("matched", "no_match", "outside")
MATCHED, NO_MATCH, OUTSIDE = range(3)


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
        """Number of keypoints of the first image."""
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
        has_nearest = ~np.isnan(self.nearest)
        return -self.nearest[self.right], -self.nearest[~self.right & has_nearest]

    def __repr__(self) -> str:
        return f"PairRanks({self.scene} {self.pair}: {self.n_queries} queries, {self.n_docs} docs)"


def choose_metric(stated: str | None, kind: str, what: str) -> Metric:
    """Return L2 for floats, Hamming for bits, unless otherwise stated.

    >>> choose_metric(None, "binary", "ORB"), choose_metric("cosine", "float", "SIFT")
    ('hamming', 'cosine')
    """
    bits = kind == "binary"
    if stated is None:
        return "hamming" if bits else "l2"
    if bits and stated != "hamming":
        raise UsageError(f"{what} gives bits. Omit metric: {stated}, or set metric: hamming.")
    if stated == "hamming" and not bits:
        raise UsageError(f"{what} gives floats. Set metric: l2 or cosine.")
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
    """Rank the true match of every keypoint among those of another image.

    A failed target stands behind all others, a failed query finds nothing.

    Args:
        query_vectors: Descriptors of image 1, a row each.
        target_vectors: Descriptors of the other image.
        truth: Row of each query's true match among the targets, −1 for none.
        scene: Name of the scene.
        pair: Name of the pair, such as 1-2.
        category: What changes in the scene.
        metric: "l2", "cosine" or "hamming".
        query_ids: Ids of the queries; 0, 1, … without.
        outside: Queries whose projection lies outside the other image.
        failed_queries: Queries without a descriptor; float rows of length 0 are added.
        failed_targets: Targets without a descriptor, likewise.
        matching: Whether to find the nearest target of each query, too.
        threads: Number of threads.

    Returns:
        How many targets are nearer than each true match, and as near.

    Raises:
        UsageError: If the metric is unknown.
        MismatchError: If lengths or columns do not fit.

    >>> ranks = rank_pair([[0.5], [5.0]], [[1.0], [4.0]], truth=[0, 0], scene="s", pair="1-2")
    >>> ranks.above.tolist()
    [0, 1]
    """
    queries, docs = _vectors(query_vectors, target_vectors, metric)
    array = checks.plain_array(truth, "truth")
    checks.check_lengths(truth=len(array), query_vectors=len(queries))
    targets = checks.check_numbers(array + 1, len(docs) + 1, "truth + 1") - 1
    lost = _find_failed(queries, failed_queries, metric, "failed_queries")
    lost_docs = _find_failed(docs, failed_targets, metric, "failed_targets")
    ids = _count_up(len(queries))
    if query_ids is not None:
        ids = tuple(map(str, checks.as_list(query_ids, "query_ids")))
        checks.check_lengths(query_ids=len(ids), query_vectors=len(queries))
    has = targets >= 0
    status = np.where(has, MATCHED, NO_MATCH).astype(np.uint8)
    if outside is not None:
        beyond = checks.plain_array(outside, "outside").astype(bool)
        checks.check_lengths(outside=len(beyond), truth=len(has))
        status[beyond & ~has] = OUTSIDE
    failed = lost.copy()
    failed[has] |= lost_docs[targets[has]]
    usable = np.flatnonzero(~lost_docs)
    above, tied, before = _count_ranks(
        queries, docs, targets, has & ~failed, usable, metric, threads
    )
    nearest, right = np.empty(0), np.empty(0, bool)
    if matching:
        first = np.where(above == 0, targets, -1)
        nearest, right = _nearest(queries, docs, targets, ~lost, usable, metric, threads, first)
        right[above == 0] = before[above == 0] == 0
    counts = above, tied, before, status, failed, len(docs), nearest, right
    digest = hashlib.sha256(targets.tobytes()).hexdigest()[:16]
    return PairRanks(scene, pair, category, ids, *counts, digest)


def _vectors(queries: Any, docs: Any, metric: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if metric not in METRICS:
        raise UsageError(f"metric must be one of {', '.join(METRICS)}, found {metric!r}.")
    left, right = (
        checks.real_matrix(each, what)
        for each, what in ((queries, "query_vectors"), (docs, "target_vectors"))
    )
    if left.shape[1] != right.shape[1]:
        raise MismatchError(
            f"query_vectors have {left.shape[1]} columns and target_vectors {right.shape[1]}. "
            "Use one kind of descriptor."
        )
    packed = left.dtype == right.dtype == np.uint8
    if metric == "hamming" and not packed:
        raise ValueRangeError(
            f"Hamming distances need bits packed in uint8, found {left.dtype} and {right.dtype}. "
            "Pack them with numpy.packbits."
        )
    return left, right


def _find_failed(vectors: NDArray[Any], marks: Any, metric: str, what: str) -> Flags:
    """Return rows that failed, and float rows of length 0."""
    flags = np.zeros(len(vectors), bool) if marks is None else checks.plain_array(marks, what)
    checks.check_lengths(**{what: len(flags), "vectors": len(vectors)})
    if flags.dtype != bool:
        raise ValueRangeError(f"{what} must be True or False for each row, found {flags.dtype}.")
    if metric == "hamming":
        return flags.copy()
    if vectors.dtype.kind == "f":
        checked = np.where(flags[:, None], 0, vectors) if flags.any() else vectors
        checks.check_finite(checked, what.replace("failed_", "vectors of "))
    zero: Flags = np.asarray(~vectors[:, :8].any(axis=1))  # most rows show it soon
    zero[zero] = ~vectors[zero].any(axis=1)
    return np.asarray(flags | zero)


@lru_cache(8)
def _count_up(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))


def _count_ranks(
    queries: NDArray[Any],
    docs: NDArray[Any],
    targets: Ints,
    ranked: Flags,
    usable: Ints,
    metric: str,
    threads: int | None,
) -> tuple[Ints, Ints, Ints]:
    """Rank the targets of some queries among usable documents."""
    counts = tuple(np.full(len(queries), -1, np.int64) for _ in range(3))
    rows = np.flatnonzero(ranked)
    if len(rows):
        place = (
            targets[rows] if len(usable) == len(docs) else np.searchsorted(usable, targets[rows])
        )
        left, right = _taken(queries, rows), _taken(docs, usable)
        if metric == "hamming":
            target_counts = hamming_target_ranks(left, right, place, threads=threads)
        else:
            target_counts = target_ranks(left, right, place, metric=metric, threads=threads)  # type: ignore[arg-type]
        for whole, part in zip(
            counts, (target_counts.above, target_counts.tied, target_counts.before), strict=True
        ):
            whole[rows] = part
    return counts  # type: ignore[return-value]


def _taken(vectors: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """Return some rows; all of them are not copied."""
    return vectors if len(rows) == len(vectors) else vectors[rows]


def _nearest(
    queries: NDArray[Any],
    docs: NDArray[Any],
    targets: Ints,
    searched: Flags,
    usable: Ints,
    metric: str,
    threads: int | None,
    first: Ints,
) -> tuple[Floats, Flags]:
    """Return the nearest document's score, and whether it is right.

    The score is NaN for failed queries. Where `first` names a document than which none is nearer,
    only its score is computed.
    """
    score, right = np.full(len(queries), np.nan), np.zeros(len(queries), bool)
    settled, rows = np.flatnonzero(first >= 0), np.flatnonzero(searched & (first < 0))
    pool = _taken(docs, usable)
    if len(settled):
        places = np.searchsorted(usable, first[settled])
        left = _taken(queries, settled)
        score[settled] = (
            -hamming_apart(left, pool[places]).astype(np.float64)
            if metric == "hamming"
            else target_scores(
                left, pool, places, metric=metric, zero="error", threads=threads, engine=None
            )
        )
    if len(rows) and len(usable):
        left = _taken(queries, rows)
        if metric == "hamming":
            doc_rows, scores = hamming_nearest(left, pool, threads=threads)
            at = usable[doc_rows]
        else:
            ranking = rank(left, pool, 1, metric=metric, threads=threads)  # type: ignore[arg-type]
            at, scores = usable[ranking.docs], ranking.scores
        score[rows], right[rows] = scores, at == targets[rows]
    return score, right
