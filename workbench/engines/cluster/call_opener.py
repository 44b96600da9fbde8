"""CallOpener: what a head calls, and with what: opened in a cluster's process, not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from workbench.client.arguments import SLOTTED, name_at, places_of, with_values
from workbench.engines.cluster.backend import Native, StoredValue
from workbench.engines.cluster.heads import Head
from workbench.engines.cluster.parcels import Packer
from workbench.ref import ObjectRef
from workbench.serialization import codec

_ARGUMENTS = codec.Where("arguments", "on the worker")


class Opener(Protocol):
    """What hosting needs of the engine of its process."""

    packer: Packer

    def learn(self, ids: Sequence[int], natives: Sequence[Native]) -> list[ObjectRef]:
        """Handles of objects that came along."""

    def stored(self, ref: ObjectRef) -> StoredValue:
        """What the system has of an object; waits for it."""


class CallOpener:
    """See the module. Functions are opened once."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self.functions: dict[int, Any] = {}

    def function(self, head: Head, keep: list[ObjectRef]) -> Any:
        """What it calls; the first time it came as code, or is the first of ``keep``."""
        function = self.functions.get(head.function)
        if function is None:
            if head.code:
                stored = StoredValue(head.code)
            else:
                stored = self._opener.stored(keep[0])
                keep += self._opener.learn(stored.inside, stored.natives)
            function = self._opener.packer.open(head.function, stored, name=head.name)
            self.functions[head.function] = function
        return function

    def arguments(
        self, head: Head, deps: Sequence[StoredValue], parameters: tuple[str, ...]
    ) -> Any:
        """What it is called with: (args, kwargs)."""
        ids = list(head.deps)
        opener = self._opener.packer
        if not ids and not head.args:
            return (), {}
        if head.args == SLOTTED:
            packed = opener.open(ids.pop(0), deps[0], name="arguments")
            deps = deps[1:]
        else:
            packed = codec.deserialize_inline(head.args, where=_ARGUMENTS)
        if not ids:
            return packed
        values = [
            opener.open(id, dep, name=name_at(place, parameters))
            for id, dep, place in zip(ids, deps, places_of(packed), strict=True)
        ]
        return with_values(packed, values)
