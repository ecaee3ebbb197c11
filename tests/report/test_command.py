"""`assay report`: files in, one page out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assay.io.demo_collection import write_demo


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    lines = [f"q{i:02}\t{'short' if i % 2 else 'long'}" for i in range(50)]
    (folder / "kinds.tsv").write_text("\n".join(["query\tkind", *lines]))
    return folder


@pytest.fixture
def demo(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


RUNS = ("dense.run", "lexical.run", "coarse.run")
QUICK = ("--resamples", 200, "--qrels", "qrels.txt")


def test_a_page_from_files(assay, demo):
    answer = assay("report", *RUNS, *QUICK, "-m", "nDCG@10", "-m", "AP", "-o", "report.html")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("dense is better than both others on nDCG@10")
    assert "report.html: " in answer.err
    page = (demo / "report.html").read_text()
    assert "<!doctype html>" in page
    command = "assay report dense.run lexical.run coarse.run --resamples 200 --qrels qrels.txt"
    assert f"{command} -m nDCG@10 -m AP -o report.html" in page
    assert "SHA-256" in page


def test_the_command_in_the_page_makes_the_page_again(assay, demo):
    assay("report", *RUNS, *QUICK, "-b", "coarse", "--ties", "expected", "-o", "again.md")
    text = (demo / "again.md").read_text()
    command = text.strip().splitlines()[-1].strip("`").split()
    assert command[0] == "assay"
    assert assay(*command[1:]).code == 0
    assert (demo / "again.md").read_text() == text


def test_chance_groups_and_figures(assay, demo):
    answer = assay(
        "report",
        "dense.run",
        "coarse.run",
        *QUICK,
        "--n-docs",
        2000,
        "--groups",
        "kinds.tsv",
        "--figures",
        "figs",
        "--figure-format",
        "svg",
        "-o",
        "full.html",
    )
    assert answer.code == 0, answer.err
    page = (demo / "full.html").read_text()
    assert '<section id="groups"' in page
    names = {path.name for path in (demo / "figs").iterdir()}
    assert "groups-1-nDCG-10.svg" in names
    assert "chance" in (demo / "figs" / "leaderboard-nDCG-10.svg").read_text()


def test_queries_of_one_group_are_kept_together(assay, demo):
    answer = assay("report", *RUNS, *QUICK, "--by", "kinds.tsv:kind", "-o", "by.md")
    assert answer.code == 0, answer.err
    assert "queries of one kind are resampled together" in (demo / "by.md").read_text()


def test_one_run_and_json(assay, demo):
    answer = assay("report", "dense.run", *QUICK, "--json", "-o", "one.md")
    data = json.loads(answer.out)
    assert data["command"] == "report"
    assert data["output"] == "one.md"
    assert data["verdicts"]["nDCG@10"].startswith("dense scores 0.7226")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-o", "report.pdf"), 2, "ends with .html, .md or .tex"),
        (("-o", "dense.run"), 2, "ends with .html, .md or .tex"),
        ((), 2, "--output"),
        (("-o", "x.html", "--figure-format", "svg"), 2, "requires --figures"),
        (("-o", "x.html", "-b", "dnse"), 2, "Did you mean dense"),
        (("-o", "x.html", "-m", "nDGC@10"), 2, "nDCG"),
        (("-o", "dense.run/such/x.md"), 5, "is not a folder"),
    ],
)
def test_what_cannot_be_done_is_said(assay, demo, arguments, code, words):
    answer = assay("report", *RUNS, *QUICK, *arguments)
    assert (answer.code, words in answer.err) == (code, True), answer.err
    assert not (demo / "x.html").exists()


def test_an_input_is_not_overwritten(assay, demo):
    (demo / "run.md").write_bytes((demo / "dense.run").read_bytes())
    answer = assay("report", "run.md", "coarse.run", *QUICK, "-o", "run.md")
    assert answer.code == 2
    assert "one of the inputs" in answer.err


def test_help_needs_no_optional_package(demo):
    code = (
        "import sys\nfor name in ('altair', 'vl_convert'): sys.modules[name] = None\n"
        "from assay.cli.main import main\nsys.exit(main(['report', '--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "one page with charts" in done.stdout


def test_the_terminal_says_a_verdict_in_two_lines(assay, demo):
    answer = assay(
        *("report", "dense.run", "lexical.run", "-r", "qrels.txt", "-m", "AP", "-m", "RR"),
        *("--resamples", "200", "-o", "r.html"),
    )
    assert answer.code == 0, answer.err
    first, second = answer.out.strip().split("\n\n")
    for lines, measure in ((first.splitlines(), "AP"), (second.splitlines(), "RR")):
        assert len(lines) == 2
        assert measure in lines[0]
        assert lines[1].startswith("Lead ")
