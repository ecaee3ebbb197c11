"""Descriptors and matchers on pairs of images: means with intervals over scenes, and records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, or_none
from assay.comparison.compare import Comparison
from assay.comparison.paper import paper_page
from assay.errors import MismatchError, UsageError
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.scoring.scores import Scores, signature_of
from assay.search.engine.workers import Progress
from assay.stats import Interval, intervals
from assay.tables.table import Cell, Page, Shown, Table, Words
from assay.vision import report, run
from assay.vision.keypoints import as_id
from assay.vision.matching import (
    HEADLINE,
    PIXELS,
    Estimator,
    MatchedPair,
    Matcher,
    error_auc,
    match_pair,
)
from assay.vision.pairs import BROKEN, SceneContext, wanted_pairs
from assay.vision.ranks import PRCurve, mean_curve
from assay.vision.result import Failure, interval_aggregate, plain_scores
from assay.vision.scenes import Scene
from assay.vision.settings import SHARE, Experiment

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
        return f"{self.descriptor} {self.matcher}"

    @property
    def categories(self) -> list[str]:
        """All categories together, then each, if there are several."""
        names = sorted({pair.category for pair in self.pairs})
        return [report.ALL, *names] if len(names) > 1 else [report.ALL]

    def values(self, pairs: Sequence[MatchedPair] | None = None) -> dict[str, Floats]:
        """Return each pair's value by measure, such as `MMA@3` (pixels).

        `accuracy` is 1 where the corners are near enough on average, `AUC` max(0, 1 − error/x);
        both are means over the estimator's repeats.
        """
        selected = self.pairs if pairs is None else pairs
        by_measure = {
            f"{name}@{pixels}": np.array([getattr(pair, key)[place] for pair in selected], float)
            for name, key in _CURVES.items()
            for place, pixels in enumerate(PIXELS)
        }
        repeated = _judge_corners(selected)
        return by_measure | {name: values.mean(axis=1) for name, values in repeated.items()}

    def spreads(self, category: str = report.ALL) -> dict[str, float]:
        """Return the standard deviation of homography means over repeats."""
        judged = _judge_corners(self.of_category(category))
        means = {
            name: [report.mean_defined(repeat) for repeat in values.T]
            for name, values in judged.items()
        }
        return {
            name: float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
            for name, values in means.items()
        }

    def of_category(self, category: str) -> list[MatchedPair]:
        """Return the pairs of a category, or all."""
        return [pair for pair in self.pairs if category in (report.ALL, pair.category)]

    def trapezoids(self, category: str = report.ALL) -> dict[str, float]:
        """Return AUC over all pairs as SuperGlue's program computes it, mean over repeats."""
        errors = np.array([pair.corners for pair in self.of_category(category)], float)
        repeats = [column[~np.isnan(column)] for column in errors.T]
        return {
            f"AUC@{x}": float(np.mean([error_auc(repeat, float(x)) for repeat in repeats]))
            for x in _CORNERS
        }

    @property
    def curve(self) -> PRCurve:
        """Mean precision over recall of the pairs that have a true match."""
        defined = [pair for pair in self.pairs if not np.isnan(pair.precision).any()]
        chance = [pair.chance[PIXELS.index(HEADLINE)] for pair in defined]
        precision = mean_curve(pair.precision for pair in defined)
        mean = float(np.mean(chance)) if chance else math.nan
        return PRCurve("image matching", self.descriptor, self.matcher, precision, mean)

    @cached_property
    def scores(self) -> Scores:
        """MMA at the headline's tolerance for each pair, as the precision of its matches."""
        by_id = {as_id(f"{pair.scene}/{pair.pair}"): pair for pair in self.pairs}
        place = PIXELS.index(HEADLINE)
        values = {key: pair.accuracy[place] for key, pair in by_id.items()}
        return (
            plain_scores(SHARE, values)
            .with_groups(
                scene={key: pair.scene for key, pair in by_id.items()},
                category={key: pair.category for key, pair in by_id.items()},
            )
            .but_settings(**self.settings, pixels=HEADLINE)
        )


