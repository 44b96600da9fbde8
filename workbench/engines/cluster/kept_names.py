"""Names and pins of a session on a cluster: what keeps objects for everybody. Pure.

Part of the `keeper`. Natives are opaque here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.events import About
from workbench.engines.cluster.backend import Native

ESCAPED = "\0"
"""With which the names begin under which refs that were pickled keep their objects; then comes the
id, and behind another one the place in a person's code."""


def escaped_name(id: int, site: str) -> str:
    """The name under which a ref that was pickled there keeps its object."""
    return f"{ESCAPED}{id:016x}{ESCAPED}{site}"


class Named(NamedTuple):
    """An object that has a name."""

    id: int
    native: Native
    about: About | None


class Pinned(NamedTuple):
    """An object that a person wants kept, and where that was asked for."""

    id: int
    native: Native
    about: About | None
    site: str


class KeptObject(NamedTuple):
    """What keeps an object for everybody: its names, the place where it was pinned, or '', and
    those where refs to it were pickled."""

    names: tuple[str, ...]
    pinned: str
    about: About | None
    escapes: tuple[str, ...] = ()


class KeptNames:
    """See the module."""

    def __init__(self) -> None:
        self._names: dict[str, Named] = {}
        self._pinned: dict[int, Pinned] = {}

    def bind(self, name: str, id: int, native: Native, about: About | None) -> None:
        """Give an object a name, and take that from what had it."""
        self._names[name] = Named(id, native, about)

    def unbind(self, name: str) -> None:
        """Take a name away."""
        self._names.pop(name, None)

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: they have no names and pins any more."""
        for id in ids:
            self._pinned.pop(id, None)
        self._names = {name: each for name, each in self._names.items() if each.id not in ids}

    def find(self, name: str) -> Named | None:
        """What has the name."""
        return self._names.get(name)

    def named(self, beginning: str = "") -> dict[str, tuple[int, About | None]]:
        """All names that begin so."""
        return {
            name: (each.id, each.about)
            for name, each in self._names.items()
            if name.startswith(beginning)
        }

    def pin(self, id: int, native: Native, about: About | None, site: str) -> None:
        """A person wants an object kept."""
        self._pinned[id] = Pinned(id, native, about, site)

    def unpin(self, id: int) -> None:
        """No longer."""
        self._pinned.pop(id, None)

    def kept(self) -> dict[int, KeptObject]:
        """All that have names, are pinned, or are known to refs that were pickled."""
        found = {each.id: KeptObject((), each.site, each.about) for each in self._pinned.values()}
        for name, named in self._names.items():
            known = found.get(named.id, KeptObject((), "", None))
            names, escapes = known.names, known.escapes
            if name.startswith(ESCAPED):
                escapes = (*escapes, name.split(ESCAPED)[2])
            else:
                names = (*names, name)
            about = known.about or named.about
            found[named.id] = KeptObject(names, known.pinned, about, escapes)
        return found

    def identify(self, ends: str) -> list[Named]:
        """Objects that are kept and whose id in hex begins or ends so."""
        hexes = {each.id: Named(*each[:3]) for each in self._pinned.values()}
        hexes |= {each.id: each for each in self._names.values()}
        return [e for id, e in hexes.items() if f"{id:016x}".startswith(ends)
                or f"{id:016x}".endswith(ends)]  # fmt: skip
