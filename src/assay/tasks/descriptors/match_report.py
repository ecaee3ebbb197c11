"""Descriptors and matchers on pairs of images: means with intervals over scenes, and records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, or_none
from assay.comparison.compare import Comparison
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.measures import parse_many
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Scores, signature_of
from assay.search.engine.workers import Control, Progress, run, thread_count
from assay.stats import Interval, intervals
from assay.tables.page import Page, Words
from assay.tables.table import Cell, Table
from assay.tasks.descriptors.compare import ALL, SHARE, compare_named, mean_defined
from assay.tasks.descriptors.experiment import DescriptorSettings, Experiment
from assay.tasks.descriptors.image_matching import (
    HEADLINE,
    PIXELS,
    Estimator,
    MatchedPair,
    Matcher,
    error_auc,
    match_pair,
)
from assay.tasks.descriptors.pr_curves import PRCurve, mean_curve
from assay.tasks.descriptors.result import Failure, default_conventions
from assay.tasks.descriptors.run import keypoint_name, load_scenes
from assay.tasks.descriptors.sampling import as_id
from assay.tasks.descriptors.scene import BROKEN, SceneContext, wanted_pairs
from assay.tasks.descriptors.tables import ends_of, interval_aggregate, interval_data
from assay.tasks.vision.keypoint_sources import Detections
from assay.tasks.vision.scenes import Scene

__all__ = ["MatchingReport", "MatchingResult", "match_images"]

_CORNERS: Final = (1, 3, 5)  # pixels of homography estimation


@dataclass(frozen=True, eq=False)
class MatchingResult:
    """One descriptor with one matcher on all pairs; see `MatchedPair` for the values."""

    descriptor: str
    matcher: str
    pairs: tuple[MatchedPair, ...]
    failures: tuple[Failure, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Descriptor and matcher."""
        return f"{self.descriptor}, {self.matcher}"

    @property
    def categories(self) -> list[str]:
        """All of them together, then each, if there are several."""
        found = sorted({pair.category for pair in self.pairs})
        return [ALL, *found] if len(found) > 1 else [ALL]

    def values(self, pairs: Sequence[MatchedPair] | None = None) -> dict[str, Floats]:
        """A value of each pair by measure, such as `MMA@3`; the number is pixels.

        `accuracy` is 1 where the corners are near enough on average, `AUC` max(0, 1 − error/x).
        """
        chosen = self.pairs if pairs is None else pairs
        found = {
            f"{name}@{pixels}": np.array([getattr(pair, key)[place] for pair in chosen], float)
            for name, key in _CURVES.items()
            for place, pixels in enumerate(PIXELS)
        }
        corners = np.array([pair.corners for pair in chosen], float)
        for x in _CORNERS:
            near = np.where(np.isnan(corners), np.nan, (corners <= x).astype(float))
            found[f"accuracy@{x}"] = near
            found[f"AUC@{x}"] = np.maximum(0.0, 1.0 - corners / x)
        return found

    def of_category(self, category: str) -> list[MatchedPair]:
        """The pairs of a category, or all."""
        return [pair for pair in self.pairs if category in (ALL, pair.category)]

    def trapezoids(self, category: str = ALL) -> dict[str, float]:
        """AUC as SuperGlue's program computes it, over all pairs of a category."""
        errors = np.array([pair.corners for pair in self.of_category(category)], float)
        known = errors[~np.isnan(errors)]
        return {f"AUC@{x}": error_auc(known, float(x)) for x in _CORNERS}

    @property
    def curve(self) -> PRCurve:
        """Mean precision over recall of the pairs that have a true match."""
        known = [pair for pair in self.pairs if not np.isnan(pair.precision).any()]
        chance = [pair.chance[PIXELS.index(HEADLINE)] for pair in known]
        precision = mean_curve(pair.precision for pair in known)
        mean = float(np.mean(chance)) if chance else math.nan
        return PRCurve("image matching", self.descriptor, self.matcher, precision, mean)

    @cached_property
    def scores(self) -> Scores:
        """MMA at the headline's tolerance for each pair, as the precision of its matches."""
        by_id = {as_id(f"{pair.scene}/{pair.pair}"): pair for pair in self.pairs}
        ids = sorted(by_id)
        place = PIXELS.index(HEADLINE)
        values = np.array([[by_id[one].accuracy[place] for one in ids]], float)
        return Scores(
            parse_many(SHARE),
            Ids.of(ids, what="pair"),
            values.reshape(1, len(ids)),
            np.zeros((1, len(ids)), bool),
            np.zeros(len(ids), bool),
            default_conventions(),
            groups={
                name: np.array([getattr(by_id[one], name) for one in ids], np.str_)
                for name in ("scene", "category")
            },
        ).but_settings(**self.settings, pixels=HEADLINE)


