"""`assay check`, `explain`, `measures`, `convert`, and what all commands share."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from assay import evaluate
from assay.cli.main import list_commands
from assay.core.conventions import PRESETS
from assay.measures import REGISTRY

COMMANDS = {name: command.summary for name, command in list_commands().items()}

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_the_line_of_the_list(assay, command):
    answer = assay(command, "--help")
    assert answer.code == 0
    assert len(re.findall(rf"^    assay {command}\b", answer.out, re.MULTILINE)) >= 2
    assert COMMANDS[command].split()[0] in answer.out
    assert COMMANDS[command] in " ".join(assay("--help").out.split())


def test_version(assay):
    from assay import __version__

    assert assay("--version").out == f"assay, version {__version__}\n"


def test_unknown_command_is_answered_with_the_nearest(assay):
    answer = assay("evla")
    assert answer.code == 2
    assert "Did you mean eval?" in answer.err


def test_check_tells_by_its_exit_code(assay, folder):
    answer = assay("check", "run.txt", "qrels.txt", "-m", "RR")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("note: ")
    (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 a 1\nq3 0 a 1\n")
    answer = assay("check", "run.txt", "qrels.txt", "-m", "RR", "--json")
    data = json.loads(answer.out)
    assert answer.code == 1
    assert data["schema_version"] == 1
    assert data["changes_numbers"] is True
    assert data["findings"][0]["code"] == "missing-queries"
    (folder / "run.txt").write_text("q1 Q0 a 1\n")
    assert assay("check", "run.txt", "qrels.txt").code == 3
    assert assay("check", "nothing.txt", "qrels.txt").code == 5


def test_explain_prints_the_number_of_eval(assay):
    answer = assay("explain", "run.txt", "-r", "qrels.txt", "--query", "q1", "-m", "AP")
    value = float(evaluate("run.txt", "qrels.txt", "AP")["AP"][0])
    assert answer.code == 0
    assert f"AP of query q1 = {value!r}" in answer.out
    data = json.loads(
        assay("explain", "run.txt", "-r", "qrels.txt", "--query", "q1", "-m", "AP", "--json").out
    )
    assert data["value"] == data["evaluated"] == value
    assert data["exact"] is True
    assert [line["doc"] for line in data["lines"]] == ["a", "b", "c"]


def test_explain_wants_one_measure_and_a_judged_query(assay):
    assert (
        assay("explain", "run.txt", "-r", "qrels.txt", "--query", "q1", "-m", "official").code == 2
    )
    answer = assay("explain", "run.txt", "-r", "qrels.txt", "--query", "q7")
    assert answer.code == 3
    assert "'q7'" in answer.err


def test_explain_shouts_when_the_numbers_differ(assay, monkeypatch):
    from assay.measures.derivations import Derivation

    wrong = replace(REGISTRY["RR"], derivation=lambda at, k: Derivation(0.25, ("RR = 1 / 4",)))
    monkeypatch.setitem(REGISTRY, "RR", wrong)
    answer = assay("explain", "run.txt", "-r", "qrels.txt", "--query", "q1", "-m", "RR")
    assert answer.code == 1
    assert "RR of query q1 = 1.0" in answer.out
    assert "WARNING: the lines above give 0.25" in answer.out


def test_measures_lists_the_registry(assay):
    out = assay("measures").out
    assert all(re.search(rf"^{name}\b", out, re.MULTILINE) for name in REGISTRY)
    data = json.loads(assay("measures", "--json").out)
    assert [one["name"] for one in data["measures"]] == list(REGISTRY)
    assert data["schema_version"] == 1


def test_measures_by_any_name(assay):
    by_alias = assay("measures", "ndcg_cut_10").out
    assert by_alias == assay("measures", "nDCG").out
    assert REGISTRY["nDCG"].formula in by_alias
    assert assay("measures", "MAP").out.startswith("MAP@R")
    assert assay("measures", "nonsense").code == 2


def test_measures_lists_the_presets(assay):
    out = assay("measures", "--conventions").out
    assert all(re.search(rf"^{name} ", out, re.MULTILINE) for name in PRESETS)
    data = json.loads(assay("measures", "--conventions", "--json").out)
    assert data["presets"] == {name: rules.signature() for name, rules in PRESETS.items()}


@pytest.mark.parametrize("ending", ["txt.gz", "csv", "tsv", "json", "jsonl", "parquet"])
def test_convert_there_and_back(assay, folder, ending):
    to = ["--to", "trec"] if ending == "txt.gz" else []
    assert assay("convert", "run.txt", f"there.{ending}", *to).code == 0
    assert assay("convert", f"there.{ending}", "back.txt", "--to", "trec").code == 0
    kind = ["--kind", "qrels"]
    assert assay("convert", "qrels.txt", f"q.{ending}", *kind, *to).code == 0
    assert assay("convert", f"q.{ending}", "q.txt", *kind, "--to", "trec").code == 0
    there = evaluate("back.txt", "q.txt", "official").mean()
    assert dict(there) == dict(evaluate("run.txt", "qrels.txt", "official").mean())


def test_convert_refuses_what_it_cannot(assay, folder):
    (folder / "old.csv").write_text("keep me")
    (folder / "bad.txt").write_text("q1 Q0 a\n")
    assert assay("convert", "bad.txt", "old.csv").code == 3
    assert (folder / "old.csv").read_text() == "keep me"
    assert assay("convert", "qrels.txt", "q.csv", "--kind", "qrels", "--tag", "x").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["check", "run.txt", "qrels.txt", "-o", "run.txt"],
        ["check", "run.txt", "qrels.txt", "-o", "qrels.txt", "--json"],
        ["explain", "run.txt", "-r", "qrels.txt", "--query", "q1", "-o", "run.txt"],
        ["convert", "run.txt", "./run.txt"],
        ["convert", "qrels.txt", "qrels.txt", "--kind", "qrels"],
    ],
)
def test_no_input_is_written_over(assay, folder, command):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = assay(*command)
    assert answer.code == 2
    assert "is one of the inputs" in answer.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        ["check", "run.txt", "qrels.txt", "-m", "RR"],
        ["explain", "run.txt", "-r", "qrels.txt", "--query", "q1"],
        ["measures", "nDCG"],
    ],
)
def test_the_ending_of_the_output_says_the_format(assay, folder, command):
    assert assay(*command, "-o", "x.json").code == 0
    assert json.loads((folder / "x.json").read_text())["command"] == command[0]
    for name in ("x.csv", "x.parquet"):
        answer = assay(*command, "-o", name)
        assert answer.code == 2
        assert "Use .json, or .txt for text." in answer.err
        assert not (folder / name).exists()


def test_convert_offers_what_it_can_write(assay, folder):
    offered = re.search(r"--to \[(.*?)\]", " ".join(assay("convert", "--help").out.split()))
    formats = offered.group(1).replace(" ", "").split("|")
    assert "npy" not in formats
    for name in formats:
        assert assay("convert", "run.txt", "out", "--to", name).code == 0


def test_convert_refuses_an_unknown_ending(assay, folder):
    answer = assay("convert", "run.txt", "z.xyz")
    assert answer.code == 2
    assert ".run, .txt, .trec, .qrels, .csv" in answer.err
    assert not (folder / "z.xyz").exists()
    assert assay("convert", "run.txt", "z.xyz", "--to", "trec").code == 0


def test_the_documented_functions_are_public():
    import assay as package

    assert all(name in package.__all__ for name in ("check", "explain", "compare", "evaluate"))


@pytest.mark.parametrize("ending", ["txt", "csv", "tsv", "json", "jsonl", "parquet", "npz"])
def test_convert_keeps_the_order_of_lines_with_equal_scores(assay, folder, ending):
    """So that the number stays the same under conventions that go by the order of lines."""
    lines = [("q1", "b"), ("q1", "c"), ("q1", "a"), ("q2", "a"), ("q2", "c"), ("q2", "b")]
    (folder / "tied.run").write_text("".join(f"{q} Q0 {d} 1 1 t\n" for q, d in lines))
    assert assay("convert", "tied.run", f"there.{ending}").code == 0
    assert assay("convert", f"there.{ending}", "back.csv").code == 0
    found = [line.split(",")[:2] for line in (folder / "back.csv").read_text().splitlines()[1:]]
    assert found == [list(one) for one in lines]
