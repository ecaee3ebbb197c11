"""Shards of one worker share the floor: less is found, the merged lists stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from assay.cluster import Cluster, SerialExecutor, ThreadExecutor, rank_shards, searching
from assay.cluster.searching import Lists, find_floors, remember_scores
from assay.search.engine import TokenVectors, rank
from tests.cluster.corpora import as_sparse, ranking_bytes, write_npy, write_sparse

CUTS = (0, 300, 600, 900)


def vectors():
    rng = np.random.default_rng(3)
    docs = np.round(rng.normal(size=(900, 4)), 1).astype(np.float32)  # many ties
    return rng.normal(size=(30, 4)).astype(np.float32), docs


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_later_shards_find_less_and_the_result_is_the_same(tmp_path, workers, keep_ties):
    queries, docs = vectors()
    shards = write_npy(tmp_path, docs, CUTS)
    want = rank(queries, docs, 20, metric="dot", keep_ties=keep_ties)
    with ThreadExecutor(workers) if workers > 1 else SerialExecutor() as executor:
        cluster = Cluster(executor, query_block=11)
        got = rank_shards(queries, shards, 20, metric="dot", keep_ties=keep_ties, cluster=cluster)
    assert ranking_bytes(got) == ranking_bytes(want)
    searched = [step for step in cluster.journal.steps if step.kind == "search"]
    by_shard = [sum(step.bytes_made for step in searched if step.shard == i) for i in range(3)]
    if workers == 1:
        assert by_shard[0] > by_shard[1] > by_shard[2]


@pytest.mark.parametrize("keep_ties", [False, True])
def test_later_shards_of_sparse_rows_find_less(tmp_path, keep_ties):
    _, docs = vectors()
    rows = as_sparse(np.maximum(docs, 0))
    queries = rows[:30]
    shards = write_sparse(tmp_path / "shards", np.maximum(docs, 0), CUTS)
    how = {"metric": "dot", "exclude": [(3, 0), (4, 700)], "keep_ties": keep_ties}
    cluster = Cluster(SerialExecutor(), query_block=11)
    got = rank_shards(queries, shards, 20, cluster=cluster, **how)
    assert ranking_bytes(got) == ranking_bytes(rank(queries, rows, 20, **how))
    searched = [step for step in cluster.journal.steps if step.kind == "search"]
    made = [sum(step.bytes_made for step in searched if step.shard == i) for i in range(3)]
    assert made[0] > made[1] > made[2]


@pytest.mark.parametrize("keep_ties", [False, True])
def test_threads_begin_with_other_parts_of_token_queries(tmp_path, monkeypatch, keep_ties):
    """Each part of the queries has floors in every shard but one, and the bytes are the same."""
    rng = np.random.default_rng(4)
    offsets = np.arange(0, 4 * 150 + 1, 4)
    docs = TokenVectors(rng.integers(-2, 3, (600, 8)).astype(np.float32), offsets)
    queries = docs[:31]
    for number, (first, last) in enumerate([(0, 50), (50, 100), (100, 150)]):
        part = docs[first:last]
        np.savez(tmp_path / f"part-{number}.npz", embeddings=part.values, offsets=part.offsets)
    shards = str(tmp_path / "part-*.npz")
    asked = []

    def spy(job, block, shard):
        floors = find_floors(job, block, shard)
        asked.append((shard, block, floors is not None))
        return floors

    monkeypatch.setattr(searching, "find_floors", spy)
    exclude = [(row, row + step) for row in range(31) for step in (0, 60)]
    how = {"metric": "maxsim", "exclude": exclude, "keep_ties": keep_ties}
    with ThreadExecutor(2) as executor:
        got = rank_shards(queries, shards, 5, cluster=Cluster(executor), **how)
    assert ranking_bytes(got) == ranking_bytes(rank(queries, docs, 5, **how))
    order = {
        first: [block for shard, block, _ in asked if shard == first] for first in (0, 50, 100)
    }
    assert order == {0: [0, 1], 50: [1, 0], 100: [0, 1]}
    assert sum(there for _, _, there in asked) >= 2


def test_a_task_that_runs_again_is_not_counted_twice(tmp_path, monkeypatch):
    queries, docs = vectors()
    shards = write_npy(tmp_path, docs, CUTS)
    search = searching.VectorTask.search
    lists = []

    def twice(self, *arguments):
        lists.append((search(self, *arguments), search(self, *arguments)))
        return lists[-1][1]

    monkeypatch.setattr(searching.VectorTask, "search", twice)
    got = rank_shards(queries, shards, 20, metric="dot")
    assert ranking_bytes(got) == ranking_bytes(rank(queries, docs, 20, metric="dot"))
    assert all(again.lengths.tolist() == [20] * 30 for _, again in lists)
    assert lists[1][0].lengths.sum() < 600


def lists_with(*rows):
    lengths = np.array([len(row) for row in rows])
    scores = np.array([score for row in rows for score in row])
    nothing = np.zeros(0, np.int64)
    return Lists(lengths, np.arange(len(scores)), scores, lengths > 9, nothing, None)


def test_the_floor_is_the_kth_best_of_all_that_was_seen():
    assert find_floors("job", 0, 0) is None
    remember_scores("job", 0, 0, lists_with([5.0, 3.0], [1.0]), 2)
    assert find_floors("job", 0, 1).tolist() == [3.0, -np.inf]
    remember_scores("job", 0, 1, lists_with([4.0], [2.0, 2.0, 2.0]), 2)
    assert find_floors("job", 0, 2).tolist() == [4.0, 2.0]
    remember_scores("job", 0, 1, lists_with([9.0, 9.0], [9.0, 9.0]), 2)
    assert find_floors("job", 0, 2).tolist() == [4.0, 2.0]
    assert find_floors("job", 0, 1) is None
    assert find_floors("another", 0, 2) is None


def test_blocks_long_past_are_forgotten():
    for block in range(4):
        remember_scores("long", block, 0, lists_with([1.0]), 1)
    assert find_floors("long", 0, 1) is None
    assert find_floors("long", 3, 1).tolist() == [1.0]


def test_lists_of_whole_shards_are_not_remembered():
    remember_scores("deep", 0, 0, lists_with([1.0]), 1 << 31)
    assert find_floors("deep", 0, 1) is None
