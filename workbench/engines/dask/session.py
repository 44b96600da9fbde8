"""A session on a Dask cluster: `cluster.backend.Backend` over a client of Dask's."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from workbench.engines.cluster.backend import ClusterParts, Message, Sink
from workbench.engines.cluster.freeing import told
from workbench.engines.dask.abilities import CAN
from workbench.engines.dask.cluster_parts import parts_of
from workbench.engines.dask.link import SchedulerLink
from workbench.engines.dask.node_store import this_process
from workbench.engines.dask.submitting import Submitting
from workbench.engines.dask.topics import key_of, topic
from workbench.engines.dask.values import Values
from workbench.errors import SessionError, TaskCancelledError, WorkerCrashedError

_decode_batch = msgspec.msgpack.Decoder(list[Message]).decode


class DaskBackend:
    """See the module. ``client`` is a distributed.Client that isn't an event loop's.

    ``lends`` lends the slot of the task that this process runs; None in a driver.
    ``close_client``: it is ours to close. ``sink`` gets what comes, until `listen` names another.
    """

    engine = "dask"
    process = ""  # Dask says itself who has gone
    can = CAN

    def __init__(
        self,
        client: Any,
        session: str,
        joined: bool,
        lends: Callable[[], AbstractContextManager[None]] | None = None,
        close_client: bool = False,
        sink: Sink = lambda messages: None,
    ) -> None:
        self.session = session
        self.joined = joined
        self.blocks = lends is not None
        self._client = client
        self._link = SchedulerLink(client, session, lambda: self.ended)
        self.ask, self.tell, self.explain = self._link.ask, self._link.tell, self._link.explain
        self.flush = self._link.flush
        self._close_client = close_client
        self.address: str = client.scheduler.address
        self._audience = 0
        self._sink = sink
        self._values = values = Values(client, self._link, lends)
        self.put, self.contains, self.get = values.put, values.contains, values.get
        self.wait, self.lending = values.wait, values.lending
        self.on_ready, self.on_done, self.outlive = values.on_ready, values.on_done, values.outlive
        self._submitting = submitting = Submitting(client, self._link, values)
        self.submit, self.forget, self.free = submitting.submit, submitting.forget, submitting.free
        self.withdraw, self.has_begun = submitting.withdraw, submitting.has_begun
        self.stop, self.create, self.call = submitting.stop, submitting.create, submitting.call
        self.find_actor, self.actor_names = submitting.find_actor, submitting.actor_names
        self.kill_actor = submitting.kill_actor
        store = this_process()
        nodes = self._link.open(0)
        values.near = [address for address, node in nodes.items() if node == store.node]
        store.lends = store.lends or bool(values.near)
        client.subscribe_topic(topic(session, self._link.number), self._heard)
        # Dask cancels what its client waits for once that has lost the scheduler, or is closed.
        self._connected = self._link.future_of(key_of(session, "connected", secrets.randbits(64)))
        self._connected.add_done_callback(lambda _: self._lost())

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values()) if self.ended is None else 0

    # -- the keeper and the channel ----------------------------------------------------------------

    def listen(self, audience: int, sink: Sink) -> None:
        self._audience, self._sink = audience, sink
        self._link.open(audience)
        self._client.subscribe_topic(topic(self.session, audience), self._heard)

    def _heard(self, event: tuple[float, Any]) -> None:
        """On the client's event loop: what the scheduler sends us."""
        message = event[1]
        if isinstance(message, bytes):
            self._sink(_decode_batch(message))
            return
        kind, key, *rest = message
        submitting = self._submitting
        if kind == "end":
            submitting.ended(key, *rest)
        elif kind == "item":
            submitting.item(key, *rest)
        elif kind == "cancelled":
            text = "The task was stopped before it began."
            submitting.never_ends(key, TaskCancelledError(text))
        elif kind == "erred":
            submitting.never_ends(key, WorkerCrashedError(f"Dask gave the task up: {rest[0]}"))
        elif kind == "lost":
            submitting.lost(key)
        elif kind == "freed":
            self._sink(told([self._audience], key))
        elif kind == "echo":
            self._link.echoed(key)
        elif kind == "actor":
            submitting.actor_gone(key)

    # -- the whole ---------------------------------------------------------------------------------

    def parts(self) -> ClusterParts:
        return parts_of(self._link.asked("parts"))

    @property
    def ended(self) -> str | None:
        if self._values.holds.ended is None and self._client.status in ("closing", "closed"):
            self._lost()
        return self._values.holds.ended

    def _lost(self) -> None:
        """Nothing comes from the scheduler any more."""
        if self._client.status in ("closing", "closed"):
            self._end("The client of the Dask cluster is closed.")
        else:
            self._end("The connection to the Dask scheduler was lost: the session is over.")

    def _end(self, why: str) -> None:
        self._values.holds.end_all(why, SessionError(why))
        self._submitting.end()

    def close(self, goodbye: bool) -> None:
        if self._values.holds.ended is None:
            with contextlib.suppress(Exception):
                for number in filter(None, (self._link.number, self._audience)):
                    self._client.unsubscribe_topic(topic(self.session, number))
                self._link.asked(
                    "leave", 10.0, session=self.session, number=self._link.number,
                    audience=self._audience, goodbye=goodbye,
                )  # fmt: skip
            self._end("This process has left the session.")
        self._values.close()
        if self._close_client:
            self._client.close()
