"""Descriptors side by side: summaries by category, comparisons, tables, and data for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import or_none
from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import MismatchError, UsageError
from assay.measures import parse_many
from assay.scoring.scores import Scores
from assay.stats import Interval, interval
from assay.tables.table import Cell, Page, Table, Words
from assay.vision.compat import row_with_metadata
from assay.vision.keypoints import as_id
from assay.vision.result import DescriptorResult, image_intervals
from assay.vision.verification import RULES, TASKS, PooledResult

if TYPE_CHECKING:
    from assay.vision.result import DescriptorCost, DescriptorResult


_HEADLINE: Final = ("Success@1", "Success@10")
_LAST: Final = "metadata"
_ABOUT: Final = ("descriptor", "category", "scenes", "queries", "excluded", "failed")


def category_table(summaries: Sequence[CategorySummary]) -> Table:
    """Tabulate both means with intervals by descriptor and category."""
    level = f"{100 * summaries[0].micro.level:g} %"
    means = ("mAP (micro)", level, "mAP (macro)", level)
    columns = (*_ABOUT, *means, *_HEADLINE, "chance mAP")
    best = {summary.category: _best(summaries, summary.category) for summary in summaries}
    rows = [
        (
            *_about(summary),
            Cell(
                summary.micro.estimate, "fraction", summary.micro.estimate == best[summary.category]
            ),
            Cell(ends_of(summary.micro), "figure"),
            Cell(summary.macro.estimate, "fraction"),
            Cell(ends_of(summary.macro), "figure"),
            *(Cell(summary.means.get(name), "fraction") for name in _HEADLINE),
            Cell(summary.chance, "fraction"),
        )
        for summary in summaries
    ]
    return Table(columns, tuple(rows))


def _about(summary: CategorySummary) -> list[Cell]:
    counts = [Cell(getattr(summary, name), "count") for name in _ABOUT[2:]]
    return [Cell(summary.descriptor), Cell(summary.category), *counts]


def _best(summaries: Sequence[CategorySummary], category: str) -> float:
    values = [summary.micro.estimate for summary in summaries if summary.category == category]
    defined = [value for value in values if not math.isnan(value)]
    return max(defined) if len(defined) > 1 else math.nan


def ends_of(mean: Interval) -> str | None:
    """Format the ends of an interval; None without any."""
    return None if math.isnan(mean.low) else f"[{mean.low:.4f}, {mean.high:.4f}]"


def interval_data(mean: Interval) -> dict[str, Any]:
    """Return a mean with its interval as plain data.

    Undefined numbers are None.
    """
    ends = {"low": or_none(mean.low), "high": or_none(mean.high)}
    about = {"level": mean.level, "method": mean.method, "note": mean.note}
    return {"mean": or_none(mean.estimate), **ends, **about}


def category_data(summaries: Sequence[CategorySummary]) -> Table:
    """Tabulate every digit, ends of intervals in own columns."""
    names = list(summaries[0].means)
    micro = ("true_map_micro", "micro_low", "micro_high")
    macro = ("true_map_macro_by_scene", "macro_low", "macro_high")
    columns = (*_ABOUT, *micro, *macro, *names, "chance", "ceiling")
    rows = [
        (
            *_about(summary),
            *(
                Cell(value, "fraction")
                for mean in (summary.micro, summary.macro)
                for value in (mean.estimate, mean.low, mean.high)
            ),
            *(Cell(summary.means[name], "fraction") for name in names),
            Cell(summary.chance, "fraction"),
            Cell(summary.ceiling, "fraction"),
        )
        for summary in summaries
    ]
    return Table(columns, tuple(rows))


def task_table(
    results: Sequence[DescriptorResult], rule: str, resampling: Mapping[str, Any]
) -> Table | None:
    """Tabulate verification, retrieval and image tasks; None without any."""
    rows = [row for result in results for row in _task_rows(result, rule, resampling)]
    level = f"{100 * resampling.get('level', 0.95):g} %"
    columns = ("descriptor", "task", "AP", level, "+1", "0", "-1")
    return Table(columns, tuple(rows)) if rows else None


def _task_rows(
    result: DescriptorResult, rule: str, resampling: Mapping[str, Any]
) -> list[tuple[Cell, ...]]:
    rows = []
    for task in TASKS:
        pooled = result.task(task)
        if pooled is None:
            continue
        right, wrong = pooled.author_counts()
        counts: dict[str, Sequence[int | None]] = {"authors": (right, None, wrong)}
        for kind in _kinds(task):
            name = f"keypoint {task} (authors)"
            if kind != "authors":
                name = f"keypoint {task}, {kind} ({rule})"
            mean = pooled.interval(kind, rule, **resampling)
            labels = counts.get(kind, tuple(pooled.counts().values()))
            rows.append(_task_row(result.name, name, mean, labels))
    for task, mean in image_intervals(result, resampling).items():
        rows.append(_task_row(result.name, task.replace("_", " "), mean, (None, None, None)))
    return rows


def _kinds(task: str) -> tuple[str, ...]:
    return ("pooled", "per query", "authors") if task == "retrieval" else ("pooled", "authors")


def _task_row(
    name: str, task: str, mean: Interval, counts: Sequence[int | None]
) -> tuple[Cell, ...]:
    value = (Cell(mean.estimate, "fraction"), Cell(ends_of(mean), "figure"))
    return (Cell(name), Cell(task), *value, *(Cell(n, "count") for n in counts))


def scene_table(results: Sequence[DescriptorResult]) -> Table:
    """Tabulate descriptors × scenes, with all counts."""
    counts = ("pairs", "queries", "with_truth", "excluded", "outside", "failed", "failed_pairs")
    means = ("AP", "AP_including_zeros", "Success@1", "Success@5", "Success@10")
    columns = ("descriptor", "scene", "category", *counts, "pool", *means)
    rows = []
    for result in results:
        for row in result.scene_rows():
            rows.append(
                (
                    Cell(result.name),
                    Cell(row["scene"]),
                    Cell(row["category"]),
                    *(Cell(row[name], "count") for name in (*counts, "pool")),
                    *(Cell(row.get(name), "fraction") for name in means),
                )
            )
    return Table(columns, tuple(rows))


def rank_table(results: Sequence[DescriptorResult]) -> Table:
    """Tabulate true matches by rank, a column for each descriptor."""
    bins = [result.rank_histogram() for result in results]
    rows = [
        (Cell(row[0].label), *(Cell(rank_bin.queries, "count") for rank_bin in row))
        for row in zip(*bins, strict=True)
    ]
    rows.append((Cell("failed"), *(Cell(result.n_failed, "count") for result in results)))
    return Table(("rank", *(result.name for result in results)), tuple(rows))


def timing_table(costs: Sequence[tuple[str, Mapping[str, float], DescriptorCost]]) -> Table:
    """Tabulate seconds of each stage, then bytes and time each."""
    stages = list(dict.fromkeys(stage for _, timings, _ in costs for stage in timings))
    rows = [
        (
            Cell(name),
            *(Cell(_rounded(timings.get(stage), 2), "figure") for stage in stages),
            Cell(cost.row_bytes or None, "count"),
            Cell(_rounded(cost.microseconds, 1), "figure"),
        )
        for name, timings, cost in costs
    ]
    return Table(("seconds", *stages, "bytes each", "µs each"), tuple(rows))


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


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
            for task in TASKS
            if (pooled := result.task(task))
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
    names = ("", *result.category_names)
    means = {
        rule: _plain_numbers(
            {name or "all": pooled.mean(rule, category=name or None) for name in names}
        )
        for rule in RULES
    }
    per_query = {rule: pooled.query_mean(rule) for rule in RULES}
    authors = {name or "all": pooled.author_mean(name or None) for name in names}
    return {
        "pooled": means,
        "per_query": _plain_numbers(per_query),
        "authors": _plain_numbers(authors),
        "intervals": {
            kind: {
                name or "all": interval_data(
                    pooled.interval(kind, rule, category=name or None, **resampling)
                )
                for name in names
            }
            for kind in _kinds(pooled.scenes[0].task)
        },
        "labels": pooled.counts(),
        "distractors": {
            counts.scene: {
                "scenes": list(counts.chosen),
                "seed": counts.seed,
                "keypoints": int(counts.query_negatives.max(initial=0)),
            }
            for counts in pooled.scenes
        },
    }


ALL: Final = "all"
SHARE: Final = "SetP"  # MMA of a pair of images is the precision of its matches


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
        data = asdict(self)
        for name in ("micro", "macro"):
            data[name] = interval_data(getattr(self, name))
        for name in ("chance", "ceiling"):
            data[name] = or_none(data[name])
        data["means"] = {key: or_none(value) for key, value in self.means.items()}
        return data


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
    """
    settings = {"level": level, "resamples": resamples, "seed": seed}
    names = [ALL, *(name for name in result.category_names)]
    if len(set(result.categories.values())) == 1:
        names = [ALL]
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
    """
    if len(results) < 2:
        raise UsageError("A comparison takes two or more results.")
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
    verdicts = [Words(words, "verdict") for words in comparison.verdicts.values()]
    remarks = [Words(words, "remark") for words in comparison.remarks]
    return [*verdicts, *remarks, comparison.pair_table()]


def compare_named(
    name: str, measure: str, scores: Sequence[Scores], names: Sequence[str], **settings: Any
) -> Comparison:
    """Compare scores on a measure that the field knows by another `name`, such as MMA@3."""
    comparison = compare(*scores, names=names, measures=measure, **settings)
    return comparison.called({measure: name})


def name_measures(task: str, scores: Sequence[Scores]) -> dict[str, str]:
    """Return the names of the measures of stored image matches: MMA with the pixels of its rule."""
    if task != "matching":
        return {}
    pixels = {system.settings.get("pixels") for system in scores}
    return {SHARE: f"MMA@{pixels.pop()}"} if len(pixels) == 1 else {}


def _why_not(results: Sequence[DescriptorResult]) -> str:
    """Explain what differs, with sizes and chance."""
    lines = []
    for result in results[:5]:
        pool = float(np.mean([pair.n_docs for pair in result.pairs])) if result.pairs else 0.0
        lines.append(
            f"{result.name!r} has {result.n_queries - result.n_excluded} keypoints with a true "
            f"match among {pool:.0f} on average (chance AP {result.chance()['AP']:.4f}"
            + (f", keypoints {result.keypoints!r})" if result.keypoints else ")")
        )
    return (
        "These results are of different queries, so their means are not comparable: "
        f"{'; '.join(lines)}. Use one locked set of keypoints for all, or force the comparison of "
        "scene means."
    )


def _scene_scores(result: DescriptorResult, measures: Any) -> Scores:
    """Return scores whose queries are the scenes."""
    parsed = parse_many(measures)
    scenes = result.scene_names
    values = [[result.scene_means(str(measure))[scene] for scene in scenes] for measure in parsed]
    shape = (len(parsed), len(scenes))
    return Scores(
        parsed,
        Ids.of(list(map(as_id, scenes)), what="scene"),
        np.array(values).reshape(shape),
        np.zeros(shape, bool),
        np.zeros(len(scenes), bool),
        result.conventions,
        settings=result.scores.settings,
    )
