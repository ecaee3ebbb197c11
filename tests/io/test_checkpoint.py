"""Checkpoints: parts come back as they were, and what is damaged or foreign counts as absent."""

from __future__ import annotations

import hashlib
import io
import json

import numpy as np
import pytest

from assay.errors import StorageError
from assay.io.checkpoint import Checkpoint, file_label

ARRAYS = {"a": np.arange(6).reshape(2, 3), "b": np.array([0.1, np.nan]), "c": np.zeros((0, 4))}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "parts"


def saved(folder, notes=None, fingerprint="one"):
    checkpoint = Checkpoint(folder, fingerprint)
    checkpoint.save("x.part", ARRAYS, notes)
    return folder / "x.part"


def test_a_part_comes_back_as_it_was(folder):
    saved(folder, {"n": [1, None, "é"]})
    part = Checkpoint(folder, "one").load("x.part")
    assert part is not None
    assert part.notes == {"n": [1, None, "é"]}
    assert part.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert part.arrays[name].tobytes() == array.tobytes()
        assert part.arrays[name].shape == array.shape
        assert part.arrays[name].dtype == array.dtype


def test_a_part_of_another_job_counts_as_absent_but_not_as_damaged(folder):
    saved(folder)
    other = Checkpoint(folder, "two")
    assert other.load("x.part") is None
    assert other.damaged == 0


@pytest.mark.parametrize("at", [0, 31, 32, 200, -1])
def test_every_damaged_byte_is_noticed(folder, at):
    path = saved(folder)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    checkpoint = Checkpoint(folder, "one")
    assert checkpoint.load("x.part") is None
    assert checkpoint.damaged == 1


@pytest.mark.parametrize("length", [0, 5, 32, 100])
def test_a_truncated_part_is_noticed(folder, length):
    path = saved(folder)
    path.write_bytes(path.read_bytes()[:length])
    assert Checkpoint(folder, "one").load("x.part") is None


def test_a_sound_file_of_another_layout_counts_as_absent(folder):
    path = saved(folder)
    buffer = io.BytesIO()
    np.savez(buffer, docs=np.arange(3))
    for body in (buffer.getvalue(), b"no archive", json.dumps({"a": 1}).encode()):
        path.write_bytes(hashlib.sha256(body).digest() + body)
        assert Checkpoint(folder, "one").load("x.part") is None


def test_pickled_objects_are_not_loaded(folder):
    path = saved(folder)
    buffer = io.BytesIO()
    np.savez(buffer, head=np.array([{"fingerprint": "one"}], object))
    body = buffer.getvalue()
    path.write_bytes(hashlib.sha256(body).digest() + body)
    assert Checkpoint(folder, "one").load("x.part") is None


def test_a_part_that_cannot_be_written_leaves_the_old_one(folder):
    path = saved(folder)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        Checkpoint(folder, "one").save("x.part", ARRAYS, object())
    assert path.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == ["x.part"]


def test_without_a_folder_nothing_is_stored():
    checkpoint = Checkpoint(None, "one")
    checkpoint.save("x.part", ARRAYS)
    assert checkpoint.load("x.part") is None
    checkpoint.forget(["x.part"])
    checkpoint.clear()


def test_only_an_optional_checkpoint_may_fail(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(StorageError, match="Cannot write"):
        Checkpoint(blocked / "parts").save("x.part", ARRAYS)
    with pytest.raises(StorageError, match="Cannot read"):
        Checkpoint(blocked).load("x.part")
    optional = Checkpoint(blocked, optional=True)
    optional.save("x.part", ARRAYS)
    assert optional.load("x.part") is None


def test_forgotten_and_cleared_parts_are_gone(folder):
    checkpoint = Checkpoint(folder)
    for name in ("a", "b"):
        checkpoint.save(name, ARRAYS)
    checkpoint.forget(["a", "never there"])
    assert [one.name for one in folder.iterdir()] == ["b"]
    checkpoint.clear()
    assert not folder.exists()


def test_the_job_of_a_folder_is_read_back(folder):
    checkpoint = Checkpoint(folder)
    assert checkpoint.read_job() is None
    checkpoint.make_folder()
    assert checkpoint.read_job() is None
    checkpoint.write_job({"k": 3})
    assert checkpoint.read_job() == {"k": 3}


def test_a_folder_of_other_files_is_refused(folder):
    saved(folder)
    with pytest.raises(StorageError, match="is not a checkpoint: it has files"):
        Checkpoint(folder).read_job()
    (folder / "job.json").write_text("[1]")
    with pytest.raises(StorageError, match="is not a checkpoint: bad job"):
        Checkpoint(folder).read_job()


def test_labels_differ_where_names_do():
    names = ["../x", "a/b", "a_b", "", "é" * 300, "A", "a"]
    labels = [file_label(name) for name in names]
    assert len(set(labels)) == len(names)
    assert all(label.isascii() and "/" not in label and len(label) < 60 for label in labels)
