"""A kernel, started or joined: code is sent to it, and what it says is handed to whoever sent that.
asyncio only."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import time
import traceback
from ast import literal_eval
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from workbench.errors import SessionError
from workbench.system.machine import stat_of

START = 60.0
"""Seconds that a kernel may take to start."""

STARTS = 3
"""Of a kernel that dies before it answers: others may have taken the ports that it was told."""

LOOK = 0.2
"""Seconds after which a channel is looked at, though ZeroMQ hasn't told of a message: who sends, or
an Output widget of nbclient's, may have taken that sign."""

ALIVE = 0.1
"""Seconds between two looks whether the kernel lives."""

LATE = 0.5
"""Seconds after a reply for which the beginning of its output is waited for: a kernel that was just
joined may have told that before anybody listened."""

OVER = ("done", "failed", "stopped", "died")

Message = dict[str, Any]


class SentCode:
    """Code for a kernel to execute. ``state``: queued, running, or how it ended.

    Parameters
    ----------
    code : str
        The code; empty: only the expression is evaluated, without history and hooks of cells.
    expression : str
        An expression that is evaluated after it. Its value, a literal, is the ``answer``.
    """

    def __init__(self, code: str, expression: str = "") -> None:
        self.code, self.expression = code, expression
        self.message = ""  # the id of the message that has sent it
        self.state = "queued"
        self.reply: dict[str, Any] = {}
        self.answer: Any = None
        self.stopping = False
        self.began = self.ended = time.monotonic()
        self.over = asyncio.Event()
        self._is_shown = False  # all that it shows in the foreground has come

    @property
    def seconds(self) -> float:
        return (self.ended if self.state in OVER else time.monotonic()) - self.began

    def on_message(self, kind: str, message: Message) -> None:
        """Take what it shows, or what it says later, in the background."""

    async def wait(self, seconds: float | None) -> None:
        """Wait for its end, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)

    def begin(self) -> None:
        if not self.over.is_set():
            self.state, self.began = "running", time.monotonic()

    def requeue(self) -> None:
        self.state, self.reply, self._is_shown = "queued", {}, False

    def on_idle(self) -> None:
        """Note that all was shown; it may come before the reply, or after it."""
        self._is_shown = True
        if self.reply:
            self.end_as_replied()

    def on_reply(self, content: dict[str, Any]) -> None:
        self.reply = content
        told = content.get("user_expressions", {}).get("answer", {})
        if told.get("status") == "ok":
            self.answer = literal_eval(told["data"]["text/plain"])
        if self._is_shown:
            self.end_as_replied()

    def end_unless_begun(self) -> None:
        if self.state == "queued":
            self.end_as_replied()

    def end_as_replied(self) -> None:
        is_stopped = self.stopping and self.reply.get("ename") == "KeyboardInterrupt"
        is_good = self.reply["status"] == "ok"
        self.end("done" if is_good else "stopped" if is_stopped else "failed")

    def end(self, state: str) -> None:
        if not self.over.is_set():
            self.state, self.ended = state, time.monotonic()
            self.over.set()


class KernelConnection:
    """Sends code to a kernel. Make one with `start` or `join`; end it with `close`.

    ``on_other`` gets the messages that nothing which was sent here has caused.
    """

    def __init__(
        self,
        client: Any,
        on_other: Callable[[str, Message], None],
        manager: AsyncKernelManager | None = None,
        pid: int | None = None,
    ) -> None:
        self.client = client
        self._on_other = on_other
        self._manager, self._pid = manager, pid  # it has one of them
        self._sent: dict[str, SentCode] = {}  # by message
        self._tasks = [
            asyncio.create_task(self._listen(client.get_iopub_msg, self._on_output)),
            asyncio.create_task(self._listen(client.get_shell_msg, self._on_reply)),
        ]
        self._watching = asyncio.create_task(self._watch())
        self._interrupts: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(
        cls,
        name: str,
        on_other: Callable[[str, Message], None],
        ipython: Sequence[str] = (),
        **how: Any,
    ) -> Self:
        """Return a connection to a new kernel, which ends with it.

        Parameters
        ----------
        name : str
            The kernel's specification.
        on_other : callable
            See the class.
        ipython : sequence of str
            Arguments of its command line, if it is an IPython kernel.
        **how
            Arguments of jupyter_client's `start_kernel`.

        Raises
        ------
        RuntimeError
            If it dies, or doesn't answer.
        """
        for starts in range(1, STARTS + 1):
            manager = AsyncKernelManager(kernel_name=name)
            extra = [*ipython] if manager.ipykernel else []
            await manager.start_kernel(extra_arguments=extra, **how)
            client = manager.client()
            client.start_channels()
            try:
                await client.wait_for_ready(timeout=START)
            except BaseException as error:
                client.stop_channels()
                await manager.shutdown_kernel(now=True)
                if starts == STARTS or not isinstance(error, RuntimeError):
                    raise
            else:
                break
        return cls(client, on_other, manager)

    @classmethod
    def join(cls, pid: int, on_other: Callable[[str, Message], None]) -> Self:
        """Return a connection to a kernel that somebody else has started. It goes on without it.

        SessionError if the process is no kernel.
        """
        client = AsyncKernelClient(connection_file=connection_file(pid))
        client.load_connection_file()
        client.start_channels()
        return cls(client, on_other, pid=pid)

    @property
    def is_alive(self) -> bool:
        """True until the kernel's death was noted on all that it ran: what is sent meanwhile has
        died, too."""
        return not self._watching.done()

    def send(self, sent: SentCode) -> None:
        """Have code executed, after what was sent before."""
        sent.message = self.client.execute(
            sent.code,
            silent=not sent.code,
            store_history=bool(sent.code),
            stop_on_error=False,  # what is queued behind it is somebody else's, or another call's
            user_expressions={"answer": sent.expression} if sent.expression else {},
        )
        self._sent[sent.message] = sent

    def forget(self, sent: SentCode) -> None:
        """Take nothing more of what it says."""
        self._sent.pop(sent.message, None)

    def stop(self, sent: SentCode) -> None:
        """Interrupt it; if it hasn't begun, when it does."""
        sent.stopping = True
        if sent.state == "running":
            task = asyncio.create_task(self.interrupt())
            self._interrupts.add(task)
            task.add_done_callback(self._interrupts.discard)

    async def interrupt(self) -> None:
        """Interrupt whatever the kernel runs."""
        with suppress(RuntimeError, ProcessLookupError):  # it has ended
            if self._manager is not None:
                await self._manager.interrupt_kernel()
            elif self._pid is not None:
                os.kill(self._pid, signal.SIGINT)

    async def close(self, grace: float = 0.0) -> None:
        """End the kernel, if it was started here; ``grace``: seconds that it has for that."""
        for task in (*self._tasks, self._watching):
            task.cancel()
        self.client.stop_channels()
        await asyncio.gather(*self._interrupts)
        if self._manager is not None:
            self._manager.shutdown_wait_time = grace
            with suppress(RuntimeError, ProcessLookupError):
                await self._manager.shutdown_kernel(now=not grace)
            await self._manager.cleanup_resources()

    async def _watch(self) -> None:
        """Note the kernel's death on all that it ran."""
        while await self._is_there():
            await asyncio.sleep(ALIVE)
        for sent in self._sent.values():
            sent.end("died")
        self._sent.clear()

    async def _is_there(self) -> bool:
        if self._manager is not None:
            return bool(await self._manager.is_alive())
        stat = stat_of(self._pid)
        return bool(stat) and stat[0] not in "ZX"

    @staticmethod
    async def _listen(get: Any, take: Callable[[Message], None]) -> None:
        while True:
            try:
                take(await get(timeout=LOOK))
            except queue.Empty:
                continue
            except Exception:  # a message that isn't whole, or a kernel that has just died
                traceback.print_exc()

    def _on_output(self, message: Message) -> None:
        kind = message["header"]["msg_type"]
        sent = self._sent.get(message["parent_header"].get("msg_id", ""))
        if sent is None:
            self._on_other(kind, message)
        elif kind != "status":
            sent.on_message(kind, message)
        elif message["content"]["execution_state"] == "idle":
            sent.on_idle()
            self._forget_silent(sent)
        else:
            sent.begin()
            if sent.stopping:
                self.stop(sent)

    def _on_reply(self, message: Message) -> None:
        sent = self._sent.get(message["parent_header"].get("msg_id", ""))
        if sent is None or message["header"]["msg_type"] != "execute_reply":
            return
        if message["content"]["status"] == "aborted":  # a person's cell before it failed
            self.forget(sent)
            sent.requeue()
            self.send(sent)
            return
        sent.on_reply(message["content"])
        if sent.state == "queued":
            asyncio.get_running_loop().call_later(LATE, sent.end_unless_begun)
        self._forget_silent(sent)

    def _forget_silent(self, sent: SentCode) -> None:
        """Forget what is over and says nothing later."""
        if sent.over.is_set() and not sent.code:
            self.forget(sent)


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
