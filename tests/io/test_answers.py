"""Answers as text: DPR's rule against a plain reading of it, and the files they come in."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import make_request, run_bench
from assay.core.ids import Ids
from assay.errors import AssayError, FormatError
from assay.io.collections import answer_words, judge_by_answers, load_collection, read_answers

ODD = "aÉßİ9²_-.'’ \u00a0\u200b\t\u0301中国กา़😀Ⅷ\ue000\u0378"


def plain_words(text: str) -> list[str]:
    """Character by character, as the two classes of DPR's SimpleTokenizer read."""
    found: list[str] = []
    inside = False
    for one in unicodedata.normalize("NFD", text):
        kind = unicodedata.category(one)[0]
        if kind in "LNM":
            found = [*found[:-1], found[-1] + one] if inside else [*found, one]
        elif kind not in "ZC":
            found.append(one)
        inside = kind in "LNM"
    return [word.lower() for word in found]


def plain_has_answer(answers: list[str], text: str) -> bool:
    words = plain_words(text)
    for answer in answers:
        wanted = plain_words(answer)
        for at in range(len(words) - len(wanted) + 1):
            if words[at : at + len(wanted)] == wanted:
                return True
    return False


def test_words_are_those_of_the_plain_reading() -> None:
    rng = random.Random(0)
    every = [chr(code) for code in range(0x3000) if not 0xD800 <= code < 0xE000]
    for _ in range(300):
        text = "".join(rng.choice(ODD if rng.random() < 0.7 else every) for _ in range(40))
        assert answer_words(text) == plain_words(text)


