"""ir_measures' names: its example, its numbers, its ways of giving data, and what is not there."""

from __future__ import annotations

import gzip
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import assay
import assay.compat.ir_measures as ours
from assay.compat.ir_measures import AP, ERR, RBP, RR, IPrec, Judged, NumQ, P, SetF, SetRelP, nDCG
from tests.peers.their_names import parse_theirs

QRELS = {"Q0": {"D0": 0, "D1": 1}, "Q1": {"D0": 0, "D3": 2}}
RUN = {"Q0": {"D0": 1.2, "D1": 1.0}, "Q1": {"D0": 2.4, "D3": 3.6}}
ASKED = (
    *("P@5", "P(rel=2)@3", "RR", "RR(rel=2)", "Rprec", "Rprec(rel=2)", "AP", "AP@5", "nDCG"),
    *("AP(rel=2)@4", "nDCG@5", "R@5", "R(rel=2)@5", "Bpref", "Bpref(rel=2)", "NumRet", "NumQ"),
    *("infAP", "infAP(rel=2)"),
    *("NumRel", "SetP", "SetP(rel=2)", "SetR", "SetF", "SetF(beta=0.3)", "SetAP", "SetRelP"),
    *("Success@3", "Success(rel=2)@5", "IPrec@0.2", "IPrec(rel=2)@0.55", "IPrec@1.0", "NumRelRet"),
    *("RR@3", "RR(rel=2)@10", "Judged@3", "Judged@10", "Judged", "Accuracy", "Accuracy(rel=2)@6"),
    *("nDCG(gains={0:1,1:2})@5", "nDCG(gains={2:7})", "NumRet(rel=3)", "SetF(judged_only=True)"),
    *(f"{name}(judged_only=True)@4" for name in ("P", "R", "AP", "nDCG", "Success")),
    *("RR(judged_only=True)", "Rprec(judged_only=True)", "SetAP(judged_only=True)"),
)
GDEVAL = ("nDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')@20", "ERR@5", "ERR@20")


