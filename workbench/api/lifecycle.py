"""The session of this process: started, joined, left. What is done in it: see `api`."""

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

    Without more it is of this machine. ``init("ray://host:10001")``, ``init("tcp://host:8786")``,
    ``init(client)`` or ``init(ray)`` has a cluster of Ray's or Dask's run it: the same calls, cells
    and names there.

    Called for you by the first `put`, ``.remote()`` or the like, with the defaults. With options,
    it takes the place of a session of this process in which there is nothing yet; naming the one
    that this process is in changes nothing. A session that
    was there already keeps its workers, memory, spill directory and huge pages: UserWarning says
    so if others were asked for.

    Parameters
    ----------
    where : str, distributed.Client or module, optional
        What runs it: ``"ray"``, ``"dask"`` or ``"local"``; an address of theirs; a client of a Dask
        cluster, or the module ``ray`` after ``ray.init()``.
    engine : str, optional
        The same by name: ``"local"``, ``"ray"`` or ``"dask"``.
    address : str, optional
        Of a cluster, as Ray or Dask write it: ``"auto"``, ``"local"``, ``"host:6379"``,
        ``"ray://host:10001"``; ``"tcp://host:8786"``. Default: what this process is connected to,
        else what Ray's or Dask's own settings say, else one is started here. Or that of a session
        of this machine, as ``init()["address"]`` says it: it is joined, or it is over.
    session : str, optional
        Processes that give the same name share one store. Default: this notebook's own, which
        is found again after a kernel restart; outside a notebook one that nobody else joins.
    workers : int, optional
        Worker processes. Default: the processors the container or machine allows. 0: there are
        actors, and tasks that need no processor.
    memory : int or str, optional
        Bytes the store may hold, or text like ``"2GB"``. Default: 30 % of the memory allowed.
    linger : float or str, optional
        Seconds (or ``"10m"``, ``"8h"``) the session outlives its last driver, if that ends
        without `shutdown`; of several drivers' the most. Default: two minutes in a notebook, 0
        elsewhere.
    spill_dir : str or path, optional
        A directory on disk for objects that have no room in memory: the least recently used move
        there, and are read from there without a copy. ``"none"``: a full store is an error.
        Default: ``TMPDIR``, ``/var/tmp`` or ``/tmp``, whichever is on a disk.
    huge_pages : bool, optional
        Ask the kernel for huge pages; the status line says whether it has any for us.
    log_to_driver : bool, optional
        Print here what tasks and actors print, stdout to stdout and stderr to stderr, in whole
        lines; from the second worker on, a line begins with ``(worker 2)``. What a task printed
        is there before its result is. In a notebook it appears under the cell that submitted the
        task, and what background cells show appears in any case. Default: True.
    ignore_reinit_error : bool
        Return the running session instead of raising when there is one.
    num_cpus, object_store_memory : int, optional
        Ray's names of ``workers`` and ``memory``.
    runtime_env : dict, optional
        ``{"env_vars": {"NAME": "value"}}``: variables with which workers start, beside those of
        this process.
    namespace : str, optional
        In which this process, and what it submits, gives and looks up names of actors.
    **others
        Ray's that Workbench lacks. They are accepted if they ask for what is so here anyway, and
        else refused with what to do instead.

    Returns
    -------
    Engine
        The session; shown in a notebook, it says what it has. ``with init(...):`` leaves it at the
        block's end.

    Raises
    ------
    ConfigError
        If a setting can't be used.
    TypeError, ValueError
        If there is no such option, or it can't be had.
    SessionError
        If this process has a session already, and would lose something there; the message says
        what.
    """
    if where is None and engine in (None, "local") and isinstance(address, str):
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
        if there is not None and there.ended is None:
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
    """What people call a session, and what it alone is called."""
    return engine.session.partition(INCARNATION)[0], engine.session


def _leave_if_empty(engine: Engine, given: dict[str, Any], chosen: Choice) -> None:
    """Make way for a session with other options; SessionError if that would lose anything."""
    require(chosen, config_module.load(given))  # if those are bad, nothing is left
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
    """Say which of the options a session that was there already can't take."""
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
    """Say which of the options are the cluster's own affair."""
    options = "workers", "memory", "spill_dir", "runtime_env"
    names = [n for n in options if given[n] is not None]
    if names:
        from workbench.report import sessions

        warnings.warn(sessions.cluster_text(names), stacklevel=3)


def shutdown() -> None:
    """Leave the session. If nobody else uses it, it ends: no process, no memory stays."""
    _leave(goodbye=True)
    atexit.unregister(_leave)
    error_notes.uninstall()


def _leave_block(engine: Engine) -> None:
    """At the end of ``with init():``, unless it was left by then, and there is another session."""
    if context.get() is engine:
        shutdown()


def _leave(goodbye: bool = False) -> None:
    """At the process's end without goodbye: a restarted kernel finds its session again."""
    engine = context.get()
    context.set(None)
    if engine is not None:
        engine.close(goodbye)


def is_initialized() -> bool:
    """True if this process is in a session.

    Returns
    -------
    bool
        False too if the session has ended without us.
    """
    engine = context.get()
    return engine is not None and engine.ended is None


def engine() -> Engine:
    """The current engine; starts a session with the defaults if there is none.

    Not in a forked child, where it raises SessionError: each worker of a process pool would have a
    session of its own.
    """
    found = context.get()
    if found is None and context.is_fork():
        raise SessionError(
            "This process was forked from one with a session, which stays the parent's. `init()` "
            "begins one of its own, and `init(session=...)` joins that of the parent, whose name "
            "it has to know; or have the parent get the objects, and pass them on."
        )
    return init(ignore_reinit_error=True) if found is None else found
