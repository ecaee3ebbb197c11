"""Keypoint verification and retrieval: true matches among other keypoints and distractors.

Every candidate of a query keypoint has a label: +1 is its true match, 0 any other keypoint of the
same scene, −1 a keypoint of another scene. Under the rule `paper` (Bartol, Bojanić et al., arXiv
2007.10000) a 0 is ignored; under the rule `program` it counts as wrong.

The authors' own program judges nearest neighbours, not all pairs (`match_like_authors`).
Verification: in each other image of the scene the nearest neighbour of a keypoint is right if no
keypoint lies nearer to the projected point, else wrong; in images of other scenes it is wrong. One
list of all scenes is sorted by distance. Retrieval: in each image of the scene the keypoint nearest
to the projected point is right, nearest neighbours in other scenes are wrong; one list a keypoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of, rows_of
from assay.core.conventions import Conventions
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.native.tie_order import nearest_order
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.stats import Interval, interval
from assay.stats.confidence import jackknife_interval
from assay.stats.effects import grouped_ap
from assay.vision import ranks
from assay.vision.keypoints import as_id, as_ids


def counts_among(values: Floats, others: Floats) -> tuple[Ints, Ints]:
    """Count for each value the others below it, and equal ones.

    >>> counts_among(np.array([2.0]), np.array([1.0, 2.0, 2.0, 3.0]))
    (array([1]), array([2]))
    """
    ranked = np.sort(others, axis=None)
    below = np.searchsorted(ranked, values, side="left")
    return below, np.searchsorted(ranked, values, side="right") - below


def list_hits(
    list_ids: Any,
    row: Ints,
    *,
    distance: Floats,
    below: Ints,
    tied: Ints,
    n_relevant: Ints,
    n_docs: Ints,
) -> Hits:
    """Build the hits of lists by distance.

    Entry i is a right pair of list `row[i]`. `below` wrong pairs of the list are nearer and `tied`
    as near. A list has `n_relevant` right pairs, found or not, and `n_docs` pairs in all. Where
    only the order of ties would decide, a right pair stands behind the wrong ones.
    """
    ids = Ids.of(list_ids, what="list")
    by_distance = nearest_order(distance, row=row)
    row, distance = row[by_distance], distance[by_distance]
    offsets = np.searchsorted(row, np.arange(len(ids) + 1)).astype(np.int64)
    new = np.ones(len(row), bool)  # where a run of equal distances starts
    new[1:] = (row[1:] != row[:-1]) | (distance[1:] != distance[:-1])
    ends = np.append(np.flatnonzero(new), len(row))
    run = rows_of(ends.astype(np.int64))
    first, last = ends[run], ends[run + 1]
    start = offsets[row]
    lo = 1 + below[by_distance] + first - start
    hi = below[by_distance] + tied[by_distance] + last - start
    rank = hi - (last - 1 - np.arange(len(row)))
    has = n_relevant > 0
    hits = Hits(
        query_ids=ids,
        offsets=offsets,
        rank=rank,
        rank_lo=lo,
        rank_hi=hi,
        grade=np.ones(len(row)),
        n_ret=n_docs,
        pool_offsets=offsets_of(has),
        pool_grade=np.ones(int(has.sum())),
        pool_count=n_relevant[has],
        n_docs=n_docs,
        missing=np.zeros(len(ids), bool),
        exhaustive=True,
    )
    return hits.select(ids.order())


RULES: Final = ("paper", "program")  # of ternary labels
TASKS: Final = ("verification", "retrieval")
NO_MATCH, LOST = -1, -2  # in place of the row of a true match
_BLOCK = 1 << 22  # distances at a time


@dataclass(frozen=True, eq=False)
class Candidates:
    """The keypoints of one other image of the scene, and which of them is each query's match.

    `truth` is a row of the vectors, −1 for none, −2 for a match whose descriptor failed.
    """

    vectors: NDArray[Any]
    truth: Ints


@dataclass(frozen=True, eq=False)
class CandidateCounts:
    """One scene: for each true match how many candidates are nearer, by label.

    Column i is about the i-th true match, of query `query[i]` at `distance[i]`: `nearer` and
    `tied` count zeros and distractors (rows 0 and 1) in the list of the whole scene, `own_nearer`
    and `own_tied` those in the list of the query alone. `query_zeros` and `query_negatives` are
    how many of either each query has, `query_lost` how many true matches a failed descriptor hides.
    """

    task: str
    scene: str
    category: str
    query_ids: tuple[str, ...]
    query: Ints
    distance: Floats
    nearer: Ints
    tied: Ints
    own_nearer: Ints
    own_tied: Ints
    query_zeros: Ints
    query_negatives: Ints
    query_lost: Ints
    distractors: tuple[str, ...] = ()
    seed: int = 0
    # The judged nearest neighbours of the authors' own program; see `match_like_authors`.
    author_query: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    author_distance: Floats = field(default_factory=lambda: np.zeros(0))
    author_right: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    author_missed: int = 0

    @property
    def n_matches(self) -> int:
        """Number of candidates with label +1, described or not."""
        return len(self.query) + int(self.query_lost.sum())

    @property
    def n_zeros(self) -> int:
        """Number of candidates with label 0."""
        return int(self.query_zeros.sum())

    @property
    def n_negatives(self) -> int:
        """Number of candidates with label −1."""
        return int(self.query_negatives.sum())


def count_candidates(
    query_vectors: NDArray[Any],
    images: Sequence[Candidates],
    distractors: NDArray[Any],
    *,
    task: str,
    scene: str,
    category: str = "",
    metric: str = "l2",
    query_ids: Sequence[str] | None = None,
    distractor_ids: Sequence[str] = (),
    seed: int = 0,
    failed: NDArray[np.bool_] | None = None,
) -> CandidateCounts:
    """Count the labels before every true match of a scene.

    Args:
        query_vectors: Descriptors of image 1, a row each.
        images: Descriptors of the other images, and each query's match in them.
        distractors: Descriptors of other scenes, which every query meets.
        task: "verification" or "retrieval".
        scene: Name of the scene.
        category: What changes in the scene.
        metric: "l2", "cosine" or "hamming".
        query_ids: Ids of the queries; 0, 1, … without.
        distractor_ids: Names of the distractors, such as v_wall/17, as a record.
        seed: Seed of that draw, as a record.
        failed: Queries without a descriptor; their matches count as lost.

    Returns:
        Counts by label for each true match; nothing is sorted but distractors.

    Raises:
        UsageError: If the task is unknown.

    Example:
        >>> rows = np.eye(3)
        >>> images = [Candidates(rows, np.arange(3))]
        >>> count_candidates(rows, images, rows + 2, task="retrieval", scene="a").n_matches
        3
    """
    if task not in TASKS:
        raise UsageError(f"task must be verification or retrieval, found {task!r}.")
    n = len(query_vectors)
    gone = np.zeros(n, bool) if failed is None else failed
    described = np.flatnonzero(~gone)
    answered = [Candidates(image.vectors, image.truth[described]) for image in images]
    query, distance, counts = _count_labels(query_vectors[described], answered, distractors, metric)
    zeros = np.zeros(n, np.int64)
    zeros[described] = sum(len(image.vectors) for image in images)
    np.subtract.at(zeros, described[query], 1)
    lost = np.zeros(n, np.int64)  # true matches that a failed descriptor hides
    for image in images:
        lost += np.where(gone, image.truth != NO_MATCH, image.truth == LOST)
    return CandidateCounts(
        task,
        scene,
        category,
        tuple(map(str, range(n) if query_ids is None else query_ids)),
        described[query],
        distance,
        *counts,
        query_zeros=zeros,
        query_lost=lost,
        query_negatives=np.where(gone, 0, len(distractors)),
        distractors=tuple(distractor_ids),
        seed=seed,
    )


def _count_labels(
    queries: NDArray[Any], images: Sequence[Candidates], distractors: NDArray[Any], metric: str
) -> tuple[Ints, Floats, tuple[Ints, Ints, Ints, Ints]]:
    """Return true matches, and the labels before each of them.

    Zeros and distractors are counted in both kinds of lists.
    """
    pools = [image.vectors for image in images]
    scale = ranks.largest_distance(queries, *pools, distractors, metric=metric)
    query, distance = _true_matches(queries, images, metric, scale)
    zeros, negatives = (
        _counts(queries, query, distance, rows, metric, scale) for rows in (pools, [distractors])
    )
    # A true match is in its image's pool: it ties with itself there, and with other matches.
    zeros -= _count_matches(distance, query)
    nearer, tied, own_nearer, own_tied = np.stack([zeros, negatives], axis=1)
    return query, distance, (nearer, tied, own_nearer, own_tied)


def _true_matches(
    queries: NDArray[Any], images: Sequence[Candidates], metric: str, scale: float
) -> tuple[Ints, Floats]:
    rows, distances = [np.empty(0, np.int64)], [np.empty(0)]
    for image in images:
        has = np.flatnonzero(image.truth >= 0)
        rows.append(has)
        distances.append(
            ranks.row_distances(queries[has], image.vectors[image.truth[has]], metric, scale)
        )
    return np.concatenate(rows), np.concatenate(distances)


def _counts(
    queries: NDArray[Any],
    query: Ints,
    distance: Floats,
    pools: Sequence[NDArray[Any]],
    metric: str,
    scale: float,
) -> Ints:
    """Count nearer and tied in the scene's, nearer and tied in the query's list."""
    counts = np.zeros((4, len(query)), np.int64)
    for pool in pools:
        step = max(1, _BLOCK // max(len(pool), 1))
        for start in range(0, len(queries) if len(pool) else 0, step):
            block = ranks.pair_distances(queries[start : start + step], pool, metric, scale)
            counts[:2] += counts_among(distance, block)
            here = np.flatnonzero((query >= start) & (query < start + step))
            for part in np.array_split(here, 1 + len(here) // step):
                distances = block[query[part] - start]
                counts[2][part] += (distances < distance[part, None]).sum(axis=1)
                counts[3][part] += (distances == distance[part, None]).sum(axis=1)
    return counts


def _count_matches(distance: Floats, query: Ints) -> Ints:
    """Count true matches nearer than each and as near, in the scene's and the query's list."""
    counts = np.tile(counts_among(distance, distance), (2, 1))
    ends = np.flatnonzero(np.diff(np.sort(query))) + 1
    for rows in np.split(np.argsort(query, kind="stable"), ends):
        counts[2:, rows] = counts_among(distance[rows], distance[rows])
    return counts


@dataclass(frozen=True, eq=False)
class PooledResult:
    """Verification or retrieval of all scenes, under either rule."""

    scenes: tuple[CandidateCounts, ...]
    conventions: Conventions
    _cache: dict[tuple[str, str], Scores] = field(default_factory=dict, init=False, repr=False)

    def counts(self, category: str | None = None) -> dict[str, int]:
        """Count the candidates of each label."""
        some = [scene for scene in self.scenes if category in (None, scene.category)]
        return {
            "+1": sum(scene.n_matches for scene in some),
            "0": sum(scene.n_zeros for scene in some),
            "-1": sum(scene.n_negatives for scene in some),
        }

    def pooled(self, rule: str = "paper") -> Scores:
        """Return the AP of one list for each scene.

        All pairs of keypoints are in it; columns are as for keypoints.
        """
        return self._scores("pooled", rule)

    def per_query(self, rule: str = "paper") -> Scores:
        """Return the AP of one list for each keypoint.

        Its matches in all other images count.
        """
        return self._scores("per query", rule)

    def _scores(self, kind: str, rule: str) -> Scores:
        if (kind, rule) not in self._cache:
            if rule not in RULES:
                raise UsageError(f"rule must be paper or program, found {rule!r}.")
            # Zeros are row 0 of the counts, distractors row 1; these are wrong under the rule.
            wrong = [1] if rule == "paper" else [0, 1]
            self._cache[kind, rule] = self._score(wrong, by_query=kind == "per query")
        return self._cache[kind, rule]

    def _score(self, wrong: list[int], *, by_query: bool) -> Scores:
        """Score one list for each query, or for each scene."""
        lists: dict[str, CandidateCounts] = {}  # the scene of each list by its id
        sizes = []
        for part in self.scenes:
            ids = as_ids(f"{part.scene}/", part.query_ids) if by_query else [as_id(part.scene)]
            lists |= dict.fromkeys(ids, part)
            sizes.append(len(ids))
        starts = offsets_of(np.array(sizes))
        rows = np.concatenate(
            [
                start + part.query * by_query
                for part, start in zip(self.scenes, starts, strict=False)
            ]
        )

        def join(key: str) -> Ints:
            counts = (getattr(part, f"query_{key}") for part in self.scenes)
            return np.concatenate([count if by_query else [count.sum()] for count in counts])

        below, tied = (
            np.concatenate([getattr(part, key)[wrong].sum(axis=0) for part in self.scenes])
            for key in (("own_nearer", "own_tied") if by_query else ("nearer", "tied"))
        )
        n_relevant = np.bincount(rows, minlength=len(lists)) + join("lost")
        n_docs = n_relevant + join("negatives") + (join("zeros") if 0 in wrong else 0)
        distance = self._join("distance")
        counts = {"below": below, "tied": tied, "n_relevant": n_relevant, "n_docs": n_docs}
        hits = list_hits(list(lists), rows, distance=distance, **counts)
        return score(hits, "AP", conventions=self.conventions).with_groups(
            scene={key: part.scene for key, part in lists.items()},
            category={key: part.category for key, part in lists.items()},
        )

    def mean(self, rule: str = "paper", *, category: str | None = None) -> float:
        """Return the number of the authors' program, or the mean over scenes of the pooled AP.

        NaN without any true match.
        """
        if rule == "authors":
            return self.author_mean(category)
        return _scene_mean(self.pooled(rule), category)

    def query_mean(self, rule: str = "paper", *, category: str | None = None) -> float:
        """Return the mean over scenes of the mean over queries."""
        return _scene_mean(self.per_query(rule), category)

    def author_mean(self, category: str | None = None) -> float:
        """Return the number of the authors' program.

        AP of one list, or the mean AP of keypoints.
        """
        some = [scene for scene in self.scenes if category in (None, scene.category)]
        if self.scenes[0].task == "verification":
            return _author_list(some)
        values = [value for scene in some for value in _author_aps(scene)]
        return math.fsum(values) / len(values) if values else math.nan

    def author_curve(self) -> tuple[Floats, float]:
        """Return precision over recall of judged neighbours, and chance."""
        distance, right = self._join("author_distance"), self._join("author_right")
        missed = sum(scene.author_missed for scene in self.scenes)
        wrong = np.sort(sum(counts_among(distance[right], distance[~right])))
        total = len(wrong) + missed
        return ranks.curve_of(wrong, total), len(wrong) / max(len(distance), 1)

    def interval(
        self, kind: str, rule: str = "paper", *, category: str | None = None, **resampling: Any
    ) -> Interval:
        """Return a number with its interval over scenes.

        `kind` is pooled, per query or authors. Those that are means resample whole scenes;
        verification by the authors is one list, of which each scene is left out in turn.
        `resampling` are level, resamples and seed.
        """
        settings = {"bounds": (0.0, 1.0), **resampling}
        if kind != "authors":
            return interval(_scene_values(self._scores(kind, rule), category), **settings)
        some = [part for part in self.scenes if category in (None, part.category)]
        if self.scenes[0].task == "verification":
            level = resampling.get("level", 0.95)
            left_out = [_author_list(other for other in some if other is not part) for part in some]
            return jackknife_interval(_author_list(some), np.array(left_out), level=level)
        aps = {part.scene: _author_aps(part) for part in some}
        scenes = [scene for scene, values in aps.items() for _ in values]
        return interval(list(chain.from_iterable(aps.values())), clusters=scenes, **settings)

    def author_counts(self) -> tuple[int, int]:
        """Count right (found or missed) and wrong judged neighbours."""
        right = sum(int(scene.author_right.sum()) + scene.author_missed for scene in self.scenes)
        return right, sum(int((~scene.author_right).sum()) for scene in self.scenes)

    def _join(self, key: str) -> NDArray[Any]:
        return np.concatenate([getattr(scene, key) for scene in self.scenes])


def label_rule(rule: str) -> str:
    """Return the rule of ternary labels beside a rule, which the authors' program does not have."""
    return "paper" if rule == "authors" else rule


