"""The rows behind the charts, against values found another way."""

from __future__ import annotations

import numpy as np
import pytest

from assay import judge, judge_ranks, parse, preset, score
from assay.io.formats import as_judgments, as_ranking
from assay.report import chart_data as rows_of
from assay.report import make_report
from assay.runs import RunRecord
from assay.tables.svg import unique_labels
from tests.hostile import HOSTILE
from tests.report.samples import demo_report, demo_runs


def test_labels_are_printable_and_differ():
    found = unique_labels([*HOSTILE, "a\n", "a\\n", ""])
    shown = list(found.values())
    assert len(set(shown)) == len(HOSTILE) + 3
    assert not any(sign in text for text in shown for sign in "\x1b\u2028\u2029\n\x07\ud800")
    assert all(shown)


def test_who_may_be_first_is_marked():
    report = demo_report()
    rows = rows_of.standing_rows(report.standings_on("AP"))
    assert [row["run"] for row in rows] == ["dense", "coarse", "lexical"]
    assert [row["first"] for row in rows] == [True, False, False]
    assert [row["letters"] for row in rows] == ["a", "b", "c"]


def test_with_a_baseline_those_are_marked_that_are_better():
    comparison = demo_report(baseline="coarse").comparison
    rows = rows_of.standing_rows(comparison.standings_on("AP"))
    assert {row["run"]: row["first"] for row in rows} == {
        "dense": True,
        "coarse": False,
        "lexical": False,
    }


def test_curves_are_the_measure_at_each_cut_off():
    report = demo_report()
    rows = rows_of.curve_rows(report, parse("nDCG@10"))
    for run in report.runs:
        for k in (1, 10, 100):
            (row,) = [row for row in rows if row["run"] == run.name and row["k"] == k]
            assert row["mean"] == score(run.hits, f"nDCG@{k}").mean()[f"nDCG@{k}"]


def test_curves_reach_the_cut_off_of_the_measure_and_end_with_the_run():
    report = make_report(demo_runs(["P@7", "R@1000"]), resamples=100)  # of 100 documents each
    cutoffs = {row["k"] for row in rows_of.curve_rows(report, parse("P@7"))}
    assert cutoffs == {1, 2, 3, 5, 7, 10, 20, 50, 100}
    assert max(row["k"] for row in rows_of.curve_rows(report, parse("R@1000"))) == 100


def test_curves_without_hits_take_the_cut_offs_that_were_scored():
    runs = demo_runs(["P@5", "P@10", "AP"])
    bare = make_report([RunRecord(run.name, run.scores) for run in runs], resamples=100)
    rows = rows_of.curve_rows(bare, parse("P@5"))
    assert sorted({row["k"] for row in rows}) == [5, 10]
    assert rows_of.curve_rows(bare, parse("AP")) == []


def test_measures_without_a_rank_as_cut_off_have_no_curve():
    assert rows_of.family(parse("Rprec")) is None
    assert rows_of.family(parse("iprec@0.1")) is None
    assert rows_of.family(parse("nDCG@10")) == "nDCG"


def test_group_means_are_those_of_the_scores():
    report = demo_report()
    rows, total = rows_of.group_rows(report, parse("AP"), "kind")
    assert total == 2
    for row in rows:
        run = next(run for run in report.runs if run.name == row["run"])
        inside = run.scores.groups["kind"] == row["group"]
        assert row["mean"] == pytest.approx(run.scores["AP"][inside].mean())


def test_only_the_largest_of_many_groups_are_shown():
    run = demo_runs()[0]
    many = {query: f"g{i % 40:02}" for i, query in enumerate(run.scores.query_ids)}
    report = make_report([RunRecord("x", run.scores.with_groups(g=many))], resamples=100)
    rows, total = rows_of.group_rows(report, parse("AP"), "g")
    shown = {row["group"] for row in rows}
    assert total == 40
    assert len(shown) == rows_of.MOST_GROUPS
    assert {f"g{i:02}" for i in range(10)} <= shown  # those with two queries


def test_first_ranks_against_a_count_by_hand():
    rng = np.random.default_rng(1)
    ranks = rng.integers(1, 300, 500)
    found = dict(rows_of.first_ranks(judge_ranks(ranks.tolist())))
    assert found["1"] == np.mean(ranks == 1)
    assert found["6–10"] == np.mean((ranks > 5) & (ranks <= 10))
    assert found["> 100"] == np.mean(ranks > 100)
    assert sum(found.values()) == pytest.approx(1)


def test_queries_whose_documents_were_not_found_are_a_bar_of_their_own():
    ranking = as_ranking({"q1": {"x": 1.0}, "q2": {"a": 2.0, "x": 1.0}}, preset("trec_eval"))
    qrels = as_judgments({"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 0}})
    found = dict(rows_of.first_ranks(judge(ranking, qrels)))
    assert (found["none"], found["1"]) == (0.5, 0.5)


def test_ranks_follow_the_smallest_relevant_grade_of_the_headline():
    strict = rows_of.rank_rows(make_report(demo_runs(["P(rel=3)@10"]), resamples=100))
    usual = rows_of.rank_rows(demo_report())
    first = [
        {row["run"]: row["share"] for row in rows if row["rank"] == "1"} for rows in (strict, usual)
    ]
    assert all(first[0][run] < first[1][run] for run in first[1])


def test_differences_are_sorted():
    comparison = demo_report().comparison
    rows = rows_of.difference_rows(comparison.differences("AP", "dense", "coarse"))
    values = [row["difference"] for row in rows]
    assert values == sorted(values, reverse=True)
    assert [row["after"] - row["place"] for row in rows] == [1] * 50


def test_costs_are_those_recorded_and_what_is_no_cost_is_left_out():
    runs = demo_runs(["AP"])
    odd = [{"search_seconds": 2.0, "bytes": 10}, {"search_seconds": 4, "bytes": True}, "none"]
    report = make_report(
        [run.replace(config={"costs": costs}) for run, costs in zip(runs, odd, strict=True)],
        resamples=100,
    )
    (axis,) = rows_of.cost_axes(report, report.measures[0])  # memory is known of one only
    assert axis.name == "search time per query"
    assert {point.name: point.cost for point in axis.points} == {
        runs[0].name: 2.0 / 50,
        runs[1].name: 4.0 / 50,
    }
    best = axis.points[0]
    mean = next(one for one in report.standings_on("AP") if one.name == best.name).mean
    assert (best.value, best.low, best.high) == (mean.estimate, mean.low, mean.high)
    assert axis.write(best.cost) == "40.0 ms"
    for bad in (-1.0, 0, float("inf"), float("nan"), "3", None, [1]):
        spoilt = [run.replace(config={"costs": {"bytes": bad}}) for run in runs]
        assert rows_of.cost_axes(make_report(spoilt, resamples=100), report.measures[0]) == []
