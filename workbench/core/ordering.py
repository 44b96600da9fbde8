"""Messages that later calls and tasks must not overtake, by a line or a lease either. The client
and the server both use this table."""

from __future__ import annotations

from workbench.core import events as ev

MUST_NOT_OVERTAKE = frozenset(
    {
        ev.Bind, ev.Free, ev.Register, ev.Refresh, ev.Escape, ev.Pin, ev.Cancel, ev.KillActor,
        ev.Interrupt, ev.Keep, ev.Create, ev.EndSession,
    }
)  # fmt: skip
"""They change what later calls may use: a name, a serializer, an actor."""
