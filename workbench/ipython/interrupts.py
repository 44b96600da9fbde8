"""Handles the kernel's interrupt: stops what the interrupted cell began on the pool."""

from __future__ import annotations

from workbench.engine.base import Engine
from workbench.errors import SessionError
from workbench.ipython.notebook import Notebook

NOTICE = 1.0  # seconds after which a note says that something doesn't stop
GRACE = 4.0  # seconds from then on, until its worker is killed


def stop_what_it_began(notebook: Notebook, engine: Engine) -> None:
    """Stop the running cell's tasks, and the job it waits for, after a KeyboardInterrupt.

    Background cells go on, also those that this one started. Returns when all has stopped, so
    that nothing goes on unnoticed. Another interrupt kills the workers.
    """
    origin = notebook.router.latest
    jobs = [job.id for job in notebook.awaited if job.id]
    notebook.awaited.clear()
    try:
        try:
            if engine.interrupt(origin, jobs, False, NOTICE):
                return
            said = "Waiting for the worker to stop; interrupt again to kill it."
            notebook.router.note(origin, said, "stderr")
            if engine.interrupt(origin, jobs, False, GRACE):
                return
        except KeyboardInterrupt:
            pass
        if engine.interrupt(origin, jobs, True, GRACE):
            said = "It didn't react, so its worker was killed."
        else:  # an actor's worker isn't killed: the actor would lose its state
            said = "It goes on, in an actor's process: `workbench.kill` of that actor ends it."
        notebook.router.note(origin, said, "stderr")
    except SessionError:
        pass  # all of it ends with the session
