"""Two stages: what a reranker makes of another system's documents."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import Rerank, make_request, read_config, run_bench
from assay.errors import AssayError, ShapeError, UsageError
from assay.io.texts import ChunkRule, chunk_text
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
    text = repr(result)
    assert "Gain over short: two is better than short on nDCG@10" in text
    assert "two puts the first 100 documents of each query in order, which takes " in text
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


@pytest.mark.parametrize(
    ("two", "message"),
    [
        ("bm52>py:a:b", "none of the models and fusions. Did you mean bm25"),
        ("bm25", "written A>RERANKER"),
        ("bm25>wordllama", "is no reranker"),
        ("rerank/5000:bm25>py:a:b", "add --depth 5000"),
        ("bm25=bm25>py:a:b", "Two systems are called 'bm25'"),
        ("bm25>py:tests.bench.samples:broken", "NaN or infinite scores for the query"),
        ("bm25>py:tests.bench.samples:letters", "failed: TypeError"),
    ],
)
def test_what_makes_no_sense(two: str, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        run_bench(small(), ["bm25"], reranks=[two])


@pytest.mark.parametrize("made", [[1.0], [[1.0, 2.0]] * 3, ["a", "b", "c"], 1.0])
def test_scores_are_one_number_for_each_text(made: Any) -> None:
    with pytest.raises(ShapeError, match=r"Reranker 'mine' returned .* expected one number"):
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
    with pytest.raises(UsageError, match="function of your own"):
        make_request(config, allow_code=True)
    assert make_request(config, rerank=("bm25>py:a:b",)).plan.reranks[0].reranker == "py:a:b"