def _author_list(scenes: Iterable[CandidateCounts]) -> float:
    """Return the AP of all judged matches; NaN without any."""
    some = list(scenes)
    if not some:
        return math.nan
    return grouped_ap(
        np.concatenate([scene.author_distance for scene in some]),
        np.concatenate([scene.author_right for scene in some]),
        sum(scene.author_missed for scene in some),
    )


def _author_aps(scene: CandidateCounts) -> list[float]:
    """Return the AP of each keypoint that has a right match.

    0 for those without a descriptor.
    """
    order = np.argsort(scene.author_query, kind="stable")
    ends = np.flatnonzero(np.diff(scene.author_query[order])) + 1
    aps = [
        grouped_ap(scene.author_distance[rows], scene.author_right[rows])
        for rows in np.split(order, ends)
    ]
    return [ap for ap in aps if not math.isnan(ap)] + [0.0] * scene.author_missed


def _scene_values(scores: Scores, category: str | None) -> list[float]:
    """Return the mean of each scene that has one."""
    groups = scores.mean(by="scene", empty="skip").groups
    of = dict(zip(scores.groups["scene"].tolist(), scores.groups["category"].tolist(), strict=True))
    values = [means["AP"] for scene, means in groups.items() if category in (None, of[scene])]
    return [value for value in values if not math.isnan(value)]


