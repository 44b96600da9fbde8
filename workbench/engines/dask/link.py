"""From a process of a session to Dask's scheduler: questions, and messages in their order."""

from __future__ import annotations

import contextlib
import pickle
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.errors import SessionError, WorkbenchError, WorkerCrashedError

FLUSHED, LOOK = 30.0, 0.5
"""Seconds for which a flush waits, and after which it looks whether that is in vain."""


class SchedulerLink:
    """See the module. ``ended`` says why the session is over for this process."""

    def __init__(self, client: Any, session: str, ended: Callable[[], str | None]) -> None:
        self.client = client
        self.session = session
        self.number = secrets.randbits(62) | 1
        """As which this process gets the ends of what it submits."""
        self._ended = ended
        self._flushed: dict[int, threading.Event] = {}
        self._has_told = False  # what may not be there yet

    def open(self, audience: int) -> dict[str, str]:
        """Say who we are; returns the workers' nodes, by address. SessionError: it is over."""
        unique, _, nodes = self.asked(
            "open", session=self.session, number=self.number, client=self.client.id,
            audience=audience, only=True,
        )  # fmt: skip
        if not unique:
            raise SessionError(f"The Dask scheduler knows no session {self.session!r} any more.")
        return dict(nodes)

    def asked(self, question: str, timeout: float | None = None, **arguments: Any) -> Any:
        """What our plugin there answers. TimeoutError; or one of our errors."""

        async def ask() -> Any:
            return await getattr(self.client.scheduler, f"workbench_{question}")(**arguments)

        try:
            return self.client.sync(ask, callback_timeout=timeout)
        except TimeoutError:
            if timeout is not None:
                raise
            raise self.failed(TimeoutError("the scheduler doesn't answer")) from None
        except Exception as error:
            raise self.failed(error) from error

    def explain(self, question: bytes, seconds: float) -> tuple[list[bytes], list[str]]:
        """Have all workers ask their processes: see `Backend.explain`."""

        async def ask() -> Any:
            message = {
                "op": "workbench_explain", "session": self.session, "question": question,
                "seconds": seconds,
            }  # fmt: skip
            return await self.client.scheduler.broadcast(msg=message, on_error="return")

        answers: list[bytes] = []
        silent: list[str] = []
        try:
            told = self.client.sync(ask, callback_timeout=seconds + 2.0)
        except Exception as error:
            return [], [f"the cluster's processes ({type(error).__name__})"]
        for address, found in told.items():
            if isinstance(found, tuple | list):
                answers += found[0]
                silent += found[1]
            else:  # an error: it is gone, or was never ours
                silent.append(f"the worker at {address}")
        return answers, silent

    def future_of(self, key: str) -> Any:
        """Dask's own future of a key, of which the scheduler isn't told."""
        from distributed import Future

        return Future(key, self.client)

    def send(self, kind: str, **message: Any) -> None:
        """In order with each other, and with what is submitted."""
        message |= {"op": f"workbench_{kind}", "session": self.session}
        with contextlib.suppress(Exception):  # at the end of the loop nobody hears
            # In this thread, as Dask's own `submit` does: by one more turn of the client's event
            # loop it would come after what is submitted next.
            self.client._send_to_scheduler(message)

    def flush(self, seconds: float = FLUSHED) -> None:
        """Wait until all that was sent and submitted so far is at the scheduler: questions take
        another way, and what workers say, too."""
        token, came = secrets.randbits(62), threading.Event()
        self._flushed[token] = came
        try:
            self.send("echo", number=self.number, token=token)
            until = time.monotonic() + seconds
            while True:
                if came.wait(LOOK) or self._ended() is not None or time.monotonic() >= until:
                    return
        finally:
            del self._flushed[token]

    def echoed(self, token: int) -> None:
        """The scheduler has had what `flush` waits for."""
        came = self._flushed.get(token)
        if came is not None:
            came.set()

    def ask(self, question: str, *args: Any, timeout: float | None = None) -> Any:
        """A method of the keeper's: what it returns, or raises."""
        if self._has_told:
            self._has_told = False  # first: another thread may tell meanwhile
            self.flush(FLUSHED if timeout is None else timeout)
        call = pickle.dumps((question, args))
        answer = self.asked("ask", timeout, session=self.session, call=call)
        is_right, found = pickle.loads(answer)
        if not is_right:
            raise found
        return found

    def tell(self, question: str, *args: Any) -> None:
        """The same, and go on at once."""
        self.send("tell", call=pickle.dumps((question, args)))
        self._has_told = True

    def failed(self, error: Exception) -> WorkbenchError:
        """What a call of Dask's raised, as one of ours."""
        ended = self._ended()
        if ended is not None:
            return SessionError(ended)
        return WorkerCrashedError(f"Dask says: {type(error).__name__}: {error}")
