"""Values of a session, as one of its processes stores, awaits and reads them at Dask."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec

from workbench.engines.cluster.backend import StoredValue, TaskEnd
from workbench.engines.dask.holds import Holds, KeyHold, lost
from workbench.engines.dask.link import SchedulerLink
from workbench.engines.dask.packed import Bundle, DaskRef, form_of, pack
from workbench.engines.dask.reading import RemoteReader
from workbench.engines.dask.topics import PUT, key_of
from workbench.errors import WorkerCrashedError

_decode_end = msgspec.msgpack.Decoder(TaskEnd).decode


class Values:
    """See the module. ``lends`` lends the slot of the task that this process runs: None in a
    driver."""

    def __init__(
        self,
        client: Any,
        link: SchedulerLink,
        lends: Callable[[], AbstractContextManager[None]] | None,
    ) -> None:
        self._client = client
        self._link = link
        self.near: list[str] = []
        """Workers that share memory with this process."""
        self._lends = lends
        self.holds = Holds(self._future_of)
        self._reader = RemoteReader(client)

    def put(self, value: StoredValue, keep: bool) -> DaskRef:
        packed, fd = pack(value)
        key = key_of(self._link.session, PUT, secrets.randbits(64))
        bundle = Bundle.of(key, b"", [packed], [fd] if fd >= 0 else [])
        near = [a for a in self.near if a in self._client.scheduler_info()["workers"]] or None
        try:
            future = self._client.scatter({key: bundle}, hash=False, workers=near)[key]
        except Exception as error:
            raise self._link.failed(error) from error
        hold = self.holds.add(key, future)
        self.holds.settle(hold)
        if value.natives:
            self.contains(key, value.natives)
        return DaskRef(key, 1, hold)

    def contains(self, key: str, natives: Sequence[Any]) -> None:
        """The value of that key refers to these: they live as long as it."""
        self._link.send("contains", key=key, inside=[form_of(native)[0] for native in natives])

    def get(self, natives: Sequence[DaskRef], timeout: float | None) -> list[StoredValue]:
        holds = [self.holds.of(native) for native in natives]
        if not all(hold.is_ready for hold in holds):
            with self.lending():
                in_time = self.holds.wait(holds, len(holds), timeout)
            if not in_time:
                raise TimeoutError
        self._bring(holds)
        found = []
        for native, hold in zip(natives, holds, strict=True):
            if hold.error is not None:
                raise hold.error
            assert hold.bundle is not None
            found.append(self._stored(hold.bundle, native.index - 1))
        self._hold_inner(found)
        return found

    def _hold_inner(self, values: Sequence[StoredValue]) -> None:
        """Hold what these refer to, before they are let go."""
        for value in values:
            for native in value.natives:
                self.holds.of(native[1] if type(native) is tuple else native)

    def _bring(self, holds: Sequence[KeyHold]) -> None:
        """Have the bundles of these here."""
        absent = {hold.key: hold for hold in holds if hold.bundle is None and not hold.error}
        if not absent:
            return
        try:
            bundles = self._client.gather([hold.future for hold in absent.values()])
        except Exception as error:
            if len(absent) > 1:  # of which one, it doesn't say
                for hold in absent.values():
                    self._bring([hold])
                return
            (hold,) = absent.values()
            gone = getattr(hold.future, "status", "") in ("cancelled", "lost")
            hold.error = (
                lost(hold.key) if gone and self.holds.ended is None else self._link.failed(error)
            )
            return
        for hold, bundle in zip(absent.values(), bundles, strict=True):
            hold.bundle = bundle

    def _stored(self, bundle: Bundle, index: int) -> StoredValue:
        if not bundle.values[index].lengths:
            return bundle.stored(index)
        if not bundle.has(index):
            self._reader.bring(bundle, index)
        return bundle.stored(index)

    def wait(self, natives: Sequence[DaskRef], enough: int, timeout: float | None) -> None:
        holds = [self.holds.of(native) for native in natives]
        if sum(hold.is_ready for hold in holds) >= enough:
            return
        with self.lending():
            self.holds.wait(holds, enough, timeout)

    def on_ready(self, native: DaskRef, callback: Callable[[BaseException | None], None]) -> None:
        self.holds.on_ready(self.holds.of(native), lambda hold: callback(hold.error))

    def on_done(self, native: DaskRef, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        self.holds.on_ready(self.holds.of(native), lambda hold: self._done(hold, callback))

    def _done(self, hold: KeyHold, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        if hold.end is None and hold.error is None:  # nobody told us: ask, but not in this thread
            self._reader.later(lambda: self._read_end(hold, callback))
        else:
            callback(hold.end or hold.error or WorkerCrashedError("It has no end."))

    def _read_end(self, hold: KeyHold, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        self._bring([hold])
        if hold.bundle is not None and hold.bundle.end:
            hold.end = _decode_end(hold.bundle.end)
        callback(hold.end or hold.error or WorkerCrashedError("It has no end."))

    def outlive(self, natives: Sequence[DaskRef]) -> list[DaskRef]:
        """The scheduler keeps the keys of what the keeper keeps."""
        return list(natives)

    @contextmanager
    def lending(self) -> Iterator[None]:
        with nullcontext() if self._lends is None else self._lends():
            yield

    def _future_of(self, key: str) -> Any:
        future = self._link.future_of(key)
        self._link.send("want", key=key, desirer=self._client.id, number=self._link.number)
        return future

    def close(self) -> None:
        """Nothing more is read."""
        self._reader.close()
