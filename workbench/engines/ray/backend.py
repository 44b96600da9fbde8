"""Joining a session on a Ray cluster, or starting it there."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import socket
import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workbench.config import Config
from workbench.core.snapshot import INCARNATION
from workbench.engines.choice import PATIENCE
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.probe import EXPRESSION, NodeVersions, check, here
from workbench.engines.ray import calls
from workbench.engines.ray.supervisor import Supervisor
from workbench.engines.ray.system import AGAIN, NAMESPACE, RayBackend, name_of
from workbench.errors import SessionError
from workbench.options import Variables

LEAST_STORE = 100 << 20
"""Bytes of a store below which Ray doesn't start one."""

ENDS_WITH_KERNEL = (
    "Names and background cells end with this kernel. It has started this Ray itself, which ends "
    "with it. Start Ray apart (`ray start --head`) and take `--address auto`, or take a session of "
    "this machine."
)
"""Why a session on a Ray of our own isn't kept (``keep``)."""

HEAD = "node:__internal_head__"
"""A resource that Ray's head node has, and no other."""

FRAME, SETTINGS = 9, b"\x04"
"""Bytes of the head of one of HTTP/2's frames; the type that has settings, its fourth byte."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + SETTINGS + bytes(5)
"""How a client of HTTP/2 begins: with settings, all of them the usual."""

ANSWER = 60.0
"""Seconds that workers have to say what they have: Ray may have to start them."""


def connect(
    target: ModuleType | None, config: Config, variables: Variables = (), namespace: str = ""
) -> ClusterEngine:
    """Join the session that ``config`` names, on the cluster at its address, or start it there.

    ``target`` is the module ray, if this process is connected already; it stays so then.
    SessionError if nobody answers there, or the workers can't have us.
    """
    came = not ray.is_initialized()
    is_own = came and _join(config, variables)
    if came:
        _hush()
    try:
        engine = _joined(config, came, is_own, namespace)
    except BaseException:
        if came:
            ray.shutdown()
        raise
    return engine


def _joined(config: Config, came: bool, is_own: bool, namespace: str) -> ClusterEngine:
    calls.apart = {} if came else {"runtime_env": calls.OWN}
    name, unique, _ = config.session.partition(INCARNATION)
    name = name or f"{os.getpid()}-{secrets.token_hex(3)}"
    session = f"{name}{INCARNATION}{secrets.token_hex(4)}"
    while True:
        supervisor = _supervisor(name, session, is_own)
        there = ray.get(supervisor.session.remote())
        if unique and there != config.session:
            raise SessionError(f"Session {config.session!r} is over.")
        backend = RayBackend(there, supervisor, calls, there != session, False)
        if is_own:
            backend.can = replace(backend.can, keep=ENDS_WITH_KERNEL)
        engine = ClusterEngine(
            backend, logs=config.log_to_driver, namespace=namespace, linger=config.linger
        )
        try:
            engine.join()
        except SessionError:
            engine.close(False)
            if not backend.joined or unique:
                raise
            time.sleep(AGAIN)  # it ends at this moment: soon there is none of that name
        else:
            backend.leaves_ray = came
            return engine


def _join(config: Config, variables: Variables) -> bool:
    """Connect to the cluster at the address; without one to that of this machine, or to a new one
    of our own, which ends with this process: as ``local`` says. Whether it is our own."""
    options: dict[str, Any] = {
        "namespace": NAMESPACE,
        "log_to_driver": False,
        "logging_level": "ERROR",
        "configure_logging": False,
    }
    if variables:
        options["runtime_env"] = {"env_vars": dict(variables)}
    if config.address not in ("", "local"):
        _join_at(config.address, options)
        return False
    if not config.address:
        with contextlib.suppress(ConnectionError):  # this machine is part of no cluster
            ray.init(address="auto", **options)
            return False
    try:
        ray.init(
            address="local",
            num_cpus=config.workers,
            include_dashboard=False,
            object_store_memory=max(config.memory, LEAST_STORE),
            **options,
        )
    except Exception as error:  # it says no more: nodes that need longer than Ray waits
        raise SessionError(f"Ray didn't start here; trying again may help: {error}") from error
    return True


def _join_at(address: str, options: dict[str, Any]) -> None:
    try:
        _reach(address)
        ray.init(address=address, **options)
    except OSError as error:  # ConnectionError is one
        raise SessionError(f"No Ray cluster answers at {address}: {_reason(error)}") from error
    except (RuntimeError, ValueError) as error:
        raise SessionError(f"Ray at {address} refused the connection: {error}") from error


def _reason(error: BaseException) -> str:
    """What Ray says first: what it was caused by has the reason."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next((line for line in str(error).splitlines() if line), type(error).__name__)


def _hush() -> None:
    """Have Ray not print what happens in the cluster: into whatever cell runs, and for anybody's
    tasks (it has no option for that); nor that a task failed whose result nobody read. Our errors
    say that where it matters."""
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    module: Any = importlib.import_module("ray._private.worker")
    if hasattr(module, "print_to_stdstream"):
        module.print_to_stdstream = lambda data, *more, **options: None


def _reach(address: str) -> None:
    """OSError if who listens at an address of a host and a port isn't Ray: Ray itself would try for
    minutes. Its servers speak HTTP/2, where both sides begin with a frame of settings."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    is_encrypted = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    if not (host and port.isdigit()) or is_encrypted:
        return
    with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as sock:
        sock.sendall(GREETING)
        answer = b""
        with contextlib.suppress(OSError):
            answer = sock.recv(FRAME, socket.MSG_WAITALL)
    if answer[3:4] != SETTINGS:
        raise OSError(
            "who listens there isn't Ray. A head's port is 6379, for `ray://` it is 10001; 8265 is "
            "the dashboard's."
        )


def _check_workers() -> None:
    try:
        answers = [NodeVersions(**answer) for answer in _asked()]
    except ray.exceptions.RayError as error:
        raise SessionError(f"Ray's workers don't say what they have: {error}") from error
    check(here(), answers)


def _asked() -> list[Any]:
    look: Any = ray.remote(eval("lambda text: eval(text)", {}))  # by value: it knows no Workbench
    asked = [
        look.options(
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(EXPRESSION)
        for node in ray.nodes()
        if node["Alive"]
    ]
    return list(ray.get(asked, timeout=ANSWER))


def _supervisor(name: str, session: str, is_own: bool) -> Any:
    with contextlib.suppress(ValueError):
        return ray.get_actor(name_of(name), namespace=NAMESPACE)
    if not is_own:
        _check_workers()
    cls: Any = ray.remote(Supervisor)
    return cls.options(
        name=name_of(name),
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        get_if_exists=True,
        max_concurrency=1000,
        scheduling_strategy=_at_head(),
        **calls.apart,
    ).remote(session)


def _at_head() -> NodeAffinitySchedulingStrategy | None:
    """On the head, without which there is no cluster: other nodes may go, and a session must not
    end with one. Ray itself takes any for an actor that needs no processor."""
    for node in ray.nodes():
        if node["Alive"] and HEAD in node["Resources"]:
            return NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return None
