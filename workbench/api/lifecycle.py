"""Starting, joining and leaving this process's session. Its use: see `api`."""

from __future__ import annotations

import atexit
import inspect
import os
import threading
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from workbench import config as config_module
from workbench import context, error_notes
from workbench.core.snapshot import INCARNATION
from workbench.engine.base import Engine
from workbench.engine.queries import Capacity
from workbench.engines.choice import Choice, connect, engine_at, read, require
from workbench.errors import SessionError
from workbench.format import human_bytes
from workbench.options import ActorOptions, changed, environment_of
from workbench.ray_api import OF_INIT, asks_nothing
from workbench.report.mistyped import did_you_mean

_starting = threading.Lock()


def init(
    where: Any = None,
    *,
    engine: str | None = None,
    address: str | None = None,
    session: str | None = None,
    workers: int | None = None,
    memory: int | str | None = None,
    linger: float | str | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    huge_pages: bool | None = None,
    log_to_driver: bool | None = None,
    ignore_reinit_error: bool = False,
    num_cpus: int | None = None,
    object_store_memory: int | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    **others: Any,
) -> Engine:
    """Start a session, or join the one of that name. The pool warms up in the background.

    By default it runs on this machine. ``init("ray://host:10001")``, ``init("tcp://host:8786")``,
    ``init(client)`` or ``init(ray)`` runs it on a Ray or Dask cluster, with the same calls, cells
    and names.

    The first `put`, ``.remote()`` or the like calls it with the defaults. With options, it replaces
    this process's session if that is still empty; naming the current session changes nothing. An
    existing session keeps its workers, memory, spill directory and huge pages: a UserWarning says
    so if others were asked for.

    Parameters
    ----------
    where : str, distributed.Client or module, optional
        What runs it: ``"ray"``, ``"dask"`` or ``"local"``; a cluster's address; a client of a Dask
        cluster, or the module ``ray`` after ``ray.init()``.
    engine : str, optional
        The same, by name only: ``"local"``, ``"ray"`` or ``"dask"``.
    address : str, optional
        Address of a cluster, as Ray or Dask write it: ``"auto"``, ``"local"``, ``"host:6379"``,
        ``"ray://host:10001"``; ``"tcp://host:8786"``. Default: the cluster that this process is
        connected to, else that of Ray's or Dask's settings, else a new one here. Or the address of
        a session of this machine from ``init()["address"]``: joins it if it still runs.
    session : str, optional
        Processes that give the same name share one store. Default: this notebook's own, which
        is found again after a kernel restart; outside a notebook a private one.
    workers : int, optional
        Worker processes. Default: the processors the container or machine allows. 0: only actors,
        and tasks with ``num_cpus=0``.
    memory : int or str, optional
        Bytes the store may hold, or text like ``"2GB"``. Default: 30 % of the memory allowed.
    linger : float or str, optional
        Seconds (or ``"10m"``, ``"8h"``) to keep the session after its last driver, if that ends
        without `shutdown`; the longest that any driver asked for. Default: two minutes in a
        notebook, 0 elsewhere.
    spill_dir : str or path, optional
        A directory on disk for objects that don't fit into memory: the least recently used ones
        move there, and are read from there without a copy. ``"none"``: a full store is an error.
        Default: the first of ``TMPDIR``, ``/var/tmp`` and ``/tmp`` that is on a disk.
    huge_pages : bool, optional
        Ask Linux for huge pages; the status line says whether it grants them.
    log_to_driver : bool, optional
        Print here what tasks and actors print, stdout to stdout and stderr to stderr, in whole
        lines; with several workers, a line begins with ``(worker 2)``. A task's prints appear
        before its result is returned. In a notebook they appear under the cell that submitted the
        task; output of background cells always appears. Default: True.
    ignore_reinit_error : bool
        Return the running session instead of raising when there is one.
    num_cpus, object_store_memory : int, optional
        Ray's names of ``workers`` and ``memory``.
    runtime_env : dict, optional
        ``{"env_vars": {"NAME": "value"}}``: variables with which workers start, beside those of
        this process.
    namespace : str, optional
        Namespace in which this process, and its tasks, make and look up names of actors.
    **others
        Ray's options that Workbench lacks. They are accepted if they ask for what always holds
        here; else an error says what to do instead.

    Returns
    -------
    Engine
        The session; a notebook shows its facts. ``with init(...):`` leaves it at the block's end.

    Raises
    ------
    ConfigError
        If a setting can't be used.
    TypeError, ValueError
        If there is no such option, or its value isn't possible.
    SessionError
        If this process would lose something in a session that it already has; the message says
        what.
    """
    if where is None and engine in (None, "local") and isinstance(address, str):
        if address == "auto" and (here := context.get()) is not None and here.end_reason is None:
            address = here.session
        if INCARNATION in address and session in (None, address):
            session, address = address, None
        elif engine_at(address) is None and engine is None:
            others["address"], address = address, None
    chosen = read(where, engine, address)
    unknown = [key for key, value in others.items() if not asks_nothing(key, value, OF_INIT)]
    if unknown:
        hint = did_you_mean(unknown[0], inspect.signature(init).parameters)
        raise TypeError(
            f"init has no option {', '.join(unknown)}.{hint} `help(init)` lists what it has."
        )
    if None not in (workers, num_cpus) or None not in (memory, object_store_memory):
        raise ValueError("num_cpus is Ray's name of workers, object_store_memory that of memory.")
    given = {
        "session": session,
        "workers": num_cpus if workers is None else workers,
        "memory": object_store_memory if memory is None else memory,
        "linger": linger,
        "spill_dir": spill_dir,
        "huge_pages": huge_pages,
        "log_to_driver": log_to_driver,
        "engine": chosen.engine,
        "address": chosen.address,
    }
    asked = {key for key, value in given.items() if value is not None}
    variables = environment_of("runtime_env", runtime_env or {})
    namespace = changed(ActorOptions(), {"namespace": namespace}, "init").namespace
    with _starting:
        there, replaced = context.get(), None
        if there is not None and there.end_reason is None:
            if ignore_reinit_error:
                return there
            if asked == {"session"} and session in _names(there):
                return there
            _leave_if_empty(there, given, chosen)
            replaced = there
        elif there is not None:  # its server has gone
            there.close()
        config = config_module.load(given)
        new = connect(chosen, config, variables, namespace)
        new.leave = partial(_leave_block, new)
        atexit.register(_leave)
        error_notes.install()
        context.set(new, replaced)
        if new.facts.joined:
            _tell_what_stays(new, config, {**given, "runtime_env": variables or None})
        elif config.engine != "local" and (
            config.address not in ("", "local") or chosen.target is not None
        ):
            # Ray takes variables where this process connects to it: workers start with them.
            takes = config.engine == "ray" and chosen.target is None
            _tell_what_a_cluster_has({**given, "runtime_env": None if takes else variables or None})
        if huge_pages and new.can.huge_pages:
            warnings.warn(new.can.huge_pages, stacklevel=2)
        elif config.engine == "local" and (warning := config_module.too_large(config)):
            warnings.warn(warning, stacklevel=2)
        return new


