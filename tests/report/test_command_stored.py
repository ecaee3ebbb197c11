"""`assay report` on runs of a store: the same content as from files, where the values allow it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import assay.store
from assay import evaluate
from assay.errors import UsageError
from assay.io.demo_collection import write_demo
from assay.report import make_report
from assay.report.chart_data import curve_rows, rank_rows
from assay.runs import RunRecord

MEASURES = ["nDCG@10", "AP", "RR", "nDCG@1", "nDCG@50"]
QUICK = ("--resamples", 200)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo and its runs in a store: 1 dense, 2 lexical, 3 coarse, 4 dense again, 5 failed."""
    folder = tmp_path_factory.mktemp("stored")
    write_demo(folder)
    with assay.store.open(folder / "assay.db") as store:
        for name in ("dense", "lexical", "coarse"):
            scores = evaluate(str(folder / f"{name}.run"), str(folder / "qrels.txt"), MEASURES)
            kinds = {q: "long" if int(str(q)[1:]) % 2 else "short" for q in scores.query_ids}
            store.save(
                scores.with_groups(kind=kinds),
                name,
                dataset="demo",
                tags=[name[0]],
                chance={"nDCG@10": 0.01, "AP": 0.02},
                command=["eval", name],
            )
        other = evaluate(str(folder / "dense.run"), str(folder / "qrels.txt"), ["AP", "P@5"])
        store.save(other, "dense", dataset="other", task="odd")
        with pytest.raises(ZeroDivisionError), store.start_run("broken"):
            1 / 0  # noqa: B018
        store.save(None, "bare")
    return folder


