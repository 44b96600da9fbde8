"""A backend that connects to the scheduler when it is first needed: most tasks ask it nothing."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from workbench.engines.cluster.backend import Message, StoredValue
from workbench.engines.cluster.freeing import FREES, ids_of
from workbench.engines.dask.abilities import CAN
from workbench.engines.dask.packed import DaskRef

PATIENCE = 30.0
"""Seconds for which a task tries to connect."""


class LateBackend:
    """A `cluster.backend.Backend` in a child. ``preloaded`` are values that came with the task;
    ``security`` is as in `channel.Credentials`."""

    engine = "dask"
    can = CAN
    joined = True
    blocks = True

    def __init__(
        self,
        session: str,
        address: str,
        security: bytes,
        lends: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.session = session
        self.address = address
        self._security = security
        self.preloaded: dict[str, StoredValue] = {}
        self.lending = lends
        self.of: Any = None
        """The engine over it."""
        self._lock = threading.Lock()
        self._backend: Any = None

    @property
    def ended(self) -> str | None:
        return None if self._backend is None else self._backend.ended

    def get(self, natives: Sequence[DaskRef], timeout: float | None) -> list[StoredValue]:
        if all(native.key in self.preloaded for native in natives):
            return [self.preloaded[native.key] for native in natives]
        found: list[StoredValue] = self._connected().get(natives, timeout)
        return found

    @property
    def is_connected(self) -> bool:
        return self._backend is not None

    def close(self, goodbye: bool) -> None:
        if self._backend is not None:
            self._backend.close(goodbye)

    def _connected(self) -> Any:
        with self._lock:
            if self._backend is None:
                from distributed import Client

                from workbench.engines.dask.session import DaskBackend

                security = pickle.loads(self._security) if self._security else None
                client = Client(
                    self.address, timeout=PATIENCE, set_as_default=False, security=security
                )
                self._backend = DaskBackend(
                    client, self.session, True, lends=self.lending, close_client=True,
                    sink=self._heard,
                )  # fmt: skip
            return self._backend

    def _heard(self, messages: Sequence[Message]) -> None:
        """On the client's event loop. A task is told of nothing else than what was freed."""
        for message in messages:
            if message.kind == FREES:
                self.of.store.let_go(ids_of(message.data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected(), name)
