"""Agreement of labellers: κ, weighted κ, Krippendorff's α, and what it means for systems.

Every number is a function of tables of counts that add up over queries, so intervals come from
resampling whole queries (percentile bootstrap).

κ: Cohen 1960; weighted: Cohen 1968, with weights by grade, not by place on the scale. α:
Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability". τ_AP: Yilmaz, Aslam & Robertson,
SIGIR 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.core.checks import check_choice
from assay.core.text import format_percent
from assay.errors import MismatchError, UsageError
from assay.io.formats import RunLike, as_ranking
from assay.judging.estimate import LabelReport
from assay.judging.labels import Pair
from assay.judging.pool import RULES, parse_linear, weigh_systems
from assay.runs.record import RunRecord
from assay.stats import Interval
from assay.stats.samples import check_bootstraps, check_margin, check_seed
from assay.tables.table import Cell, Table, table_of

Grades = Mapping[Pair, float]
WEIGHTS: Final = ("none", "linear", "quadratic")
LEVELS: Final = ("nominal", "ordinal", "interval")
_FEWEST_QUERIES: Final = 8  # with fewer, a bootstrap over queries is too narrow


def kappa_of(table: Floats, scale: Floats, weights: str = "none") -> float:
    """Return Cohen's κ of a table of counts; NaN where both use one grade only.

    Args:
        table: Grades of one labeller × grades of the other.
        scale: The grades, whose distance weighs a disagreement.
        weights: none, linear or quadratic.

    Returns:
        The coefficient.

    Example:
        >>> round(kappa_of(np.array([[2.0, 0], [1, 3]]), np.array([0.0, 1])), 4)
        0.6667
    """
    check_choice(weights, WEIGHTS, "weights")
    distance = np.abs(scale[:, None] - scale)
    cost = {"none": distance > 0, "linear": distance, "quadratic": distance**2}[weights]
    expected = np.outer(table.sum(1), table.sum(0)) / max(table.sum(), 1)
    below = float((cost * expected).sum())
    return 1 - float((cost * table).sum()) / below if below > 0 else math.nan


def alpha_of(coincidences: Floats, scale: Floats, level: str = "ordinal") -> float:
    """Return Krippendorff's α of a table of coincidences; NaN where one grade only is used.

    Args:
        coincidences: Symmetric table of the grades that pairs of labels have.
        scale: The grades.
        level: nominal, ordinal or interval.

    Returns:
        The coefficient.

    Example:
        >>> alpha_of(np.diag([4.0, 4.0]), np.array([0.0, 1.0]), "nominal")
        1.0
    """
    check_choice(level, LEVELS, "level")
    totals = coincidences.sum(0)
    n = totals.sum()
    if level == "ordinal":
        reached = np.cumsum(totals) - totals / 2
        distance = (reached[:, None] - reached) ** 2
    else:
        distance = (scale[:, None] - scale) ** 2
        distance = (distance > 0).astype(float) if level == "nominal" else distance
    expected = float((distance * np.outer(totals, totals)).sum())
    if expected <= 0:
        return math.nan
    return 1 - float((n - 1) * (distance * coincidences).sum()) / expected


def tau_ap(truth: Sequence[Any], estimate: Sequence[Any]) -> float:
    """Return τ_AP: how well an order of systems keeps the true one, the top above all.

    Args:
        truth: Systems from the best to the worst.
        estimate: The same systems in the order to judge.

    Returns:
        A number from −1 to 1.

    Example:
        >>> round(tau_ap("abcd", "bacd"), 4), round(tau_ap("abcd", "abdc"), 4)
        (0.3333, 0.7778)
    """
    place = {system: at for at, system in enumerate(truth)}
    if len(place) < 2 or set(place) != set(estimate) or len(estimate) != len(place):
        raise UsageError("Pass two orders of the same systems, at least two.")
    shares = [
        sum(place[above] < place[system] for above in estimate[:at]) / at
        for at, system in enumerate(estimate)
        if at
    ]
    return 2 * math.fsum(shares) / len(shares) - 1


def tau(a: Floats, b: Floats) -> float:
    """Return Kendall's τ_b of the means of systems; NaN where one side is all equal.

    Args:
        a: Means of the systems.
        b: Other means of them.

    Returns:
        A number from −1 to 1.

    Example:
        >>> round(tau(np.array([1, 2, 3, 4, 5, 5]), np.array([1, 3, 2, 4, 4, 6])), 6)
        0.785714
    """
    signs = [np.sign(side[:, None] - side)[np.triu_indices(len(side), 1)] for side in (a, b)]
    below = math.sqrt(float((signs[0] ** 2).sum() * (signs[1] ** 2).sum()))
    return float(signs[0] @ signs[1]) / below if below else math.nan


@dataclass(frozen=True, repr=False)
class AgreementReport(LabelReport):
    """Agreement of labellers.

    Args:
        statistics: Numbers with intervals by name, for each two labellers, or all together.
        confusion: Grades of the first labeller × grades of the second.
        scale: The grades.
        labellers: Their names; the first is the reference.
        n_pairs: Pairs with two labels or more.
        n_queries: Queries of these.
        systems: Signed error of the second on documents that only this system retrieved.
        order: τ and τ_AP of the order of the systems.
        settings: Resamples, seed and measure, for the signature.
        topics: Number of pairs, share of equal grades and weighted κ of the first two, by topic.
        within: Half width of weighted κ to plan labels for.
        remarks: What a reader should know.
    """

    statistics: Mapping[str, Mapping[str, Interval]]
    confusion: Floats
    scale: tuple[float, ...]
    labellers: tuple[str, ...]
    n_pairs: int
    n_queries: int
    systems: Mapping[str, tuple[Interval, int]]
    order: Mapping[str, Interval]
    settings: str
    topics: Mapping[str, tuple[int, Interval, Interval]]
    within: float = 0.05
    remarks: tuple[str, ...] = ()

    method = "Intervals resample whole queries (percentile bootstrap, 95 %)."

    @property
    def signature(self) -> str:
        """Labellers, sizes and settings that made the numbers."""
        names = "+".join(self.labellers)
        sizes = f"pairs:{self.n_pairs}|queries:{self.n_queries}"
        return f"agreement|labellers:{names}|{sizes}|{self.settings}"

    def labels_needed(self, half_width: float) -> int | None:
        """Return about how many labelled pairs give weighted κ to ± this; None if unknown.

        The width of an interval falls with the root of the number of pairs.
        """
        sure = next(iter(self.statistics.values()))["weighted κ"]
        if math.isnan(sure.low):
            return None
        return math.ceil(self.n_pairs * (sure.half_width / half_width) ** 2)

    def verdict(self) -> str:
        """Return the first coefficient in a sentence."""
        pair, numbers = next(iter(self.statistics.items()))
        sure = numbers["weighted κ"]
        ends = "" if math.isnan(sure.low) else f" ({sure.words('{:.2f}'.format)})"
        needed = self.labels_needed(self.within)
        plan = f"; about {needed:,} labelled pairs for ± {self.within:g}" if needed else ""
        return f"{pair}: weighted κ {sure.estimate:.2f}{ends} on {self.n_pairs:,} pairs{plan}"

    def records(self) -> list[RunRecord]:
        """Return a record of all coefficients."""
        numbers = {
            (pair, name): each for pair, of in self.statistics.items() for name, each in of.items()
        }
        numbers |= {("order of systems", name): each for name, each in self.order.items()}
        numbers |= {(name, "signed error"): each for name, (each, _) in self.systems.items()}
        rows = [(each, name, "agreement", subset) for (subset, name), each in numbers.items()]
        return [self.record(" × ".join(self.labellers[:3]), rows, [self.verdict()])]

    def tables(self) -> list[Table]:
        """Return coefficients, confusion, by grade, by topic, systems and orders."""
        heading, (first, second) = Interval.heading(), self.labellers[:2]
        rows = [
            (pair, name, each.estimate, each.cell())
            for pair, numbers in self.statistics.items()
            for name, each in numbers.items()
        ]
        counts = [
            (
                *(f"{first} {grade:g}", *row.astype(int).tolist()),
                Cell(format_percent(row[at] / row.sum()) if row.sum() else None, "figure"),
            )
            for at, (grade, row) in enumerate(zip(self.scale, self.confusion, strict=True))
        ]
        topics = [
            (topic, n, same.estimate, kappa.estimate, kappa.cell())
            for topic, (n, same, kappa) in self.topics.items()
        ]
        errors = [
            (name, Cell(each.estimate, "difference"), each.cell(sign=True), n)
            for name, (each, n) in self.systems.items()
        ]
        orders = [(name, each.estimate, each.cell()) for name, each in self.order.items()]
        tables: list[tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]] = [
            (("labellers", "coefficient", "value", heading), rows),
            (("", *(f"{second} {grade:g}" for grade in self.scale), "same"), counts),
            (("topic", "pairs", "same", "weighted κ", heading), topics),
            (("system", "signed error on documents only it retrieved", heading, "pairs"), errors),
            (("order of systems", "value", heading), orders),
        ]
        return [table_of(columns, cells) for columns, cells in tables if cells]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "signature": self.signature,
            "labellers": list(self.labellers),
            "pairs": self.n_pairs,
            "queries": self.n_queries,
            "statistics": {
                pair: {name: each.to_dict("value") for name, each in numbers.items()}
                for pair, numbers in self.statistics.items()
            },
            "scale": list(self.scale),
            "confusion": self.confusion.astype(int).tolist(),
            "systems": {
                name: {**each.to_dict("error"), "pairs": n}
                for name, (each, n) in self.systems.items()
            },
            "order": {name: each.to_dict("value") for name, each in self.order.items()},
            "topics": {
                name: {"pairs": n, "agreement": same.estimate, **kappa.to_dict("weighted κ")}
                for name, (n, same, kappa) in self.topics.items()
            },
            "half_width": self.within,
            "labels_needed": self.labels_needed(self.within),
            "remarks": list(self.remarks),
        }


def measure_agreement(
    labellers: Mapping[str, Grades],
    *,
    runs: Mapping[str, RunLike] | None = None,
    measure: str = "DCG@10",
    resamples: int = 1000,
    seed: int = 0,
    topics: Mapping[str, str] | None = None,
    within: float = 0.05,
) -> AgreementReport:
    """Measure how labellers agree, and what their disagreement does to systems.

    Args:
        labellers: Grades by (query, document) of each labeller; the first is the reference.
        runs: Runs by name: does the second labeller favour one, and does their order survive?
        measure: A measure that is linear in the labels, for the order of systems.
        resamples: Number of resamples of queries.
        seed: Seed of them.
        topics: Topic of each query, to see on which the first two agree.
        within: Half width of weighted κ to plan labels for.

    Returns:
        The report.

    Raises:
        UsageError: There is one labeller only.
        MismatchError: No pair is labelled by two.

    Example:
        >>> a = {(f"q{i}", "d"): i % 2 for i in range(9)}
        >>> report = measure_agreement({"ada": a, "bob": a})
        >>> report.statistics["ada × bob"]["κ"].estimate
        1.0
    """
    if len(labellers) < 2:
        raise UsageError("Agreement needs two labellers. Add a second file.")
    check_margin(within, "within")
    resamples, seed = check_bootstraps(resamples), check_seed(seed)
    names = tuple(labellers)
    scale = np.array(sorted({g for grades in labellers.values() for g in grades.values()}))
    by_pair: dict[Pair, list[float]] = {}
    for grades in labellers.values():
        for pair, grade in grades.items():
            by_pair.setdefault(pair, []).append(grade)
    shared = {pair: values for pair, values in by_pair.items() if len(values) > 1}
    if not shared:
        raise MismatchError("No pair has two labels. Label some pairs twice.")
    queries = sorted({query for query, _ in shared})
    draws = _Draws({query: at for at, query in enumerate(queries)}, resamples, seed)
    statistics: dict[str, dict[str, Interval]] = {}
    confusion = np.zeros((len(scale), len(scale)))
    by_topic: dict[str, tuple[int, Interval, Interval]] = {}
    for a, b in combinations(names, 2):
        both = labellers[a].keys() & labellers[b].keys()
        if not both:
            continue
        table = draws.table(scale, [(p, labellers[a][p], labellers[b][p], 1.0) for p in both])
        if (a, b) == names[:2]:
            confusion = table.sum(0)
            by_topic = _by_topic(draws, table, scale, topics or {})
        statistics[f"{a} × {b}"] = {
            "agreement": draws.interval(table, _share_equal),
            "κ": draws.interval(table, lambda t: kappa_of(t, scale)),
            "weighted κ": draws.interval(table, lambda t: kappa_of(t, scale, "quadratic")),
            "linear κ": draws.interval(table, lambda t: kappa_of(t, scale, "linear")),
            **_alphas(draws, scale, {p: [labellers[a][p], labellers[b][p]] for p in both}),
        }
    if len(names) > 2:
        statistics["all"] = _alphas(draws, scale, shared)
    firsts = labellers[names[0]], labellers[names[1]]
    of_systems = _of_systems(runs, *firsts, measure, draws) if runs else ({}, {})
    few = f"{len(queries)} queries are too few for intervals (at least {_FEWEST_QUERIES})"
    remarks = (few,) if len(queries) < _FEWEST_QUERIES else ()
    sizes = (tuple(scale.tolist()), names, len(shared), len(queries))
    settings = f"resamples:{resamples}|seed:{seed}" + f"|measure:{measure}" * bool(runs)
    about: dict[str, Any] = {"topics": by_topic, "within": within, "remarks": remarks}
    return AgreementReport(statistics, confusion, *sizes, *of_systems, settings, **about)


def _share_equal(table: Floats) -> float:
    return float(np.trace(table) / table.sum()) if table.any() else math.nan


def _by_topic(
    draws: _Draws, tables: Floats, scale: Floats, topics: Mapping[str, str]
) -> dict[str, tuple[int, Interval, Interval]]:
    """Return the number of pairs, the share of equal grades and weighted κ of each topic."""
    names = np.array([topics.get(query, "") for query in draws.places])
    by_topic = {}
    for topic in sorted({*topics.values()} & {*names.tolist()}):
        part = tables * (names == topic)[:, None, None]
        if part.any():
            kappa = draws.interval(part, lambda t: kappa_of(t, scale, "quadratic"))
            by_topic[topic] = (int(part.sum()), draws.interval(part, _share_equal), kappa)
    return by_topic


def _alphas(
    draws: _Draws, scale: Floats, shared: Mapping[Pair, Sequence[float]]
) -> dict[str, Interval]:
    """Return α by level, from the coincidences of all labels of a pair."""
    entries = []
    for pair, values in shared.items():
        share = 1.0 / (len(values) - 1)
        for at, left in enumerate(values):
            entries += [(pair, left, right, share) for i, right in enumerate(values) if i != at]
    table = draws.table(scale, entries)

    def alpha(level: str) -> Callable[[Floats], float]:
        return lambda counts: alpha_of(counts, scale, level)

    return {f"α ({level})": draws.interval(table, alpha(level)) for level in LEVELS}


class _Draws:
    """Resamples of queries, the same for every number: how often each holds which query."""

    def __init__(self, places: Mapping[str, int], resamples: int, seed: int) -> None:
        self.places = places
        n = len(places)
        self.counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)

    def table(self, scale: Floats, entries: Sequence[tuple[Pair, float, float, float]]) -> Floats:
        """Return tables of counts, one for each query."""
        tables = np.zeros((len(self.places), len(scale), len(scale)))
        pairs, left, right, share = zip(*entries, strict=True)
        rows = [self.places[query] for query, _ in pairs]
        first, second = (np.searchsorted(scale, side) for side in (left, right))
        np.add.at(tables, (np.array(rows), first, second), share)
        return tables

    def interval(self, tables: Floats, statistic: Callable[[Floats], float]) -> Interval:
        """Return a statistic of the summed tables, with a percentile interval."""
        estimate, n = statistic(tables.sum(0)), len(self.places)
        if np.count_nonzero(tables.any(axis=(1, 2))) < _FEWEST_QUERIES:
            return Interval(estimate, math.nan, math.nan, 0.95, "percentile", n)
        flat = self.counts @ tables.reshape(n, -1)
        values = np.array([statistic(row.reshape(tables.shape[1:])) for row in flat])
        return self.percentile(estimate, values)

    def percentile(self, estimate: float, values: Floats) -> Interval:
        """Return the middle 95 % of the resampled values that are defined."""
        defined = values[~np.isnan(values)]
        ends = np.quantile(defined, [0.025, 0.975]) if len(defined) else (math.nan, math.nan)
        n, drawn = len(self.places), len(self.counts)
        return Interval(estimate, float(ends[0]), float(ends[1]), 0.95, "percentile", n, drawn)


def _of_systems(
    runs: Mapping[str, RunLike], truth: Grades, other: Grades, measure: str, draws: _Draws
) -> tuple[dict[str, tuple[Interval, int]], dict[str, Interval]]:
    """Return signed errors on documents that one system alone retrieved, and orders of systems."""
    linear = parse_linear(measure)
    weighed = weigh_systems([as_ranking(run, RULES) for run in runs.values()], linear)
    names, n = list(runs), len(draws.places)
    queries, docs = (list(map(str, ids)) for ids in (weighed.query_ids, weighed.doc_ids))
    places = zip(weighed.queries.tolist(), weighed.docs.tolist(), strict=True)
    pairs = [(queries[query], docs[doc]) for query, doc in places]
    both = [at for at, pair in enumerate(pairs) if pair in truth and pair in other]
    rows = np.array([draws.places[pairs[at][0]] for at in both], np.int64)
    weights = weighed.weights[both]
    gains = linear.gains([(truth[pairs[at]], other[pairs[at]]) for at in both]).reshape(-1, 2)
    means, errors = np.zeros((n, 2, len(names))), np.zeros((n, 2 * len(names)))
    np.add.at(means, rows, gains[:, :, None] * weights[:, None, :])
    alone = (weights != 0) & (np.count_nonzero(weights, axis=1) == 1)[:, None]
    np.add.at(errors, rows, np.hstack([np.diff(gains) * alone, alone]))
    few = n < _FEWEST_QUERIES
    total, drawn = errors.sum(0), draws.counts @ errors
    systems = {}
    for at, name in enumerate(names):
        count = total[len(names) + at]
        if count:
            with np.errstate(invalid="ignore", divide="ignore"):
                values = drawn[:, at] / drawn[:, len(names) + at]
            estimate = float(total[at] / count)
            each = draws.percentile(estimate, values[:0] if few else values)
            systems[name] = (each, int(count))
    if len(names) < 2:
        return systems, {}
    flat = means.reshape(n, -1)
    orders = {"τ": tau, "τ_AP": _tau_ap_of_means}
    sums = [part.reshape(2, -1) for part in (flat.sum(0), *(draws.counts @ flat))]
    order = {}
    for name, statistic in orders.items():
        values = np.array([statistic(*part) for part in sums])
        order[name] = draws.percentile(float(values[0]), values[1:1] if few else values[1:])
    return systems, order


def _tau_ap_of_means(truth: Floats, estimate: Floats) -> float:
    """Return τ_AP of the orders by two lists of means; equal means stand in the order of runs."""
    ranked = [np.argsort(-side, kind="stable").tolist() for side in (truth, estimate)]
    return tau_ap(*ranked)
