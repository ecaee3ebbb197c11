"""The text tower of a checkpoint: an encoder's name and an optional projection; never code."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from assay.errors import FormatError, MismatchError, StorageError, UsageError
from assay.models import encoder
from assay.models.adapters.torch_file import from_factory, read_checkpoint
from assay.search.safetensors import load_safetensors
from tests.models.files import write_safetensors


@pytest.fixture
def static(monkeypatch):
    """A stand-in for wordllama that maps a text to (length, 1)."""

    class WordLlama:
        @staticmethod
        def load(**_):
            return types.SimpleNamespace(
                tokenizer=types.SimpleNamespace(no_padding=lambda: None),
                tokenize=lambda texts: [types.SimpleNamespace(ids=[len(t)]) for t in texts],
                embedding=np.array([[i, 1.0] for i in range(10)], np.float32),
            )

    package = types.ModuleType("wordllama")
    package.WordLlama, package.__file__ = WordLlama, __file__
    monkeypatch.setitem(sys.modules, "wordllama", package)


def test_an_older_torch_loads_nothing(tmp_path, monkeypatch):
    loaded = []
    torch = types.ModuleType("torch")
    torch.__version__, torch.load = "2.5.1+cpu", lambda *_, **__: loaded.append(True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    (tmp_path / "a.pt").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"torch 2\.5\.1\+cpu may run code from a weights file"):
        read_checkpoint(str(tmp_path / "a.pt"))
    assert not loaded


def test_safetensors_with_and_without_projection(static, tmp_path):
    notes = {"encoder": "wordllama"}
    plain = write_safetensors(tmp_path / "plain.safetensors", {}, notes)
    assert encoder(str(plain)).encode(["abc"]).tolist() == [[3, 1]]
    weight = np.array([[1, 0], [0, 2], [1, 1]], np.float32)
    tensors = {"projection.weight": weight, "projection.bias": np.array([0, 0, 10], np.float32)}
    full = write_safetensors(tmp_path / "full.safetensors", tensors, notes)
    assert encoder(f"checkpoint:{full}").encode(["abc"]).tolist() == [[3, 2, 14]]


def test_safetensors_agrees_with_its_package(tmp_path):
    numpy_writer = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(0)
    tensors = {
        "a": rng.normal(size=(3, 4)).astype(np.float32),
        "b": rng.integers(0, 9, 5),
        "c": rng.normal(size=()).astype(np.float16),
        "d": np.zeros((0, 3), np.float64),
        "e": np.array([True, False]),
    }
    numpy_writer.save_file(tensors, tmp_path / "x.safetensors", {"encoder": "wordllama"})
    found, notes = load_safetensors(tmp_path / "x.safetensors")
    assert notes == {"encoder": "wordllama"}
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_bfloat16_is_widened(tmp_path):
    path = write_safetensors(tmp_path / "x.safetensors", {"a": np.zeros((2,), np.float16)})
    halves = (np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    path.write_bytes(path.read_bytes()[:-4].replace(b'"F16"', b'"BF16"')[8:])
    raw = path.read_bytes()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + halves)
    assert load_safetensors(path)[0]["a"].tolist() == [1.5, -2.0]


@pytest.mark.parametrize("spec", ["py:os:system", "checkpoint:x.pt", "other.pt", "X.SafeTensors"])
def test_a_file_may_not_name_code_or_another_file(tmp_path, spec):
    path = write_safetensors(tmp_path / "x.safetensors", {}, {"encoder": spec})
    with pytest.raises(FormatError, match="Files may not name code, files or servers"):
        encoder(str(path))


def test_files_without_a_model_or_with_a_bad_projection(static, tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(FormatError, match="names no text model"):
        encoder(str(write_safetensors(path, {"w": np.ones(2, np.float32)})))
    notes = {"encoder": "wordllama"}
    square = np.ones((2, 2), np.float32)
    for tensors, words in (
        ({"projection.bias": square[0]}, r"x\.safetensors: 'projection' lacks 'weight'"),
        ({"projection.weight": square[0]}, "2 dimension"),
        ({"projection.weight": square, "projection.bias": np.ones(3, np.float32)}, "2 outputs and"),
    ):
        with pytest.raises(FormatError, match=words):
            encoder(str(write_safetensors(path, tensors, notes)))
    wide = {"projection.weight": np.ones((2, 5), np.float32)}
    with pytest.raises(MismatchError, match="takes 5 inputs, but the text model gives 2"):
        encoder(str(write_safetensors(path, wide, notes))).encode(["a"])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("epoch", "model_state_dict", "optimizer_state_dict"), "a training checkpoint"),
        (("state_dict", "pytorch-lightning_version", "hyper_parameters"), "a training checkpoint"),
        (("text_encoder.0.weight", "text_encoder.0.bias"), "a state_dict"),
        (("something",), "it holds 'something'. Pass"),
    ],
)
def test_a_training_checkpoint_says_what_to_pass(tmp_path, keys, words):
    tensors = {key: np.ones(2, np.float32) for key in keys}
    path = write_safetensors(tmp_path / "x.safetensors", tensors)
    with pytest.raises(FormatError, match="--text-encoder-factory MODULE:FACTORY") as caught:
        encoder(str(path))
    assert words in str(caught.value)


def test_other_endings_and_missing_files(tmp_path):
    with pytest.raises(FormatError, match=r"Use \.pt, \.pth, \.ckpt, \.safetensors"):
        encoder("checkpoint:model.bin")
    for name in ("no.pt", "no.safetensors"):
        with pytest.raises(StorageError, match="does not exist"):
            encoder(str(tmp_path / name))


def test_pt_files_flat_and_nested(static, tmp_path):
    torch = pytest.importorskip("torch")
    weight = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.bfloat16)
    flat = {"encoder": "wordllama", "projection.weight": weight, "epoch": 3}
    torch.save(flat, tmp_path / "flat.pt")
    torch.save(
        {"encoder": "wordllama", "projection": {"weight": weight, "bias": torch.ones(2)}},
        tmp_path / "nested.pt",
    )
    torch.save([1, 2], tmp_path / "list.pt")
    assert encoder(str(tmp_path / "flat.pt")).encode(["abc"]).tolist() == [[3, 2]]
    assert encoder(str(tmp_path / "nested.pt")).encode(["abc"]).tolist() == [[4, 3]]
    with pytest.raises(FormatError, match="holds list, not a dictionary"):
        read_checkpoint(str(tmp_path / "list.pt"))


def test_a_class_of_your_own_is_plugged_in(tmp_path, monkeypatch):
    path = write_safetensors(tmp_path / "x.safetensors", {"scale": np.array([2.0], np.float32)})

    class Tower:
        def __init__(self, content, device):
            self.scale, self.device = content["scale"], device

        def encode(self, texts):
            return np.array([[len(text)] for text in texts]) * self.scale

    module = types.ModuleType("my_project")
    module.Tower = Tower
    monkeypatch.setitem(sys.modules, "my_project", module)
    tower = from_factory(str(path), "my_project:Tower")
    assert tower.device == "cpu"
    assert tower.encode(["abc"]).tolist() == [[6.0]]
    with pytest.raises(UsageError, match="does not name a function"):
        from_factory(str(path), "my_project")
