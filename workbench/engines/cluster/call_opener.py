"""CallOpener: what a head calls, and with what: opened in a cluster's process, not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.client.arguments import SLOTTED, name_at, places_of, with_values
from workbench.engines.cluster.backend import StoredValue
from workbench.engines.cluster.heads import Head
from workbench.engines.cluster.parcels import Packer
from workbench.serialization import codec

_ARGUMENTS = codec.Where("arguments", "on the worker")

Deps = list[tuple[int, StoredValue]]
"""What came along with a head, by id; who takes something takes it from the front."""


class CallOpener:
    """See the module. Functions are opened once."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._functions: dict[int, Any] = {}

    def packed(self, head: Head, deps: Deps) -> Any:
        """Its arguments, without those that came along: to be asked first."""
        if head.args == SLOTTED:
            return self._packer.open(*deps.pop(0), name="arguments")
        return codec.deserialize_inline(head.args, where=_ARGUMENTS) if head.args else ((), {})

    def function(self, head: Head, deps: Deps) -> Any:
        """What it calls: to be asked next."""
        stored = StoredValue(head.code) if head.code else deps.pop(0)[1]
        if head.function not in self._functions:
            made = self._packer.open(head.function, stored, name=head.name)
            self._functions[head.function] = made
        return self._functions[head.function]

    def arguments(self, packed: Any, deps: Deps, parameters: Sequence[str]) -> Any:
        """What it is called with: (args, kwargs)."""
        places = places_of(packed)
        values = [
            self._packer.open(id, dep, name=name_at(place, parameters))
            for (id, dep), place in zip(deps, places, strict=True)
        ]
        return with_values(packed, values)