def _judge_corners(pairs: Sequence[MatchedPair]) -> dict[str, Floats]:
    """Return accuracy and AUC of homographies, pairs × repeats; NaN without a true place."""
    corners = np.array([pair.corners for pair in pairs], float)
    judged = {}
    for x in _CORNERS:
        judged[f"accuracy@{x}"] = np.where(np.isnan(corners), np.nan, corners <= x)
        judged[f"AUC@{x}"] = np.maximum(0.0, 1.0 - corners / x)
    return judged


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
    intervals: dict[str, Interval]
    trapezoids: dict[str, float]
    spreads: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        data = {name: getattr(self, name) for name in _COUNTS}
        data["measures"] = {
            name: {**report.interval_data(mean), "chance": self.chance.get(name)}
            for name, mean in self.intervals.items()
        }
        for key, numbers in (("auc_trapezoid", self.trapezoids), ("seed_sd", self.spreads)):
            data[key] = {name: or_none(value) for name, value in numbers.items()}
        return data

    def aggregates(self) -> Iterator[Aggregate]:
        """Yield the numbers of a stored run."""
        subset = "" if self.category == report.ALL else self.category
        for name, mean in self.intervals.items():
            about = {"average": "pairs", "subset": subset, "chance": self.chance.get(name)}
            yield interval_aggregate(name, mean, **about)
        for name, value in self.trapezoids.items():
            yield Aggregate(name, value, average="trapezoid", subset=subset, n=self.pairs)


_COUNTS: Final = (
    *("descriptor", "matcher", "category", "scenes"),
    *("pairs", "keypoints", "matches", "not_estimated"),
)


def _summary(result: MatchingResult, category: str, settings: dict[str, Any]) -> MatchingSummary:
    pairs = result.of_category(category)
    values = result.values(pairs)
    scenes = [pair.scene for pair in pairs]
    means = intervals(
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
        sum(bool(np.isinf(pair.corners).any()) for pair in pairs),
        {f"MMA@{pixels}": share for pixels, share in zip(PIXELS, chance, strict=True)},
        dict(zip(values, means, strict=True)),
        result.trapezoids(category),
        result.spreads(category),
    )


