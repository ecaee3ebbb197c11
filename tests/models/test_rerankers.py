"""Rerankers of onnx: and rerank: a small model made here, and a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.specs import Consent
from assay.errors import EndpointError, ShapeError, UsageError
from assay.models.rerankers import load_reranker
from assay.models.settings import EncoderSettings
from assay.models.specs import allow_reranker
from tests.models import fake_endpoint
from tests.models.onnx_model import write_cross_encoder

WORDS, WEIGHTS = ["cat", "dog", "red", "mat"], [1.0, -2.0, 4.0, 0.5]
TEXTS = ["red cat", "dog", "cat cat zebra mat", "dog red " * 9, "mat"]


def expected(texts: list[str]) -> list[float]:
    by_word = dict(zip(WORDS, WEIGHTS, strict=True))
    return [sum(by_word.get(word, 0.0) for word in text.split()) for text in texts]


class TestOnnx:
    def test_pairs_are_scored_as_the_model_does(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        write_cross_encoder(tmp_path, WORDS, WEIGHTS)
        made = load_reranker(f"onnx:{tmp_path}").score("red dog", TEXTS)
        assert made.scores == pytest.approx(expected(TEXTS)), "the query's words weigh nothing"
        assert made.tokens is None

    def test_length_is_what_the_folder_or_the_setting_says(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        write_cross_encoder(tmp_path, WORDS, WEIGHTS, max_length=7)
        model = load_reranker(f"onnx:{tmp_path}")
        assert model.score("red", ["cat red cat cat"]).scores == pytest.approx([6.0])
        settings = EncoderSettings(max_length=8)
        longer = load_reranker(f"onnx:{tmp_path}", settings=settings)
        assert longer.score("red", ["cat red cat cat"]).scores == pytest.approx([7.0])
        assert model.fingerprint != longer.fingerprint

    def test_one_number_for_each_text(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        write_cross_encoder(tmp_path, WORDS, WEIGHTS, width=2)
        with pytest.raises(ShapeError, match=r"returned float32 of shape \(5, 2\) for 5 texts"):
            load_reranker(f"onnx:{tmp_path}").score("red", TEXTS)

    def test_hub_settings_do_not_apply(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="has no revision"):
            load_reranker(f"onnx:{tmp_path}", settings=EncoderSettings(revision="main"))


@pytest.fixture
def fake() -> Iterator[fake_endpoint.Fake]:
    with fake_endpoint.endpoint() as found:
        yield found


def results(texts: list[str], key: str) -> list[dict[str, Any]]:
    """Best first, as these endpoints answer."""
    scores = expected(texts)
    order = sorted(range(len(texts)), key=lambda row: -scores[row])
    return [{"index": row, key: scores[row]} for row in order]


def say(fake: fake_endpoint.Fake, make: Any, times: int = 1) -> None:
    fake.script += [fake_endpoint.content(make)] * times


class TestEndpoint:
    def test_cohere_and_jina(self, fake: fake_endpoint.Fake, monkeypatch: Any) -> None:
        monkeypatch.setenv("RERANK_KEY", "secret-1")
        say(
            fake,
            lambda texts: {
                "results": results(texts, "relevance_score"),
                "usage": {"total_tokens": 41},
            },
        )
        made = load_reranker(f"rerank:{fake.url}?model=m-1&key_env=RERANK_KEY").score("q", TEXTS)
        assert made.scores.tolist() == expected(TEXTS)
        assert made.tokens == 41
        assert fake.bodies == [{"model": "m-1", "query": "q", "documents": TEXTS}]
        assert (fake.paths, fake.keys) == (["/v1/rerank"], ["Bearer secret-1"])
        say(
            fake,
            lambda texts: {
                "results": results(texts, "relevance_score"),
                "meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 9}},
            },
        )
        assert load_reranker(f"rerank:{fake.url}?model=m-1").score("q", TEXTS).tokens == 9
        assert fake.keys[1] is None, "no key unless its variable is named"

    def test_text_embeddings_inference(self, fake: fake_endpoint.Fake, monkeypatch: Any) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "for-somebody-else")
        texts = TEXTS * 14
        say(fake, lambda part: results(part, "score"), times=3)
        made = load_reranker(f"rerank:{fake.url}/rerank").score("q", texts)
        assert made.scores.tolist() == expected(texts)
        assert made.tokens is None
        assert [len(body["texts"]) for body in fake.bodies] == [32, 32, 6]
        assert fake.bodies[0]["truncate"] is True
        assert set(fake.keys) == {None}
        assert set(fake.paths) == {"/v1/rerank"}

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ({"results": "none"}, r"the answer lacks 'results'"),
            (
                {"results": [{"index": 0, "relevance_score": 1}]},
                r"1 scores for 2 texts",
            ),
            (
                [{"index": 0, "score": 1}, {"index": 0, "score": 2}],
                "the scores are not 0 to 1, each once: 0",
            ),
            (
                [{"index": 0, "score": 1}, {"index": 1}],
                r"a result lacks relevance_score",
            ),
        ],
    )
    def test_answers_that_are_none(
        self, fake: fake_endpoint.Fake, answer: Any, message: str
    ) -> None:
        say(fake, lambda texts: answer)
        with pytest.raises(EndpointError, match=message):
            load_reranker(f"rerank:{fake.url}").score("q", ["a", "b"])

    def test_a_key_that_is_asked_for(self, fake: fake_endpoint.Fake) -> None:
        fake.script = [fake_endpoint.status(401)]
        with pytest.raises(EndpointError, match="Name the key's variable: key_env"):
            load_reranker(f"rerank:{fake.url}").score("q", ["a"])

    @pytest.mark.parametrize(
        "spec",
        [
            "rerank:ftp://host",
            "rerank:https://me:pw@host/v1",
            "rerank:https://host/v1?mode=x",
            "rerank:https://host/v1?model=a&model=b",
        ],
    )
    def test_addresses_that_are_none(self, spec: str) -> None:
        with pytest.raises(UsageError) as caught:
            load_reranker(spec)
        assert "pw" not in str(caught.value)

    def test_a_key_never_goes_in_plain_text(self, monkeypatch: Any) -> None:
        monkeypatch.setenv("RERANK_KEY", "secret-1")
        with pytest.raises(UsageError, match="in plain text"):
            load_reranker("rerank:http://far.example/v1?key_env=RERANK_KEY")

    def test_a_file_needs_consent_for_host_and_key(self) -> None:
        spec = "rerank:https://far.example/v1?model=m&key_env=RERANK_KEY"
        for allowed in ((), ("far.example",), ("far.example=OTHER",), ("near=RERANK_KEY",)):
            with pytest.raises(UsageError, match=r"--allow-endpoint far\.example=RERANK_KEY"):
                allow_reranker(spec, {}, Consent.of(endpoints=allowed), "a.toml")
        allow_reranker(spec, {}, Consent.of(endpoints=["far.example=RERANK_KEY"]), "a.toml")
        allow_reranker(spec.partition("?")[0], {}, Consent.of(endpoints=["far.example"]), "a.toml")

    def test_what_it_scores_depends_on_place_and_model(self, fake: fake_endpoint.Fake) -> None:
        specs = [f"rerank:{fake.url}", f"rerank:{fake.url}?model=a", f"rerank:{fake.url}?model=b"]
        found = {load_reranker(spec).fingerprint for spec in specs}
        assert len(found) == 3
        assert not fake.asked, "nothing is asked before there is a query"
