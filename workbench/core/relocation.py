"""Objects that move between memory and disk: the copy on its way, and the old place afterwards.

`spilling` decides which object moves, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workbench.core.catalog import Catalog
from workbench.core.entry import NONE, Counts, Entry, fewer, more, without
from workbench.core.events import Value
from workbench.system.sizes import round_up


@dataclass(slots=True)
class Move:
    """A move under way. ``digest``: of the copy, once it is made; ``unwanted``: the move will be
    undone."""

    source: Value
    target: tuple[int, int]
    disk: bool
    digest: int = 0
    unwanted: bool = False
    asked_by: list[tuple[int, int]] = field(default_factory=list)  # (client, request)

    @property
    def nbytes(self) -> int:
        """Bytes that the move frees at the old place."""
        return round_up(self.source.length)


@dataclass(slots=True)
class StaleCopy:
    """An object's place before it moved: its bytes stay while a client may show them.

    ``owed``: the clients that haven't answered Moved; ``since``: when it moved.
    """

    value: Value
    owed: set[int]
    viewers: Counts
    since: float


class StaleCopies(dict[int, StaleCopy]):
    """Stale copies by object. ``on_vacated(value)`` is called when one can't be in use any more."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog
        self.on_vacated: Callable[[Value], None]

    def move(self, entry: Entry, value: Value) -> tuple[int, ...]:
        """Set an object's new place to ``value``; return the clients to send Moved.

        The old place stays until all clients with holds have answered and its views are gone. Until
        then the object doesn't move again.
        """
        assert entry.value is not None
        assert entry.id not in self
        leaving, viewers = self._catalog.leaving, entry.viewers
        for client in [client for client, views in leaving.items() if views]:
            viewers = without(viewers, client)
        holders = tuple([client for client in entry.holds if client not in leaving])
        stale = StaleCopy(entry.value, set(holders), viewers, self._catalog.now)
        entry.value, entry.viewers = value, NONE
        self._catalog.touch(entry)
        self[entry.id] = stale
        self._vacate_if_unused(entry.id, stale)
        return holders

    def noted(self, id: int, client: int) -> None:
        stale = self.get(id)
        if stale is not None:
            stale.owed.discard(client)
            self._vacate_if_unused(id, stale)

    def viewed(self, id: int, segment: int, client: int) -> Entry | None:
        """Count a client's view of the object's bytes in that segment; return the entry, if any."""
        stale, entry = self.get(id), self._catalog.get(id)
        if stale is not None and stale.value.segment == segment:
            stale.viewers = more(stale.viewers, client)
        elif entry is not None:
            self._catalog.view(entry, client)
        return entry

    def unviewed(self, id: int, segment: int, client: int) -> None:
        """Remove a view. With segment 0 ``client`` has answered Forget."""
        stale, entry = self.get(id), self._catalog.get(id)
        if stale is not None and stale.value.segment == segment:
            if client in stale.viewers:
                stale.viewers = fewer(stale.viewers, client)
                self._vacate_if_unused(id, stale)
        elif entry is not None:
            self._catalog.unview(entry, client)

    def forget_client(self, client: int, views: bool) -> None:
        """Remove a client that left; ``views``: its views, too."""
        for id, stale in list(self.items()):
            stale.owed.discard(client)
            if views:
                stale.viewers = without(stale.viewers, client)
            self._vacate_if_unused(id, stale)

    def _vacate_if_unused(self, id: int, stale: StaleCopy) -> None:
        if not stale.owed and not stale.viewers:
            del self[id]
            self.on_vacated(stale.value)
            entry = self._catalog.get(id)
            if entry is not None:
                self._catalog.rest(entry)
