"""A driver that searches shards with a checkpoint, and stands still once some blocks are done.

python -m tests.cluster.driver ADDRESS FOLDER CHECKPOINT STOP
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np

from assay.cluster import open_cluster, rank_shards

N_QUERIES, N_DOCS, K, BLOCK = 400, 2400, 100, 200


def vectors() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    docs = rng.integers(-2, 3, (N_DOCS, 8)).astype(np.float32) + np.float32(0.5)
    return docs[:N_QUERIES] + np.float32(0.25), docs


def main(address: str, folder: str, checkpoint: str, stop: str) -> None:
    done = 0

    def progress(pairs: int, total: int | None) -> None:
        nonlocal done
        done += 1
        if done == int(stop):
            Path(folder, "stopped").touch()
            signal.pause()

    with open_cluster(
        address, query_block=BLOCK, checkpoint=checkpoint, progress=progress
    ) as cluster:
        rank_shards(vectors()[0], f"{folder}/part-*.npy", K, cluster=cluster)


if __name__ == "__main__":
    main(*sys.argv[1:])
