"""The convention `unjudged`: condensed lists, and the measures that say what nobody judged."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from assay import Conventions, Judgments, Ranking, Scores, evaluate, judge, preset, score
from assay.compat.trec_eval import trec_eval
from assay.core.hits import condense
from assay.errors import ConventionError, MeasureError, UsageError
from assay.inspect.explain import explain
from assay.io.formats import as_judgments, as_ranking
from assay.measures import parse
from assay.scoring.chance import ceiling, chance
from tests.peers.their_names import parse_theirs

Lists = dict[str, dict[str, float]]
THEIRS = {
    **{"P_5": "P@5", "recall_5": "R@5", "map": "AP", "map_cut_5": "AP@5", "recip_rank": "RR"},
    **{"ndcg": "nDCG", "ndcg_cut_5": "nDCG@5", "Rprec": "Rprec", "bpref": "bpref"},
    **{"success_5": "Success@5", "set_P": "SetP", "set_recall": "SetR", "num_ret": "num_ret"},
    **{"num_rel_ret": "num_rel_ret", "infAP": "infAP", "iprec_at_recall_0.20": "iprec@0.2"},
}


def made_up(seed: int, *, queries: int = 12, ties: bool = True) -> tuple[Lists, Lists]:
    """Runs with ties, and judgments with holes and grades below 0."""
    rng = random.Random(seed)
    docs = [f"d{i:02}" for i in range(30)]
    levels = 4 if ties else 10**6
    names = [f"q{i}" for i in range(queries)]
    run = {q: {d: float(rng.randrange(levels)) for d in rng.sample(docs, 12)} for q in names}
    qrels = {q: {d: rng.choice([-1, 0, 0, 1, 2]) for d in rng.sample(docs, 14)} for q in names}
    for judged in qrels.values():
        judged["d00"] = 1
    return run, qrels


# Condensed lists


@pytest.mark.parametrize("level", [1, 2])
def test_condensed_lists_are_those_of_trec_eval(level: int) -> None:
    """pytrec_eval is built from trec_eval 9, and its flag is -J."""
    theirs = pytest.importorskip("pytrec_eval")
    for seed in range(5):
        run, qrels = made_up(seed)
        names = {name.rpartition("_")[0] if name[-1].isdecimal() else name for name in THEIRS}
        cut = {"P_5": "P.5", "recall_5": "recall.5", "map_cut_5": "map_cut.5"}
        cut |= {"ndcg_cut_5": "ndcg_cut.5", "success_5": "success.5"}
        cut |= {"iprec_at_recall_0.20": "iprec_at_recall"}
        asked = {cut.get(name, name) for name in THEIRS}
        assert len(names) <= len(asked)
        judge_all = theirs.RelevanceEvaluator(qrels, asked, level, judged_docs_only_flag=True)
        wanted = judge_all.evaluate(run)
        rules = preset("trec_eval_9").replace(unjudged="condensed")
        measures = [parse(name) for name in THEIRS.values()]
        measures = [
            m(rel=level) if "rel" in m.definition.params and level > 1 else m for m in measures
        ]
        found = evaluate(run, qrels, measures, conventions=rules)
        for measure, name in zip(measures, THEIRS, strict=True):
            for query, value in zip(found.query_ids, found[measure], strict=True):
                got = 0.0 if math.isnan(value) else value
                assert got == pytest.approx(wanted[query][name], abs=1e-12), (name, query)


def test_condensed_lists_are_those_of_ir_measures() -> None:
    theirs = pytest.importorskip("ir_measures")
    names = {"P(judged_only=True)@5": "P@5", "nDCG(judged_only=True)@5": "nDCG@5"}
    names |= {"AP(judged_only=True)": "AP", "R(judged_only=True)@3": "R@3"}
    names |= {"Rprec(judged_only=True)": "Rprec", "Success(judged_only=True)@2": "Success@2"}
    run, qrels = made_up(7)
    asked = [parse_theirs(theirs, name) for name in names]
    wanted = {
        (metric.query_id, str(metric.measure)): metric.value
        for metric in theirs.iter_calc(asked, qrels, run)
    }
    rules = preset("trec_eval_9").replace(unjudged="condensed")
    found = evaluate(run, qrels, list(names.values()), conventions=rules)
    for measure, name in zip(asked, names.values(), strict=True):
        for query, value in zip(found.query_ids, np.nan_to_num(found[name]), strict=True):
            assert value == pytest.approx(wanted[query, str(measure)], abs=1e-12)


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst", "midrank-up"])
def test_condensed_lists_are_runs_without_what_nobody_judged(ties: Any) -> None:
    """Also under every rule for ties, and where the depth cuts first."""
    measures = ["nDCG@4", "AP", "RR", "bpref", "P@3", "num_ret", "Judged", "Unjudged@4", "ERR@5"]
    for seed, depth in itertools.product(range(4), (0, 6) if ties == "order" else (0,)):
        run, qrels = made_up(seed)
        shorter = {
            q: dict(
                sorted(row.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[
                    : depth or 99
                ]
            )
            for q, row in run.items()
        }
        left = {
            q: {d: s for d, s in row.items() if qrels[q].get(d, -1) >= 0}
            for q, row in shorter.items()
        }
        rules = Conventions(ties=ties, depth=depth, unjudged="condensed")
        found = evaluate(run, qrels, measures, conventions=rules)
        judged = {q: row for q, row in left.items() if row}
        wanted = evaluate(judged, qrels, measures, conventions=Conventions(ties=ties))
        np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=1e-15)


def test_labels_and_targets_have_no_holes() -> None:
    ranking = Ranking.from_scores([[0.1, 0.9, 0.5]])
    for judgments in (Judgments.from_targets([2]), Judgments.from_labels(["a"], ["b", "a", "a"])):
        plain = score(judge(ranking, judgments), ["RR", "P@2", "num_ret"]).values
        for unjudged in ("condensed", "bounds"):
            rules = preset("trec_eval").replace(unjudged=unjudged, tiebreak="index")
            hits = judge(ranking, judgments, conventions=rules)
            np.testing.assert_array_equal(score(hits, ["RR", "P@2", "num_ret"]).values, plain)
        assert condense(hits) is hits


def test_chance_is_that_of_a_random_order_of_the_judged_documents() -> None:
    run, qrels = made_up(3, queries=2)
    rules = preset("trec_eval").replace(unjudged="condensed")
    hits = judge(as_ranking(run, rules), as_judgments(qrels), conventions=rules)
    judged = [[g for g in qrels[q].values() if g >= 0] for q in sorted(qrels)]
    found = chance(hits, "P@3", conventions=rules, n_docs=500).values[0]
    wanted = [sum(g > 0 for g in grades) / len(grades) for grades in judged]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert (ceiling(hits, "P@3", conventions=rules, n_docs=500).values == 1).all()


def test_score_cannot_change_what_the_join_decided() -> None:
    run, qrels = {"q": {"x": 2.0, "a": 1.0}}, {"q": {"a": 1}}
    hits = judge(as_ranking(run, preset("trec_eval")), as_judgments(qrels))
    scores = score(hits, "RR", conventions="preset:trec_eval|unjudged:condensed")
    assert scores["RR"].tolist() == [0.5]
    assert "unjudged" not in scores.signature


def test_the_signature_names_the_choice_only_where_it_is_one() -> None:
    assert "unjudged" not in preset("trec_eval").signature()
    mine = preset("trec_eval").replace(unjudged="condensed")
    assert "|unjudged:condensed|" in mine.signature()
    assert Conventions.parse(mine.signature()) == mine
    with pytest.raises(ConventionError, match="Did you mean condensed"):
        Conventions(unjudged="condense")
    with pytest.raises(ConventionError, match="ties order and expected only, found 'best'"):
        Conventions(unjudged="bounds", ties="best")


def test_explain_numbers_the_judged_documents() -> None:
    run, qrels = {"q": {"a": 5, "b": 4, "c": 3, "d": 2}}, {"q": {"b": 1, "d": 1, "c": -1}}
    derived = explain(run, qrels, query="q", measure="nDCG", unjudged="condensed")
    assert [(line.rank, line.doc, line.grade) for line in derived.lines] == [
        (1, "b", 1),
        (2, "d", 1),
    ]
    assert derived.agrees
    assert derived.value == 1.0


# infAP, RBPresid and DCG


def inferred(ranked: list[str], judged: dict[str, float], rel: float) -> float:
    """infAP of one list, document by document."""
    relevant = other = unknown = 0
    total = 0.0
    for above, doc in enumerate(ranked):
        grade = judged.get(doc)
        if grade is None:
            continue
        if grade < 0:
            unknown += 1
        elif grade < rel:
            other += 1
        else:
            term = 1 / (above + 1)
            if above:
                share = (relevant + 1e-5) / (relevant + other + 2e-5)
                seen = (relevant + other + unknown) / above
                term += above / (above + 1) * seen * share
            total += term
            relevant += 1
    return total / sum(grade >= rel for grade in judged.values())


@pytest.mark.parametrize("rel", [1, 2])
def test_inferred_ap_is_that_of_trec_eval(rel: int) -> None:
    """trec_eval 10.0, m_infap.c; its printed values are compared in tests/compat."""
    for seed in range(20):
        run, qrels = made_up(seed, ties=False)
        qrels = {q: {**row, "d00": 2} for q, row in qrels.items()}
        found = evaluate(run, qrels, f"infAP(rel={rel})").values[0]
        for query, value in zip(sorted(qrels), found, strict=True):
            ranked = sorted(run[query], key=lambda doc: -run[query][doc])
            assert value == pytest.approx(inferred(ranked, qrels[query], rel), abs=1e-14)


def test_inferred_ap_has_the_value_of_a_sampled_pool() -> None:
    """Three of four pooled documents judged, by hand."""
    run = {"q": {"a": 4, "b": 3, "x": 2, "c": 1}}
    qrels = {"q": {"a": 1, "b": -1, "c": 1, "z": 0}}
    wanted = (1 + (1 + 2 * (1 + 1e-5) / (1 + 2e-5)) / 4) / 2
    assert evaluate(run, qrels, "infAP").mean()["infAP"] == pytest.approx(wanted, abs=1e-15)


@pytest.mark.parametrize("p", [0.0, 0.5, 0.9, 1.0])
def test_the_residual_is_that_of_trec_eval(p: float) -> None:
    """trec_eval 10.0, m_rbp_resid.c; the line is printed by `trec_eval`, too."""
    for seed in range(10):
        run, qrels = made_up(seed, ties=False)
        found = evaluate(run, qrels, f"RBPresid(p={p})").values[0]
        printed = trec_eval(qrels, run, [f"rbp_resid.p={p}"], per_query=True, summary=False)
        assert [f"{value:.4f}" for value in found] == [
            line.split("\t")[2] for line in printed.splitlines()
        ]
        for query, value in zip(sorted(qrels), found, strict=True):
            ranked = sorted(run[query], key=lambda doc: -run[query][doc])
            weights = [p**i for i, d in enumerate(ranked) if qrels[query].get(d, -1) < 0]
            wanted = p ** len(ranked) + (1 - p) * sum(weights) if weights else 0.0
            assert value == pytest.approx(wanted, abs=1e-12)


def test_a_list_without_holes_has_no_residual() -> None:
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 0, "b": 1}}
    assert evaluate(run, qrels, "rbp_resid").mean()["RBPresid(p=0.9)"] == 0.0
    assert parse("rbp_resid") == parse("RBPresid(p=0.9)")


def test_rbp_and_its_residual_bound_rbp() -> None:
    """What the list and all beyond it could still add."""
    run, qrels = made_up(2, ties=False)
    rules = {"unjudged": "bounds"}
    scores = evaluate(run, qrels, ["RBP(p=0.9)", "RBPresid(p=0.9)"], **rules)
    high = scores.bounds()["RBP(p=0.9)"].high
    np.testing.assert_allclose(high, scores.values.sum(axis=0) - 0.9**12, rtol=0, atol=1e-12)


def test_what_says_nothing_about_quality_is_not_compared() -> None:
    from assay import compare

    run, qrels = made_up(1)
    with pytest.raises(UsageError, match="RBPresid cannot be compared"):
        compare({"a": run, "b": run}, qrels, "RBPresid")


def test_dcg_is_that_of_ranx() -> None:
    """Gains 3, 0 and 1 at ranks 1, 2 and 3; ranx calls 2^g − 1 dcg_burges."""
    run, qrels = {"q": {"a": 3.0, "x": 2.0, "b": 1.0}}, {"q": {"a": 3, "b": 1}}
    mean = evaluate(run, qrels, ["dcg", "DCG@2", "dcg_burges@3", "nDCG"]).mean()
    assert mean["DCG"] == 3.5
    assert mean["DCG@2"] == 3.0
    assert mean["DCG(gain=exp)@3"] == 7.5
    assert mean["nDCG"] == pytest.approx(3.5 / (3 + 1 / math.log2(3)))
    with pytest.raises(MeasureError, match="DCG has no parameter 'ideal'"):
        parse("DCG(ideal=judged)")


def test_scores_of_batches_have_no_bounds() -> None:
    run, qrels = made_up(4, queries=2)
    parts = [
        evaluate({q: run[q]}, {q: qrels[q]}, "P@3", unjudged="bounds", allow_mismatch=True)
        for q in run
    ]
    merged = Scores.merge(*parts)
    assert "bounds" not in merged.to_dict()
    with pytest.raises(UsageError, match="Bounds need rankings"):
        merged.bounds()
    with pytest.raises(UsageError, match="unjudged='bounds'"):
        evaluate(run, qrels, "P@3").bounds()