@pytest.fixture
def demo(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    return made


def test_stored_runs_say_what_their_files_say(assay, demo):
    wanted = [part for name in MEASURES for part in ("-m", name)]
    files = assay(
        "report",
        "dense.run",
        "lexical.run",
        "coarse.run",
        "-r",
        "qrels.txt",
        *QUICK,
        *wanted,
        "-o",
        "f.html",
    )
    stored = assay("report", 1, 2, 3, *QUICK, "-o", "s.html")
    assert (files.code, stored.code) == (0, 0), stored.err
    assert stored.out == files.out
    page = (demo / "s.html").read_text()
    for section in (
        "verdict",
        "leaderboard",
        "overview",
        "curve",
        "groups",
        "ranks",
        "differences",
        "disclosures",
        "reproduce",
    ):
        assert f'<section id="{section}"' in page
    assert "assay report 1 2 3" in page
    assert "depends on ties" in page


def test_charts_of_stored_values_are_those_of_the_rankings(demo):
    from assay import judge, read_qrels, read_run, score

    with assay.store.open("assay.db") as store:
        stored = make_report([store.run(1)], resamples=200)
    hits = judge(read_run("dense.run"), read_qrels("qrels.txt"))
    filed = make_report([RunRecord("dense", score(hits, MEASURES), hits=hits)], resamples=200)
    assert rank_rows(stored) == rank_rows(filed)
    measure = stored.measures[0]
    wanted = [row for row in curve_rows(filed, measure) if row["k"] in (1, 10, 50)]
    assert curve_rows(stored, measure) == wanted
    assert stored.chance_on("AP") == 0.02
    assert stored.group_columns == ("kind",)


def test_runs_are_chosen_by_filters(assay, demo):
    answer = assay("report", "--dataset", "demo", "--tag", "d", "--json", *QUICK, "-o", "d.md")
    assert json.loads(answer.out)["verdicts"]["AP"].startswith("dense scores")
    answer = assay("report", "--dataset", "demo", "-b", 2, *QUICK, "-m", "AP", "-o", "b.md")
    assert "better" in answer.out
    assert "lexical" in (demo / "b.md").read_text()
    named = assay(
        "report", 1, 3, "-b", "lexical.run", "-r", "qrels.txt", "-m", "AP", *QUICK, "-o", "c.md"
    )
    assert named.out == answer.out


def test_files_and_stored_runs_beside_each_other(assay, demo):
    answer = assay("report", "dense.run", 1, "-r", "qrels.txt", *QUICK, "-m", "AP", "-o", "m.md")
    assert answer.out.startswith("dense and dense #1 are identical on AP")
    # Files are scored as the stored run was, and for the measures that it has.
    answer = assay("report", "lexical.run", 1, "-r", "qrels.txt", "--json", *QUICK, "-o", "m.md")
    assert list(json.loads(answer.out)["verdicts"]) == MEASURES


def test_runs_with_other_measures_and_data(assay, demo):
    answer = assay("report", 1, 4, "--json", *QUICK, "-o", "x.md")
    data = json.loads(answer.out)
    assert list(data["verdicts"]) == ["AP"]
    assert "2 datasets (demo, other)" in data["remarks"][0]
    assert "dense #1 and dense #4 are identical" in data["verdicts"]["AP"]


def test_groups_of_the_store_and_means_as_wanted(assay, demo):
    answer = assay("report", 1, 2, "--by", "kind", *QUICK, "-o", "k.md")
    assert answer.code == 0, answer.err
    assert "queries of one kind are resampled together" in (demo / "k.md").read_text()
    assert assay("report", 1, 2, "--empty", "skip", *QUICK, "-o", "k.md").code == 0
    assert "empty:skip" in (demo / "k.md").read_text()


def test_what_may_be_a_file_and_a_run_is_asked_about(assay, demo):
    shutil.copy("dense.run", "2")
    shutil.copy("dense.run", "kind")
    try:
        answer = assay("report", 2, *QUICK, "-o", "x.md")
        assert (answer.code, "run:2 for the run, ./2 for the file" in answer.err) == (2, True)
        told = assay("report", "run:2", "-m", "AP", *QUICK, "-o", "x.md")
        assert told.out.startswith("lexical scores")
        told = assay("report", "./2", "-m", "AP", "-r", "qrels.txt", *QUICK, "-o", "x.md")
        assert told.out.startswith("2 scores")
        answer = assay("report", 1, 3, "--by", "kind", *QUICK, "-o", "x.md")
        assert (answer.code, "Write ./kind for the file" in answer.err) == (2, True)
    finally:
        Path("2").unlink()
        Path("kind").unlink()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Name the runs"),
        ((9,), 2, "Unknown run '9'"),
        ((5,), 2, "Run 5 ('broken') is failed"),
        ((6,), 2, "Run 6 ('bare') has no per-query values"),
        (("run:odd",), 2, "is not a run"),
        ((1, "dense.run"), 2, "files need judgments"),
        (
            ("dense.run", "-r", "qrels.txt", "--store", "assay.db"),
            2,
            "--store requires stored runs",
        ),
        ((1, "--tag", "d"), 2, "chooses stored runs"),
        (("--tag", "none"), 2, "no matching finished run"),
        ((1, "-m", "P@5"), 2, "P@5 is not among the measures. Name one of nDCG@10"),
        ((1, "-r", "qrels.txt"), 2, "--qrels is for files"),
        ((1, "--n-docs", 7), 2, "--n-docs is for files"),
        ((1, "--ties", "best"), 2, "--ties is for files"),
        ((1, "--rel", 2), 2, "--rel is for files"),
        ((1, "-c", "trec_eval"), 2, "--conventions is for files"),
        ((1, 2, "-b", "dens"), 2, "Did you mean dense"),
        ((1, "-b", 1), 2, "needs two runs"),
        ((1, "--store", "no.db"), 5, "no store at no.db"),
        ((1, "dense.run", "-r", "qrels.txt", "--ties", "best"), 3, "different conventions"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(assay, demo, arguments, code, words):
    answer = assay("report", *arguments, *QUICK, "-o", "no.html")
    assert (answer.code, words in answer.err) == (code, True), answer.err
    assert not (demo / "no.html").exists()


def test_a_password_does_not_reach_the_page(monkeypatch):
    from click.testing import CliRunner

    from assay.cli.main import assay
    from assay.cli.output import command_line
    from assay.report.command import command

    seen = []
    monkeypatch.setattr(command, "callback", lambda **_: seen.append(command_line()))
    CliRunner().invoke(assay, ["report", "1", "--store", "postgresql://me:pw@h/d", "-o", "x.md"])
    assert seen == ["assay report 1 --store 'postgresql://me:***@h/d' -o x.md"]


def test_a_report_of_something_else():
    with pytest.raises(UsageError, match="a RunRecord, or a run of a store"):
        make_report(["dense"])


def test_the_store_is_open_until_the_page_is_written_and_closed_then(assay, demo, monkeypatch):
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remember(*arguments, **settings):
        connections.append(connect(*arguments, **settings))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    answer = assay("report", 1, 2, *QUICK, "-o", "open.html")
    assert answer.code == 0, answer.err
    assert connections
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
