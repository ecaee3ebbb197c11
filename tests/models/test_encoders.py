"""Encoders: specs, checks on both sides, and the packages that can be had here."""

from __future__ import annotations

import sys
import types
from typing import ClassVar

import numpy as np
import pytest

from assay.errors import ShapeError, UsageError, ValueRangeError
from assay.models import (
    ENCODERS,
    EmbeddingCache,
    Encoder,
    EncoderSettings,
    encoder,
    text_model,
)
from assay.models.adapters import sentence_transformers
from assay.models.rerankers import load_reranker


def lengths(texts):
    return np.array([[len(text), 1.0] for text in texts])


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("my_models")
    made.lengths, made.number = lengths, 3
    monkeypatch.setitem(sys.modules, "my_models", made)
    return made


def test_your_own_function(module):
    model = encoder("py:my_models:lengths")
    assert model.spec == "py:my_models:lengths"
    found = model.encode(["a", "bcd"])
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 1], [3, 1]]


def test_your_own_function_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "local_model_of_mine.py").write_text(
        "def f(texts):\n    return [[1.0]] * len(texts)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert encoder("py:local_model_of_mine:f").encode(["a", "b"]).shape == (2, 1)


def test_batches_change_nothing_and_report_progress():
    model = Encoder("lengths", lengths)
    texts = ["a" * (i + 1) for i in range(10)]
    steps = []
    parts = model.encode(texts, batch_size=3, progress=lambda *step: steps.append(step))
    assert parts.tobytes() == model.encode(texts).tobytes()
    assert steps == [(3, 10), (6, 10), (9, 10), (10, 10)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("wordlama", "Did you mean wordllama"),
        ("", "Unknown encoder"),
        ("st:", "names no model"),
        ("st", "names no model"),
        ("py:", "names no model|does not name a function"),
        ("py:my_models", "does not name a function"),
        ("py:my_models:nothing", "has no function 'nothing'"),
        ("py:my_models:number", "has no function 'number'"),
        ("py:no_such_module_at_all:f", "cannot be imported"),
        ("wordllama:large", "takes no model name"),
    ],
)
def test_specs_that_name_nothing(module, spec, words):
    with pytest.raises(UsageError, match=words):
        encoder(spec)


def test_a_spec_is_text():
    with pytest.raises(UsageError, match="An encoder must be"):
        encoder(3)


def test_every_kind_has_its_file():
    for kind in ENCODERS.values():
        assert callable(kind.load())


def test_sentence_transformers_is_asked_for_arrays(monkeypatch):
    asked = {}

    class Model:
        def __init__(self, name, device):
            asked["name"], asked["device"] = name, device

        def encode(self, texts, **options):
            asked.update(options)
            return lengths(texts)

    package = types.ModuleType("sentence_transformers")
    package.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    assert encoder("st:some/model", device="cpu").encode(["ab"]).tolist() == [[2, 1]]
    assert asked["name"] == "some/model"
    assert asked["device"] == "cpu"
    assert asked["convert_to_numpy"] is True


def test_sentence_transformers_tells_what_it_cuts(monkeypatch):
    class Model:
        max_seq_length = 512

        def __init__(self, name, device):
            pass

        def encode(self, texts, **_):
            return lengths(texts)

        def tokenizer(self, texts, *, truncation, verbose):
            return {"input_ids": [text.split() for text in texts]}

    package = types.ModuleType("sentence_transformers")
    package.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    short = text_model("st:m", settings=EncoderSettings(max_length=2))
    assert short.encode_docs(["a b", "a b c"]).truncated.tolist() == [False, True]
    assert not text_model("st:m").encode_docs(["a b c"]).truncated.any()
    del Model.tokenizer
    assert text_model("st:m").encode_docs(["a b c"]).truncated is None


class Prompted:
    """What a model of sentence-transformers looks like; a vector tells how it was asked for."""

    prompts: ClassVar = {"query": "query: ", "passage": "passage: ", "document": ""}

    def __init__(self, name, device, **options):
        self.asked = options

    def encode(self, texts, *, prompt_name=None, prompt=None, **_):
        start = self.prompts[prompt_name] if prompt_name else prompt or ""
        return [[len(start + text), 1] for text in texts]

    def state_dict(self):
        return {}


