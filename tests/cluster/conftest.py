"""A real Ray cluster of several nodes on this machine, each of one CPU."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

STORE_BYTES = 80_000_000

# Nothing leaves the machine, nothing is watched, and a busy machine is no reason to kill a task.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class Nodes:
    """A cluster that grows and shrinks."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.address: str = cluster.address
        self.added: list[Any] = []

    def add(self) -> None:
        """One more node."""
        self.added.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES))
        self.cluster.wait_for_nodes(timeout=120)

    def remove(self) -> None:
        """Kill the node that came last."""
        self.cluster.remove_node(self.added.pop(), allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """One node, to which this process is connected."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, os.environ.get(name, value))
        # Without one, Ray writes one into the home folder, for all to read.
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
            },
        )
        try:
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            yield Nodes(cluster)
        finally:
            ray.shutdown()
            cluster.shutdown()
