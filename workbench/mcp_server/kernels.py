"""A kernel that a program drives: its own, or that of a person's notebook. asyncio only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import sys
import time
import traceback
from ast import literal_eval
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from workbench.errors import SessionError
from workbench.mcp_server.outputs import RunOutput, error_of
from workbench.system.machine import stat_of

START = 30.0
"""Seconds that a kernel may take to start."""

STARTS = 3
"""Of a kernel that doesn't answer: its ports are found before it takes them, and others may be
quicker."""

LOOK = 0.2
"""Seconds after which a channel is looked at, though nothing says that something has come."""

LATE = 0.5
"""Seconds after a run's reply for which its output is waited for."""

MOST_RUNS = 1000
"""Runs that are remembered, with their output."""

LINGER = "8h"
"""How long its own kernel's session is kept after this process, if no variable says so."""

ASK = "__import__('workbench.ipython.answers', fromlist=['ask']).ask({!r}, {!r})"
ADDRESS = "__import__('workbench').context.get().address"
"""Expressions that a kernel evaluates after a cell, without history: their values are texts."""

OVER = ("done", "failed", "stopped", "died")


class AgentRun:
    """One execution. ``state``: queued, running, or how it ended."""

    def __init__(self, number: int, code: str, job: str = "", expression: str = "") -> None:
        self.number, self.code, self.job, self.expression = number, code, job, expression
        self.state = "queued"
        self.output = RunOutput()
        self.error: dict[str, Any] | None = None
        self.answer: str | None = None  # the value of the expression
        self.cell = 0  # as the kernel counts
        self.began = self.ended = time.monotonic()
        self.stopping = False
        self.outcome = ""  # the state in which it ended, once the kernel has said so
        self.is_shown = False  # all that it shows in the foreground is here
        self.over = asyncio.Event()

    @property
    def seconds(self) -> float:
        return (self.ended if self.state in OVER else time.monotonic()) - self.began

    def end_if_shown(self) -> None:
        """End once both channels are through: the reply may come before the output."""
        if self.outcome and self.is_shown:
            self.end(self.outcome)

    def end(self, state: str) -> None:
        if not self.over.is_set():
            self.state, self.ended = state, time.monotonic()
            self.over.set()

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)


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
        self._pid = pid
        self._manager: AsyncKernelManager | None = None
        self._client: Any = None
        self._runs: dict[str, AgentRun] = {}  # by message
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self.runs: dict[int, AgentRun] = {}
        self.others: dict[str, Any] | None = None  # a cell that somebody else runs, and since when
        self.address = ""  # of its session, once known
        self.greeting = ""  # what loading the extension has said

    # -- the process ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Have a kernel. SessionError if there is none, or it doesn't answer."""
        async with self._starting:
            if self._client is not None and self.is_alive():
                return
            failure = await self._try_open()
            for _ in range(STARTS - 1):
                if not failure or self._persons is not None:
                    break
                failure = await self._try_open()
            if failure:
                raise SessionError(f"There is no kernel: {failure}")

    async def _try_open(self) -> str:
        """Have a kernel; return why that is impossible, or ''."""
        await self._drop()
        try:
            await self._open()
        except (SessionError, RuntimeError, OSError, TimeoutError) as error:
            await self._drop()
            return str(error) or "it doesn't answer"
        return ""

    async def _open(self) -> None:
        """Start a kernel, or connect to a person's; and listen to it."""
        if self._persons is not None:
            file = connection_file(self._persons)
            self._client = AsyncKernelClient(connection_file=file)
            self._client.load_connection_file()
            self._client.start_channels()
        else:
            await self._start_own()
        self._tasks = [
            asyncio.create_task(self._listen(self._client.get_iopub_msg, self._on_output)),
            asyncio.create_task(self._listen(self._client.get_shell_msg, self._on_reply)),
            asyncio.create_task(self._watch()),
        ]
        if self._persons is None:
            run = AgentRun(0, "%load_ext workbench")
            self._send(run)
            await asyncio.wait_for(run.over.wait(), START)
            self.greeting = run.output.read(0, 1000)["text"].strip()
        self._ask_address()

    def _ask_address(self) -> None:
        """Ask for the address of the kernel's session, to know it when the kernel is busy."""
        run = AgentRun(0, "", "", ADDRESS)

        async def note() -> None:
            await run.over.wait()
            self.address = run.answer or self.address

        self._send(run)
        self._tasks.append(asyncio.create_task(note()))

    async def _start_own(self) -> None:
        own = str(Path.cwd() / "agent.ipynb")  # names the session: found again by the next server
        keeps = {"WORKBENCH_KEEP": "1", "WORKBENCH_LINGER": LINGER}
        self._manager = AsyncKernelManager(kernel_name="python3")
        environment = {**keeps, **os.environ, "JPY_SESSION_NAME": own}
        # Not the protocol's own streams.
        await self._manager.start_kernel(env=environment, stdout=sys.stderr, stderr=sys.stderr)
        self._client = self._manager.client()
        self._client.start_channels()
        await self._client.wait_for_ready(timeout=START)
        self._pid = getattr(self._manager.provisioner, "pid", None)

    def is_alive(self) -> bool:
        """True if the process is there."""
        stat = stat_of(self._pid)
        return bool(stat) and stat[0] not in "ZX"

    async def _watch(self) -> None:
        """Note the kernel's death on all that it ran."""
        while self.is_alive():
            await asyncio.sleep(0.1)
        for run in self._runs.values():
            run.end("died")
        self._runs.clear()

    async def _drop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._client is not None:
            self._client.stop_channels()
            self._client = None
        if self._manager is not None:
            with contextlib.suppress(RuntimeError, ProcessLookupError):
                await self._manager.shutdown_kernel(now=True)
            self._manager = None

    async def close(self) -> None:
        """End a kernel of its own; leave a person's alone."""
        for run in self.runs.values():
            if run.state == "running" and self._persons is not None:
                self.stop(run)  # nobody else knows of it
        await self._drop()

    # -- running ----------------------------------------------------------------------------------

    def run(self, code: str, job: str = "") -> AgentRun:
        """Begin to execute code, after what was begun before; ``job``: its name in the session."""
        number = max(self.runs, default=0) + 1
        for old in [n for n in self.runs if n <= number - MOST_RUNS]:
            del self.runs[old]
        run = self.runs[number] = AgentRun(number, code, job, ASK.format("changed", {}))
        self._begin(run)
        return run

    def begin(self) -> None:
        """Start it, in the background."""
        self._begin(AgentRun(0, ""))

    async def ask(self, expression: str, wait: float) -> str | None:
        """Return the value of an expression that is a text; None if the kernel is busy."""
        run = AgentRun(0, "", "", expression)
        self._begin(run)
        await run.wait(wait)
        return run.answer

    def stop(self, run: AgentRun) -> None:
        """Interrupt a run; one that hasn't begun is when it does."""
        run.stopping = True
        if run.state == "running" and self._pid is not None:
            os.kill(self._pid, signal.SIGINT)

    def _begin(self, run: AgentRun) -> None:
        """Send a run once there is a kernel: nobody waits for that."""
        task = asyncio.create_task(self._started(run))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _started(self, run: AgentRun) -> None:
        try:
            await self.start()
        except SessionError as error:
            run.error = {"name": type(error).__name__, "text": str(error), "line": None}
            run.end("failed")
        else:
            if run.stopping:
                run.end("stopped")
            else:
                self._send(run)

    def _send(self, run: AgentRun) -> None:
        # An empty cell makes no history, and runs no hooks of cells.
        message = self._client.execute(
            run.code,
            silent=not run.code,
            store_history=bool(run.code),
            stop_on_error=False,  # what is queued behind it is another call
            user_expressions={"answer": run.expression} if run.expression else {},
        )
        self._runs = dict([*self._runs.items()][-MOST_RUNS:]) | {message: run}

    @staticmethod
    async def _listen(get: Any, take: Any) -> None:
        while True:
            # Not for ever: sending may take away the sign that something has come.
            try:
                take(await get(timeout=LOOK))
            except queue.Empty:
                continue
            except Exception:  # a message that isn't whole, or a kernel that has just died
                traceback.print_exc()  # on stderr, which clients keep

    def _on_output(self, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        run = self._runs.get(message["parent_header"].get("msg_id", ""))
        if run is None:
            if kind == "execute_input":
                self.others = {"cell": content["execution_count"], "since": time.time()}
            elif kind == "status" and content["execution_state"] == "idle":
                self.others = None
            return
        if kind == "status" and content["execution_state"] == "busy" and not run.over.is_set():
            run.state, run.began = "running", time.monotonic()
            if run.stopping:
                self.stop(run)
        elif kind == "status":
            run.is_shown = content["execution_state"] == "idle"
            run.end_if_shown()
        elif kind == "execute_input":
            run.cell = content["execution_count"]
        elif kind == "stream":
            run.output.add(content["text"])
        elif kind in ("display_data", "execute_result"):
            run.output.show(content)
        elif kind == "update_display_data":
            run.output.show(content, is_update=True)
        elif kind == "error":
            run.error = error_of(content)
            run.output.add("\n".join(content["traceback"]) + "\n")

    def _on_reply(self, message: dict[str, Any]) -> None:
        run = self._runs.get(message["parent_header"].get("msg_id", ""))
        if run is None or message["header"]["msg_type"] != "execute_reply":
            return
        content = message["content"]
        if content["status"] == "aborted":  # a person's cell before it failed
            run.state, run.is_shown = "queued", False
            self._send(run)
            return
        told = content.get("user_expressions", {}).get("answer", {})
        if told.get("status") == "ok":
            run.answer = str(literal_eval(told["data"]["text/plain"]))
        if content["status"] == "ok":
            run.outcome = "done"
        else:
            run.error = run.error or error_of(content)
            interrupted = run.stopping and run.error["name"] == "KeyboardInterrupt"
            run.outcome = "stopped" if interrupted else "failed"
        run.end_if_shown()
        # A kernel that was just connected to may have told the rest before we listened.
        asyncio.get_running_loop().call_later(LATE, run.end, run.outcome)


def connection_file(pid: int) -> str:
    """Return the connection file of a kernel of this user, from its command line.

    SessionError if the process is no kernel.
    """
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        words = []
    files = [word for word in words if word.endswith(".json") and Path(word).is_file()]
    if not files:
        raise SessionError(f"Process {pid} is no kernel that can be joined.")
    return files[0]
