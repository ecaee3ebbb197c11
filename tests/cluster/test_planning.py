"""The plan of a search: counts that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assay.cluster import Cluster, plan_shards, rank_shards
from assay.errors import MismatchError, UsageError
from tests.cluster.corpora import sample, write_npy


def test_a_plan_counts_blocks_tasks_and_bytes(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    plan = plan_shards(s.queries, shards, 5, workers=2, query_block=10)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (plan.n_queries, plan.n_docs, plan.n_blocks, plan.n_shards) == (37, 240, 4, 7)
    assert (plan.n_tasks, plan.bytes_read, plan.corpus_bytes) == (28, 4 * size, size)
    assert plan.flops == 2 * 37 * 240 * 13
    assert plan.query_bytes == 37 * 13 * 4 * 2
    assert plan.list_bytes == 37 * 7 * 5 * 16
    assert plan.rates.per_pair > 0
    assert plan.seconds > 0
    assert plan.most_held == 16
    assert [name for name, _ in plan.lines()][:3] == ["queries", "documents", "tasks"]
    assert plan.to_dict()["n_tasks"] == 28


def test_a_search_makes_the_tasks_of_the_plan(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    plan = plan_shards(s.queries, shards, 5, query_block=10)
    cluster = Cluster(query_block=10)
    rank_shards(s.queries, shards, 5, cluster=cluster)
    totals = cluster.journal.totals()
    assert totals["search"]["tasks"] == plan.n_tasks
    assert totals["search"]["bytes_read"] == plan.bytes_read


def test_idle_workers_are_told(tmp_path):
    s = sample()
    plan = plan_shards(s.queries, write_npy(tmp_path, s.docs), 5, workers=100)
    assert plan.lines()[-1] == (
        "note",
        "93 workers are idle: use more shards or a smaller --query-block",
    )


def test_requests_that_make_no_sense(tmp_path):
    s = sample()
    shards = write_npy(tmp_path, s.docs)
    with pytest.raises(MismatchError, match="columns"):
        plan_shards(np.ones((2, 3)), shards, 5)
    with pytest.raises(UsageError, match="workers"):
        plan_shards(s.queries, shards, 5, workers=0)
