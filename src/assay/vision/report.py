"""Reports of descriptors: summaries by category, comparisons, tables, and data for JSON."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison, compare
from assay.comparison.paper import paper_page, paper_table
from assay.comparison.verdict import verdict_words
from assay.core import checks
from assay.core.text import Remark, remark_about
from assay.errors import MismatchError, UsageError
from assay.measures import parse_many
from assay.runs.record import RunRecord
from assay.scoring.output import tied_remark
from assay.scoring.scores import Scores, signature_of
from assay.stats import Interval, interval
from assay.tables.table import Cell, Page, Shown, Table, Words, table_of
from assay.vision.compat import row_with_metadata
from assay.vision.keypoints import as_id
from assay.vision.ranks import PRCurve
from assay.vision.result import DescriptorCost, DescriptorResult, image_intervals, plain_scores
from assay.vision.run import ExperimentResult
from assay.vision.verification import RULES, PooledResult, label_rule

ALL: Final = "all"
_HEADLINE: Final = ("Success@1", "Success@10")
_LAST: Final = "metadata"
_ABOUT: Final = ("descriptor", "category", "scenes", "queries", "excluded", "failed")
_MOST_NOTES: Final = 3


def fractions(values: Iterable[float | None]) -> list[Cell]:
    """Return a cell for each number from 0 to 1."""
    return [Cell(value, "fraction") for value in values]


def counts(values: Iterable[float | None]) -> list[Cell]:
    """Return a cell for each count."""
    return [Cell(value, "count") for value in values]


def leaders_of(comparison: Comparison | None) -> frozenset[str]:
    """Return the descriptors that may be the best; none where nothing was compared."""
    standings = () if comparison is None else comparison.standings
    return frozenset(standing.name for standing in standings if standing.leads)


def category_table(
    summaries: Sequence[CategorySummary], leaders: Container[str] = frozenset()
) -> Table:
    """Tabulate both means with intervals by descriptor and category.

    `leaders` may be the best over all categories; single categories were not tested.
    """
    level = Interval.heading(summaries[0].micro.level)
    means = ("mAP (micro)", level, "mAP (macro)", level)
    rows = []
    for summary in summaries:
        micro, macro = summary.micro, summary.macro
        same = [other.micro.estimate for other in summaries if other.category == summary.category]
        defined = [value for value in same if not math.isnan(value)]
        best = len(defined) > 1 and micro.estimate == max(defined)
        best = best or (summary.category == ALL and summary.descriptor in leaders)
        both = Cell(micro.estimate, "fraction", best), micro.cell(), macro.estimate, macro.cell()
        further = (*map(summary.means.get, _HEADLINE), summary.chance)
        rows.append((*_about(summary), *both, *further))
    return table_of((*_ABOUT, *means, *_HEADLINE, "chance mAP"), rows)


def paper_of(
    comparison: Comparison | None,
    columns: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    label: str,
    system: str = "Descriptor",
) -> Table:
    """Return systems × columns for a paper, the measure that was compared last.

    Args:
        comparison: The comparison; None where there is nothing to compare.
        columns: Values by heading and system; the last one is what is compared.
        caption: The caption.
        label: The label, for `\\ref`.
        system: The heading of the systems.
    """
    if comparison is not None:
        others = dict(list(columns.items())[:-1])
        return paper_table(comparison, caption=caption, label=label, system=system, columns=others)
    names = next(iter(columns.values()))
    rows = [(name, *(values.get(name) for values in columns.values())) for name in names]
    table = table_of((system, *columns), rows)
    return replace(table, caption=caption, label=label, notes=("No differences were tested.",))


def _about(summary: CategorySummary) -> list[Cell]:
    sizes = counts(getattr(summary, name) for name in _ABOUT[2:])
    return [Cell(summary.descriptor), Cell(summary.category), *sizes]


def interval_data(mean: Interval) -> dict[str, Any]:
    """Return a mean with its interval as plain data.

    Undefined numbers are None.
    """
    about = {"level": mean.level, "method": mean.method, "note": mean.note}
    return {**mean.to_dict("mean"), **about}


def category_data(summaries: Sequence[CategorySummary]) -> Table:
    """Tabulate every digit, ends of intervals in own columns."""
    names = list(summaries[0].means)
    micro = ("true_map_micro", "micro_low", "micro_high")
    macro = ("true_map_macro_by_scene", "macro_low", "macro_high")
    rows = []
    for summary in summaries:
        means = [(mean.estimate, mean.low, mean.high) for mean in (summary.micro, summary.macro)]
        bounds = (summary.chance, summary.ceiling)
        numbers = (*means[0], *means[1], *(summary.means[name] for name in names), *bounds)
        rows.append((*_about(summary), *fractions(numbers)))
    return Table((*_ABOUT, *micro, *macro, *names, "chance", "ceiling"), tuple(rows))


def task_table(
    results: Sequence[DescriptorResult], rule: str, resampling: Mapping[str, Any]
) -> Table | None:
    """Tabulate verification, retrieval and image tasks; None without any."""
    rows: list[tuple[Any, ...]] = []

    def add(name: str, task: str, mean: Interval, labels: Sequence[int | None]) -> None:
        value = mean.estimate, mean.cell()
        rows.append((name, task, *value, *counts(labels)))

    for result in results:
        for task, pooled in result.tasks.items():
            labelled = label_rule(rule)
            for kind in _kinds(task):
                right, wrong = pooled.author_counts()
                authors = kind == "authors"
                name = f"keypoint {task}" + (" (authors)" if authors else f", {kind} ({labelled})")
                labels = (right, None, wrong) if authors else tuple(pooled.counts().values())
                add(result.name, name, pooled.interval(kind, labelled, **resampling), labels)
        for task, mean in image_intervals(result, resampling).items():
            add(result.name, task.replace("_", " "), mean, (None, None, None))
    level = Interval.heading(resampling.get("level", 0.95))
    columns = ("descriptor", "task", "AP", level, "+1", "0", "-1")
    return table_of(columns, rows) if rows else None


def _kinds(task: str) -> tuple[str, ...]:
    return ("pooled", "per query", "authors") if task == "retrieval" else ("pooled", "authors")


def scene_table(results: Sequence[DescriptorResult]) -> Table:
    """Tabulate descriptors × scenes, with all counts."""
    words = ("scene", "category")
    seen = ("pairs", "queries", "with_truth", "excluded", "outside")
    sizes = (*seen, "failed", "failed_pairs", "pool")
    means = ("AP", "AP_including_zeros", "Success@1", "Success@5", "Success@10")
    rows = [
        (result.name, *map(row.get, words), *counts(map(row.get, sizes)), *map(row.get, means))
        for result in results
        for row in result.scene_rows()
    ]
    return table_of(("descriptor", *words, *sizes, *means), rows)


def rank_table(results: Sequence[DescriptorResult]) -> Table:
    """Tabulate true matches by rank, a column for each descriptor."""
    bins = zip(*(result.rank_histogram() for result in results), strict=True)
    rows = [(Cell(row[0].label), *counts(rank_bin.queries for rank_bin in row)) for row in bins]
    rows.append((Cell("failed"), *counts(result.n_failed for result in results)))
    return Table(("rank", *(result.name for result in results)), tuple(rows))


def timing_table(costs: Sequence[tuple[str, Mapping[str, float], DescriptorCost]]) -> Table:
    """Tabulate seconds of each stage, then bytes and time each."""
    stages = list(dict.fromkeys(stage for _, timings, _ in costs for stage in timings))

    def rounded(value: float | None, digits: int) -> Cell:
        return Cell(None if value is None else f"{value:.{digits}f}", "figure")

    rows = []
    for name, timings, cost in costs:
        seconds = (rounded(timings.get(stage), 2) for stage in stages)
        sizes = Cell(cost.row_bytes or None, "count"), rounded(cost.microseconds, 1)
        rows.append((name, *seconds, *sizes))
    return table_of(("seconds", *stages, "bytes each", "µs each"), rows)


def wide_table(results: Sequence[DescriptorResult], rule: str) -> Table:
    """Tabulate the workbench's wide rows, metadata last."""
    rows = [row_with_metadata(result, rule=rule) for result in results]
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key != _LAST]
    cells = [tuple(_cell(row.get(column)) for column in (*columns, _LAST)) for row in rows]
    return Table((*columns, _LAST), tuple(cells))


