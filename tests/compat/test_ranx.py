"""ranx's names: its examples, its numbers, its files, and what is not there."""

from __future__ import annotations

import gzip
import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.compat import ranx as ours
from assay.compat.ranx import Qrels, Run, compare, evaluate, fuse, metrics, optimize_fusion
from assay.compat.ranx.data_structures import Report
from assay.compat.ranx.fusion import fusion_switch, norm_switch

QRELS = {"q_1": {"d_12": 5, "d_25": 3}, "q_2": {"d_11": 6, "d_22": 1}}
RUN = {
    "q_1": {"d_12": 0.9, "d_23": 0.8, "d_25": 0.7, "d_36": 0.6, "d_32": 0.5, "d_35": 0.4},
    "q_2": {"d_12": 0.9, "d_11": 0.8, "d_25": 0.7, "d_36": 0.6, "d_22": 0.5, "d_35": 0.4},
}
LOG = np.log2

# Grades 3, none, 0, 1 at ranks 1 to 4 and a grade of 2 that is not found, worked out by hand.
ONE_QRELS = {"q": {"a": 3, "c": 0, "d": 1, "e": 2}}
ONE_RUN = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
BY_HAND = {
    "hits": 2,
    "hits@3": 1,
    "hit_rate": 1,
    "hit_rate@1-l4": 0,
    "precision": 0.5,
    "precision@8": 0.25,
    "recall": 2 / 3,
    "recall@1": 1 / 3,
    "f1": 4 / 7,
    "f1@1": 0.5,
    "r-precision": 1 / 3,
    "mrr": 1,
    "mrr-l4": 0,
    "map": (1 + 2 / 4) / 3,
    "map@3": 1 / 3,
    "map-l3": 1,
    "dcg": 3 + 1 / LOG(5),
    "dcg@3": 3,
    "dcg_burges": 7 + 1 / LOG(5),
    "ndcg": (3 + 1 / LOG(5)) / (3 + 2 / LOG(3) + 1 / LOG(4)),
    "ndcg@1": 1,
    "ndcg-l2": 3 / (3 + 2 / LOG(3)),  # grades below 2 have no gain
    "ndcg_burges@4": (7 + 1 / LOG(5)) / (7 + 3 / LOG(3) + 1 / LOG(4)),
    "bpref": (1 + 0) / 3,
    "rbp.50": 0.5 * (3 + 1 / 8),  # grades are not divided by the highest
    "rbp.50-l2": 0.5 * 3,
}


def test_its_own_example() -> None:
    qrels, run = Qrels(QRELS), Run(RUN)
    assert evaluate(qrels, run, "ndcg@5") == pytest.approx(0.7861261099276952)
    found = evaluate(qrels, run, ["map@5", "mrr"])
    assert found == {"map@5": pytest.approx(0.6416666666666666), "mrr": 0.75}
    assert run.mean_scores.keys() == {"ndcg@5", "map@5", "mrr"}
    assert run.scores["map@5"] == {"q_1": pytest.approx(5 / 6), "q_2": pytest.approx(0.45)}
    spread = evaluate(qrels, run, "mrr", return_std=True)
    assert spread == {"mean": 0.75, "std": 0.25}
    assert run.std_scores == {"mrr": 0.25}


@pytest.mark.parametrize("metric", BY_HAND)
def test_numbers_by_hand(metric: str) -> None:
    want = pytest.approx(BY_HAND[metric], abs=1e-12)
    assert evaluate(Qrels(ONE_QRELS), Run(ONE_RUN), metric) == want
    assert evaluate(ONE_QRELS, ONE_RUN, metric) == want


def test_negative_grades_are_judged_and_have_no_gain() -> None:
    qrels, run = {"q": {"a": -2, "b": 1}}, {"q": {"a": 2.0, "b": 1.0}}
    found = evaluate(Qrels(qrels), Run(run), ["bpref", "ndcg", "rbp.50"])
    assert found == {"bpref": 0.0, "ndcg": pytest.approx(1 / LOG(3)), "rbp.50": 0.25}


