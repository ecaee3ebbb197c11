"""`assay compare`."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from assay import compare, evaluate, stats
from assay.cli.terminal import print_page
from assay.io.demo_collection import write_demo
from assay.io.formats import as_judgments
from assay.stats import choices
from assay.tables.table import Cell, Table, Words


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    return folder


@pytest.fixture(autouse=True)
def here(demo, monkeypatch):
    monkeypatch.chdir(demo)


COMMAND = ("compare", "dense.run", "lexical.run", "-r", "qrels.txt")


def test_text_begins_with_the_verdict(assay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # wide enough for the tables of repr
    answer = assay(*COMMAND, "-m", "nDCG@10", "--full")
    assert answer.code == 0
    scores = [evaluate(f"{name}.run", "qrels.txt", "nDCG@10") for name in ("dense", "lexical")]
    expected = compare(*scores, names=["dense", "lexical"])
    assert ". ".join(answer.out.splitlines()[:2]) == expected.verdict
    assert answer.out.rstrip("\n") == repr(expected)


def test_the_options_are_those_of_the_library():
    """They stand in a module of names, so that --help loads little."""
    assert set(choices.TESTS) == set(stats.TEST_METHODS)
    assert set(choices.CORRECTIONS) == {*stats.CORRECTIONS, "max-t", "tukey"}
    assert set(choices.INTERVALS) == set(stats.INTERVAL_METHODS) - {"wilson"}


def test_ndcg_at_10_is_the_default(assay):
    assert assay(*COMMAND).out == assay(*COMMAND, "-m", "nDCG@10").out


def test_json_is_what_compare_gives(assay):
    answer = assay(
        *COMMAND,
        "-m",
        "AP,RR",
        "--json",
        "--seed",
        "7",
        "--margin",
        "0.05",
        "--test",
        "t",
        "--correction",
        "bh",
        "--interval",
        "percentile",
        "--resamples",
        "500",
        "--level",
        "0.1",
    )
    data = json.loads(answer.out)
    scores = [evaluate(f"{name}.run", "qrels.txt", "AP,RR") for name in ("dense", "lexical")]
    expected = compare(
        *scores,
        names=["dense", "lexical"],
        seed=7,
        margin=0.05,
        test="t",
        correction="bh",
        interval="percentile",
        resamples=500,
        level=0.1,
    )
    assert data["command"] == "compare"
    assert data["schema_version"] == 1
    assert [run["path"] for run in data["runs"]] == ["dense.run", "lexical.run"]
    assert json.loads(json.dumps(expected.to_dict())).items() <= data.items()
    assert "gate" not in data


def test_csv_has_a_row_for_each_pair_with_every_digit(assay):
    answer = assay(
        "compare",
        "dense.run",
        "lexical.run",
        "coarse.run",
        "-r",
        "qrels.txt",
        "--format",
        "csv",
        "-m",
        "AP,RR",
    )
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert len(rows) == 6
    data = json.loads(
        assay(
            "compare",
            "dense.run",
            "lexical.run",
            "coarse.run",
            "-r",
            "qrels.txt",
            "--json",
            "-m",
            "AP,RR",
        ).out
    )
    pairs = [pair for name in ("AP", "RR") for pair in data["measures"][name]["pairs"]]
    for row, pair in zip(rows, pairs, strict=True):
        for key in ("difference", "low", "high", "p", "standardised", "minimum_detectable"):
            assert float(row[key]) == pair[key]
    assert rows[0]["signature"].startswith("preset:trec_eval")


def test_markdown_and_latex(assay, demo):
    markdown = assay(*COMMAND, "--format", "markdown").out
    assert markdown.startswith("**dense ")
    assert "|:---|---:|---:|---:|:---|" in markdown
    assay(*COMMAND, "-o", "table.tex")
    latex = (demo / "table.tex").read_text()
    assert latex.count(r"\begin{tabular}") == 1
    assert r"\toprule" in latex
    assert "% preset:trec_eval" in latex


def test_a_baseline_by_name_by_file_or_beside_the_runs(assay):
    by_name = assay(*COMMAND, "--baseline", "lexical").out
    assert by_name == assay(*COMMAND, "--baseline", "lexical.run").out
    beside = assay("compare", "dense.run", "-r", "qrels.txt", "--baseline", "lexical.run").out
    assert beside.splitlines()[0] == by_name.splitlines()[0]
    assert "vs lexical" in by_name


def test_differences_and_sensitivity(assay):
    answer = assay(
        "compare",
        "coarse.run",
        "dense.run",
        "-r",
        "qrels.txt",
        "--differences",
        "2",
        "--sensitivity",
        "--resamples",
        "200",
    )
    assert "the queries that coarse wins and loses most" in answer.out
    assert len(re.findall(r"^win ", answer.out, re.M)) == 2
    assert re.search(r"^ties: best ", answer.out, re.M)
    data = json.loads(
        assay(
            "compare",
            "coarse.run",
            "dense.run",
            "-r",
            "qrels.txt",
            "--differences",
            "2",
            "--sensitivity",
            "--resamples",
            "200",
            "--json",
        ).out
    )
    assert len(data["differences"][0]["queries"]) == 4
    assert data["sensitivity"][0]["rules"][0]["rule"] == "as given"


def test_groups_from_a_file(assay, demo):
    (demo / "topics.tsv").write_text(
        "query\ttopic\n" + "".join(f"q{i:02}\tt{i % 9}\n" for i in range(50))
    )
    answer = assay(*COMMAND, "--by", "topics.tsv", "--sensitivity", "--resamples", "100", "--full")
    assert answer.code == 0
    assert "queries of one topic are resampled together" in answer.out


def test_conventions_and_threshold(assay):
    answer = assay(*COMMAND, "-m", "AP", "--ties", "expected", "--rel", "2", "--signature")
    assert "ties:expected" in answer.out
    assert "depth:50" in assay(*COMMAND, "--depth", "50", "--signature").out
    assert "AP(rel=2)" in answer.out.splitlines()[0]


# The gate


def gated(assay, *arguments):
    answer = assay("compare", "lexical.run", "-r", "qrels.txt", "-b", "dense.run", *arguments)
    lines = [line for line in answer.err.splitlines() if line.startswith("Failed: ")]
    return answer.code, lines


def test_the_point_gate(assay):
    means = {
        name: evaluate(f"{name}.run", "qrels.txt", "nDCG@10").mean()["nDCG@10"]
        for name in ("dense", "lexical")
    }
    loss = means["dense"] - means["lexical"]
    assert loss > 0.001
    code, lines = gated(assay, "--fail-if", f"nDCG@10 < baseline - {loss - 0.001:.6f}")
    assert code == 1
    assert len(lines) == 1
    assert f"lexical has nDCG@10 {means['lexical']:.4f} < " in lines[0]
    assert gated(assay, "--fail-if", f"nDCG@10 < baseline - {loss + 0.001:.6f}") == (0, [])
    assert gated(assay, "--fail-if", "nDCG@10 < 0.001") == (0, [])
    assert gated(assay, "--fail-if", "nDCG@10 < 0.001", "--fail-if", "RR < 2")[0] == 1


def test_a_condition_brings_its_measure(assay):
    answer = assay(*COMMAND, "--fail-if", "P@5 < 0")
    assert " on P@5" in answer.out.splitlines()[0]
    both = assay(*COMMAND, "-m", "AP", "--fail-if", "P@5 < 0", "--json")
    assert list(json.loads(both.out)["measures"]) == ["AP", "P@5"]


def test_the_gate_of_significance(assay):
    pair = json.loads(
        assay("compare", "lexical.run", "-r", "qrels.txt", "-b", "dense.run", "--json").out
    )["measures"]["nDCG@10"]["pairs"][0]
    assert gated(assay, "--fail-if-worse")[0] == int(pair["outcome"] == "worse")
    code, lines = gated(assay, "--fail-if-worse", "--level", "0.5")
    assert code == int(pair["p"] <= 0.5) == 1
    assert "lexical is worse than dense on nDCG@10: −0.1" in lines[0]


def test_the_gate_does_not_open_for_a_run_that_answers_a_fraction(assay, demo):
    lines = (demo / "dense.run").read_text().splitlines(keepends=True)
    (demo / "fifth.run").write_text("".join(line for line in lines if line.startswith("q4")))
    for preset in ("beir", "mteb", "pytrec_eval"):
        answer = assay(
            "compare",
            "fifth.run",
            "-r",
            "qrels.txt",
            "--conventions",
            preset,
            "-b",
            "dense.run",
            "--fail-if",
            "nDCG@10 < baseline - 0.005",
            "--fail-if-worse",
        )
        assert answer.code not in (0, 1)
        assert "less than half of the largest set" in answer.err
        assert answer.out == ""


def test_the_gate_takes_both_means_from_the_queries_in_common(assay, demo):
    """Who leaves out the queries it is bad at is held against the baseline on the others."""
    values = evaluate("dense.run", "qrels.txt", "nDCG@10")
    low = {values.query_ids[int(row)] for row in np.argsort(values["nDCG@10"])[:10]}
    lines = (demo / "dense.run").read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.split()[0] not in low]
    (demo / "picky.run").write_text("".join(kept))
    answer = assay(
        "compare",
        "picky.run",
        "-r",
        "qrels.txt",
        "--conventions",
        "beir",
        "-b",
        "dense.run",
        "--json",
        "--fail-if",
        "nDCG@10 <= baseline",
    )
    data = json.loads(answer.out)
    assert answer.code == 1
    one, other = data["measures"]["nDCG@10"]["systems"]
    assert one["mean"] == other["mean"]
    assert data["queries"]["by_system"]["picky"] == data["queries"]["compared"] < 50
    assert any("queries are in all systems" in remark for remark in data["remarks"])


def test_the_gate_does_not_open_where_nothing_could_be_shown(assay, demo):
    lines = (demo / "qrels.txt").read_text().splitlines(keepends=True)
    judged = [line for line in lines if line.split()[0] in ("q41", "q42", "q43", "q44")]
    (demo / "four.txt").write_text("".join(judged))
    answer = assay("compare", "lexical.run", "-r", "four.txt", "-b", "dense.run", "--fail-if-worse")
    assert answer.code == 1
    assert "cannot be tested on nDCG@10: too few queries (4): even a clean sweep" in answer.err


def test_the_gate_with_a_margin_wants_proof(assay):
    code, lines = gated(assay, "--fail-if-worse", "--margin", "0.06")
    assert code == 1
    assert "lexical may lose 0.06 or more against dense on nDCG@10" in lines[0]
    assert re.search(r": −0\.1\d+, at least −0\.\d+ \(95 %, one-sided\), p = 0\.\d+$", lines[0])
    assert gated(assay, "--fail-if-worse", "--margin", "0.5") == (0, [])


def test_the_gate_does_not_open_for_what_cannot_be_tested(assay, demo):
    (demo / "one.run").write_text("q1 Q0 a 1 1 t\n")
    (demo / "two.run").write_text("q1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n")
    (demo / "few.txt").write_text("q1 0 a 1\n")
    run = ("compare", "one.run", "-b", "two.run", "-r", "few.txt", "--fail-if-worse")
    answer = assay(*run)
    assert answer.code == 1
    assert "one cannot be tested on nDCG@10: too few queries (1)" in answer.err
    refused = assay(*run, "--margin", "0.1")
    assert (refused.code, refused.out) == (2, "")
    assert "A margin needs at least 20 queries; nDCG@10 has 1" in refused.err


COPIES = [
    (),
    ("--margin", "0.0001"),
    ("--margin", "0.02"),
    ("--look", "17"),
    ("--look", "17", "--margin", "0.02"),
    ("--look-file", "copies.json"),
    ("--fail-if", "nDCG@10 < baseline"),
    ("--fail-if", "nDCG@10 < baseline - 0.005", "--fail-if", "AP < baseline * 1"),
    *(("--correction", name) for name in ("max-t", "holm", "bonferroni", "bh", "tukey", "none")),
    *(
        ("--test", name, "--correction", "holm", "--margin", "0.02")
        for name in ("t", "wilcoxon", "sign", "bootstrap")
    ),
    ("-m", "nDCG@10", "-m", "AP", "-m", "RR", "--margin", "0.02"),
    ("--by", "groups.tsv:topic", "--margin", "0.02"),
]


@pytest.mark.parametrize("more", COPIES, ids=" ".join)
@pytest.mark.parametrize("n", [1, 4, 50])
def test_a_copy_of_the_baseline_passes_every_gate(assay, demo, more, n):
    (demo / "copy.run").write_bytes((demo / "dense.run").read_bytes())
    judged = (demo / "qrels.txt").read_text().splitlines(keepends=True)
    names = list(dict.fromkeys(line.split()[0] for line in judged))[:n]
    (demo / "some.txt").write_text("".join(line for line in judged if line.split()[0] in names))
    with (demo / "groups.tsv").open("w") as file:
        print("query_id", "topic", sep="\t", file=file)
        for number, query in enumerate(names):
            print(query, f"t{number // 3}", sep="\t", file=file)
    run = ("compare", "copy.run", "-b", "dense.run", "-r", "some.txt", "--allow-mismatch")
    answer = assay(*run, "--fail-if-worse", *more)
    assert answer.code == 0, answer.err
    assert "Passed: same scores as dense.run on nDCG@10" in answer.err


def test_a_margin_that_these_queries_cannot_show_is_refused(assay, demo):
    run = ("compare", "coarse.run", "-r", "qrels.txt", "-b", "dense.run", "--fail-if-worse")
    refused = assay(*run, "--margin", "0.02")
    assert (refused.code, refused.out) == (2, "")
    assert (
        "50 queries cannot rule out a loss of 0.02 on nDCG@10: even without any difference the "
        "worst plausible loss is 0.0582. Use a margin of 0.0582 or more"
    ) in refused.err
    assert assay(*run, "--margin", "0.0582").code == 1
    late = assay(*run, "--margin", "0.1", "--look", "3")
    assert (late.code, late.out) == (2, "")
    assert "at look 3: " in late.err
    assert assay(*run, "--margin", "0.1", "--look-file", "refused.json").code == 2
    assert not (demo / "refused.json").exists()


def test_a_gate_that_passes_says_so(assay):
    run = ("compare", "dense.run", "-r", "qrels.txt", "-b", "lexical.run")
    worse = ("--fail-if-worse",)
    condition = ("--fail-if", "nDCG@10 < baseline - 0.1")
    no_loss = "no significant loss against lexical.run on nDCG@10"
    for more, shown in (
        (worse, no_loss),
        ((*worse, "-m", "nDCG@10", "-m", "AP"), f"{no_loss} and AP"),
        ((*worse, "--look", "3"), no_loss),
        ((*worse, "--margin", "0.2"), "no loss of 0.2 or more against lexical.run on nDCG@10"),
        (condition, "no system meets 'nDCG@10 < baseline - 0.1'"),
        ((*condition, "--fail-if", "AP < 0.1"), "no system meets any of 2 conditions"),
        ((*worse, *condition), f"{no_loss}; no system meets 'nDCG@10 < baseline - 0.1'"),
    ):
        answer = assay(*run, *more)
        assert answer.code == 0, answer.err
        assert answer.err.splitlines()[-1] == f"Passed: {shown}."
        for layout in ("json", "csv", "markdown"):
            printed = assay(*run, *more, "--format", layout)
            assert printed.err.splitlines()[-1] == f"Passed: {shown}."
        data = json.loads(assay(*run, *more, "--json").out)["gate"]
        assert (data["failed"], data["message"]) == (False, f"Passed: {shown}.")
    assert "Passed" not in assay(*run).err


def test_looks_are_counted_by_the_caller_or_by_a_file(assay, demo):
    run = ("compare", "coarse.run", "-r", "qrels.txt", "-b", "dense.run", "--fail-if-worse")
    plain = assay(*run)
    assert plain.code == 1
    first = assay(*run, "--look", "1")
    assert first.code == 0
    assert "Look 1: coarse − dense on nDCG@10: −0.0511, at most +0." in first.out
    for expected in (1, 1):
        counted = assay(*run, "--look-file", "looks.json")
        assert (counted.code, counted.out) == (0, first.out)
        (looks,) = json.loads((demo / "looks.json").read_text())["gates"].values()
        assert len(looks) == expected
    other = assay("compare", "lexical.run", *run[2:], "--look-file", "looks.json", "--json")
    look = json.loads(other.out)["gate"]["look"]
    assert (look["number"], look["seen_before"]) == (2, False)
    assert look["pairs"][0]["bound"] > 0
    wide = assay(*run, "--look", "3", "--margin", "0.9")
    assert wide.code == 0
    narrow = assay(*run, "--look", "3", "--margin", "0.18")
    assert narrow.code == 1
    assert "coarse may lose 0.18 or more against dense on nDCG@10" in narrow.err
    assert "(95 % over all looks)" in narrow.err


def test_a_look_file_that_is_another_file(assay, demo):
    run = ("compare", "coarse.run", "-r", "qrels.txt", "-b", "dense.run", "--fail-if-worse")
    before = (demo / "qrels.txt").read_text()
    answer = assay(*run, "--look-file", "qrels.txt")
    assert (answer.code, answer.out) == (3, "")
    assert "qrels.txt" in answer.err
    assert (demo / "qrels.txt").read_text() == before
    same = assay(*run, "--look-file", "x.json", "-o", "x.json")
    assert same.code == 2
    assert "two results" in same.err


def test_json_holds_the_gate(assay):
    answer = assay(
        "compare",
        "lexical.run",
        "-r",
        "qrels.txt",
        "-b",
        "dense.run",
        "--json",
        "--fail-if",
        "RR < 2",
    )
    assert answer.code == 1
    gate = json.loads(answer.out)["gate"]
    assert gate["failed"] is True
    assert "lexical has RR" in gate["reasons"][0]
    assert gate["message"] == f"Failed: {gate['reasons'][0]}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dense.run",), "needs two runs. Name another, or a --baseline"),
        (("dense.run", "lexical.run", "-b", "lexcal"), "Did you mean lexical?"),
        (("dense.run", "lexical.run", "--fail-if-worse"), "requires --baseline"),
        (("dense.run", "lexical.run", "--fail-if", "AP < baseline"), "requires --baseline"),
        (("dense.run", "lexical.run", "--fail-if", "AP is low"), "Cannot read the condition"),
        (("dense.run", "lexical.run", "--fail-if", "APP < 1"), "AP"),
        (("dense.run", "lexical.run", "--margin", "0"), "margin"),
        (("dense.run", "lexical.run", "--look", "2"), "--look requires --fail-if-worse"),
        (("dense.run", "lexical.run", "--look-file", "f"), "--look-file requires --fail-if-worse"),
        (("a", "b", "--fail-if-worse", "--look", "2", "--look-file", "f"), "exclude each other"),
        (("a", "b", "--fail-if-worse", "--look", "0"), "x>=1"),
        (("dense.run", "lexical.run", "--level", "95"), "such as 0.05"),
        (("dense.run", "lexical.run", "--level", "1e-300"), "found 1e-300"),
        (("dense.run", "lexical.run", "--level", "0.51"), "found 0.51"),
        (("dense.run", "lexical.run", "--resamples", "1"), "x>=100"),
        (("dense.run", "lexical.run", "--fail-if", "AP < 1e999"), "too large"),
        (
            ("dense.run", "lexical.run", "--format", "csv", "--sensitivity"),
            "holds pairs only. Omit --sensitivity and --differences",
        ),
        (("dense.run", "lexical.run", "--format", "csv", "--json"), "exclude each other"),
        (("dense.run", "lexical.run", "-m", "GMAP"), "GMAP cannot be compared"),
    ],
)
def test_senseless_commands_end_with_2(assay, arguments, message):
    answer = assay("compare", *arguments, "-r", "qrels.txt")
    assert answer.code == 2
    assert message in answer.err
    assert answer.out == ""


def test_many_runs_list_no_pairs(assay, demo):
    for i in range(11):
        (demo / f"many{i:02}.run").write_bytes((demo / "dense.run").read_bytes())
    paths = sorted(demo.glob("many*.run"))
    answer = assay("compare", *paths, "-r", "qrels.txt", "--resamples", "100")
    assert answer.code == 0
    assert "55 pairs are too many to list" in answer.out
    assert "W/T/L" not in answer.out


# On a terminal


@pytest.mark.parametrize(("width", "shown"), [(80, ["a", "b"]), (30, ["a"]), (12, ["a", "b"])])
def test_columns_that_do_not_fit_are_left_out_if_they_may(monkeypatch, width, shown, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    row = (Cell("name"), Cell("x" * 20, "figure"), Cell("y" * 20, "figure"))
    table = Table(("n", "a", "b"), (row,), n_optional=0 if width == 12 else 1)
    print_page([Words("verdict", "verdict"), table, Words("s" * 99, "signature")])
    out = capsys.readouterr().out
    assert [name for name in ("a", "b") if re.search(rf"\b{name}\b", out)] == shown
    assert "s" * 99 in out


def test_the_five_runs_fit_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    from tests.comparison.made_scores import scores_of

    rng = np.random.default_rng(1)
    names = ["InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100"]
    found = compare(*[scores_of(rng.random(100)) for _ in names], names=names, resamples=100)
    print_page(found.page()[:-1])
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "difference" in out
    assert "wins/ties/losses" not in out  # there is no room for it
    assert out.count("rutcor03100") >= 5


# The page about comparisons


def _topics():
    return sorted(as_judgments("qrels.gz").query_ids)


def test_the_page_shows_what_the_command_prints(assay, data_dir, tmp_path, monkeypatch):
    folder = data_dir("robust03")
    for path in folder.glob("input.*.gz"):
        (tmp_path / path.name.removeprefix("input.")).symlink_to(path)
    (tmp_path / "qrels.gz").symlink_to(folder / "robust03_qrels.txt.gz")
    monkeypatch.chdir(tmp_path)
    topics = [f"{query}\t{'601-650' if int(query) > 600 else '1-600'}" for query in _topics()]
    (tmp_path / "topics.tsv").write_text("\n".join(["query\ttopics", *topics]))
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text("utf-8")
    for block in re.findall(r"^```text\n(.*?)^```", page, re.S | re.M):
        command, _, shown = block.partition("\n")
        printed = assay(*shlex.split(command.removeprefix("$ assay "))).out
        lines = [line for line in shown.splitlines() if not line.startswith(("…", "preset:"))]
        assert "\n".join(lines).strip() in printed


def test_the_output_never_replaces_an_input(assay, demo):
    before = (demo / "dense.run").read_bytes()
    answer = assay("compare", "dense.run", "lexical.run", "-r", "qrels.txt", "-o", "dense.run")
    assert answer.code == 2
    assert "dense.run" in answer.err
    assert (demo / "dense.run").read_bytes() == before
