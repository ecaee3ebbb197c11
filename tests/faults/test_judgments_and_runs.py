"""FAULTS 28 to 36: judgments and runs that do not fit, and TREC files as they are found."""

from __future__ import annotations

import codecs
import gzip

import numpy as np
import pytest

import assay
from assay.core.conventions import preset
from assay.errors import (
    AssayError,
    FormatError,
    IdError,
    MismatchError,
    StorageError,
    ValueRangeError,
)
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run
from tests.zst import zst_compress

pytestmark = pytest.mark.usefixtures("engine")
RULES = preset("trec_eval")


def file(folder, content, name="file.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_judged_query_missing_from_the_run():
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}, "absent": {"a": 1}}
    scores = assay.evaluate(run, qrels, "RR")
    assert scores.missing.tolist() == [True, False]
    assert scores.mean()["RR"] == 0.5
    assert scores.mean().counts["RR"].missing == 1
    assert scores.mean(missing="skip")["RR"] == 1.0
    with pytest.raises(MismatchError, match="without a ranking: 'absent'"):
        assay.evaluate(run, qrels, "RR", conventions="ranx")


def test_run_query_never_judged():
    scores = assay.evaluate({"q": {"a": 1.0}, "odd": {"a": 1.0}}, {"q": {"a": 1}}, "RR")
    assert scores.query_ids.to_list() == ["q"]
    assert scores.extra.to_list() == ["odd"]
    assert scores.to_dict()["queries"] == {"judged": 1, "missing": 0, "extra": 1}
    with pytest.raises(MismatchError, match=r"None of the .* judged queries is in the run"):
        assay.evaluate({"x": {"a": 1.0}}, {"q": {"a": 1}}, "RR")


def test_judged_doc_absent_from_the_collection():
    """It stays relevant and unreachable; recall says so."""
    ranking = assay.Ranking.from_scores([[1.0, 0.5]], query_ids=["q"], doc_ids=["a", "b"])
    hits = assay.judge(ranking, as_judgments({"q": {"a": 1, "gone": 1}}))
    assert assay.score(hits, "R@2")["R@2"].tolist() == [0.5]
    assert as_judgments({"q": {"a": 1, "gone": 1}}).doc_ids.match(ranking.doc_ids).tolist() == [
        0,
        -1,
    ]


def test_no_relevant_docs_and_all_docs_relevant():
    run = {"q": {"a": 2.0, "b": 1.0}, "r": {"a": 2.0, "b": 1.0}}
    qrels = {"q": {"a": 0, "b": 0}, "r": {"a": 1, "b": 1}}
    scores = assay.evaluate(
        run, qrels, ["RR", "AP", "nDCG@10", "R@5", "P@2"], conventions="label_retrieval"
    )
    assert np.isnan(scores.values[:, 0]).all()
    assert scores.values[:, 1].tolist() == [1.0] * 5
    assert scores.mean().counts["AP"].empty == 1
    with pytest.raises(ValueRangeError, match="without a relevant document: 'q'"):
        scores.mean(empty="error")


@pytest.mark.parametrize("measure", ["nDCG@2", "RR", "AP", "P@2"])
def test_negative_and_fractional_grades(measure, tmp_path):
    path = file(tmp_path, "q 0 a -2\nq 0 b 0.5\nq 0 c 2.5\n")
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    in_memory = assay.evaluate(run, {"q": {"a": -2, "b": 0.5, "c": 2.5}}, measure)
    np.testing.assert_array_equal(assay.evaluate(run, path, measure).values, in_memory.values)
    assert 0 <= in_memory.values[0, 0] <= 1


def test_huge_grades():
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    large, huge = ({"q": {"a": grade, "b": grade}} for grade in (1e100, 1e300))
    assert assay.evaluate(run, large, "nDCG@2")["nDCG@2"].tolist() == [1.0]
    assert assay.evaluate(run, huge, "RR")["RR"].tolist() == [1.0]
    with pytest.raises(AssayError, match="1e\\+300 is too large"):
        assay.evaluate(run, huge, "nDCG@2")
    for grade in (float("inf"), float("nan")):
        with pytest.raises(ValueRangeError, match="query 'q': the grade of doc 'a'"):
            as_judgments({"q": {"a": grade}})
    with pytest.raises(ValueRangeError, match="beyond 2"):
        as_judgments({"q": {"a": 10**400}})


def test_duplicate_pair_equal_and_conflicting(tmp_path):
    same = as_judgments(file(tmp_path, "q 0 a 1\nq 0 a 1\nq 0 b 0\n"))
    assert (len(same.docs), same.repeated) == (2, 1)
    assert as_judgments([("q", "a"), ("q", "a")]).repeated == 1
    with pytest.raises(MismatchError, match=r"'q', document 'a' is judged twice.*, 1 and 2"):
        as_judgments(file(tmp_path, "q 0 a 1\nr 0 a 1\nq 0 a 2\n"))
    with pytest.raises(MismatchError, match="judged twice"):
        as_judgments([("q", "a", 1), ("q", "a", 0)])


