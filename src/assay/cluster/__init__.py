"""Beyond one machine: the engine's searches over shards, with the bytes of one machine."""

from __future__ import annotations

from assay.cluster.evaluating import evaluate_shards
from assay.cluster.executors import Executor, RayExecutor, SerialExecutor, ThreadExecutor
from assay.cluster.journal import Journal
from assay.cluster.labels import count_label_shards
from assay.cluster.searching import rank_code_shards, rank_shards
from assay.cluster.settings import Cluster, open_cluster
from assay.cluster.shards import Shard, open_shards
from assay.cluster.targets import target_rank_shards

__all__ = [
    "Cluster",
    "Executor",
    "Journal",
    "RayExecutor",
    "SerialExecutor",
    "Shard",
    "ThreadExecutor",
    "count_label_shards",
    "evaluate_shards",
    "open_cluster",
    "open_shards",
    "rank_code_shards",
    "rank_shards",
    "target_rank_shards",
]
