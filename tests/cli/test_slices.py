"""`--slices` of `assay compare`, `assay report` and `assay runs compare`."""

from __future__ import annotations

import csv
import io
import json

import pytest

from assay import compare, evaluate
from assay.io.columns import read_groups
from assay.io.demo_collection import write_demo

QUICK = ("-r", "qrels.txt", "--resamples", "300")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    queries = sorted({line.split()[0] for line in (folder / "qrels.txt").read_text().splitlines()})
    lines = [
        f"{query}\t{('where', 'who', 'why 10', 'why 9')[i % 4]}" for i, query in enumerate(queries)
    ]
    (folder / "kinds.tsv").write_text("\n".join(["query\tkind", *lines]) + "\n")
    (folder / "some.tsv").write_text("\n".join(["query\tkind", *lines[:-3]]) + "\n")
    return folder


@pytest.fixture(autouse=True)
def here(demo, monkeypatch):
    monkeypatch.chdir(demo)


def test_as_the_library_says(assay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    named = ("dense.run", "coarse.run", *QUICK, "--slices", "kinds.tsv:kind")
    answer = assay("compare", *named, "--full")
    assert answer.code == 0, answer.err
    scores = [evaluate(f"{name}.run", "qrels.txt", "nDCG@10") for name in ("dense", "coarse")]
    _, kinds = read_groups("kinds.tsv:kind", scores[0].query_ids)
    expected = compare(
        *(one.with_groups(kind=kinds) for one in scores),
        names=["dense", "coarse"],
        resamples=300,
        slices="kind",
    )
    own = "coarse: 100 % of queries have a value that depends on ties (ties: order)\n\n"
    assert answer.out.rstrip("\n").replace(own, "") == str(expected)
    data = json.loads(
        assay(
            "compare", "dense.run", "coarse.run", *QUICK, "--slices", "kinds.tsv:kind", "--json"
        ).out
    )
    assert data["slices"] == expected.to_dict()["slices"]


def test_every_layout(assay):
    command = ("compare", "dense.run", "coarse.run", *QUICK, "--slices", "kinds.tsv:kind")
    for layout in ("markdown", "latex"):
        assert "mean of slices" in assay(*command, "--format", layout).out
    rows = list(csv.DictReader(io.StringIO(assay(*command, "--format", "csv").out)))
    assert rows[0]["slice"] == ""
    assert len({row["slice"] for row in rows}) == len(rows) > 2


def test_queries_without_a_slice_are_counted(assay):
    answer = assay("compare", "dense.run", "coarse.run", *QUICK, "--slices", "some.tsv:kind")
    assert answer.code == 0, answer.err
    assert "3 queries have no kind and count in no slice" in answer.out


def test_clusters_and_slices_may_be_one_column(assay):
    same = ("--by", "kinds.tsv:kind", "--slices", "kinds.tsv:kind")
    answer = assay("compare", "dense.run", "coarse.run", *QUICK, *same, "--full")
    assert answer.code == 0, answer.err
    assert "no slice is large enough" in answer.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--slices", "nope.tsv"), 5, "does not exist"),
        (("--slices", "kinds.tsv:nope"), 3, "no column 'nope'"),
        (("--slices", "qrels.txt"), 3, "one column"),
        (("--slices", "kinds.tsv:kind", "--correction", "tukey"), 2, "tukey"),
        (("--slices", "kinds.tsv", "-o", "kinds.tsv"), 2, "kinds.tsv"),
    ],
)
def test_what_cannot_be_done_is_said(assay, demo, arguments, code, words):
    before = (demo / "kinds.tsv").read_bytes()
    answer = assay("compare", "dense.run", "coarse.run", *QUICK, *arguments)
    assert (answer.code, words in answer.err) == (code, True), answer.err
    assert (demo / "kinds.tsv").read_bytes() == before


def test_a_report_has_them(assay, demo):
    runs = ("report", "dense.run", "coarse.run", *QUICK, "--slices", "kinds.tsv:kind")
    assert assay(*runs, "-o", "s.html").code == 0
    assert '<section id="slices"' in (demo / "s.html").read_text()
    assert assay(*runs, "-o", "s.md").code == 0
    assert "mean of slices" in (demo / "s.md").read_text()
    one = assay("report", "dense.run", *QUICK, "--slices", "kinds.tsv:kind", "-o", "one.md")
    assert (one.code, "two or more" in one.err) == (2, True), one.err


def test_stored_columns(assay):
    saved = ("--slices", "kinds.tsv:kind", "--save", "--store", "s.db")
    assert assay("compare", "dense.run", "coarse.run", *QUICK, *saved).code == 0
    stored = ("runs", "compare", "1", "2", "--store", "s.db", "--resamples", "300")
    answer = assay(*stored, "--slices", "kind")
    assert answer.code == 0, answer.err
    assert "By kind: " in answer.out
    assert assay(*stored, "--slices", "nope").code == 2
