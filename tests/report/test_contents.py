"""What a report says, from the runs that it is given."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from assay import compare
from assay.errors import StorageError, UsageError
from assay.report import make_report
from assay.report.report import html_report
from assay.report.tables import first_pair, single_table
from assay.runs import RunRecord
from tests.report.samples import demo_report, demo_runs, made_up


def test_verdicts_are_those_of_compare():
    runs = demo_runs()
    report = make_report(runs, resamples=500)
    first, second, *more = (run.scores for run in runs)
    direct = compare(first, second, *more, names=[run.name for run in runs], resamples=500)
    assert report.verdicts == direct.verdicts
    assert report.standings_on("AP") == direct.standings_on("AP")


def test_one_run_is_reported_alone():
    (dense, *_) = demo_runs()
    report = make_report([dense], resamples=500)
    (standing,) = report.standings_on("AP")
    assert standing.mean.estimate == pytest.approx(dense.scores.mean()["AP"])
    assert standing.mean.low < standing.mean.estimate < standing.mean.high
    assert "a random order reaches" in report.verdicts["AP"]
    with pytest.raises(UsageError, match="needs two runs, found one"):
        make_report([dense], baseline="dense")


def test_chance_is_what_the_runs_bring():
    report = demo_report()
    assert report.chance_on("AP") == demo_runs()[0].chance.mean()["AP"]
    bare = [RunRecord(run.name, run.scores) for run in demo_runs()]
    assert math.isnan(make_report(bare, resamples=500).chance_on("AP"))


def test_disclosures_name_ties_missing_and_empty_queries():
    remarks = " ".join(demo_report().remarks)
    assert "coarse: 100 % of queries have a value that depends on ties" in remarks
    values = np.array([[0.5, np.nan, 0.25]])
    scores = made_up(values, ["a", "b", "c"], ["AP"])
    scores.missing[0] = True
    report = make_report([RunRecord("x", scores)], resamples=100)
    assert "1 query judged but not in the run, counted as 0: 'a'" in report.remarks
    assert "1 query without a relevant document, counted as 0" in report.remarks


@pytest.mark.parametrize("runs", [[], ["dense"], [None]])
def test_what_is_no_run_is_refused(runs):
    with pytest.raises(UsageError):
        make_report(runs)


def test_two_runs_of_one_name_are_refused():
    dense = demo_runs()[0]
    with pytest.raises(UsageError, match="its own name: 'dense' names two systems"):
        make_report([dense, dense])


def test_the_ending_decides_and_others_are_refused(tmp_path: Path):
    report = demo_report()
    assert report.save(tmp_path / "r.MD").read_text().startswith("**dense is better")
    assert r"\toprule" in report.save(tmp_path / "r.tex").read_text()
    with pytest.raises(UsageError, match=r"r\.docx"):
        report.save(tmp_path / "r.docx")
    with pytest.raises(StorageError):
        report.save(tmp_path / "r.tex" / "r.md")


def test_markdown_and_latex_mark_the_best_and_what_is_significant(tmp_path: Path):
    text = demo_report().save(tmp_path / "r.md").read_text()
    assert "| dense | **0.7226 a** |" in text
    assert "share a letter" in text
    text = demo_report(baseline="coarse").save(tmp_path / "r.tex").read_text()
    assert r"a & dense & \textbf{0.7226} & \textsuperscript{c}" in text
    assert r"c & coarse & 0.6715 & \textsuperscript{b}" in text
    assert "Only differences to coarse were tested." in text


def test_same_report_same_bytes():
    assert demo_report().to_html() == demo_report().to_html()


def test_the_first_pair_differs_where_any_does():
    scores = {run.name: run.scores for run in demo_runs()}
    runs = [
        RunRecord(name, scores[of])
        for name, of in (("a", "dense"), ("copy", "dense"), ("b", "lexical"))
    ]
    report = make_report(runs, resamples=200)
    assert first_pair(report.comparison, "AP") == ("a", "b")
    page = html_report(report)
    assert page.index('<option value="2" selected>b') > page.index('id="second"')
    same = make_report(runs[:2], resamples=200)
    assert first_pair(same.comparison, "AP") == ("a", "copy")
    against = make_report(runs, baseline="a", resamples=200)
    assert first_pair(against.comparison, "AP") == ("copy", "a")


def test_one_run_has_no_column_of_chance_which_its_verdict_names():
    (dense, *_) = demo_runs()
    report = make_report([dense], resamples=200)
    table = single_table(report, report.measures[0])
    assert table.columns == ("run", "mean", "95 % CI")
    assert "a random order reaches" in report.verdicts["AP"]


def test_a_signature_is_broken_behind_its_parts():
    assert "<code>preset:trec_eval|<wbr>ties:order|<wbr>" in html_report(demo_report())
