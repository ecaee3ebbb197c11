"""Queries: from a log, from documents, by a model; what is wrong with them is counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from assay.errors import EndpointError, FormatError, InputError, UsageError
from assay.judging import SourcedQuery, queries_from_docs, queries_from_log, queries_from_model
from assay.judging.queries import QuerySet, find_flaws, merge_near

DOCS = {
    "wings": "# Wings\n\nWings lift an aircraft by moving air downwards behind them.\n\n"
    "## Shape\n\nText.",
    "fox": "The fox is red and lives in many forests of the northern hemisphere.",
    "empty": "",
}


def write_log(folder: Path, rows: list[str]) -> Path:
    path = folder / "log.csv"
    path.write_text("query,count,place\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_a_log_is_cleaned_and_near_duplicates_are_merged(tmp_path: Path):
    rows = ["red fox,3,a", "Red  Foxs!,2,a", "fox red,1,a", "blue whale,1,b", ",1,a", "...,1,a"]
    result = queries_from_log(write_log(tmp_path, [*rows, f"{'x' * 400},1,a"]), 10)
    assert [(q.text, q.count) for q in result.queries] == [("red fox", 6), ("blue whale", 1)]
    assert result.findings == {
        "lines dropped (empty or too long)": 3,
        "near-duplicates merged": 2,
    }


def test_sampling_goes_by_count_and_by_stratum(tmp_path: Path):
    rows = [f"often{n},9,a" for n in range(5)] + [f"rare{n},1,b" for n in range(5)]
    path = write_log(tmp_path, rows)
    by_count, alike = Counter(), Counter()
    for seed in range(200):
        by_count.update(q.text[:3] for q in queries_from_log(path, 2, seed=seed).queries)
        alike.update(q.text[:3] for q in queries_from_log(path, 2, seed=seed, uniform=True).queries)
    assert by_count["oft"] > 320
    assert 150 < alike["oft"] < 250
    strata = queries_from_log(path, 2, strata="place").queries
    assert Counter(q.stratum for q in strata) == {"a": 2, "b": 2}
    first = queries_from_log(path, 4, seed=3)
    assert first.queries == queries_from_log(path, 4, seed=3).queries


def test_bad_logs_are_refused(tmp_path: Path):
    with pytest.raises(FormatError, match=r"line 2: count .many. is not a whole number"):
        queries_from_log(write_log(tmp_path, ["red fox,many,a"]), 1)
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="which column holds the queries"):
        queries_from_log(path, 1)
    assert [q.text for q in queries_from_log(path, 1, column="b").queries] == ["2"]


def test_documents_give_titles_headings_and_sentences():
    result = queries_from_docs(DOCS, 10, per_doc=5)
    made = {(q.source, q.text, q.doc) for q in result.queries}
    assert made == {
        ("title", "Wings", "wings"),
        ("heading", "Shape", "wings"),
        ("sentence", "Wings lift an aircraft by moving air downwards behind them.", "wings"),
        ("title", "The fox is red and lives in many forests of the northern hemisphere.", "fox"),
    }
    assert all(q.passage in DOCS[q.doc] for q in result.queries)
    only = queries_from_docs(DOCS, 10, kinds=["sentence"])
    assert {q.source for q in only.queries} == {"sentence"}
    stated = queries_from_docs(DOCS, 10, kinds=["title"], titles={"fox": "Foxes"})
    assert {q.text for q in stated.queries} == {"Wings", "Foxes"}
    with pytest.raises(UsageError, match="No document has a heading"):
        queries_from_docs({"fox": DOCS["fox"]}, 10, kinds=["heading"])
    with pytest.raises(UsageError, match="Kinds are"):
        queries_from_docs(DOCS, 10, kinds=["essay"])


def test_flaws_are_counted():
    docs = {f"d{n}": "red fox in a forest" for n in range(6)} | {"w": "wings lift aircraft"}
    queries = [
        SourcedQuery("red fox forest", "m", "d0", docs["d0"]),
        SourcedQuery("Forest: red fox", "m", "d1", docs["d1"]),
        SourcedQuery("What does this passage say about flight?", "m", "w", docs["w"]),
        SourcedQuery("how do planes fly", "m", "w", docs["w"]),
    ]
    assert list(find_flaws(queries, docs).values()) == [2, 1, 2, 1]


def test_a_model_writes_queries_and_its_answers_are_kept(tmp_path: Path):
    asked = []

    def write(prompt: str) -> tuple[str, tuple[int, int]]:
        asked.append(prompt)
        if "fox" in prompt and len(asked) < 9:
            return '1. "where do foxes live"\n2) why red\n- third\n\n', (50, 5)
        return "how do wings work\n", (50, 5)

    cache = tmp_path / "answers.jsonl"
    settings = {"model": "m", "ask": write, "per_doc": 2, "cache": cache, "concurrency": 1}
    docs = {id: text for id, text in DOCS.items() if text}
    result = queries_from_model(docs, 4, **settings)
    assert {(q.text, q.doc) for q in result.queries} == {
        ("where do foxes live", "fox"),
        ("why red", "fox"),
        ("how do wings work", "wings"),
    }
    assert result.tokens == (100, 10)
    cache.write_bytes(cache.read_bytes() + b'{"key": "torn')
    again = queries_from_model(docs, 4, **settings)
    assert (again.queries, again.tokens, len(asked)) == (result.queries, (0, 0), 2)
    changed = queries_from_model(docs, 4, **{**settings, "prompt": "{document}!"})
    assert len(asked) == 4
    assert changed.tokens == (100, 10)


def test_what_makes_no_sense_is_refused(tmp_path: Path, monkeypatch):
    with pytest.raises(UsageError, match=r"The prompt lacks \{document\}"):
        queries_from_model(DOCS, 1, model="m", ask=str, prompt="no place")
    (tmp_path / "my_writer.py").write_text("def fails(prompt): raise ValueError('no')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="ValueError: no"):
        queries_from_model(DOCS, 1, model="py:my_writer:fails")


def test_files_name_the_source(tmp_path: Path):
    queries = (SourcedQuery("a", "title", "d1", "p"), SourcedQuery("b", "log", count=3))
    QuerySet(queries).write(tmp_path / "q.jsonl", tmp_path / "qrels.txt")
    lines = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert lines[0] == {
        "_id": "g00001",
        "text": "a",
        "source": "title",
        "doc": "d1",
        "passage": "p",
        "count": 1,
    }
    assert (tmp_path / "qrels.txt").read_text() == "g00001 0 d1 1\n"


def test_merging_keeps_documents_apart():
    rows = [SourcedQuery("fox", "title", doc) for doc in ("a", "b", "a")]
    assert merge_near(rows) == ([SourcedQuery("fox", "title", "a", count=2), rows[1]], 1)


def test_an_endpoint_that_fails_half_way_loses_no_answer(tmp_path):
    docs, asked = {f"d{i}": f"text {i} here" for i in range(6)}, []

    def ask(prompt):
        asked.append(prompt)
        if len(asked) == 3:
            raise EndpointError("HTTP 500.")
        return f"query {len(asked)}", (10, 1)

    settings = {"model": "m", "ask": ask, "per_doc": 1, "cache": tmp_path / "c", "concurrency": 1}
    with pytest.raises(EndpointError):
        queries_from_model(docs, 6, **settings)
    assert len((tmp_path / "c").read_text().splitlines()) == 2
    result = queries_from_model(docs, 6, **settings)
    assert (len(result.queries), len(asked), result.tokens) == (6, 7, (40, 4))
    (tmp_path / "c").write_text("no answers\n")
    with pytest.raises(FormatError, match="holds no labels"):
        queries_from_model(docs, 6, **settings)
