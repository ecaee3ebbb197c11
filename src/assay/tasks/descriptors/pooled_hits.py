"""Keypoint verification and retrieval: true matches among other keypoints and distractors.

Every candidate of a query keypoint has a label: +1 is its true match, 0 any other keypoint of the
same scene, −1 a keypoint of another scene. Under the rule `paper` (Bartol, Bojanić et al., arXiv
2007.10000) a 0 is ignored; under the rule `program` it counts as wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of
from assay.core import order
from assay.core.conventions import Conventions
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.stats import Interval, interval
from assay.stats.jackknife import jackknife_interval
from assay.stats.separation import grouped_ap
from assay.tasks.descriptors.distances import largest_distance, pair_distances, row_distances
from assay.tasks.descriptors.pr_curves import curve_of
from assay.tasks.descriptors.sampling import as_id, as_ids

__all__ = [
    "LOST",
    "NO_MATCH",
    "RULES",
    "TASKS",
    "CandidateCounts",
    "Candidates",
    "PooledResult",
    "count_candidates",
    "counts_among",
    "list_hits",
]


def counts_among(values: Floats, others: Floats) -> tuple[Ints, Ints]:
    """For each value how many of the others are below it, and how many equal it.

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
    """Hits of lists by distance; entry i is a right pair of list `row[i]`.

    `below` wrong pairs of the list are nearer and `tied` as near. A list has `n_relevant` right
    pairs, found or not, and `n_docs` pairs in all. Where only the order of ties would decide, a
    right pair stands behind the wrong ones.
    """
    ids = Ids.of(list_ids, what="list")
    by_distance = order.nearest_order(distance, row=row)
    row, distance = row[by_distance], distance[by_distance]
    offsets = np.searchsorted(row, np.arange(len(ids) + 1)).astype(np.int64)
    first, last = _equal_runs(row, distance)
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


def _equal_runs(row: Ints, distance: Floats) -> tuple[Ints, Ints]:
    """For each entry the start and end of the run of equal distances in its list."""
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (distance[1:] != distance[:-1])
    starts = np.flatnonzero(new)
    offsets = np.append(starts, len(row))
    run = order.rows_of(offsets.astype(np.int64))
    return offsets[run], offsets[run + 1]


Rule = Literal["paper", "program"]

RULES: Final = ("paper", "program")
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
    chosen: tuple[str, ...] = ()
    seed: int = 0
    # The judged nearest neighbours of the authors' own program; see `author_matches`.
    author_query: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    author_distance: Floats = field(default_factory=lambda: np.zeros(0))
    author_right: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    author_missed: int = 0

    @property
    def n_matches(self) -> int:
        """How many candidates have the label +1, found or lost."""
        return len(self.query) + int(self.query_lost.sum())

    @property
    def n_zeros(self) -> int:
        """How many have the label 0."""
        return int(self.query_zeros.sum())

    @property
    def n_negatives(self) -> int:
        """How many have the label −1."""
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
    chosen: Sequence[str] = (),
    seed: int = 0,
    failed: NDArray[np.bool_] | None = None,
) -> CandidateCounts:
    """Count the labels before every true match of a scene; nothing is sorted but distractors.

    `distractors` are descriptors of other scenes, which every query meets; `chosen` and `seed`
    record how they were drawn. Queries that `failed` find nothing, and their matches count as lost.
    """
    if task not in TASKS:
        raise UsageError(f"task must be verification or retrieval, found {task!r}.")
    n = len(query_vectors)
    gone = np.zeros(n, bool) if failed is None else failed
    kept = np.flatnonzero(~gone)
    answered = [Candidates(image.vectors, image.truth[kept]) for image in images]
    query, distance, counts = _count_labels(query_vectors[kept], answered, distractors, metric)
    zeros = np.zeros(n, np.int64)
    zeros[kept] = sum(len(image.vectors) for image in images)
    np.subtract.at(zeros, kept[query], 1)
    ids = tuple(map(str, range(n) if query_ids is None else query_ids))
    return CandidateCounts(
        task,
        scene,
        category,
        ids,
        kept[query],
        distance,
        *counts,
        query_zeros=zeros,
        query_lost=_lost(images, gone),
        query_negatives=np.where(gone, 0, len(distractors)),
        chosen=tuple(chosen),
        seed=seed,
    )


