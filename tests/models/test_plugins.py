"""An encoder and an index engine of another installed package: named like Assay's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from assay.errors import PluginError, UsageError
from assay.io.collections import write_collection
from assay.models import EmbeddingCache, encoder, text_model
from assay.plugins import INDEXES, MODELS
from assay.search.indexes import build_index, measure_index
from tests.bench.samples import small
from tests.plugins import install

ENCODER = '''
import numpy as np

from assay.models import Encoder


def load(request):
    """Counts of letters; the argument is how many letters are counted."""
    letters = "abcdefghijklmnopqrstuvwxyz"[: int(request.argument or 26)]

    def encode(texts):
        rows = [[1.0 + text.lower().count(letter) for letter in letters] for text in texts]
        return np.array(rows)

    return Encoder(request.spec, encode, lambda: {"letters": letters}, repeatable=True)


def wrong(request):
    return request.spec


def fails(request):
    raise RuntimeError("no licence")
'''

ENGINE = '''
import numpy as np

from assay.search.indexes.base import EngineBytes


class Plain:
    """Brute force in numpy; `skip` documents at the front are never found."""

    version = "plain 1.0"
    exactness = "approximate"

    def __init__(self, setup):
        self.skip = setup.options.whole("skip") or 0

    def add(self, vectors):
        self.vectors = vectors

    def find(self, queries, k):
        scores = queries @ self.vectors.T
        scores[:, : self.skip] = -9.0
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]

    def size(self):
        return EngineBytes(memory=self.vectors.nbytes)

    def close(self):
        self.vectors = None


def open_engine(setup):
    return Plain(setup)


def hollow(setup):
    return object()
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that offers an encoder and an index, and broken ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    entries = {
        MODELS: {
            "letters": "plugin_encoder:load",
            "wrong": "plugin_encoder:wrong",
            "fails": "plugin_encoder:fails",
            "gone": "plugin_absent:load",
            "wordllama": "plugin_encoder:fails",
        },
        INDEXES: {
            "plain": "plugin_engine:open_engine",
            "hollow": "plugin_engine:hollow",
            "gone": "plugin_absent:open_engine",
        },
    }
    modules = {"plugin_encoder": ENCODER, "plugin_engine": ENGINE}
    install(folder, package="letter-tools", entries=entries, modules=modules)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for module in modules:
        sys.modules.pop(module, None)


def test_an_encoder_is_named_like_a_built_in_one(installed):
    assert encoder("letters:3").encode(["aab", "c"]).tolist() == [[3.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
    assert encoder("letters").encode(["a"]).shape == (1, 26)


def test_vectors_of_a_plugin_are_cached(installed, tmp_path):
    cache = EmbeddingCache(tmp_path / "cache")
    first = text_model("letters:4", cache=cache).encode_docs(["ab", "cd"])
    again = text_model("letters:4", cache=cache).encode_docs(["ab", "cd"])
    assert (first.n_computed, again.n_computed) == (2, 0)
    assert again.vectors.tobytes() == first.vectors.tobytes()


def test_a_built_in_encoder_comes_first(installed):
    with pytest.raises(UsageError, match="takes no model name"):
        encoder("wordllama:x")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("wrong", "offers 'wrong' as an encoder, but plugin_encoder:wrong returned str"),
        ("fails", "cannot be loaded: RuntimeError: no licence"),
        ("gone", "plugin_absent:load cannot be loaded"),
    ],
)
def test_a_broken_encoder_names_its_package(installed, spec, words):
    with pytest.raises(PluginError, match=words) as caught:
        encoder(spec)
    assert "letter-tools 1.0" in str(caught.value)


def test_a_name_that_is_nearly_a_plugin_is_answered_with_it(installed):
    with pytest.raises(UsageError, match=r"Did you mean letters\[:ARGUMENT\]"):
        encoder("leters:3")
    with pytest.raises(UsageError, match=r"Did you mean plain\[:ARGUMENT\]"):
        build_index("plan", np.eye(3))


def test_an_index_is_named_like_a_built_in_one(installed):
    docs = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    with build_index("plain", docs) as index, build_index("exact", docs) as exact:
        found, wanted = index.search(docs[:5], 3), exact.search(docs[:5], 3)
        assert found[0].tolist() == wanted[0].tolist()
        assert found[1].tobytes() == wanted[1].tobytes()
    with build_index("plain?skip=20", docs) as index:
        report = measure_index(index, docs, 5)
    assert report.spec == "plain?skip=20"
    assert 0.2 < report.recall < 0.8


def test_options_that_a_plugin_does_not_take_are_refused(installed):
    with pytest.raises(UsageError, match=r"Unknown option 'skp'.*Did you mean skip"):
        build_index("plain?skp=2", np.eye(3))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hollow", "without version, exactness, add, find, size, close"),
        ("gone", "letter-tools 1.0 offers 'gone'"),
    ],
)
def test_a_broken_index_is_named(installed, spec, words):
    with pytest.raises(PluginError, match=words):
        build_index(spec, np.eye(3))


def bench(folder, installed, *arguments):
    command = ["bench", "--corpus", "made", "--json", *arguments]
    return subprocess.run(
        [sys.executable, "-m", "assay", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(installed), "ASSAY_CACHE": str(folder / "cache")},
    )


def test_a_bench_takes_both_by_name(installed, tmp_path):
    write_collection(small(), tmp_path / "made")
    done = bench(tmp_path, installed, "--model", "letters:20", "--index", "plain?skip=2")
    assert done.returncode == 0, done.stderr
    names = [one["name"] for one in json.loads(done.stdout)["systems"]]
    assert names == ["letters:20", "letters:20 @ plain?skip=2"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--model", "gone"), 4, "letter-tools 1.0 offers 'gone'"),
        (("--model", "letters", "--index", "gone"), 4, "letter-tools 1.0 offers 'gone'"),
        (("--model", "lettres"), 2, "Did you mean letters[:ARGUMENT]?"),
        (("--model", "letters", "--index", "plane"), 2, "Did you mean plain[:ARGUMENT]?"),
    ],
)
def test_a_bench_says_which_plugin_is_broken(installed, tmp_path, arguments, code, words):
    write_collection(small(), tmp_path / "made")
    done = bench(tmp_path, installed, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
