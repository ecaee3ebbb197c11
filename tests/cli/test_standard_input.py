"""`-` is standard input wherever a command reads a file, once."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

from tests.cli.every_command import COMMANDS
from tests.conftest import QRELS, RUN


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bytes], None]:
    """Bytes for the next command to read from standard input."""
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kept))

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


LINES = {
    "eval run": ("eval run.txt -r qrels.txt", "run.txt"),
    "eval qrels": ("eval run.txt -r qrels.txt", "qrels.txt"),
    "eval groups": ("eval run.txt -r qrels.txt --by groups.tsv -m AP", "groups.tsv"),
    "compare": ("compare run.txt other.txt -r qrels.txt --sensitivity", "other.txt"),
    "compare baseline": ("compare run.txt -r qrels.txt -b other.txt", "other.txt"),
    "check": ("check run.txt qrels.txt", "run.txt"),
    "explain": ("explain run.txt -r qrels.txt --query q1 -m AP", "run.txt"),
    "trec_eval": ("trec_eval qrels.txt run.txt", "run.txt"),
    "trec_eval qrels": ("trec_eval -q qrels.txt run.txt", "qrels.txt"),
    "predict": ("predict scores.npy -t targets.npy", "scores.npy"),
    "predict targets": ("predict scores.npy -t targets.npy", "targets.npy"),
    "codes": (
        "codes --embeddings docs.npy --queries queries.npy -r rows.txt --bits 4 --k 2",
        "docs.npy",
    ),
    "tasks": ("tasks values.csv", "values.csv"),
}


@pytest.fixture
def inputs(folder: Path) -> Path:
    """The small files, vectors, predictions and values of tasks."""
    chance = np.random.default_rng(0)
    (folder / "groups.tsv").write_text("q1\tx\nq2\ty\n")
    (folder / "rows.txt").write_text("0 0 0 1\n1 0 1 1\n2 0 2 1\n")
    for name, shape in (("docs", (9, 4)), ("queries", (3, 4)), ("scores", (6, 4))):
        np.save(folder / f"{name}.npy", chance.random(shape).astype(np.float32))
    np.save(folder / "targets.npy", np.arange(6) % 4)
    rows = [f"{system},t{i},0.{i + 1}\n" for system in "ab" for i in range(5)]
    (folder / "values.csv").write_text("system,task,value\n" + "".join(rows))
    return folder


def _untimed(out: str) -> str:
    return re.sub(r'("\w*seconds": )[0-9.e-]+', r"\1", out)


@pytest.mark.parametrize("name", LINES)
def test_the_same_numbers_as_from_the_file(inputs, assay, feed, name):
    line, file = LINES[name]
    words = [*line.split(), *([] if "trec_eval" in line else ["--json"])]
    copy = (inputs / file).rename(inputs / f"stdin{Path(file).suffix}").name
    from_file = assay(*(copy if word == file else word for word in words))
    feed((inputs / copy).read_bytes())
    found = assay(*("-" if word == file else word for word in words))
    assert (found.code, from_file.code) in ((0, 0), (1, 1)), found.err
    assert _untimed(found.out) == _untimed(from_file.out.replace(copy, "-"))
    assert not os.listdir(inputs / "kept"), "the copy is gone"
    assert "kept" not in found.out + found.err


def test_what_came_in_by_standard_input_cannot_be_verified(inputs, assay, feed):
    feed((inputs / "run.txt").read_bytes())
    answer = assay("eval", "-", "-r", "qrels.txt", "--json")
    (inputs / "result.json").write_text(answer.out)
    assert set(json.loads(answer.out)["made_by"]["inputs"]) == {"-", "qrels.txt"}
    done = assay("verify", "result.json", "run.txt")
    assert done.code == 5
    assert "read standard input. Compute it from a file" in done.err


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "npz", "parquet", "txt.gz"])
def test_the_format_is_told_by_the_content(folder, assay, feed, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    assert assay("convert", "run.txt", f"there.{ending}").code == 0
    wanted = json.loads(assay("eval", "run.txt", "-r", "qrels.txt", "--json").out)
    feed((folder / f"there.{ending}").read_bytes())
    answer = assay("eval", "-", "-r", "qrels.txt", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)["runs"][0]
    assert (found["name"], found["path"]) == ("stdin", "-")
    assert (
        found["per_query" if "per_query" in found else "measures"]
        == (wanted["runs"][0]["per_query" if "per_query" in found else "measures"])
    )


def test_it_is_read_once(folder, assay, feed):
    feed(RUN.encode())
    for line in ("eval - -r -", "eval - - -r qrels.txt", "compare - other.txt -r qrels.txt -b -"):
        answer = assay(*line.split())
        assert answer.code == 2
        assert "Standard input ('-') is named twice. Name a file instead." in answer.err


def test_what_is_wrong_with_it_names_it(folder, assay, feed):
    feed(b"q1 Q0 a 1 x tag\n")
    assert "standard input, line 1: the score 'x' is not a number" in (
        assay("eval", "-", "-r", "qrels.txt").err
    )
    feed(QRELS.encode())
    assert "standard input, line 1: expected 6 columns" in (
        assay("eval", "-", "-r", "qrels.txt").err
    )
    feed(b"")
    assert "standard input is empty" in assay("eval", "-", "-r", "qrels.txt").err
    feed(b"\x1f\x8bnonsense")
    assert "standard input is a damaged gzip file" in assay("eval", "-", "-r", "qrels.txt").err
    feed(b"PK\x03\x04nonsense")
    assert "standard input is not a valid .npz file" in assay("eval", "-", "-r", "qrels.txt").err
    sys.stdin.close()
    assert "Standard input is closed" in assay("eval", "-", "-r", "qrels.txt").err


def test_a_bomb_is_refused_in_its_name(folder, assay, feed, monkeypatch):
    import gzip

    monkeypatch.setenv("ASSAY_MAX_BYTES", "100000")
    feed(gzip.compress(b"q1 Q0 a 1 1 tag\n" * 200_000))
    answer = assay("eval", "-", "-r", "qrels.txt")
    assert answer.code == 3
    assert "standard input holds" in answer.err
    assert "decompression bomb" in answer.err


def test_a_stored_run_says_what_was_typed(folder, assay, feed):
    pytest.importorskip("sqlalchemy")
    feed(RUN.encode())
    assert assay("eval", "-", "-r", "qrels.txt", "--save", "--store", "s.db").code == 0
    shown = assay("runs", "show", "1", "--store", "s.db", "--json").out
    run = json.loads(shown)["run"]
    assert run["data"].keys() == {"-", "qrels.txt"}
    assert "kept" not in shown
    feed(b"another")
    again = assay("runs", "rerun", "1", "--store", "s.db")
    assert again.code == 2, again
    assert "standard input" in again.err
    assert sys.stdin.read() == "another"


@pytest.mark.parametrize(
    "line",
    [
        "eval run.txt -r qrels.txt -o -",
        "eval run.txt -r qrels.txt --output=-",
        "convert run.txt -",
        "schema eval -o -",
        "bench --corpus c.jsonl --model bm25 --runs -",
    ],
)
def test_it_is_no_place_to_write_to(folder, assay, line):
    answer = assay(*line.split())
    assert answer.code == 2
    assert "Cannot write to '-'" in answer.err
    assert not (folder / "-").exists()


def test_runs_of_the_store_are_no_files(folder, assay, feed):
    pytest.importorskip("sqlalchemy")
    feed(RUN.encode())
    assert assay("eval", "run.txt", "-r", "qrels.txt", "--save", "--store", "s.db").code == 0
    assert assay("runs", "show", "-", "--store", "s.db").code != 0
    assert sys.stdin.read() == RUN


def test_every_parameter_that_is_a_file_to_read_takes_it():
    named = {
        (command.name, one.name, getattr(one, "reads", False) or getattr(one, "writes", False))
        for command in COMMANDS.values()
        for one in command.params
        if re.fullmatch(r"(\w+\|)?FILE|\w+\.\w+", one.metavar or "")
        and isinstance(one.type, click.types.StringParamType)
    }
    assert {"result", "ir_metadata"} <= {name for _, name, _ in named}
    assert not [row for row in named if not row[2]]


def test_a_result_from_a_pipe_is_verified(folder, assay, feed):
    feed(assay("eval", "run.txt", "-r", "qrels.txt", "--json").out.encode())
    answer = assay("verify", "-")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("standard input: reproduced to the last digit")
    feed(b"{}")
    refused = assay("verify", "-")
    assert refused.code == 3
    assert refused.err.startswith("assay: standard input: no record of its command")
