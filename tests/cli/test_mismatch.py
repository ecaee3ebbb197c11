"""Ids that do not fit are refused by every command that joins them, unless told to go on."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import assay as library
from assay.errors import MismatchError

N_QUERIES = 30


def write_run(path, seed, name=str, query=str):
    rng = random.Random(seed)
    lines = []
    for q in range(1, N_QUERIES + 1):
        docs = rng.sample(range(1, 200), 20)
        lines += [
            f"{query(q)} Q0 {name(doc)} {rank} {100 - rank}.5 t\n" for rank, doc in enumerate(docs)
        ]
    path.write_text("".join(lines))
    return path


def write_qrels(path, name=str, query=str):
    rng = random.Random(99)
    path.write_text(
        "".join(
            f"{query(q)} 0 {name(doc)} {rng.randint(0, 2)}\n"
            for q in range(1, N_QUERIES + 1)
            for doc in rng.sample(range(1, 200), 12)
        )
    )
    return path


WRITTEN = {
    "prefix": lambda number: f"doc-{number}",
    "zero padding": lambda number: f"{number:03d}",
    "decimal point": lambda number: f"{number}.0",
    "a list": lambda number: f"{number};{number + 1000}",
    "prefix, case": lambda number: f"D{number:05d}",
}


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path / f"{seed}.run", seed) for seed in (1, 2)]


def commands(runs, qrels, tmp_path):
    one, two = runs
    return {
        "eval": ["eval", one, "-r", qrels],
        "compare": ["compare", one, two, "-r", qrels],
        "report": ["report", one, two, "-r", qrels, "-o", tmp_path / "report.md"],
        "explain": ["explain", one, "-r", qrels, "--query", "5"],
    }


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("command", ["eval", "compare", "report", "explain"])
def test_documents_that_are_written_differently(assay, runs, tmp_path, command, how):
    qrels = write_qrels(tmp_path / "qrels", WRITTEN[how])
    line = commands(runs, qrels, tmp_path)[command]
    refused = assay(*line)
    assert refused.code == 3
    assert refused.out == ""
    assert how in refused.err
    assert "--allow-mismatch" in refused.err
    assert assay(*line, "--allow-mismatch").code == 0


@pytest.mark.parametrize("command", ["eval", "compare", "report"])
def test_nine_queries_of_thirty(assay, runs, tmp_path, command):
    qrels = write_qrels(tmp_path / "qrels", query=lambda q: f"{q:02d}")
    refused = assay(*commands(runs, qrels, tmp_path)[command])
    assert refused.code == 3
    assert "9 of 9 judged queries" in refused.err


def test_what_is_allowed_stands_beside_the_number(assay, runs, tmp_path):
    qrels = write_qrels(tmp_path / "qrels", WRITTEN["prefix"])
    answer = assay("eval", runs[0], "-r", qrels, "--json", "--allow-mismatch")
    (run,) = json.loads(answer.out)["runs"]
    assert any("differs in a prefix" in remark for remark in run["remarks"])
    assert "differs in a prefix" in answer.err
    compared = assay("compare", *runs, "-r", qrels, "--json", "--allow-mismatch")
    assert sum("prefix" in words for words in json.loads(compared.out)["remarks"]) == 2


def test_documents_of_another_collection(assay, runs, tmp_path):
    qrels = write_qrels(tmp_path / "qrels", lambda number: f"xyz{number * 7919 % 1000003}q")
    refused = assay("eval", runs[0], "-r", qrels)
    assert refused.code == 3
    assert "None of the" in refused.err


@pytest.mark.parametrize("how", ["zero padding", "decimal point"])
def test_some_documents_written_differently_on_either_side(assay, tmp_path, how):
    def some(number):
        return WRITTEN[how](number) if number % 3 == 0 else str(number)

    for left, right in ((str, some), (some, str)):
        run = write_run(tmp_path / "run", 1, name=left)
        refused = assay("eval", run, "-r", write_qrels(tmp_path / "qrels", right))
        assert refused.code == 3
        assert how in refused.err


def test_unjudged_documents_that_look_otherwise_are_no_mismatch(assay, tmp_path):
    def other(number):
        return f"web-{number:06d}" if number > 100 else str(number)

    run = write_run(tmp_path / "run", 1, name=other)
    rng = random.Random(5)
    lines = (f"{q} 0 {rng.randint(1, 100)} 1\n" for q in range(1, N_QUERIES + 1))
    (tmp_path / "qrels").write_text("".join(lines))
    answer = assay("eval", run, "-r", tmp_path / "qrels", "-m", "AP")
    assert (answer.code, answer.err) == (0, "")


def test_a_query_that_misses_everything_is_no_mismatch(assay, tmp_path):
    (tmp_path / "run").write_text("".join(f"q Q0 a{i} {i} {99 - i} t\n" for i in range(50)))
    (tmp_path / "qrels").write_text("".join(f"q 0 longer{i}x 1\n" for i in range(90, 110)))
    answer = assay("eval", tmp_path / "run", "-r", tmp_path / "qrels", "-m", "AP")
    assert answer.code == 0
    assert "none of the 20 judged documents is in the run: all of it is unjudged" in answer.out


def test_python_refuses_as_the_command_does(runs, tmp_path):
    qrels = write_qrels(tmp_path / "qrels", WRITTEN["zero padding"])
    with pytest.raises(MismatchError, match="zero padding"):
        library.evaluate(str(runs[0]), str(qrels))
    scores = library.evaluate(str(runs[0]), str(qrels), allow_mismatch=True)
    assert "zero padding" in scores.remarks[0]
    assert scores.remarks[0] in repr(scores)
    assert scores.remarks[0] in scores.to_dict()["remarks"]


def test_fuse(assay, runs, tmp_path):
    other = write_run(tmp_path / "other.run", 3, name=lambda number: f"{number:05d}")
    target = tmp_path / "fused.run"
    refused = assay("fuse", runs[0], other, "-o", target)
    assert (refused.code, target.exists()) == (3, False)
    assert assay("fuse", runs[0], other, "-o", target, "--allow-mismatch").code == 0
    federated = write_run(tmp_path / "news.run", 3, name=lambda number: f"news-{number}")
    assert assay("fuse", runs[0], federated, "-o", target).code == 0


@pytest.mark.parametrize(
    ("cell", "how"),
    [("17.0 3.0 4.0", "decimal point"), ("017 003 004", "zero padding"), ("17|3|4", "a list")],
)
def test_predict(assay, tmp_path, cell, how):
    table = tmp_path / "lists.tsv"
    rows = "".join(f"{target}\t{cell}\n" for target in (17, 3, 4, 17))
    table.write_text(f"target\tcandidates\n{rows}")
    refused = assay("predict", table)
    assert refused.code == 3
    assert how in refused.err
    assert assay("predict", table, "--allow-mismatch").code == 0


def test_baselines_of_other_labels(assay, tmp_path):
    table, train = tmp_path / "lists.tsv", tmp_path / "train.csv"
    table.write_text("target\tcandidates\n" + "7\t7 8\n8\t8 7\n" * 3)
    train.write_text("label\n" + "07\n08\n" * 5)
    refused = assay("predict", table, "--train", train)
    assert refused.code == 3
    assert "the training labels" in refused.err


def test_bench(assay, tmp_path):
    docs = [{"_id": f"{i:02d}", "text": f"word{i} common text"} for i in range(1, 31)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    queries = [{"_id": f"{i:02d}", "text": f"word{i}"} for i in range(1, 31)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 {i:02d} 1\n" for i in range(1, 31)))
    line = ["bench", "--corpus", tmp_path / "docs.jsonl", "--queries", tmp_path / "queries.jsonl"]
    line += ["-r", tmp_path / "qrels.txt", "--model", "bm25", "--no-cache"]
    refused = assay(*line)
    assert refused.code == 3
    assert "9 of 9 judged queries" in refused.err
    assert assay(*line, "--allow-mismatch").code == 0


def test_codes(assay, tmp_path):
    np.save(tmp_path / "docs.npy", np.random.default_rng(0).normal(size=(40, 8)))
    (tmp_path / "ids.txt").write_text("".join(f"d{i}\n" for i in range(40)))
    (tmp_path / "qrels").write_text("".join(f"D{i} 0 D{(i + 1) % 40} 1\n" for i in range(40)))
    line = ["codes", "--embeddings", tmp_path / "docs.npy", "--doc-ids", tmp_path / "ids.txt"]
    line += ["-r", tmp_path / "qrels", "--method", "sign", "--k", "5"]
    refused = assay(*line)
    assert refused.code == 3
    assert "upper and lower case" in refused.err


def test_prototypes_of_other_labels(assay, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "text.npy", rng.normal(size=(12, 4)))
    np.save(tmp_path / "labels.npy", np.array(["cook", "rest"] * 6))
    np.save(tmp_path / "prototypes.npy", rng.normal(size=(2, 4)))
    np.save(tmp_path / "names.npy", np.array(["Cook", "Rest"]))
    line = ["crossmodal", "--text-embeddings", tmp_path / "text.npy"]
    line += ["--labels", tmp_path / "labels.npy", "--k-values", "1"]
    line += ["--prototype-embeddings", tmp_path / "prototypes.npy"]
    line += ["--prototype-labels", tmp_path / "names.npy"]
    refused = assay(*line)
    assert refused.code == 3
    assert "'Cook' and 'cook'" in refused.err


@pytest.mark.parametrize("command", ["eval", "compare", "report"])
def test_groups_of_other_queries(assay, runs, tmp_path, command):
    qrels = write_qrels(tmp_path / "qrels")
    groups = tmp_path / "groups.tsv"
    groups.write_text("query\tkind\n" + "".join(f"{q:02d}\t{q % 3}\n" for q in range(1, 31)))
    refused = assay(*commands(runs, qrels, tmp_path)[command], "--by", groups)
    assert refused.code == 3
    assert "'1' and '01' differ in zero padding" in refused.err


def test_compared_systems_of_other_queries():
    judged = [f"{i:02d}" for i in range(1, 31)]
    scores = [
        library.evaluate({q: {"a": 1, "b": 0} for q in ids}, {q: {"a": 1} for q in ids}, "RR")
        for ids in (judged, [str(int(q)) for q in judged])
    ]
    found = library.compare(*scores)
    assert any("9 of 9 queries of A" in remark for remark in found.remarks)
