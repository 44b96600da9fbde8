"""A real kernel to type into. Cells collect what a front end would show. No assertions."""

from __future__ import annotations

import os
import queue
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.kernel.gates import Gate
from tests.patience import TIMEOUT

FONTS = str(Path("~/.cache/matplotlib").expanduser())

CACHE = tempfile.TemporaryDirectory(prefix="wb-cache-")  # until the tests end

PATIENT = f"__import__('workbench.ipython.progress', fromlist=['x']).AFTER = {TIMEOUT}"
"""What is shown of an object waits for the server, which may be busy, for longer than usual; and no
%put or %get takes so long that a line tells how far it is."""


def _reply(get: Callable[..., Any], to: str) -> Any:
    """The reply to that message; others are left out."""
    messages = iter(lambda: get(timeout=TIMEOUT), None)
    return next(each for each in messages if each["parent_header"].get("msg_id") == to)


class Cell:
    """One executed cell: its outputs so far, as a front end keeps them."""

    def __init__(self, number: str) -> None:
        self.id = number
        self.outputs: list[tuple[str, dict[str, Any]]] = []
        self.number = 0  # as shown beside it
        self.idle = False
        self.error: str | None = None  # of the reply: the cell itself failed
        self.clears: list[bool] = []
        self.remarks = ""  # what is said in grey
        self.lines: list[dict[str, Any]] = []  # what the job's line was, one after the other
        self.above = 0  # outputs before the line
        self.bars: dict[str, str] = {}  # lines with a place of their own
        self.comms: list[tuple[str, dict[str, Any], list[bytes]]] = []  # what widgets said

    @property
    def line(self) -> str:
        """What the job's line says now."""
        return str(self.lines[-1]["text/plain"]) if self.lines else ""

    @property
    def notes(self) -> str:
        """What is said besides: on its line, or, if it was quick and has none, in grey."""
        return self.line + self.remarks + self.text("stderr")

    @property
    def printed(self) -> list[str]:
        """All lines that several workers have printed, sorted."""
        return sorted([*self.text().splitlines(), *self.bars.values()])

    def text(self, stream: str = "stdout") -> str:
        """What was printed under the cell."""
        return "".join(c["text"] for k, c in self.outputs if k == "stream" and c["name"] == stream)

    def results(self, mime: str = "text/plain") -> list[Any]:
        """Displayed and returned things, in one format."""
        return [
            content["data"][mime]
            for kind, content in self.outputs
            if kind in ("execute_result", "display_data") and mime in content["data"]
        ]

    @property
    def told(self) -> list[str]:
        """What its displays said, one after the other, each with its updates."""
        kinds = ("display_data", "update_display_data")
        return [c["data"]["text/plain"] for kind, c in self.outputs if kind in kinds]

    def opened(self) -> dict[str, dict[str, Any]]:
        """The widgets made under it: their states then, by id."""
        opens = [content for kind, content, _ in self.comms if kind == "comm_open"]
        return {content["comm_id"]: content["data"]["state"] for content in opens}

    def said(self, key: str) -> list[Any]:
        """All values of one key in the states that its widgets told, in order."""
        states = [c["data"].get("state", {}) for _, c, _ in self.comms]
        return [state[key] for state in states if key in state]

    @property
    def failure(self) -> str:
        """Name and traceback of the error shown under the cell, without colours, its paragraphs
        in one piece; '' if there is none."""
        for kind, content in self.outputs:
            if kind == "error":
                # What was broken in lines is one piece of the traceback.
                whole = [re.sub(r" \n *(?=\S)", " ", text) for text in content["traceback"]]
                lines = "\n".join([content["ename"], *whole])
                return re.sub(r"\x1b\[[0-9;]*m", "", lines)
        return ""

    def __repr__(self) -> str:
        return f"Cell({self.outputs}, error={self.error})"