def test_one_doc_twice_in_a_run(tmp_path):
    text = "q Q0 a 1 3 t\nq Q0 b 2 2 t\nq Q0 a 3 1 t\n"
    with pytest.raises(IdError, match="doc 'a' of query 'q' is in the run more than once"):
        read_run(file(tmp_path, text))
    for source in ([("q", "a", 1.0), ("q", "a", 1.0)], {"q": ["a", "b", "a"]}):
        with pytest.raises(IdError, match="doc 'a' of query 'q' is in the run more than once"):
            as_ranking(source, RULES)
    with pytest.raises(IdError, match="Document 1 appears twice"):
        assay.Ranking.from_arrays([[1, 0, 1]])


CLEAN = "q1 Q0 a 1 2.5 t\nq1 Q0 b 2 -1 t\nq2 Q0 a 1 1e-3 t\n"


@pytest.mark.parametrize(
    "found",
    [
        CLEAN.encode(),
        CLEAN.replace("\n", "\r\n").encode(),
        codecs.BOM_UTF8 + CLEAN.encode(),
        CLEAN.replace(" ", "\t").encode(),
        CLEAN.replace(" ", " \t  ").encode(),
        b"# a comment\n\n" + CLEAN.encode() + b"\n   \n# the end",
        CLEAN.rstrip("\n").encode(),
        ("  " + CLEAN.replace("\n", "  \n")).rstrip(" ").encode(),
    ],
    ids=["plain", "crlf", "bom", "tabs", "runs of spaces", "comments", "no last feed", "indented"],
)
def test_trec_files_as_they_are_found(tmp_path, found):
    run = read_run(file(tmp_path, found))
    assert run.query_ids.to_list() == ["q1", "q2"]
    assert run.row("q1") == [("a", 2.5), ("b", -1.0)]
    assert run.row("q2") == [("a", 0.001)]


@pytest.mark.parametrize(
    ("line", "error", "found"),
    [
        ("q Q0 a 1 2.5", FormatError, "line 2: expected 6 columns .*found 5"),
        ("q", FormatError, "line 2: expected 6 columns .*found 1"),
        ("q Q0 a 1 nan t", ValueRangeError, "line 2: the score 'nan' is not finite"),
        ("q Q0 a 1 -inf t", ValueRangeError, "line 2: the score '-inf' is not finite"),
        ("q Q0 a 1 1e999 t", ValueRangeError, "line 2: the score '1e999' is too large"),
        ("q Q0 a 1 high t", FormatError, "line 2: the score 'high' is not a number"),
        ("q Q0 a 1 1,5 t", FormatError, "line 2: the score '1,5' is not a number"),
        ("q Q0 a\0 1 1 t", FormatError, "line 2: the line holds a NUL byte"),
    ],
)
def test_faulty_lines_of_a_run_are_named(tmp_path, line, error, found):
    with pytest.raises(error, match=found):
        read_run(file(tmp_path, f"q Q0 z 1 9 t\n{line}\n"))


@pytest.mark.parametrize(
    ("line", "error", "found"),
    [
        ("q 0 a", FormatError, "line 2: expected 4 columns .*found 3.* Insert 0 as the second"),
        ("q 0 a nan", ValueRangeError, "line 2: the grade 'nan' is not finite"),
        ("q 0 a relevant", FormatError, "line 2: the grade 'relevant' is not a number"),
    ],
)
def test_faulty_lines_of_qrels_are_named(tmp_path, line, error, found):
    with pytest.raises(error, match=found):
        read_qrels(file(tmp_path, f"q 0 z 1\n{line}\n"))


def test_the_score_wins_over_the_rank(tmp_path):
    from assay.io.formats import parse_run

    path = file(tmp_path, "q Q0 a 1 1 t\nq Q0 b 2 9 t\n")
    assert read_run(path).row("q") == [("b", 9.0), ("a", 1.0)]
    assert parse_run(path).rank_disagreements == 1


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (zst_compress, ".zst")])
def test_packed_files(tmp_path, pack, ending):
    packed = file(tmp_path, pack(CLEAN.encode()), f"run{ending}")
    plain = file(tmp_path, CLEAN, "run")
    for query in ("q1", "q2"):
        assert read_run(packed).row(query) == read_run(plain).row(query)
    for name in ("run.txt", f"run.csv{ending}", f"run.json{ending}"):
        with pytest.raises(FormatError, match="is empty"):
            read_run(file(tmp_path, pack(b"") if ending in name else b"", name))


def test_files_of_nothing(tmp_path):
    for name in (
        "run.txt",
        "run.csv",
        "run.tsv",
        "run.json",
        "run.jsonl",
        "run.parquet",
        "run.npz",
        "run.npy",
    ):
        with pytest.raises((FormatError, StorageError), match="is empty"):
            read_run(file(tmp_path, b"", name))
    for read in (read_run, read_qrels):
        with pytest.raises(FormatError, match="only comments"):
            read(file(tmp_path, "# one\n\n# two\n"))
