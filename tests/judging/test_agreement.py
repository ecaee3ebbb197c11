"""Agreement: check values of other programs, scikit-learn, brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError
from assay.judging.agreement import alpha_of, kappa_of, measure_agreement, tau, tau_ap
from tests.judging.samples import GRADES, make_runs

A = [0, 1, 2, 3, 3, 2, 1, 0, 2, 3]
B = [0, 1, 1, 3, 2, 2, 0, 0, 3, 3]
SCALE = np.arange(4.0)


def confusion(a, b, size=4):
    table = np.zeros((size, size))
    np.add.at(table, (a, b), 1)
    return table


def labels_of(values):
    return {(f"q{i}", "d"): float(value) for i, value in enumerate(values)}


def test_check_values_of_scikit_learn_and_krippendorff():
    """scikit-learn 1.9.1 and krippendorff 0.9 on ten pairs of grades."""
    statistics = measure_agreement({"a": labels_of(A), "b": labels_of(B)}).statistics["a × b"]
    expected = {
        "κ": 0.466667,
        "linear κ": 0.692308,
        "weighted κ": 0.851852,
        "α (nominal)": 0.489933,
        "α (ordinal)": 0.845863,
        "α (interval)": 0.858209,
    }
    for name, value in expected.items():
        assert statistics[name].estimate == pytest.approx(value, abs=5e-7), name


def test_kappa_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 4, (2, 60))
        table = confusion(a, b)
        for weights in ("none", "linear", "quadratic"):
            named = None if weights == "none" else weights
            expected = sklearn.cohen_kappa_score(a, b, weights=named, labels=[0, 1, 2, 3])
            assert kappa_of(table, SCALE, weights) == pytest.approx(expected, abs=1e-12)


def brute_alpha(units, level):
    """1 − observed / expected disagreement over all pairs of values, by definition."""
    units = [values for values in units if len(values) > 1]
    pool = sorted(value for values in units for value in values)
    count = {grade: pool.count(grade) for grade in set(pool)}

    def distance(c, k):
        if level == "nominal":
            return float(c != k)
        if level == "interval":
            return (c - k) ** 2
        low, high = min(c, k), max(c, k)
        between = sum(n for grade, n in count.items() if low <= grade <= high)
        return (between - (count[c] + count[k]) / 2) ** 2

    n = len(pool)
    observed = sum(
        distance(v, w) / (len(values) - 1)
        for values in units
        for i, v in enumerate(values)
        for j, w in enumerate(values)
        if i != j
    )
    expected = sum(distance(v, w) for i, v in enumerate(pool) for j, w in enumerate(pool) if i != j)
    return 1 - (observed / n) / (expected / (n * (n - 1)))


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_of_three_labellers_with_gaps_is_its_definition(level):
    rng = np.random.default_rng(5)
    people = {
        name: {
            (f"q{i % 9}", f"d{i}"): float(rng.integers(0, 4))
            for i in range(30)
            if rng.random() < 0.8
        }
        for name in "abc"
    }
    pairs = {pair for grades in people.values() for pair in grades}
    units = [[g[pair] for g in people.values() if pair in g] for pair in sorted(pairs)]
    report = measure_agreement(people)
    assert report.statistics["all"][f"α ({level})"].estimate == pytest.approx(
        brute_alpha(units, level), abs=1e-12
    )


def test_one_grade_only_has_no_coefficient():
    assert math.isnan(kappa_of(np.diag([5.0, 0]), np.array([0.0, 1])))
    assert math.isnan(alpha_of(np.diag([5.0, 0]), np.array([0.0, 1])))


def test_orders_of_systems():
    """τ_AP by its definition, and the values that trectools gives."""
    assert tau_ap("abcd", "bacd") == pytest.approx(1 / 3)
    assert tau_ap("abcd", "abdc") == pytest.approx(7 / 9)
    assert tau_ap("abcd", "abcd") == 1
    assert tau_ap("abcd", "dcba") == -1
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.integers(0, 6, (2, 9)).astype(float)
        assert tau(a, b) == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)
        order = rng.permutation(14).tolist()
        terms = [sum(x < y for x in order[:i]) / i for i, y in enumerate(order) if i]
        mean = float(sum(map(Fraction, terms))) / 13  # added exactly: sum() depends on the Python
        assert tau_ap(range(14), order) == 2 * mean - 1
    with pytest.raises(UsageError, match="Pass two orders of the same systems, at least two"):
        tau_ap("ab", "ac")


def test_a_judge_that_favours_a_system_is_noticed():
    runs = make_runs(3, n_queries=40)
    pairs = {(q, d) for run in runs.values() for q, docs in run.items() for d in docs}
    truth = {pair: float(GRADES[pair]) for pair in pairs}
    mine = {(q, d) for q, docs in runs["s0"].items() for d in docs}
    others = {(q, d) for name in ("s1", "s2") for q, docs in runs[name].items() for d in docs}
    biased = {p: g + (p in mine - others) for p, g in truth.items()}
    report = measure_agreement({"people": truth, "judge": biased}, runs=runs, measure="DCG@6")
    error, count = report.systems["s0"]
    assert count == len(mine - others)
    assert error.estimate == pytest.approx(1.0)
    assert report.systems["s1"][0].estimate == 0
    assert 0 in report.systems["s1"][0]
    same = measure_agreement({"people": truth, "judge": truth}, runs=runs, measure="DCG@6")
    assert same.order["τ"].estimate == same.order["τ_AP"].estimate == 1
    assert same.statistics["people × judge"]["κ"].estimate == 1
    assert same.labels_needed(0.05) == 0
    assert report.confusion.sum() == len(pairs)


@pytest.mark.slow
def test_intervals_cover_what_more_queries_say():
    """Percentile intervals over queries of κ at 40 queries, against the truth of 20,000."""
    rng = np.random.default_rng(11)

    def draw(n):
        hard = rng.random(n) < 0.3
        a = rng.integers(0, 2, (n, 5))
        flip = rng.random((n, 5)) < np.where(hard, 0.4, 0.1)[:, None]
        return a, np.where(flip, 1 - a, a)

    truth = kappa_of(confusion(*(side.ravel() for side in draw(20_000)), size=2), SCALE[:2])
    covered = 0
    for _ in range(40):
        a, b = draw(40)
        sides = [
            {(f"q{q}", f"d{d}"): float(v) for (q, d), v in np.ndenumerate(side)} for side in (a, b)
        ]
        report = measure_agreement(dict(zip("ab", sides, strict=True)), resamples=200)
        covered += truth in report.statistics["a × b"]["κ"]
    assert covered >= 34  # 95 % of 40 is 38; 33 or fewer has a chance of 1 in 300


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(UsageError, match="two labellers"):
        measure_agreement({"a": labels_of(A)})
    with pytest.raises(MismatchError, match="No pair"):
        measure_agreement({"a": {("q", "d"): 1.0}, "b": {("q", "e"): 1.0}})
    few = measure_agreement({"a": labels_of(A[:4]), "b": labels_of(B[:4])})
    assert math.isnan(few.statistics["a × b"]["κ"].low)
    assert "too few" in few.remarks[0]
    assert few.labels_needed(0.1) is None


def test_agreement_by_topic_is_that_of_its_queries():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    pairs = [(f"q{q}", f"d{d}") for q in range(20) for d in range(4)]
    a, b = ({pair: int(rng.integers(0, 3)) for pair in pairs} for _ in range(2))
    topics = {f"q{q}": "even" if q % 2 == 0 else "odd" for q in range(19)}
    report = measure_agreement({"a": a, "b": b}, topics=topics, resamples=200)
    assert list(report.topics) == ["even", "odd"]
    for topic, (n, same, kappa) in report.topics.items():
        part = [pair for pair in pairs if topics.get(pair[0]) == topic]
        left, right = [a[pair] for pair in part], [b[pair] for pair in part]
        assert n == len(part)
        assert same.estimate == np.mean(np.equal(left, right))
        expected = metrics.cohen_kappa_score(left, right, weights="quadratic")
        assert abs(kappa.estimate - expected) < 1e-12
        assert kappa.low <= kappa.estimate <= kappa.high
    each = {query: query for query in topics}
    single = measure_agreement({"a": a, "b": b}, topics=each, resamples=200).topics
    assert len(single) == 19
    assert all(math.isnan(kappa.low) for _, _, kappa in single.values())
    assert "topic" in report.tables()[2].columns
    needed = report.labels_needed(0.05)
    assert f"about {needed:,} labelled pairs for ± 0.05" in report.verdict()
