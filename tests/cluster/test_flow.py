"""The flow of blocks: bounds on what is held, progress, timings."""

from __future__ import annotations

import numpy as np
import pytest

from assay.cluster import Cluster, ThreadExecutor, open_cluster, rank_shards
from assay.cluster.searching import Lists, merge_lists
from assay.errors import ClusterError, UsageError
from tests.cluster.corpora import sample, write_npy


@pytest.mark.parametrize("in_flight", [3, 4, 7, None])
@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_is_held_than_stated(in_flight, workers, tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs, tuple(range(0, 241, 8)))
    with ThreadExecutor(workers) as executor:
        cluster = Cluster(executor, query_block=15, in_flight=in_flight)
        rank_shards(s.queries, shards, 5, cluster=cluster)
    assert 2 < cluster.journal.most_held <= cluster.most_held


def test_progress_counts_pairs(tmp_path):
    s = sample()
    seen = []
    cluster = Cluster(query_block=20, progress=lambda done, total: seen.append((done, total)))
    rank_shards(s.queries, write_npy(tmp_path, s.docs), 5, cluster=cluster)
    assert seen[-1] == (37 * 240, 37 * 240)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_the_journal_tells_time_and_bytes(tmp_path):
    s = sample()
    cluster = Cluster(query_block=20)
    rank_shards(s.queries, write_npy(tmp_path, s.docs), 5, cluster=cluster)
    told = cluster.journal.to_dict()
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert told["totals"]["search"]["tasks"] == 14
    assert told["totals"]["search"]["bytes_read"] == 2 * size
    assert told["totals"]["finish"]["bytes_made"] >= 37 * 5 * 16
    assert len(told["tasks"]) == sum(kind["tasks"] for kind in told["totals"].values())


def lists(rng, docs, k: int) -> Lists:
    """What a search of some documents would give, by sorting all."""
    scores = rng.integers(0, 4, (6, len(docs))).astype(float)
    return cut(scores, docs, k, keep_ties=False)


def cut(scores, docs, k: int, keep_ties: bool) -> Lists:
    rows, tie_split = [], []
    for row in scores:
        order = sorted(range(len(docs)), key=lambda place: (-row[place], docs[place]))
        kept = order[:k]
        if keep_ties and len(order) > k:
            kept += [place for place in order[k:] if row[place] == row[order[k - 1]]]
        tie_split.append(not keep_ties and len(order) > k and row[order[k]] == row[order[k - 1]])
        rows.append([(docs[place], row[place]) for place in kept])
    flat = [pair for row in rows for pair in row]
    return Lists(
        np.array([len(row) for row in rows]),
        np.array([doc for doc, _ in flat], np.int64),
        np.array([score for _, score in flat]),
        np.array(tie_split),
        np.zeros(0, np.int64),
        None,
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("keep_ties", [False, True])
def test_merging_in_any_order_is_one_search(seed, keep_ties):
    """Brute force over random ties, merged by random trees."""
    rng = np.random.default_rng(seed)
    k, n_docs = int(rng.integers(1, 9)), 60
    scores = rng.integers(0, 4, (6, n_docs)).astype(float)
    owner = rng.integers(0, 7, n_docs)
    parts = [
        cut(scores[:, owner == one], np.flatnonzero(owner == one), k, keep_ties)
        for one in range(7)
        if (owner == one).any()
    ]
    want = cut(scores, np.arange(n_docs), k, keep_ties)
    while len(parts) > 1:
        rng.shuffle(parts)
        some = int(rng.integers(2, 4))
        parts = [*parts[some:], merge_lists(parts[:some], k, keep_ties=keep_ties)]
    for name in ("lengths", "docs", "scores", "tie_split"):
        assert np.array_equal(getattr(parts[0], name), getattr(want, name)), name


@pytest.mark.parametrize(
    "how", [{"in_flight": 2}, {"query_block": 0}, {"threads": True}, {"executor": "threads"}]
)
def test_settings_that_make_no_sense(how):
    with pytest.raises(UsageError):
        Cluster(**how)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:99999"])
def test_a_cluster_that_is_not_there(address):
    pytest.importorskip("ray")
    with pytest.raises(ClusterError, match="No Ray cluster answers"), open_cluster(address):
        pass