def _lost(images: Sequence[Candidates], failed: NDArray[np.bool_]) -> Ints:
    """How many true matches of each query cannot be found, because a descriptor failed."""
    lost = np.zeros(len(failed), np.int64)
    for image in images:
        lost += np.where(failed, image.truth != NO_MATCH, image.truth == LOST)
    return lost


def _count_labels(
    queries: NDArray[Any], images: Sequence[Candidates], distractors: NDArray[Any], metric: str
) -> tuple[Ints, Floats, tuple[Ints, Ints, Ints, Ints]]:
    """The true matches, and before each of them zeros and distractors, in both kinds of lists."""
    pools = [image.vectors for image in images]
    scale = largest_distance(queries, *pools, distractors, metric=metric)
    query, distance = _true_matches(queries, images, metric, scale)
    zeros = _counts(queries, query, distance, pools, metric, scale)
    others = _counts(queries, query, distance, [distractors], metric, scale)
    for equal, (whole, own) in enumerate(((0, 2), (1, 3))):
        # A true match is in its image's pool: it ties with itself there, and with other matches.
        zeros[whole] -= _matches_at(distance, query, bool(equal), own=False)
        zeros[own] -= _matches_at(distance, query, bool(equal), own=True)
    nearer, tied, own_nearer, own_tied = (
        np.stack(pair) for pair in zip(zeros, others, strict=True)
    )
    return query, distance, (nearer, tied, own_nearer, own_tied)


def _true_matches(
    queries: NDArray[Any], images: Sequence[Candidates], metric: str, scale: float
) -> tuple[Ints, Floats]:
    rows, distances = [], []
    for image in images:
        has = np.flatnonzero(image.truth >= 0)
        rows.append(has)
        distances.append(
            row_distances(queries[has], image.vectors[image.truth[has]], metric, scale)
        )
    empty: tuple[list[Any], list[Any]] = ([np.empty(0, np.int64)], [np.empty(0)])
    return (
        np.concatenate(rows or empty[0]).astype(np.int64),
        np.concatenate(distances or empty[1]),
    )


