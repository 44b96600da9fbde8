"""A subscriber to a session, and what it knows: the test's twin of `core.subscriptions`."""

from __future__ import annotations

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core.session import Session
from workbench.core.snapshot import Change, ObjectRecord, Snapshot
from workbench.core.snapshot_builder import take_snapshot


class Follower:
    """Adds up changes. ``waits``: it has asked, so nothing may be kept from it."""

    def __init__(self) -> None:
        self.objects: dict[int, ObjectRecord] = {}
        self.session: Snapshot | None = None
        self.waits = False

    def ask(self) -> ev.Subscribe:
        self.waits = True
        return ev.Subscribe(1)

    def hear(self, change: Change) -> None:
        assert self.waits, "told without being asked"
        self.waits = False
        for id in change.gone:
            assert id in self.objects, "told the end of what it never heard of"
            del self.objects[id]
        self.objects.update((record.id, timeless(record)) for record in change.objects)
        self.session = change.session
        assert not change.left

    def check(self, session: Session) -> None:
        """Whoever waits knows all there is."""
        if self.waits and self.session is not None:
            now = {record.id: timeless(record) for record in take_snapshot(session.state).objects}
            assert self.objects == now


def timeless(record: ObjectRecord) -> ObjectRecord:
    return replace(record, age=0.0)