def _cell(value: Any) -> Cell:
    if isinstance(value, int):
        return Cell(value, "count")
    return Cell(value, "fraction" if isinstance(value, float) else "text")


def result_data(
    result: DescriptorResult,
    summaries: Sequence[CategorySummary],
    *,
    rule: str,
    resampling: Mapping[str, Any],
) -> dict[str, Any]:
    """Return everything about one descriptor; undefined numbers are None."""
    row = row_with_metadata(result, rule=rule)
    metadata = row.pop(_LAST)
    return {
        "descriptor": result.name,
        "tau": result.tau,
        "keypoints": result.keypoints,
        "metric": result.metric,
        "query_set": result.query_set,
        "signature": result.scores.signature,
        "wide": _plain_numbers(row),
        "metadata": metadata,
        "categories": [item.to_dict() for item in summaries if item.descriptor == result.name],
        "scenes": [_plain_numbers(row) for row in result.scene_rows()],
        "ranks": [asdict(item) for item in result.rank_histogram()],
        "chance": _plain_numbers(result.chance()),
        "ceiling": _plain_numbers(result.ceiling()),
        "tasks": {
            task: _task_data(result, pooled, rule, resampling)
            for task, pooled in result.tasks.items()
        },
        "image_tasks": {
            name: interval_data(item) for name, item in image_intervals(result, resampling).items()
        },
        "bytes_per_descriptor": result.cost.row_bytes or None,
        "timings": dict(result.timings),
        "failures": [asdict(item) for item in result.failures],
    }


