"""Bounds over unjudged documents: what the judgments that nobody made could change at most.

A document that was retrieved and not judged (or has a negative grade) may get any grade of the
scale: those of the judgments, and 0. Documents that no system retrieved stay as they are.

For one system and a fixed number m of unjudged documents that are relevant, the m highest ranks
give the largest value and the m lowest the least, because no measure falls where a relevant
document moves up; so all m are tried, for each grade. Below a cutoff only the number of relevant
documents counts, so that the m with a document above it, and both ends, are enough. For AP the
sums of all m come from one pass over the groups of tied ranks.

nDCG may need several grades at once. With
the unjudged documents of each grade or higher at m_g, DCG is Σ_g width_g W(m_g) and the ideal
Σ_g width_g D(n_g + m_g), where n_g judged documents have at least this grade, W adds up the
largest weights of unjudged documents and D the discounts from rank 1 on. For a ratio λ ≥ 0 the
largest DCG − λ · ideal takes each grade by itself: the best m_g never rises with the grade, as
n_g falls. Dinkelbach's steps (Management Science 1967) then reach the largest ratio. A ratio below
0 is largest where every unjudged document has the lowest or the highest grade, as −λ · ideal is
convex. The same holds for the difference of two systems, which share the ideal: a document's
weight is then that in one list less that in the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.arrays import Flags, Floats, Ints, gather, log, offsets_of, or_none
from assay.comparison.pairs import Pair, compare_pairs
from assay.core.conventions import Conventions
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.core.judgments import Kept
from assay.core.ranking import Ranking, tie_groups
from assay.core.text import fixed, spoken
from assay.errors import UsageError
from assay.judging.pool import RULES, is_plain, weigh_ranks
from assay.measures import Measure
from assay.measures.expected import precision_sum
from assay.measures.views import discount, nth_in_row, sum_over_ranks
from assay.scoring.evaluate import call_of, evaluate, score
from assay.scoring.scores import GEOMETRIC_FLOOR, Scores
from assay.stats import Interval

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison

# Measures that no relevant document lowers, wherever it stands: all or none is extreme.
_RISING: Final = ("P", "Success", "RR", "DCG", "RBP", "ERR", "SetP", "num_rel_ret")


@dataclass(frozen=True, eq=False)
class HoleBounds:
    """The least and the largest value over all ways to judge the unjudged documents.

    Of a difference a − b of two systems also what becomes of the verdict.

    Args:
        worst: Least mean, or mean difference.
        best: Largest mean, or mean difference.
        exact: Whether some judgments reach both; else they are outer bounds.
        n_unjudged: Unjudged documents down to the cutoff, over all queries.
        low: Least value of each query.
        high: Largest value of each query.
        a: The system; empty where only one is scored.
        b: The system it is compared with.
        measure: The measure.
        outcomes: The outcome, that at the worst and that at the best end.
        enough: How many documents, judged against the system that leads, take its lead; None if
            none do, or it is not known.
    """

    worst: float
    best: float
    exact: bool
    n_unjudged: int
    low: Floats
    high: Floats
    a: str = ""
    b: str = ""
    measure: str = ""
    outcomes: tuple[str, str, str] = ("", "", "")
    enough: int | None = None

    @property
    def holds(self) -> bool:
        """Whether the outcome is the same at both ends."""
        return len({outcome.removeprefix("probably ") for outcome in self.outcomes}) == 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        names = {key: getattr(self, key) for key in ("a", "b", "measure") if getattr(self, key)}
        ends = {"worst": or_none(self.worst), "best": or_none(self.best)}
        tested = {"holds": self.holds, "enough": self.enough} if self.outcomes[0] else {}
        return {**names, **ends, "exact": self.exact, "unjudged": self.n_unjudged, **tested}

    def verdict(self) -> str:
        """Return measure, systems and ends in a sentence."""
        return (
            f"{self.measure} of {f'{self.a} − {self.b}' if self.b else self.a}: {self.sentence()}"
        )

    def number(self) -> tuple[Interval, str, str, str]:
        """Return the ends as a number of a record; they hold surely, whatever the level."""
        kind = "bounds" if self.exact else "outer bounds"
        ends = Interval(math.nan, self.worst, self.best, 1.0, "t", len(self.low), note="bounds")
        return ends, self.measure, kind, f"{self.a} − {self.b}" if self.b else ""

    def sentence(self) -> str:
        """Return whether the verdict depends on the unjudged documents."""
        cut = f" in the top {self.measure.partition('@')[2]}" if "@" in self.measure else ""
        what = f"{self.n_unjudged:,} unjudged document{'s' * (self.n_unjudged != 1)}{cut}"
        if not self.n_unjudged and self.worst == self.best:
            return f"no retrieved document{cut} is unjudged"
        kind = "" if self.exact else ", an outer bound"
        low, high = (spoken(fixed(end, sign=bool(self.b))) for end in (self.worst, self.best))
        ends = f"{'difference' if self.b else 'mean'} {low} to {high}{kind}"
        if self.outcomes[0] in ("", "undecided"):
            return f"{ends} over all grades of the {what}"
        if self.holds:
            return f"the verdict holds for all grades of the {what} ({ends})"
        more = f"; {self.enough:,} relevant ones would end the lead" if self.enough else ""
        return f"the verdict depends on {what} ({ends}{more})"


PairBounds = HoleBounds


def bound_scores(scores: Scores) -> dict[str, HoleBounds]:
    """Bound the mean of each measure over all ways to judge what one system retrieved.

    Args:
        scores: Scores under `unjudged="bounds"`.

    Returns:
        The bounds by the name of the measure.

    Raises:
        UsageError: The scores were made under another convention, or read from a store.

    Example:
        >>> from assay import evaluate
        >>> run, qrels = {"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"a": 1, "c": 0}}
        >>> ends = bound_scores(evaluate(run, qrels, "P@2", unjudged="bounds"))["P@2"]
        >>> ends.worst, ends.best
        (0.5, 1.0)
    """
    if scores.hits is None or scores.conventions.unjudged != "bounds":
        raise UsageError("Bounds need rankings of runs with unjudged='bounds'. Evaluate them.")
    rules = scores.conventions.replace(unjudged="nonrelevant")
    rows = np.flatnonzero(~scores.missing) if rules.missing == "skip" else slice(None)
    lists, bounds = _FullLists(scores.hits, scores.query_ids, rules), {}
    for number, measure in enumerate(scores.measures):
        low = high = _defined(scores.values[number], rules)
        is_open = np.zeros(len(low), bool)
        if measure.definition.gain != "judged":
            low, high, is_open = _bound_alone(lists, measure)
        kind, near = measure.definition.aggregate, lists.before_cutoff(measure)
        ends = _bound_means(low[rows], high[rows], is_open[rows], kind, near)
        bounds[str(measure)] = replace(ends, low=low, high=high)
    return bounds


class _FullLists:
    """Every retrieved document of some judged queries; unjudged ones have the grade −1."""

    def __init__(
        self, hits: Hits, query_ids: Ids, rules: Conventions, scale: Sequence[float] = (0.0,)
    ) -> None:
        self.rules, ranking = rules, hits.ranking
        assert ranking is not None
        self.scale = np.unique(np.append(hits.pool_grade[hits.pool_grade >= 0], scale))
        hits = hits.select(query_ids.match(hits.query_ids))
        rows = query_ids.match(ranking.query_ids)
        rows = np.where(rows < 0, len(ranking.query_ids), rows)
        at, offsets = gather(np.append(ranking.offsets, ranking.offsets[-1]), rows)
        groups = tie_groups(ranking.offsets, ranking.scores, np.arange(len(ranking.docs)))
        rank, low, high = (column[at] for column in groups)
        grade = np.full(len(rank), -1.0) if not hits.exhaustive else np.zeros(len(rank))
        grade[offsets[hits.row] + hits.rank - 1] = np.maximum(hits.grade, -1.0)
        ranks: Any = {"rank": rank, "rank_lo": low, "rank_hi": high, "grade": grade}
        self.hits = replace(hits, offsets=offsets, **ranks, cover=None)
        self.docs, self.doc_ids = ranking.docs[at].astype(np.int64), ranking.doc_ids
        self.open = np.flatnonzero(grade < 0)
        self.open_row = self.hits.row[self.open]
        self.n_open = np.bincount(self.open_row, minlength=len(query_ids))
        self.nth = nth_in_row(self.open_row)

    def before_cutoff(self, measure: Measure) -> Flags:
        """Tell which unjudged documents stand before the cutoff."""
        cut = measure.cutoff if isinstance(measure.cutoff, int) else np.inf
        return np.asarray(self.hits.rank[self.open] <= cut)

    def grades(self, measure: Measure) -> Floats:
        """Return a grade for every gain that a judgment can give, the lowest first."""
        scale, gain = self.scale, call_of(measure, self.rules)[1]
        if scale[-1] <= 0 or not (gain(scale) > 0).any():  # nothing was judged relevant yet
            rel: Any = dict(measure.params).get("rel", 1)
            scale = np.append(scale, max(rel, 1.0))
        first = np.unique(gain(scale), return_index=True)[1]
        return np.asarray(scale[first])

    def judge(self, grade: float, other: float, m: Ints, beyond: Ints, *, best: bool) -> Hits:
        """Return the hits where m unjudged documents of each query get a grade, the others another.

        They have the highest ranks, or the lowest; `beyond` more are in no list of this system.
        """
        hits, n_queries = self.hits, len(m)
        if best:
            picked = self.nth <= np.minimum(m, self.n_open)[self.open_row]
        else:
            left = self.n_open - np.maximum(m - beyond, 0)
            picked = self.nth > left[self.open_row]
        grades = hits.grade.copy()
        grades[self.open] = np.where(picked, grade, other)
        counts = np.concatenate([hits.pool_count, m, self.n_open + beyond - m])
        new = np.repeat([grade, other], n_queries)
        every = np.where(counts > 0, np.concatenate([hits.pool_grade, new]), -1.0)
        row = np.concatenate([hits.pool_row, np.tile(np.arange(n_queries), 2)])
        order = np.lexsort((-every, row))
        return replace(
            hits,
            grade=grades,
            pool_offsets=hits.pool_offsets + 2 * np.arange(n_queries + 1),
            pool_grade=every[order],
            pool_count=counts[order],
            kept=Kept(),
        )

    def tied_ranks(self) -> tuple[Ints, Ints]:
        """Return the first and the last rank that a document may have."""
        hits = self.hits
        return (hits.rank,) * 2 if self.rules.ties == "order" else (hits.rank_lo, hits.rank_hi)

    def weigh(self, measure: Measure) -> Floats:
        """Return the weight of each retrieved document in P, DCG, nDCG or RBP."""
        k = call_of(measure, self.rules)[0].get("k")
        low, high = self.tied_ranks()
        inside = np.clip((k or np.iinfo(np.int64).max) - low + 1, 0, high - low + 1)
        sums = sum_over_ranks(weigh_ranks(measure, self.rules), low - 1, inside)
        return np.asarray(sums / (high - low + 1))

    def add_judged(self, measure: Measure) -> Floats:
        """Return the sum of weight times gain of each query's judged documents."""
        judged, gain = self.hits.grade >= 0, call_of(measure, self.rules)[1]
        terms = self.weigh(measure)[judged] * gain(self.hits.grade[judged])
        return np.bincount(self.hits.row[judged], terms, len(self.n_open)).astype(np.float64)


def _defined(values: Floats, rules: Conventions) -> Floats:
    return np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values


def _bound_alone(
    lists: _FullLists, measure: Measure, beyond: Ints | int = 0
) -> tuple[Floats, Floats, Flags]:
    """Return least and largest values of each query, and where it may be left out of the mean."""
    rules, beyond = lists.rules, np.zeros_like(lists.n_open) + beyond
    if measure.name == "nDCG":
        ratios = _Ratios(lists, measure, beyond)
        low, high = ratios.ends(lists.weigh(measure)[lists.open], lists.open_row)
        return low, np.minimum(high, 1.0), ratios.is_open
    levels, n_open = lists.grades(measure), lists.n_open + beyond
    over = call_of(measure, rules)[0].get("over")
    if measure.name in ("AP", "GMAP") and over != "hits" and len(levels) == 2:
        return _bound_ap(lists, measure, beyond)
    other, *grades = levels.tolist()
    near, params = n_open, dict(measure.params)
    if measure.name in _RISING and not params.get("trunc") and not params.get("graded"):
        near = np.zeros_like(n_open)
    elif isinstance(measure.cutoff, int) and "local" in measure.definition.laws:
        near = np.bincount(lists.open_row, lists.before_cutoff(measure), len(n_open)).astype(int)
    none, few = np.zeros_like(n_open), np.minimum(1, n_open)  # 1: of a query without any yet
    steps = [(none, False), (few, True), (few, False), (n_open, True)]
    most = int(near.max(initial=0))
    # (a + m) / (R + m) never falls, so that of R the ends are enough.
    for m in (np.minimum(n, near) for n in ((0, most) if measure.name == "R" else range(most + 1))):
        steps += [(m, True), (n_open - m, False)]
    low, high = np.full((2, len(n_open)), np.nan)
    undefined = np.zeros(len(n_open), bool)
    for grade in grades or [other]:
        for m, best in steps:
            judged = lists.judge(grade, other, m, beyond, best=best)
            values = _defined(score(judged, measure, conventions=rules).values[0], rules)
            low, high = np.fmin(low, values), np.fmax(high, values)
            undefined |= np.isnan(values)
    return low, high, undefined & ~np.isnan(high)


def _bound_ap(lists: _FullLists, measure: Measure, beyond: Ints) -> tuple[Floats, Floats, Flags]:
    """Return the ends of AP: its sum Σ i / r_i for each number of relevant documents.

    Where those with the highest ranks are relevant, tied groups above the last of them are as if
    all unjudged documents were, and groups below have so many more relevant documents above them.
    """
    hits, n_queries = lists.hits, len(lists.n_open)
    arguments, gain = call_of(measure, lists.rules)
    k, is_good = arguments.get("k"), gain(hits.pool_grade) > 0
    n_good = np.bincount(hits.pool_row, hits.pool_count * is_good, n_queries)
    first, last = lists.tied_ranks()
    starts = np.flatnonzero(hits.rank == first)
    group = np.cumsum(hits.rank == first) - 1  # of each document
    row, s, size = hits.row[starts], first[starts] - 1, (last - first + 1)[starts]
    good = np.bincount(group, (hits.grade >= 0) & (gain(hits.grade) > 0), len(starts)).astype(int)
    holes = np.bincount(group, hits.grade < 0, len(starts)).astype(int)
    places = np.clip((k or np.iinfo(np.int64).max) - s, 0, size)

    def above(counts: Any) -> Any:
        """Sum over the groups above each, within its query."""
        before = np.cumsum(counts) - counts
        return before - before[np.searchsorted(row, row)]

    def below(counts: Any) -> Any:
        totals = np.bincount(row, counts, n_queries)
        return totals[row] - above(counts) - counts

    good_above, holes_above = above(good), above(holes)
    slope = sum_over_ranks(np.reciprocal, s, places) / size
    bare = precision_sum(s, size, good, good_above, places)
    full = precision_sum(s, size, good + holes, good_above + holes_above, places)
    at, nth = group[lists.open], lists.nth - holes_above[group[lists.open]]  # in its group
    edge = (s[at], size[at])
    best = above(full)[at] + below(bare)[at] + lists.nth * below(good * slope)[at]
    best += precision_sum(*edge, good[at] + nth, (good_above + holes_above)[at], places[at])
    left = lists.nth - 1  # not relevant: those above the document
    worst = above(bare)[at] + below(full)[at] - left * below((good + holes) * slope)[at]
    worst += precision_sum(*edge, good[at] + holes[at] - nth + 1, good_above[at], places[at])
    base = np.bincount(row, bare, n_queries)

    def divide(sums: Any, n: Any) -> Floats:
        over = arguments.get("over", "R") if k else "R"
        divisor = {"R": n, "min": np.minimum(n, k or 1), "k": np.full(len(n), k)}[over]
        return np.where(n > 0, sums / np.maximum(divisor, 1), np.nan)

    queries, more = lists.open_row, lists.n_open[lists.open_row] - left
    now = _defined(divide(base, n_good), lists.rules)
    low, high = np.fmin(now, divide(base, n_good + beyond)), now.copy()
    np.fmin.at(low, queries, divide(worst, (n_good + beyond)[queries] + more))
    np.fmax.at(high, queries, divide(best, n_good[queries] + lists.nth))
    high = np.fmax(high, divide(base, n_good + beyond))
    return low, high, np.isnan(now) & ~np.isnan(high)


def _bound_mean(values: Floats, is_open: Flags, kind: str, end: Callable[..., float]) -> float:
    """Return the extreme mean, where open queries may be left out of it."""
    if kind == "sum":
        return math.fsum(np.nan_to_num(values).tolist())
    terms = log(np.maximum(values, GEOMETRIC_FLOOR)) if kind == "geometric" else values
    always = terms[~is_open & ~np.isnan(terms)].tolist()
    total, n = math.fsum(always), len(always)
    for term in sorted(terms[is_open & ~np.isnan(terms)].tolist(), reverse=end is max):
        if n and end(term, total / n) != term:
            break
        total, n = total + term, n + 1
    if not n:
        return math.nan
    return math.exp(total / n) if kind == "geometric" else total / n


# Measures that are weighted sums of gains, over an ideal that all systems share


def _is_weighed(measure: Measure, rules: Conventions) -> bool:
    """Tell whether a difference is a sum of weights times gains, over the same ideal if any."""
    return is_plain(measure) and call_of(measure, rules)[0].get("ideal", "judged") == "judged"


class _Ratios:
    """Sums over unjudged documents, divided by the ideal DCG of the same judgments."""

    def __init__(self, lists: _FullLists, measure: Measure, beyond: Ints) -> None:
        arguments, gain = call_of(measure, lists.rules)
        hits, self.n = lists.hits, lists.n_open + beyond
        levels = gain(lists.grades(measure))
        self.floor, self.top, self.widths = float(levels[0]), float(levels[-1]), np.diff(levels)
        self.base = lists.add_judged(measure)
        self._is_ratio = measure.name == "nDCG"
        row, grade, count = hits.pool_row, hits.pool_grade, hits.pool_count
        n_good = np.bincount(row, count * (gain(grade) > 0), len(self.n))
        if arguments.get("ideal") == "retrieved":
            n_good = n_good + beyond
            row, grade, count = hits.row, hits.grade, np.ones(len(hits.row), np.int64)
        count = np.where(grade >= 0, count, 0)
        self.above = np.stack(  # judged documents of each query with at least this gain
            [np.bincount(row, count * (gain(grade) >= level), len(self.n)) for level in levels]
        ).astype(np.int64)
        # Without any relevant document a query is left out of the mean, or counts 0.
        left_out = (n_good == 0) & (lists.rules.empty != "zero")
        self.is_open = np.asarray(left_out & (self.floor == 0))
        nothing = (self.above[1:2].sum(axis=0) == 0) & (self.floor == 0)
        self._may_be_zero = np.where(nothing & ~left_out, 0.0, np.nan)
        most = min(int((self.above[0] + self.n).max(initial=0)), arguments.get("k") or 10**15)
        self._sums = np.append(0.0, np.cumsum(discount(np.arange(1.0, most + 1))))

    def ideal(self, m: Ints) -> Floats:
        """Return the ideal where m unjudged documents of each query have the top grade."""
        if not self._is_ratio:
            return np.ones(len(m))
        end = len(self._sums) - 1
        parts = self._sums[np.minimum(self.above[1:] + m, end)]
        floor = self.floor * self._sums[np.minimum(self.above[0] + self.n, end)]
        return np.asarray(self.widths @ parts + floor)

    def ends(self, weights: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Return the least and the largest value of each query; NaN where it cannot have one.

        The weights are in order of their rows.
        """
        offsets = offsets_of(np.bincount(row, minlength=len(self.n)))
        low, high = np.full((2, len(self.n)), np.nan)
        for q in range(len(self.n)):
            part = weights[offsets[q] : offsets[q + 1]]
            part = np.append(part, np.zeros(self.n[q] - len(part)))
            high[q] = self._largest(q, np.sort(part)[::-1], 1.0)
            low[q] = -self._largest(q, np.sort(-part)[::-1], -1.0)
        return np.fmin(low, self._may_be_zero), np.fmax(high, self._may_be_zero)

    def _largest(self, q: int, weights: Floats, sign: float) -> float:
        """Return the largest value, of weights that fall; NaN where it cannot have one."""
        sums = np.append(0.0, np.cumsum(weights))  # of the m largest weights
        base = float(sign * self.base[q] + self.floor * sums[-1])
        if not self._is_ratio:
            return base + (self.top - self.floor) * float(sums.max())
        end, m = len(self._sums) - 1, np.arange(len(sums))
        ideals = self._sums[np.minimum(self.above[1:, q, None] + m, end)]
        floor = self.floor * float(self._sums[min(int(self.above[0, q] + self.n[q]), end)])
        below = self.widths @ ideals + floor
        above = base + (self.top - self.floor) * sums
        if not (below > 0).any():
            return math.nan
        value = float((above[below > 0] / below[below > 0]).max())
        while value >= 0:  # below 0 one number of documents for all grades is best
            picked = np.argmax(sums - value * ideals, axis=1)
            bottom = float(self.widths @ ideals[np.arange(len(picked)), picked]) + floor
            step = (base + float(self.widths @ sums[picked])) / bottom if bottom > 0 else value
            if not step > value:
                break
            value = step
        return value


# Differences


def bound_differences(comparison: Comparison) -> Iterator[PairBounds]:
    """Yield what unjudged documents could change in each pair of a comparison.

    Args:
        comparison: Systems scored under `unjudged="bounds"`.

    Yields:
        The bounds of each pair, in the order of `comparison.pairs`; none where a system was not
        scored from its run.

    Example:
        >>> from assay import compare
        >>> qrels = {f"q{i}": {"a": 1} for i in range(4)}
        >>> runs = {name: {q: {name: 1} for q in qrels} for name in "ab"}
        >>> (ends,) = compare(runs, qrels, "P@1", unjudged="bounds").bounds
        >>> ends.worst, ends.best, ends.n_unjudged
        (0.0, 1.0, 4)
    """
    aligned = comparison.aligned
    if any(hits is None for hits in aligned.hits):
        return
    rules = aligned.conventions.replace(unjudged="nonrelevant")
    lists = [
        _FullLists(each, aligned.query_ids, rules) for each in aligned.hits if each is not None
    ]
    for pair in comparison.pairs:
        measure = next(each for each in comparison.measures if str(each) == pair.measure)
        both = [lists[comparison.names.index(name)] for name in (pair.a, pair.b)]
        values = comparison.values_on(measure)[comparison.names.index(pair.b)]
        yield _bound_pair(pair, measure, both, values, aligned.clusters)


def bound_systems(
    rankings: Mapping[str, Ranking],
    qrels: Mapping[str, Mapping[str, float]],
    measure: Measure,
    scale: Sequence[float],
    pairs: Iterable[tuple[str, str]],
) -> Iterator[PairBounds]:
    """Yield the ends of each difference, or of the mean of (a, a), over all grades of the scale.

    Args:
        rankings: The systems by name.
        qrels: The grades that are fixed.
        measure: The measure.
        scale: The grades that any other document may have.
        pairs: The systems to compare.
    """
    rules, lists = RULES.replace(unjudged="bounds"), {}
    for name, ranking in rankings.items():
        scores = evaluate(ranking, qrels, measure, conventions=rules, allow_mismatch=True)
        assert scores.hits is not None
        lists[name] = _FullLists(scores.hits, scores.query_ids, RULES, scale)
    for a, b in pairs:
        if a == b:
            ends, near = _bound_alone(lists[a], measure), lists[a].before_cutoff(measure)
            bounds = _bound_means(*ends, measure.definition.aggregate, near)
        else:
            bounds = _bound_difference(lists[a], lists[b], measure, math.nan)
        yield replace(bounds, a=a, b=b if a != b else "", measure=str(measure), enough=None)


def _bound_means(
    low: Floats, high: Floats, is_open: Flags, kind: str, is_near: Flags, *, exact: bool = True
) -> HoleBounds:
    """Return the ends of a mean over queries."""
    ends = [_bound_mean(low, is_open, kind, min), _bound_mean(high, is_open, kind, max)]
    return HoleBounds(ends[0], ends[1], exact, int(is_near.sum()), low, high)


def _bound_difference(a: _FullLists, b: _FullLists, measure: Measure, lead: float) -> HoleBounds:
    """Return the ends of the difference, and how many documents would take this lead."""
    row, weights, is_near = _merge_unjudged(a, b, measure)
    union = np.bincount(row, minlength=len(a.n_open))
    if not _is_weighed(measure, a.rules):
        both = [_bound_alone(each, measure, union - each.n_open) for each in (a, b)]
        (low, high, is_open), (least, most, _) = both
        return _bound_means(low - most, high - least, is_open, "mean", is_near, exact=False)
    ratios = _Ratios(a, measure, union - a.n_open)
    ratios.base -= b.add_judged(measure)
    low, high = ratios.ends(weights, row)
    exact = not ratios.is_open.any()
    enough = _count_enough(ratios, weights, row, lead) if exact else None
    ends = _bound_means(low, high, ratios.is_open, "mean", is_near, exact=exact)
    return replace(ends, enough=enough)


def _bound_pair(
    pair: Pair, measure: Measure, lists: Sequence[_FullLists], values: Floats, clusters: Any
) -> PairBounds:
    """Return the ends of a pair, and its outcome at both."""
    ends = _bound_difference(lists[0], lists[1], measure, pair.difference)
    strict = replace(pair.settings, level=pair.level_of_one, correction="none")
    about: Any = {"settings": strict, "clusters": clusters}
    outcomes: Any = [pair.outcome]
    for part in (ends.low, ends.high):
        tested, names = np.stack([values + part, values]), (pair.a, pair.b)
        (result,) = compare_pairs(pair.measure, names, tested, [(0, 1)], **about)
        outcomes.append(result.outcome)
    return replace(ends, a=pair.a, b=pair.b, measure=pair.measure, outcomes=tuple(outcomes))


def _merge_unjudged(a: _FullLists, b: _FullLists, measure: Measure) -> tuple[Ints, Floats, Flags]:
    """Return query, weight in a less weight in b, and whether it is before the cutoff, of each.

    A document that both retrieved counts once.
    """
    docs = b.docs[b.open]
    used, places = np.unique(docs, return_inverse=True)
    match = b.doc_ids.take(used).as_text().match(a.doc_ids.as_text())
    shared = np.where(match >= 0, match, len(a.doc_ids) + np.arange(len(used)))[places]
    span = len(a.doc_ids) + len(used) + 1
    keys = np.concatenate([a.open_row * span + a.docs[a.open], b.open_row * span + shared])
    pairs, which = np.unique(keys, return_inverse=True)
    weights = np.zeros(len(keys))
    if _is_weighed(measure, a.rules):
        each = [lists.weigh(measure)[lists.open] for lists in (a, b)]
        weights = np.concatenate([each[0], -each[1]])
    near = np.concatenate([lists.before_cutoff(measure) for lists in (a, b)])
    is_near = np.bincount(which, near, len(pairs)) > 0
    totals = np.bincount(which, weights, len(pairs)).astype(np.float64)
    return np.asarray(pairs // span, np.int64), totals, is_near


def _count_enough(ratios: _Ratios, weights: Floats, row: Ints, lead: float) -> int | None:
    """Count the documents that take a lead if they, and only they, get the highest grade.

    Those with most weight over the ideal first; for a sum without an ideal it is the least number.
    """
    sign = 1.0 if lead > 0 else -1.0
    n_queries = len(ratios.n)
    now = ratios.ideal(np.zeros(n_queries, np.int64))
    harm = sign * weights / np.maximum(now[row], 1e-9)
    order = np.argsort(harm, kind="stable")[: int((harm < 0).sum())]

    def difference(n: int) -> float:
        some = order[:n]
        m = np.bincount(row[some], minlength=n_queries)
        gains = np.full(len(weights), ratios.floor)
        gains[some] = ratios.top
        above = ratios.base + np.bincount(row, weights * gains, n_queries)
        below = ratios.ideal(m)
        return sign * float(np.divide(above, below, out=np.zeros(n_queries), where=below > 0).sum())

    if not lead or not len(order) or difference(len(order)) > 0:
        return None
    few, many = 0, len(order)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if difference(middle) <= 0 else (middle, many)
    return many
