"""text_model: settings, fingerprints, empty and repeated texts, and what is not computed twice."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from assay.errors import ShapeError, UsageError, ValueRangeError
from assay.models import EmbeddingCache, EncoderSettings, encoder, text_model
from tests.collections_at_hand import ndcg_at_10, scifact


@pytest.fixture
def calls(monkeypatch):
    """A model of one's own, `py:counted:encode`, and the texts it was given."""
    given = []

    def encode(texts):
        given.extend(texts)
        return np.array([[len(text), 3.0, text.count("a")] for text in texts])

    encode.fingerprint = "1"
    module = types.ModuleType("counted")
    module.encode = encode
    monkeypatch.setitem(sys.modules, "counted", module)
    return given


def model(cache=None, **settings):
    return text_model("py:counted:encode", settings=EncoderSettings(**settings), cache=cache)


def test_empty_and_repeated_texts_are_not_sent(calls):
    made = model().encode_docs(["bb", "", "a", "bb", " \n"])
    assert made.vectors.dtype == np.float32
    assert made.vectors.tolist() == [[2, 3, 0], [0, 0, 0], [1, 3, 1], [2, 3, 0], [0, 0, 0]]
    assert made.empty.tolist() == [False, True, False, False, True]
    assert made.truncated is None
    assert made.n_computed == 2
    assert made.seconds > 0
    assert calls == ["bb", "a"]


def test_prefixes_go_before_texts_but_make_no_empty_text_full(calls):
    one = model(query_prefix="query: ", doc_prefix="doc: ")
    assert one.encode_queries(["a", ""]).empty.tolist() == [False, True]
    one.encode_docs(["a"])
    assert calls == ["query: a", "doc: a"]


def test_dimensions_and_scale(calls):
    texts = ["abc", "xxxx"]
    assert model().encode_docs(texts).vectors.tolist() == [[3, 3, 1], [4, 3, 0]]
    cut = model(dimensions=2).encode_docs(texts).vectors
    assert np.allclose(cut, [[0.5**0.5, 0.5**0.5], [0.8, 0.6]])
    assert model(dimensions=2, normalize=False).encode_docs(texts).vectors.tolist() == [
        [3, 3],
        [4, 3],
    ]
    unit = model(normalize=True).encode_docs([*texts, ""]).vectors
    assert np.allclose(np.linalg.norm(unit, axis=1), [1, 1, 0])
    with pytest.raises(UsageError, match="dimensions is 4, but encoder"):
        model(dimensions=4).encode_docs(texts)


def test_every_setting_enters_the_fingerprint(calls):
    base = model().fingerprint
    assert model().fingerprint == base
    others = [
        {"query_prefix": "q"},
        {"doc_prefix": "q"},
        {"normalize": True},
        {"dimensions": 2},
        {"normalize": False},
        {"base_url": "http://x/v1"},
    ]
    prints = {model(**settings).fingerprint for settings in others}
    assert len(prints | {base}) == len(others) + 1
    sys.modules["counted"].encode.fingerprint = "2"
    assert model().fingerprint != base


def test_a_second_run_computes_nothing(calls, tmp_path):
    cache = EmbeddingCache(tmp_path)
    texts = ["a", "bb", "", "a", "ccc"]
    first = model(cache).encode_docs(texts)
    assert first.n_computed == 3
    assert model().repeatable
    steps = []
    second = model(cache).encode_docs(texts[::-1], lambda *step: steps.append(step))
    assert second.n_computed == 0
    assert second.seconds == 0
    assert second.vectors.tobytes() == first.vectors[::-1].tobytes()
    assert steps == [(3, 3)]
    assert len(calls) == 3
    assert model(cache).encode_queries(["bb", "dddd"]).n_computed == 1


def test_width_and_scale_share_what_was_computed(calls, tmp_path):
    cache = EmbeddingCache(tmp_path)
    model(cache).encode_docs(["a", "bb"])
    assert model(cache, dimensions=2).encode_docs(["a", "bb"]).n_computed == 0
    assert model(cache, normalize=True).encode_docs(["a", "bb"]).n_computed == 0
    assert model(cache, doc_prefix="x").encode_docs(["a", "bb"]).n_computed == 2


def test_a_function_without_a_fingerprint_is_never_cached(calls, tmp_path):
    del sys.modules["counted"].encode.fingerprint
    cache = EmbeddingCache(tmp_path)
    for _ in range(2):
        assert model(cache).encode_docs(["a"]).n_computed == 1
    assert cache.size().n_files == 0
    assert not model().repeatable


def test_the_file_of_a_function_enters_its_fingerprint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    prints = set()
    for width in (1, 2):
        (tmp_path / "changing_model.py").write_text(
            f"def f(texts):\n    return [[1.0] * {width}] * len(texts)\n"
        )
        prints.add(text_model("py:changing_model:f").fingerprint)
        sys.modules.pop("changing_model")
    assert len(prints) == 2


