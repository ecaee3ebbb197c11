"""The embedding cache: what it finds, where it is, and that two processes may share it."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

from assay.models import EmbeddingCache, text_model
from assay.models.cache import content_keys, default_folder
from tests.models.cached_runs import encoded, kept, started
from tests.waiting import PATIENCE, until


def test_what_is_added_is_found_in_any_order(tmp_path):
    one = EmbeddingCache(tmp_path).of_model("m")
    keys, vectors, flags = kept(100)
    for start in range(0, 100, 30):
        part = slice(start, start + 30)
        one.add(keys[part], vectors[part], flags[part])
    order = np.random.default_rng(1).permutation(100)
    found = EmbeddingCache(tmp_path).of_model("m").find(keys[order])
    assert found.known.all()
    assert found.vectors.tobytes() == vectors[order].tobytes()
    assert found.flags.tolist() == flags[order].tolist()
    assert not EmbeddingCache(tmp_path).of_model("other").find(keys).known.any()
    some = one.find(np.concatenate([content_keys(["new"]), keys[:3]]))
    assert some.known.tolist() == [False, True, True, True]


def test_keys_are_of_the_text_alone():
    assert len(set(content_keys(["a", "b", "a ", "é", "e\u0301", ""]).tolist())) == 6
    assert content_keys(["a"]).tolist() == content_keys(["x", "a"])[1:].tolist()


def test_size_and_clear(tmp_path):
    cache = EmbeddingCache(tmp_path)
    assert cache.size().n_bytes == 0
    assert cache.clear().n_files == 0
    for name in ("one", "two"):
        cache.of_model(name, "spec").add(*kept(10))
    (tmp_path / "mine.txt").write_text("stays")
    size = cache.size()
    assert (size.n_models, size.n_files) == (2, 2)
    assert size.n_bytes >= 2 * 10 * (16 + 1 + 20)
    assert cache.clear() == size
    assert cache.size().n_files == 0
    assert (tmp_path / "mine.txt").exists()
    again = cache.of_model("one")
    again.add(*kept(3))
    assert again.find(kept(3)[0]).known.all()


def test_the_folder_is_named_or_the_systems(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "here"))
    assert EmbeddingCache().folder == tmp_path / "here"
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_folder() == tmp_path / ".cache" / "assay"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "assay"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder() == tmp_path / "Library" / "Caches" / "assay"
    monkeypatch.setattr(sys, "platform", "win32")
    assert default_folder() == tmp_path / "local" / "assay" / "Cache"


def test_threads_of_one_process(tmp_path):
    one = EmbeddingCache(tmp_path).of_model("m")
    parts = [kept(50, seed) for seed in range(8)]
    threads = [threading.Thread(target=one.add, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.find(keys).known.all() for keys, _, _ in parts)


def test_two_processes_at_once(place):
    truth = encoded(3000, cache=False).vectors.tobytes()
    both = [started(3000, TOGETHER="3") for _ in range(2)]  # this process called it, too
    for process in both:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err.decode()
        assert out == truth
    assert encoded(3000).n_computed == 0


def test_trouble_is_a_warning_unless_somebody_listens(place):
    (place / "cache").write_text("a file")
    with pytest.warns(UserWarning, match="cannot be written"):
        text_model("py:cached_model:encode", cache=EmbeddingCache("cache")).encode_docs(["a"])


def test_a_model_that_changed_its_width(tmp_path):
    cache = EmbeddingCache(tmp_path).of_model("m")
    keys, vectors, flags = kept(4, dimension=5)
    cache.add(keys, vectors, flags)
    before = time.time_ns()  # names of segments begin with it
    until(lambda: time.time_ns() > before)
    newer = EmbeddingCache(tmp_path).of_model("m")
    newer.add(keys[:2], vectors[:2, :3], flags[:2])
    found = newer.find(keys)
    assert found.known.tolist() == [True, True, False, False]
    assert found.vectors.shape == (4, 3)