class Kernel:
    """A kernel and its one client."""

    def __init__(self, environment: dict[str, str]) -> None:
        # Cached results are the test's own, fonts that matplotlib has found are not.
        home = {"XDG_CACHE_HOME": CACHE.name, "MPLCONFIGDIR": FONTS}
        self._environment = {"WORKBENCH_GLANCE": str(TIMEOUT), **home, **environment}
        self._start()

    def _start(self, tries: int = 3) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(
            env={**os.environ, **self._environment},
            # All of one home share a file, and say under a cell when it is locked.
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )
        try:
            self._connect()
        except RuntimeError:  # of two that start at once, both had found the same port free
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)
            self.manager.cleanup_resources()
            if tries == 1:
                raise
            self._start(tries - 1)

    def _connect(self) -> None:
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)
        self._cells: dict[str, Cell] = {}
        self.widgets: dict[str, str] = {}  # what each widget with a text says, by model
        self.custom: list[dict[str, Any]] = []  # what widgets said besides their state
        self.updates: list[dict[str, Any]] = []  # of views' displays

    def start(self, code: str, headless: bool = False, console: bool = False) -> Cell:
        """Send a cell; as a person at a notebook does, unless ``headless`` or at a ``console``."""
        content = {"code": code, "store_history": True, "allow_stdin": not headless}
        metadata = {} if console else {"cellId": code[:9]}
        return self._send(self.client.session.msg("execute_request", content, metadata=metadata))

    def tell(self, widget: str, subshell: str = "", **said: Any) -> Cell:
        """Say something to a widget, as its page does; what comes of it."""
        return self.send(widget, {"method": "custom", "content": said}, subshell)

    def send(self, widget: str, data: dict[str, Any], subshell: str = "") -> Cell:
        """Send a widget a message; what comes of it is collected like a cell's."""
        message = self.client.session.msg("comm_msg", {"comm_id": widget, "data": data})
        if subshell:
            message["header"]["subshell_id"] = subshell
        return self._send(message)

    def _send(self, message: dict[str, Any]) -> Cell:
        cell = Cell(message["header"]["msg_id"])
        self._cells[cell.id] = cell
        self.client.shell_channel.send(message)
        return cell

    def run(self, code: str, headless: bool = False, console: bool = False) -> Cell:
        """Send a cell and wait until it has ended (what it started may go on)."""
        cell = self.start(code, headless, console)
        self.until(lambda: cell.idle)
        reply = _reply(self.client.get_shell_msg, cell.id)
        if reply["content"]["status"] == "error":
            cell.error = reply["content"]["ename"]
        return cell

    def ok(self, code: str) -> Cell:
        """Run a cell that must not fail."""
        cell = self.run(code)
        assert cell.error is None, cell.failure
        return cell

    def value(self, expression: str, after: str = "") -> str:
        """The repr of an expression, once a cell with the code ``after`` has run."""
        if after:
            self.ok(after)
        return str(self.ok(f"print(repr({expression}), end='')").text())

    def over(self, cell: Cell) -> str:
        """The line that stays under a background cell, once it is over."""
        self.until(lambda: re.search("done|failed|stopped", cell.line))
        return cell.line

    def failure(self, code: str) -> str:
        """What a cell that fails says, under it."""
        cell = self.run(code)
        self.until(lambda: cell.failure)
        return cell.failure

    @contextmanager
    def patient(self, module: str, name: str = "PATIENCE", to: float = TIMEOUT) -> Iterator[None]:
        """Meanwhile nothing takes long: what a module of ours would do after ``name`` seconds."""
        of = f"__import__('sys').modules[{module!r}]"
        usual = self.value(f"{of}.{name}")
        self.ok(f"{of}.{name} = {to}")
        try:
            yield
        finally:
            self.ok(f"{of}.{name} = {usual}")

    def until(self, condition: Callable[[], Any]) -> None:
        """Take in messages until the condition holds."""
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            try:
                self._take(self.client.get_iopub_msg(timeout=deadline - time.monotonic()))
            except queue.Empty:
                last = [*self._cells.values()][-5:]
                raise AssertionError(f"waited in vain; cells: {last}") from None

    def _take(self, message: dict[str, Any]) -> None:
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        kind, content = message["header"]["msg_type"], message["content"]
        if kind in ("comm_open", "comm_msg") and "value" in content["data"].get("state", {}):
            self.widgets[content["comm_id"]] = str(content["data"]["state"]["value"])
        if kind == "comm_msg" and content["data"].get("method") == "custom":
            self.custom.append(content["data"]["content"])
        name = content.get("transient", {}).get("display_id", "")
        if kind == "update_display_data" and name.startswith("workbench-view-"):
            self.updates.append(content)
        if cell is None:
            return
        if kind == "status":
            cell.idle = cell.idle or content["execution_state"] == "idle"
        elif kind == "execute_input":
            cell.number = content["execution_count"]
        elif kind == "clear_output":
            cell.clears.append(content["wait"])
        elif name.startswith("workbench-job-"):
            cell.above = cell.above if cell.lines else len(cell.outputs)
            cell.lines.append(content["data"])
        elif name.startswith("workbench-remark-"):
            cell.remarks += content["data"]["text/plain"] + "\n"
        elif "workbench-bar-" in name:
            cell.bars[name] = content["data"]["text/plain"]
        elif kind.startswith("comm_"):
            buffers = [bytes(each) for each in message.get("buffers", ())]
            cell.comms.append((kind, content, buffers))
        elif kind in ("stream", "display_data", "update_display_data", "execute_result", "error"):
            cell.outputs.append((kind, content))

    def subshell(self) -> str:
        """Have the kernel begin another thread for messages, as JupyterLab does for widgets."""
        request = self.client.session.msg("create_subshell_request")
        self.client.control_channel.send(request)
        reply = _reply(self.client.get_control_msg, request["header"]["msg_id"])
        return str(reply["content"]["subshell_id"])

    def says(self, pattern: str) -> bool:
        """Whether pages were told a text with that in it, its tags left out."""
        lines = [said["text"] for said in self.custom if said.get("kind") == "line"]
        texts = [*self.widgets.values(), *lines]
        return any(re.search(pattern, re.sub("<.*?>", "", text)) for text in texts)

    def interrupt(self) -> None:
        """What the stop button does."""
        self.manager.interrupt_kernel()

    def restart(self, now: bool) -> None:
        """What "Restart kernel" does: it asks the kernel to end itself, or (``now``) kills it."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=now, env={**os.environ, **self._environment})
        self._connect()

    def reopen(self) -> None:
        """Shut the kernel down, and open its notebook again."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """Shut it down and let go of everything."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()
        self.manager.context.term()