def test_progress_counts_distinct_texts(monkeypatch, calls):
    steps = []
    model().encode_docs(["a", "b", "a", ""], lambda *step: steps.append(step))
    assert steps == [(2, 2)]


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        ("text", ShapeError, "must be a list"),
        ([], ShapeError, "No texts for encoder 'py:counted:encode'"),
        (["", " "], ShapeError, "All 2 texts"),
        (["a", 3], ValueRangeError, "Text 1 .* is int"),
        (["a", "\ud800"], ValueRangeError, "lone surrogate"),
        (["a", None], ValueRangeError, "Text 1 .* is NoneType"),
    ],
)
def test_what_is_no_text(calls, texts, error, words):
    with pytest.raises(error, match=words):
        model().encode_docs(texts)


@pytest.mark.parametrize(
    "settings",
    [
        {"query_prefix": None},
        {"doc_prefix": "\udc00"},
        {"max_length": 0},
        {"max_length": 2.5},
        {"dimensions": -1},
        {"normalize": 1},
        {"normalize": "yes"},
        {"base_url": 3},
    ],
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(UsageError):
        EncoderSettings(**settings)


def test_settings_that_a_kind_cannot_obey(calls):
    with pytest.raises(UsageError, match="does not support max_length"):
        model(max_length=5)
    with pytest.raises(UsageError, match="settings must be EncoderSettings"):
        text_model("py:counted:encode", settings={"max_length": 5})


def test_a_model_shows_its_spec(calls):
    assert repr(model()) == "<text model 'py:counted:encode'>"


def test_lexical_models_are_told_apart():
    with pytest.raises(UsageError, match="'bm25' is lexical and has no vectors"):
        text_model("bm25")


def test_wordllama_is_its_package_bit_for_bit():
    package = pytest.importorskip("wordllama")
    from pathlib import Path

    rng = np.random.default_rng(0)
    words = ["the", "of", "card", "été", "☃", "東京", "stolen", "exchange", "rate", "x"]
    texts = [" ".join(rng.choice(words, n)) for n in (1, 500, *rng.integers(1, 30, 150))]
    theirs = package.WordLlama.load(
        cache_dir=Path(package.__file__).parent, disable_download=True
    ).embed(texts)
    assert encoder("wordllama").encode(texts).tobytes() == theirs.tobytes()
    shuffled = rng.permutation(len(texts))
    again = text_model("wordllama").encode_docs([texts[i] for i in shuffled])
    assert again.vectors.tobytes() == theirs[shuffled].tobytes()
    assert not again.truncated.any()


def test_wordllama_cut_at_a_maximum_length():
    pytest.importorskip("wordllama")
    cut = text_model("wordllama", settings=EncoderSettings(max_length=2))
    made = cut.encode_docs(["cat", "cat cat cat cat cat", "cat cat"])
    assert made.truncated.tolist() == [False, True, False]
    whole = text_model("wordllama").encode_docs(["cat cat"])
    assert np.array_equal(made.vectors[1], whole.vectors[0])
    assert cut.fingerprint != text_model("wordllama").fingerprint


@pytest.mark.slow  # the bench on SciFact checks the same figure
def test_wordllama_on_scifact(data_dir):
    pytest.importorskip("wordllama")
    from assay.search.engine import rank

    data = scifact(data_dir)
    wordllama = text_model("wordllama")
    queries, docs = wordllama.encode_queries(data.queries), wordllama.encode_docs(data.docs)
    found = rank(queries.vectors, docs.vectors, 10)
    places, scores = found.docs.reshape(-1, 10), found.scores.reshape(-1, 10)
    assert ndcg_at_10(data, places, scores) == pytest.approx(0.513, abs=0.0015)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when somebody lets them: clock[0]."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def slow_at_first(clock):
    """A function of texts that loads for 100 seconds, then takes one for each batch."""
    loaded = []

    def encode(texts):
        clock[0] += 1 if loaded else 100
        loaded.append(True)
        return [[len(text), 1] for text in texts]

    return encode


@pytest.mark.parametrize(("warm_up", "seconds"), [(True, 2), (False, 101)])
def test_what_a_model_loads_at_its_first_call_is_not_timed(monkeypatch, clock, warm_up, seconds):
    module = types.ModuleType("slow")
    module.encode = slow_at_first(clock)
    monkeypatch.setitem(sys.modules, "slow", module)
    settings = EncoderSettings(batch_size=2)
    made = text_model("py:slow:encode", settings=settings, warm_up=warm_up).encode_docs(
        list("abcd")
    )
    assert (made.seconds, made.n_computed) == (seconds, 4)


def test_what_has_a_price_is_not_warmed_up(calls):
    from dataclasses import replace

    from assay.models.encoding import ComputedModel

    priced = replace(encoder("py:counted:encode"), warm_up=False)
    ComputedModel(priced, EncoderSettings(), warm_up=True).encode_docs(["bb"])
    assert calls == ["bb"]
