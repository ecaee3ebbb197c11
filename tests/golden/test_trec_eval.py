"""`assay eval --format trec` against what trec_eval 10.0 printed, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_DOCS = Path(__file__).resolve().parents[2] / "docs" / "trec_eval.md"
_PARAMS = (
    "-m iprec_at_recall..10,.20,.25,.75,.50 -m P.5,7,3 -m recall.20,2000 "
    "-m Rprec_mult.5.0,0.2,0.35 -m 11pt_avg..25,.5,.75 -m ndcg.1=3,2=9,4=4.5 "
    "-m ndcg_cut.10,20,23.4 -m success.2,5,20 -q"
)
_GOLDEN = [
    ("-m official", "qrels.test", "results.test", "out.test"),
    ("", "qrels.test", "results.test", "out.test"),
    ("-m official", "qrels.test.with-comments", "results.test", "out.test"),
    ("-m official", "qrels.comment.test", "results.comment.test", "out.comment.test"),
    ("-m all_trec", "qrels.test", "results.test", "out.test.a"),
    ("-m all_trec -q", "qrels.test", "results.test", "out.test.aq"),
    ("-m all_trec -q", "qrels.test", "results.trunc", "out.test.aqc"),
    ("-m all_trec -q --depth 100", "qrels.test", "results.trunc", "out.test.aqcM"),
    ("-m all_trec -q --rel 2", "qrels.rel_level", "results.test", "out.test.aql"),
    (_PARAMS, "qrels.test", "results.test", "out.test.meas_params"),
]


def left_out() -> list[str]:
    """The measures that the documentation says Assay leaves out."""
    section = _DOCS.read_text().split("## What is left out")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def family(line: str) -> str:
    """The measure of a line; a measure with parameters is printed as `utility_2,-1,0,0`."""
    name = line.split("\t", maxsplit=1)[0].strip()
    return re.sub(r"^(relstring|utility)_.*", r"\1", name)


@pytest.mark.parametrize(("options", "qrels", "run", "expected"), _GOLDEN)
def test_layout_and_values(data_dir, assay, options, qrels, run, expected):
    folder = data_dir("trec_eval_tests")
    whole = (folder / expected).read_text()
    wanted = "".join(
        line for line in whole.splitlines(keepends=True) if family(line) not in left_out()
    )
    answer = assay(
        "eval", folder / run, "--qrels", folder / qrels, "--format", "trec", *options.split()
    )
    assert answer.code == 0
    assert answer.out == wanted


def test_the_official_measures_leave_nothing_out(data_dir):
    text = (data_dir("trec_eval_tests") / "out.test").read_text()
    assert not {family(line) for line in text.splitlines()} & set(left_out())


def test_every_measure_that_is_left_out_exists_and_is_listed(data_dir, assay):
    folder = data_dir("trec_eval_tests")
    theirs = {family(line) for line in (folder / "out.test.aq").read_text().splitlines()}
    answer = assay(
        "eval",
        folder / "results.test",
        "-r",
        folder / "qrels.test",
        "-m",
        "all_trec",
        "--format",
        "trec",
    )
    ours = {family(line) for line in answer.out.splitlines()}
    assert theirs - ours == set(left_out())
    assert ours <= theirs


def test_missing_queries_are_skipped_on_request(data_dir, assay):
    """trec_eval without -c averages over the queries that the run has."""
    folder = data_dir("trec_eval_tests")
    answer = assay(
        "eval",
        folder / "results.trunc",
        "-r",
        folder / "qrels.test",
        "-m",
        "official",
        "--format",
        "trec",
        "--missing",
        "skip",
        "-q",
    )
    lines = dict(re.findall(r"^(\S+) *\tall\t(\S+)$", answer.out, re.MULTILINE))
    assert lines["num_q"] == "2"
    assert lines["num_rel"] == "484"
    assert float(lines["map"]) == pytest.approx((0.0324 + 0.2723) / 2, abs=1e-4)
    assert "\t302\t" not in answer.out


def test_two_thresholds_are_refused(data_dir, assay):
    folder = data_dir("trec_eval_tests")
    answer = assay(
        "eval",
        folder / "results.test",
        "-r",
        folder / "qrels.test",
        "-m",
        "AP(rel=2)",
        "-m",
        "P@5",
        "--format",
        "trec",
    )
    assert answer.code == 2
    assert "one relevance threshold" in answer.err


def test_a_measure_of_our_own_comes_last_under_its_own_name(data_dir, assay):
    folder = data_dir("trec_eval_tests")
    answer = assay(
        "eval",
        folder / "results.test",
        "-r",
        folder / "qrels.test",
        "-m",
        "ERR@20",
        "-m",
        "P@5",
        "--format",
        "trec",
    )
    assert [line.split()[0] for line in answer.out.splitlines()] == ["P_5", "ERR@20"]


def test_the_sum_of_relevant_documents_is_that_of_the_queries(data_dir, assay):
    """Under -c -l 2 trec_eval prints 559 here, which counts every grade above 0."""
    folder = data_dir("trec_eval_tests")
    files = (folder / "results.trunc", "-r", folder / "qrels.rel_level")
    answer = assay("eval", *files, "--format", "trec", "-m", "num_rel", "--rel", "2", "-q")
    *queries, total = [int(line.split()[-1]) for line in answer.out.splitlines()]
    assert total == sum(queries) == 97
