"""Beyond one machine: the engine's searches over shards, with the bytes of one machine."""

from __future__ import annotations

from assay.cluster.encoding import ClusterBatches, Encoding, encode_shards
from assay.cluster.evaluating import count_label_shards, evaluate_shards
from assay.cluster.executors import Executor, RayExecutor, SerialExecutor, ThreadExecutor
from assay.cluster.plan import ShardPlan, plan_shards
from assay.cluster.sampling import SampledRecall, sample_queries, sampled_recall, take_sample
from assay.cluster.searching import rank_code_shards, rank_shards
from assay.cluster.settings import Cluster, Journal, open_cluster
from assay.cluster.shards import Shard, open_shards
from assay.cluster.targets import target_rank_shards

__all__ = [
    "Cluster",
    "ClusterBatches",
    "Encoding",
    "Executor",
    "Journal",
    "RayExecutor",
    "SampledRecall",
    "SerialExecutor",
    "Shard",
    "ShardPlan",
    "ThreadExecutor",
    "count_label_shards",
    "encode_shards",
    "evaluate_shards",
    "open_cluster",
    "open_shards",
    "plan_shards",
    "rank_code_shards",
    "rank_shards",
    "sample_queries",
    "sampled_recall",
    "take_sample",
    "target_rank_shards",
]
