"""Declare the cluster plugin."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "cluster",
    commands=(
        CommandEntry(
            "rank",
            "Search",
            "Find the exact best documents of each query and write them as a run.",
            "assay.cluster.rank_command:command",
        ),
        CommandEntry(
            "encode",
            "Search",
            "Encode shards of texts into shards of vectors, for `assay rank`.",
            "assay.cluster.command:command",
        ),
    ),
    hooks={
        "open_cluster": "assay.cluster.settings:open_cluster",
        "encode_batches": "assay.cluster.encoding:ClusterBatches",
    },
)
