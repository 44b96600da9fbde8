"""A process of Ray's that runs our tasks: set up by the first one, for a session."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
from functools import cache, partial
from typing import Any

import ray

from workbench import context, error_notes
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.cluster.hosting import ChannelLink, Hosting
from workbench.engines.ray.system import NAMESPACE, RayBackend, name_of
from workbench.host.fd_capture import FdCapture
from workbench.host.setup import set_up
from workbench.interop.registration import register_when_imported


@cache
def hosting(session: str, calls: Any) -> Hosting:
    """What runs that session's tasks in this process. ``calls`` is the module of that name."""
    captures = FdCapture(), FdCapture()
    for number, capture in enumerate(captures, 1):
        capture.divert(number)
    supervisor = ray.get_actor(name_of(session), namespace=NAMESPACE)
    backend = RayBackend(session, supervisor, calls, True, True)
    engine = ClusterEngine(backend)
    node = ray.get_runtime_context().get_node_id()
    worker = backend.ask("enroll", engine.prefix, os.getpid(), platform.node(), node)
    link = ChannelLink(worker, partial(backend.tell, "push"), backend.settle)
    output = set_up(link, captures)
    # Who only waits for tasks doesn't listen: it would keep Ray from ending a process too many.
    made = Hosting(
        engine.packer,
        engine.entries.learn,
        link,
        output.finish,
        worker,
        lambda task: backend.busy.set(),
        lambda task: None if made.actor else backend.busy.clear(),
    )
    engine.host(made)
    backend.runs = made.work.active
    backend.busy.clear()
    backend.listen(engine.prefix, engine.heard)
    context.set(engine)
    error_notes.install()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, made.interrupts.handle_own)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # Ray blocks it
    import workbench.host.shell  # noqa: F401 - what cells need: a Stop amid an import is lost

    register_when_imported()
    sys.argv = ["workbench-worker"]
    return made
