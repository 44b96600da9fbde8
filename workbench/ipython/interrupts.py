"""The kernel's interrupt, carried on: what the interrupted cell began on the pool is stopped."""

from __future__ import annotations

from workbench.engine.base import Engine
from workbench.errors import SessionError
from workbench.ipython.notebook import Notebook

NOTICE = 1.0  # seconds after which a person hears that something doesn't stop
GRACE = 4.0  # seconds that it has from then on, until its worker is killed


def stop_what_it_began(notebook: Notebook, engine: Engine) -> None:
    """After a KeyboardInterrupt in the cell that runs: all of its tasks, and the job it waits for.

    Background cells go on, also those that this one has started. Returns when it is over, so that
    nothing of it runs on behind a person's back. Interrupted again, it kills the workers.
    """
    origin = notebook.router.latest
    jobs = [job.id for job in notebook.awaited if job.id]
    notebook.awaited.clear()
    try:
        try:
            if engine.interrupt(origin, jobs, False, NOTICE):
                return
            notebook.router.note(
                origin, "Waiting for the worker to stop; interrupt again to kill it."
            )
            if engine.interrupt(origin, jobs, False, GRACE):
                return
        except KeyboardInterrupt:
            pass
        if engine.interrupt(origin, jobs, True, GRACE):
            said = "It didn't react, so its worker was killed."
        else:  # an actor's is not: it would lose all it has
            said = "It goes on, in an actor's process: `workbench.kill` of that actor ends it."
        notebook.router.note(origin, said)
    except SessionError:
        pass  # it ends with the session
