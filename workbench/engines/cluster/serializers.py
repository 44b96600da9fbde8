"""Custom serializers of a session on a cluster: each process hears of those of the others."""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.engines.cluster.backend import Backend
from workbench.engines.cluster.parcels import Packer
from workbench.serialization.registry import Custom, Function


class SharedSerializers:
    """See the module. Heads say how many there were by then, so that a worker asks for others."""

    def __init__(
        self, backend: Backend, packer: Packer, next_id: Callable[[], int],
        check_open: Callable[[], None],
    ) -> None:  # fmt: skip
        self._backend = backend
        self._packer = packer
        self._next_id = next_id
        self._check_open = check_open
        self._count = 0

    def register(self, cls: type, by: tuple[Function, Function] | None) -> None:
        if by is None:
            number, payload = self._packer.registry.remove(cls), b""
        else:
            self._check_open()
            custom = Custom(cls, *by)
            payload = self._packer.packed((cls, *by), custom.parts)[1].inline()
            number = self._packer.registry.add(custom, self._next_id)
        if number is not None:
            self._count = self._backend.ask("register", number, payload)

    def count(self) -> int:
        """How many were registered by now, as far as this process knows."""
        return self._count

    def know(self, count: float = math.inf) -> None:
        """So many were registered by now, anywhere; without a count, some before we came."""
        if count <= self._count:
            return
        news = self._backend.ask("serializers", self._count)
        for number, payload in news:
            self._packer.registry.queue_registration(number, payload)
        self._count += len(news)