def test_all_documents_are_judged_as_has_answer_does() -> None:
    rng = random.Random(1)
    words = ["New", "york", "YORK", "-", "new", "Étienne", "etienne", "1892", "the", "."]
    docs = [" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(120)]
    some = [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(60)]
    answers = {f"q{at}": tuple(some[2 * at : 2 * at + 1 + at % 3]) for at in range(25)}
    answers["q99"] = ("nowhere at all",)
    doc_ids = Ids.of([f"d{at}" for at in range(len(docs))], "doc")
    qrels = judge_by_answers(doc_ids, docs, Ids.of([*answers, "q-none"], "query"), answers)
    assert qrels.query_ids.to_list() == list(answers), "a query without answers is not judged"
    found = 0
    for row, some in enumerate(answers.values()):
        got = qrels.docs[qrels.offsets[row] : qrels.offsets[row + 1]].tolist()
        assert got == [at for at, text in enumerate(docs) if plain_has_answer(list(some), text)]
        found += len(got)
    assert found > 100


DOCS = {"d1": "The Eiffel Tower is in Paris.", "d2": "Rome has a tower.", "d3": "Nothing."}
QUERIES = {"q1": "Where is the tower?", "q2": "Who?", "q3": "Where is Eiffel?"}
ANSWERS = {"q1": ["paris", "Rome"], "q2": ["Napoleon"], "q3": ["PARIS"]}


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def lines(records: Any) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {
        "corpus": write(
            tmp_path / "c.jsonl", lines({"_id": k, "text": v} for k, v in DOCS.items())
        ),
        "queries": write(
            tmp_path / "q.jsonl", lines({"_id": k, "text": v} for k, v in QUERIES.items())
        ),
        "qrels": write(tmp_path / "qrels.txt", "q1 0 d1 1\nq3 0 d2 1\n"),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", lines({"_id": q, "answers": a} for q, a in ANSWERS.items())),
        ("a.jsonl", lines({"question": QUERIES[q], "answer": a} for q, a in ANSWERS.items())),
        ("a.jsonl", lines({"id": q, "answers": {"text": a}} for q, a in ANSWERS.items())),
        ("a.json", json.dumps(ANSWERS)),
        ("a.json", json.dumps([{"qid": q, "answers": a} for q, a in ANSWERS.items()])),
        ("a.csv", "".join(f"{QUERIES[q]}\t{a!r}\n" for q, a in ANSWERS.items())),
        ("a.tsv", "".join(f"{q}\t{json.dumps(a)}\n" for q, a in ANSWERS.items())),
    ],
)
def test_files_of_answers(tmp_path: Path, name: str, text: str) -> None:
    ids, texts = Ids.of(list(QUERIES), "query"), list(QUERIES.values())
    found = read_answers(write(tmp_path / name, text), ids, texts)
    assert found == {query: tuple(answers) for query, answers in ANSWERS.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"_id": "q1", "answers": [7]}', "line 1: the answer 7"),
        ('{"_id": "q1", "answers": [" "]}', "every text would match"),
        ('{"_id": "q1", "answers": 7}', "expected answers as texts"),
        ('{"_id": "q1"}', "cannot tell which column holds the answers"),
        ('["q1", ["a"]]', "expected an object with answers"),
        ('{"_id": "q7", "answers": ["a"]}', "has answers for no query of the collection"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    ids = Ids.of(list(QUERIES), "query")
    with pytest.raises(AssayError, match=message):
        read_answers(write(tmp_path / "a.jsonl", text + "\n"), ids, list(QUERIES.values()))


@pytest.mark.parametrize(
    "text", ["[{[]: 1}]", "[" + "-" * 100_000 + "1]", "['a'" + "+'b'" * 25_000 + "]", "[" * 5000]
)
def test_lists_that_are_none(tmp_path: Path, text: str) -> None:
    ids = Ids.of(list(QUERIES), "query")
    with pytest.raises(FormatError, match="row 1"):
        read_answers(write(tmp_path / "a.tsv", f"q1\t{text}\n"), ids, list(QUERIES.values()))


def test_answers_instead_of_judged_documents(files: dict[str, Path], tmp_path: Path) -> None:
    answers = write(tmp_path / "a.json", json.dumps(ANSWERS))
    request = make_request(
        {"corpus": str(files["corpus"]), "queries": str(files["queries"])},
        model=("bm25",),
        answers=str(answers),
    )
    result = request.run(request.load())
    assert [str(one) for one in result.chance.measures] == [
        "Success@1",
        "Success@5",
        "Success@20",
        "Success@100",
    ]
    scores = result["bm25"].scores
    assert scores.query_ids.to_list() == ["q1", "q2", "q3"]
    assert scores.mean()["Success@5"] == pytest.approx(2 / 3), "an answer nowhere is a failure"
    assert result.chance.mean()["Success@1"] == pytest.approx((2 / 3 + 0 + 1 / 3) / 3)
    assert str(answers) in request.files
    assert "By answers: relevant is a document in which an answer stands" in str(result)
    assert "|relevant:answers|" in f"{scores.signature}|"
    assert "not judged" not in repr(result), "all documents were looked at"


def test_answers_beside_judged_documents(files: dict[str, Path], tmp_path: Path) -> None:
    answers = write(tmp_path / "a.json", json.dumps(ANSWERS))
    data = load_collection(
        files["corpus"], files["queries"], files["qrels"], answers=answers, name="small"
    )
    plain = load_collection(files["corpus"], files["queries"], files["qrels"], name="small")
    assert data.fingerprint == plain.fingerprint
    result = run_bench(data, ["bm25", "tfidf"], measures="RR")
    other = result.by_answers
    assert other is not None
    assert other.chance.query_ids.to_list() == ["q1", "q3"], "those that are judged"
    alone = run_bench(plain, ["bm25"], measures="RR")
    assert np.array_equal(result["bm25"].scores.values, alone["bm25"].scores.values)
    assert [str(one) for one in other.chance.measures][:2] == ["Success@1", "Success@5"]
    for name in ("bm25", "tfidf"):
        for row, query in enumerate(other.chance.query_ids):
            docs = [doc for doc, _ in result[name].ranking.row(query)]
            hit = any(plain_has_answer(ANSWERS[str(query)], DOCS[str(doc)]) for doc in docs[:5])
            assert other[name].scores.values[1][row] == hit
    assert "By answers: relevant is a document in which an answer stands" in str(result)
    assert result.to_dict()["by_answers"]["convention"].endswith("(DPR's has_answer)")
    assert [one.name for one in result.records()][2:] == ["bm25 by answers", "tfidf by answers"]
    assert other["bm25"].scores.signature != result["bm25"].scores.signature
