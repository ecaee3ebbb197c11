"""Tables of the demo's commands are readable on 80 columns, in a terminal and in a pipe."""

from __future__ import annotations

import re

import pytest

from assay.cli import output
from assay.io.demo_collection import write_files

LINES = [
    "eval coarse.run dense.run lexical.run -r qrels.txt",
    "eval dense.run -r qrels.txt --by kinds.tsv:kind",
    "compare coarse.run dense.run lexical.run -r qrels.txt",
    "compare coarse.run dense.run -r qrels.txt -b lexical.run -m nDCG@10 -m AP",
    "compare coarse.run dense.run -r qrels.txt --slices kinds.tsv:kind",
    "compare coarse.run dense.run -r qrels.txt --differences 3 --sensitivity",
    "diff coarse.run dense.run",
    "tasks values.csv",
]
# A signature and a list of remarks are sentences, which the terminal breaks.
# Wide tables are broken into blocks of columns on a terminal and in a pipe; files hold them whole.
WIDE = [
    "eval coarse.run dense.run lexical.run -r qrels.txt -m official",
    "eval dense.run -r qrels.txt -m official",
    "eval dense.run lexical.run --labels pool.labels.jsonl --pool pool.tsv",
    "compare coarse.run dense.run lexical.run -r qrels.txt --full",
    "explain dense.run -r qrels.txt --query q07",
    "tasks values.csv --full",
    "runs list",
    "runs list -m nDCG@10 -m AP",
    "runs show 1",
    "runs compare 1 2",
    "measures",
    "measures nDCG",
    "measures --conventions",
    "agreement pool.labels.jsonl machine.labels.jsonl --run dense.run --run lexical.run",
    "bench --corpus docs.jsonl --queries queries.jsonl -r qrels.tsv --model bm25 --model tfidf",
    "diff dense.run coarse.run -r qrels.txt -m nDCG@10",
    "diff dense.run coarse.run -k 10 -k 50 --queries queries.jsonl --slices kinds.tsv:kind",
    "predict a=a1.npz a=a2.npz a=a3.npz b=b1.npz b=b2.npz b=b3.npz",
    "predict logits.npy --targets labels.npy --confidence",
    "predict predictions.tsv --candidates top10 --candidates top10_wot --by user_id",
    "predict --results mhsa=mhsa1.json --results mhsa=mhsa2.json --results lstm=lstm1.json",
    "crossmodal --sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy",
    "crossmodal --modality image=images.npy --modality text=texts.npy --protocol pairs",
    "crossmodal --modality image=sensor.npy --modality text=text.npy --labels labels.npy --full",
    "codes --embeddings docs.npy --queries queries.npy",
    "codes --embeddings docs.npy --queries queries.npy --qrels qrels.tsv --doc-ids docs.txt "
    "--query-ids queries.txt",
]
# `measures` lists texts; `predict --results` ends with a sentence instead of numbers.
ALL_TEXT = [*filter(re.compile("measures|runs show|predict --results").match, WIDE)]
SENTENCE = re.compile(r"^(⚠|p: |preset:|[^ ]+ (is|scores) |Against |Lead |Closest )")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    write_files(folder)
    return folder


def table_lines(text: str) -> list[str]:
    """Lines of tables: columns stand two or more spaces apart."""
    lines = [line for line in text.splitlines() if not SENTENCE.match(line)]
    return [line for line in lines if re.search(r"\S {2,}\S", line)]


@pytest.mark.parametrize("in_terminal", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_no_line_of_a_table_is_wider_than_80(assay, demo, monkeypatch, line, in_terminal):
    monkeypatch.chdir(demo)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "on_terminal", lambda: in_terminal)
    answer = assay(*line.split())
    assert answer.code == 0, answer.err
    lines = table_lines(answer.out)
    assert lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("line", "in_terminal"),
    [(line, True) for line in WIDE] + [(line, False) for line in WIDE if line not in ALL_TEXT],
)
def test_wide_tables_are_broken(assay, demo, monkeypatch, line, width, in_terminal):
    monkeypatch.chdir(demo)
    if line.startswith("runs"):
        assay("eval", "dense.run", "lexical.run", "-r", "qrels.txt", "--save", "--dataset", "demo")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(output, "on_terminal", lambda: in_terminal)
    answer = assay(*line.split())
    assert answer.code == 0, answer.err
    # A signature, which --full prints, is broken by the terminal itself.
    lines = [part for part in table_lines(answer.out) if "|" not in part]
    assert lines
    assert max(map(len, lines)) <= width
    if width == 120:
        assert max(map(len, lines)) > 40  # no column by itself


def test_a_pipe_without_columns_has_80_and_a_file_all(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    monkeypatch.delenv("COLUMNS", raising=False)
    line = WIDE[0].split()
    lines = table_lines(assay(*line).out)
    assert 40 < max(map(len, lines)) <= 80
    assert sum(part.split()[0] == "dense" for part in lines) > 1  # each block names the system
    assert assay(*line, "-o", "wide.txt").code == 0
    whole = table_lines((demo / "wide.txt").read_text("utf-8"))
    assert max(map(len, whole)) > 200
    values = sorted(word for part in lines if part.startswith("dense") for word in part.split()[1:])
    assert values == sorted(
        word for part in whole if part.startswith("dense") for word in part.split()[1:]
    )


def test_what_is_left_out_stands_in_full_and_in_a_wide_pipe(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    line = LINES[2].split()
    monkeypatch.setenv("COLUMNS", "80")
    assert "effect size" not in assay(*line).out
    assert "effect size" in assay(*line, "--full").out
    monkeypatch.setenv("COLUMNS", "120")
    assert "effect size" in assay(*line).out
