"""The worker's loop: takes tasks from the queue and runs them; the worker's `Role` for its client.

The main thread serves. Messages are handled in whichever thread reads the socket.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.client.base import ClientBase
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.base import CellListener, Running
from workbench.engine.lending_future import Lending
from workbench.engine.records import CREATION
from workbench.engine.tally import CallTally
from workbench.host.interrupts import Interrupts
from workbench.host.process_state import ProcessState
from workbench.host.reloading import Reloader
from workbench.host.task_context import TaskContext
from workbench.worker.generators import GeneratorSender
from workbench.worker.incoming_calls import IncomingCalls
from workbench.worker.lending import SlotLending
from workbench.worker.remains import Remains
from workbench.worker.run_queue import RunQueue
from workbench.worker.task_runner import HOLD_BACK, TaskRunner, cancelled

PAUSE = 0.001
"""Seconds without a task after which the process state is restored. Longer than
`spin_poll.SHORT_WAIT`, or an idle worker would spin twice."""


HAND_OVER = 0.05
"""Most seconds from a task's Done until the task has ended here, too."""


@dataclass(eq=False)
class TaskExecutor:
    """Executes a worker's tasks; a `Role`.

    ``_remains`` notes which task began. ``_ends`` is called with each task before its Done is sent,
    and sends the task's output. With ``_reload`` edited modules are searched before each task, not
    only after a Refresh.
    """

    _base: ClientBase
    _work: TaskContext[do.Run]
    _remains: Remains
    _ends: Callable[[int], None]
    _reload: bool

    def __post_init__(self) -> None:
        base, work, remains = self._base, self._work, self._remains
        self._connection = base.connection
        self._queue = RunQueue()
        self._lending = SlotLending(self._connection, work, self._take_back, self._is_missing)
        self._interrupts = Interrupts()
        self._generators = GeneratorSender(base, self, self._interrupts)
        reloader = Reloader(self._reload)
        self._runner = TaskRunner(
            base,
            work,
            self._generators,
            self._interrupts,
            reloader,
            self._queue,
            remains.begins,
            self._on_task_over,
        )
        self._tallies: dict[int, CallTally] = {}  # by task
        self.listener = CellListener(origin=self._origin, roots=self._roots, tally=self._tally)
        self.on_signal = self._interrupts.handle
        base.handlers |= {
            do.Run: self._sent,
            do.Stop: self._stop,
            do.Recall: self._recall,
            do.Forget: self._forget,
            ev.Took: self._generators.took,
            ev.Refresh: lambda _: reloader.refresh(),
        }
        self._lines = IncomingCalls(
            base,
            self._called,
            self._takes_lines,
            lambda: self._runner.actor is not None,
            self._flushes_lines,
            self._stop,
            remains.lines,
        )
        self._runner.lines, self.output = self._lines, self._lines.output
        base.at_end.append(self._ended)

    def serve(self) -> None:
        """Run tasks until the actor leaves. Raises SessionError when the session ends."""
        connection, queue, runner = self._connection, self._queue, self._runner
        has_come = queue.__len__
        state = ProcessState()
        flushed = time.perf_counter()
        while True:
            if not queue:
                self._lines.flush()
                if not connection.wait_for(has_come, PAUSE):
                    state.clean()
                    connection.wait_for(has_come)
                flushed = time.perf_counter()
            elif time.perf_counter() - flushed > HOLD_BACK:
                self._lines.flush()
                connection.flush()
                flushed = time.perf_counter()
            run = queue.next()
            if run is None:  # recalled meanwhile
                continue
            if run.method:  # an actor's process isn't shared
                if run.method == CREATION:
                    state.close()
                runner.run(run)
            else:
                plain = run.spec is None  # no cell
                state.run(runner.run, run, (run.function, run.origin) if plain else None)
            del run
            if runner.actor is not None and not runner.actor.is_plain and not runner.leaves:
                runner.actor.serve()
            if runner.leaves:
                return

    def _ended(self, reason: str) -> None:
        """Handle the end of the session. Runs in the reading thread."""
        actor = self._runner.actor
        if actor is not None and actor.is_loop:
            actor.stop()  # its calls are cancelled
            return
        until = time.monotonic() + HAND_OVER
        in_task = threading.current_thread() is threading.main_thread()  # it reads while it waits
        if actor is not None and not actor.is_plain:
            in_task = False  # its calls run in threads
        while self._work.latest is not None:
            if in_task or time.monotonic() > until:
                # It may be in the middle of anything, but nobody wants its result any more.
                os._exit(0)
            time.sleep(HAND_OVER / 50)

    def leave(self) -> None:
        """Let go of the actor, so that it is finalized in order."""
        self._runner.actor = None

    # -- the client's side ------------------------------------------------------------------------

    @property
    def task(self) -> do.Run | None:
        return self._work.current

    @property
    def namespace(self) -> str:
        host, run = self._runner.actor, self._work.current
        if host is not None:
            return host.namespace
        return "" if run is None or run.spec is None else run.spec.namespace

    def here(self) -> Running:
        host, run = self._runner.actor, self._work.current
        here = Running(self._base.worker, namespace=self.namespace)
        if host is not None:
            here = here._replace(actor=host.id, restarted=host.is_restarted)
        if run is not None:
            cpus = 0.0 if host is not None else (run.spec or ev.USUAL).cpus / ev.USUAL.cpus
            cancelled = self._interrupts.is_stopping(run.task)
            here = here._replace(task=run.task, name=run.name, cpus=cpus, cancelled=cancelled)
        return here

    def _origin(self) -> int:
        """Return the running task's cell: what a nested task prints goes there, too."""
        run = self._work.current
        return 0 if run is None else run.origin

    def _roots(self) -> dict[str, Any]:
        actor = self._runner.actor
        return {} if actor is None else actor.variables

    def _is_missing(self, id: int) -> bool:
        return id not in self._base.objects.values and self._base.references.alive(id)

    @property
    def lending(self) -> Lending | None:
        """None for an actor: it has no slot to lend, and its calls can run nowhere else."""
        return self._lending if self._runner.actor is None else None

    def _tally(self) -> CallTally | None:
        """Return the tally of a background cell's own calls, without nested ones."""
        run = self._work.current
        if run is None or run.spec is None or not run.spec.job or not self._work.runs(run.task):
            return None
        if run.task not in self._tallies:
            self._tallies[run.task] = CallTally(partial(self._tell, run.task))
        return self._tallies[run.task]

    def _tell(self, task: int, done: int, known: int) -> None:
        if self._work.runs(task):
            self._connection.send(ev.Output(task, ev.PROGRESS, b"%d %d" % (done, known)))

    def _on_task_over(self, task: int) -> None:
        self._lending.task_over()
        if self._tallies and (tally := self._tallies.pop(task, None)) is not None:
            tally.close()
        self._ends(task)

    # -- the reading thread -----------------------------------------------------------------------

    def _takes_lines(self) -> bool:
        actor = self._runner.actor
        return actor is None or actor.is_plain or actor.is_loop

    def _flushes_lines(self) -> bool:
        """True if more results follow soon: all are sent together then."""
        actor = self._runner.actor
        if actor is not None and actor.is_loop:
            return actor.at_end_of_round(self._lines.flush)
        return bool(self._queue)

    def _sent(self, run: do.Run) -> None:
        self._lines.read()
        self._add(run)

    def _add(self, run: do.Run) -> None:
        """Queue a task; give it back if the running one has lent our slot."""
        self._runner.add(run)
        actor = self._runner.actor
        if self._lending.is_lent and actor is None:
            self._connection.send(ev.GaveBack((run.task,)))
            return
        self._generators.add(run)
        self._queue.append(run)
        if actor is not None and not actor.is_plain:
            actor.notify(run)

    def _called(self, runs: list[do.Run]) -> None:
        """Queue calls that came by a line: of known functions, with default options."""
        self._queue.extend(runs)
        actor = self._runner.actor
        if actor is not None and not actor.is_plain:
            actor.notify(runs[0])

    def _recall(self, message: do.Recall) -> None:
        self._connection.send(ev.GaveBack(self._take_back(message.count), asked=True))

    def _take_back(self, count: int = sys.maxsize) -> tuple[int, ...]:
        tasks: list[int] = []
        while len(tasks) < count:
            try:
                run = self._queue.pop()
            except IndexError:
                break
            if run.line:  # the server can't send it elsewhere
                self._queue.append(run)
                break
            tasks.append(run.task)
            self._generators.remove(tasks[-1])
        return tuple(reversed(tasks))

    def _forget(self, message: do.Forget) -> None:
        self._base.forget(message)
        if message.unused:
            for id in message.objects:
                self._runner.forget(id)

    def _stop(self, message: do.Stop) -> None:
        self._lines.read()
        for run in list(self._queue):
            if run.task == message.task:
                with contextlib.suppress(ValueError):  # it has just begun
                    self._queue.remove(run)
                    self._generators.remove(run.task)
                    self._runner.send(run, ev.Done(run.task, cancelled(run), 0.0))
                    return
        self._interrupts.stop(message.task)
        if self._runner.actor is not None:
            self._runner.actor.cancel(message.task)