def test_ties_keep_their_order_in_runs_and_lose_it_in_dicts() -> None:
    tied = {"q": {f"d{place}": 1.0 for place in range(9)}}
    for place in range(9):
        qrels = {"q": {f"d{place}": 1}}
        assert evaluate(Qrels(qrels), Run(tied), "mrr") == pytest.approx(1 / (place + 1))
        assert evaluate(qrels, tied, "mrr") == pytest.approx(1 / (9 - place))


def test_values_of_queries_are_in_the_order_of_ids() -> None:
    qrels = {"q2": {"a": 1}, "q10": {"b": 1}, "q1": {"c": 1}}
    run = Run({"q2": {"a": 1.0}, "q1": {"x": 2.0, "c": 1.0}, "q10": {"x": 1.0}})
    found = evaluate(Qrels(qrels), run, "mrr", return_mean=False)
    assert run.get_query_ids() == ["q1", "q10", "q2"]
    assert found.tolist() == [0.5, 0.0, 1.0]


def test_queries_must_match_or_be_made_to() -> None:
    qrels, run = Qrels(QRELS), Run({"q_1": RUN["q_1"], "q_9": {"d": 1.0}})
    with pytest.raises(AssertionError, match="make_comparable=True"):
        evaluate(qrels, run, "mrr")
    assert evaluate(qrels, run, "mrr", make_comparable=True) == 0.5
    assert run.run == {"q_1": RUN["q_1"], "q_2": {}}


def test_arrays_are_ranked_as_they_stand() -> None:
    truth = [np.array([[1, 1], [4, 1], [5, 1], [6, 1]]), np.array([[3, 1]])]
    found = [np.array([[1, 9], [2, 9], [4, 1], [5, 7]]), np.array([[1, 1], [1, 1], [3, 1]])]
    assert metrics.hits(truth, found, 3).tolist() == [2.0, 1.0]
    assert metrics.reciprocal_rank(truth, found).tolist() == [1.0, pytest.approx(1 / 3)]
    assert evaluate(truth, found, "mrr") == pytest.approx(2 / 3)
    assert metrics.rank_biased_precision(truth[1:], found[1:], 0.5).tolist() == [0.125]


@pytest.mark.parametrize("metric", ["ndgc@10", "rbp", "ndcg@x", "map@5-m2", "", "iprec@0.1"])
def test_unknown_metrics_are_said(metric: str) -> None:
    with pytest.raises(ValueError, match="is not one of hits"):
        evaluate(QRELS, RUN, metric)


def test_lists_are_built_and_read_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    run = Run(name="bm25")
    run.add_score("q2", "b", 1)
    run.add("q1", ["x", "y"], [0.1, 0.2])
    run.add_multi(["q3"], [["z"]], [[1]])
    assert run.to_dict() == {"q1": {"y": 0.2, "x": 0.1}, "q2": {"b": 1.0}, "q3": {"z": 1.0}}
    assert list(run["q1"]) == ["y", "x"]
    assert run.size == len(run) == 3
    for name in ("run.json", "run.trec", "run.txt", "run.gz", "run.parquet"):
        run.save(str(tmp_path / name))
        assert Run.from_file(str(tmp_path / name)).to_dict() == run.to_dict(), name
    assert Run.from_file(str(tmp_path / "run.trec")).name == "bm25"
    assert gzip.decompress((tmp_path / "run.gz").read_bytes()).startswith(b"q1 Q0 y 1 0.2 bm25\n")
    assert Run.from_df(run.to_dataframe(), name="again").name == "again"
    qrels = Qrels(QRELS)
    qrels.save(str(tmp_path / "qrels.json"))
    assert json.loads((tmp_path / "qrels.json").read_text()) == QRELS
    qrels.set_relevance_level(2)
    assert qrels.qrels["q_1"] == {"d_12": 4, "d_25": 2}
    with pytest.raises(AssertionError, match="Ids 1 and 'a' are not text"):
        Run.from_df(pandas.DataFrame({"q_id": [1], "doc_id": ["a"], "score": [1.0]}))


@cache
def _data() -> tuple[Qrels, list[Run]]:
    chance = random.Random(1)
    grades = {f"q{i}": {f"d{j}": chance.randint(0, 2) for j in range(6)} for i in range(30)}
    runs = [
        {
            query: {doc: chance.random() + 0.3 * k * grade for doc, grade in docs.items()}
            for query, docs in grades.items()
        }
        for k in range(3)
    ]
    return Qrels(grades), [Run(run, name=f"m_{k}") for k, run in enumerate(runs)]


