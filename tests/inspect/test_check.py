"""check: each thing that can be wrong is found, with its count, and nothing is found in vain."""

from __future__ import annotations

import gzip
import itertools
import random
import re

import pytest

from assay import evaluate, explain
from assay.core.conventions import Conventions, preset
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.mismatches import near_misses
from assay.inspect.check import check
from assay.io import formats
from assay.io.formats import parse_run

RUN = {f"q{i}": {f"d{j}": 10.0 - j for j in range(10)} for i in range(3)}
QRELS = {f"q{i}": {f"d{j}": j % 2 for j in range(10)} for i in range(3)}
MEASURES = ["nDCG@10", "AP", "RR"]


def codes(run, qrels, **options):
    return [finding.code for finding in check(run, qrels, **options).findings]


def test_nothing_is_found_where_nothing_is_wrong():
    report = check(RUN, QRELS, measures=MEASURES)
    assert report.findings == ()
    assert not report.changes_numbers
    assert str(report) == "Nothing found."


def test_missing_and_extra_queries():
    report = check({**RUN, "x": {"d1": 1.0}}, {**QRELS, "y": {"d1": 1}}, measures=MEASURES)
    missing, extra = report["missing-queries"], report["extra-queries"]
    assert (missing.severity, missing.count, missing.total) == ("error", 1, 4)
    assert missing.examples == ("'y'",)
    assert (extra.severity, extra.count, extra.total) == ("note", 1, 4)
    assert report.changes_numbers


def test_no_query_in_common_is_a_finding_and_not_a_crash():
    report = check({"1": {"a": 1.0}}, {"001": {"a": 1}})
    assert report["missing-queries"].message == "no judged query is in the run"
    assert report["near-query-ids"].examples == ("'001' and '1'",)


def test_ids_that_differ_in_zero_padding():
    run = {"q": {"CACM-0950": 2.0, "CACM-0001": 1.0, "other": 0.5}}
    report = check(run, {"q": {"CACM-950": 1, "CACM-1": 1, "other": 0}}, measures="RR")
    found = report["near-document-ids"]
    assert (found.severity, found.count) == ("error", 2)
    assert "zero padding" in found.message
    assert found.examples[1] == "'CACM-950' and 'CACM-0950'"


@pytest.mark.parametrize(
    ("judged", "ranked", "difference"),
    [
        (["CACM-950"], ["CACM-0950"], "in zero padding"),
        (["7"], ["007"], "in zero padding"),
        (["Doc1"], ["doc1"], "in upper and lower case"),
        (["cafe\u0301"], ["caf\u00e9"], "in the form of accented characters (NFC, NFD)"),
        (["'d1'"], ["d1"], "in quotes or white space"),
        (["doc_1", "doc_27"], ["1", "27", "3"], "in a prefix or suffix"),
        (["a.txt", "b.txt"], ["a", "b"], "in a prefix or suffix"),
    ],
)
def test_near_misses(judged, ranked, difference):
    found = near_misses(Ids.of(judged), Ids.of(ranked))
    assert list(found) == [difference]
    assert [ours for ours, _ in found[difference]] == sorted(judged)


@pytest.mark.parametrize(
    ("judged", "ranked"),
    [
        (["a1"], ["b1"]),
        (["doc10"], ["doc1"]),
        (["100"], ["1"]),
        (["0"], ["00000001"]),
        ([], ["x"]),
        (["x"], []),
    ],
)
def test_far_ids_are_left_alone(judged, ranked):
    assert near_misses(Ids.of(judged), Ids.of(ranked)) == {}


def test_an_id_with_two_candidates_is_left_alone():
    assert near_misses(Ids.of(["7"]), Ids.of(["07", "007"])) == {}


def test_empty_queries():
    report = check(RUN, {**QRELS, "q2": {"d0": 0}}, measures=MEASURES)
    assert (report["empty-queries"].severity, report["empty-queries"].count) == ("warning", 1)


