"""Objects that move between memory and disk: the copy on its way, and the old place afterwards.

Which object moves, and when, `spilling` decides.
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
    """An object on its way. ``digest``: that of the copy, once it is made; ``unwanted``: nobody
    needs that any more."""

    source: Value
    target: tuple[int, int]
    disk: bool
    digest: int = 0
    unwanted: bool = False
    asked_by: list[tuple[int, int]] = field(default_factory=list)  # (client, request)

    @property
    def nbytes(self) -> int:
        """What it frees where it was."""
        return round_up(self.source.length)


@dataclass(slots=True)
class StaleCopy:
    """Where an object was before it moved: its bytes stay while anybody may show them.

    ``owed`` are the clients that haven't taken note of the new place; ``since`` when it moved.
    """

    value: Value
    owed: set[int]
    viewers: Counts
    since: float


class StaleCopies(dict[int, StaleCopy]):
    """By object. ``on_vacated(value)`` is called when nobody shows the old place any more."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog
        self.on_vacated: Callable[[Value], None]

    def move(self, entry: Entry, value: Value) -> tuple[int, ...]:
        """The object's bytes are at ``value`` now; returns who must be told.

        Those who may know the old place, by their own holds, are counted until they have taken
        note; so are the views of it. Until then the object doesn't move again.
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
        self._settle(entry.id, stale)
        return holders

    def noted(self, id: int, client: int) -> None:
        stale = self.get(id)
        if stale is not None:
            stale.owed.discard(client)
            self._settle(id, stale)

    def viewed(self, id: int, segment: int, client: int) -> Entry | None:
        """``client`` has a view of the object's bytes in that segment; the object, if there."""
        stale, entry = self.get(id), self._catalog.get(id)
        if stale is not None and stale.value.segment == segment:
            stale.viewers = more(stale.viewers, client)
        elif entry is not None:
            self._catalog.view(entry, client)
        return entry

    def unviewed(self, id: int, segment: int, client: int) -> None:
        """That view is gone; segment 0: ``client`` has answered Forget."""
        stale, entry = self.get(id), self._catalog.get(id)
        if stale is not None and stale.value.segment == segment:
            if client in stale.viewers:
                stale.viewers = fewer(stale.viewers, client)
                self._settle(id, stale)
        elif entry is not None:
            self._catalog.unview(entry, client)

    def forget_client(self, client: int, views: bool) -> None:
        """The client is gone, and knows no place any more; ``views``: nor does it show any."""
        for id, stale in list(self.items()):
            stale.owed.discard(client)
            if views:
                stale.viewers = without(stale.viewers, client)
            self._settle(id, stale)

    def _settle(self, id: int, stale: StaleCopy) -> None:
        if not stale.owed and not stale.viewers:
            del self[id]
            self.on_vacated(stale.value)
            entry = self._catalog.get(id)
            if entry is not None:
                self._catalog.rest(entry)
