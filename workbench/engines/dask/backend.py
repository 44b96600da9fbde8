"""Connecting to a Dask cluster: a client of Dask's, our plugins there, and an engine over both."""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

from workbench.config import Config
from workbench.engines.choice import PATIENCE
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.dask.observed import Dask
from workbench.engines.dask.session import DaskBackend
from workbench.engines.probe import EXPRESSION, NodeVersions, check, check_python, here
from workbench.errors import SessionError
from workbench.options import Variables


def connect(
    target: Any, config: Config, variables: Variables = (), namespace: str = ""
) -> ClusterEngine:
    """Join a session on the cluster of a client (``target``), or at an address, or start it.

    SessionError if nobody answers there, or the workers can't have us.
    """
    is_ours = target is None and config.address in ("", "local")
    client = target if target is not None else _client(config)
    try:
        backend = _joined(client, config.session, target is None, variables if is_ours else ())
        engine = ClusterEngine(
            backend, logs=config.log_to_driver, namespace=namespace, linger=config.linger
        )
        engine.join()
    except BaseException:
        if target is None:
            client.close()
        raise
    return engine


def _client(config: Config) -> Any:
    """One of the cluster at the address; without one of a cluster of our own, in this process: its
    worker would import a script that has no `if __name__ == "__main__"`, and start another."""
    from distributed import Client

    if config.address in ("", "local"):
        return Client(
            processes=False,
            protocol="tcp://",
            n_workers=1,
            threads_per_worker=config.workers,
            memory_limit=0,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": ":0"},
            set_as_default=False,
        )
    try:
        return Client(config.address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        said = f"No Dask scheduler answers at {config.address!r} ({type(error).__name__}: {error})."
        raise SessionError(
            f"{said} Start one with `dask scheduler`, or correct the address."
        ) from None


def _joined(client: Any, session: str, is_ours: bool, variables: Variables) -> DaskBackend:
    """The session of that name on a client's cluster; started if there is none."""
    from workbench.engines.dask.scheduler import WorkbenchScheduler, called
    from workbench.engines.dask.worker import WorkbenchWorker

    Dask(client)  # says if it is none for us
    if not client.nthreads():
        print("The Dask cluster has no worker yet: waiting for one.", file=sys.stderr, flush=True)
        client.submit(bool, pure=False).result()  # one that grows as needed has a worker then
    check_versions(client)
    client.register_plugin(WorkbenchScheduler())
    client.register_plugin(WorkbenchWorker(variables))
    name = session or f"{os.getpid()}-{secrets.token_hex(3)}"
    unique, was_there = client.run_on_scheduler(called, "open", (name, client.id))
    address = client.scheduler.address
    return DaskBackend(lambda: client, unique, was_there, address, close_client=is_ours)


def check_versions(client: Any) -> None:
    """SessionError if the scheduler or the workers can't have us."""
    ours, code = here(), EXPRESSION
    # By what Dask itself knows: another Python might end over a function of ours.
    told = client.get_versions()
    asked = {f"the workers at {address}": each for address, each in told["workers"].items()}
    for who, each in {"the scheduler's processes": told["scheduler"], **asked}.items():
        theirs = ".".join(each["host"]["python"].split(".")[:3])  # it goes on: .final.0
        check_python(ours.python, theirs, who)

    def look() -> Any:  # it travels by value: there may be no Workbench
        return eval(code)

    found = *client.run(look).values(), client.run_on_scheduler(look)
    check(ours, [NodeVersions(**each) for each in found])
