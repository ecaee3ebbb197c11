"""Faults of shards and workers."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import pytest

from assay.cluster import Cluster, RayExecutor, ThreadExecutor, open_cluster, rank_shards
from assay.errors import (
    AssayError,
    FormatError,
    MissingPackageError,
    StorageError,
    UsageError,
    install_command,
)
from assay.search.engine import rank
from tests.cluster import tasks
from tests.cluster.corpora import ranking_bytes, sample, write_npy


@pytest.mark.parametrize("at", [0, 1, 9, 60, 127, 128, 500, -1])
def test_a_truncated_shard_fails_the_run_with_its_name(at, tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    path = tmp_path / "part-4.npy"
    path.write_bytes(path.read_bytes()[:at])
    with pytest.raises((FormatError, StorageError), match=r"Shard .*part-4\.npy"):
        rank_shards(s.queries, shards, 5)


def test_a_header_that_claims_too_much(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    data = (tmp_path / "part-1.npy").read_bytes()
    claim = data.replace(b"(39, 13), }    ", b"(39000000, 13),}")
    assert claim != data
    (tmp_path / "part-1.npy").write_bytes(claim)
    with pytest.raises(FormatError, match=r"Shard .*part-1\.npy"):
        rank_shards(s.queries, shards, 5)


def test_a_directory_in_place_of_a_shard(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(StorageError, match=r"a\.npy is a directory"):
        rank_shards(np.ones((1, 2)), [tmp_path / "a.npy"], 1)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None])
def test_cutoffs_that_make_no_sense(k, tmp_path):
    s = sample()
    with pytest.raises(UsageError, match="k must be a whole number"):
        rank_shards(s.queries, write_npy(tmp_path, s.docs), k)


@pytest.mark.parametrize("exclude", ["selves", [("a",)], 7, [(0, 10**12)], [(-1, 0)]])
def test_exclusions_that_make_no_sense(exclude, tmp_path):
    s = sample()
    with pytest.raises(AssayError, match="exclude"):
        rank_shards(s.queries, write_npy(tmp_path, s.docs), 3, exclude=exclude)


def test_a_killed_worker_is_retried_with_the_same_answer(tmp_path):
    pytest.importorskip("ray")
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    marker = tmp_path / "died"
    with RayExecutor("local", workers=1) as executor:
        assert list(executor.map(tasks.die_once, [(str(marker),)])) == [(0, "alive")]
        got = rank_shards(s.queries, shards, 9, cluster=Cluster(executor, query_block=20))
    assert marker.exists()
    assert ranking_bytes(got) == ranking_bytes(rank(s.queries, s.docs, 9))


def test_an_interrupt_ends_a_job_on_threads(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)

    def progress(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), ThreadExecutor(2) as executor:
        rank_shards(s.queries, shards, 3, cluster=Cluster(executor, progress=progress))
    assert set(threading.enumerate()) <= before


def test_a_missing_package_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingPackageError, match=re.escape(install_command("cluster"))),
        open_cluster("auto"),
    ):
        pass
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("cluster"))):
        rank_shards(np.ones((1, 2)), "s3://bucket/a.npy", 1)


def test_http_without_its_client_gives_the_command(monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingPackageError, match=r"reading https://h/a\.npy\?\*\*\* .*aiohttp"):
        rank_shards(np.ones((1, 2)), "https://h/a.npy?sig=1", 1)


@pytest.mark.parametrize(("url", "package"), [("s3://b/a.npy", "s3fs"), ("gs://b/a.npy", "gcsfs")])
def test_a_missing_file_system_gives_the_command(url, package, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, package, None)
    extra = url.partition("://")[0]
    with pytest.raises(MissingPackageError, match=rf"'{package}'.*\[{extra}\]"):
        rank_shards(np.ones((1, 2)), url, 1)
