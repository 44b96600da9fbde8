"""What Ray calls back about, told in a thread of ours: Ray's own must not wait for anything."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import ray

from workbench.engines.cluster.backend import Native, TaskEnd
from workbench.engines.ray.failures import translated
from workbench.errors import WorkbenchError

decode_end = msgspec.msgpack.Decoder(TaskEnd).decode

FEW, EACH, TOGETHER = 8, 0.0001, 0.01
"""While more tasks than that run, an end waits for those right behind it: so many seconds for each
that runs, which is little beside what they take, but no longer than the last."""

SOON = 1.0
"""Seconds for which ends are waited for that are there: small, and here with Ray's own word."""


class Came(NamedTuple):
    """What Ray called back about: a task's ``end``, still to be read; without one, what is told."""

    end: Native | None
    what: Any
    callback: Callable[[Any], None]


class Reports:
    """See the module. ``running`` says how many tasks of ours aren't over."""

    def __init__(self, running: Callable[[], int]) -> None:
        self._running = running
        self._came: queue.SimpleQueue[Came | None] = queue.SimpleQueue()
        name = "workbench-results"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def when_there(self, native: Native, callback: Callable[[BaseException | None], None]) -> None:
        """Tell once it is there, or why it never will be."""

        def ready(error: BaseException | None) -> None:
            self._came.put(Came(None, None if error is None else translated(error), callback))

        _when_ready(native, ready)

    def when_over(
        self, native: Native, callback: Callable[[TaskEnd | BaseException], None]
    ) -> None:
        """Tell how a task ended, by the native of its end.

        Many are read at once: that costs a tenth of having Ray read each for its callback.
        """
        _when_ready(native, lambda error: self._came.put(Came(native, error, callback)))

    def close(self) -> None:
        """Nothing more is told."""
        self._came.put(None)

    def _serve(self) -> None:
        while batch := self._batch():
            self._tell_all(batch)
            batch.clear()  # while an end is held here, Ray keeps what its task was called with

    def _batch(self) -> list[Came]:
        """What came, as soon as something has; nothing at the end."""
        came = self._came.get()
        if came is None:
            return []
        if (running := self._running()) > FEW:
            time.sleep(min(running * EACH, TOGETHER))
        batch = [came]
        with contextlib.suppress(queue.Empty):
            while (more := self._came.get_nowait()) is not None:
                batch.append(more)
            self._came.put(None)  # for the next turn
        return batch

    def _tell_all(self, batch: Sequence[Came]) -> None:
        found = _ends_of([each.end for each in batch if each.end is not None])
        for end, what, callback in batch:
            with contextlib.suppress(Exception):
                if end is None:
                    callback(what)
                elif found is None:
                    end._on_completed(partial(self._brought, callback))
                else:
                    callback(next(found))

    def _brought(self, callback: Callable[[Any], None], found: Any) -> None:
        self._came.put(Came(None, _ended(found), callback))


def _when_ready(native: Native, callback: Callable[[BaseException | None], object]) -> None:
    """Have Ray call it, in a thread of its own, once that is there or never will be."""
    if hasattr(native, "_on_ready"):
        native._on_ready(callback)
    else:  # Ray Client has but the one that brings the value
        native._on_completed(
            lambda found: callback(found if isinstance(found, BaseException) else None)
        )


def _ends_of(natives: Sequence[Native]) -> Iterator[TaskEnd | BaseException] | None:
    """Of tasks that are over: how they ended. None: one has failed, which Ray doesn't say, or isn't
    here at once."""
    try:
        return iter([_ended(found) for found in ray.get(list(natives), timeout=SOON)])
    except Exception:
        return None


def _ended(result: Any) -> TaskEnd | BaseException:
    if isinstance(result, bytes):
        return decode_end(result)
    if isinstance(result, BaseException):
        return translated(result)
    return WorkbenchError(f"Ray answered {type(result).__name__}.")
