"""What is written reads back the same; what fails leaves the old file alone."""

from __future__ import annotations

import csv
import json
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import assay
from assay.core.conventions import Conventions, preset
from assay.core.ranking import Ranking
from assay.errors import (
    AssayError,
    IdError,
    InputError,
    MissingPackageError,
    StorageError,
    UsageError,
)
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run
from assay.io.streams import atomic_write
from assay.io.writers import write_qrels, write_run
from assay.scoring.score_data import write_scores
from tests.examples import examples

RULES = preset("trec_eval")
ENDINGS = ["txt", "trec.gz", "run.zst", "csv", "tsv.gz", "json", "jsonl.zst", "parquet", "npz"]
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 5e-324])
IDS = (
    st.text(min_size=1, max_size=6)
    .filter(lambda t: not set(t) & set(" \t\n\r\v\f\0"))
    .filter(lambda t: t.isprintable() or t.encode("utf-8", "ignore").decode() == t)
)
RUNS = st.dictionaries(
    IDS, st.dictionaries(IDS, FLOATS, min_size=1, max_size=5), min_size=1, max_size=4
)


def rows(ranking):
    return {query: ranking.row(query) for query in ranking.query_ids}


def bits(ranking):
    return {q: [(d, s.hex()) for d, s in row] for q, row in rows(ranking).items()}


@pytest.mark.parametrize("ending", ENDINGS)
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=RUNS)
def test_runs_read_back_bit_by_bit(tmp_path, ending, run):
    path = tmp_path / f"run.{ending}"
    for rules in (RULES, Conventions(tiebreak="index")):
        ranking = as_ranking(run, rules)
        if ending.startswith(("txt", "trec", "run")) and any(q[0] in "#\ufeff" for q in run):
            with pytest.raises(IdError, match="comment or a byte order mark"):
                write_run(ranking, path)
            continue
        write_run(ranking, path)
        again = read_run(path, conventions=rules)
        assert bits(again) == bits(ranking)
        assert again.query_ids == ranking.query_ids


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e != "npz"])
def test_judgments_read_back(tmp_path, ending):
    grades = {"q1": {"a": 2, "b": -1, "=1+1": 0}, "q2": {"é": 0.1, '"x"': 1e300}}
    qrels = as_judgments(grades)
    write_qrels(qrels, tmp_path / f"qrels.{ending}")
    again = read_qrels(tmp_path / f"qrels.{ending}")
    assert again.query_ids == qrels.query_ids
    assert again.doc_ids == qrels.doc_ids
    assert again.grades.tolist() == qrels.grades.tolist()


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "npz"])
def test_integer_ids_read_back_where_the_format_knows_them(tmp_path, ending):
    ranking = as_ranking({1: {2**60: 0.5, -3: 0.5}}, RULES)
    write_run(ranking, tmp_path / f"run.{ending}")
    assert rows(read_run(tmp_path / f"run.{ending}")) == rows(ranking)


def test_a_trec_run_is_written_as_trec_eval_likes_it(tmp_path):
    path = tmp_path / "run"
    write_run(as_ranking({"q": {"a": 0.1, "b": 3}}, RULES), path, tag="mine")
    assert path.read_text() == "q Q0 b 1 3.0 mine\nq Q0 a 2 0.1 mine\n"
    assert read_run(path).name == "mine"
    write_run(read_run(path), path)
    assert read_run(path).name == "mine"
    write_qrels(as_judgments({"q": {"a": 2, "b": 0.5}}), path)
    assert path.read_text() == "q 0 a 2\nq 0 b 0.5\n"


