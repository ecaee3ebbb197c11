"""Bounds over unjudged documents, against every way to judge them, one by one."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from assay import compare, evaluate
from assay.judging.holes import PairBounds, bound_scores
from assay.measures import parse
from tests.measures.oracle import PARAMETERS

Lists = dict[str, dict[str, float]]
DOCS = [f"d{i}" for i in range(8)]
EVERY = [text for texts in PARAMETERS.values() for text in texts] + ["infAP", "infAP(rel=2)"]
EVERY.remove("nDCG(gains=-1:2/0:1)@3")  # the gain of a negative grade, which no judgment gives
ABOUT_JUDGMENTS = ("Judged", "Unjudged", "RBPresid", "num_ret")
WEIGHED = [
    *("P@1", "P@3", "P(rel=2)@4", "P@1000", "DCG", "DCG@3", "DCG(gain=exp)@2", "DCG(gains=0:1)@3"),
    *("nDCG", "nDCG@1", "nDCG@3", "nDCG(gain=exp)@3", "nDCG(gains=1:3/2:0.5)@4", "nDCG@99"),
    *("nDCG(gains=0:1/1:2)@3", "RBP", "RBP(p=0.5)@3", "RBP(rel=2)"),
]
OTHERS = ["AP", "AP@2", "R@2", "RR", "Rprec", "bpref", "P(trunc=true)@2", "nDCG(ideal=retrieved)@3"]
SCALES = ([0, 1], [0, 1, 2], [1, 2, 3], [0], [-1, 0, 1], [0, 0.5, 1])


class Case:
    """Some queries with ties and holes: runs, judgments, and the grades of the scale."""

    def __init__(self, seed: object, systems: int = 1) -> None:
        rng = random.Random(str(seed))
        grades = rng.choice(SCALES)
        queries = [f"q{i}" for i in range(4)]
        self.runs = [
            {
                q: {d: rng.randint(0, 3) for d in rng.sample(DOCS, rng.randint(1, 4))}
                for q in queries
            }
            for _ in range(systems)
        ]
        self.qrels: Lists = {
            q: {d: rng.choice(grades) for d in rng.sample(DOCS, rng.randint(0, 5))} for q in queries
        }
        self.qrels["z"] = {f"z{i}": float(grade) for i, grade in enumerate(grades)}
        self.grades = grades

    def judgments(self, query: str, rel: float) -> list[dict[str, float]]:
        """All judgments of a query in which no retrieved document is left unjudged."""
        scale = sorted({grade for grade in self.grades if grade >= 0} | {0})
        if max(scale) < max(rel, 0.5):
            scale.append(max(rel, 1))
        judged = self.qrels[query]
        holes = sorted({d for run in self.runs for d in run[query] if judged.get(d, -1) < 0})
        each = itertools.product(scale, repeat=len(holes))
        return [{**judged, **dict(zip(holes, grades, strict=True))} for grades in each]

    def values(self, measure: str, **rules: Any) -> Iterator[list[np.ndarray]]:
        """For each query the value of each system under every judgment; NaN where undefined."""
        rel = float(dict(parse(measure).params).get("rel", 1))
        every = {
            f"{query}-{i}": (query, judged)
            for query in list(self.qrels)[:-1]
            for i, judged in enumerate(self.judgments(query, rel))
        }
        qrels = {name: judged for name, (_, judged) in every.items()} | {"z": {"x": 1}}
        tables = []
        for run in self.runs:
            copies = {name: run[query] for name, (query, _) in every.items()} | {"z": {"x": 1}}
            scores = evaluate(copies, qrels, measure, allow_mismatch=True, **rules)
            values = scores[measure]
            if rules.get("empty") == "zero":
                values = np.where(np.isnan(values), 0.0, values)
            tables.append(dict(zip(map(str, scores.query_ids), values, strict=True)))
        for query in list(self.qrels)[:-1]:
            names = [name for name in every if name.startswith(f"{query}-")]
            yield [np.array([table[name] for name in names]) for table in tables]


@pytest.mark.parametrize("measure", EVERY)
def test_one_system_has_the_bounds_of_all_judgments(measure: str) -> None:
    for ties, empty in (("order", "zero"), ("expected", "skip")):
        case = Case((measure, ties, empty))
        rules: Any = {"ties": ties, "empty": empty}
        scores = evaluate(
            case.runs[0], case.qrels, measure, unjudged="bounds", allow_mismatch=True, **rules
        )
        ends = bound_scores(scores)[measure]
        if parse(measure).name in ABOUT_JUDGMENTS:
            now = scores[measure]
            np.testing.assert_array_equal(
                ends.low, np.where(np.isnan(now) & (empty == "zero"), 0, now)
            )
            np.testing.assert_array_equal(ends.low, ends.high)
            continue
        for row, (values,) in enumerate(case.values(measure, **rules)):
            found = ends.low[row], ends.high[row]
            defined = values[~np.isnan(values)]
            wanted = (defined.min(), defined.max()) if len(defined) else (math.nan, math.nan)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("measure", [*WEIGHED, *OTHERS])
def test_differences_have_the_bounds_of_all_judgments(measure: str) -> None:
    """Exact for weighted sums over one ideal; for others no judgment leads beyond."""
    for ties, seed in itertools.product(("order", "expected"), range(2)):
        case = Case((measure, ties, seed), systems=2)
        pair = bounds_of(case, measure, ties=ties)
        assert pair.exact == (measure in WEIGHED)
        means = np.zeros(2)
        for row, (a, b) in enumerate(case.values(measure, ties=ties, empty="zero")):
            found, wanted = (pair.low[row], pair.high[row]), ((a - b).min(), (a - b).max())
            means += wanted
            if pair.exact:
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
            assert found[0] <= wanted[0] + 1e-12
            assert found[1] >= wanted[1] - 1e-12
        if pair.exact:  # the last query has nothing to retrieve
            np.testing.assert_allclose((pair.worst, pair.best), means / 5, rtol=0, atol=1e-12)


def bounds_of(case: Case, measure: str, **rules: Any) -> PairBounds:
    scores = [
        evaluate(run, case.qrels, measure, unjudged="bounds", allow_mismatch=True, **rules)
        for run in case.runs
    ]
    (pair,) = compare(*scores, resamples=200).bounds
    return pair


def test_means_leave_out_queries_that_stay_empty() -> None:
    """Under `empty: skip` the worst and the best mean choose which empty queries count."""
    for seed in range(30):
        case = Case(("means", seed))
        measure = ["P@2", "nDCG@2", "R@2", "GMAP", "num_rel"][seed % 5]
        scores = evaluate(
            case.runs[0], case.qrels, measure, unjudged="bounds", empty="skip", allow_mismatch=True
        )
        ends = bound_scores(scores)[measure]
        every = [values for (values,) in case.values(measure, empty="skip")]
        last = scores[measure][-1]
        means = []
        for chosen in itertools.product(
            *(sorted(set(values.tolist()), key=str) for values in every)
        ):
            values = np.array([*chosen, last])
            values = values[~np.isnan(values)]
            if measure == "GMAP":
                values = np.log(np.maximum(values, 1e-5))
            mean = (
                values.sum() if measure == "num_rel" else values.mean() if len(values) else math.nan
            )
            means.append(math.exp(mean) if measure == "GMAP" else mean)
        wanted = np.nanmin(means), np.nanmax(means)
        np.testing.assert_allclose((ends.worst, ends.best), wanted, rtol=0, atol=1e-12)
