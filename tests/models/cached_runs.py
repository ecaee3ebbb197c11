"""A model whose calls are counted, run with a cache in this process or in another."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from assay.models import EmbeddingCache, text_model
from assay.models.cache import content_keys

MODEL = """
import os, signal
import numpy as np

def encode(texts):
    with open(os.environ["CALLS"], "a") as file:
        file.write(f"{len(texts)} {os.getpid()}\\n")
    if len(callers()) == int(os.environ.get("HANG_AT", 0)):
        signal.pause()
    while len(set(callers())) < int(os.environ.get("TOGETHER", 0)):
        pass  # until the others have begun
    return np.array([[hash_of(text), len(text)] for text in texts], np.float32)

def callers():
    with open(os.environ["CALLS"]) as file:
        return [line.split()[-1] for line in file]

def hash_of(text):
    return sum(ord(c) * (i + 1) for i, c in enumerate(text)) % 1009

encode.fingerprint = "1"
"""

RUN = """
import sys
from assay.models import EmbeddingCache, text_model
cache = EmbeddingCache("cache", tell=lambda words: print(words, file=sys.stderr))
made = text_model("py:cached_model:encode", cache=cache).encode_docs(
    [f"text {i}" for i in range(int(sys.argv[1]))])
sys.stdout.buffer.write(made.vectors.tobytes())
print(made.n_computed, file=sys.stderr)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the model `py:cached_model:encode`, and a way to run it elsewhere."""
    (tmp_path / "cached_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("cached_model", None)


def started(n_texts, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(n_texts)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def encoded(n_texts, tell=pytest.fail, cache=True):
    held = EmbeddingCache("cache", tell=tell) if cache else None
    texts = [f"text {i}" for i in range(n_texts)]
    return text_model("py:cached_model:encode", cache=held).encode_docs(texts)


def kept(n, seed=0, dimension=5):
    rng = np.random.default_rng(seed)
    keys = content_keys([f"{seed} {i}" for i in range(n)])
    return keys, rng.normal(size=(n, dimension)).astype(np.float32), rng.integers(0, 3, n, np.uint8)