class WithSides(Prompted):
    def encode_query(self, texts, **_):
        return [[len(text), 2] for text in texts]

    def encode_document(self, texts, **_):
        return [[len(text), 3] for text in texts]


@pytest.fixture
def fake_package(monkeypatch):
    def install(model):
        package = types.ModuleType("sentence_transformers")
        package.SentenceTransformer = model
        monkeypatch.setitem(sys.modules, "sentence_transformers", package)

    return install


def both_sides(settings=None, cache=None):
    model = text_model("st:m", settings=settings, cache=cache)
    return [one(["ab"]).vectors[0].tolist() for one in (model.encode_queries, model.encode_docs)]


def test_sentence_transformers_takes_the_models_own_prompts(fake_package):
    fake_package(Prompted)
    assert both_sides() == [[len("query: ab"), 1], [len("passage: ab"), 1]]
    own = EncoderSettings(query_prefix="Q ", doc_prefix="D")
    assert both_sides(own) == [[4, 1], [3, 1]]


def test_sentence_transformers_5_has_a_function_for_each_side(fake_package):
    fake_package(WithSides)
    assert both_sides() == [[2, 2], [2, 3]]
    assert both_sides(EncoderSettings(query_prefix="Q ")) == [[4, 1], [2, 1]]


def test_sides_are_apart_in_the_cache(fake_package, tmp_path):
    fake_package(WithSides)
    cache = EmbeddingCache(tmp_path)
    first = both_sides(cache=cache)
    assert both_sides(cache=EmbeddingCache(tmp_path)) == first == [[2, 2], [2, 3]]


def test_a_model_without_prompts_has_one_side(fake_package):
    class Plain(WithSides):
        prompts: ClassVar = {"query": "", "document": ""}

    fake_package(Plain)
    assert encoder("st:m").query_function is None


@pytest.mark.parametrize("folder", ["m", "sentence-transformers/m", "cross-encoder/m"])
@pytest.mark.parametrize(
    ("version", "trusts", "loads"),
    [
        ("5.1.0", False, False),
        ("3.0.1", False, False),
        ("unknown", False, False),
        ("5.7.0", True, True),
        ("6.0.0", False, True),
        ("10.0", False, True),
    ],
)
def test_a_package_that_trusts_every_folder_gets_none(
    fake_package, monkeypatch, tmp_path, folder, version, trusts, loads
):
    """Before 6.0 it imports what a folder on this disk names, whatever trust_remote_code says."""
    names = []

    class Model(Prompted):
        def __init__(self, name, device, **options):
            names.append(name)

        def predict(self, pairs, **_):
            return [0.0] * len(pairs)

    fake_package(Model)
    sys.modules["sentence_transformers"].CrossEncoder = Model
    monkeypatch.setattr(sentence_transformers, "version_of", lambda _: version)
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    settings = EncoderSettings(trust_remote_code=trusts)
    for load in (encoder, load_reranker):
        if loads:
            load("st:m", settings=settings)
        else:
            with pytest.raises(UsageError, match=r"Install sentence-transformers>=6\.0.*--trust-r"):
                load("st:m", settings=settings)
        load("st:other", settings=settings)
    assert names == (["m", "other"] * 2 if loads else ["other"] * 2)


def test_revision_dtype_and_code_of_a_model_are_passed_on(fake_package):
    made = []

    class Model(Prompted):
        def __init__(self, name, device, **options):
            made.append(options)

    fake_package(Model)
    settings = EncoderSettings(
        revision="abc", dtype="bfloat16", trust_remote_code=True, batch_size=7
    )
    assert encoder("st:m", settings=settings).batch_size == 7
    encoder("st:m")
    whole = {
        "revision": "abc",
        "model_kwargs": {"torch_dtype": "bfloat16"},
        "trust_remote_code": True,
    }
    assert made == [whole, {}]


def test_a_model_that_wants_to_run_code_is_refused_with_the_option(fake_package):
    class Model:
        def __init__(self, name, device):
            raise ValueError("Loading m requires trust_remote_code=True")

    fake_package(Model)
    with pytest.raises(UsageError, match=r"cannot be loaded.*pass --trust-remote-code"):
        encoder("st:m")


