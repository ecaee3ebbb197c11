"""Typical mistakes on the command line: each is answered with what to type instead."""

from __future__ import annotations

import shutil

import pytest

from assay.io.demo_collection import write_files


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    write_files(folder)
    shutil.copy(folder / "qrels.txt", folder / "judged-qrels.txt")
    return folder


MEASURES = {
    "NDCG10": "Did you mean nDCG@10?",
    "Recall10": "Did you mean R@10?",
    "nDCG@ten": "Cannot read the cutoff 'ten' of 'nDCG@ten'. Write it like @10.",
    "nDCG@0": "Write for instance nDCG@10.",
    "GMAP@5": "GMAP takes no cutoff. Omit @5.",
}
LINES = {
    "eval qrels.txt dense.run": "type `assay eval dense.run -r qrels.txt`",
    "eval dense.run qrels.txt": "type `assay eval dense.run -r qrels.txt`",
    "compare dense.run judged-qrels.txt docs.txt": "`assay compare dense.run docs.txt -r judged-",
    "compare dense.run lexical.run": "For example: `assay compare dense.run lexical.run --qrels",
    "compare dense.run lexical.run --by kinds.tsv": "For example: `assay compare dense.run",
    "eval qrels.txt -r dense.run": "This is a line of a run. Swap run and judgments.",
    "eval qrels.txt -r qrels.txt": "This is a line of judgments (qrels). Name the run here.",
    "eval dense.run -r qrels.txt -r qrels.tsv": "-r is given twice. Name one file.",
    "eval dense.run -r qrels.txt --qrels=qrels.tsv": "-r is given twice. Name one file.",
    "eval dense.run -r qrels.txt --depth ten": "'ten' is not a whole number.",
    "compare dense.run lexical.run -r qrels.txt --level x": "'x' is not a number.",
    "compare dense.run lexical.run -r qrels.txt -b dens": "Did you mean dense",
    "explain dense.run -r qrels.txt --query q7": "'q7' and 'q07' differ in zero padding.",
    "eval dense.run -r questions.csv": "looks like text, not ids. Pass the file",
    "bench --corpus nothere --qrels qrels.tsv --model bm25": "nothere does not exist.",
    "bench --corpus notes --model bm25": "corpus (texts need --qrels). Add one of these files",
    "predict predictions.tsv --candidates top1": "lacks candidates (top1). Did you mean top10?",
    "predict mhsa1.json": "unknown type. Use .npy, .csv, .jsonl, …; --results for .json.",
    "bench a.toml questions.csv": "extra argument (questions.csv). See 'assay bench",
    "compare dense.run lexical.run -r qrels.txt --metric AP": "It is called --measure here.",
    "bench --corpus qrels.txt --qrels qrels.tsv --model bm25": "Convert it to .jsonl",
}


@pytest.mark.parametrize("line", LINES)
def test_a_mistake_is_answered_with_what_to_type(assay, demo, monkeypatch, line):
    monkeypatch.chdir(demo)
    answer = assay(*line.split())
    assert answer.code in (2, 3, 5)
    assert LINES[line] in answer.err


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_that_is_none(assay, demo, monkeypatch, measure):
    monkeypatch.chdir(demo)
    answer = assay("eval", "dense.run", "-r", "qrels.txt", "-m", measure)
    assert (answer.code, answer.out) == (2, "")
    assert MEASURES[measure] in answer.err


@pytest.mark.parametrize("measures", ["nDCG@10, AP", "ndcg_cut_10,map", "NDCG@10 ap"])
def test_other_spellings_of_measures_are_taken(assay, demo, monkeypatch, measures):
    monkeypatch.chdir(demo)
    words = measures.split() if "," not in measures else [measures]
    answer = assay("eval", "dense.run", "-r", "qrels.txt", "-m", *words)
    assert answer.code == 0, answer.err
    lines = [line.split()[0] for line in answer.out.splitlines() if line]
    assert [word for word in lines if word in ("nDCG@10", "AP")] == ["nDCG@10", "AP"]


def test_a_file_with_a_name_like_an_option_is_no_second_one(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    shutil.copy("dense.run", "--qrels=x.run")
    assert assay("eval", "-r", "qrels.txt", "--", "--qrels=x.run").code == 0
