"""Joining a session on a Ray cluster, or starting it there."""

from __future__ import annotations

import contextlib
import os
import secrets
from types import ModuleType
from typing import Any

import ray

from workbench.config import Config
from workbench.core.snapshot import INCARNATION
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.ray import calls
from workbench.engines.ray.supervisor import Supervisor
from workbench.engines.ray.system import NAMESPACE, RayBackend, name_of
from workbench.errors import SessionError
from workbench.options import Variables


def connect(
    target: ModuleType | None, config: Config, variables: Variables = (), namespace: str = ""
) -> ClusterEngine:
    """Join the session that ``config`` names, on the cluster at its address, or start it there.

    ``target`` is the module ray, if this process is connected already; it stays so then.

    Raises
    ------
    SessionError
        If nobody answers there, or the workers can't have us.
    """
    came = not ray.is_initialized()
    if came:
        _join(config, variables)
    name, unique, _ = config.session.partition(INCARNATION)
    name = name or f"{os.getpid()}-{secrets.token_hex(3)}"
    session = f"{name}{INCARNATION}{secrets.token_hex(4)}"
    supervisor, joined = _supervisor(name, session)
    if joined:
        session = ray.get(supervisor.session.remote())
        if unique and session != config.session:
            raise SessionError(f"Session {config.session!r} is over.")
    backend = RayBackend(session, supervisor, calls, joined, False)
    backend.leaves_ray = came
    engine = ClusterEngine(backend, logs=config.log_to_driver, namespace=namespace)
    engine.join()
    return engine


def _join(config: Config, variables: Variables) -> None:
    options: dict[str, Any] = {
        "namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR",
        "configure_logging": False,
    }  # fmt: skip
    if variables:
        options["runtime_env"] = {"env_vars": dict(variables)}
    address = config.address or None
    if address == "local":
        options |= {
            "num_cpus": config.workers, "object_store_memory": max(config.memory, 100 << 20),
            "include_dashboard": False,
        }  # fmt: skip
    try:
        ray.init(address=address, **options)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        raise SessionError(f"No Ray cluster answers at {address}: {error}") from error


def _supervisor(name: str, session: str) -> tuple[Any, bool]:
    with contextlib.suppress(ValueError):
        return ray.get_actor(name_of(name), namespace=NAMESPACE), True
    cls: Any = ray.remote(Supervisor)
    made = cls.options(
        name=name_of(name), namespace=NAMESPACE, lifetime="detached", num_cpus=0,
        get_if_exists=True, max_concurrency=1000,
    ).remote(session)  # fmt: skip
    return made, ray.get(made.session.remote()) != session