def _scene_mean(scores: Scores, category: str | None) -> float:
    defined = _scene_values(scores, category)
    return math.fsum(defined) / len(defined) if defined else math.nan


_STEP = 1024  # queries at a time


class PlacedRows(NamedTuple):
    """Descriptors of an image with their places, and where the queries are projected to."""

    vectors: NDArray[Any]
    places: Floats
    projected: Floats  # of all queries; NaN behind the camera


class AuthorMatches(NamedTuple):
    """Judged matches of a scene; `missed` are those that a failed descriptor hides."""

    query: Ints
    distance: Floats
    right: NDArray[np.bool_]
    missed: int


def match_like_authors(
    task: str,
    queries: NDArray[Any],
    images: Sequence[PlacedRows],
    distractors: Sequence[NDArray[Any]],
    *,
    metric: str,
    failed: NDArray[np.bool_],
) -> AuthorMatches:
    """Judge the matches of all queries with a descriptor."""
    described = np.flatnonzero(~failed)
    vectors = queries[described]
    judge = _nearest_by_descriptor if task == "verification" else _nearest_by_place
    judged = [judge(vectors, described, image, metric) for image in images]
    for rows in distractors:
        apart = ranks.nearest_two(vectors, rows, metric).best
        judged.append((described, apart, np.zeros(len(described), bool)))
    query, distance, right = (np.concatenate(part) for part in zip(*judged, strict=True))
    lost = int(failed.sum())
    return AuthorMatches(
        query, distance, right, lost * len(images) if task == "verification" else lost
    )