def _compared(**options: Any) -> Report:
    return compare(*_data(), ["map@100", "ndcg@10-l2"], **options)


def test_a_report_is_laid_out_as_theirs() -> None:
    report = _compared(max_p=0.05)
    assert str(report).splitlines()[:3] == [
        "#    Model    MAP@100    NDCG@10-l2",
        "---  -------  ---------  ------------",
        f"a    m_0      {report.results['m_0']['map@100']:.3f}      "
        f"{report.results['m_0']['ndcg@10-l2']:.3f}",
    ]
    assert str(report).splitlines()[3].count("ᵃ") == 2
    latex = report.to_latex()
    assert all(one in latex for one in ("paired Student's t-test", r"m\_2 & \textbf{", "$^{a}$"))
    shown = _compared(show_percentages=True).results["m_0"]["map@100"]
    assert f"{100 * shown:.1f}" in str(_compared(show_percentages=True))


def test_a_report_as_data(tmp_path: Path) -> None:
    report = _compared()
    made = report.to_dict()
    assert made["model_names"] == ["m_0", "m_1", "m_2"]
    assert made["stat_test"] == "student"
    p = made["m_0"]["comparisons"]["m_1"]["map@100"]
    assert p == report.comparisons["m_1", "m_0"]["map@100"]["p_value"]
    assert sum(made["m_0"]["win_tie_loss"]["m_2"]["map@100"].values()) == 30
    report.save(str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text()) == made


def test_student_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    report, runs = _compared(), _data()[1]
    values = [list(run.scores["map@100"].values()) for run in runs]
    found = report.comparisons["m_1", "m_2"]["map@100"]["p_value"]
    assert found == pytest.approx(stats.ttest_rel(*values[1:]).pvalue, rel=1e-10)


@pytest.mark.parametrize("test", ["student", "fisher", "tukey"])
def test_every_test_finds_what_differs(test: str) -> None:
    report = _compared(stat_test=test)
    assert report.comparisons["m_0", "m_2"]["map@100"]["significant"]
    assert report.get_stat_test_label(test) in report.to_latex()


def test_unknown_tests_are_said() -> None:
    with pytest.raises(NotImplementedError, match="Use student, fisher or tukey"):
        _compared(stat_test="anova")