def _counts(
    queries: NDArray[Any],
    query: Ints,
    distance: Floats,
    pools: Sequence[NDArray[Any]],
    metric: str,
    scale: float,
) -> list[Ints]:
    """Nearer and tied in the scene's list, nearer and tied in the query's own."""
    found = [np.zeros(len(query), np.int64) for _ in range(4)]
    for pool in pools:
        step = max(1, _BLOCK // max(len(pool), 1))
        for start in range(0, len(queries) if len(pool) else 0, step):
            block = pair_distances(queries[start : start + step], pool, metric, scale)
            below, same = counts_among(distance, block)
            found[0] += below
            found[1] += same
            here = np.flatnonzero((query >= start) & (query < start + step))
            for part in np.array_split(here, 1 + len(here) // step):
                own = block[query[part] - start]
                found[2][part] += (own < distance[part, None]).sum(axis=1)
                found[3][part] += (own == distance[part, None]).sum(axis=1)
    return found


def _matches_at(distance: Floats, query: Ints, equal: bool, *, own: bool) -> Ints:
    """How many true matches are nearer than each (or as near), in the scene or of its query."""
    if not own:
        return counts_among(distance, distance)[int(equal)]
    found = np.zeros(len(query), np.int64)
    for rows in np.split(
        np.argsort(query, kind="stable"), np.flatnonzero(np.diff(np.sort(query))) + 1
    ):
        found[rows] = counts_among(distance[rows], distance[rows])[int(equal)]
    return found


@dataclass(frozen=True, eq=False)
class PooledResult:
    """Verification or retrieval of all scenes, under either rule."""

    scenes: tuple[CandidateCounts, ...]
    conventions: Conventions
    _pooled: dict[str, Scores] = field(default_factory=dict, init=False, repr=False)
    _single: dict[str, Scores] = field(default_factory=dict, init=False, repr=False)

    def counts(self, category: str | None = None) -> dict[str, int]:
        """How many candidates have each label."""
        some = [one for one in self.scenes if category in (None, one.category)]
        return {
            "+1": sum(one.n_matches for one in some),
            "0": sum(one.n_zeros for one in some),
            "-1": sum(one.n_negatives for one in some),
        }

    def pooled(self, rule: str = "paper") -> Scores:
        """AP of one list for each scene, all pairs of keypoints in it; columns as for keypoints."""
        if rule not in self._pooled:
            self._pooled[rule] = self._score_scenes(_labels_of(rule))
        return self._pooled[rule]

    def _score_scenes(self, counted: tuple[int, ...]) -> Scores:
        rows = np.repeat(np.arange(len(self.scenes)), [len(one.query) for one in self.scenes])
        hits = list_hits(
            list(self._lists),
            rows,
            distance=self._join("distance"),
            below=_sum_counts(self.scenes, "nearer", counted),
            tied=_sum_counts(self.scenes, "tied", counted),
            n_relevant=np.array([one.n_matches for one in self.scenes]),
            n_docs=np.array(
                [
                    one.n_matches + one.n_negatives + (one.n_zeros if 0 in counted else 0)
                    for one in self.scenes
                ]
            ),
        )
        found = score(hits, "AP", conventions=self.conventions)
        return self._group(found, self._lists)

    def per_query(self, rule: str = "paper") -> Scores:
        """AP of one list for each keypoint of the first image; its matches of all others count."""
        if rule not in self._single:
            self._single[rule] = self._score_queries(_labels_of(rule))
        return self._single[rule]

    def _score_queries(self, counted: tuple[int, ...]) -> Scores:
        starts = np.cumsum([0, *(len(one.query_ids) for one in self.scenes)])
        rows = [one.query + start for one, start in zip(self.scenes, starts, strict=False)]
        row = np.concatenate(rows)
        n_relevant = np.bincount(row, minlength=int(starts[-1])) + self._join("query_lost")
        sizes = self._join("query_negatives")
        if 0 in counted:
            sizes = sizes + self._join("query_zeros")
        hits = list_hits(
            list(self._queries),
            row,
            distance=self._join("distance"),
            below=_sum_counts(self.scenes, "own_nearer", counted),
            tied=_sum_counts(self.scenes, "own_tied", counted),
            n_relevant=n_relevant,
            n_docs=sizes + n_relevant,
        )
        found = score(hits, "AP", conventions=self.conventions)
        return self._group(found, self._queries)

    def mean(self, rule: str = "paper", *, category: str | None = None) -> float:
        """The mean over scenes of the pooled AP; NaN without any true match."""
        return _scene_mean(self.pooled(rule), category)

    def query_mean(self, rule: str = "paper", *, category: str | None = None) -> float:
        """The mean over scenes of the mean over their queries."""
        return _scene_mean(self.per_query(rule), category)

    def author_mean(self, category: str | None = None) -> float:
        """The number of the authors' program: AP of one list, or the mean AP of keypoints."""
        some = [one for one in self.scenes if category in (None, one.category)]
        if self.scenes[0].task == "verification":
            return _author_list(some)
        values = [value for one in some for value in _author_aps(one)]
        return math.fsum(values) / len(values) if values else math.nan

    def author_curve(self) -> tuple[Floats, float]:
        """Precision over recall of all judged nearest neighbours, and the share of right ones."""
        distance, right = self._join("author_distance"), self._join("author_right")
        missed = sum(one.author_missed for one in self.scenes)
        wrong = np.sort(sum(counts_among(distance[right], distance[~right])))
        total = len(wrong) + missed
        return curve_of(wrong, total), len(wrong) / max(len(distance), 1)

    def interval(
        self, kind: str, rule: str = "paper", *, category: str | None = None, **resampling: Any
    ) -> Interval:
        """A number with its interval over scenes; `kind` is pooled, per query or authors.

        Those that are means resample whole scenes; verification by the authors is one list, of
        which each scene is left out in turn. `resampling` are level, resamples and seed.
        """
        settings = {"bounds": (0.0, 1.0), **resampling}
        if kind != "authors":
            scores = self.pooled(rule) if kind == "pooled" else self.per_query(rule)
            return interval(_scene_values(scores, category), **settings)
        some = [one for one in self.scenes if category in (None, one.category)]
        if self.scenes[0].task == "verification":
            level = resampling.get("level", 0.95)
            left_out = [_author_list(other for other in some if other is not one) for one in some]
            return jackknife_interval(_author_list(some), np.array(left_out), level=level)
        found = {one.scene: _author_aps(one) for one in some}
        scenes = [scene for scene, values in found.items() for _ in values]
        return interval(list(chain.from_iterable(found.values())), clusters=scenes, **settings)

    def author_counts(self) -> tuple[int, int]:
        """How many judged nearest neighbours are right, found or missed, and how many wrong."""
        right = sum(int(one.author_right.sum()) + one.author_missed for one in self.scenes)
        return right, sum(int((~one.author_right).sum()) for one in self.scenes)

    @cached_property
    def _categories(self) -> dict[str, str]:
        return {one.scene: one.category for one in self.scenes}

    def _join(self, key: str) -> NDArray[Any]:
        return np.concatenate([getattr(one, key) for one in self.scenes])

    @property
    def _lists(self) -> dict[str, str]:
        """The scene of each pooled list, by its id."""
        return {as_id(one.scene): one.scene for one in self.scenes}

    @cached_property
    def _queries(self) -> dict[str, str]:
        """The scene of each keypoint, by its id."""
        return {
            name: one.scene
            for one in self.scenes
            for name in as_ids(f"{one.scene}/", one.query_ids)
        }

    def _group(self, scores: Scores, scene: dict[str, str]) -> Scores:
        known = self._categories
        return scores.with_groups(
            scene=scene, category={one: known[name] for one, name in scene.items()}
        )


def _author_list(scenes: Iterable[CandidateCounts]) -> float:
    """AP of all judged matches of these scenes; NaN without any."""
    some = list(scenes)
    if not some:
        return math.nan
    return grouped_ap(
        np.concatenate([one.author_distance for one in some]),
        np.concatenate([one.author_right for one in some]),
        sum(one.author_missed for one in some),
    )


def _author_aps(scene: CandidateCounts) -> list[float]:
    """AP of each keypoint that has a right match; 0 for those without a descriptor."""
    order = np.argsort(scene.author_query, kind="stable")
    ends = np.flatnonzero(np.diff(scene.author_query[order])) + 1
    found = [
        grouped_ap(scene.author_distance[rows], scene.author_right[rows])
        for rows in np.split(order, ends)
    ]
    return [ap for ap in found if not math.isnan(ap)] + [0.0] * scene.author_missed


def _labels_of(rule: str) -> tuple[int, ...]:
    """Rows of the counts that count as wrong: zeros are row 0, distractors row 1."""
    if rule not in RULES:
        raise UsageError(f"rule must be paper or program, found {rule!r}.")
    return (1,) if rule == "paper" else (0, 1)


def _sum_counts(scenes: Sequence[CandidateCounts], key: str, counted: tuple[int, ...]) -> Ints:
    return np.concatenate([getattr(one, key)[list(counted)].sum(axis=0) for one in scenes])


def _scene_values(scores: Scores, category: str | None) -> list[float]:
    """The mean of each scene that has one."""
    found = scores.mean(by="scene", empty="skip").groups
    of = dict(zip(scores.groups["scene"].tolist(), scores.groups["category"].tolist(), strict=True))
    values = [means["AP"] for scene, means in found.items() if category in (None, of[scene])]
    return [value for value in values if not math.isnan(value)]


def _scene_mean(scores: Scores, category: str | None) -> float:
    defined = _scene_values(scores, category)
    return math.fsum(defined) / len(defined) if defined else math.nan
