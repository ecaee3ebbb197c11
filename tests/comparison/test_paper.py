"""The table of a paper: systems × measures, letters of what is worse, a note on the test."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from assay import compare
from assay.cli.main import main
from assay.comparison.paper import paper_table
from assay.io.demo_collection import write_files
from assay.prediction import import_results
from assay.tables.table import BOLD, Cell, Table, as_latex
from tests.comparison.made_scores import made_scores

HOSTILE = "a_b & \\input{x} % $^{#}~ [y"


def three(**settings):
    skills = {"old": 0.4, "new": 0.6, HOSTILE: 0.4}
    scores = [made_scores(seed, skill=skill) for seed, skill in enumerate(skills.values())]
    return compare(
        *scores, names=list(skills), measures=["AP", "nDCG@10"], resamples=500, **settings
    )


def cells(text: str) -> list[list[str]]:
    """Cells of the rows between the rules."""
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    rows = [line.removesuffix(r" \\") for line in body.splitlines()]
    return [re.split(r"(?<!\\)&", row) for row in rows]


@pytest.mark.parametrize(
    "settings", [{}, {"baseline": "old"}, {"test": "t"}, {"correction": "none"}]
)
def test_superscripts_are_the_systems_that_the_test_shows_to_be_worse(settings):
    found = three(**settings)
    table = paper_table(found)
    for row, name in zip(table.rows, found.names, strict=True):
        for cell, measure in zip(row[2:], found.measures, strict=True):
            pairs = [pair for pair in found.pairs_on(measure) if pair.winner == name]
            worse = {"abc"[found.names.index(pair.other(name))] for pair in pairs}
            assert set(cell.marks) - set("()") == worse
            standing = next(s for s in found.standings_on(measure) if s.name == name)
            assert (cell.value, cell.best) == (standing.mean.estimate, standing.leads)
    assert {cell.marks for row in table.rows for cell in row[2:]} != {""}
    assert f"n = {found.n_queries} queries" in table.notes[0]
    assert table.notes[-1] == BOLD


def test_the_note_names_test_correction_and_level():
    words = " ".join(paper_table(three(test="t", level=0.01)).notes)
    assert (
        "paired Student t-test; Holm correction over all 3 pairs of 3 systems; level 1 %" in words
    )
    assert "resamples" not in words  # a t-test draws nothing
    assert "Only differences to old were tested." in paper_table(three(baseline="old")).notes
    same = compare(*[made_scores(1)] * 2, names=["a", "b"], measures="AP", resamples=200)
    assert paper_table(same).notes[0].startswith("No difference is significant")


def test_every_row_has_the_columns_that_the_tabular_declares_and_braces_match():
    text = three().to_latex()
    columns = re.search(r"\\begin\{tabular\}\{(.*)\}\n", text)[1]
    n_columns = len(columns.replace("@{}", ""))
    assert [len(row) for row in cells(text)] == [n_columns] * 3
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    plain = re.sub(r"\\[\\{}%&#_$]", "", "\n".join(lines))
    depth = np.cumsum([{"{": 1, "}": -1}.get(letter, 0) for letter in plain])
    assert depth.min() >= 0
    assert depth[-1] == 0
    assert "%" not in plain
    assert r"\input" not in plain
    for name in ("table", "tabular"):
        assert plain.count(rf"\begin{{{name}}}") == plain.count(rf"\end{{{name}}}") == 1


def test_many_systems_have_numbers_and_long_runs_of_letters_are_ranges():
    scores = [made_scores(seed, skill=0.1 + 0.03 * seed) for seed in range(7)]
    found = compare(*scores, names=list("ABCDEFG"), measures="AP", resamples=300)
    last = paper_table(found).rows[-1][-1].marks
    assert "–" in last
    many = [made_scores(seed) for seed in range(28)]
    names = [f"s{number}" for number in range(28)]
    table = paper_table(compare(*many, names=names, measures="AP", resamples=100))
    assert [row[0].text for row in table.rows] == [str(number + 1) for number in range(28)]


@pytest.mark.parametrize("baseline", [None, "lexical"])
def test_the_table_of_the_command_is_that_of_python(assay, tmp_path, monkeypatch, baseline):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    paths = ["coarse.run", "dense.run", "lexical.run"]
    against = [] if baseline is None else ["-b", f"{baseline}.run"]
    line = ["compare", *paths, "-r", "qrels.txt", "-m", "nDCG@10", "-m", "AP", *against]
    answer = assay(*line, "--format", "latex")
    found = compare(paths, "qrels.txt", ["nDCG@10", "AP"], baseline=baseline)
    assert answer.out == f"{found.to_latex()}\n"
    assert answer.out.count(r"\begin{table}") == 1


PAPERS = {
    "eval": "eval dense.run lexical.run -r qrels.txt",
    "tasks": "tasks values.csv",
    "one model": "predict logits.npy --targets labels.npy",
    "models": "predict a=a1.npz a=a2.npz a=a3.npz b=b1.npz b=b2.npz b=b3.npz",
    "users": "predict predictions.tsv --candidates top10 --candidates top10_wot --users user_id",
    "result files": "predict "
    + " ".join(f"--results {m}={m}{i}.json" for m in ("mhsa", "lstm") for i in "123"),
    "modalities": "crossmodal --modality image=sensor.npy --modality text=text.npy "
    "--labels labels.npy",
    "codes": "codes --embeddings docs.npy --queries queries.npy --bits 64 --k 10",
    "descriptors": "descriptors run experiment.yaml",
    "patches": "descriptors patches descriptors/sift descriptors/orb --split full",
    "one folder of patches": "descriptors patches descriptors/sift",
    "matching": "descriptors match experiment.yaml",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    assert main(["demo", "--files", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", PAPERS)
def test_every_room_gives_one_table_for_a_paper(assay, files, monkeypatch, name):
    if "descriptors" in name or "matching" in name:
        pytest.importorskip("cv2")
    monkeypatch.chdir(files)
    text = assay(*PAPERS[name].split(), "--format", "latex").out
    assert text.startswith(
        "% Needs \\usepackage{booktabs}.\n\n\\begin{table}[t]\n\\centering\n\\caption{"
    )
    assert (
        text.count(r"\begin{table}")
        == text.count(r"\end{table}")
        == text.count(r"\label{tab:")
        == 1
    )
    assert r"\footnotesize" in text
    columns = re.search(r"\\begin\{tabular\}\{(.*)\}\n", text)[1]
    assert {len(row) for row in cells(text)} == {len(columns.replace("@{}", ""))}
    assert "-$-$" not in text


def test_a_range_keeps_its_dash_and_a_row_below_another_is_indented():
    rows = ((Cell("  95 % CI"), Cell("39.6–52.2", "figure"), Cell("-0.5", "figure")),)
    assert r"\quad 95 \% CI & 39.6--52.2 & $-$0.5 \\" in as_latex(Table(("run", "AP", "d"), rows))


@pytest.mark.parametrize(("value", "size"), [("0.5", "small"), ("44.31±3.96±1", "scriptsize")])
def test_the_type_of_wide_rows_is_small_enough(value, size):
    row = tuple(Cell(value, "figure") for _ in range(7))
    table = Table(tuple("abcdefg"), (row,), caption="Means.", label="tab:a")
    assert f"\\{size}\\setlength" in as_latex(table)


def test_models_of_result_files_are_marked_by_welch(files, monkeypatch):
    monkeypatch.chdir(files)
    results = {"low": ["low1.json", "low2.json", "low3.json"], "high": []}
    results["high"] = [name.replace("low", "high") for name in results["low"]]
    for start, names in zip((20, 60), results.values(), strict=True):
        for step, name in enumerate(names):
            Path(name).write_text(json.dumps({"acc@1": start + step, "total": 100}), "utf-8")
    imported = import_results(results)
    table = imported.paper()[1]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["1", "low", "21.00±1.00"],
        ["2", "high", "61.00±1.00"],
    ]
    assert [row[2].marks for row in table.rows] == ["", "1"]
    assert imported.seeds().welch[0].test.p < 0.05
