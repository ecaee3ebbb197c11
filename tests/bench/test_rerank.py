"""Two stages: what a reranker makes of another system's documents."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import Rerank, make_request, read_config, run_bench
from assay.errors import AssayError, ShapeError, UsageError
from assay.io.texts import ChunkRule, chunk_text
from assay.models.cache import EmbeddingCache
from assay.models.rerankers import Reranker, load_reranker
from assay.models.settings import EncoderSettings
from tests.bench import samples
from tests.bench.samples import shared_words, small

SHORT = "short=py:tests.bench.samples:shouting"
WORDS = "py:tests.bench.samples:shared_words"


def test_the_first_documents_are_put_in_order_and_the_others_follow() -> None:
    collection = small()
    result = run_bench(collection, [SHORT], reranks=[f"two=rerank/7:short>{WORDS}"])
    texts = dict(zip(collection.doc_ids, collection.doc_texts, strict=True))
    moved = 0
    for query, words in zip(collection.query_ids, collection.query_texts, strict=True):
        before = [doc for doc, _ in result["short"].ranking.row(query)]
        scores = dict(
            zip(before[:7], shared_words(words, [texts[d] for d in before[:7]]), strict=True)
        )
        wanted = sorted(sorted(scores, reverse=True), key=lambda doc: -scores[doc])
        after = [doc for doc, _ in result["two"].ranking.row(query)]
        assert after == [*wanted, *before[7:]]
        moved += wanted != before[:7]
    assert moved


def test_gain_and_cost_are_shown() -> None:
    result = run_bench(small(), [SHORT], reranks=[f"two=short>{WORDS}"], measures="nDCG@10")
    (found,) = result.reranked()
    gain = result["two"].scores.mean()["nDCG@10"] - result["short"].scores.mean()["nDCG@10"]
    pair = found.pair("two", "short", measure="nDCG@10")
    assert pair.difference == pytest.approx(gain)
    assert pair.outcome == "better"
    text = str(result)
    assert "Gain over short: two is better than short on nDCG@10" in text
    words = "two reranks the first 100 documents of each query: 1,000"
    assert words in text
    data = result.to_dict()
    assert data["systems"][1]["reranker_of"] == data["rerankers"][0]["baseline"] == "short"
    costs = [one.result.costs for one in result.systems]
    assert costs[1].search_seconds > costs[0].search_seconds
    assert costs[1].encode_seconds == costs[0].encode_seconds
    assert "rerank:rerank/100:" in result["two"].scores.signature


def test_a_fusion_may_be_the_first_stage_and_chunks_count_by_the_best() -> None:
    fusion = ["both=rrf:bm25+tfidf"]
    result = run_bench(
        small(),
        ["bm25", "tfidf"],
        fusions=fusion,
        reranks=[f"two=both>{WORDS}"],
        chunk="tokens:4:1",
    )
    collection = small()
    query, words = collection.query_ids[0], collection.query_texts[0]
    best, score = result["two"].ranking.row(query)[0]
    text = collection.doc_texts[collection.doc_ids.to_list().index(best)]
    parts = chunk_text(text, ChunkRule("tokens", 4, 1))
    assert len(parts) > 2
    assert score == max(shared_words(words, list(parts)))


def test_a_finished_reranker_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(query: str, texts: list[str]) -> list[float]:
        calls.append(query)
        return shared_words(query, texts)

    counted.fingerprint = "1"  # type: ignore[attr-defined]
    monkeypatch.setattr(samples, "counted", counted, raising=False)
    monkeypatch.setattr("assay.bench.evaluate.BenchCheckpoint.clear", lambda _: None)
    two = ["two=bm25>py:tests.bench.samples:counted"]
    first = run_bench(small(), ["bm25"], reranks=two, checkpoint=tmp_path)
    n_calls = len(calls)
    again = run_bench(small(), ["bm25"], reranks=two, checkpoint=tmp_path)
    assert len(calls) == n_calls == 26, "one to warm up, and each query"
    assert np.array_equal(again["two"].scores.values, first["two"].scores.values)
    assert again["two"].scores.signature == first["two"].scores.signature


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The pairs that a reranker of known identity was asked for."""
    asked: list[tuple[str, str]] = []

    def paid(query: str, texts: list[str]) -> list[float]:
        asked.extend((query, text) for text in texts)
        scores = shared_words(query, texts)
        return [score + len(text) / 7 for score, text in zip(scores, texts, strict=True)]

    paid.fingerprint = "1"  # type: ignore[attr-defined]
    monkeypatch.setattr(samples, "paid", paid, raising=False)
    return asked


