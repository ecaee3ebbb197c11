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


def test_what_is_left_out_stands_in_full_and_in_a_wide_pipe(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    line = LINES[2].split()
    monkeypatch.setenv("COLUMNS", "80")
    assert "effect size" not in assay(*line).out
    assert "effect size" in assay(*line, "--full").out
    monkeypatch.setenv("COLUMNS", "120")
    assert "effect size" in assay(*line).out
