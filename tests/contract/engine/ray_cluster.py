"""A Ray cluster of three nodes on this machine: run as a process, asked by lines on its stdin.

python -m tests.contract.engine.ray_cluster DIRECTORY
"""

from __future__ import annotations

import socket
from typing import Any

from tests.contract.engine.serving import serve
from tests.contract.engine.systems import NODES, SLOTS

STORE = 200_000_000
"""Bytes of each node's object store."""

ATTEMPTS = 5

NODE = {"num_cpus": SLOTS, "object_store_memory": STORE}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class RayCluster:
    def __init__(self, directory: str) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._add(is_head=True)
        self._others = [self._add() for _ in range(NODES - 1)]
        self._cluster.wait_for_nodes()
        self.address: str = self._cluster.address

    def _add(self, is_head: bool = False) -> Any:
        """A node more. Ray gives one 30 s to start, which is little on a busy machine."""
        for attempt in range(ATTEMPTS):
            # What tells of actors and tasks. One that didn't start in time may have its port.
            head = {"dashboard_port": _free_port()} if is_head else {}
            try:
                return self._cluster.add_node(**NODE, **head)
            except Exception:
                if attempt == ATTEMPTS - 1:
                    raise
        return None

    def left(self) -> list[str]:
        """Actors that live, and workers that run something."""
        import ray
        from ray.util import state

        ray.init(address=self.address, namespace="looks", log_to_driver=False)
        try:
            actors = state.list_actors(self.address, [("state", "=", "ALIVE")])
            tasks = state.list_tasks(self.address, [("state", "=", "RUNNING")])
            return [f"actor {a.class_name} {a.name}".strip() for a in actors] + [
                f"task {task.name}" for task in tasks
            ]
        finally:
            ray.shutdown()

    def moved(self) -> int:
        """Bytes of all objects that were made in the nodes' stores, copies from others included."""
        from ray._private.internal_api import node_stats
        from ray._raylet import GcsClient

        nodes = GcsClient(address=self.address).get_all_node_info().values()
        return sum(
            node_stats(n.node_manager_address, n.node_manager_port, False)
            .store_stats.cumulative_created_bytes
            for n in nodes
            if n.state == 0  # it lives
        )  # fmt: skip

    def kill_node(self) -> None:
        """End one that isn't the head, as if its machine had lost its power; another comes."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)
        self._others.append(self._add())

    def close(self) -> None:
        self._cluster.shutdown()


if __name__ == "__main__":
    serve(RayCluster)