TWO = ({"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"b": 8.0, "d": 4.0}})
FUSED = {
    "sum": {"a": 3, "b": 10, "c": 1, "d": 4},
    "min": {"a": 3, "b": 2, "c": 1, "d": 4},
    "max": {"a": 3, "b": 8, "c": 1, "d": 4},
    "med": {"a": 3, "b": 5, "c": 1, "d": 4},
    "anz": {"a": 3, "b": 5, "c": 1, "d": 4},
    "mnz": {"a": 3, "b": 20, "c": 1, "d": 4},
    "gmnz": {"a": 3, "b": 10 * math.sqrt(2), "c": 1, "d": 4},
    "wsum": {"a": 0.75, "b": 6.5, "c": 0.25, "d": 3},
    "wmnz": {"a": 0.75, "b": 10, "c": 0.25, "d": 3},
    "mixed": {"a": 0.75, "b": 6.5 * math.sqrt(2), "c": 0.25, "d": 3},
    "rrf": {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62},
    "rbc": {"a": 0.5, "b": 0.75, "c": 0.125, "d": 0.25},
    "isr": {"a": 1, "b": 2.5, "c": 1 / 9, "d": 1 / 4},
    "log_isr": {"a": 0, "b": 1.25 * math.log(2), "c": 0, "d": 0},
    "logn_isr": {"a": math.log(1.5), "b": 1.25 * math.log(2.5)},
    "bordafuse": {"a": 4 + 1.5, "b": 3 + 4, "c": 2 + 1.5, "d": 1 + 3},
    "w_bordafuse": {"a": 1 + 1.125, "b": 0.75 + 3, "c": 0.5 + 1.125, "d": 0.25 + 2.25},
}
PARAMS: dict[str, dict[str, Any]] = {
    "gmnz": {"gamma": 0.5},
    "logn_isr": {"sigma": 0.5},
    "rbc": {"phi": 0.5},
    **{name: {"weights": [0.25, 0.75]} for name in ("wsum", "wmnz", "mixed", "w_bordafuse")},
}


@pytest.mark.parametrize("method", FUSED)
def test_fusions_by_hand(method: str) -> None:
    fused = fuse([Run(one) for one in TWO], None, method, PARAMS.get(method))
    assert set(fused["q"]) == {"a", "b", "c", "d"}
    assert list(fused["q"].values()) == sorted(fused["q"].values(), reverse=True)
    for doc, want in FUSED[method].items():
        assert fused["q"][doc] == pytest.approx(want, abs=1e-15), doc
    assert fuse([Run({"q": {}}), Run({"q": {}})], None, method, PARAMS.get(method))["q"] == {}


@pytest.mark.parametrize(
    ("norm", "want"),
    [
        ("min-max", [1, 0.5, 0]),
        ("min_max_inverted", [1, 0.5, 0]),
        ("max", [1, 2 / 3, 1 / 3]),
        ("sum", [2 / 3, 1 / 3, 0]),
        ("zmuv", [math.sqrt(1.5), 0, -math.sqrt(1.5)]),
        ("rank", [1, 2 / 3, 1 / 3]),
    ],
)
def test_norms_by_hand(norm: str, want: list[float]) -> None:
    run = Run(TWO[0])
    found = ours.normalize(run, norm)
    assert list(found["q"].values()) == pytest.approx(want, abs=1e-15)
    assert list(found["q"]) == (["c", "b", "a"] if "inverted" in norm else ["a", "b", "c"])
    assert run.to_dict() == TWO[0]


def test_borda_norm_by_hand() -> None:
    first, second = norm_switch("borda")([Run(one) for one in TWO])
    assert first["q"] == {"a": 1, "b": 0.75, "c": 0.5, "d": 0.25}
    assert second["q"] == {"b": 1, "d": 0.75, "a": 0.375, "c": 0.375}
    assert fuse([Run(one) for one in TWO], "borda", "sum")["q"]["b"] == 1.75


@pytest.mark.parametrize(
    ("method", "options", "tried"),
    [
        *((name, {"step": 0.5}, 6) for name in ("wsum", "wmnz", "mixed", "w_bordafuse")),
        ("rrf", {}, 10),
        ("rbc", {"min_phi": 0.5, "step": 0.25}, 3),
        ("gmnz", {"max_gamma": 0.05}, 5),
        ("logn_isr", {"min_sigma": 0.9}, 11),
    ],
)
def test_parameters_are_searched_for(method: str, options: dict[str, Any], tried: int) -> None:
    qrels, runs = _data()
    params, report = optimize_fusion(
        qrels, runs, "min-max", method, "ndcg@3", return_optimization_report=True, **options
    )
    assert len(report.configs) == len(report.results) == tried
    best = evaluate(qrels, fuse(runs, "min-max", method, params), "ndcg@3")
    assert best == pytest.approx(max(report.results), abs=1e-15)
    assert str(report).count("*") == 1
    assert "NDCG@3" in str(report)


@pytest.mark.parametrize(
    ("method", "instead"), [("condorcet", "bordafuse"), ("probfuse", "optimize_fusion")]
)
def test_fusions_that_are_not_there_say_so(method: str, instead: str) -> None:
    with pytest.raises(NotImplementedError, match=instead):
        fuse([Run(one) for one in TWO], method=method)


def test_what_else_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"Use \.json"):
        Run(RUN).save(str(tmp_path / "run.lz4"))
    with pytest.raises(NotImplementedError, match=r"Run\.from_file"):
        Run.from_ranxhub("bm25")
    with pytest.raises(NotImplementedError, match=r"assay\.compat\.ranx has no plot"):
        ours.plot()
    with pytest.raises(ValueError, match="Unknown fusion"):
        fusion_switch("sums")
    with pytest.raises(ValueError, match="Unknown normalization"):
        norm_switch("minimax")
    with pytest.raises(AssertionError, match="two runs or more"):
        fuse([Run(RUN)])
    with pytest.raises(AssertionError, match="do not match"):
        fuse([Run(RUN), Run(TWO[0])])
    with pytest.raises(ValueError, match="no parameter to search"):
        optimize_fusion(Qrels(QRELS), [Run(RUN), Run(RUN)], method="sum")