def test_grades():
    qrels = {**QRELS, "q2": {"d0": 0.5, "d1": 1, "d2": -1}}
    report = check(RUN, qrels, measures=MEASURES)
    assert report["grades-below-threshold"].severity == "warning"
    assert report["grades-below-threshold"].examples == ("0.5 (query 'q2', document 'd0')",)
    assert (report["negative-grades"].severity, report["negative-grades"].count) == ("note", 1)


def test_repeated_judgments(tmp_path):
    (tmp_path / "q.txt").write_text("q0 0 d0 1\nq0 0 d0 1\n")
    report = check({"q0": {"d0": 1.0}}, tmp_path / "q.txt", measures="RR")
    assert (report["repeated-judgments"].severity, report["repeated-judgments"].count) == (
        "note",
        1,
    )
    assert not report.changes_numbers


def test_ties_count_where_they_change_a_number():
    flat = {"q0": {"d0": 1.0, "d1": 1.0}}
    report = check(flat, {"q0": {"d0": 1, "d1": 0}}, measures="RR")
    assert report["ties"].count == 1
    assert "from 0.5 to 1" in report["ties"].effect
    assert report["constant-scores"].count == 1
    assert report["equal-scores"].count == 2
    harmless = check({"q0": {"d0": 2.0, "d1": 1.0, "d2": 1.0}}, {"q0": {"d0": 1}}, measures="RR")
    assert "ties" not in harmless
    assert harmless["equal-scores"].severity == "note"
    assert not harmless.changes_numbers


NAMES = ["AP", "RR", "nDCG@5", "P@3", "R@4", "bpref", "GMAP", "num_rel_ret@2", "AP(over=hits)@3"]


@pytest.mark.parametrize("name", NAMES)
def test_the_range_of_ties_holds_the_number_that_evaluate_gives(name):
    """Whatever is missing, empty, cut or excluded: the range is of the very same mean."""
    rng = random.Random(name)
    for preset_name, ties, depth in itertools.product(
        ("trec_eval", "beir", "ranx", "sentence_transformers"),
        ("order", "expected", "midrank-up"),
        (0, 3),
    ):
        run = {f"q{q}": {f"d{d}": rng.randrange(3) for d in range(8)} for q in range(4)}
        qrels = {f"q{q}": {f"d{d}": rng.randrange(2) for d in range(8)} for q in range(2, 7)}
        qrels["q3"] = {"d0": 0}
        rules = preset(preset_name).replace(ties="order" if depth else ties, depth=depth)
        report = check(run, qrels, measures=name, conventions=rules)
        lenient = {"ranx": {"missing": "zero"}}.get(preset_name, {})
        value = evaluate(run, qrels, name, conventions=rules.replace(**lenient)).mean()[name]
        if "ties" in report:
            found = re.search(r"is (\S+) and can be .*from (\S+) to (\S+)\.", report["ties"].effect)
            now, low, high = map(float, found.groups())
            assert low <= now <= high
            assert now == float(f"{value:.6g}")
            assert ("at least" in report["ties"].effect) <= bool(depth)


def test_missing_queries_are_a_finding_where_the_conventions_refuse_them():
    qrels = {**QRELS, "y": {"d1": 1}, "z": {"d1": 0}}
    assert {"missing-queries", "empty-queries"} <= set(codes(RUN, qrels, conventions="ranx"))
    strict = Conventions(empty="error", missing="error")
    assert {"missing-queries", "empty-queries"} <= set(codes(RUN, qrels, conventions=strict))


def test_equal_scores_of_two_queries_are_no_tie():
    assert "equal-scores" not in check({"a": {"x": 1.0}, "b": {"x": 1.0}}, {"a": {"x": 1}})


def test_short_lists_and_unjudged():
    report = check(RUN, {q: {"d0": 1} for q in RUN}, measures="P@20")
    assert (report["short-lists-20"].severity, report["short-lists-20"].count) == ("warning", 3)
    assert "80 % of the first 5, 90 % of the first 10" in report["unjudged"].message


def test_unseen_documents():
    report = check(RUN, {**QRELS, "q0": {**QRELS["q0"], "far": 1}}, measures=MEASURES)
    assert (report["unseen-docs"].severity, report["unseen-docs"].count) == ("note", 1)
    strangers = check({"q": {"x": 1.0}}, {"q": {"y": 1}}, measures="RR")
    assert strangers["unseen-docs"].severity == "error"


