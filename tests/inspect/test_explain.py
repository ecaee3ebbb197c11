"""explain: every derivation ends in the number that evaluate gives, to the last bit."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest

from assay import Judgments, Ranking, evaluate
from assay.core.conventions import preset
from assay.errors import IdError, UsageError
from assay.inspect.explain import explain
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run
from assay.measures import Definition, parse
from tests.measures.generic import OF_HITS, settings_of

MEASURES = [
    "P@5",
    "P(trunc=true)@5",
    "R@5",
    "R(cap=true)@4",
    "Success@3",
    "RR",
    "RR@2",
    "AP",
    "AP@4",
    "AP(over=hits)@4",
    "AP(over=min)@4",
    "AP(over=k)@4",
    "AP(rel=2)",
    "MAP@R",
    "GMAP",
    "nDCG",
    "nDCG@5",
    "nDCG(gain=exp)@5",
    "nDCG(ideal=retrieved)@5",
    "nDCG(gains=1:3/2:9)",
    "Rprec",
    "Rprec(mult=0.4)",
    "RBP",
    "RBP(graded=true,p=0.9)",
    "RBP@3",
    "ERR@5",
    "ERR",
    "bpref",
    "Judged@5",
    "Judged",
    "Unjudged@5",
    "iprec@0.3",
    "iprec@0",
    "iAP",
    "iAP(levels=0.25/0.5)",
    "SetP",
    "SetR",
    "SetR(cap=true)",
    "SetF",
    "SetF(beta=2)",
    "num_ret",
    "num_rel",
    "num_rel_ret",
    "num_rel_ret@3",
    "num_nonrel_judged_ret",
]
TIES = ["order", "expected", "best", "worst", "midrank-up"]


COVERED = {parse(text).name for text in MEASURES}
OTHERS = [text for name in OF_HITS if name not in COVERED for text in settings_of(name)]


@cache
def made_up(seed: int, levels: int) -> tuple[Ranking, Judgments]:
    rng = random.Random(seed)
    docs = [f"d{i}" for i in range(40)]

    def some(most: int) -> list[str]:
        return rng.sample(docs, rng.randint(1, most))

    queries = rng.choice([1, 2, 5])
    run = {f"q{q}": {d: rng.randrange(levels) / 7 for d in some(30)} for q in range(queries)}
    grades = [-1, 0, 0, 1, 1, 2, 3]
    qrels = {f"q{q}": {d: rng.choice(grades) for d in some(25)} for q in range(queries + 1)}
    return as_ranking(run, preset("trec_eval")), as_judgments(qrels)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("measure", [*MEASURES, *OTHERS])
def test_ends_in_the_number_of_evaluate(measure, ties):
    rules = preset("trec_eval").replace(ties=ties)
    for seed in range(3):
        run, qrels = made_up(seed, levels=[2, 5, 1000][seed % 3])
        scores = evaluate(run, qrels, measure, conventions=rules)
        assert scores.query_ids == qrels.query_ids
        for query, value in zip(scores.query_ids, scores.values[0], strict=True):
            found = explain(run, qrels, query=query, measure=measure, conventions=rules)
            searched = parse(measure).definition.extremes is not None  # the best of all orders
            assert found.exact or ties == "expected" or searched
            assert found.agrees, (query, seed, found.value, found.evaluated)
            assert found.evaluated == value or math.isnan(value)
            assert "WARNING" not in str(found)
            assert found.to_dict()["agrees"]


@pytest.fixture(scope="module")
def real_run(data_dir) -> tuple[Ranking, Judgments]:
    folder = data_dir("robust03")
    qrels = read_qrels(folder / "robust03_qrels.txt.gz")
    return read_run(folder / "input.rutcor03100.gz"), qrels


@pytest.mark.parametrize("measure", ["AP", "nDCG", "nDCG@20", "RBP", "bpref", "iAP", "ERR(gmax=2)"])
@pytest.mark.parametrize("ties", ["order", "best", "worst"])
def test_long_lists_of_real_runs(real_run, measure, ties):
    found = explain(*real_run, query="303", measure=measure, conventions=f"ties:{ties}")
    assert found.exact


def test_the_lines_of_ndcg_by_hand():
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    found = explain(run, {"q": {"a": 1, "c": 3, "z": 2}}, query="q", measure="nDCG@10")
    assert found.columns == ("gain", "discount", "gain·discount", "DCG")
    assert [(line.rank, line.doc, line.grade) for line in found.lines] == [
        (1, "a", 1.0),
        (2, "b", None),
        (3, "c", 3.0),
    ]
    assert found.lines[0].values == (1.0, 1.0, 1.0, 1.0)
    assert found.lines[1].values == ()
    assert found.lines[2].values == (3.0, 0.5, 1.5, 2.5)
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert found.value == pytest.approx(2.5 / ideal)
    assert found.working[0] == "DCG = 2.5"
    assert f"= {ideal:.6g}" in found.working[1]


def test_the_lines_of_ap_by_hand():
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    found = explain(run, {"q": {"a": 1, "c": 1, "z": 1}}, query="q", measure="AP")
    assert [line.values for line in found.lines] == [(1, 1.0, 1.0), (), (2, 2 / 3, 1 + 2 / 3)]
    assert found.working[-1] == f"AP = 1.66667 / 3 = {5 / 9:.6g}"


def test_tie_groups_are_shown():
    run = {"q": {"a": 2.0, "b": 1.0, "c": 1.0, "d": 0.0}}
    listed = explain(run, {"q": {"b": 1}}, query="q", measure="RR")
    assert [line.tie for line in listed.lines] == [None, (2, 3), (2, 3), None]
    assert "depends on the order of equal scores" in listed.notes[0]
    best = explain(run, {"q": {"b": 1}}, query="q", measure="RR", conventions="ties:best")
    assert best.value == 0.5
    assert [line.doc for line in best.lines] == ["a", None, None, "d"]
    mean = explain(run, {"q": {"b": 1}}, query="q", measure="RR", conventions="ties:expected")
    assert mean.value == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert "ranks 2–3: 1 of 2 count" in mean.working[0]


def test_below_rank_20_only_what_counts():
    run = {"q": {f"d{i:03}": -float(i) for i in range(100)}}
    found = explain(run, {"q": {"d005": 1, "d049": 1}}, query="q", measure="AP")
    assert [line.rank for line in found.lines] == [*range(1, 21), 50]
    assert "(29 documents)" in str(found)


def test_missing_and_empty_queries_say_so():
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 0}, "r": {"a": 1}}
    empty = explain(run, qrels, query="q", measure="AP")
    assert math.isnan(empty.value)
    assert empty.exact
    assert "undefined" in str(empty)
    missing = explain(run, qrels, query="r", measure="AP")
    assert missing.value == 0
    assert missing.lines == ()
    assert "not in the run" in missing.notes[0]


def test_integer_queries_by_their_text():
    found = explain({7: {"a": 1.0}}, {7: {"a": 1}}, query="7", measure="RR")
    assert (found.query, found.value) == (7, 1.0)


def test_refusals():
    with pytest.raises(IdError, match="'x'"):
        explain({"q": {"a": 1.0}}, {"q": {"a": 1}}, query="x")
    with pytest.raises(UsageError, match="one measure"):
        explain({"q": {"a": 1.0}}, {"q": {"a": 1}}, query="q", measure="official")


def plain_mean(run, qrels, measure):
    """The mean over every order of the tied documents, each evaluated by itself."""
    groups: dict[float, list[str]] = {}
    for doc, value in run["q"].items():
        groups.setdefault(value, []).append(doc)
    each = [list(itertools.permutations(groups[value])) for value in sorted(groups, reverse=True)]
    orders = [list(itertools.chain.from_iterable(choice)) for choice in itertools.product(*each)]
    lists = {f"{n:06}": {d: -float(r) for r, d in enumerate(o)} for n, o in enumerate(orders)}
    judged = dict.fromkeys(lists, qrels["q"])
    return math.fsum(evaluate(lists, judged, measure).values[0]) / len(orders)


@pytest.mark.parametrize("measure", [*MEASURES, *OTHERS])
def test_the_mean_over_all_orders_is_worked_out_apart_from_score(measure, monkeypatch):
    """With every closed form spoilt, the derivation still gives the mean, and the two disagree."""
    run = {"q": {"a": 3, "b": 2, "c": 2, "d": 2, "e": 1, "f": 1, "g": 0}}
    qrels = {"q": {"b": 1, "c": 3, "d": 0, "e": 2, "f": 0, "g": -1, "x": 1}}
    rules = preset("trec_eval").replace(ties="expected")
    wanted = plain_mean(run, qrels, measure)
    found = explain(run, qrels, query="q", measure=measure, conventions=rules)
    assert found.value == pytest.approx(wanted, rel=1e-12)
    assert found.agrees
    tied = evaluate(run, qrels, measure, conventions=rules).tied[0, 0]
    monkeypatch.setattr(Definition, "expectation", lambda _, at, **arguments: np.full(1, 1e-3))
    spoilt = explain(run, qrels, query="q", measure=measure, conventions=rules)
    assert spoilt.value == found.value
    assert spoilt.agrees == (not tied)
    assert ("WARNING" in str(spoilt)) == tied


def test_the_arithmetic_of_the_mean_is_shown():
    run = {"q": {"a": 2.0, "b": 1.0, "c": 1.0, "d": 0.0}}
    found = explain(run, {"q": {"b": 1, "d": 1}}, query="q", conventions="ties:expected")
    assert found.columns == ("mean gain", "discount", "product", "DCG")
    assert [line.values[0] for line in found.lines if line.values] == [0.5, 0.5, 1.0]
    assert [line.doc for line in found.lines] == ["a", None, None, "d"]
    assert "expected DCG" in str(found)


def test_a_sample_of_orders_is_called_one():
    """The orders of interpolated precision are too many here, and it has no other derivation."""
    run = {"q": {f"d{i}": 1.0 for i in range(60)}}
    qrels = {"q": {f"d{i}": 1 for i in range(8)}}
    found = explain(run, qrels, query="q", measure="iAP", conventions="ties:expected")
    assert found.agrees
    assert not found.exact
    assert 0 < found.error < 0.1
    assert "1000 random orders" in found.working[1]
    assert "within" in found.closing()[1]


@pytest.mark.parametrize(("name", "seen"), [("AP", 12), ("nDCG@10", 10), ("RR", 12), ("P@5", 5)])
def test_documents_that_are_not_listed_are_counted(name, seen):
    run = {"q": {f"d{i:02}": -float(i) for i in range(30)}}
    qrels = {"q": {f"d{i:02}": 1 for i in [*range(11), 25]} | {f"x{i}": 1 for i in range(7)}}
    found = explain(run, qrels, query="q", measure=name)
    assert sum(line.grade is not None for line in found.lines) == seen
    place = "in the list" if seen == 12 else f"at ranks ≤ {seen} of the list"
    below = "" if seen == 12 else f", {12 - seen} below rank {seen}"
    assert found.notes == (
        f"Of 19 documents that count for {name}, {seen} are {place}{below}, and 7 were not "
        "retrieved.",
    )
    assert found.notes[0] in str(found)


def test_a_long_tie_is_shown_by_its_ends():
    run = {"q": {f"d{i:03}": 1.0 for i in range(200)}}
    found = explain(run, {"q": {"d005": 1}}, query="q", measure="AP", conventions="ties:expected")
    assert [line.rank for line in found.lines] == [*range(1, 21), 200]
    assert found.lines[-1].values[-1] == pytest.approx(found.value)


def test_the_text_of_the_query_is_shown_and_joins(tmp_path):
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"_id": "q1", "text": "Who lifts wings?"}\n{"_id": "q2", "text": "Why?"}\n')
    run = {"q1": {"a": 2.0, "b": 1.0}}
    plain = explain(run, {"q1": {"b": 1}}, query="q1", measure="RR")
    shown = explain(run, {"q1": {"b": 1}}, query="q1", measure="RR", queries=queries)
    joined = explain(run, {"Who lifts wings?": {"b": 1}}, query="q1", measure="RR", queries=queries)
    assert shown.notes == ("query q1: Who lifts wings?", *plain.notes) == joined.notes
    assert "query q1: Who lifts wings?" in str(shown)
    assert shown.value == joined.value == 0.5