@dataclass(frozen=True, eq=False, repr=False)
class MatchingReport(Shown):
    """Every descriptor with every matcher, as tables, a page, plain data and records."""

    experiment: Experiment
    results: tuple[MatchingResult, ...]
    estimator: Estimator
    per_scene: bool = False

    @property
    def failures(self) -> list[tuple[str, Failure]]:
        """Pairs that could not be matched, once for each descriptor."""
        every = {result.descriptor: result.failures for result in self.results}
        return [(name, failure) for name, failures in every.items() for failure in failures]

    @property
    def _resampling(self) -> dict[str, Any]:
        return self.experiment.evaluation.resampling

    @property
    def signature(self) -> str:
        """The conventions and the settings of all contestants, listed where they differ."""
        return signature_of([result.scores for result in self.results], self._resampling)

    @cached_property
    def summaries(self) -> dict[str, list[MatchingSummary]]:
        """By the name of the contestant: all pairs, then those of each category."""
        return {
            result.name: [_summary(result, name, self._resampling) for name in result.categories]
            for result in self.results
            if result.pairs
        }

    @cached_property
    def comparison(self) -> Comparison | None:
        """Comparison of contestants on MMA by scenes; None where pairs differ."""
        if len(self.results) < 2 or len(self.summaries) < len(self.results):
            return None
        try:
            return report.compare_named(
                f"MMA@{HEADLINE}",
                SHARE,
                [result.scores for result in self.results],
                [result.name for result in self.results],
                by="scene",
                **self.experiment.evaluation.comparing,
            )
        except MismatchError:  # a pair of one of them failed, and that is said
            return None

    @property
    def remarks(self) -> list[str]:
        """Return the warnings."""
        return [
            f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}"
            for name, failure in self.failures
        ]

    @property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of each contestant that matched a pair."""
        return [result.curve for result in self.results if result.pairs]

    def _rows(self) -> list[MatchingSummary]:
        return [row for summaries in self.summaries.values() for row in summaries]

    def tables(self) -> list[Table]:
        """Return tables of matches, homographies and, if wanted, scenes."""
        tables = [self._table(_HOMOGRAPHIES), self._table(_MATCHES)]
        return [*tables, self._scene_table()] if self.per_scene else tables

    def _table(self, columns: tuple[str, ...]) -> Table:
        """Build a table of columns; `±` adds a measure's interval."""
        heads = []
        for name in columns:
            bare = name.removesuffix(" ±").replace("_", " ").replace("AUC", "step AUC")
            bare = bare.replace("field step ", "")  # as SuperGlue and those after it have it
            heads.append(bare.replace("score@", "matching score@"))
            if name.endswith("±"):
                heads.append(Interval.heading(self.experiment.evaluation.level))
        rows = [
            tuple(cell for name in columns for cell in _cells(summary, name))
            for summary in self._rows()
        ]
        return Table(tuple(heads), tuple(rows))

    def _scene_table(self) -> Table:
        rows = []
        for result in self.results:
            for scene in dict.fromkeys(pair.scene for pair in result.pairs):
                pairs = [pair for pair in result.pairs if pair.scene == scene]
                values = result.values(pairs)
                means = report.fractions(report.mean_defined(values[name]) for name in _OF_SCENE)
                names = map(Cell, (result.descriptor, result.matcher, scene))
                rows.append((*names, Cell(len(pairs), "count"), *means))
        return Table(("descriptor", "matcher", "scene", "pairs", *_OF_SCENE), tuple(rows))

    def table(self) -> Table:
        """Return every digit by contestant, category and measure, for programs."""
        columns = (*_COUNTS[:5], "measure", "mean", "low", "high", "level", "method", "chance")
        return Table(columns, tuple(row for summary in self._rows() for row in _long_rows(summary)))

    def page(self) -> Page:
        """Return tables, verdicts and remarks as a page."""
        return self._lay_out(self.tables())

    def screen(self) -> Page:
        """Return the field's AUC and MMA alone, to fit on a screen."""
        scenes = [self._scene_table()] if self.per_scene else []
        return self._lay_out([self._table(_HOMOGRAPHIES[:7]), self._table(_BRIEF), *scenes])

    def _lay_out(self, tables: list[Table]) -> Page:
        sets = "; ".join(dict.fromkeys(result.settings["keypoints"] for result in self.results))
        how = f"homographies by {self.estimator.name}, {self.estimator.repeats} repeats"
        about = Words(f"Errors in pixels of image k; {how}; keypoints: {sets}.", "method")
        compared = filter(None, [self.comparison])
        return report.lay_out([*tables], compared, [about], self.remarks, self.signature)

    def paper(self) -> Page:
        """Return one table for a paper: descriptors with matchers × AUC and MMA."""
        headline = f"MMA@{HEADLINE}"
        whole = {name: rows[0] for name, rows in self.summaries.items()}
        columns = {
            f"AUC@{x}": {name: row.trapezoids[f"AUC@{x}"] for name, row in whole.items()}
            for x in _CORNERS
        }
        columns[headline] = {name: row.intervals[headline].estimate for name, row in whole.items()}
        caption = f"Image matching, {max(row.pairs for row in whole.values())} pairs of images."
        table = report.paper_of(
            *(self.comparison, columns),
            caption=caption,
            label="tab:matching",
            system="Descriptor, matcher",
        )
        return paper_page(table, self.page())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "signature": self.signature,
            "experiment": self.experiment.to_dict(),
            "estimator": asdict(self.estimator),
            "results": [item.to_dict() for item in self._rows()],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "curves": [item.to_dict() for item in self.curves],
            "failed": len(self.failures),
            "remarks": self.remarks,
        }

    def records(self) -> list[RunRecord]:
        """Return a record for each contestant.

        Scenes are resampled as a whole.
        """
        return [
            RunRecord(
                result.name,
                result.scores,
                task="matching",
                model=result.descriptor,
                config={"experiment": self.experiment.to_dict(), **result.settings},
                seeds={"intervals": self.experiment.evaluation.seed},
                chance={SHARE: self.summaries[result.name][0].chance[f"MMA@{HEADLINE}"]},
                ceiling={SHARE: 1.0},
                aggregates=[a for row in self.summaries[result.name] for a in row.aggregates()],
                clusters="scene",
                resampling=self._resampling,
            )
            for result in self.results
            if result.pairs
        ]


