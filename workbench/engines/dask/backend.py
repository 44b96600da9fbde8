"""Connecting to a Dask cluster: a client of Dask's, our plugins there, and an engine over both."""

from __future__ import annotations

import os
import secrets
import warnings
from typing import Any

from workbench.config import Config
from workbench.engines.choice import PATIENCE
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.dask.abilities import CAN as CAN
from workbench.engines.dask.session import DaskBackend
from workbench.engines.dask.shipping import prepare
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
    if variables and not is_ours:
        warnings.warn(
            "The `runtime_env` of a session doesn't reach a Dask cluster that runs already. Give "
            "it to what needs it: `.options(runtime_env=...)`.",
            stacklevel=5,
        )
    try:
        given = variables if is_ours else ()
        backend = joined(client, config.session, close_client=target is None, variables=given)
        engine = ClusterEngine(
            backend, logs=config.log_to_driver, namespace=namespace, linger=config.linger
        )  # fmt: skip
        engine.join()
    except BaseException:
        if target is None:
            client.close()
        raise
    return engine


def _client(config: Config) -> Any:
    """One of the cluster at the address; without one of a cluster of our own, in this process.

    Tasks run in children of a worker in any case. A worker that is a process of its own would
    import a script that has no `if __name__ == "__main__"` again, and with it start another.
    """
    from distributed import Client

    address = config.address
    if not address or address == "local":
        return Client(
            processes=False, protocol="tcp://", n_workers=1, threads_per_worker=config.workers,
            memory_limit=0, dashboard_address=None, scheduler_kwargs={"dashboard_address": ":0"},
            set_as_default=False,
        )  # fmt: skip
    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise SessionError(
            f"No Dask scheduler answers at {address!r} ({type(error).__name__}: {error}). Start "
            "one with `dask scheduler`, or correct the address."
        ) from None


def joined(client: Any, session: str, close_client: bool, variables: Variables = ()) -> DaskBackend:
    """The session of that name on a client's cluster; started if there is none.

    ``variables`` are those of all that runs on a cluster that is ours alone.
    """
    from workbench.engines.dask.scheduler import WorkbenchScheduler
    from workbench.engines.dask.worker_plugin import WorkbenchWorker

    if client.asynchronous:
        raise SessionError(
            "This client belongs to an event loop, which can't be waited for here: give one that "
            "was made without asynchronous=True."
        )
    prepare(client)
    client.register_plugin(WorkbenchScheduler())
    client.register_plugin(WorkbenchWorker(variables))
    name = session or f"{os.getpid()}-{secrets.token_hex(3)}"

    async def open_session() -> Any:
        return await client.scheduler.workbench_open(
            session=name, number=0, client=client.id, audience=0, only=False
        )

    unique, was_there, _ = client.sync(open_session)
    return DaskBackend(client, unique, was_there, close_client=close_client)
