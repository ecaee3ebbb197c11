"""Faults that text encoders and checkpoints meet, by their numbers."""

from __future__ import annotations

import os
import pickle
import re
import sys
import types

import numpy as np
import pytest

from assay.errors import (
    FormatError,
    MissingPackageError,
    ShapeError,
    StorageError,
    ValueRangeError,
    install_command,
)
from assay.models import Encoder, encoder, lexical_model
from assay.models.adapters.torch_file import read_checkpoint
from assay.search.safetensors import load_safetensors
from tests.collections_at_hand import minilm_folder
from tests.models.files import write_safetensors


def lengths(texts):
    return np.array([[len(text), 1.0] for text in texts])


def test_damaged_safetensors(tmp_path):
    path = write_safetensors(tmp_path / "x.safetensors", {"a": np.ones((4, 5), np.float32)})
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises((FormatError, StorageError)):
            load_safetensors(path)
    for bad in (
        (10**15).to_bytes(8, "little") + whole[8:],
        whole.replace(b"[4, 5]", b"[4,-5]"),
        whole.replace(b"[4, 5]", b"[9, 9]"),
        whole.replace(b'"F32"', b'"F31"'),
        whole.replace(b"[0, 80]", b"[-8,72]"),
        whole.replace(b"[0, 80]", b"[0, []]"),
        (2).to_bytes(8, "little") + b"[]",
        (4).to_bytes(8, "little") + b"\xff\xff\xff\xff",
    ):
        path.write_bytes(bad)
        with pytest.raises(FormatError):
            load_safetensors(path)


def test_a_pt_file_needs_torch(tmp_path, monkeypatch):
    (tmp_path / "x.pt").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match="torch"):
        read_checkpoint(str(tmp_path / "x.pt"))


def test_torch_is_only_asked_for_weights(tmp_path, monkeypatch):
    asked = {}
    torch = types.ModuleType("torch")
    torch.__version__ = "2.6.0"
    torch.load = lambda path, **options: asked.update(options) or {"encoder": "x"}
    monkeypatch.setitem(sys.modules, "torch", torch)
    (tmp_path / "x.pt").write_bytes(b"x")
    read_checkpoint(str(tmp_path / "x.pt"))
    assert asked == {"map_location": "cpu", "weights_only": True}


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_code_in_a_pt_file_never_runs(tmp_path):
    torch = pytest.importorskip("torch")
    mark = tmp_path / "payload-ran"
    torch.save({"encoder": Payload(mark)}, tmp_path / "zip.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(Payload(mark)))
    (tmp_path / "junk.pt").write_bytes(b"nothing at all")
    for name in ("zip.pt", "bare.pt", "junk.pt"):
        with pytest.raises(FormatError, match="cannot be loaded as plain weights"):
            read_checkpoint(str(tmp_path / name))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("wordllama", "wordllama"),
        ("minilm:", "tokenizers"),
        ("minilm:", "onnxruntime"),
        ("st:m", "sentence_transformers"),
        ("model2vec:m", "model2vec"),
        ("onnx:model", "onnxruntime"),
    ],
)
def test_a_missing_package_gives_the_command(monkeypatch, tmp_path, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"")
    spec = f"minilm:{minilm_folder()}" if kind == "minilm:" else kind
    with pytest.raises(MissingPackageError, match=r"pip install .*\["):
        encoder(spec)


@pytest.mark.parametrize(
    ("spec", "package"),
    [("bm25?engine=bm25s", "bm25s"), ("tfidf", "sklearn"), ("lsa:2", "sklearn")],
)
def test_lexical_models_too(monkeypatch, spec, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("lexical"))):
        lexical_model(spec).fit(["cat", "dog"])


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ("one text", ShapeError),
        ([], ShapeError),
        (None, ShapeError),
        (["a", 3], ValueRangeError),
        (["a", ""], ValueRangeError),
        (["a", " \n"], ValueRangeError),
        (["a", "b\ud800"], ValueRangeError),
        (["a", None], ValueRangeError),
    ],
)
def test_texts_that_cannot_be_encoded(texts, error):
    with pytest.raises(error, match="encoder 'lengths'"):
        Encoder("lengths", lengths).encode(texts)


def test_a_long_text_is_encoded():
    assert Encoder("lengths", lengths).encode(["a" * 1_000_000])[0, 0] == 1_000_000