def _names(engine: Engine) -> tuple[str, str]:
    """Return a session's name for people, and its unique name."""
    return engine.session.partition(INCARNATION)[0], engine.session


def _leave_if_empty(engine: Engine, given: dict[str, Any], chosen: Choice) -> None:
    """Leave the session for one with other options; SessionError if that would lose anything."""
    require(chosen, config_module.load(given))  # first: with bad options the session isn't left
    lost = ""
    if any(value is not None for value in given.values()):
        from workbench.report import sessions

        lost = sessions.lost_by_leaving(engine)
        if not lost:
            return shutdown()
    losing = f", and starting another would lose {lost}" if lost else ""
    raise SessionError(
        f"This process is in session {_names(engine)[0]!r} already{losing}. `shutdown()` (or "
        "`%workbench stop`) leaves it; `ignore_reinit_error=True` keeps it."
    )


def _tell_what_stays(engine: Engine, config: config_module.Config, given: dict[str, Any]) -> None:
    """Warn of the options that a session which already exists doesn't take over."""
    differences = {}
    if given["workers"] is not None and engine.workers != config.workers:
        differences["workers"] = str(engine.workers), str(config.workers)
    if given["memory"] is not None and (now := engine.ask(Capacity())) != config.memory:
        differences["memory"] = human_bytes(now), human_bytes(config.memory)
    for option in ("spill_dir", "huge_pages", "runtime_env"):
        if given[option] is not None:
            differences[option] = "", str(given[option])
    if differences:
        from workbench.report import sessions

        text = sessions.stays_text(engine.session, differences, engine.facts.system)
        warnings.warn(text, stacklevel=3)


def _tell_what_a_cluster_has(given: dict[str, Any]) -> None:
    """Warn of the options that only the cluster can set."""
    options = "workers", "memory", "spill_dir", "runtime_env"
    names = [n for n in options if given[n] is not None]
    if names:
        from workbench.report import sessions

        warnings.warn(sessions.cluster_text(names), stacklevel=3)


def shutdown() -> None:
    """Leave the session. If nobody else uses it, it ends, with all processes and memory."""
    _leave(goodbye=True)
    atexit.unregister(_leave)
    error_notes.uninstall()


def _leave_block(engine: Engine) -> None:
    """End ``with init():``: leave the session, unless that was done and there is another one."""
    if context.get() is engine:
        shutdown()


def _leave(goodbye: bool = False) -> None:
    """Leave the session. Without goodbye, at exit: a restarted kernel finds its session again."""
    engine = context.get()
    context.set(None)
    if engine is not None:
        engine.close(goodbye)


def is_initialized() -> bool:
    """Return True if this process is in a session.

    Returns
    -------
    bool
        Also False if the session has ended by itself.
    """
    engine = context.get()
    return engine is not None and engine.end_reason is None


def engine() -> Engine:
    """Return the current engine; start a session with the defaults if there is none.

    In a forked child it raises SessionError instead: else each worker of a process pool would start
    its own session.
    """
    found = context.get()
    if found is None and context.is_fork():
        raise SessionError(
            "This process was forked from one with a session, which stays the parent's. `init()` "
            "begins one of its own, and `init(session=...)` joins that of the parent, whose name "
            "it has to know; or have the parent get the objects, and pass them on."
        )
    return init(ignore_reinit_error=True) if found is None else found