def test_rank_column(tmp_path):
    (tmp_path / "run.txt").write_text("q0 Q0 a 1 1.0 t\nq0 Q0 b 2 2.0 t\nq0 Q0 c x 0.5 t\n")
    report = check(tmp_path / "run.txt", {"q0": {"a": 1, "b": 0, "c": 0}}, measures="RR")
    assert (report["rank-column"].severity, report["rank-column"].count) == ("warning", 1)
    assert (report["rank-unreadable"].severity, report["rank-unreadable"].count) == ("note", 1)


def test_columns_beyond_the_sixth(tmp_path):
    (tmp_path / "run.txt").write_text("q0 Q0 a 1 2.0 t more\nq0 Q0 b 2 1.0 t\n")
    found = check(tmp_path / "run.txt", {"q0": {"a": 1, "b": 0}}, measures="RR")["extra-columns"]
    assert (found.severity, found.count, found.total) == ("note", 1, 2)


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz", "run"])
def test_a_file_is_parsed_once(tmp_path, monkeypatch, name):
    text = b"q0 Q0 a 1 2.0 t\nq0 Q0 b 2 1.0 t\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    parsed = []
    monkeypatch.setattr(formats, "parse_run", lambda path: parsed.append(path) or parse_run(path))
    assert codes(tmp_path / name, {"q0": {"a": 1, "b": 0}}, measures="RR") == []
    assert len(parsed) == 1


def test_the_gravest_come_first():
    report = check({**RUN, "x": {"d1": 1.0}}, {**QRELS, "y": {"zz": 1}}, measures="P@20")
    order = [finding.severity for finding in report.findings]
    assert order == sorted(order, key=["error", "warning", "note"].index)


def test_labels_are_refused():
    with pytest.raises(ValueError, match="qrels"):
        check(RUN, Judgments.from_labels([1], [1]))


def test_robust_runs(data_dir):
    folder = data_dir("robust03")
    qrels = folder / "robust03_qrels.txt.gz"
    heavy = check(folder / "input.rutcor03100.gz", qrels)
    # 99,545 of its 100,000 results share a score with the one before them (data README).
    assert heavy["equal-scores"].share > 0.995
    assert heavy["ties"].count >= 95
    short = check(folder / "input.NLPR03vb10.gz", qrels)
    assert short["short-lists-100"].count == 100
    assert heavy.changes_numbers
    assert short.changes_numbers


def test_means_under_other_rules_have_other_signatures():
    run = {"q": {"a": 1.0, "b": 1.0, "c": 0.5}, "r": {"a": 2.0, "b": 2.0}}
    qrels = {"q": {"b": 1, "c": 1}, "r": {"a": 1}, "s": {"a": 1}}
    changes = ({}, {"tiebreak": "id-ascending"}, {"missing": "skip"}, {"depth": 2})
    rules = [preset("trec_eval").replace(**change) for change in changes]
    found = [check(run, qrels, measures="AP", conventions=one) for one in rules]
    assert len({one["ties"].effect for one in found}) == len(rules)
    assert len({one.signature for one in found}) == len(rules)
    for one, conventions in zip(found, rules, strict=True):
        signature = evaluate(run, qrels, "AP", conventions=conventions).signature
        assert one.signature == one.to_dict()["signature"] == str(one).splitlines()[-1] == signature


def test_files_that_may_be_others_than_were_meant():
    rng = random.Random(3)
    grades = {f"q{i}": {f"d{j}": rng.randint(0, 3) for j in range(10)} for i in range(5)}
    scored, other = (
        {q: {doc: rng.random() for doc in docs} for q, docs in grades.items()} for _ in range(2)
    )
    for run, qrels, found in (
        (grades, scored, "run and judgments may be swapped"),
        (scored, scored, "copy of the judgments"),
        (other, scored, "may be a run"),
    ):
        assert found in str(check(run, qrels, measures="AP"))
        notes = explain(run, qrels, query="q1", measure="AP", allow_mismatch=True).notes
        assert any(found in note for note in notes)
    assert "odd-files" not in check(scored, grades)