def _random_data(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Many ties, queries of one side only, documents without a judgment and with negative ones."""
    docs = [f"d-{i}" for i in range(chance.randint(1, 25))]

    def some() -> list[str]:
        return chance.sample(docs, chance.randint(1, len(docs)))

    qrels = {f"{i}": {doc: chance.randint(-1, 4) for doc in some()} for i in range(7)}
    run = {f"{i}": {doc: float(chance.randint(0, 5)) for doc in some()} for i in range(2, 9)}
    return qrels, run


def test_its_own_example() -> None:
    asked = [AP, nDCG, RR, nDCG @ 10, P(rel=2) @ 10]
    found = ours.calc_aggregate(asked, QRELS, RUN)
    shown = {str(measure): value for measure, value in found.items()}
    assert shown == {
        "AP": 0.75,
        "nDCG": pytest.approx(0.8154648767857288, abs=1e-15),
        "RR": 0.75,
        "nDCG@10": pytest.approx(0.8154648767857288, abs=1e-15),
        "P(rel=2)@10": 0.05,
    }
    lines = list(ours.iter_calc(asked, QRELS, RUN))
    assert len(lines) == 10
    assert ours.Metric("Q1", P(rel=2) @ 10, 0.1) in lines
    assert repr(lines[0]) == "Metric(query_id='Q0', measure=AP, value=0.5)"


def _compare(theirs: Any, text: str, within: float) -> None:
    chance = random.Random(text)
    for _ in range(6):
        qrels, run = _random_data(chance)
        measure = parse_theirs(theirs, text)
        try:
            want = {one.query_id: one.value for one in theirs.iter_calc([measure], qrels, run)}
        except ZeroDivisionError:  # its Accuracy, where all that was retrieved is relevant
            continue
        mine = ours.parse_measure(text)
        assert str(mine) == str(measure)
        found = {one.query_id: one.value for one in ours.iter_calc([mine], qrels, run)}
        known = {query: 0.0 if math.isnan(value) else value for query, value in want.items()}
        assert found == pytest.approx(known, abs=within)
        total = ours.calc_aggregate([mine], qrels, run)[mine]
        if not any(map(math.isnan, want.values())):
            assert total == pytest.approx(
                theirs.calc_aggregate([measure], qrels, run)[measure], abs=within, nan_ok=True
            )


@pytest.mark.parametrize("text", ASKED)
def test_numbers_are_those_of_the_package(text: str) -> None:
    _compare(pytest.importorskip("ir_measures"), text, 1e-12)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a perl script")
@pytest.mark.parametrize("text", GDEVAL)
def test_numbers_are_those_of_gdeval(text: str) -> None:
    _compare(pytest.importorskip("ir_measures"), text, 1e-15)


def test_names_are_those_of_the_package() -> None:
    theirs = pytest.importorskip("ir_measures")
    absent = {"CwlMetric", "calc_ctxt", "lazylibs", "__version__"}
    assert {name for name in theirs.__all__ if not hasattr(ours, name)} <= absent
    assert set(theirs.measures.registry) == set(ours.measures.registry)
    assert set(theirs.providers.registry) == set(ours.providers.registry)
    for name, measure in theirs.measures.registry.items():
        mine = ours.measures.registry[name]
        assert mine.SUPPORTED_PARAMS.keys() == measure.SUPPORTED_PARAMS.keys(), name
        for key, info in measure.SUPPORTED_PARAMS.items():
            known = mine.SUPPORTED_PARAMS[key]
            assert (known.dtype, known.required) == (info.dtype, info.required), (name, key)
            unset = theirs.measures.base._NOT_PROVIDED
            default = ours.measures.NOT_PROVIDED if info.default is unset else info.default
            assert known.default == default, (name, key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("MAP", "AP"),
        ("nDCG(dcg='exp-log2', cutoff=20)@10", "nDCG(dcg='exp-log2')@10"),
        ("nDCG(gains={1: 2, 0: 1})@5", "nDCG(gains={0:1,1:2})@5"),
        ("IPrec(rel=2, recall=0.4)", "IPrec(rel=2)@0.4"),
        ("P(rel=1)@5", "P@5"),
        ("SetRelP", "SetP(relative=True)"),
        ("\u03b1_nDCG@5", "alpha_nDCG@5"),
    ],
)
def test_measures_are_parsed(text: str, shown: str) -> None:
    found = ours.parse_measure(text)
    assert str(found) == shown
    assert ours.parse_measure(found) is found
    assert found == ours.parse_measure(shown)
    assert {found: 1}[ours.parse_measure(shown)] == 1


@pytest.mark.parametrize("text", ["P@", "P(5)", "P(rel=x)@5", "P@5; P@6", "1 + 1", ""])
def test_what_is_no_measure_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a measure"):
        ours.parse_measure(text)


def test_unknown_names_are_name_errors() -> None:
    with pytest.raises(NameError, match="Did you mean nDCG"):
        ours.parse_measure("nDCGG@10")


def test_names_of_trec_eval_are_parsed() -> None:
    assert ours.parse_trec_measure("P_5,10") == [P @ 5, P @ 10]
    assert ours.parse_trec_measure("map_cut.7") == [AP @ 7]
    assert ours.parse_trec_measure("set_F.1.0,2.4") == [SetF, SetF(beta=2.4)]
    assert ours.parse_trec_measure("set_relative_P") == [SetRelP]
    assert IPrec @ 0.1 in ours.parse_trec_measure("official")
    with pytest.raises(ValueError, match="takes no number"):
        ours.parse_trec_measure("ndcg_5")
    with pytest.raises(ValueError, match="gm_map is not a supported name of trec_eval"):
        ours.parse_trec_measure("gm_map")


def test_data_is_given_in_any_way(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    qrels = [ours.Qrel(q, d, grade) for q, docs in QRELS.items() for d, grade in docs.items()]
    run = [ours.ScoredDoc(q, d, score) for q, docs in RUN.items() for d, score in docs.items()]
    file = tmp_path / "qrels.gz"
    file.write_bytes(gzip.compress("".join(f"{q} 0 {d} {g}\n" for q, d, g, _ in qrels).encode()))
    text = "".join(f"{q} Q0 {d} 1 {s} me\n" for q, d, s in run)
    want = ours.calc_aggregate([AP, Judged @ 1], QRELS, RUN)
    assert ours.calc_aggregate([AP, Judged @ 1], iter(qrels), iter(run)) == want
    frames = pandas.DataFrame(qrels), pandas.DataFrame(run)
    assert ours.calc_aggregate([AP, Judged @ 1], *frames) == want
    lines = ours.read_trec_qrels(str(file)), ours.read_trec_run(text)
    assert ours.calc_aggregate([AP, Judged @ 1], *lines) == want
    for wrong in ([("Q0", "D0", 1)], pandas.DataFrame({"q": ["Q0"]}), 5):
        with pytest.raises(ValueError, match="unknown qrels format"):
            ours.calc_aggregate([AP], wrong, RUN)


def test_an_evaluator_takes_several_runs() -> None:
    evaluator = ours.evaluator([AP, RR @ 2, NumQ], QRELS)
    assert evaluator.calc_aggregate(RUN)[AP] == 0.75
    aggregated, per_query = evaluator.calc({"Q1": {"D3": 1.0}})
    assert aggregated == {AP: 0.5, RR @ 2: 0.5, NumQ: 1.0}
    assert ours.Metric("Q0", AP, 0.0) in per_query
    assert AP.calc_aggregate(QRELS, RUN) == 0.75
    assert AP.calc(QRELS, RUN).aggregated == 0.75
    assert math.isnan(ours.calc_aggregate([AP], {}, RUN)[AP])
    assert ours.calc_aggregate([AP], QRELS, []) == {AP: 0.0}


def test_a_script_defines_measures() -> None:
    pytest.importorskip("pandas")
    depth = ours.define_byquery(lambda qrels, run: float(len(run)), "Depth")
    found = ours.calc_aggregate([depth, depth @ 1, AP], QRELS, RUN)
    assert found == {depth: 2.0, depth @ 1: 1.0, AP: 0.75}
    assert str(depth @ 1) == "Depth@1"
    assert ours.run_inputs([depth, AP]) == ["query_id", "doc_id", "score"]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("alpha_nDCG@10", "it needs subtopics"),
        ("Compat", "take it from ir_measures"),
        ("BPM(max_rel=3)@10", "RBP and ERR"),
        ("RBP(p=0.5)", r"does not have RBP\(p=0\.5\): add rel, such as"),
        ("ERR", "does not have ERR: add a cutoff, such as"),
        ("RR(judged_only=True)@5", r"have RR\(judged_only=True\)@5: omit judged_only"),
    ],
)
def test_what_is_not_there_is_said(text: str, instead: str) -> None:
    measure = ours.parse_measure(text)
    assert not ours.DefaultPipeline.supports(measure)
    with pytest.raises(ValueError, match=instead):
        ours.calc_aggregate([measure], QRELS, RUN)


def test_providers_that_are_not_there_say_so() -> None:
    with pytest.raises(RuntimeError, match=r"has no pyndeval\. Take it from ir_measures"):
        list(ours.pyndeval.iter_calc([ours.alpha_nDCG @ 5], QRELS, RUN))


@pytest.mark.parametrize("measure", [P, P(rel="a") @ 5, AP(x=1), nDCG(dcg="other")])
def test_parameters_are_checked(measure: ours.Measure) -> None:
    with pytest.raises(AssertionError):
        ours.calc_aggregate([measure], QRELS, RUN)


def test_rbp_is_that_of_cwl_eval() -> None:
    run = {"q": {"a": 4.0, "b": 3.0, "c": 2.0}}
    found = ours.calc_aggregate([RBP(rel=2, p=0.5)], {"q": {"a": 1, "b": 2, "c": 3}}, run)
    assert found[RBP(rel=2, p=0.5)] == pytest.approx(0.5 * (0.5 + 0.25))


@pytest.mark.parametrize("package", ["ir_measures", "assay.compat.ir_measures"])
def test_evaluate_takes_measure_objects(package: str) -> None:
    one = pytest.importorskip(package)
    asked = [one.nDCG @ 10, one.AP(rel=2) @ 5, one.SetRelP, one.NumRelRet, one.IPrec @ 0.1, "RR"]
    names = ["nDCG@10", "AP(rel=2)@5", "SetR(cap=true)", "num_rel_ret", "iprec@0.1", "RR"]
    run = [one.ScoredDoc(q, d, score) for q, docs in RUN.items() for d, score in docs.items()]
    qrels = [one.Qrel(q, d, grade) for q, docs in QRELS.items() for d, grade in docs.items()]
    scores = assay.evaluate(run, qrels, asked)
    assert [str(measure) for measure in scores.measures] == names
    assert assay.evaluate(RUN, QRELS, one.nDCG(dcg="exp-log2") @ 3).measures == (
        assay.parse("nDCG(gain=exp)@3"),
    )
    gains = assay.evaluate(RUN, QRELS, one.nDCG(gains={1: 2, 0: 1}) @ 3).measures
    assert gains == (assay.parse("nDCG(gains=0:1/1:2)@3"),)
    assert assay.parse_many([one.RBP(p=0.5), one.RBP(rel=1, p=0.5)]) == assay.parse_many(
        ["RBP(graded=true,p=0.5)", "RBP(p=0.5)"]
    )
    weight = dict(assay.parse_many(one.SetF(beta=4.0))[0].params)["beta"]
    assert weight == 2  # they take beta for beta squared


@pytest.mark.parametrize(
    ("measure", "instead"),
    [
        (ours.Accuracy @ 10, "Success@k is whether"),  # whose name is another of Success here
        (ours.alpha_nDCG @ 5, "needs subtopics"),
        (P(judged_only=True) @ 5, "unjudged='condensed'"),
        (ours.SetAP, "multiply SetP and SetR"),
        (P, "P needs a cutoff"),
        (ours.define(lambda qrels, run: [], "Mine"), "lists those that there are"),
    ],
)
def test_evaluate_refuses_what_it_does_not_have(measure: Any, instead: str) -> None:
    with pytest.raises(assay.AssayError, match=instead):
        assay.evaluate(RUN, QRELS, [measure])


def test_err_has_a_provider_with_a_cutoff() -> None:
    assert ours.calc_aggregate([ERR @ 5], {"1": {"a": 4}}, {"1": {"a": 1.0}}) == {ERR @ 5: 0.9375}
