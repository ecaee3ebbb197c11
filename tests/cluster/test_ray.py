"""A Ray cluster of several nodes gives the bytes of one machine, also while nodes are lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cluster import Cluster, ClusterBatches, RayExecutor, rank_shards
from assay.errors import ClusterError, FormatError, StorageError, UsageError
from assay.models import EncoderSettings
from assay.search.engine import rank
from tests.cluster import benches, driver, tasks
from tests.cluster.corpora import ranking_bytes, write_npy
from tests.cluster.encoders import REFUSED
from tests.cluster.executor_suite import ExecutorSuite
from tests.cluster.jobs import check, jobs
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
CUTS = tuple(range(0, driver.N_DOCS + 1, 200))
FEW = (
    "rank-dot-True",
    "rank-self",
    "rank-sparse",
    "rank-terms",
    "targets-named",
    "codes-packed-False",
    "maxsim-targets-2",
    "labels",
    "evaluate-qrels-trec_eval",
)
RAGGED = tuple(f"{kind}-{number}" for kind in ("maxsim", "sparse") for number in (1, 2, 6))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return jobs(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def executor(nodes):
    with RayExecutor(nodes.address) as executor:
        yield executor


class TestRay(ExecutorSuite):
    def test_a_killed_worker_is_replaced(self, executor, tmp_path):
        marker = tmp_path / "died"
        assert list(executor.map(tasks.die_once, [(str(marker),)])) == [(0, "alive")]
        assert marker.exists()


def test_one_node_gives_the_bytes_of_one_machine(executor, found):
    assert executor.workers == 1
    check(found, Cluster(executor, query_block=20), (*FEW, *RAGGED))


@pytest.mark.parametrize("name", ["maxsim-6", "sparse-6"])
def test_a_worker_that_dies_in_the_middle_changes_no_byte(executor, found, name):
    """What it searched is searched again by another worker."""
    workers: list[str] = []

    def progress(pairs: int, total: int | None) -> None:
        workers.append(cluster.journal.steps[-1].worker)
        if len(workers) == 2:
            os.kill(int(workers[0].rpartition(":")[2]), signal.SIGKILL)

    cluster = Cluster(executor, query_block=8, progress=progress)
    check(found, cluster, [name])
    assert len(set(workers)) == 2


def test_an_unreadable_shard_fails_with_its_name(executor, tmp_path):
    queries, docs = driver.vectors()
    shards = write_npy(tmp_path, docs, CUTS)
    (tmp_path / "part-5.npy").write_bytes(b"no array")
    with pytest.raises(FormatError, match=r"Shard .*part-5\.npy"):
        rank_shards(queries, shards, 5, cluster=Cluster(executor))
    files = [str(tmp_path / f"part-{number}.npy") for number in (1, 77)]
    with pytest.raises(StorageError, match=r"part-77\.npy"):
        rank_shards(queries, files, 5, cluster=Cluster(executor))


@pytest.mark.slow
def test_two_and_three_nodes(nodes, found):
    nodes.add()
    with RayExecutor(nodes.address) as executor:
        assert executor.workers == 2
        check(found, Cluster(executor, query_block=9))
    nodes.add()
    with RayExecutor(nodes.address) as executor:
        assert executor.workers == 3
        check(found, Cluster(executor, query_block=20, in_flight=4), (*FEW, *RAGGED))


@pytest.mark.slow
def test_a_bench_encodes_on_all_nodes(nodes, tmp_path, monkeypatch):
    if not nodes.added:
        nodes.add()
    benches.cut_small(monkeypatch)
    with RayExecutor(nodes.address) as executor:
        cluster = Cluster(executor)
        benches.check(cluster, tmp_path)
        assert str(os.getpid()) not in {step.worker.split(":")[1] for step in cluster.journal.steps}
        with pytest.raises(UsageError, match=r"strict' failed: KeyError.*; on the text 'a text"):
            benches.bench(cluster, None, [benches.STRICT], benches.with_text(REFUSED))
        send = ClusterBatches(cluster, "py:no_such_module:encode", EncoderSettings())
        with pytest.raises(ClusterError, match=r"The worker .* cannot load the model 'py:no_such"):
            list(send("any", [(0, ["a text"])]))


@pytest.mark.slow
def test_a_node_is_removed_in_the_middle(nodes, tmp_path):
    """Its tasks run again elsewhere, and results that it held are computed once more."""
    while len(nodes.added) < 2:
        nodes.add()
    queries, docs = driver.vectors()
    shards = write_npy(tmp_path, docs, CUTS)
    done = []

    def progress(pairs: int, total: int | None) -> None:
        done.append(pairs)
        if len(done) in (5, 9):
            nodes.remove()

    with RayExecutor(nodes.address) as executor:
        cluster = Cluster(executor, query_block=driver.BLOCK, progress=progress)
        got = rank_shards(queries, shards, driver.K, cluster=cluster)
    assert len(done) == 24
    assert len(nodes.added) == 0
    assert ranking_bytes(got) == ranking_bytes(rank(queries, docs, driver.K))
    assert cluster.journal.computed == 24
    assert {step.kind for step in cluster.journal.steps} == {"search", "merge", "finish"}
    assert cluster.journal.most_held <= cluster.most_held


@pytest.mark.slow
def test_a_killed_driver_goes_on(nodes, tmp_path):
    queries, docs = driver.vectors()
    shards = write_npy(tmp_path, docs, CUTS)
    checkpoint = tmp_path / "checkpoint"
    _start_and_kill(nodes.address, tmp_path, checkpoint, stop=15)
    with RayExecutor(nodes.address) as executor:
        cluster = Cluster(executor, query_block=driver.BLOCK, checkpoint=checkpoint)
        got = rank_shards(queries, shards, driver.K, cluster=cluster)
    assert ranking_bytes(got) == ranking_bytes(rank(queries, docs, driver.K))
    journal = cluster.journal
    assert journal.blocks == 24
    assert 14 <= journal.resumed <= 15
    assert journal.computed == 24 - journal.resumed
    assert 1 <= journal.recomputed <= journal.computed
    assert "15 of 24 blocks" in journal.resumption() or "14 of 24 blocks" in journal.resumption()


def _start_and_kill(address: str, folder: Path, checkpoint: Path, stop: int) -> None:
    arguments = [address, str(folder), str(checkpoint), str(stop)]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.driver", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        until(lambda: (folder / "stopped").exists() or child.poll() is not None)
        assert child.poll() is None, "the driver ended by itself"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
