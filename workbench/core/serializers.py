"""Component: custom serializers, which all workers use. Their payload is opaque."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core.state import ClientState, State


class Serializers:
    def __init__(self, state: State) -> None:
        self._state = state
        self._payloads: dict[int, bytes] = {}  # by the number its driver gave it
        self.orphaned: dict[int, int] = {}  # drivers that left and had some → their prefix

    def register(self, client: ClientState, event: ev.Register) -> None:
        """Register or remove a serializer. Workers are told before any task submitted after it."""
        if not self._state.owns(client, event.serializer):
            return
        self._payloads.pop(event.serializer, None)
        if event.payload:
            self._payloads[event.serializer] = event.payload
        self._tell(event, but=client.number)

    def tell_all(self, worker: int) -> None:
        """Send all registered serializers to a new worker, before any task."""
        for serializer, payload in self._payloads.items():
            self._state.send(worker, ev.Register(serializer, payload))

    def on_client_left(self, client: ClientState) -> None:
        """Note that a driver has left: its serializers are removed after its last task."""
        if not client.worker and self._made_by(client.hello.prefix):
            self.orphaned[client.number] = client.hello.prefix

    def end_batch(self) -> None:
        """Remove the serializers of drivers that have left and have no tasks any more."""
        for number in [n for n in self.orphaned if n not in self._state.scheduler.tasks.owners]:
            for serializer in self._made_by(self.orphaned.pop(number)):
                del self._payloads[serializer]
                self._tell(ev.Register(serializer, b""))

    def _made_by(self, prefix: int) -> list[int]:
        return [s for s in self._payloads if s >> ev.ID_BITS == prefix]

    def _tell(self, event: ev.Register, but: int = 0) -> None:
        for worker in self._state.scheduler.by_client:
            if worker != but:
                self._state.send(worker, event)
