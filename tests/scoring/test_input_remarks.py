"""Input that reads well and is probably not what was meant is named beside the numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import assay as library
from assay import evaluate
from assay.core.conventions import Conventions
from assay.core.mismatches import CUT_BY_ROW
from assay.errors import MismatchError, UsageError
from assay.io.formats import as_judgments, as_ranking
from assay.prediction import evaluate_predictions

QUERIES = [f"q{i}" for i in range(12)]
QRELS = {q: {f"d{j}": (i + j) % 3 for j in range(6)} for i, q in enumerate(QUERIES)}
RUN = {q: {f"d{j}": 9.5 - 1.25 * j - i / 7 for j in range(8)} for i, q in enumerate(QUERIES)}


ROWS = ("abcd", "cbad", "dbca", "cabd", "acbd")


def remarks(run, qrels, measures="AP", **options):
    return library.evaluate(run, qrels, measures, **options).remarks


def test_sound_input_has_no_remark():
    assert remarks(RUN, QRELS, "default") == ()


def test_a_constant_scorer():
    run = {q: dict.fromkeys(row, 1.0) for q, row in RUN.items()}
    (remark,) = remarks(run, QRELS)
    assert "the same score" in remark
    run["q3"] = RUN["q3"]
    assert remarks(run, QRELS) == ()


def test_a_constant_scorer_of_classes():
    result = evaluate_predictions(np.zeros((5, 4)), [0, 1, 2, 3, 0])
    assert any("the same score" in remark for remark in result.remarks)
    mixed = evaluate_predictions([[0.0, 0.0], [0.0, 1.0]], [0, 1])
    assert not any("the same score" in remark for remark in mixed.remarks)


def test_judgments_as_run():
    assert "copy of the judgments" in remarks(QRELS, QRELS)[0]


def test_run_as_judgments():
    assert any("may be a run" in remark for remark in remarks(RUN, RUN))


def test_swapped_run_and_judgments_are_refused():
    with pytest.raises(MismatchError, match=r"Run and judgments \(qrels\) seem to be swap"):
        evaluate(QRELS, RUN)
    allowed = evaluate(QRELS, RUN, allow_mismatch=True).remarks
    assert any("may be swapped" in remark for remark in allowed)


def test_a_few_values_are_enough_to_see_a_swap():
    run, qrels = {"q1": {"a": 0.9, "b": 0.4}, "q2": {"b": 0.1}}, {"q1": {"a": 1}, "q2": {"b": 0}}
    tuples = [
        [(q, d, v) for q, row in data.items() for d, v in row.items()] for data in (run, qrels)
    ]
    assert evaluate(run, qrels, "RR").mean()["RR"] == evaluate(*tuples, "RR").mean()["RR"] == 0.5
    for given in ((qrels, run), tuples[::-1]):
        with pytest.raises(MismatchError, match="swapped"):
            evaluate(*given)
    with pytest.raises(UsageError, match="Run and qrels may be swapped"):
        evaluate(as_judgments(qrels), as_ranking(run, Conventions()))
    with pytest.raises(UsageError, match=r"which holds a run\. Run and qrels may be swapped"):
        evaluate(run, as_ranking(run, Conventions()))


@pytest.mark.parametrize(
    ("scores", "grades"),
    [
        ([0.9, 0.5, 0.1, 0.2], [1.0, 2.0, 0.0, 1.0]),  # whole grades as floats
        ([900, 899, 12, 40], [0.25, 0.5, 0.75, 1.0]),  # soft grades of a run with whole scores
        ([4, 3, 2, 1], [0.2, 0.4, 0.9, 1.0]),  # as many scores as places
        ([1, 1, 1, 0], [0.5, 0.5, 1.0, 1.0]),  # one half among whole grades
        ([1, 1, 0, 0], [0.5, 0.5, 0.5, 1.0]),  # one step between 0 and 1
        ([0.9, 0.5, 0.1, 0.2], [0.9, 0.5, 0.1, 0.2]),  # two runs, a remark
    ],
)
def test_grades_that_are_meant_are_taken(scores, grades):
    run, qrels = ({"q": dict(zip("abcd", values, strict=True))} for values in (scores, grades))
    assert evaluate(run, qrels, "nDCG").n_queries == 1


def test_grades_below_the_threshold():
    soft = {q: {d: grade / 4 for d, grade in row.items()} for q, row in QRELS.items()}
    (remark,) = remarks(RUN, soft, ["AP", "nDCG@10"])
    assert remark.startswith("grades between 0 and 1, such as 0.25, are not relevant to AP:")
    assert remarks(RUN, soft, ["AP(rel=0.25)"]) == ()
    assert remarks(RUN, soft, ["nDCG@10"]) == ()


@pytest.mark.parametrize(("run", "qrels"), [("qrels", "run"), ("qrels", "qrels"), ("run", "run")])
def test_files_in_the_wrong_place(assay, tmp_path, run, qrels):
    lines = {
        "run": [f"{q} Q0 {d} 1 {s} t\n" for q, row in RUN.items() for d, s in row.items()],
        "qrels": [f"{q} 0 {d} {g}\n" for q, row in QRELS.items() for d, g in row.items()],
    }
    for name, text in lines.items():
        (tmp_path / name).write_text("".join(text))
    answer = assay("eval", tmp_path / run, "-r", tmp_path / qrels)
    assert answer.code == 3
    assert "Swap run and judgments" in answer.err or "Name the run here" in answer.err


def test_a_system_below_chance(assay, tmp_path):
    backwards = {
        q: {d: -100 * grade - number for number, (d, grade) in enumerate(row.items())}
        for q, row in QRELS.items()
    }
    (tmp_path / "run.json").write_text(json.dumps(backwards))
    (tmp_path / "qrels.json").write_text(json.dumps(QRELS))
    answer = assay(
        *("eval", tmp_path / "run.json", "-r", tmp_path / "qrels.json", "-m", "AP", "-m", "R@6"),
        *("--chance", "--n-docs", "6", "--json"),
    )
    (run,) = json.loads(answer.out)["runs"]
    (remark,) = [words for words in run["remarks"] if "worse than a random order" in words]
    assert "AP (" in remark
    assert "R@6" not in remark


def test_systems_that_are_all_the_same():
    scores = library.evaluate(RUN, QRELS, "RR")
    found = library.compare(scores, scores, scores)
    assert found.verdict == "A, B and C are identical on RR: equal on all 12 queries"
    other = library.evaluate({q: {"d0": 1.0} for q in QUERIES}, QRELS, "RR")
    assert "A and C are equal on every query" in library.compare(scores, other, scores).remarks


def test_remarks_of_a_system_are_those_of_its_comparison():
    flat = library.evaluate({q: dict.fromkeys(row, 1.0) for q, row in RUN.items()}, QRELS, "RR")
    found = library.compare(library.evaluate(RUN, QRELS, "RR"), flat, names=["good", "flat"])
    assert [words for words in found.remarks if words.startswith("flat: every query")]


@pytest.mark.parametrize("depth", [0, 5])
def test_real_runs_give_no_false_alarm(data_dir, depth):
    folder = data_dir("robust03")
    rules = library.Conventions.parse("trec_eval").replace(depth=depth or None)
    judged = library.read_qrels(folder / "robust03_qrels.txt.gz")
    for run in sorted(folder.glob("input.*.gz")):
        found = library.evaluate(run, judged, "default", conventions=rules)
        assert found.remarks == (), run.name


def test_remarks_are_stored_and_reported(assay, tmp_path):
    flat = {q: dict.fromkeys(row, 1.0) for q, row in RUN.items()}
    for name, data in (("flat.json", flat), ("good.json", RUN), ("qrels.json", QRELS)):
        (tmp_path / name).write_text(json.dumps(data))
    runs = [tmp_path / "flat.json", tmp_path / "good.json"]
    store = ["--store", tmp_path / "runs.db"]
    assert assay("eval", *runs, "-r", tmp_path / "qrels.json", "--save", *store).code == 0
    for line in ([*runs, "-r", tmp_path / "qrels.json"], ["1", "2", *store]):
        assert assay("report", *line, "-o", tmp_path / "report.md").code == 0
        assert (tmp_path / "report.md").read_text().count("flat: every query gives all") == 1


def _cut(names: str, k: int, **how):
    """Documents a, b and c tie above d, in rows as named."""
    vectors = {"a": [1.0, 0], "b": [1.0, 0], "c": [1.0, 0], "d": [0.5, 1]}
    docs = [vectors[name] for name in names]
    return library.rank([[1.0, 0.0]], docs, k, query_ids=["q"], doc_ids=list(names), **how)


def _is_cut(ranking, qrels=None, **options):
    return CUT_BY_ROW in remarks(ranking, qrels or {"q": {"a": 1}}, "RR", **options)


def test_ties_that_a_search_cut_by_row_though_documents_have_ids():
    found = {names: library.evaluate(_cut(names, 2), {"q": {"b": 1}}, "RR") for names in ROWS}
    assert {scores.mean()["RR"] for scores in found.values()} == {0.0, 0.5, 1.0}
    assert len({scores.signature for scores in found.values()}) == 1
    assert all(CUT_BY_ROW in scores.remarks for scores in found.values())
    assert all(CUT_BY_ROW in scores.to_dict()["remarks"] for scores in found.values())


def test_where_no_cut_tie_decides_there_is_no_remark():
    for names in ROWS:
        assert not _is_cut(_cut(names, 3))
        assert not _is_cut(_cut(names, 2, keep_ties=True))
    numbered = library.rank([[1.0, 0.0]], [[1.0, 0.0]] * 3, 2)
    assert not _is_cut(numbered, library.Judgments.from_targets([2]))


def test_a_cut_below_the_depth_or_in_a_query_without_judgments_decides_nothing():
    docs = [[3.0], [2.0], [2.0]]
    two = {"query_ids": ["q", "r"], "doc_ids": ["a", "b", "c"], "metric": "dot"}
    ranking = library.rank([[-1.0], [1.0]], docs, 2, **two)
    judged = {"r": {"a": 1}}
    assert _is_cut(ranking, judged)
    assert not _is_cut(ranking, judged, conventions=library.preset("trec_eval").replace(depth=1))
    assert not _is_cut(ranking)


def test_a_row_without_its_own_document_still_ends_in_the_tie_that_was_cut():
    ranking = library.rank(
        [[1.0], [1.0]],
        [[1.0]] * 4,
        2,
        metric="dot",
        query_ids=["a", "z"],
        doc_ids=["a", "b", "c", "d"],
    )
    rules = library.preset("trec_eval").replace(self_match="exclude", depth=1)
    hits = library.judge(ranking, as_judgments({"a": {"b": 1}}), conventions=rules)
    assert hits.tie_split.tolist() == [True]


def test_one_part_with_a_cut_tie_is_enough():
    docs, ids = [[3.0], [2.0], [2.0]], {"doc_ids": ["a", "b", "c"], "metric": "dot"}
    cut = library.evaluate(library.rank([[1.0]], docs, 2, query_ids=["q"], **ids), {"q": {"a": 1}})
    not_cut = library.evaluate(
        library.rank([[-1.0]], docs, 2, query_ids=["r"], **ids), {"r": {"a": 1}}
    )
    assert CUT_BY_ROW not in not_cut.remarks
    for parts in ((cut, not_cut), (not_cut, cut)):
        assert library.Scores.merge(*parts).remarks.count(CUT_BY_ROW) == 1
    assert library.Scores.merge(cut).remarks == cut.remarks


@pytest.mark.parametrize("step", [0.25, 0.2, 0.1])
def test_a_scale_of_fractional_grades_is_no_swap_where_a_classifier_scores_0_or_1(step):
    docs = [f"d{i}" for i in range(40)]
    scale = [place * step for place in range(round(1 / step) + 1)]
    qrels = {"q": {doc: scale[i % len(scale)] for i, doc in enumerate(docs)}}
    for run in ({"q": {doc: i % 2 for i, doc in enumerate(docs)}}, {"q": dict.fromkeys(docs, 1.0)}):
        assert evaluate(run, qrels, "nDCG@10").n_queries == 1
        with pytest.raises(MismatchError, match="swapped"):
            evaluate(run, {"q": {doc: (i + 0.5) / 7 for i, doc in enumerate(docs)}})