def test_same_input_same_bytes(tmp_path):
    ranking = as_ranking({"q": {"a": 0.1, "b": 3}}, RULES)
    for ending in ENDINGS:
        paths = [tmp_path / f"{i}.{ending}" for i in (1, 2)]
        for path in paths:
            write_run(ranking, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_query_without_docs_is_written_or_refused_never_lost(tmp_path):
    ranking = as_ranking({"q": {"a": 1.0}, "empty": {}}, RULES)
    for ending in ("json", "npz"):
        write_run(ranking, tmp_path / f"run.{ending}")
        assert rows(read_run(tmp_path / f"run.{ending}")) == {"q": [("a", 1.0)], "empty": []}
    for ending in ("txt", "csv", "jsonl", "parquet"):
        with pytest.raises(InputError, match="'empty' has no documents in the run"):
            write_run(ranking, tmp_path / f"run.{ending}")


def test_an_npz_keeps_what_is_known_of_the_collection(tmp_path):
    path = tmp_path / "run.npz"
    for ranking in (as_ranking({"q": {"a": 1.0}}, RULES), Ranking.from_scores([[1.0, 2.0]])):
        write_run(ranking, path)
        assert read_run(path).n_docs == ranking.n_docs


@pytest.mark.parametrize(
    ("name", "options", "found"),
    [
        ("run.npy", {}, "Use one of .run, .txt"),
        ("run", {"format": "npy"}, "Cannot write 'npy'"),
        ("run", {"format": "excel"}, "Known formats: trec, csv"),
        ("run.parquet.gz", {}, "compressed already"),
        ("run", {"tag": "two words"}, "one word"),
        ("run", {"tag": " "}, "one word"),
    ],
)
def test_requests_that_make_no_sense(tmp_path, name, options, found):
    with pytest.raises(UsageError, match=found):
        write_run(as_ranking({"q": {"a": 1.0}}, RULES), tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_labels_are_not_written_as_pairs(tmp_path):
    with pytest.raises(UsageError, match="Labels cannot be written as qrels"):
        write_qrels(assay.Judgments.from_labels(["a"], ["a"]), tmp_path / "qrels")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=r"'backports.zstd'.*\[zst\]"):
        write_run(as_ranking({"q": {"a": 1.0}}, RULES), tmp_path / "run.zst")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def scores():
    run = {"=1+1": {"a": 1.0}, "r": {"a": 1.0, "b": 0.5}}
    qrels = {"=1+1": {"a": 1}, "r": {"b": 0}}
    found = assay.evaluate(run, qrels, ["RR", "P@3"])
    return found.with_groups(**{"@user": {"=1+1": "-x", "r": "+y"}})


def test_score_tables_are_safe_to_open_in_a_spreadsheet(tmp_path, scores):
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        write_scores(scores, tmp_path / f"s.{ending}")
        with open(tmp_path / f"s.{ending}", newline="") as file:
            table = list(csv.reader(file, delimiter=delimiter))
        assert table == [
            ["query", "'@user", "RR", "P@3"],
            ["'=1+1", "'-x", "1.0", repr(1 / 3)],
            ["r", "'+y", "", ""],
        ]


def test_scores_as_data_are_exact(tmp_path, scores):
    write_scores(scores, tmp_path / "s.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert lines[0] == {"query": "=1+1", "@user": "-x", "RR": 1.0, "P@3": 1 / 3}
    assert lines[1]["RR"] is None
    write_scores(scores, tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == scores.to_dict()
    pq = pytest.importorskip("pyarrow.parquet")
    write_scores(scores, tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    assert table["RR"].to_pylist() == [1.0, None]
    assert table.schema.metadata[b"signature"].decode() == scores.signature


def write_and_fail(path, error):
    with atomic_write(path) as file:
        file.write(b"new")
        raise error("on the way")


def test_a_failure_on_the_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    for error in (ValueError, KeyboardInterrupt, OSError, UsageError):
        wanted = StorageError if error is OSError else error
        with pytest.raises(wanted):
            write_and_fail(path, error)
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["out.txt"]


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "out.txt", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "fresh") as file:
            file.write(b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o640


def test_where_no_file_can_be_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for bad, found in (
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "pipe or device"),
        ("/dev/null", "pipe or device"),
        (tmp_path / "pipe" / "absent" / "out", "Cannot write .*pipe is not a folder"),
        (tmp_path / ("x" * 300), "Cannot write"),
        (str(tmp_path / "nul\0"), "Cannot write"),
        ("", "Cannot write|is a directory"),
    ):
        with pytest.raises(StorageError, match=found), atomic_write(bad) as file:
            file.write(b"x")
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("x" * 250)
    with atomic_write(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_many_lines_round_trip(tmp_path):
    rng = np.random.default_rng(1)
    ranking = Ranking.from_arrays(
        np.argsort(rng.random((30, 500)), axis=1)[:, :200],
        rng.standard_normal((30, 200)).round(2),
        doc_ids=[f"d{i}" for i in range(500)],
    ).under(RULES)
    for ending in ("txt.gz", "csv", "parquet", "npz"):
        write_run(ranking, tmp_path / f"run.{ending}")
        again = read_run(tmp_path / f"run.{ending}")
        np.testing.assert_array_equal(again.scores, ranking.scores)
        left = again.doc_ids.take(again.docs.astype(np.int64))
        assert left == ranking.doc_ids.take(ranking.docs.astype(np.int64))


def test_an_unknown_ending_is_refused_unless_the_format_is_named(tmp_path):
    ranking, qrels = as_ranking({"q": {"a": 1.0}}, RULES), as_judgments({"q": {"a": 1}})
    scores = assay.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "RR")
    for write, value in ((write_run, ranking), (write_qrels, qrels), (write_scores, scores)):
        for name in ("x.xyz", "x.xyz.gz"):
            with pytest.raises(UsageError, match=r"x\.xyz.*Use one of .*\.csv"):
                write(value, tmp_path / name)
        write(value, tmp_path / "x.xyz", format="csv")
    with pytest.raises(UsageError, match=r"Use one of \.csv"):
        write_scores(scores, tmp_path / "x.txt")


@pytest.mark.parametrize("name", ["x", "x.run", "x.txt", "x.trec", "x.QRELS", "x.txt.gz"])
def test_the_endings_of_trec_text(tmp_path, name):
    write_run(as_ranking({"q": {"a": 1.0}}, RULES), tmp_path / name)
    assert read_run(tmp_path / name, format="trec").row("q") == [("a", 1.0)]


@pytest.mark.parametrize("write", [write_run, write_qrels, write_scores])
def test_what_cannot_be_written_is_named(tmp_path, write):
    for nothing in (None, 5, {"q": {"a": 1}}):
        with pytest.raises(UsageError, match=rf"{write.__name__} takes"):
            write(nothing, tmp_path / "x.json")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("path", [None, 5, b"x"])
def test_what_is_no_path_is_named(path):
    with pytest.raises(UsageError, match="Expected the path of a file"):
        write_run(as_ranking({"q": {"a": 1.0}}, RULES), path)


def test_parquet_without_its_package_speaks_of_files(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    scores = assay.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "RR")
    for write, value in ((write_run, as_ranking({"q": {"a": 1.0}}, RULES)), (write_scores, scores)):
        with pytest.raises(MissingPackageError, match=r"^writing parquet files needs .*pyarrow"):
            write(value, tmp_path / "x.parquet")


def test_csv_guards_formulas_and_reads_them_back(tmp_path):
    """A spreadsheet takes a cell that begins with = + - @ for a formula."""
    run = {"=1+1": {"@SUM(A1)": 0.5, "'=x": -0.25, "'tis": 0.125, "-2": 0.0}, "q": {"+d": 1.0}}
    ranking = as_ranking(run, RULES)
    write_run(ranking, tmp_path / "run.csv")
    cells = [line.split(",") for line in (tmp_path / "run.csv").read_text().splitlines()[1:]]
    assert {cell for row in cells for cell in row[:2]} >= {"'=1+1", "'@SUM(A1)", "''=x", "'tis"}
    assert not any(cell[0] in "=+-@" for row in cells for cell in row[:2])
    assert bits(read_run(tmp_path / "run.csv")) == bits(ranking)
    write_run(ranking, tmp_path / "run.tsv")
    assert bits(read_run(tmp_path / "run.tsv")) == bits(ranking)


def test_a_flipped_bit_of_zst_is_noticed(tmp_path):
    ranking = as_ranking({f"q{n}": {f"d{n * 7 % 11}": n / 7} for n in range(60)}, RULES)
    path = tmp_path / "run.trec.zst"
    write_run(ranking, path)
    sound, told = path.read_bytes(), bits(ranking)
    for place in range(len(sound)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :])
        try:
            found = bits(read_run(path))
        except AssayError:
            continue
        assert found == told, f"the flip in byte {place} changed the run and nobody noticed"
