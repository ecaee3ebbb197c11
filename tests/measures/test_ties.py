"""Ties: every measure under every rule against brute force over all orders of tied documents."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

from assay import Judgments, Ranking, evaluate, judge, judge_ranks, parse, preset, score
from assay.errors import MeasureError
from assay.measures import REGISTRY
from tests.measures.generic import (
    OF_HITS,
    as_run,
    every_setting,
    is_varied,
    midrank_up,
    settings_of,
    value_in_order,
    values_over_orders,
)
from tests.measures.oracle import ORACLES, PARAMETERS, Grade, Listing

MEASURES = every_setting()
GRADES: list[Grade] = [None, None, 0, 0, 1, 1, 2, 3, -1, 0.5]
TOLERANCE = 1e-12


def test_plain_definitions_are_of_registered_measures_and_have_settings():
    assert set(ORACLES) == set(PARAMETERS)
    assert set(ORACLES) <= set(REGISTRY)


@pytest.mark.parametrize("name", OF_HITS)
def test_every_parameter_is_varied(name):
    texts = [parse(text) for text in settings_of(name)]
    assert {measure.name for measure in texts} == {name}
    assert is_varied(REGISTRY[name], texts)


# Data: small lists with many ties


def _listing(rng: random.Random) -> Listing:
    """Groups of up to 6 documents, never more than some thousand orders in all."""
    groups: list[tuple[Grade, ...]] = []
    kinds = rng.sample(GRADES, rng.randint(1, len(GRADES)))
    orders = 1
    for _ in range(rng.randint(0, 4)):
        size = rng.choice([1, 1, 2, 3, 4, 6])
        orders *= math.factorial(size)
        if orders > 1500:
            break
        groups.append(tuple(rng.choice(kinds) for _ in range(size)))
    judged = [grade for group in groups for grade in group if grade is not None]
    unseen = [rng.choice([0, 0, 1, 2, -1, 0.5, 3]) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
    return Listing(tuple(groups), (*judged, *unseen))


@cache
def listings() -> tuple[Listing, ...]:
    rng = random.Random(20080330)
    hard = (
        Listing((), (1.0,)),
        Listing(((1.0,) * 6,), (1.0,) * 6),
        Listing(((None,) * 6,), (1.0,)),
        Listing(((1.0, 0.0, None, -1.0, 2.0, 3.0),), (1.0, 0.0, -1.0, 2.0, 3.0)),
        Listing(((0.0,), (-1.0,)), (0.0, -1.0)),
        Listing(((None,), (-1.0,), (0.5, 3.0)), (0.5, -1.0, 3.0)),
    )
    return (*hard, *(_listing(rng) for _ in range(75)))


@cache
def data() -> tuple[dict, dict]:
    return as_run(listings())


def values(name: str, ties: str) -> np.ndarray:
    return evaluate(*data(), name, conventions=preset("trec_eval").replace(ties=ties))[name]


@cache
def brute(name: str) -> dict[str, list[float | None]]:
    measure = parse(name)
    each = [values_over_orders(measure, listing) for listing in listings()]
    return {
        "expected": [math.fsum(v) / len(v) for v in each],
        "best": [max(v) for v in each],
        "worst": [min(v) for v in each],
        "order": [value_in_order(measure, listing) for listing in listings()],
        "midrank-up": [midrank_up(measure, listing) for listing in listings()],
    }


@pytest.mark.parametrize("name", MEASURES)
def test_every_tie_rule_agrees_with_brute_force(name):
    for ties, wanted in brute(name).items():
        if None not in wanted:
            found = values(name, ties)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE, err_msg=ties)


@pytest.mark.parametrize("name", MEASURES)
def test_the_tie_share_counts_queries_whose_value_depends_on_ties(name):
    scores = evaluate(*data(), name, conventions=preset("trec_eval").replace(empty="zero"))
    spread = np.subtract(brute(name)["best"], brute(name)["worst"])
    depends = np.nan_to_num(spread) > TOLERANCE
    np.testing.assert_array_equal(scores.tied[0], depends)
    counts = scores.mean().counts[str(parse(name))]
    assert counts.tied == depends.sum()
    assert counts.tied_share == depends.sum() / len(listings())


COUNTS_GRADE_0 = [
    *("R(rel=0)@3", "RR(rel=-1)@4", "bpref(rel=0)", "nDCG(gains=-1:2/0:1)@3"),
    *("DCG(gains=0:1)@3", "infAP(rel=0)"),
]


@pytest.mark.parametrize("name", COUNTS_GRADE_0)
def test_labels_refuse_a_measure_that_counts_grade_0(name):
    with pytest.raises(MeasureError, match="grade 0"):
        score(judge_ranks([1]), name)


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in COUNTS_GRADE_0])
def test_labels_under_ties(name):
    """Label judgments know every document: what is not relevant is judged not relevant."""
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 3, (12, 6)).astype(float)
    query_labels, doc_labels = rng.integers(0, 3, 12), rng.integers(0, 3, 6)
    for ties in ("expected", "best", "worst", "midrank-up", "order"):
        rules = preset("label_retrieval").replace(ties=ties)
        judgments = Judgments.from_labels(query_labels, doc_labels)
        hits = judge(Ranking.from_scores(scores), judgments, conventions=rules)
        found = score(hits, name, conventions=rules)[name]
        wanted = [
            _under(ties, name, _label_listing(row, doc_labels == label))
            for row, label in zip(scores, query_labels, strict=True)
        ]
        if None not in wanted:
            np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE, err_msg=ties)


def _label_listing(scores: np.ndarray, relevant: np.ndarray) -> Listing:
    groups = [
        tuple(float(r) for r in relevant[scores == value]) for value in sorted({*scores})[::-1]
    ]
    return Listing(tuple(groups), tuple(map(float, relevant)))


def _under(ties: str, name: str, listing: Listing) -> float | None:
    measure = parse(name)
    if ties == "order":
        return value_in_order(measure, listing)
    if ties == "midrank-up":
        return midrank_up(measure, listing)
    each = values_over_orders(measure, listing)
    return {"best": max, "worst": min, "expected": lambda v: math.fsum(v) / len(v)}[ties](each)


# Numbers known beforehand


def rr_of(better: int, tied: int, ties: str) -> float:
    hits = judge_ranks([better + 1], tied=[tied])
    return float(
        score(hits, "RR", conventions=preset("label_retrieval").replace(ties=ties))["RR"][0]
    )


@pytest.mark.parametrize(
    ("better", "tied", "midrank", "expected", "best", "worst"),
    [
        (0, 1, 0.5, 0.75, 1, 0.5),
        (0, 2, 0.5, 0.6111, 1, 0.3333),
        (0, 3, 0.3333, 0.5208, 1, 0.25),
        (4, 5, 0.125, 0.1409, 0.2, 0.1),
    ],
)
def test_one_target_with_ties(better, tied, midrank, expected, best, worst):
    found = [rr_of(better, tied, ties) for ties in ("midrank-up", "expected", "best", "worst")]
    assert found == pytest.approx([midrank, expected, best, worst], abs=5e-5)


def test_five_equal_scores_with_one_relevant():
    run, qrels = {"q": dict.fromkeys("abcde", 1.0)}, {"q": {"c": 1}}
    wanted = {"expected": 0.456667, "best": 1.0, "worst": 0.2}
    for ties, value in wanted.items():
        rules = preset("trec_eval").replace(ties=ties)
        assert evaluate(run, qrels, "RR", conventions=rules).mean()["RR"] == pytest.approx(
            value, abs=5e-7
        )


def test_micro_and_macro_of_two_scenes():
    hits = judge_ranks(
        [1, 3, 5, 0], has_target=[True, True, True, False], query_ids=["a", "b", "c", "d"]
    )
    scores = score(hits, "AP", conventions="keypoints")
    scores = scores.with_groups(scene={"a": 1, "b": 1, "c": 2, "d": 2})
    found = [
        scores.mean(by=by, empty=empty)["AP"]
        for by in (None, "scene")
        for empty in ("skip", "zero")
    ]
    assert found == pytest.approx([0.5111, 0.3833, 0.4333, 0.3833], abs=5e-5)


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
@pytest.mark.parametrize("over", ["min", "k"])
def test_without_a_cutoff_average_precision_divides_by_all_that_is_relevant(over, ties):
    """One of four found, in a list of one: there is no k that could make it 1."""
    rules = preset("trec_eval").replace(ap=over, ties=ties)
    qrels = {"q": dict.fromkeys("abcd", 1)}
    assert evaluate({"q": {"a": 1.0}}, qrels, "AP", conventions=rules).mean()["AP"] == 0.25
    run = {"q": dict.fromkeys("axyz", 1.0)}
    found = evaluate(run, qrels, ["AP", "AP(over=R)"], conventions=rules).values[:, 0]
    assert found[0] == found[1]


def test_large_tie_groups_stay_exact():
    """A group of 400: too many orders to try, so the law of one random place is the judge."""
    n = 400
    hits = judge_ranks([1], tied=[n - 1], n_docs=n)
    rules = preset("label_retrieval").replace(ties="expected")
    wanted = {
        "RR": math.fsum(1 / r for r in range(1, n + 1)) / n,
        "AP@7": math.fsum(1 / r for r in range(1, 8)) / n,
        "nDCG": math.fsum(1 / math.log2(1 + r) for r in range(1, n + 1)) / n,
        "Success@10": 10 / n,
        "iprec@1": math.fsum(1 / r for r in range(1, n + 1)) / n,
        "ERR(gmax=1)": math.fsum(0.5 / r for r in range(1, n + 1)) / n,
        "RBP": math.fsum(0.2 * 0.8 ** (r - 1) for r in range(1, n + 1)) / n,
        "bpref": math.fsum(1 - min(x, 1) for x in range(n)) / n,
    }
    scores = score(hits, list(wanted), conventions=rules)
    for name, value in wanted.items():
        assert scores[name][0] == pytest.approx(value, abs=1e-13), name


@pytest.mark.parametrize("name", MEASURES)
def test_worst_expected_best_are_in_order(name):
    """On long rows with many ties, where no brute force reaches."""
    rng = np.random.default_rng(1)
    run = {
        f"q{q}": {f"d{d}": float(s) for d, s in enumerate(rng.integers(0, 4, 60))}
        for q in range(10)
    }
    qrels = {
        f"q{q}": {f"d{d}": float(g) for d, g in enumerate(rng.integers(-1, 4, 45))}
        for q in range(10)
    }
    by_rule = {
        ties: evaluate(run, qrels, name, conventions=preset("trec_eval").replace(ties=ties))[name]
        for ties in ("worst", "order", "expected", "midrank-up", "best")
    }
    for ties in ("order", "expected", "midrank-up"):
        assert (by_rule["worst"] <= by_rule[ties] + 1e-15).all(), ties
        assert (by_rule[ties] <= by_rule["best"] + 1e-15).all(), ties