def _plain_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Replace undefined numbers by None."""
    return {
        key: or_none(value) if isinstance(value, float) else value for key, value in row.items()
    }


def _task_data(
    result: DescriptorResult, pooled: PooledResult, rule: str, resampling: Mapping[str, Any]
) -> dict[str, Any]:
    parts = {ALL: None, **{name: name for name in result.category_names}}
    return {
        "pooled": {
            rule: _plain_numbers(
                {name: pooled.mean(rule, category=part) for name, part in parts.items()}
            )
            for rule in RULES
        },
        "per_query": _plain_numbers({rule: pooled.query_mean(rule) for rule in RULES}),
        "authors": _plain_numbers({name: pooled.author_mean(part) for name, part in parts.items()}),
        "intervals": {
            kind: {
                name: interval_data(
                    pooled.interval(kind, label_rule(rule), category=part, **resampling)
                )
                for name, part in parts.items()
            }
            for kind in _kinds(pooled.scenes[0].task)
        },
        "labels": pooled.counts(),
        "distractors": {
            scene.scene: {
                "scenes": list(dict.fromkeys(key.split("/")[0] for key in scene.distractors)),
                "seed": scene.seed,
                "keypoints": list(scene.distractors),
            }
            for scene in pooled.scenes
        },
    }


@dataclass(frozen=True)
class CategorySummary:
    """One descriptor on the scenes of a category, or on all of them.

    `micro` is the mean over keypoints, `macro` the mean over scenes; intervals resample scenes.
    `chance` and `ceiling` are those of the mean over keypoints.
    """

    descriptor: str
    category: str
    scenes: int
    queries: int
    excluded: int
    failed: int
    micro: Interval
    macro: Interval
    means: dict[str, float]
    chance: float
    ceiling: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        intervals = {name: interval_data(getattr(self, name)) for name in ("micro", "macro")}
        return {**_plain_numbers(asdict(self)), **intervals, "means": _plain_numbers(self.means)}


def summarize(
    result: DescriptorResult, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> list[CategorySummary]:
    """Summarise all scenes, then each category.

    Args:
        result: The result of a descriptor.
        level: Level of the intervals.
        resamples: Number of resamples of scenes.
        seed: Seed of the resamples.

    Returns:
        One summary of all scenes, and one of each category if there are several.

    Example:
        whole, *categories = summarize(result.headline[0])
        whole.micro.text()
    """
    settings = {"level": level, "resamples": resamples, "seed": seed}
    several = len(set(result.categories.values())) != 1
    names = [ALL, *(result.category_names if several else ())]
    return [_summary(result, name, settings) for name in names]


def _summary(result: DescriptorResult, category: str, settings: dict[str, Any]) -> CategorySummary:
    scores = result.scores
    every = category == ALL
    rows = slice(None) if every else scores.groups["category"] == category
    scenes = [
        s for s, scene_category in result.categories.items() if every or scene_category == category
    ]
    values, clusters = scores["AP"][rows], scores.groups["scene"][rows]
    means = np.array([result.scene_means()[scene] for scene in scenes])
    pairs = [pair for pair in result.pairs if every or pair.category == category]
    return CategorySummary(
        result.name,
        category,
        len(scenes),
        queries=sum(pair.n_queries for pair in pairs),
        excluded=sum(pair.n_excluded for pair in pairs),
        failed=sum(pair.n_failed for pair in pairs),
        micro=interval(values, clusters=clusters, bounds=(0.0, 1.0), **settings),
        macro=interval(means, bounds=(0.0, 1.0), **settings),
        means={str(measure): mean_defined(scores[measure][rows]) for measure in result.measures},
        chance=result.chance(None if every else category)["AP"],
        ceiling=result.ceiling(None if every else category)["AP"],
    )


def mean_defined(values: Any) -> float:
    """Return the mean of all values but NaN; NaN without any."""
    defined = values[~np.isnan(values)]
    return math.fsum(defined.tolist()) / len(defined) if len(defined) else math.nan


def compare_descriptors(
    results: Sequence[DescriptorResult],
    *,
    measures: Any = "AP",
    force: bool = False,
    **settings: Any,
) -> Comparison:
    """Compare descriptors on the same keypoints; whole scenes are resampled.

    Args:
        results: Two results or more.
        measures: One or several measures.
        force: Compare means of scenes where keypoints or truths differ.
        **settings: Of `compare`: baseline, test, correction, level, resamples, seed, margin.

    Returns:
        The comparison.

    Raises:
        UsageError: If there are fewer than two results.
        MismatchError: If queries differ in number and difficulty, without `force`.

    Example:
        comparison = compare_descriptors(result.headline, measures=["AP", "Success@1"])
    """
    if len(results) < 2:
        raise UsageError("A comparison needs two results. Add one.")
    for result in results:
        checks.require(result, DescriptorResult, "every result", "a DescriptorResult")
    names = [result.name for result in results]
    if len({result.query_set for result in results}) == 1:
        return compare(
            *(result.scores for result in results),
            names=names,
            measures=measures,
            by="scene",
            **settings,
        )
    if not force:
        raise MismatchError(_why_not(results))
    scenes = (_scene_scores(result, measures) for result in results)
    return compare(*scenes, names=names, measures=measures, **settings)


def comparison_words(comparison: Comparison) -> Page:
    """Return verdicts, remarks and pairs of a comparison, for people."""
    remarks = [Words(words, "remark") for words in comparison.remarks]
    return [*verdict_words(comparison.verdicts.values()), *remarks, comparison.pair_table()]


def lay_out(
    head: Page, comparisons: Iterable[Comparison], rest: Page, remarks: Sequence[str], sign: str
) -> Page:
    """Put a page together: verdicts, tables, pairs, further tables, remarks, signature."""
    parts = [part for comparison in comparisons for part in comparison_words(comparison)]
    first = [part for part in parts if getattr(part, "role", "") in ("verdict", "numbers")]
    below = [part for part in parts if part not in first]
    notes = (Words(line, "remark") for line in remarks)
    return [*first, *head, *below, *rest, *notes, Words(sign, "signature")]


def compare_named(
    name: str, measure: str, scores: Sequence[Scores], names: Sequence[str], **settings: Any
) -> Comparison:
    """Compare scores on a measure that the field knows by another `name`, such as MMA@3."""
    comparison = compare(*scores, names=names, measures=measure, **settings)
    return comparison.called({measure: name})


def _why_not(results: Sequence[DescriptorResult]) -> str:
    """Explain the difference, with sizes and chance."""
    lines = []
    for result in results[:5]:
        pool = float(np.mean([pair.n_docs for pair in result.pairs])) if result.pairs else 0.0
        lines.append(
            f"{result.name!r} has {result.n_queries - result.n_excluded} keypoints with a true "
            f"match among {pool:.0f} on average (chance AP {result.chance()['AP']:.4f}"
            + (f", keypoints {result.keypoints!r})" if result.keypoints else ")")
        )
    return (
        f"The results have different queries: {'; '.join(lines)}. Use one locked set of "
        "keypoints, or force the comparison of scene means."
    )


def _scene_scores(result: DescriptorResult, measures: Any) -> Scores:
    """Return scores whose queries are the scenes."""
    parsed = parse_many(measures)
    means = [result.scene_means(str(measure)) for measure in parsed]
    values = {as_id(scene): [mean[scene] for mean in means] for scene in result.scene_names}
    return plain_scores(parsed, values, result.conventions, settings=result.scores.settings)


@dataclass(frozen=True, eq=False, repr=False)
class ExperimentReport(Shown):
    """An experiment's result as tables, a page and plain data.

    With `force` descriptors on different keypoints are compared by the means of their scenes;
    `per_scene`, `ranks` and `timings` add tables.
    """

    found: ExperimentResult
    force: bool = False
    per_scene: bool = False
    ranks: bool = False
    timings: bool = False

    @property
    def rule(self) -> str:
        """Rule of verification and retrieval in the wide row."""
        return self.found.experiment.evaluation.rule

    @property
    def signature(self) -> str:
        """The conventions and the settings of all descriptors, listed where they differ."""
        how = self.found.experiment.evaluation
        tasks = {name: getattr(how, name) for name in ("verification", "retrieval")}
        drawn = {
            name: f"{settings.scenes},{settings.keypoints},{settings.seed}"
            for name, settings in tasks.items()
            if settings
        }
        if how.image_retrieval is not None:
            settings = how.image_retrieval
            drawn["image_retrieval"] = f"{settings.keypoints},{settings.ratio:g},{settings.seed}"
        stated = {name: getattr(how, name) for name in ("rule", "level", "resamples", "seed")}
        return signature_of([result.scores for result in self.found.headline], {**stated, **drawn})

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Descriptors × categories, for the first tolerance."""
        return self.summaries_at(self.found.experiment.evaluation.tau[0])

    def summaries_at(self, tau: float) -> list[CategorySummary]:
        """Return descriptors × categories for one tolerance."""
        how = self.found.experiment.evaluation.resampling
        return [row for result in self.found.at(tau) for row in summarize(result, **how)]

    @cached_property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of image matching and of verification, for the first tolerance."""
        return [curve for result in self.found.headline for curve in result.curves]

    @cached_property
    def comparison(self) -> Comparison | None:
        """Comparison of descriptors on AP; None if impossible."""
        if len(self.found.headline) < 2:
            return None
        how = self.found.experiment.evaluation.comparing
        try:
            return compare_descriptors(self.found.headline, force=self.force, **how)
        except MismatchError:
            return None

    @cached_property
    def remarks(self) -> list[str]:
        """Return the warnings."""
        experiment = self.found
        scenes = f"{experiment.n_computed} scenes evaluated, {experiment.n_reused} reused"
        lines: list[str] = [Remark(scenes, n=0), *experiment.notes[:_MOST_NOTES]]
        if len(experiment.notes) > _MOST_NOTES:
            lines.append(f"… and {len(experiment.notes) - _MOST_NOTES} more such notes")
        lines += [
            f"{result.name}: {result.n_failed} of {result.n_queries - result.n_excluded} "
            "queries failed (keypoint or true match not described, counted as 0)"
            for result in experiment.headline
            if result.n_failed
        ]
        for name, failure in experiment.failures:
            lines.append(f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}")
        if self.comparison is None and len(experiment.headline) > 1:
            lines.append(f"not compared: {_why_not(experiment.headline)} (--force)")
        if self.force and len({result.query_set for result in experiment.headline}) > 1:
            lines.append("comparison forced on different keypoints: scene means only")
        tied = (
            (result.name, tied_remark(result.scores, "keypoints")) for result in experiment.headline
        )
        return lines + [remark_about(name, remark) for name, remark in tied if remark]

    def tables(self) -> list[Table]:
        """Return the summary, the tasks and the tables asked for."""
        parts = [category_table(self.summaries, leaders_of(self.comparison))]
        headline = self.found.headline
        how = self.found.experiment.evaluation.resampling
        tasks = task_table(headline, self.rule, how)
        parts += [tasks] if tasks is not None else []
        parts += [scene_table(headline)] if self.per_scene else []
        parts += [rank_table(headline)] if self.ranks else []
        costs = [(result.name, result.timings, result.cost) for result in headline]
        return [*parts, timing_table(costs)] if self.timings else parts

    def table(self) -> Table:
        """Return descriptors × categories with every digit, for programs."""
        return category_data(self.summaries)

    def records(self) -> list[RunRecord]:
        """Return a record for each descriptor and tolerance."""
        return self.found.records(rule=self.rule)

    def page(self) -> Page:
        """Return tables, verdicts and remarks as a page."""
        how = self.found.experiment.evaluation
        keypoints = "; ".join(dict.fromkeys(result.keypoints for result in self.found.headline))
        first, *tables = self.tables()
        head: Page = [Words(f"τ = {how.tau[0]:g} px; keypoints: {keypoints}"), first]
        rest: Page = list(tables)
        for tau in how.tau[1:]:
            rest += [Words(f"τ = {tau:g} px"), category_table(self.summaries_at(tau))]
        return lay_out(head, filter(None, [self.comparison]), rest, self.remarks, self.signature)

    def paper(self) -> Page:
        """Return one table for a paper: descriptors × mAP of categories and of all scenes."""
        columns: dict[str, dict[str, float]] = {}
        for row in sorted(self.summaries, key=lambda row: row.category == ALL):
            heading = "mAP" if row.category == ALL else f"mAP, {row.category}"
            columns.setdefault(heading, {})[row.descriptor] = row.micro.estimate
        scenes = len(self.found.headline[0].scene_names)
        caption = f"Image descriptors on {scenes} scenes, means over keypoints."
        table = paper_of(self.comparison, columns, caption=caption, label="tab:descriptors")
        return paper_page(table, self.page(), self.tables()[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        experiment = self.found
        return {
            "signature": self.signature,
            "experiment": experiment.experiment.to_dict(),
            "results": [
                result_data(
                    item,
                    self.summaries_at(item.tau),
                    rule=self.rule,
                    resampling=experiment.experiment.evaluation.resampling,
                )
                for item in experiment.results
            ],
            "curves": [item.to_dict() for item in self.curves],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "computed": experiment.n_computed,
            "reused": experiment.n_reused,
            "failed": experiment.n_failed,
            "remarks": self.remarks,
        }
