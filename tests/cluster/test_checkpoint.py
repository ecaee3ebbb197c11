"""Finished blocks last: a job goes on where it was killed, and never mixes two jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.cluster import (
    Cluster,
    evaluate_shards,
    rank_code_shards,
    rank_shards,
    target_rank_shards,
)
from assay.errors import MismatchError, StorageError
from assay.search.engine import rank
from tests.cluster.corpora import ranking_bytes, sample, scores_bytes, write_npy, write_npz

K, BLOCK = 9, 13  # three blocks of queries, seven shards


class StopError(Exception):
    """The driver dies."""


def stopping_after(count: int):
    done = []

    def progress(pairs: int, total: int | None) -> None:
        done.append(pairs)
        if len(done) == count:
            raise StopError

    return progress


@pytest.fixture
def shards(tmp_path) -> str:
    s = sample()
    return write_npz(tmp_path / "shards", s.docs, s.doc_ids)


def started(shards, folder, stop: int) -> None:
    """A job that died after so many blocks."""
    s = sample()
    cluster = Cluster(query_block=BLOCK, checkpoint=folder, progress=stopping_after(stop))
    with pytest.raises(StopError):
        rank_shards(s.queries, shards, K, query_ids=s.query_ids, cluster=cluster)


def resumed(shards, folder) -> Cluster:
    s = sample()
    cluster = Cluster(query_block=BLOCK, checkpoint=folder)
    got = rank_shards(s.queries, shards, K, query_ids=s.query_ids, cluster=cluster)
    want = rank(s.queries, s.docs, K, query_ids=s.query_ids, doc_ids=s.doc_ids)
    assert ranking_bytes(got) == ranking_bytes(want)
    return cluster


@pytest.mark.parametrize("stop", [1, 7, 8, 21])
def test_nothing_finished_is_computed_again(stop, shards, tmp_path):
    started(shards, tmp_path / "c", stop)
    journal = resumed(shards, tmp_path / "c").journal
    assert (journal.blocks, journal.resumed, journal.computed) == (21, stop, 21 - stop)
    journal = resumed(shards, tmp_path / "c").journal
    assert (journal.resumed, journal.computed, journal.recomputed) == (21, 0, 0)


def test_finished_blocks_of_queries_take_one_file(shards, tmp_path):
    resumed(shards, tmp_path / "c")
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert names == ["b00000.done", "b00001.done", "b00002.done", "job.json", "started"]


@pytest.mark.parametrize("cut", [0, 40, -1])
def test_damage_is_noticed(cut, shards, tmp_path):
    started(shards, tmp_path / "c", 18)
    kept = tmp_path / "c"
    files = [next(kept.glob("*.done")), next(kept.glob("*.part"))]
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data[:cut] if cut >= 0 else data[:-3] + b"\0\1\2")
    journal = resumed(shards, kept).journal
    assert (journal.damaged, journal.resumed, journal.computed) == (2, 10, 11)
    assert journal.recomputed >= 8
    assert "2 of them damaged" in journal.resumption()


def test_a_changed_shard_is_noticed(shards, tmp_path):
    s = sample()
    started(shards, tmp_path / "c", 10)
    docs = s.docs.copy()
    docs[100, 0] += 1  # the size and the number of rows stay
    write_npz(tmp_path / "shards", docs, s.doc_ids)
    with pytest.raises(MismatchError, match=r"part-4\.npz changed since the checkpoint"):
        resumed(shards, tmp_path / "c")
    write_npz(tmp_path / "shards", s.docs, s.doc_ids)


def test_a_shard_more_or_less_is_noticed(shards, tmp_path):
    started(shards, tmp_path / "c", 3)
    (tmp_path / "shards" / "part-6.npz").unlink()
    with pytest.raises(MismatchError, match="Pass the same shards, or another folder"):
        resumed(shards, tmp_path / "c")


def test_shards_may_move(shards, tmp_path):
    started(shards, tmp_path / "c", 10)
    (tmp_path / "shards").rename(tmp_path / "moved")
    assert resumed(str(tmp_path / "moved" / "*.npz"), tmp_path / "c").journal.resumed == 10


@pytest.mark.parametrize(
    "change",
    [{"k": K + 1}, {"metric": "dot"}, {"keep_ties": True}, {"exclude": "self"}, {"zero": "last"}],
)
def test_another_request_is_refused(change, shards, tmp_path):
    s = sample()
    started(shards, tmp_path / "c", 3)
    how = {"k": K, "query_ids": s.query_ids, **change}
    with pytest.raises(MismatchError, match="belongs to another job"):
        rank_shards(
            s.queries, shards, **how, cluster=Cluster(query_block=BLOCK, checkpoint=tmp_path / "c")
        )


def test_other_queries_are_refused(shards, tmp_path):
    s = sample()
    started(shards, tmp_path / "c", 3)
    queries = s.queries.copy()
    queries[36, 0] += 1
    cluster = Cluster(query_block=BLOCK, checkpoint=tmp_path / "c")
    with pytest.raises(MismatchError, match="queries was"):
        rank_shards(queries, shards, K, query_ids=s.query_ids, cluster=cluster)


def test_a_folder_of_something_else_is_refused(shards, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "letters.txt").write_text("keep me")
    with pytest.raises(StorageError, match="is not a checkpoint"):
        resumed(shards, tmp_path / "c")
    (tmp_path / "c" / "job.json").write_text("[]")
    with pytest.raises(StorageError, match="is not a checkpoint"):
        resumed(shards, tmp_path / "c")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        resumed(shards, tmp_path / "file")


def test_a_manifest_checksum_is_compared(tmp_path):
    s = sample()
    write_npy(tmp_path, s.docs)
    source = tmp_path / "m.json"
    source.write_text(json.dumps({"shards": [{"path": "part-2.npy", "sha256": "0" * 64}]}))
    cluster = Cluster(checkpoint=tmp_path / "c")
    with pytest.raises(StorageError, match=r"part-2\.npy has the SHA-256 .* manifest says 0000"):
        rank_shards(s.queries, source, 3, cluster=cluster)


@pytest.mark.parametrize("kind", ["targets", "codes", "evaluate"])
def test_other_jobs_resume_too(kind, shards, tmp_path):
    s = sample()
    plain = write_npy(tmp_path / "plain", s.docs)
    codes = write_npy(tmp_path / "codes", s.codes)

    def run(cluster):
        if kind == "targets":
            found = target_rank_shards(s.queries, plain, s.targets, cluster=cluster)
            return found.above.tolist(), found.tied.tolist(), found.before.tolist()
        if kind == "codes":
            return ranking_bytes(rank_code_shards(s.codes[:37], codes, 9, cluster=cluster))
        qrels = {name: {s.doc_ids[row]: 1} for row, name in enumerate(s.query_ids)}
        return scores_bytes(
            evaluate_shards(
                s.queries, shards, qrels, "AP", k=9, query_ids=s.query_ids, cluster=cluster
            )
        )

    with pytest.raises(StopError):
        run(Cluster(query_block=BLOCK, checkpoint=tmp_path / "c", progress=stopping_after(10)))
    cluster = Cluster(query_block=BLOCK, checkpoint=tmp_path / "c")
    assert run(cluster) == run(Cluster())
    assert (cluster.journal.resumed, cluster.journal.computed) == (10, 11)


def test_a_shard_that_changes_meanwhile(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)

    def progress(pairs: int, total: int | None) -> None:
        np.save(tmp_path / "part-5.npy", s.docs[:60])

    with pytest.raises(StorageError, match=r"part-5\.npy changed while it was read"):
        rank_shards(s.queries, shards, 3, cluster=Cluster(progress=progress))
