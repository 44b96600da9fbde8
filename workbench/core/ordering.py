"""Which messages a later call or task must come behind, whichever way it goes. Client and server
both go by this: a line or a lease must not overtake them."""

from __future__ import annotations

from workbench.core import events as ev

SPOKEN = frozenset(
    {
        ev.Bind, ev.Free, ev.Register, ev.Refresh, ev.Escape, ev.Pin, ev.Cancel, ev.KillActor,
        ev.Interrupt, ev.Keep, ev.Create, ev.EndSession,
    }
)  # fmt: skip
"""What they change may matter to whatever is called afterwards: a name, a serializer, an actor."""
