"""Judgments with questions, lists and no grades, in every command that takes judgments."""

from __future__ import annotations

import json

import pytest

QUESTIONS = ["What is an assay?", "How are ties broken?", "Why is chance exact?"]


@pytest.fixture
def folder(tmp_path):
    queries = [{"_id": f"q{n}", "text": text} for n, text in enumerate(QUESTIONS)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    docs = [{"_id": f"d{n}", "text": f"{text} So it is."} for n, text in enumerate(QUESTIONS)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    judged = "\n".join(f"{text},d{n};d9" for n, text in enumerate(QUESTIONS))
    (tmp_path / "judged.csv").write_text(f"question,relevant_doc\n{judged}\n")
    for name, order in (("a", "019"), ("b", "910")):
        lines = [
            f"q{q} Q0 d{doc} {rank} {9 - rank} {name}\n"
            for q in range(len(QUESTIONS))
            for rank, doc in enumerate(order, 1)
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    return tmp_path


READ = "judgments read from 'question'"


def test_eval_compare_check_convert_and_report(assay, folder, monkeypatch):
    monkeypatch.chdir(folder)
    judged = ("-r", "judged.csv", "--queries", "queries.jsonl")
    plain = assay("convert", "judged.csv", "qrels.txt", "--kind", "qrels", *judged[2:])
    assert plain.code == 0
    assert READ in plain.err
    for command in (["eval", "a.run"], ["compare", "a.run", "b.run", "--resamples", "200"]):
        answer = assay(*command, *judged, "--json")
        assert answer.code == 0
        assert READ in answer.out
        expected = json.loads(assay(*command, "-r", "qrels.txt", "--json").out)
        assert _numbers(json.loads(answer.out)) == _numbers(expected)
    checked = assay("check", "a.run", *judged, "--json")
    assert "columns" in {finding["code"] for finding in json.loads(checked.out)["findings"]}
    report = assay("report", "a.run", "b.run", *judged, "-o", "report.md")
    assert report.code == 0
    assert READ in (folder / "report.md").read_text() + report.err
    again = assay("compare", "a.run", "b.run", *judged, "--sensitivity", "--resamples", "200")
    assert again.code == 0
    assert again.out.startswith("Too few queries (")


def _numbers(data):
    """Return all that is computed: not which files, nor what is said of them."""
    if isinstance(data, dict):
        unsaid = ("qrels", "remarks", "made_by")
        return {key: _numbers(value) for key, value in data.items() if key not in unsaid}
    return [_numbers(value) for value in data] if isinstance(data, list) else data


def test_bench_takes_them_with_and_without_queries(assay, folder, monkeypatch):
    monkeypatch.chdir(folder)
    line = ("bench", "--corpus", "docs.jsonl", "--qrels", "judged.csv", "--model", "bm25")
    for more in ((), ("--queries", "queries.jsonl")):
        answer = assay(*line, *more, "--json", "--no-cache")
        assert answer.code == 0, answer.err
        assert READ in answer.out + answer.err


def test_a_question_that_nobody_asked(assay, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = (folder / "judged.csv").read_text().replace("broken?", "broke?")
    (folder / "judged.csv").write_text(text)
    refused = assay("eval", "a.run", "-r", "judged.csv", "--queries", "queries.jsonl")
    assert refused.code == 3
    assert "'How are ties broke?'" in refused.err
    assert "How are ties broken?" in refused.err
