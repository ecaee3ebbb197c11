"""Chunkings as systems of one bench: each gives what a bench cut by its rule gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import Model, explain_bench, make_request, run_bench
from assay.bench.plan import split_chunking
from assay.core.ids import Ids
from assay.errors import UsageError
from assay.io.collections import Collection, write_collection
from assay.io.formats import as_judgments
from assay.io.texts import ChunkRule, chunk_text
from tests.bench.samples import small

LETTERS = "letters=py:tests.bench.samples:letters"
RULES = ("tokens:4:1", "characters:20:5")


def named(spec: str, rule: str) -> str:
    return f"{spec}@{rule}".replace("letters=", f"letters@{rule}=", 1)


@pytest.mark.parametrize("fold", ["max", "sum:2"])
def test_each_gives_what_a_bench_cut_by_its_rule_gives(fold: str) -> None:
    collection = small(empty=2)
    models = [
        f"m{i}{n}={spec}@{rule}"
        for n, rule in enumerate(RULES)
        for i, spec in enumerate(["bm25", LETTERS.partition("=")[2], "lsa:8"])
    ]
    together = run_bench(collection, ["bm25", *models], fold=fold)
    for number, rule in enumerate(RULES):
        alone = run_bench(
            collection,
            ["m0=bm25", f"m1={LETTERS.partition('=')[2]}", "m2=lsa:8"],
            chunk=rule,
            fold=fold,
        )
        for system in alone.systems:
            same = together[f"{system.name}{number}"]
            assert same.scores.values.tobytes() == system.scores.values.tobytes()
            assert same.ranking.docs.tobytes() == system.ranking.docs.tobytes()
            assert same.result.chunks is not None
            assert same.result.chunks.tolist() == system.result.chunks.tolist()  # type: ignore[union-attr]
            assert same.scores.settings["chunk"] == rule
            assert same.scores.settings["fold"] == fold
    assert "chunk" not in together["bm25"].scores.settings
    board = together.report(resamples=100)
    assert len(board.standings_on("nDCG@10")) == 7, "one family"


def test_number_and_length_of_chunks_by_counting() -> None:
    collection = small(empty=2)
    result = run_bench(
        collection, ["bm25", "bm25@tokens:5:2"], fusions=["rrf:bm25+bm25@tokens:5:2"]
    )
    pieces = [
        p for text in collection.doc_texts for p in chunk_text(text, ChunkRule("tokens", 5, 2))
    ]
    sizes = sorted(len(re.findall(r"\w+|[^\w\s]", piece)) for piece in pieces)
    by_name = {system["name"]: system for system in result.to_dict()["systems"]}
    assert by_name["bm25@tokens:5:2"]["chunks"] == {
        "rule": "tokens:5:2",
        "fold": "max",
        "n": len(pieces),
        "tokens": {
            "mean": pytest.approx(sum(sizes) / len(sizes)),
            "median": float(np.median(sizes)),
            "max": sizes[-1],
        },
    }
    assert "chunks" not in by_name["bm25"]
    assert "chunks" not in by_name["rrf(bm25+bm25@tokens:5:2)"], "its members cut differently"
    table = result.chunk_table()
    assert table is not None
    assert {"chunks", "tokens/chunk", "median", "longest"} <= set(table.columns)
    assert str(len(pieces)) in {cell.text for row in table.rows for cell in row}


def test_explain_shows_the_chunk_of_each_chunking() -> None:
    collection = small()
    result = run_bench(
        collection,
        ["bm25@tokens:4:1", "bm25@characters:20:5"],
        fusions=["both=rrf:bm25@tokens:4:1+bm25@characters:20:5"],
        reranks=["two=rerank/5:bm25@tokens:4:1>py:tests.bench.samples:shared_words"],
    )
    texts = dict(zip(collection.doc_ids, collection.doc_texts, strict=True))
    rules = [ChunkRule.parse(rule) for rule in ("tokens:4:1", "characters:20:5")]
    answers = explain_bench(result, "q03").by_system
    for name, allowed in {
        "bm25@tokens:4:1": rules[:1],
        "bm25@characters:20:5": rules[1:],
        "both": rules,
        "two": rules[:1],
    }.items():
        for doc in answers[name].results:
            assert doc.chunk is not None
            number, start, end = doc.chunk
            piece = texts[doc.doc][start:end]
            assert doc.snippet == " ".join(piece.split())
            cuts = [chunk_text(texts[doc.doc], rule) for rule in allowed]
            assert any(number <= len(cut) and cut[number - 1] == piece for cut in cuts)
    assert {doc.chunk for doc in answers["both"].results} <= {
        doc.chunk
        for name in result.systems[:2]
        for doc in explain_bench(result, "q03", places=40).by_system[name.name].results
    }


def test_a_part_of_another_chunking_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted bench resumes with the results of each chunking; none takes another's."""
    from assay.bench.evaluate import BenchCheckpoint

    monkeypatch.setattr(BenchCheckpoint, "clear", lambda self: None)
    spans = [(str(q), "d00", 0, 5) for q in small().query_ids]
    two = "two=rerank/5:{}>py:tests.bench.samples:shared_words"
    first = run_bench(
        small(),
        ["bm25@tokens:4:1"],
        reranks=[two.format("bm25@tokens:4:1")],
        checkpoint=tmp_path,
        spans=spans,
    )
    for name in ("a=bm25@tokens:4:1", "a=bm25@characters:20:5"):
        models, reranks = [name], [two.format("a")]
        resumed = run_bench(small(), models, reranks=reranks, checkpoint=tmp_path, spans=spans)
        fresh = run_bench(small(), models, reranks=reranks, spans=spans)
        for one, other in zip(resumed.systems, fresh.systems, strict=True):
            assert one.scores.values.tobytes() == other.scores.values.tobytes()
            assert one.result.fingerprint == other.result.fingerprint
            assert one.result.chunks.tolist() == other.result.chunks.tolist()  # type: ignore[union-attr]
    assert first["bm25@tokens:4:1"].result.fingerprint.endswith("tokens:4:1")