_CURVES: Final = {"MMA": "accuracy", "repeatability": "repeatability", "score": "score"}


@dataclass(frozen=True)
class MatchingSummary:
    """One descriptor and matcher on the pairs of a category: an interval for each measure."""

    descriptor: str
    matcher: str
    category: str
    scenes: int
    pairs: int
    keypoints: float
    matches: float
    not_estimated: int
    chance: dict[str, float]
    found: dict[str, Interval]
    trapezoids: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        data = {name: getattr(self, name) for name in _COUNTS}
        data["measures"] = {name: self._measure(name) for name in self.found}
        data["auc_trapezoid"] = {name: or_none(value) for name, value in self.trapezoids.items()}
        return data

    def _measure(self, name: str) -> dict[str, Any]:
        return {**interval_data(self.found[name]), "chance": self.chance.get(name)}

    def aggregates(self) -> Iterator[Aggregate]:
        """The same as numbers of a stored run."""
        subset = "" if self.category == ALL else self.category
        for name, one in self.found.items():
            about = {"average": "pairs", "subset": subset, "chance": self.chance.get(name)}
            yield interval_aggregate(name, one, **about)
        for name, value in self.trapezoids.items():
            yield Aggregate(name, value, average="trapezoid", subset=subset, n=self.pairs)


_COUNTS: Final = (
    "descriptor",
    "matcher",
    "category",
    "scenes",
    "pairs",
    "keypoints",
    "matches",
    "not_estimated",
)


def _summary(result: MatchingResult, category: str, settings: dict[str, Any]) -> MatchingSummary:
    pairs = result.of_category(category)
    values = result.values(pairs)
    scenes = [pair.scene for pair in pairs]
    found = intervals(
        np.stack(list(values.values())),
        clusters=scenes,
        bounds=[(0.0, 1.0)] * len(values),
        **settings,
    )
    chance = np.mean([pair.chance for pair in pairs], axis=0).tolist()
    return MatchingSummary(
        result.descriptor,
        result.matcher,
        category,
        len(set(scenes)),
        len(pairs),
        float(np.mean([pair.keypoints for pair in pairs])),
        float(np.mean([pair.matches for pair in pairs])),
        sum(math.isinf(pair.corners) for pair in pairs),
        {f"MMA@{pixels}": one for pixels, one in zip(PIXELS, chance, strict=True)},
        dict(zip(values, found, strict=True)),
        result.trapezoids(category),
    )


