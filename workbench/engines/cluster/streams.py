"""A stream's items on their way to who reads it: fetched by a thread, as they are made."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from workbench.engines.cluster.backend import StoredValue, Stream, TaskEnd
from workbench.engines.cluster.entries import FAILED, READY, Entries
from workbench.engines.cluster.parcels import Packer
from workbench.errors import ActorDiedError, WorkbenchError, WorkerCrashedError
from workbench.format import count
from workbench.ref_generator import ObjectRefGenerator

EVERYTHING = 1 << 62

Settle = Callable[[TaskEnd, Callable[[TaskEnd], None]], None]


class StreamReader:
    """See the module. ``over`` is told of the end of the task, or why there is none; ``died`` is
    the error if its process has ended before it.

    The reader isn't kept: once nobody has it any more, the task is stopped.
    """

    def __init__(
        self,
        entries: Entries,
        packer: Packer,
        reader: ObjectRefGenerator,
        stream: Stream,
        next_id: Callable[[], int],
        futures: dict[int, list[Future[None]]],
        settle: Settle,
        over: Callable[[WorkbenchError | None], None],
        died: type[WorkbenchError] = WorkerCrashedError,
    ) -> None:
        self._entries = entries
        self._packer = packer
        self._stream = stream
        self._next_id = next_id
        self._futures = futures
        self._settle = settle
        self._over = over
        self._died = died
        self._task = reader.id
        self._reader = weakref.ref(reader)
        # Nobody reads on: what waits for that is fetched, and the next item ends it.
        weakref.finalize(reader, stream.took, EVERYTHING).atexit = False
        self._made = 0
        name = "workbench-stream"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                item = self._stream.next()
            except (WorkerCrashedError, ActorDiedError) as error:
                self._over(self._lost(str(error)))
                return self._wake()
            except WorkbenchError as error:
                self._over(error)
                return self._wake()
            if isinstance(item, TaskEnd):
                return self._settle(item, self._completed)
            if item.failed:  # the last one, for which the end's ref stands
                last = self._entries.get(self._task)
                if last is not None:
                    last.native = item.native
                continue
            ref, entry = self._entries.new(self._next_id(), item.native, READY)
            entry.about, entry.name, ref._task = item.about, self._name, self._task
            reader = self._reader()
            if reader is None:
                self._stream.close()
                return self._over(None)
            reader.came(ref)
            self._made += 1
            del reader, ref, entry
            self._wake()

    def _completed(self, end: TaskEnd) -> None:
        entry = self._entries.get(self._task)
        failed = any(end.failed)
        if entry is not None and not failed:
            entry.stored = StoredValue(self._packer.inline(self._made))
        lost = failed and entry is not None and entry.native is None
        error = self._lost("") if lost else None  # what it raised would be its last item
        self._entries.settle(self._task, FAILED if failed else READY, error=error)
        self._over(None)
        self._wake()

    def _lost(self, why: str) -> WorkbenchError:
        items = count(self._made, "item")
        text = f"The process that ran `{self._name}` ended after {items} of its stream."
        return self._died(f"{text} {why}".strip())

    @property
    def _name(self) -> str:
        entry = self._entries.get(self._task)
        return entry.name if entry is not None else "the stream"

    def _wake(self) -> None:
        with self._entries.lock:
            self._entries.changed.notify_all()
        for future in self._futures.pop(self._task, ()):
            if future.set_running_or_notify_cancel():
                future.set_result(None)