PAID = "two=bm25>py:tests.bench.samples:paid"


def test_scores_of_pairs_come_from_the_cache(tmp_path: Path, pairs: list[Any]) -> None:
    cache = EmbeddingCache(tmp_path)
    how: dict[str, Any] = {"reranks": [PAID], "chunk": "tokens:4:1", "measures": "nDCG@10"}
    fresh = run_bench(small(), ["bm25"], **how)
    pairs.clear()
    first = run_bench(small(), ["bm25"], cache=cache, **how)
    costs = first["two"].result.costs
    n_distinct = len(set(pairs))
    assert costs.pairs_computed == n_distinct == len(pairs) - 1, "one to warm up"
    assert costs.pairs is not None
    assert costs.pairs >= n_distinct
    pairs.clear()
    second = run_bench(small(), ["bm25"], cache=cache, **how)
    assert not pairs, "nothing is paid twice"
    assert second["two"].result.costs.pairs_computed == 0
    assert "of each query: 3,668 pairs, all cached" in str(second)
    for other in (first, second):
        for query in small().query_ids:
            assert other["two"].ranking.row(query) == fresh["two"].ranking.row(query)
    deeper = small(n_queries=26)
    partly = run_bench(deeper, ["bm25"], cache=cache, **how)
    assert re.search(r"pairs, [\d,]+ computed now in at least \d", str(partly))
    assert "≥ " in partly.cost_table().rows[1][4].text
    assert {query for query, _ in pairs} <= set(deeper.query_texts) - set(small().query_texts)


def test_an_interrupted_reranker_resumes(tmp_path: Path, pairs: list[Any]) -> None:
    def stop(name: str, phase: str, done: int, total: int | None) -> None:
        if phase == "reranking" and len(pairs) > 400:
            raise KeyboardInterrupt

    whole = len(run_pairs(pairs, EmbeddingCache(tmp_path / "other")))
    cache = EmbeddingCache(tmp_path / "cache")
    pairs.clear()
    with pytest.raises(KeyboardInterrupt):
        run_bench(small(), ["bm25"], reranks=[PAID], cache=cache, progress=stop)
    before = len(pairs)
    after = len(run_pairs(pairs, cache))
    assert 400 < before < whole
    assert before + after == whole + 1, "one more to warm up"


def run_pairs(pairs: list[Any], cache: EmbeddingCache) -> list[Any]:
    pairs.clear()
    run_bench(small(), ["bm25"], reranks=[PAID], cache=cache)
    return list(pairs)


