"""Shards give the bytes of one machine, however queries are cut and wherever blocks run."""

from __future__ import annotations

import numpy as np
import pytest

from assay import write_run
from assay.cluster import Cluster, SerialExecutor, ThreadExecutor, rank_shards
from assay.search.engine import rank
from tests.cluster.corpora import (
    as_sparse,
    ranking_bytes,
    sample,
    write_npy,
    write_npz,
    write_sparse,
)
from tests.cluster.jobs import check, jobs


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return jobs(tmp_path_factory.mktemp("shards"))


@pytest.mark.parametrize("query_block", [13, pytest.param(100, marks=pytest.mark.slow)])
def test_serial_gives_the_bytes_of_one_machine(found, query_block):
    check(found, Cluster(SerialExecutor(), query_block=query_block))


@pytest.mark.parametrize("in_flight", [3, pytest.param(None, marks=pytest.mark.slow)])
def test_threads_give_the_bytes_of_one_machine(found, in_flight):
    with ThreadExecutor(3) as executor:
        check(found, Cluster(executor, query_block=10, in_flight=in_flight))


def test_the_numpy_engine_gives_the_same_bytes(found):
    name = ranking_bytes(rank([[1.0]], [[1.0]], 1, engine="numpy"))[6]
    for job in ("rank-cosine-True", "targets-dot"):
        got = found[job][0](Cluster(engine="numpy", query_block=20))
        assert name in got
        want = [name if part == "native-certified" else part for part in found[job][1]()]
        assert list(got) == want


@pytest.mark.parametrize("cuts", [(0, 240), (0, 1, 2, 3, 240), tuple(range(0, 241, 8))])
def test_cuts_into_shards(cuts, tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs, cuts)
    for ties in (False, True):
        want = rank(s.queries, s.docs, 7, metric="dot", keep_ties=ties)
        got = rank_shards(
            s.queries, shards, 7, metric="dot", keep_ties=ties, cluster=Cluster(query_block=16)
        )
        assert ranking_bytes(got) == ranking_bytes(want)
        assert got.docs.tobytes() == want.docs.tobytes()


@pytest.mark.parametrize("n_shards", [1, 2, 6])
def test_sparse_cuts_into_shards(n_shards, tmp_path):
    s = sample()
    queries, docs = np.maximum(s.queries, 0), np.maximum(s.docs, 0)
    shards = write_sparse(tmp_path / "shards", docs, tuple(range(0, 241, 240 // n_shards)))
    want = rank(as_sparse(queries), as_sparse(docs), 7, metric="dot")
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):  # the second time from what the first one kept
        cluster = Cluster(query_block=16, checkpoint=checkpoint)
        got = rank_shards(as_sparse(queries), shards, 7, metric="dot", cluster=cluster)
        assert ranking_bytes(got) == ranking_bytes(want)
    assert cluster.journal.computed == 0


def test_order_of_shards_does_not_matter(tmp_path):
    s = sample()
    write_npz(tmp_path, s.docs, s.doc_ids, tuple(range(0, 241, 16)))
    files = sorted(str(path) for path in tmp_path.iterdir())
    want = ranking_bytes(rank(s.queries, s.docs, 30, doc_ids=s.doc_ids, query_ids=s.query_ids))
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(files).tolist()
        got = rank_shards(s.queries, shuffled, 30, query_ids=s.query_ids)
        assert ranking_bytes(got) == want


def test_written_runs_are_the_same_files(tmp_path):
    s = sample()
    shards = write_npz(tmp_path / "shards", s.docs, s.doc_ids)
    one = rank(s.queries, s.docs, 20, query_ids=s.query_ids, doc_ids=s.doc_ids)
    many = rank_shards(s.queries, shards, 20, query_ids=s.query_ids)
    for ranking, name in ((one, "one"), (many, "many")):
        for ending in ("txt", "csv", "jsonl"):
            write_run(ranking, tmp_path / f"{name}.{ending}")
    for ending in ("txt", "csv", "jsonl"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (
            tmp_path / f"many.{ending}"
        ).read_bytes()


@pytest.mark.parametrize("zero", ["drop", "last"])
@pytest.mark.parametrize("keep_ties", [False, True])
def test_zero_rows_rank_as_on_one_machine(zero, keep_ties, tmp_path):
    s = sample()
    docs, queries = s.docs.copy(), s.queries.copy()
    docs[[0, 40, 41, 239]] = 0
    queries[[2, 20]] = 0
    shards = write_npy(tmp_path, docs)
    how = {"zero": zero, "keep_ties": keep_ties, "exclude": s.pairs}
    want = rank(queries, docs, 240 if keep_ties else 12, **how)
    got = rank_shards(
        queries, shards, 240 if keep_ties else 12, **how, cluster=Cluster(query_block=9)
    )
    assert ranking_bytes(got) == ranking_bytes(want)


def test_zero_queries_and_targets(tmp_path):
    from assay.cluster import target_rank_shards
    from assay.search.engine import target_ranks

    s = sample()
    docs, queries = s.docs.copy(), s.queries.copy()
    docs[[1, 60]] = 0
    queries[[2, 20]] = 0
    targets = s.targets.copy()
    targets[2], targets[7] = 100, 60
    want = target_ranks(queries, docs, targets, zero="last")
    got = target_rank_shards(queries, write_npy(tmp_path, docs), targets, zero="last")
    for name in ("above", "tied", "before", "n_docs"):
        assert np.array_equal(getattr(got, name), getattr(want, name)), name


@pytest.mark.parametrize("k", [1, 240, 100_000])
def test_k_beyond_shards_and_corpus(k, tmp_path):
    s = sample()
    got = rank_shards(s.queries, write_npy(tmp_path, s.docs), k)
    assert ranking_bytes(got) == ranking_bytes(rank(s.queries, s.docs, k))


def test_real_vectors(data_dir, tmp_path):
    """MiniLM's vectors of SciFact, in float16."""
    with np.load(data_dir("scifact") / "minilm.npz") as arrays:
        queries, docs = arrays["queries"], arrays["docs"]
    shards = write_npy(tmp_path, docs, (0, 700, 2000, 2001, 5183))
    for metric in ("cosine", "l2"):
        got = rank_shards(queries, shards, 50, metric=metric, cluster=Cluster(query_block=128))
        assert ranking_bytes(got) == ranking_bytes(rank(queries, docs, 50, metric=metric))


def test_more_documents_than_are_numbered_here(tmp_path, monkeypatch):
    """The ranking then lists the documents that were found, by their numbers."""
    from assay.cluster import searching

    monkeypatch.setattr(searching, "MOST_NUMBERED", 100)
    s = sample()
    got = rank_shards(s.queries, write_npy(tmp_path, s.docs), 3)
    assert len(got.doc_ids) < len(s.docs)
    assert ranking_bytes(got) == ranking_bytes(rank(s.queries, s.docs, 3))