def _nearest_by_descriptor(
    vectors: NDArray[Any], described: Ints, image: PlacedRows, metric: str
) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    near = ranks.nearest_two(vectors, image.vectors, metric)
    projected = image.projected[described]
    closest = _closest(projected, image.places)[1]
    apart = np.linalg.norm(image.places[near.nearest] - projected, axis=1)
    return described, near.best, apart <= closest  # NaN is never right


def _nearest_by_place(
    vectors: NDArray[Any], described: Ints, image: PlacedRows, metric: str
) -> tuple[Ints, Floats, NDArray[np.bool_]]:
    row, apart = _closest(image.projected[described], image.places)
    has = np.flatnonzero(np.isfinite(apart))
    scale = ranks.largest_distance(vectors, image.vectors, metric=metric)
    distance = ranks.row_distances(vectors[has], image.vectors[row[has]], metric, scale)
    return described[has], distance, np.ones(len(has), bool)


def _closest(points: Floats, places: Floats) -> tuple[Ints, Floats]:
    """Return each point's nearest place and distance; NaN for none."""
    row, apart = np.zeros(len(points), np.int64), np.zeros(len(points))
    for start in range(0, len(points), _STEP):
        rows = slice(start, start + _STEP)
        table = np.linalg.norm(points[rows, None] - places[None], axis=2)
        row[rows] = table.argmin(axis=1)
        apart[rows] = table.min(axis=1)
    return row, apart