@pytest.mark.parametrize(
    "settings", [{"revision": "a"}, {"dtype": "float16"}, {"trust_remote_code": True}]
)
def test_what_only_a_hub_has_is_refused_elsewhere(settings):
    with pytest.raises(UsageError, match="The encoder 'wordllama' has no"):
        encoder("wordllama", settings=EncoderSettings(**settings))


@pytest.mark.parametrize(
    "settings",
    [{"revision": 3}, {"dtype": "int3"}, {"trust_remote_code": "yes"}, {"batch_size": 0}],
)
def test_settings_of_the_wrong_kind(settings):
    with pytest.raises((UsageError, ValueRangeError)):
        EncoderSettings(**settings)


class Weights(Prompted):
    """A model whose commit, or whose numbers, can be known."""

    commit: str | None = None
    number = 1.0

    def __getitem__(self, place):
        return types.SimpleNamespace(
            auto_model=types.SimpleNamespace(config=types.SimpleNamespace(_commit_hash=self.commit))
        )

    def state_dict(self):
        return {"w": FakeTensor(np.full(3, self.number))}


class FakeTensor:
    def __init__(self, values):
        self.values, self.dtype, self.shape = values, "torch.float64", values.shape

    def numpy(self):
        return self.values

    detach = cpu = contiguous = lambda self: self


def test_other_weights_under_the_same_name_have_another_fingerprint(fake_package, monkeypatch):
    fake_package(Weights)
    found = [text_model("st:m").fingerprint]
    monkeypatch.setattr(Weights, "number", 2.0)
    found.append(text_model("st:m").fingerprint)
    for commit in ("aaa", "bbb"):
        monkeypatch.setattr(Weights, "commit", commit)
        found.append(text_model("st:m").fingerprint)
    monkeypatch.setattr(Weights, "prompts", {"query": "other: "})
    found.append(text_model("st:m").fingerprint)
    assert len(set(found)) == 5
    assert text_model("st:m").repeatable


def test_a_model_that_nothing_tells_from_others_is_not_cached(fake_package):
    class Unknown(Prompted):
        state_dict = None

    fake_package(Unknown)
    assert not text_model("st:m").repeatable


@pytest.mark.parametrize(
    "made", [[1.0, 2.0], [[1.0]], [[], []], [["a"], ["b"]], [[1.0], [2.0, 3.0]], None]
)
def test_answers_of_the_wrong_shape(made):
    with pytest.raises(ShapeError, match=r"(?i)encoder 'odd'"):
        Encoder("odd", lambda texts: made).encode(["a", "b"])


def test_answers_that_change_their_width():
    model = Encoder("odd", lambda texts: np.ones((len(texts), len(texts))))
    with pytest.raises(ShapeError, match="2 dimensions at first and 1 from text 2 on"):
        model.encode(["a", "b", "c"], batch_size=2)


def test_weights_by_term_have_other_columns_in_each_batch():
    """Numbered batch by batch, two terms would share a column."""
    model = Encoder("odd", lambda texts: [{text: 1.0} for text in texts], kind="sparse")
    with pytest.raises(ShapeError, match=r"'odd' returned weights by term\. Return SparseVectors"):
        model.encode(["a", "b"], batch_size=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_answers_that_are_not_finite(bad):
    model = Encoder("odd", lambda texts: [[bad if "x" in text else 1.0] for text in texts])
    with pytest.raises(ValueRangeError, match="for text 2, 'x'"):
        model.encode(["a", "b", "x"], batch_size=2)


def test_wordllama_loads_without_a_network(monkeypatch):
    pytest.importorskip("wordllama")
    import socket

    def no_network(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    model = encoder("wordllama")
    vectors = model.encode(["my card was stolen", "somebody took my card", "exchange rate"])
    assert vectors.shape == (3, 256)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2]


def test_model2vec_reads_a_folder(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, "[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    vectors = np.array([[1.0, 0], [0, 1], [0.5, 0.5]], np.float32)
    model2vec.StaticModel(vectors, words, normalize=False).save_pretrained(tmp_path)
    found = encoder(f"model2vec:{tmp_path}").encode(["a", "b", "a b"])
    assert np.allclose(found, [[1, 0], [0, 1], [0.5, 0.5]])