@pytest.mark.parametrize(
    ("spec", "base", "rule"),
    [
        ("bm25@tokens:200:50", "bm25", "tokens:200:50"),
        ("st:org/name@sentences:5", "st:org/name", "sentences:5:0"),
        ("st:org/name@main", "st:org/name@main", "None"),
        ("npy:a@b/docs.npy:queries.npy", "npy:a@b/docs.npy:queries.npy", "None"),
        ("bm25?stemmer=en@tokens:9", "bm25?stemmer=en", "tokens:9:0"),
    ],
)
def test_what_follows_an_at_sign(spec: str, base: str, rule: str) -> None:
    found, chunk = split_chunking(spec)
    assert (found, str(chunk)) == (base, rule)


def test_a_spec_says_all_of_it() -> None:
    model = Model.parse("mine=lsa:8@tokens:9:1?codes=int8")
    assert (model.name, model.spec, str(model.chunk), model.codes) == (
        "mine",
        "lsa:8",
        "tokens:9:1",
        "int8",
    )
    assert Model.parse(model.system) == Model(
        model.system, "lsa:8", codes="int8", chunk=model.chunk
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("bm25@paragraphs:3", "Unknown chunk unit 'paragraphs'"),
        ("st:x@sentence:3", "Unknown chunk unit 'sentence'"),
        ("bm25@tokens", "UNIT:SIZE"),
        ("bm25@tokens:0", "size"),
        ("bm25@tokens:-3", "UNIT:SIZE"),
        ("bm25@tokens:5:5", "smaller than the size"),
        ("bm25@tokens:5:9", "smaller than the size"),
        ("bm25@tokens:2.5", "UNIT:SIZE"),
        ("bm25@tokens:1:2:3", "UNIT:SIZE"),
        ("bm25@", "UNIT:SIZE"),
    ],
)
def test_rules_that_make_no_sense(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        run_bench(small(), [spec])


def test_two_chunkings_need_two_names() -> None:
    with pytest.raises(UsageError, match="Two systems are named 'a'"):
        run_bench(small(), ["a=bm25@tokens:4", "a=bm25@tokens:5"])
    with pytest.raises(UsageError, match="judgments name chunks"):
        make_request({}, corpus="x", model=["bm25@tokens:4"], chunk="tokens:4", judged="chunks")


def test_odd_documents() -> None:
    """One character, nothing, white space, letters of several code points, one chunk each."""
    texts = ["\u9c7c", "", " \r\n\t", "e\u0301\U0001f600 \u9c7c", "o y\r\n\u9c7c. o"]
    qrels = as_judgments({"q": {"a": 1}})
    collection = Collection(Ids.of(list("abcde")), texts, Ids.of(["q"]), ["\u9c7c"], qrels)
    rules = ["tokens:1", "tokens:1000", "sentences:1", "characters:1", "characters:9999:9998"]
    result = run_bench(collection, [f"bm25@{rule}" for rule in rules])
    for rule, system in zip(rules, result.systems, strict=True):
        assert {doc for doc, _ in system.ranking.row("q")} == set("ade"), rule
        for doc in explain_bench(result, "q").by_system[system.name].results:
            number, start, end = doc.chunk or (0, 0, 0)
            piece = texts["abcde".index(doc.doc)][start:end]
            assert number >= 1
            assert piece == piece.strip()
            assert "\u9c7c" in piece


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assay: Callable[..., Any]
) -> None:
    write_collection(small(), tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    Path("bench.toml").write_text(
        'corpus = "made"\nfold = "sum:2"\n[[model]]\nspec = "bm25@tokens:4:1"\n'
        '[[model]]\nname = "b"\nspec = "bm25"\nchunk = "characters:20:5"\n',
        "utf-8",
    )
    typed = [
        "--corpus",
        "made",
        "--model",
        "bm25@tokens:4:1",
        "--model",
        "b=bm25@characters:20:5",
        "--fold",
        "sum:2",
    ]
    both = [assay("bench", *words, "--no-cache", "--json").out for words in (["bench.toml"], typed)]
    first, second = map(json.loads, both)
    assert [system["chunks"]["rule"] for system in first["systems"]] == [
        "tokens:4:1",
        "characters:20:5",
    ]
    assert first["systems"][0]["chunks"] == second["systems"][0]["chunks"]
    assert [s["measures"] for s in first["systems"]] == [s["measures"] for s in second["systems"]]
    text = assay("bench", *typed, "--no-cache", "--full").out
    assert (
        "cut by characters:20:5 or tokens:4:1 and scored by the sum of their 2 best chunks" in text
    )
    wrong = assay("bench", "--corpus", "made", "--model", "bm25@tokens:4:4", "--no-cache")
    assert wrong.code == 2
    assert "smaller than the size" in wrong.err