def test_a_function_without_a_fingerprint_is_not_cached(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    for _ in range(2):
        result = run_bench(small(), ["bm25"], reranks=[f"two=bm25>{WORDS}"], cache=cache)
        costs = result["two"].result.costs
        assert costs.pairs_computed == costs.pairs


@pytest.mark.parametrize("first", ["bm25", "both"])
def test_depth_may_count_chunks(first: str) -> None:
    """The first chunks of the first stage, scored one by one; a document has its best one."""
    how: dict[str, Any] = {"chunk": "tokens:4:1", "measures": "nDCG@10"}
    two = f"two=rerank/9chunks:{first}>{WORDS}"
    systems = {"models": ["bm25", "tfidf"], "fusions": ["both=rrf:bm25+tfidf"]}
    result = run_bench(small(), **systems, reranks=[two], **how)
    units = result[first].result.units
    assert units is not None
    assert result.data is not None
    texts, owner = result.data.unit_texts, result.data.unit_doc
    for row, query in enumerate(result.data.query_ids):
        chunks = [int(unit) for unit, _ in units.row(query)][:9]
        scores = shared_words(result.data.query_texts[row], [texts[unit] for unit in chunks])
        best: dict[str, float] = {}
        for unit, score in zip(chunks, scores, strict=True):
            doc = result.data.doc_ids[int(owner[unit])]
            best[doc] = max(best.get(doc, 0.0), score)
        head = result["two"].ranking.row(query)[: len(best)]
        assert head == sorted(sorted(best.items(), reverse=True), key=lambda pair: -pair[1])
    assert result["two"].result.costs.pairs == 9 * len(result.data.query_ids)
    assert "first 9 chunks of each query" in str(result)
    assert "rerank/9chunks:" in result["two"].scores.signature


@pytest.mark.parametrize(
    ("two", "how", "message"),
    [
        (
            "rerank/9chunks:bm25>py:a:b",
            {},
            "'bm25>py:a:b' counts chunks of whole documents: set chunk",
        ),
        (
            "rerank/9chunks:both>py:tests.bench.samples:shared_words",
            {"chunk": "tokens:4"},
            r"'both>py:tests\.bench\.samples:shared_words' counts chunks: 'both' ranks none",
        ),
    ],
)
def test_chunks_that_cannot_be_counted(two: str, how: dict[str, Any], message: str) -> None:
    fusions = ["both=combsum:bm25+tfidf?tune=2"]
    with pytest.raises(UsageError, match=message):
        run_bench(small(), ["bm25", "tfidf"], fusions=fusions, reranks=[two], **how)


@pytest.mark.parametrize(
    ("two", "message"),
    [
        ("bm52>py:a:b", "not one of the models and fusions. Did you mean bm25"),
        ("bm25", "Write A>RERANKER or rerank/N:A>RERANKER"),
        ("bm25>wordllama", "is not a reranker"),
        ("rerank/5000:bm25>py:a:b", "Add --depth 5000"),
        ("bm25=bm25>py:a:b", "Two systems are named 'bm25'"),
        ("bm25>py:tests.bench.samples:broken", "NaN or infinite scores for the query"),
        ("bm25>py:tests.bench.samples:letters", "failed: TypeError"),
    ],
)
def test_what_makes_no_sense(two: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        run_bench(small(), ["bm25"], reranks=[two])


@pytest.mark.parametrize("made", [[1.0], [[1.0, 2.0]] * 3, ["a", "b", "c"], 1.0])
def test_scores_are_one_number_for_each_text(made: Any) -> None:
    with pytest.raises(ShapeError, match=r"Reranker 'mine' returned .* Return one number per text"):
        Reranker("mine", lambda query, texts: made).score("q", ["x", "y", "z"])


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A package with a CrossEncoder, and what that was given."""
    given: dict[str, Any] = {}

    class CrossEncoder:
        def __init__(self, name: str, **options: Any) -> None:
            given.update(options, name=name)
            self.config = types.SimpleNamespace(_commit_hash="abc")

        def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
            given.update(options)
            return np.array([shared_words(query, [text]) for query, text in pairs], np.float32)

    module = types.ModuleType("sentence_transformers")
    module.CrossEncoder = CrossEncoder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return given


def test_a_cross_encoder_of_sentence_transformers(package: dict[str, Any]) -> None:
    settings = {"revision": "v2", "max_length": 128, "batch_size": 8}
    cross = Rerank("cross", "short", "st:some/cross", None, settings)
    result = run_bench(small(), [SHORT], reranks=[cross, f"own=short>{WORDS}"])
    assert np.allclose(result["cross"].scores.values, result["own"].scores.values)
    assert package["name"] == "some/cross"
    assert (package["revision"], package["max_length"], package["batch_size"]) == ("v2", 128, 8)
    assert "trust_remote_code" not in package
    one = load_reranker("st:some/cross")
    assert (
        one.fingerprint
        != load_reranker("st:some/cross", settings=EncoderSettings(max_length=9)).fingerprint
    )


CONFIG = f"""
corpus = "made"
[[model]]
spec = "bm25"
[[rerank]]
name = "two"
of = "bm25"
spec = "{WORDS}"
depth = 20
"""


def test_a_reranker_of_a_config_needs_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (tmp_path / "bench.toml").write_text(CONFIG, "utf-8")
    config = read_config(tmp_path / "bench.toml")
    with pytest.raises(UsageError, match="--allow-code"):
        make_request(config)
    (two,) = make_request(config, allow_code=True).plan.reranks
    assert two == Rerank("two", "bm25", WORDS, 20)
    config["rerank"][0]["spec"] = "py:subprocess:check_output"
    with pytest.raises(UsageError, match="functions of your own modules only"):
        make_request(config, allow_code=True)
    assert make_request(config, rerank=("bm25>py:a:b",)).plan.reranks[0].reranker == "py:a:b"
