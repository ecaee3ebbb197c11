"""DescriptorResult: one descriptor on a set of scenes, from the ranks of single keypoints up."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, exact_sum
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_conventions
from assay.core.hits import Hits, judge_ranks
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.measures import Measure, parse_many
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score
from assay.scoring.scores import Mean, Scores
from assay.stats import Interval, interval
from assay.vision.compat import row_with_metadata
from assay.vision.keypoints import as_id, as_ids
from assay.vision.ranks import MATCHED, OUTSIDE, PairRanks, PRCurve, curve_of, mean_curve
from assay.vision.settings import default_conventions
from assay.vision.verification import (
    TASKS,
    CandidateCounts,
    PooledResult,
    counts_among,
    label_rule,
    list_hits,
)

MEASURES: Final = ("AP", "Success@1", "Success@5", "Success@10")
_BIN_ENDS: Final = (1, 2, 3, 4, 5, 10, 20, 50, 100)


@dataclass(frozen=True, order=True)
class Failure:
    """An image, homography or pair that could not be evaluated."""

    scene: str
    pair: str
    reason: str


@dataclass(frozen=True)
class DescriptorCost:
    """Cost of a descriptor: bytes each, number computed, and seconds."""

    row_bytes: int = 0
    described: int = 0
    seconds: float = 0.0

    @property
    def microseconds(self) -> float | None:
        """The time of one; None where none was computed."""
        return 1e6 * self.seconds / self.described if self.described and self.seconds else None


@dataclass(frozen=True)
class MatchRankBin:
    """Number of true matches with ranks `first` to `last`; `last` is 0 for the rest."""

    first: int
    last: int
    queries: int

    @property
    def label(self) -> str:
        """The ranks in words."""
        if not self.last:
            return f"beyond {self.first - 1}"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True, eq=False)
class DescriptorResult:
    """One descriptor, one tolerance τ, any number of scenes; parts merge into the whole exactly.

    `pairs` holds the ranks, `pooled` what verification and retrieval found, `failures` what could
    not be evaluated, `timings` seconds by stage, `keypoints` the name of the keypoint set,
    `settings` what else is to stand in the signature.
    """

    name: str
    pairs: tuple[PairRanks, ...]
    tau: float = 3.0
    keypoints: str = ""
    metric: str = "l2"
    conventions: Conventions = field(default_factory=default_conventions)
    measures: tuple[Measure, ...] = field(default_factory=lambda: parse_many(MEASURES))
    failures: tuple[Failure, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    pooled: tuple[CandidateCounts, ...] = ()
    image_retrieval: Scores | None = None
    settings: Settings = field(default_factory=dict)
    cost: DescriptorCost = field(default_factory=DescriptorCost)

    @classmethod
    def of(
        cls,
        name: str,
        pairs: Iterable[PairRanks],
        *,
        measures: str | Measure | Iterable[str | Measure] = MEASURES,
        conventions: str | Conventions | None = None,
        **more: Any,
    ) -> DescriptorResult:
        """Build a result from the ranks of image pairs, in any order.

        >>> from assay.vision.ranks import rank_pair
        >>> pair = rank_pair([[0.5], [5.0]], [[1.0], [4.0]], truth=[0, 0], scene="s", pair="1-2")
        >>> DescriptorResult.of("mine", [pair]).mean()["AP"]
        0.75
        """
        rules = default_conventions() if conventions is None else as_conventions(conventions)
        ordered = tuple(sorted(pairs, key=lambda pair: (pair.scene, pair.pair)))
        for pair, other in pairwise(ordered):
            if (pair.scene, pair.pair) == (other.scene, other.pair):
                raise MismatchError(
                    f"The pair {pair.pair} of scene {pair.scene!r} appears twice. Merge parts "
                    "without overlap."
                )
            if pair.scene == other.scene and pair.category != other.category:
                raise MismatchError(
                    f"Scene {pair.scene!r} is in category {pair.category!r} and in "
                    f"{other.category!r}. Keep one."
                )
        parsed = tuple(dict.fromkeys((*parse_many("AP"), *parse_many(measures))))
        return cls(name, ordered, conventions=rules, measures=parsed, **more)

    def merge(self, *others: DescriptorResult) -> DescriptorResult:
        """Merge results of one descriptor on different scenes.

        The order of parts changes nothing.
        """
        parts = (self, *others)
        for other in others:
            checks.require(other, DescriptorResult, "every part", "a DescriptorResult")
            for what in ("name", "tau", "keypoints", "metric", "conventions", "measures"):
                here, there = getattr(self, what), getattr(other, what)
                if here != there:
                    raise MismatchError(f"The parts have different {what}: {here} and {there}.")
        if any(part.image_retrieval is not None for part in parts):
            raise UsageError(
                "Image retrieval cannot be merged: it ranks images of all scenes together. "
                "Merge without it, or evaluate all scenes at once."
            )
        stages = dict.fromkeys(chain.from_iterable(part.timings for part in parts))
        pairs, failures, pooled = (
            [item for part in parts for item in getattr(part, name)]
            for name in ("pairs", "failures", "pooled")
        )
        same = ("measures", "conventions", "tau", "keypoints", "metric", "settings")
        return DescriptorResult.of(
            self.name,
            pairs,
            **{name: getattr(self, name) for name in same},
            timings={
                stage: math.fsum(part.timings.get(stage, 0.0) for part in parts) for stage in stages
            },
            cost=DescriptorCost(
                self.cost.row_bytes,
                sum(part.cost.described for part in parts),
                math.fsum(part.cost.seconds for part in parts),
            ),
            failures=tuple(sorted(failures)),
            pooled=tuple(sorted(pooled, key=lambda counts: (counts.task, counts.scene))),
        )

    @cached_property
    def categories(self) -> dict[str, str]:
        """The category of each scene, empty where it has none."""
        return {pair.scene: pair.category for pair in self.pairs}

    @property
    def scene_names(self) -> list[str]:
        """All scenes, in order of their names."""
        return list(self.categories)

    @property
    def n_queries(self) -> int:
        """Keypoints of all pairs, with or without a true match."""
        return sum(pair.n_queries for pair in self.pairs)

    @property
    def n_excluded(self) -> int:
        """Keypoints without a true match."""
        return sum(pair.n_excluded for pair in self.pairs)

    @property
    def n_failed(self) -> int:
        """Keypoints with a true match that the descriptor failed on; they count 0."""
        return sum(pair.n_failed for pair in self.pairs)

    @cached_property
    def _ids(self) -> Ids:
        """An id for each keypoint of each pair, in the order of `pairs`."""
        names: list[str] = []
        for pair in self.pairs:
            names += as_ids(f"{pair.scene}/{pair.pair}/", pair.query_ids)
        return Ids.of(names, what="query")

    @cached_property
    def hits(self) -> Hits:
        """Ranks of all true matches; a failed one was not found."""
        above, tied, before = (self._join(key) for key in ("above", "tied", "before"))
        hits = judge_ranks(
            above + 1,
            tied=np.maximum(tied, 0),
            placed=np.where(above >= 0, above + before + 1, 0),
            has_target=self._join("status") == MATCHED,
            query_ids=self._ids,
        )
        sizes = self._spread([pair.n_docs for pair in self.pairs])[self._ids.order()]
        return replace(hits, n_docs=sizes, n_ret=sizes)

    @cached_property
    def scores(self) -> Scores:
        """A value for each measure and keypoint, with the columns scene, pair and category."""
        scores = score(self.hits, self.measures, conventions=self.conventions)
        columns = {
            "scene": [pair.scene for pair in self.pairs],
            "pair": [f"{pair.scene}/{pair.pair}" for pair in self.pairs],
            "category": [pair.category for pair in self.pairs],
        }
        groups = {
            name: self._spread(np.array(values, np.str_))[self._ids.order()]
            for name, values in columns.items()
        }
        named = replace(scores, groups=groups, settings={**scores.settings, **self.settings})
        return named.but_settings(
            metric=self.metric, tau=self.tau, keypoints=self.keypoints, truth=self.query_set[:8]
        )

    def _join(self, key: str) -> NDArray[Any]:
        parts = [getattr(pair, key) for pair in self.pairs]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _spread(self, values: Any) -> NDArray[Any]:
        """Repeat one value per pair for each of its queries."""
        return np.repeat(np.asarray(values), [pair.n_queries for pair in self.pairs])

    def mean(self, *, by: str | None = None, empty: str | None = None) -> Mean:
        """Return means over keypoints (micro) or over groups (macro)."""
        return self.scores.mean(by=by, empty=empty)

    def scene_means(self, measure: str = "AP", *, empty: str = "skip") -> dict[str, float]:
        """Return the mean of each scene; NaN without true matches."""
        groups = self._by_scene[empty].groups
        return {scene: groups[scene][str(parse_many(measure)[0])] for scene in groups}

    @cached_property
    def _by_scene(self) -> dict[str, Mean]:
        return {empty: self.scores.mean(by="scene", empty=empty) for empty in ("skip", "zero")}

    def category_mean(self, category: str, measure: str = "AP", *, empty: str = "skip") -> float:
        """Return the mean over a category's scenes; NaN without any.

        Each scene has the same weight.
        """
        means = [
            value
            for scene, value in self.scene_means(measure, empty=empty).items()
            if self.categories[scene] == category and not math.isnan(value)
        ]
        return math.fsum(means) / len(means) if means else math.nan

    @property
    def category_names(self) -> list[str]:
        """All categories that have a name, in order."""
        return sorted({name for name in self.categories.values() if name})

    @cached_property
    def matching(self) -> Scores | None:
        """Image matching: for each pair the AP of its nearest neighbours, nearest first.

        All true matches of the pair are to be found; a nearest neighbour that is not the true
        match is wrong, also where there is none. None where nearest neighbours were not looked for.
        """
        pairs = [pair for pair in self.pairs if len(pair.nearest)]
        if not pairs:
            return None
        by_id = {as_id(f"{pair.scene}/{pair.pair}"): pair for pair in pairs}
        counted = [(pair.judged[0], *counts_among(*pair.judged)) for pair in pairs]
        distance, below, tied = map(np.concatenate, zip(*counted, strict=True))
        hits = list_hits(
            list(by_id),
            np.repeat(np.arange(len(pairs)), [len(right) for right, *_ in counted]),
            distance=distance,
            below=below,
            tied=tied,
            n_relevant=np.array([int(pair.has_truth.sum()) for pair in pairs]),
            n_docs=np.array([int((~np.isnan(pair.nearest)).sum()) for pair in pairs]),
        )
        return score(hits, "AP", conventions=self.conventions).with_groups(
            scene={pair_id: pair.scene for pair_id, pair in by_id.items()},
            category={pair_id: pair.category for pair_id, pair in by_id.items()},
        )

    @property
    def curves(self) -> list[PRCurve]:
        """Precision over recall: of nearest neighbours, mean over pairs; of verification, pooled.

        Wrong neighbours stand before right ones that are as near. Verification is the authors'.
        """
        pairs = [pair for pair in self.pairs if len(pair.nearest) and pair.has_truth.any()]
        curves = []
        if pairs:
            precision = mean_curve(
                curve_of(np.sort(sum(counts_among(*pair.judged))), int(pair.has_truth.sum()))
                for pair in pairs
            )
            chance = float(np.mean([pair.has_truth.mean() / pair.n_docs for pair in pairs]))
            curves.append(PRCurve("image matching", self.name, "", precision, chance))
        verification = self.task("verification")
        if verification is not None:
            precision, chance = verification.author_curve()
            curves.append(PRCurve("keypoint verification", self.name, "", precision, chance))
        return curves

    @cached_property
    def legacy(self) -> Scores:
        """For each image the share of keypoints whose nearest neighbour is the true match.

        This is what the old "precision" of an image is: keypoints without a true match count as
        wrong. A value for each pair, under the measure Success@1, with the column scene.
        """
        places = [self.measures.index(measure) for measure in parse_many("Success@1")]
        means = replace(
            self.scores,
            measures=parse_many("Success@1"),
            values=self.scores.values[places],
            tied=self.scores.tied[places],
        ).mean(by="pair", empty="zero")
        names = {f"{pair.scene}/{pair.pair}": pair.scene for pair in self.pairs}
        values = {as_id(name): means.groups[name]["Success@1"] for name in names}
        return plain_scores(
            "Success@1", values, self.conventions, settings=self.scores.settings
        ).with_groups(scene={as_id(name): scene for name, scene in names.items()})

    def chance(self, category: str | None = None) -> dict[str, float]:
        """Return expected values of a random order, in closed form."""
        return self._bound(chance, category)

    def ceiling(self, category: str | None = None) -> dict[str, float]:
        """Return values of a perfect order.

        They are below 1 only for measures that a cutoff limits.
        """
        return self._bound(ceiling, category)

    def _bound(self, bound: Any, category: str | None) -> dict[str, float]:
        """Return a mean over queries, computed once for each pool size."""
        rows = self.hits.pool_row
        if category is not None:
            rows = rows[self.scores.groups["category"][rows] == category]
        sizes = self.hits.n_docs[rows]
        if not len(sizes):
            return {str(measure): math.nan for measure in self.measures}
        _, first, counts = np.unique(sizes, return_index=True, return_counts=True)
        bounds = bound(self.hits.select(rows[first]), self.measures, conventions=self.conventions)
        return {
            str(measure): exact_sum(bounds[measure] * counts / len(sizes))
            for measure in self.measures
        }

    def rank_histogram(self, ends: Sequence[int] = _BIN_ENDS) -> list[MatchRankBin]:
        """Count true matches by rank, up to the last end and beyond.

        Failed keypoints have no rank; `n_failed` counts them.
        """
        place = np.searchsorted(ends, self.hits.rank)
        counts = np.bincount(place, minlength=len(ends) + 1).tolist()
        starts = (1, *(end + 1 for end in ends))
        return list(map(MatchRankBin, starts, (*ends, 0), counts))

    def scene_rows(self) -> list[dict[str, Any]]:
        """Return counts, pool size and means of each scene."""
        return [self._scene_row(scene) for scene in self.scene_names]

    def _scene_row(self, scene: str) -> dict[str, Any]:
        pairs = [pair for pair in self.pairs if pair.scene == scene]
        n = sum(pair.n_queries for pair in pairs)
        excluded = sum(pair.n_excluded for pair in pairs)
        counts = {
            "scene": scene,
            "category": self.categories[scene],
            "pairs": len(pairs),
            "queries": n,
            "with_truth": n - excluded,
            "excluded": excluded,
            "outside": sum(int((pair.status == OUTSIDE).sum()) for pair in pairs),
            "failed": sum(pair.n_failed for pair in pairs),
            "failed_pairs": sum(failure.scene == scene for failure in self.failures),
            "pool": float(np.mean([pair.n_docs for pair in pairs])),
        }
        skip, zero = (self._by_scene[empty].groups[scene] for empty in ("skip", "zero"))
        return {**counts, **skip, "AP_including_zeros": zero["AP"]}

    @cached_property
    def query_set(self) -> str:
        """A fingerprint of the queries: their keypoints, their candidates and the true matches."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(f"{pair.scene}\0{pair.pair}\0{pair.truth}\0{pair.n_docs}\0".encode())
            digest.update("\0".join(pair.query_ids).encode())
            digest.update(pair.status.tobytes())
        return digest.hexdigest()[:16]

    def task(self, name: str) -> PooledResult | None:
        """Return verification or retrieval; None where not computed."""
        return self.tasks.get(name)

    @cached_property
    def tasks(self) -> dict[str, PooledResult]:
        """Computed verification and retrieval results."""
        parts = {
            task: tuple(counts for counts in self.pooled if counts.task == task) for task in TASKS
        }
        return {
            task: PooledResult(counts, self.conventions) for task, counts in parts.items() if counts
        }

    def records(
        self,
        *,
        rule: str = "authors",
        name: str = "",
        config: Mapping[str, Any] | None = None,
        seeds: Mapping[str, Any] | None = None,
        resampling: Mapping[str, Any] | None = None,
    ) -> list[RunRecord]:
        """Return the record of this descriptor.

        Its scenes are resampled as a whole. By `rule`, verification and retrieval of the wide row
        are those of the `authors`, or of ternary labels, of which unmatched keypoints of the same
        scene are ignored (`paper`) or count as wrong (`program`). `resampling` sets level,
        resamples and seed.

        >>> from assay.vision.ranks import rank_pair
        >>> pair = rank_pair([[0.5], [5.0]], [[1.0], [4.0]], truth=[0, 0], scene="s", pair="1-2")
        >>> [record.name for record in DescriptorResult.of("mine", [pair]).records()]
        ['mine']
        """
        row = row_with_metadata(self, rule=rule)
        about = {key: getattr(self, key) for key in ("tau", "keypoints", "metric")}
        return [
            RunRecord(
                name or self.name,
                self.scores,
                task="descriptors",
                model=self.name,
                config={**about, "rule": rule, "query_set": self.query_set, **(config or {})},
                seeds=seeds or {},
                chance=self.chance(),
                ceiling=self.ceiling(),
                aggregates=_aggregates(self, rule, row, resampling or {}),
                clusters="scene",
                resampling=resampling or {},
                wide=row,
            )
        ]

    def __repr__(self) -> str:
        return (
            f"DescriptorResult({self.name!r}: {len(self.scene_names)} scenes, "
            f"{self.n_queries} queries, mAP {self.mean(empty='skip')['AP']:.4f})"
        )


