"""Executes a notebook in a kernel of its own; what a background cell shows goes under it, however
late, as in JupyterLab. Needs nbclient. Prints and writes nothing."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from workbench.errors import WorkbenchError
from workbench.kernels.connection import KernelConnection, Message, SentCode
from workbench.report.notebook_run import failed_text, overtime_text

LOOK = 0.2  # seconds between two questions for background cells

GRACE, LEISURE = 1.0, 5.0
"""Seconds for what runs to stop, and as many for the kernel; and for a kernel where all is done."""

_REPLACED = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
"""What was printed over, after a carriage return."""


class ExecutionResult(NamedTuple):
    """How an execution ended: ``done``, ``failed``, or ``stopped`` by a signal; at which cell."""

    state: str
    problem: str
    reached: int
    seconds: float


class _SentCell(SentCode):
    """A cell of the notebook, or none."""

    def __init__(
        self,
        code: str,
        expression: str,
        cell: NotebookNode | None,
        take: Callable[[NotebookNode, Message], None],
    ) -> None:
        super().__init__(code, expression)
        self._cell, self._take = cell, take

    def on_message(self, kind: str, message: Message) -> None:
        if self._cell is not None:
            self._take(self._cell, message)


class Execution(NotebookClient):
    """One execution of a notebook, whose cells get their output.

    Its kernel has no session but its own. A cell, and background cells after the last one, may take
    ``limit`` seconds.
    """

    def __init__(
        self, notebook: NotebookNode, directory: Path, env: Mapping[str, str], limit: float = 0.0
    ) -> None:
        where = {"metadata": {"path": str(directory)}}
        super().__init__(notebook, resources=where, record_timing=False)
        self._env = {name: value for name, value in env.items() if name != "JPY_SESSION_NAME"}
        self._limit = limit or math.inf
        self.cells = []
        for cell in (each for each in notebook.cells if each.cell_type == "code"):
            cell.outputs, cell.execution_count = [], None
            if cell.source.strip() and self.skip_cells_with_tag not in _tags(cell):
                self.cells.append(cell)
        self._positions = {id(cell): index for index, cell in enumerate(notebook.cells)}
        self._senders: dict[str, NotebookNode] = {}  # by the message with the cell
        self._clears = defaultdict[str, bool](bool)  # if a message's next output replaces others
        self._kernel: KernelConnection | None = None
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
        name = self.nb.metadata.get("kernelspec", {}).get("name", NATIVE_KERNEL_NAME)
        self._kernel = await KernelConnection.start(
            name,
            self._on_other,
            ["--log-level=ERROR", f"--HistoryManager.hist_file={self.ipython_hist_file}"],
            cwd=self.resources["metadata"]["path"],
            env=self._env,
            stdout=said,
            stderr=said,
        )
        self.kc = client = self._kernel.client
        client.allow_stdin = False
        client.session.metadata = {"workbench_late_output": True}  # `ipython.output`

    async def _end(self, stops: bool) -> None:
        if self._kernel is None:
            return
        with suppress(Exception):  # whatever it was, the kernel ends
            if stops:
                await self._kernel.interrupt()
                await self._execute("", (GRACE / 2, True), GRACE)
        await self._kernel.close(GRACE if stops else LEISURE)

    async def _run_cells(self) -> None:
        for cell in self.cells:
            self._reached += 1
            began, is_good = time.monotonic(), False
            self.on_cell(self._reached, None, True)
            try:
                sent = await self._execute(cell.source, (0, False), self._limit, cell)
                is_good = sent.state == "done" or "raises-exception" in _tags(cell)
            finally:
                self.on_cell(self._reached, time.monotonic() - began, is_good)
            if not is_good:
                what = f"cell {self._reached}"
                raise WorkbenchError(failed_text("\n".join(sent.reply.get("traceback", ())), what))
            self._check(sent)
        deadline = time.monotonic() + self._limit
        going = self._check(await self._execute("", (0, False)))
        if going:
            self.on_wait(going)
        while going:
            if time.monotonic() > deadline:
                raise TimeoutError
            going = self._check(await self._execute("", (LOOK, False)))

    def _check(self, sent: SentCode) -> list[str]:
        """Return the names of background cells that go on; WorkbenchError if one has failed."""
        if sent.answer is None:  # it hasn't loaded the extension, or is no Python
            return []
        going: list[str]
        going, failed = sent.answer
        for message, name, error in failed:
            cell = self._senders.get(message)
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
    ) -> _SentCell:
        """Execute a cell, or nothing, and ask for background cells: see `ipython.extension`.

        Return it once all output of the cell's own came.
        """
        assert self._kernel is not None
        sent = _SentCell(code, f"get_ipython().workbench.background{asks}", cell, self._on_message)
        self._kernel.send(sent)
        self.running = sent.message
        if cell is not None:
            self._senders[sent.message] = cell
        await sent.wait(None if limit == math.inf else limit)
        if sent.state == "died":
            raise DeadKernelError("Kernel died")
        if not sent.over.is_set():
            raise TimeoutError
        return sent

    def _on_other(self, kind: str, message: Message) -> None:
        if kind == "update_display_data" or kind.startswith("comm"):
            self._on_message(self.nb.cells[0], message)  # which such a message doesn't change

    def _on_message(self, cell: NotebookNode, message: Message) -> None:
        sent = message["parent_header"].get("msg_id", "")
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
