"""Executes a notebook in a kernel of its own; what a background cell shows goes under it, however
late, as in JupyterLab. Needs nbclient. Prints and writes nothing."""

from __future__ import annotations

import asyncio
import math
import os
import queue
import re
import signal
import tempfile
import time
from ast import literal_eval
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from workbench.errors import WorkbenchError
from workbench.report.notebook_run import failed_text, overtime_text

LOOK = 0.2
"""Seconds between two looks whether the kernel lives and, where ZeroMQ told somebody else that a
message came (an Output widget of nbclient's), for messages."""

GRACE = 1.0  # seconds for what runs to stop, and as many for the kernel
STARTS = 3  # of a kernel that dies before it is ready: others may have taken its ports

_REPLACED = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
"""What was printed over, after a carriage return."""


class ExecutionResult(NamedTuple):
    """How an execution ended: ``done``, ``failed``, or ``stopped`` by a signal; at which cell."""

    state: str
    problem: str
    reached: int
    seconds: float


class Execution(NotebookClient):
    """One execution of a notebook, whose cells get their output.

    Its kernel has no session but its own. A cell, and background cells after the last one, may take
    ``limit`` seconds.
    """

    def __init__(
        self, notebook: NotebookNode, directory: Path, env: Mapping[str, str], limit: float = 0.0
    ) -> None:
        where, quiet = {"metadata": {"path": str(directory)}}, ["--log-level=ERROR"]
        super().__init__(notebook, resources=where, record_timing=False, extra_arguments=quiet)
        self._env = {name: value for name, value in env.items() if name != "JPY_SESSION_NAME"}
        self._limit = limit or math.inf
        self.cells = []
        for cell in (each for each in notebook.cells if each.cell_type == "code"):
            cell.outputs, cell.execution_count = [], None
            if cell.source.strip() and self.skip_cells_with_tag not in _tags(cell):
                self.cells.append(cell)
        self._positions = {id(cell): index for index, cell in enumerate(notebook.cells)}
        self._senders: dict[str, NotebookNode] = {}  # by the message with the cell
        self._idle: dict[str, asyncio.Event] = {}  # by message
        self._clears = defaultdict[str, bool](bool)  # if a message's next output replaces others
        self._client: Any = None
        self.running = ""  # the last message
        self._reached = 0

    def on_cell(self, number: int, seconds: float | None, is_good: bool) -> None:
        """Cell ``number``, counted from 1, begins; or it ended, after ``seconds``."""

    def on_wait(self, names: list[str]) -> None:
        """All cells have ended, and these go on in the background."""

    def run(self) -> ExecutionResult:
        """Execute it; the main thread only. SIGINT and SIGTERM stop all that runs."""
        with tempfile.TemporaryFile() as said:
            return asyncio.run(self._run(said))

    async def _run(self, said: IO[bytes]) -> ExecutionResult:
        began, state, problem = time.monotonic(), "done", ""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            await self._start(said)
            await self._run_cells()
        except asyncio.CancelledError:
            state = "stopped"
        except TimeoutError:
            state, problem = "failed", overtime_text(self._limit)
        except (WorkbenchError, LookupError, RuntimeError) as error:  # no such kernel; it died
            state, problem = "failed", str(error)
            if isinstance(error, RuntimeError):
                problem += "\n" + os.pread(said.fileno(), 4000, 0).decode(errors="replace").strip()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, int)  # does nothing: it ends, and soon
            ending = asyncio.create_task(self._end(state != "done"))
            with suppress(asyncio.CancelledError):  # by a signal just before
                await asyncio.shield(ending)
            await ending
        return ExecutionResult(state, problem, self._reached, time.monotonic() - began)

    async def _start(self, said: IO[bytes]) -> None:
        for starts in range(1, STARTS + 1):
            self._kernel: Any = self.create_kernel_manager()
            self.km = self._kernel
            try:
                await self.async_start_new_kernel(env=self._env, stdout=said, stderr=said)
                self._client = await self.async_start_new_kernel_client()
                break
            except RuntimeError:
                if starts == STARTS:
                    raise
        self._client.session.metadata = {"workbench_late_output": True}  # see `ipython.output`
        self._listening = asyncio.create_task(self._listen())

    async def _end(self, stops: bool) -> None:
        kernel = self._kernel
        if stops:
            kernel.shutdown_wait_time = GRACE
        if self._client is not None:
            with suppress(Exception):  # whatever it was, the kernel ends
                if stops:
                    await kernel.interrupt_kernel()
                    await self._execute("", (GRACE / 2, True), GRACE)
            self._listening.cancel()
        if self.kc is not None:
            self.kc.stop_channels()
        if kernel.has_kernel:
            await kernel.shutdown_kernel()
        await kernel.cleanup_resources()

    async def _run_cells(self) -> None:
        for cell in self.cells:
            self._reached += 1
            began, is_good = time.monotonic(), False
            self.on_cell(self._reached, None, True)
            try:
                reply = await self._execute(cell.source, (0, False), self._limit, cell)
                is_good = reply["status"] == "ok" or "raises-exception" in _tags(cell)
            finally:
                self.on_cell(self._reached, time.monotonic() - began, is_good)
            if not is_good:
                what = f"cell {self._reached}"
                raise WorkbenchError(failed_text("\n".join(reply.get("traceback", ())), what))
            self._check(reply)
        deadline = time.monotonic() + self._limit
        going = self._check(await self._execute("", (0, False)))
        if going:
            self.on_wait(going)
        while going:
            if time.monotonic() > deadline:
                raise TimeoutError
            going = self._check(await self._execute("", (LOOK, False)))

    def _check(self, reply: dict[str, Any]) -> list[str]:
        """Return the names of background cells that go on; WorkbenchError if one has failed."""
        told = reply.get("user_expressions", {}).get("background", {})
        if told.get("status") != "ok":  # it hasn't loaded the extension, or is no Python
            return []
        going: list[str]
        going, failed = literal_eval(told["data"]["text/plain"])
        for sent, name, error in failed:
            cell = self._senders.get(sent)
            if cell is not None and "raises-exception" not in _tags(cell):
                shown = [each for each in cell.outputs if each.output_type == "error"]
                trace = "\n".join(shown[-1].traceback) if shown else error
                raise WorkbenchError(failed_text(trace, f"{name}, in the background,"))
        return going

    async def _execute(
        self,
        code: str,
        asks: tuple[float, bool],
        limit: float = math.inf,
        cell: NotebookNode | None = None,
    ) -> dict[str, Any]:
        """Execute a cell, or nothing, and ask for background cells: see `ipython.extension`.

        Return the reply, once all output of the cell's own came.
        """
        asked = {"background": f"get_ipython().workbench.background{asks}"}
        silent = cell is None
        sent: str = self._client.execute(
            code, silent, not silent, asked, allow_stdin=False, stop_on_error=False
        )
        self.running, idle, deadline = sent, asyncio.Event(), time.monotonic() + limit
        reply: dict[str, Any] | None = None
        self._idle[sent] = idle
        if cell is not None:
            self._senders[sent] = cell
        while reply is None or not idle.is_set():
            if time.monotonic() > deadline:
                raise TimeoutError
            if self._listening.done():
                self._listening.result()  # raises what ended it
            if not await self._kernel.is_alive():
                raise DeadKernelError("Kernel died")
            with suppress(queue.Empty, TimeoutError):
                if reply is None:
                    found = await self._client.get_shell_msg(timeout=LOOK)
                    reply = found["content"] if found["parent_header"]["msg_id"] == sent else None
                else:
                    await asyncio.wait_for(idle.wait(), LOOK)
        del self._idle[sent]
        return reply

    async def _listen(self) -> None:
        while True:
            message = await self._client.get_iopub_msg()
            sent, kind = message["parent_header"].get("msg_id", ""), message["msg_type"]
            cell = self._senders.get(sent)
            if kind == "status":
                if message["content"]["execution_state"] == "idle" and sent in self._idle:
                    self._idle[sent].set()
            elif cell or kind == "update_display_data" or kind.startswith("comm"):
                cell = cell or self.nb.cells[0]  # which such a message doesn't change
                self.clear_before_next_output = self._clears[sent]
                self.process_message(message, cell, self._positions[id(cell)])
                self._clears[sent] = self.clear_before_next_output

    def output(self, outs: list[NotebookNode], *arguments: Any) -> NotebookNode | None:
        """Add an output, text to the text before it."""
        out = super().output(outs, *arguments)
        is_text = [each.output_type == "stream" and each.name for each in outs[-2:]]
        if out is not None and len(is_text) == 2 and is_text[0] and is_text[0] == is_text[1]:
            text = outs.pop().text
            outs[-1].text = _REPLACED.sub("", outs[-1].text + text)
        return out


def _tags(cell: NotebookNode) -> list[str]:
    tags: list[str] = cell.metadata.get("tags", [])
    return tags
