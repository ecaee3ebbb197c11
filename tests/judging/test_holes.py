"""Bounds over unjudged documents, against every way to judge them, one by one."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from assay import Conventions, Judgments, Ranking, compare, evaluate, judge, score
from assay.errors import AssayError, UsageError
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


@pytest.mark.parametrize("measure", ["AP", "AP(over=min)@7", "AP(over=k)@7", "GMAP", "R@7"])
@pytest.mark.parametrize("ties", ["order", "expected"])
def test_long_lists_have_the_ends_over_every_number_of_relevant_documents(
    measure: str, ties: str
) -> None:
    """By scores of real judgments: the m highest or the m lowest unjudged documents relevant."""
    rng = random.Random(f"{measure} {ties}")
    run = {f"q{i}": {f"d{j:02}": rng.randint(0, 25) for j in range(60)} for i in range(3)}
    qrels: Lists = {
        q: {d: rng.randint(0, 1) for d in rng.sample(sorted(docs), 9 * i)}
        for i, (q, docs) in enumerate(run.items(), 1)
    }
    rules: Any = {"ties": ties, "empty": "zero"}
    ends = evaluate(run, qrels, measure, unjudged="bounds", **rules).bounds()[measure]
    for row, (q, judged) in enumerate(qrels.items()):
        ranked = sorted(run[q], key=lambda d: (run[q][d], d), reverse=True)
        holes = [d for d in ranked if d not in judged]
        every = {}
        for m in range(len(holes) + 1):
            for name, good in (("best", holes[:m]), ("worst", holes[len(holes) - m :])):
                every[f"{name}{m}"] = {**judged, **{d: int(d in good) for d in holes}}
        values = evaluate(dict.fromkeys(every, run[q]), every, measure, **rules)[measure]
        wanted = np.nan_to_num(values).min(), np.nan_to_num(values).max()
        np.testing.assert_allclose((ends.low[row], ends.high[row]), wanted, rtol=0, atol=1e-12)


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


# The verdict


def two_systems(n: int, hole: str = "x") -> tuple[Lists, Lists, Lists]:
    """A run that finds the relevant document first, one that finds a document of `hole` first."""
    qrels: Lists = {f"q{i:02}": {"a": 1, "b": 0} for i in range(n)}
    good = {q: {"a": 3, "b": 2} for q in qrels}
    other = {q: {hole if i % 3 else "b": 3, "b" if i % 3 else "a": 2} for i, q in enumerate(qrels)}
    return good, other, qrels


def test_the_verdict_says_whether_it_holds() -> None:
    good, other, qrels = two_systems(30, hole="b")
    other = {q: {"b": 1, "x": 0.5} for q in qrels}
    for measure, words in {
        "P@1": "No retrieved document in the top 1 is unjudged",
        "nDCG@1": "No retrieved document in the top 1 is unjudged",
        "RR": "The verdict holds for all grades of the 30 unjudged documents",
    }.items():
        verdict = compare({"good": good, "other": other}, qrels, measure, unjudged="bounds").verdict
        assert words in verdict, verdict
        assert verdict.startswith("good is ")


def test_the_verdict_says_how_many_documents_decide() -> None:
    good, other, qrels = two_systems(30)
    result = compare({"good": good, "other": other}, qrels, "P@1", unjudged="bounds")
    (pair,) = result.bounds
    # 30 leads of which 20 have an unjudged document at rank 1 of the other.
    assert (pair.worst, pair.best, pair.n_unjudged) == (pytest.approx(1 / 3), 1.0, 20)
    assert pair.enough is None
    assert pair.holds == (pair.outcomes[1] == pair.outcomes[0])
    good = {q: {"b": 3, "a": 2} if i > 12 else row for i, (q, row) in enumerate(good.items())}
    result = compare({"good": good, "other": other}, qrels, "P@1", unjudged="bounds")
    (pair,) = result.bounds
    assert pair.enough == 13  # of 13 leads none is left
    assert not pair.holds
    assert "The verdict depends on 20 unjudged documents in the top 1" in result.verdict
    assert "; 13 relevant ones would end the lead)" in result.verdict
    data = result.to_dict()["measures"]["P@1"]
    assert data["bounds"] == [pair.to_dict()]
    assert data["verdict"] == result.verdict


@pytest.mark.parametrize("measure", ["P@2", "DCG@3", "nDCG@3", "RBP"])
def test_so_many_documents_do_end_the_lead(measure: str) -> None:
    """Judged relevant, that number of documents is enough; for sums, one less is not."""
    ended = 0
    for seed in range(8):
        case = Case(("enough", measure, seed), systems=2)
        pair = bounds_of(case, measure)
        means = [
            evaluate(run, case.qrels, measure, allow_mismatch=True).mean() for run in case.runs
        ]
        lead = means[0][measure] - means[1][measure]
        if pair.enough is None or abs(lead) < 1e-12:
            assert pair.exact
            continue
        ended += 1
        holes = [
            (q, d)
            for q, judged in case.qrels.items()
            for d in sorted(
                {d for run in case.runs for d in run.get(q, ()) if judged.get(d, -1) < 0}
            )
        ]
        top = max(*case.grades, 1) if max(case.grades) <= 0 else max(case.grades)
        reached = least_lead(case, measure, holes, top, pair.enough, math.copysign(1, lead))
        assert reached <= 1e-12
        if measure != "nDCG@3":
            fewer = least_lead(case, measure, holes, top, pair.enough - 1, math.copysign(1, lead))
            assert fewer > 0
    assert ended > 1


def least_lead(
    case: Case, measure: str, holes: list[tuple[str, str]], top: float, n: int, sign: float
) -> float:
    """The least lead where n unjudged documents get the highest grade and the others 0."""
    zeros = {
        q: {**{d: 0.0 for p, d in holes if p == q}, **judged} for q, judged in case.qrels.items()
    }
    zeros = {q: {d: max(g, 0.0) for d, g in row.items()} for q, row in zeros.items()}

    def lead(some: tuple[tuple[str, str], ...]) -> float:
        qrels = {q: {**row, **{d: top for p, d in some if p == q}} for q, row in zeros.items()}
        a, b = (evaluate(run, qrels, measure, allow_mismatch=True).mean() for run in case.runs)
        return sign * (a[measure] - b[measure])

    picked: tuple[tuple[str, str], ...] = ()
    for _ in range(n):  # the most harmful next; exact for sums, and enough of a search for nDCG
        left = [pair for pair in holes if pair not in picked]
        picked = (*picked, min(left, key=lambda pair: lead((*picked, pair))))
    return lead(picked)


# Hostile input


def test_all_none_and_one() -> None:
    nothing_judged = {"q": {"z": 1}}
    run = {"q": {"a": 2.0, "b": 1.0}}
    ends = evaluate(run, nothing_judged, "P@5", unjudged="bounds", allow_mismatch=True).bounds()
    assert (ends["P@5"].worst, ends["P@5"].best) == (0.0, 0.4)
    ends = evaluate(run, {"q": {"a": 1, "b": 0}}, "AP@99", unjudged="bounds").bounds()
    assert ends["AP@99"].worst == ends["AP@99"].best == 1.0
    assert ends["AP@99"].n_unjudged == 0
    short = compare({"a": run, "b": {"q": {"b": 1}}}, {"q": {"a": 1}}, "RR", unjudged="bounds")
    assert "over all grades of the 1 unjudged document" in short.verdict


def test_no_grade_above_0_and_empty_queries() -> None:
    run = {"q": {"a": 2.0, "b": 1.0}, "r": {"a": 1.0}}
    qrels: Lists = {"q": {"a": 0}, "r": {"a": -1}}
    for empty, wanted in (("zero", (0.0, 0.75)), ("skip", (0.5, 1.0)), ("error", (0.5, 1.0))):
        scores = evaluate(run, qrels, "RR", unjudged="bounds", empty=empty)
        ends = bound_scores(scores)["RR"]
        assert (ends.worst, ends.best) == wanted, empty
    assert bound_scores(scores)["RR"].low.tolist() == [0.5, 1.0]
    nowhere = evaluate({"q": {}, "r": {}}, {"q": {"a": 0}}, "nDCG@3", unjudged="bounds")
    assert nowhere.bounds()["nDCG@3"].to_dict()["best"] == 0.0


def test_labels_have_equal_ends() -> None:
    rules = Conventions(tiebreak="index", unjudged="bounds")
    hits = judge(
        Ranking.from_scores([[0.1, 0.9, 0.5]]), Judgments.from_targets([2]), conventions=rules
    )
    ends = score(hits, ["RR", "nDCG@2", "AP"]).bounds()
    assert all(each.worst == each.best for each in ends.values())


def test_queries_that_only_some_systems_have_and_clusters() -> None:
    case = Case("clusters", systems=3)
    del case.runs[1]["q3"]
    rules: Any = {"unjudged": "bounds", "allow_mismatch": True}
    groups = {"kind": {q: str(int(q > "q1")) for q in case.qrels}}
    scores = [evaluate(run, case.qrels, "nDCG@3", groups=groups, **rules) for run in case.runs]
    result = compare(*scores, by="kind", resamples=200)
    assert [(each.a, each.b) for each in result.bounds] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert " of 3 pairs (" in result.verdict or "All 3 pairs hold" in result.verdict
    skipping = [
        evaluate(run, case.qrels, "nDCG@3", missing="skip", empty="skip", **rules)
        for run in case.runs
    ]
    for scores_of_one, run in zip(skipping, case.runs, strict=True):
        ends = scores_of_one.bounds()["nDCG@3"]
        rows = [row for row, q in enumerate(scores_of_one.query_ids) if q in run]
        assert np.nanmin(ends.low[rows]) <= ends.worst <= ends.best <= np.nanmax(ends.high[rows])


@pytest.mark.parametrize(
    "key", ["test", "correction", "interval", "baseline", "conventions", "ties"]
)
@pytest.mark.parametrize("value", [np.zeros(3), np.array("t"), [1], {"a": 1}, 3.5, object()])
def test_a_wrong_type_is_named(key: str, value: Any) -> None:
    good, other, qrels = two_systems(8)
    with pytest.raises(AssayError):
        compare({"good": good, "other": other}, qrels, "P@1", **{key: value})


def test_more_wrong_types_are_named() -> None:
    good, other, qrels = two_systems(8)
    with pytest.raises(AssayError, match="A measure is a text"):
        evaluate(good, qrels, np.array(1.0))
    with pytest.raises(UsageError, match="allow_mismatch must be True or False"):
        evaluate(good, qrels, "P@1", allow_mismatch=np.zeros(3))  # type: ignore[arg-type]
    result = compare({"good": good, "other": other}, qrels, "P@1")
    with pytest.raises(UsageError, match="Unknown system array"):
        result.pair(np.zeros(2), "other")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Unknown system"):
        result.differences("P@1", np.zeros(2), "other")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Unknown backend"):
        result.to_frame([1])  # type: ignore[arg-type]
