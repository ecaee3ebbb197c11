"""Rows behind the charts: plain values, so that a chart can be checked without drawing it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Floats, or_none
from assay.comparison.alignment import align
from assay.core.text import format_bytes, format_time, natural_order, printable
from assay.measures import parse
from assay.report.svg import CostPoint
from assay.runs.leaderboard import Leaderboard
from assay.runs.results import Aggregate
from assay.scoring.evaluate import score
from assay.stats import intervals
from assay.tables.svg import unique_labels

if TYPE_CHECKING:
    from assay.comparison.compare import QueryDifferences
    from assay.comparison.standings import Standing
    from assay.core.hits import Hits
    from assay.measures import Measure
    from assay.runs.record import RunRecord
    from assay.scoring.scores import Scores
    from assay.stats.confidence import Interval


Row = dict[str, Any]

CURVE_CUTOFFS: Final = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_USUAL_END: Final = 100
MOST_GROUPS: Final = 25
# The last rank of each bar of the histogram.
_RANK_ENDS: Final = (1, 2, 3, 5, 10, 20, 50, 100)
_NOT_RETRIEVED: Final = "none"


def standing_rows(standings: Iterable[Standing]) -> list[Row]:
    """Return runs with means and intervals, best first.

    `first` marks those that may be the best.
    """
    rows = list(standings)
    names = unique_labels([row.name for row in rows])
    charted = []
    for place, row in enumerate(rows):
        marks = {"first": row.leads or not place, "letters": row.letters}
        charted.append({**_mean_row(names[row.name], place, row.mean), **marks})
    return charted


def _mean_row(name: str, place: int, mean: Interval | Aggregate) -> Row:
    """Return a row of a chart of means."""
    value = mean.value if isinstance(mean, Aggregate) else mean.estimate
    ends = (end if end is None else or_none(end) for end in (value, mean.low, mean.high))
    means = dict(zip(("mean", "low", "high"), ends, strict=True))
    return {"run": name, "place": place, **means, "letters": "", "first": True}


def aggregate_rows(means: Sequence[tuple[str, Aggregate]]) -> list[Row]:
    """Return named means of stored runs in their order."""
    names = unique_labels([name for name, _ in means])
    return [_mean_row(names[name], place, mean) for place, (name, mean) in enumerate(means)]


def mean_rows(scores: Scores) -> list[Row]:
    """Return the measures of scores with means and 95 % intervals."""
    aligned = align([scores], names=None, measures=None, by=None)
    means = intervals(aligned.values[0], bounds=[each.bounds for each in aligned.measures])
    pairs = enumerate(zip(aligned.measures, means, strict=True))
    return [_mean_row(str(measure), place, mean) for place, (measure, mean) in pairs]


def family(measure: Measure) -> str | None:
    """Return the measure without its cutoff; None where ranks are no cutoffs."""
    if measure.definition.cutoff not in ("optional", "required"):
        return None
    return str(type(measure)(measure.name, measure.params))


def curve_rows(board: Leaderboard, measure: Measure) -> list[Row]:
    """Return the means of each run at several cutoffs.

    Cutoffs are computed where hits are known; else those are taken that were scored.
    """
    if family(measure) is None:
        return []
    names = _by_standing(board, measure)
    rows = []
    for run in board.runs:
        for cutoff, mean in _curve(run.scored(), run.hits, measure):
            rows.append({**names[run.name], "k": cutoff, "mean": or_none(mean)})
    return rows if len({row["k"] for row in rows}) > 1 else []


def _curve(scores: Scores, hits: Hits | None, measure: Measure) -> list[tuple[int, float]]:
    if hits is not None:
        cutoff = int(measure.cutoff or 1)
        end = min(max(cutoff, _USUAL_END), max(int(hits.n_ret.max(initial=0)), 1))
        cutoffs = sorted({cutoff, *CURVE_CUTOFFS})
        measures = [measure @ k for k in cutoffs if k <= end]
        scores = score(hits, measures, conventions=scores.conventions)
    else:
        measures = [m for m in scores.measures if family(m) == family(measure) and m.cutoff]
    means = scores.mean()
    return sorted((int(m.cutoff or 0), means[m]) for m in measures)


def _by_standing(board: Leaderboard, measure: Measure) -> dict[str, Row]:
    """Return the label of each run and its place on the measure."""
    names = unique_labels(board.names)
    return {
        row.name: {"run": names[row.name], "place": place}
        for place, row in enumerate(board.standings_on(measure))
    }


def group_rows(board: Leaderboard, measure: Measure, by: str) -> tuple[list[Row], int]:
    """Return the means of each run in the largest groups, and the number of groups."""
    every, sizes = np.unique(board.runs[0].scored().groups[by], return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    groups = sorted((str(every[i]) for i in order), key=natural_order)
    names = _by_standing(board, measure)
    labels = unique_labels(groups)
    rows = []
    for run in board.runs:
        means = run.scored().mean(by=by).groups
        for number, group in enumerate(groups):
            if group in means and not math.isnan(means[group][str(measure)]):
                mean = {"group": labels[group], "order": number, "mean": means[group][str(measure)]}
                rows.append({**names[run.name], **mean})
    return rows, len(every)


def difference_rows(differences: QueryDifferences) -> list[Row]:
    """Return queries sorted by difference, the largest win first."""
    keys = ("place", "after", "query", "a", "b", "difference")
    values = (
        (place, place + 1, printable(row.query), row.value_a, row.value_b, row.difference)
        for place, row in enumerate(differences.rows)
    )
    return [dict(zip(keys, each, strict=True)) for each in values]


def rank_rows(board: Leaderboard) -> list[Row]:
    """Return the share of each run's queries by the first relevant rank.

    Relevant is what the headline measure takes for relevant. Without hits the ranks follow
    from the reciprocal rank, where it was scored.
    """
    rel: Any = dict(board.measures[0].params).get("rel", 1)
    names = _by_standing(board, board.measures[0])
    rows = []
    for run in board.runs:
        if run.hits is not None:
            shares = first_ranks(run.hits, rel=rel)
        else:
            shares = _ranks_from_reciprocal(run.scored(), rel)
        for number, (bucket, share) in enumerate(shares):
            rows.append({**names[run.name], "rank": bucket, "order": number, "share": share})
    return rows


def first_ranks(hits: Hits, *, rel: float = 1) -> list[tuple[str, float]]:
    """Return the share of answerable queries by the rank of the first relevant document.

    >>> from assay import judge_ranks
    >>> found = first_ranks(judge_ranks([1, 4, 4, 700]))
    >>> [pair for pair in found if pair[1]]
    [('1', 0.25), ('4–5', 0.5), ('> 100', 0.25)]
    """
    answerable = np.zeros(hits.n_queries, bool)
    answerable[hits.pool_row[(hits.pool_grade >= rel) & (hits.pool_count > 0)]] = True
    good = hits.grade >= rel
    first = np.full(hits.n_queries, np.inf)
    np.minimum.at(first, hits.row[good], hits.rank[good].astype(float))
    return _shares(first[answerable])


def _ranks_from_reciprocal(scores: Scores, rel: float) -> list[tuple[str, float]]:
    """Return the shares from reciprocal ranks, which are ranks only with `ties="order"`."""
    measure = parse("RR") if rel == 1 else parse("RR")(rel=rel)
    if measure not in scores.measures or scores.conventions.ties != "order":
        return []
    reciprocal = scores[measure]
    with np.errstate(divide="ignore"):
        return _shares(np.round(1 / reciprocal[~np.isnan(reciprocal)]))


def _shares(first: Floats) -> list[tuple[str, float]]:
    """Return shares by rank; infinite ranks were not retrieved."""
    bucket = np.searchsorted(_RANK_ENDS, first)
    bucket[np.isinf(first)] = len(_RANK_ENDS) + 1
    counts = np.bincount(bucket, minlength=len(_RANK_ENDS) + 2)
    total = max(int(counts.sum()), 1)
    return [(name, int(n) / total) for name, n in zip(_rank_names(), counts, strict=True)]


def _rank_names() -> list[str]:
    starts = [1, *(end + 1 for end in _RANK_ENDS[:-1])]
    ends = zip(starts, _RANK_ENDS, strict=True)
    spans = [str(end) if start == end else f"{start}–{end}" for start, end in ends]
    return [*spans, f"> {_RANK_ENDS[-1]}", _NOT_RETRIEVED]


@dataclass(frozen=True)
class CostAxis:
    """One kind of cost: its name, the systems whose cost is known, and how a cost is written."""

    name: str
    points: Sequence[CostPoint]
    write: Callable[[float], str]


# An axis, the recorded cost behind it, how it follows from that and the number of queries, and how
# it is written.
_COSTS: Final[
    tuple[tuple[str, str, Callable[[float, int], float], Callable[[float], str]], ...]
] = (
    ("search time per query", "search_seconds", lambda cost, n: cost / n, format_time),
    ("time to encode a text", "texts_per_second", lambda rate, _: 1 / rate, format_time),
    ("memory", "bytes", lambda size, _: size, lambda size: format_bytes(int(size)) or ""),
)


def cost_axes(board: Leaderboard, measure: Measure) -> list[CostAxis]:
    """Return quality against each kind of cost that two or more runs recorded."""
    runs = {run.name: run for run in board.runs}
    axes = []
    for axis, key, convert, write in _COSTS:
        points = []
        for row in board.standings_on(measure):
            run, mean = runs[row.name], row.mean
            cost = _cost(run, key)
            if cost is not None and not math.isnan(mean.estimate):
                spent = convert(cost, max(len(run.scored().query_ids), 1))
                ends = or_none(mean.low), or_none(mean.high)
                points.append(CostPoint(row.name, spent, mean.estimate, *ends))
        if len(points) > 1:
            axes.append(CostAxis(axis, points, write))
    return axes


def _cost(run: RunRecord, key: str) -> float | None:
    """Return a positive cost of a run; stored values may be anything."""
    costs = run.config.get("costs")
    cost = costs.get(key) if isinstance(costs, Mapping) else None
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        return None
    return float(cost) if 0 < cost < math.inf else None