@dataclass(frozen=True, eq=False)
class ScenePart:
    """Contribution of one scene to a descriptor's result, per tolerance."""

    scene: str
    ranks: Mapping[float, tuple[PairRanks, ...]]
    pooled: tuple[CandidateCounts, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    samples: tuple[Array, ...] = ()
    metric: str = "l2"
    seconds: Mapping[str, float] = field(default_factory=dict)
    described: int = 0  # descriptors that were computed
    row_bytes: int = 0  # of each


# A mean with its interval for a stored run; scenes were resampled as a whole.
interval_aggregate = partial(Aggregate.of_interval, clusters="scene")


def image_intervals(result: DescriptorResult, resampling: Mapping[str, Any]) -> dict[str, Interval]:
    """Return image matching and retrieval, as far as evaluated.

    Scenes are resampled.
    """
    tasks = {"image_matching": result.matching, "image_retrieval": result.image_retrieval}
    return {
        name: scene_interval(scores, **resampling)
        for name, scores in tasks.items()
        if scores is not None
    }


def scene_interval(scores: Scores, **resampling: Any) -> Interval:
    """Return the mean AP with its interval; whole scenes are resampled."""
    clusters = scores.groups["scene"]
    return interval(scores["AP"], clusters=clusters, bounds=(0.0, 1.0), **resampling)


def plain_scores(
    measures: Any, values: Mapping[str, Any], conventions: Conventions | None = None, **more: Any
) -> Scores:
    """Return values by id of pairs, lists or scenes as scores; none is tied or missing."""
    parsed, ids = parse_many(measures), sorted(values)
    table = np.array([values[key] for key in ids], float).reshape(len(ids), len(parsed)).T
    return Scores(
        parsed,
        Ids.of(ids),
        np.ascontiguousarray(table),
        np.zeros(table.shape, bool),
        np.zeros(len(ids), bool),
        conventions or default_conventions(),
        **more,
    )


def _aggregates(
    result: DescriptorResult, rule: str, row: Mapping[str, Any], resampling: Mapping[str, Any]
) -> list[Aggregate]:
    """Return values that are not plain means over keypoints."""
    aggregates = [
        Aggregate(
            "AP",
            result.category_mean(name),
            average="macro",
            by_column="scene",
            subset=name,
            value_skip=result.category_mean(name),
            value_zero=result.category_mean(name, empty="zero"),
        )
        for name in result.category_names
    ]
    labelled = label_rule(rule)
    for task, pooled in result.tasks.items():
        for name in ("", *result.category_names):
            subset = f"{task}/{name}" if name else task
            for kind, note in (("pooled", f"rule {labelled}"), ("authors", "")):
                mean = pooled.interval(kind, labelled, category=name or None, **resampling)
                about = {"average": kind, "subset": subset, "note": note or mean.note}
                aggregates.append(interval_aggregate("PooledAP", mean, **about))
    for name, mean in image_intervals(result, resampling).items():
        aggregates.append(interval_aggregate(f"{name}_map", mean, average="images"))
    precision, by_scene = row["mean_precision"], row["legacy_macro_precision_by_scene"]
    aggregates.append(Aggregate("mean_precision", precision, n=len(result.pairs)))
    aggregates.append(Aggregate("mean_precision", by_scene, average="macro", by_column="scene"))
    return aggregates
