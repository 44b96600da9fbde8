"""What a program runs, in a kernel of its own or in that of a person's notebook. asyncio only."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from workbench.errors import SessionError
from workbench.kernels.connection import START, KernelConnection, Message, SentCode
from workbench.mcp_server.outputs import RunOutput, error_of

MOST_RUNS = 1000
"""Runs that are remembered, with their output."""

LINGER = "8h"
"""How long its own kernel's session is kept after this process, if no variable says so."""

ASK = "__import__('workbench.ipython.answers', fromlist=['ask']).ask({!r}, {!r})"
ADDRESS = "__import__('workbench').context.get().address"
"""Expressions that a kernel evaluates after a cell, without history: their values are texts."""


class AgentRun(SentCode):
    """One execution. ``job``: its name in the session, if it runs in the background."""

    def __init__(self, number: int, code: str, job: str = "", expression: str = "") -> None:
        super().__init__(code, expression)
        self.number, self.job = number, job
        self.output = RunOutput()
        self.error: dict[str, Any] | None = None
        self.cell = 0  # as the kernel counts

    def on_message(self, kind: str, message: Message) -> None:
        content = message["content"]
        if kind == "execute_input":
            self.cell = content["execution_count"]
        elif kind == "stream":
            self.output.add(content["text"])
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.output.show(content, kind == "update_display_data")
        elif kind == "error":
            self.error = error_of(content)
            self.output.add("\n".join(content["traceback"]) + "\n")

    def end(self, state: str) -> None:
        if state in ("failed", "stopped"):
            self.error = self.error or error_of(self.reply)
        super().end(state)


class DrivenKernel:
    """A kernel, and what it runs for a program.

    Parameters
    ----------
    pid : int, optional
        The process of a person's kernel. Default: a kernel of its own, which is started when it is
        needed, ends with this process, and keeps its variables in its session.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._persons = pid
        self._connection: KernelConnection | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self.runs: dict[int, AgentRun] = {}
        self.others: dict[str, Any] | None = None  # a cell that somebody else runs, and since when
        self.address = ""  # of its session, once known
        self.greeting = ""  # what loading the extension has said

    # -- the process ------------------------------------------------------------------------------

    async def _start(self) -> KernelConnection:
        """Return a connection to a kernel. SessionError if there is none, or it doesn't answer."""
        async with self._starting:
            if not self.is_alive:
                await self._drop()
                try:
                    await self._open()
                except (SessionError, RuntimeError, OSError, LookupError) as error:
                    await self._drop()
                    why = str(error) or "it doesn't answer"
                    raise SessionError(f"There is no kernel: {why}") from None
        assert self._connection is not None
        return self._connection

    async def _open(self) -> None:
        """Join a person's kernel, or start one."""
        if self._persons is not None:
            self._connection = KernelConnection.join(self._persons, self._on_other)
        else:
            own = str(Path.cwd() / "agent.ipynb")  # names the session, which the next server finds
            keeps = {"WORKBENCH_KEEP": "1", "WORKBENCH_LINGER": LINGER}
            env = {**keeps, **os.environ, "JPY_SESSION_NAME": own}
            err = sys.stderr  # not the protocol's own streams
            self._connection = await KernelConnection.start(
                "python3", self._on_other, env=env, stdout=err, stderr=err
            )
            loading = AgentRun(0, "%load_ext workbench")
            self._connection.send(loading)
            await asyncio.wait_for(loading.over.wait(), START)
            self.greeting = loading.output.read(0, 1000)["text"].strip()
        # To know the session when the kernel is busy.
        asking = AgentRun(0, "", "", ADDRESS)
        self._connection.send(asking)
        self._in_background(self._note_address(asking))

    async def _note_address(self, asking: AgentRun) -> None:
        await asking.over.wait()
        self.address = asking.answer or self.address

    @property
    def is_alive(self) -> bool:
        return self._connection is not None and self._connection.is_alive

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """End a kernel of its own; leave a person's alone."""
        for run in self.runs.values():
            if run.state == "running" and self._persons is not None:
                self.stop(run)  # nobody else knows of it
        await self._drop()

    def _on_other(self, kind: str, message: Message) -> None:
        content = message["content"]
        if kind == "execute_input":
            self.others = {"cell": content["execution_count"], "since": time.time()}
        elif kind == "status" and content["execution_state"] == "idle":
            self.others = None

    # -- running ----------------------------------------------------------------------------------

    def run(self, code: str, job: str = "") -> AgentRun:
        """Begin to execute code, after what was begun before; ``job``: its name in the session."""
        number = max(self.runs, default=0) + 1
        for old in [n for n in self.runs if n <= number - MOST_RUNS]:
            if self._connection is not None:
                self._connection.forget(self.runs[old])
            del self.runs[old]
        run = self.runs[number] = AgentRun(number, code, job, ASK.format("changed", {}))
        self._in_background(self._send(run))
        return run

    def begin(self) -> None:
        """Start it, in the background."""
        self._in_background(self._send(AgentRun(0, "")))

    async def ask(self, expression: str, wait: float) -> str | None:
        """Return the value of an expression that is a text; None if the kernel is busy."""
        run = AgentRun(0, "", "", expression)
        self._in_background(self._send(run))
        await run.wait(wait)
        answer: str | None = run.answer
        return answer

    def stop(self, run: AgentRun) -> None:
        """Interrupt a run; one that hasn't begun is when it does."""
        run.stopping = True
        if self._connection is not None:
            self._connection.stop(run)

    async def _send(self, run: AgentRun) -> None:
        """Send a run once there is a kernel."""
        try:
            connection = await self._start()
        except SessionError as error:
            run.error = {"name": type(error).__name__, "text": str(error), "line": None}
            run.end("failed")
            return
        if run.stopping:
            run.end("stopped")
        else:
            connection.send(run)

    def _in_background(self, work: Any) -> None:
        """Have something done that nobody waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
