"""The recall of an approximate index, estimated from exact neighbours of sampled queries."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Ranking, read_run, write_run
from assay.cluster import sample_queries, sampled_recall
from assay.errors import MismatchError, UsageError
from assay.search.engine import rank
from tests.cluster.corpora import sample, write_npy, write_npz


def worse(ranking: Ranking, rng, share: float) -> Ranking:
    """An approximate ranking: some neighbours are missing."""
    kept = rng.random(len(ranking.docs)) > share
    return ranking.select(kept)


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(4)
    docs = rng.standard_normal((900, 12), dtype=np.float32)
    queries = rng.standard_normal((800, 12), dtype=np.float32)
    exact = rank(queries, docs, 10)
    return queries, docs, exact, worse(exact, rng, 0.15)


def test_samples_are_the_same_everywhere_and_have_no_repetition():
    rows = sample_queries(1000, 100, seed=7)
    assert len(np.unique(rows)) == 100
    assert rows.tolist() == sorted(rows.tolist())
    assert rows.tolist() == sample_queries(1000, 100, seed=7).tolist()
    assert rows.tolist() != sample_queries(1000, 100, seed=8).tolist()
    assert sample_queries(5, 100).tolist() == [0, 1, 2, 3, 4]


def test_samples_are_fair():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[sample_queries(20, 5, seed=seed)] += 1
    assert abs(counts / 2000 - 0.25).max() < 0.05


def test_the_interval_covers_the_recall_of_all_queries(crowd):
    queries, docs, exact, approximate = crowd
    truth = sampled_recall(approximate, queries, docs, k=10, sample=800)
    assert truth.method == "all queries"
    assert truth.low == truth.estimate == truth.high
    assert truth.estimate == pytest.approx(len(approximate.docs) / len(exact.docs))
    inside = 0
    for seed in range(40):
        found = sampled_recall(approximate, queries, docs, k=10, sample=60, seed=seed)
        inside += found.low <= truth.estimate <= found.high
    assert inside >= 34  # 95 % of 40 is 38; fewer than 34 has a chance below 1 in 500


def test_shards_give_what_an_array_gives(crowd, tmp_path):
    queries, docs, _, approximate = crowd
    shards = write_npy(tmp_path, docs, (0, 100, 500, 900))
    one = sampled_recall(approximate, queries, docs, k=10, sample=50, seed=1)
    many = sampled_recall(approximate, queries, shards, k=10, sample=50, seed=1)
    assert (one.estimate, one.low, one.high) == (many.estimate, many.low, many.high)
    assert one.values.tolist() == many.values.tolist()
    assert one.exact.scores.tobytes() == many.exact.scores.tobytes()


def test_runs_read_from_files(crowd, tmp_path):
    """A file of a run names rows by text."""
    queries, docs, _, approximate = crowd
    write_run(approximate, tmp_path / "run.txt")
    read = read_run(tmp_path / "run.txt")
    how = {"k": 10, "sample": 50}
    assert sampled_recall(read, queries, docs, **how).values.tolist() == (
        sampled_recall(approximate, queries, docs, **how).values.tolist()
    )


def test_tied_neighbours_are_as_good(tmp_path):
    s = sample()
    shards = write_npz(tmp_path, s.docs, s.doc_ids)
    ids = s.query_ids
    last = rank(s.queries, s.docs, 5, query_ids=ids, doc_ids=s.doc_ids, keep_ties=True)
    ends = [list(last.docs[a:b])[-5:] for a, b in zip(last.offsets, last.offsets[1:], strict=False)]
    scores = [[5, 4, 3, 2, 1]] * len(ends)
    other = Ranking.from_arrays(ends, scores, query_ids=ids, doc_ids=s.doc_ids)
    found = sampled_recall(other, s.queries, shards, k=5, sample=37, query_ids=ids)
    tops = [last.scores[a:b] for a, b in zip(last.offsets, last.offsets[1:], strict=False)]
    want = [np.count_nonzero(top[-5:] >= top[4]) / 5 for top in tops]
    assert found.values.tolist() == want


def test_a_sample_without_a_miss_leaves_room_for_one(crowd):
    queries, docs, exact, _ = crowd
    found = sampled_recall(exact, queries, docs, k=10, sample=50)
    assert (found.estimate, found.high, found.method) == (1.0, 1.0, "Wilson")
    assert 0.9 < found.low < 0.95


def test_nothing_found_at_all(crowd):
    queries, docs, exact, _ = crowd
    nothing = exact.select(np.zeros(len(exact.docs), bool))
    found = sampled_recall(nothing, queries, docs, k=10, sample=50)
    assert (found.estimate, found.low) == (0.0, 0.0)
    assert 0 < found.high < 0.1


def test_requests_that_make_no_sense(crowd):
    queries, docs, exact, _ = crowd
    with pytest.raises(UsageError, match="Use at least 8"):
        sampled_recall(exact, queries, docs, k=10, sample=3)
    with pytest.raises(UsageError, match="approximate must be a Ranking"):
        sampled_recall("run.txt", queries, docs, k=10)
    with pytest.raises(UsageError, match="level"):
        sampled_recall(exact, queries, docs, k=10, level=95, sample=20)
    few = rank(queries[:5], docs, 10)
    with pytest.raises(MismatchError, match="The approximate ranking lacks query 10"):
        sampled_recall(few, queries, docs, k=10, sample=50)
