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
from assay.stats.ranks import split_letters
from assay.tables.svg import unique_labels

if TYPE_CHECKING:
    from assay.comparison.compare import Standing
    from assay.comparison.differences import QueryDifferences
    from assay.comparison.pairs import Pair
    from assay.core.hits import Hits
    from assay.measures import Measure
    from assay.runs.record import RunRecord
    from assay.scoring.scores import Scores

__all__ = [
    "CURVE_CUTOFFS",
    "CostAxis",
    "Row",
    "cost_axes",
    "curve_rows",
    "difference_rows",
    "family",
    "group_rows",
    "mean_rows",
    "rank_rows",
    "standing_rows",
]

Row = dict[str, Any]

CURVE_CUTOFFS: Final = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_USUAL_END: Final = 100
MOST_GROUPS: Final = 25
# The last rank of each bar of the histogram.
_RANK_ENDS: Final = (1, 2, 3, 5, 10, 20, 50, 100)
_NOT_RETRIEVED: Final = "none"


def standing_rows(standings: Iterable[Standing], pairs: Iterable[Pair] | None = None) -> list[Row]:
    """Runs with means and intervals, best first.

    `first` marks those that may be the best or, with the `pairs` of a baseline, are better than it.
    """
    rows = list(standings)
    names = unique_labels([one.name for one in rows])
    top = set(split_letters(rows[0].letters)) if rows else set()
    better = None if pairs is None else {pair.a for pair in pairs if pair.outcome == "better"}
    return [
        {
            "run": names[one.name],
            "place": place,
            "mean": or_none(one.mean.estimate),
            "low": or_none(one.mean.low),
            "high": or_none(one.mean.high),
            "letters": one.letters,
            "first": _may_be_first(one, place, top) if better is None else one.name in better,
        }
        for place, one in enumerate(rows)
    ]


def _may_be_first(one: Standing, place: int, top: set[str]) -> bool:
    return place == 0 or bool(top & set(split_letters(one.letters)))


def aggregate_rows(means: Sequence[tuple[str, Aggregate]]) -> list[Row]:
    """Named means of stored runs in the order given."""
    names = unique_labels([name for name, _ in means])
    return [
        {
            "run": names[name],
            "place": place,
            "mean": one.value,
            "low": one.low,
            "high": one.high,
            "letters": "",
            "first": True,
        }
        for place, (name, one) in enumerate(means)
    ]


def mean_rows(scores: Scores) -> list[Row]:
    """The measures of one `Scores` with means and 95 % intervals, in their order."""
    aligned = align([scores], names=None, measures=None, by=None)
    means = intervals(aligned.values[0], bounds=[each.bounds for each in aligned.measures])
    return [
        {
            "run": str(measure),
            "place": place,
            "mean": or_none(one.estimate),
            "low": or_none(one.low),
            "high": or_none(one.high),
            "letters": "",
            "first": True,
        }
        for place, (measure, one) in enumerate(zip(aligned.measures, means, strict=True))
    ]


def family(measure: Measure) -> str | None:
    """The measure without its cut-off, where ranks are its cut-offs; None for others."""
    if measure.definition.cutoff not in ("optional", "required"):
        return None
    return str(type(measure)(measure.name, measure.params))


