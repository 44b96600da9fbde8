"""One session at Dask's scheduler: its keeper, its processes, its actors, and the keys it keeps.

On the scheduler's event loop alone.
"""

from __future__ import annotations

import io
import pickle
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.engines.cluster.keeper import Keeper
from workbench.engines.dask.packed import DaskRef
from workbench.engines.dask.topics import topic


class KeptKey:
    """While it lives, its session wants the key."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: str) -> None:
        self.key = key


class ClusterSession:
    """One session: its keeper, its drivers, and the keys that it keeps."""

    def __init__(self, name: str, scheduler: Any) -> None:
        self.name = name
        self.client = f"workbench-{name}"
        """As whom it wants keys."""
        self.keeper = Keeper(time.monotonic, self._woken)
        self.processes: dict[int, tuple[str, int]] = {}
        """Those that submit tasks: Dask's client, and which driver it is (0: a task)."""
        self.actors: dict[int, tuple[str, str, str, str]] = {}
        """Of each: its full name, its key, the worker's address, its description's key."""
        self.detached: dict[int, KeptKey] = {}
        """The descriptions of actors that need no handle."""
        self._scheduler = scheduler
        self._kept: weakref.WeakValueDictionary[str, KeptKey] = weakref.WeakValueDictionary()

    def keep(self, key: str) -> KeptKey:
        """Want a key, until nobody here refers to what this returns."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = KeptKey(key)
            want(self._scheduler, [key], self.client)
            weakref.finalize(kept, self._scheduler.loop.add_callback, self._release, key)
        return kept

    def kept_of(self, keys: Iterable[Any]) -> list[Any]:
        """Those of these that it keeps."""
        return [key for key in keys if key in self._kept] if self._kept else []

    def _release(self, key: str) -> None:
        if key not in self._kept:
            release(self._scheduler, [key], self.client)

    def call(self, call: bytes) -> Any:
        """A method of the keeper's, by what `pickle` made of its name and arguments."""
        question, args = QuestionUnpickler(call, self).load()
        return self.keeper.ask(question, *args)

    def _woken(self, audience: int) -> None:
        batch = self.keeper.take(audience)
        if batch:
            self.tell(audience, batch)

    def tell(self, number: int, message: Any) -> None:
        """Send something to a process: an event of its topic. Dask would keep those in a log."""
        client = self.processes.get(number, ("", 0))[0] or self._client_of(number)
        comm = self._scheduler.client_comms.get(client)
        if comm is not None:
            event = time.time(), message
            comm.send({"op": "event", "topic": topic(self.name, number), "event": event})

    def _client_of(self, audience: int) -> str:
        return next((c for c, each in self.processes.values() if each == audience), "")

    def tell_all(self, message: Any) -> None:
        for number in list(self.processes):
            self.tell(number, message)

    def let_go(self) -> None:
        """It is over: of what it kept, it wants nothing any more."""
        found = self._scheduler.clients.get(self.client)
        if found is not None:
            release(self._scheduler, [each.key for each in found.wants_what], self.client)


class QuestionUnpickler(pickle.Unpickler):
    """Has each native keep its key."""

    def __init__(self, data: bytes, session: ClusterSession) -> None:
        super().__init__(io.BytesIO(data))
        self._session = session

    def find_class(self, module: str, name: str) -> Any:
        if name == "DaskRef":
            return lambda key, index: DaskRef(key, index, self._session.keep(key))
        return super().find_class(module, name)


def want(scheduler: Any, keys: Sequence[str], client: str) -> None:
    """Want keys that the scheduler knows."""
    known = [key for key in keys if key in scheduler.tasks]
    if known:
        scheduler.client_desires_keys(known, client)


def release(scheduler: Any, keys: Sequence[str], client: str) -> None:
    if client in scheduler.clients:
        scheduler.client_releases_keys(list(keys), client)
        if not scheduler.clients[client].wants_what:
            del scheduler.clients[client]