K = TypeVar("K", bound=Kernel)

Gates = Callable[[], Gate]
"""The fixture ``gates``: makes one."""

Opens = Callable[..., Kernel]
"""The fixture ``notebook``: opens one of a name, with these environment variables."""


def opens(make: Callable[[dict[str, str]], K]) -> Iterator[Callable[..., K]]:
    """What opens notebooks; ``make`` makes one, of an environment. Their sessions end then."""
    kernels: list[K] = []

    def start(name: str = "", **more: str) -> K:
        named = {"JPY_SESSION_NAME": name} if name else {}
        kernels.append(make({**named, **more}))
        return kernels[-1]

    yield start
    for kernel in kernels:
        if kernel.manager.is_alive():
            kernel.run("%load_ext workbench\n%workbench stop")
        kernel.stop()


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Gates]:
    """Makes gates at which cells stop."""
    numbers = count()
    with ExitStack() as made:
        yield lambda: made.enter_context(closing(Gate(tmp_path / f"gate {next(numbers)}")))


@pytest.fixture
def gate(gates: Gates) -> Gate:
    """One of them."""
    return gates()


@pytest.fixture(scope="session")
def runtime_dir() -> Iterator[str]:
    """A runtime directory of the tests' own, short enough for sockets; empty at the end."""
    directory = tempfile.mkdtemp(prefix="wb-")
    yield directory
    left = [name for name in os.listdir(directory) if name != "workbench.lock"]
    shutil.rmtree(directory)
    assert not left, f"left in the runtime directory: {left}"


def a_kernel(runtime_dir: str, **environment: str) -> Iterator[Kernel]:
    """What a fixture yields."""
    kernel = Kernel(
        {"WORKBENCH_RUNTIME_DIR": runtime_dir, "WORKBENCH_HEADROOM": "0", **environment}
    )
    try:
        yield kernel
    finally:
        kernel.stop()


@pytest.fixture(scope="session")
def kernel(runtime_dir: str) -> Iterator[Kernel]:
    """One kernel for all tests of this process; who breaks it takes a ``notebook``."""
    yield from a_kernel(runtime_dir, WORKBENCH_WORKERS="2")


BEGIN = f"""\
%load_ext workbench
import workbench as wb
if not wb.is_initialized(): wb.init(workers=2)
{PATIENT}
print(wb.api.engine().session)"""

LEAVE = """\
import gc, sys
sys.last_value = sys.last_exc = sys.last_traceback = get_ipython().InteractiveTB.tb = None
gc.freeze()  # `reset` would have all looked through for cycles: see `END`
get_ipython().reset(new_session=False)
__import__("gc").unfreeze()"""
"""What these variables had stored is let go of when the cell is over."""

END = """\
import workbench as wb
from tests.leaks import eventually as _eventually
def _left():
    wb.api.engine().ask(wb.engine.queries.CaughtUp())
    seen = wb.snapshot()
    freed = any(each.state == "freed" for each in seen.objects)
    return freed or seen.count or seen.actors or seen.running or seen.queued
if (_alike := {} and wb.is_initialized() and wb.api.engine().session == {!r}):
    for _name in {{name for each in wb.snapshot().objects for name in each.names}}: wb.free(_name)
    if _left(): __import__("gc").collect()  # what cycles keep
    # Of those that had a namespace, the process ends a little later.
    _alike = not _left() and _eventually(lambda: len(wb.snapshot().workers) == 2, 1.0)
if not _alike:
    %workbench stop"""


STOP = f"%load_ext workbench\n%workbench stop\n{LEAVE}"


@pytest.fixture
def session(request: pytest.FixtureRequest, kernel: Kernel) -> Iterator[Kernel]:
    """The kernel, with the extension loaded and a session of two workers, in which there may have
    been jobs. It stays for the next test if it is as it was."""
    name = kernel.ok(BEGIN).text().split()[-1]
    failures = request.session.testsfailed
    yield kernel
    kernel.ok(LEAVE)
    kernel.ok(END.format(request.session.testsfailed == failures, name))


@pytest.fixture
def fresh(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel, with the extension loaded, no session, and no variables."""
    kernel.ok(f"{STOP}\nimport workbench as wb\n{PATIENT}")
    yield kernel
    kernel.ok(STOP)


@pytest.fixture
def notebook(runtime_dir: str) -> Iterator[Opens]:
    """Opens notebooks, each with a kernel that knows its name. Their sessions end with the test."""
    environment = {"WORKBENCH_RUNTIME_DIR": runtime_dir, "WORKBENCH_WORKERS": "2"}
    yield from opens(lambda more: Kernel({**environment, **more}))