def curve_rows(board: Leaderboard, measure: Measure) -> list[Row]:
    """Means of one measure at several cut-offs, for each run; nothing where it has none.

    Cut-offs are computed where hits are known; else those are taken that were scored.
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
        own = int(measure.cutoff or 1)
        end = min(max(own, _USUAL_END), max(int(hits.n_ret.max(initial=0)), 1))
        cutoffs = sorted({own, *CURVE_CUTOFFS})
        wanted = [measure @ k for k in cutoffs if k <= end]
        scores = score(hits, wanted, conventions=scores.conventions)
    else:
        wanted = [m for m in scores.measures if family(m) == family(measure) and m.cutoff]
    means = scores.mean()
    return sorted((int(m.cutoff or 0), means[m]) for m in wanted)


def _by_standing(board: Leaderboard, measure: Measure) -> dict[str, Row]:
    """What charts know about each run: its label and its place on the measure."""
    names = unique_labels(board.names)
    return {
        one.name: {"run": names[one.name], "place": place}
        for place, one in enumerate(board.standings_on(measure))
    }


def group_rows(board: Leaderboard, measure: Measure, by: str) -> tuple[list[Row], int]:
    """Means of each run in the largest groups, and how many groups there are in all."""
    chosen, total = _largest_groups(board.runs[0].scored(), by)
    names = _by_standing(board, measure)
    shown = unique_labels(chosen)
    rows = []
    for run in board.runs:
        means = run.scored().mean(by=by).groups
        for number, group in enumerate(chosen):
            if group in means and not math.isnan(means[group][str(measure)]):
                own = {"group": shown[group], "order": number, "mean": means[group][str(measure)]}
                rows.append({**names[run.name], **own})
    return rows, total


def _largest_groups(scores: Scores, by: str) -> tuple[list[str], int]:
    """The groups with the most queries, in order of their names."""
    groups, sizes = np.unique(scores.groups[by], return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    return sorted((str(groups[i]) for i in order), key=natural_order), len(groups)


def difference_rows(differences: QueryDifferences) -> list[Row]:
    """Queries sorted by difference, the largest win first."""
    return [
        {
            "place": place,
            "after": place + 1,
            "query": printable(row.query),
            "a": row.value_a,
            "b": row.value_b,
            "difference": row.difference,
        }
        for place, row in enumerate(differences.rows)
    ]


def rank_rows(board: Leaderboard) -> list[Row]:
    """For each run, the share of queries by the rank of their first relevant document.

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
    """Share of the queries with relevant documents, by the rank of the first one.

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
    """The same from reciprocal ranks, which are ranks of documents only with `ties="order"`."""
    wanted = parse("RR") if rel == 1 else parse("RR")(rel=rel)
    if wanted not in scores.measures or scores.conventions.ties != "order":
        return []
    reciprocal = scores[wanted]
    with np.errstate(divide="ignore"):
        return _shares(np.round(1 / reciprocal[~np.isnan(reciprocal)]))


def _shares(first: Floats) -> list[tuple[str, float]]:
    """Shares by rank; infinite: not retrieved."""
    bucket = np.searchsorted(_RANK_ENDS, first)
    bucket[np.isinf(first)] = len(_RANK_ENDS) + 1
    counts = np.bincount(bucket, minlength=len(_RANK_ENDS) + 2)
    total = max(int(counts.sum()), 1)
    return [(name, int(n) / total) for name, n in zip(_rank_names(), counts, strict=True)]


def _rank_names() -> list[str]:
    starts = [1, *(end + 1 for end in _RANK_ENDS[:-1])]
    spans = [
        str(end) if start == end else f"{start}–{end}"
        for start, end in zip(starts, _RANK_ENDS, strict=True)
    ]
    return [*spans, f"> {_RANK_ENDS[-1]}", _NOT_RETRIEVED]


@dataclass(frozen=True)
class CostAxis:
    """One kind of cost: its name, the systems whose cost is known, and how a cost is written."""

    name: str
    points: Sequence[CostPoint]
    write: Callable[[float], str]


def cost_axes(board: Leaderboard, measure: Measure) -> list[CostAxis]:
    """Quality against each kind of cost that two or more runs recorded (`config["costs"]`)."""
    kinds: dict[str, tuple[Callable[[RunRecord], float | None], Callable[[float], str]]] = {
        "search time of a query": (_search_seconds, format_time),
        "time to encode a text": (_encode_seconds, format_time),
        "memory": (lambda run: _cost(run, "bytes"), lambda size: format_bytes(int(size)) or ""),
    }
    runs = {run.name: run for run in board.runs}
    axes = []
    for name, (find, write) in kinds.items():
        points = [_cost_point(one, find(runs[one.name])) for one in board.standings_on(measure)]
        known = [point for point in points if point is not None]
        if len(known) > 1:
            axes.append(CostAxis(name, known, write))
    return axes


def _cost_point(one: Standing, cost: float | None) -> CostPoint | None:
    if not cost or math.isnan(one.mean.estimate):
        return None
    return CostPoint(
        one.name, cost, one.mean.estimate, or_none(one.mean.low), or_none(one.mean.high)
    )


def _search_seconds(run: RunRecord) -> float | None:
    seconds = _cost(run, "search_seconds")
    return None if seconds is None else seconds / max(len(run.scored().query_ids), 1)


def _encode_seconds(run: RunRecord) -> float | None:
    rate = _cost(run, "texts_per_second")
    return None if rate is None else 1 / rate


def _cost(run: RunRecord, key: str) -> float | None:
    """A positive number among the costs of a run; stored ones may be anything."""
    costs = run.config.get("costs")
    found = costs.get(key) if isinstance(costs, Mapping) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return float(found) if 0 < found < math.inf else None