_MATCHES: Final = (
    *("descriptor", "matcher", "category", "pairs", "keypoints", "matches"),
    *(f"repeatability@{HEADLINE}", f"score@{HEADLINE}", "MMA@1", f"MMA@{HEADLINE} ±"),
    *("MMA@5", "MMA@10", f"chance MMA@{HEADLINE}"),
)
_BRIEF: Final = (
    *("descriptor", "matcher", "category"),
    f"MMA@{HEADLINE} ±",
    f"chance MMA@{HEADLINE}",
)
_HOMOGRAPHIES: Final = (
    *("descriptor", "matcher", "category", "pairs"),
    *(f"field AUC@{x}" for x in _CORNERS),
    *("not_estimated", "accuracy@1", f"accuracy@{HEADLINE} ±", f"SD accuracy@{HEADLINE}"),
    *("accuracy@5", "AUC@1", f"AUC@{HEADLINE} ±", f"SD AUC@{HEADLINE}", "AUC@5"),
)
_OF_SCENE: Final = tuple(
    f"{name}@{HEADLINE}" for name in ("repeatability", "score", "MMA", "accuracy", "AUC")
)


def _cells(summary: MatchingSummary, name: str) -> list[Cell]:
    kind, _, rest = name.partition(" ")
    if kind in _COUNTS:
        value = getattr(summary, kind)
        return [Cell(value) if isinstance(value, str) else Cell(value, "count")]
    special = {"chance": summary.chance, "field": summary.trapezoids, "SD": summary.spreads}
    if kind in special:
        return report.fractions([special[kind][rest]])
    mean = summary.intervals[kind]
    return [Cell(mean.estimate, "fraction"), *([mean.cell()] if rest else [])]


def _long_rows(summary: MatchingSummary) -> Iterator[tuple[Cell, ...]]:
    start = [cell for name in _COUNTS[:5] for cell in _cells(summary, name)]
    for name, mean in summary.intervals.items():
        numbers = report.fractions((mean.estimate, mean.low, mean.high, mean.level))
        chance = Cell(summary.chance.get(name), "fraction")
        yield (*start, Cell(name), *numbers, Cell(mean.method), chance)


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
    """Match image 1 of every scene with the others.

    Args:
        experiment: Scenes, keypoints and descriptors.
        matchers: nn, mutual, ratio or mutual-ratio; the last two take a limit, as `ratio:0.9`.
        estimator: How homographies are estimated.
        scenes: Scenes to use instead of the experiment's.
        threads: Scenes to evaluate side by side; numbers do not depend on it.
        progress: Called with (scenes done, scenes in all).
        per_scene: Whether the report has a row for each scene.

    Returns:
        Every descriptor with every matcher.

    Raises:
        UsageError: If a matcher is unknown, or there are none, or no scenes.

    Example:
        report = match_images(read_experiment("experiment.yaml"), matchers=["ratio:0.9"])
        report.results[0].trapezoids()
    """
    parsed = tuple(Matcher.of(name) for name in dict.fromkeys(matchers))
    loaded = run.load_scenes(experiment.dataset) if scenes is None else list(scenes)
    if not parsed or not loaded:
        raise UsageError("Matching needs a matcher and a scene. Add them.")
    how = estimator or Estimator()
    evaluate = partial(_match_scene, matchers=parsed, estimator=how)
    parts = run.evaluate_scenes(experiment, loaded, evaluate, threads=threads, progress=progress)
    results = tuple(
        MatchingResult(
            context.descriptor.name,
            matcher.name,
            tuple(pair[number] for pairs, _ in scene_parts for pair in pairs),
            tuple(failure for _, failures in scene_parts for failure in failures),
            {
                "matcher": matcher.name,
                "estimator": f"{how.name},{how.pixels:g},{how.repeats}",
                "keypoints": run.keypoint_name(context.keypoints) + run.size_of(loaded),
            },
        )
        for context, scene_parts in parts
        for number, matcher in enumerate(parsed)
    )
    return MatchingReport(experiment, results, how, per_scene)


def _match_scene(
    scene: Scene, context: SceneContext, matchers: tuple[Matcher, ...], estimator: Estimator
) -> tuple[list[list[MatchedPair]], list[Failure]]:
    """Match image 1 with the others by each matcher; list pairs that fail."""
    pairs: list[list[MatchedPair]] = []
    failures: list[Failure] = []
    first = None
    for k in wanted_pairs(scene, context.evaluation):
        if context.control.stop[0]:
            raise KeyboardInterrupt  # as in the thread that was interrupted
        try:
            first = first or context.side(scene, 1)
            sides = first, context.side(scene, k, first)
            metric = context.metric(first)
            pairs.append(
                match_pair(scene, k, sides, matchers=matchers, metric=metric, estimator=estimator)
            )
        except BROKEN as error:
            failures.append(Failure(scene.name, f"1-{k}", str(error)))
    return pairs, failures