@dataclass(frozen=True, eq=False)
class MatchingReport:
    """Every descriptor with every matcher, as tables, a page, plain data and records."""

    experiment: Experiment
    results: tuple[MatchingResult, ...]
    estimator: Estimator
    per_scene: bool = False

    @property
    def failures(self) -> list[tuple[str, Failure]]:
        """Pairs that could not be matched, once for each descriptor."""
        every = {one.descriptor: one.failures for one in self.results}
        return [(name, failure) for name, own in every.items() for failure in own]

    @property
    def _resampling(self) -> dict[str, Any]:
        return self.experiment.evaluation.resampling

    @property
    def signature(self) -> str:
        """The conventions and the settings of all contestants, listed where they differ."""
        return signature_of([one.scores for one in self.results], self._resampling)

    @cached_property
    def summaries(self) -> dict[str, list[MatchingSummary]]:
        """By the name of the contestant: all pairs, then those of each category."""
        return {
            one.name: [_summary(one, name, self._resampling) for name in one.categories]
            for one in self.results
            if one.pairs
        }

    @cached_property
    def comparison(self) -> Comparison | None:
        """Contestants on MMA of the same pairs, whole scenes resampled; None where pairs differ."""
        how = self.experiment.evaluation
        if len(self.results) < 2 or len(self.summaries) < len(self.results):
            return None
        try:
            return compare_named(
                f"MMA@{HEADLINE}",
                SHARE,
                [one.scores for one in self.results],
                [one.name for one in self.results],
                by="scene",
                level=round(1 - how.level, 12),
                resamples=how.resamples,
                seed=how.seed,
            )
        except MismatchError:  # a pair of one of them failed, and that is said
            return None

    @property
    def remarks(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        return [
            f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}"
            for name, failure in self.failures
        ]

    @property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of each contestant that matched a pair."""
        return [one.curve for one in self.results if one.pairs]

    def _rows(self) -> list[MatchingSummary]:
        return [row for own in self.summaries.values() for row in own]

    def tables(self) -> list[Table]:
        """Keypoints and matches; homographies; scenes, if they were asked for."""
        found = [self._table(_MATCHES), self._table(_HOMOGRAPHIES)]
        return [*found, self._scene_table()] if self.per_scene else found

    def _table(self, columns: tuple[str, ...]) -> Table:
        """Columns by name; after a measure with `±` stands its interval."""
        rows = [[cell for name in columns for cell in _cells(one, name)] for one in self._rows()]
        level = f"{100 * self.experiment.evaluation.level:g} %"
        heads = [head for name in columns for head in _heads(name, level)]
        return Table(tuple(heads), tuple(map(tuple, rows)))

    def _scene_table(self) -> Table:
        rows = []
        for one in self.results:
            for scene in dict.fromkeys(pair.scene for pair in one.pairs):
                pairs = [pair for pair in one.pairs if pair.scene == scene]
                means = {name: mean_defined(own) for name, own in one.values(pairs).items()}
                cells = [Cell(means[name], "fraction") for name in _OF_SCENE]
                count = Cell(len(pairs), "count")
                rows.append((Cell(one.descriptor), Cell(one.matcher), Cell(scene), count, *cells))
        return Table(("descriptor", "matcher", "scene", "pairs", *_OF_SCENE), tuple(rows))

    def table(self) -> Table:
        """A row for each contestant, category and measure, with every digit, for programs."""
        columns = (*_COUNTS[:5], "measure", "mean", "low", "high", "level", "method", "chance")
        return Table(columns, tuple(row for one in self._rows() for row in _long_rows(one)))

    def page(self) -> Page:
        """Tables with words between them, for people."""
        matches, *rest = self.tables()
        page: Page = [Words(f"pixels in image k; {self._setting_words()}"), matches]
        if self.comparison is not None:
            page += [Words(words, "verdict") for words in self.comparison.verdicts.values()]
            page += [Words(words, "remark") for words in self.comparison.remarks]
            page.append(self.comparison.pair_table())
        page += [*rest, *(Words(line, "remark") for line in self.remarks)]
        return [*page, Words(self.signature, "signature")]

    def _setting_words(self) -> str:
        sets = dict.fromkeys(one.settings["keypoints"] for one in self.results)
        return f"homographies by {self.estimator.name}; keypoints: {'; '.join(sets)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "signature": self.signature,
            "experiment": self.experiment.to_dict(),
            "estimator": {"name": self.estimator.name, "pixels": self.estimator.pixels},
            "results": [one.to_dict() for one in self._rows()],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "curves": [one.to_dict() for one in self.curves],
            "failed": len(self.failures),
            "remarks": self.remarks,
        }

    def records(self) -> list[RunRecord]:
        """A record for each contestant; scenes are resampled as a whole."""
        return [
            RunRecord(
                one.name,
                one.scores,
                task="matching",
                model=one.descriptor,
                config={"experiment": self.experiment.to_dict(), **one.settings},
                seeds={"intervals": self.experiment.evaluation.seed},
                chance={SHARE: self.summaries[one.name][0].chance[f"MMA@{HEADLINE}"]},
                ceiling={SHARE: 1.0},
                aggregates=[a for row in self.summaries[one.name] for a in row.aggregates()],
                clusters="scene",
                resampling=self._resampling,
            )
            for one in self.results
            if one.pairs
        ]


_MATCHES: Final = (
    "descriptor",
    "matcher",
    "category",
    "pairs",
    "keypoints",
    "matches",
    f"repeatability@{HEADLINE}",
    f"score@{HEADLINE}",
    "MMA@1",
    f"MMA@{HEADLINE} ±",
    "MMA@5",
    "MMA@10",
    f"chance MMA@{HEADLINE}",
)
_HOMOGRAPHIES: Final = (
    *("descriptor", "matcher", "category", "pairs", "not_estimated"),
    *("accuracy@1", f"accuracy@{HEADLINE} ±", "accuracy@5"),
    *("AUC@1", f"AUC@{HEADLINE} ±", "AUC@5", f"trapezoid AUC@{HEADLINE}"),
)
_OF_SCENE: Final = tuple(
    f"{name}@{HEADLINE}" for name in ("repeatability", "score", "MMA", "accuracy", "AUC")
)


def _heads(name: str, level: str) -> list[str]:
    bare = name.removesuffix(" ±").replace("_", " ").replace("score@", "matching score@")
    return [bare, level] if name.endswith("±") else [bare]


def _cells(one: MatchingSummary, name: str) -> list[Cell]:
    kind, _, rest = name.partition(" ")
    if kind in _COUNTS:
        value = getattr(one, kind)
        return [Cell(value) if isinstance(value, str) else Cell(value, "count")]
    if kind in ("chance", "trapezoid"):
        return [Cell((one.chance if kind == "chance" else one.trapezoids)[rest], "fraction")]
    found = one.found[kind]
    cells = [Cell(found.estimate, "fraction")]
    if rest:
        cells.append(Cell(ends_of(found), "figure"))
    return cells


def _long_rows(one: MatchingSummary) -> Iterator[tuple[Cell, ...]]:
    start = [cell for name in _COUNTS[:5] for cell in _cells(one, name)]
    for name, found in one.found.items():
        numbers = (found.estimate, found.low, found.high, found.level)
        yield (
            *start,
            Cell(name),
            *(Cell(value, "fraction") for value in numbers),
            Cell(found.method),
            Cell(one.chance.get(name), "fraction"),
        )


def match_images(
    experiment: Experiment,
    *,
    matchers: Iterable[str] = ("mutual",),
    estimator: Estimator | None = None,
    scenes: Sequence[Scene] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    per_scene: bool = False,
) -> MatchingReport:
    """Match image 1 of every scene with the others, by every descriptor and matcher.

    `matchers` are nn, mutual, ratio and mutual-ratio; the last two take a limit, as `ratio:0.9`.
    Scenes are worked on side by side, with the same numbers for any number of threads.
    """
    chosen = tuple(Matcher.of(one) for one in dict.fromkeys(matchers))
    found = load_scenes(experiment.dataset) if scenes is None else list(scenes)
    if not chosen or not found:
        raise UsageError("Matching needs at least one matcher and one scene.")
    work = _Work(experiment, found, chosen, estimator or Estimator(), thread_count(threads))
    return MatchingReport(experiment, work.evaluate(progress), work.estimator, per_scene)


class _Work:
    """All descriptors on all scenes; scenes side by side, descriptors one after the other."""

    def __init__(
        self,
        experiment: Experiment,
        scenes: Sequence[Scene],
        matchers: tuple[Matcher, ...],
        estimator: Estimator,
        threads: int,
    ) -> None:
        self.experiment, self.scenes, self.threads = experiment, scenes, threads
        self.matchers, self.estimator = matchers, estimator
        self.detections = Detections()
        self.pairs: dict[tuple[str, str], list[list[MatchedPair]]] = {}
        self.failures: dict[tuple[str, str], list[Failure]] = {}

    def evaluate(self, progress: Progress | None) -> tuple[MatchingResult, ...]:
        tasks = [partial(self._scene, scene) for scene in self.scenes]
        total = len(tasks) * len(self.experiment.descriptors)
        run(tasks, threads=self.threads, progress=progress, total=total)
        return tuple(
            self._result(one, number)
            for one in self.experiment.descriptors
            for number in range(len(self.matchers))
        )

    def _scene(self, scene: Scene, control: Control) -> None:
        for descriptor in self.experiment.descriptors:
            key = descriptor.name, scene.name
            self.pairs[key], self.failures[key] = [], []
            self._match(scene, descriptor, control)
            control.add(1)
        self.detections.forget(scene)

    def _match(self, scene: Scene, descriptor: DescriptorSettings, control: Control) -> None:
        key = descriptor.name, scene.name
        context = SceneContext(
            {scene.name: scene},
            descriptor,
            descriptor.keypoints or self.experiment.keypoints,
            self.experiment.evaluation,
            detections=self.detections,
        )
        first = None
        for k in wanted_pairs(scene, self.experiment.evaluation):
            if control.stop[0]:
                return
            try:
                first = first or context.side(scene, 1)
                self.pairs[key].append(
                    match_pair(
                        scene,
                        k,
                        (first, context.side(scene, k, first)),
                        matchers=self.matchers,
                        metric=context.metric(first),
                        estimator=self.estimator,
                    )
                )
            except BROKEN as error:
                self.failures[key].append(Failure(scene.name, f"1-{k}", str(error)))

    def _result(self, descriptor: DescriptorSettings, number: int) -> MatchingResult:
        keys = [(descriptor.name, scene.name) for scene in self.scenes]
        return MatchingResult(
            descriptor.name,
            self.matchers[number].name,
            tuple(pair[number] for key in keys for pair in self.pairs[key]),
            tuple(failure for key in keys for failure in self.failures[key]),
            {
                "matcher": self.matchers[number].name,
                "estimator": f"{self.estimator.name},{self.estimator.pixels:g}",
                "keypoints": keypoint_name(descriptor.keypoints or self.experiment.keypoints),
            },
        )
