"""Names and pins of a session on a cluster: what keeps objects for everybody. Pure.

Part of the `keeper`. Natives are opaque here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.events import About
from workbench.engines.cluster.backend import Native


class KeptObject(NamedTuple):
    """What keeps an object for everybody: its names, the place where it was pinned, or '', and
    those where refs to it were pickled."""

    id: int
    native: Native = None
    about: About | None = None
    names: tuple[str, ...] = ()
    pinned: str = ""
    escapes: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        return bool(self.names or self.pinned or self.escapes)


class KeptNames:
    def __init__(self) -> None:
        self._objects: dict[int, KeptObject] = {}
        self._names: dict[str, int] = {}

    def _change(self, kept: KeptObject) -> None:
        if kept.is_kept:
            self._objects[kept.id] = kept
        else:
            self._objects.pop(kept.id, None)

    def _known(self, id: int, native: Native, about: About | None) -> KeptObject:
        known = self._objects.get(id, KeptObject(id))
        return known._replace(native=native, about=known.about or about)

    def bind(self, name: str, id: int, native: Native, about: About | None) -> None:
        """Give an object a name, and take that from what had it."""
        self.unbind(name)
        known = self._known(id, native, about)
        self._names[name] = id
        self._change(known._replace(names=(*known.names, name)))

    def unbind(self, name: str) -> None:
        if (found := self.find(name)) is not None:
            del self._names[name]
            self._change(found._replace(names=tuple(n for n in found.names if n != name)))

    def pin(self, id: int, native: Native, about: About | None, site: str) -> None:
        """A person wants an object kept: asked for there."""
        self._change(self._known(id, native, about)._replace(pinned=site))

    def unpin(self, id: int) -> None:
        self._change(self._objects.get(id, KeptObject(id))._replace(pinned=""))

    def escape(self, id: int, native: Native, site: str) -> None:
        """A ref was pickled there: whoever makes it again finds the object by its id."""
        known = self._known(id, native, None)
        self._change(known._replace(escapes=(*known.escapes, site)))

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: nothing keeps them any more."""
        for id in ids:
            if (found := self._objects.pop(id, None)) is not None:
                for name in found.names:
                    del self._names[name]

    def find(self, name: str) -> KeptObject | None:
        return self._objects.get(self._names.get(name, 0))

    def named(self, beginning: str = "") -> list[str]:
        return [name for name in self._names if name.startswith(beginning)]

    def kept(self) -> dict[int, KeptObject]:
        """All of them, to be told of: without their natives."""
        return {id: each._replace(native=None) for id, each in self._objects.items()}

    def identify(self, ends: str) -> list[KeptObject]:
        """Objects that are kept and whose id in hex begins or ends so."""
        hexes = {f"{id:016x}": each for id, each in self._objects.items()}
        return [e for h, e in hexes.items() if h.startswith(ends) or h.endswith(ends)]
