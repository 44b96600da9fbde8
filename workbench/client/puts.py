"""Puts: a value's way into the store: encoded, placed, and the server told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.call_site import call_site
from workbench.client.connection import Connection
from workbench.client.marshal import Encoded, Marshal, Parts
from workbench.client.object_store import Claims, LocalStore
from workbench.client.objects import Objects
from workbench.client.reference_counter import ReferenceCounter
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.ki_protection import ki_protection
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.task_context import TaskContext


class Puts:
    """See the module. Until the server knows of an extent, only the list of claims does.

    Parameters
    ----------
    connection, handles, objects, store, marshal
        This process's own.
    next_id : callable() → int
        A fresh id.
    running : Running
        Which task the caller belongs to.
    """

    def __init__(
        self,
        connection: Connection,
        handles: ReferenceCounter,
        objects: Objects,
        store: LocalStore,
        marshal: Marshal,
        next_id: Callable[[], int],
        running: TaskContext[do.Run],
    ) -> None:
        self._connection = connection
        self._references = handles
        self._objects = objects
        self._store = store
        self._marshal = marshal
        self._next_id = next_id
        self._running = running

    def put(
        self, value: Any, name: str, parts: Parts, what: str = ""
    ) -> tuple[ObjectRef, Encoded, ev.About]:
        """Store a value.

        Parameters
        ----------
        value : object
        name : str
            In the store; may be empty.
        parts : callable() → mapping of name → value
            What to look through for the cause, should it fail.
        what : str
            What it is, to people; by default what it looks like.
        """
        claims: Claims = []
        try:
            encoded = self._marshal.encode(value, claims, parts)
            about = encoded.about(what or codec.describe(value), call_site(self._running.name))
            return self.seal(encoded.stored, about, claims, name), encoded, about
        except BaseException:
            self._store.give_back(claims)
            raise

    def seal(self, stored: ev.Value, about: ev.About, claims: Claims, name: str = "") -> ObjectRef:
        """Tell the server of an object whose bytes are in place."""
        id = self._next_id()
        with ki_protection():
            ref = self._references.new(id)
            self._objects.values[id] = stored
            self._connection.send(ev.Sealed(id, stored, about, name))
            claims.clear()  # the server's business now
        if name:
            self._connection.flush()  # whoever we tell of the name will find it
        return ref

    def hand_out(self, run: do.Run, item: Any) -> None:
        """In a worker: give the next item of the running stream to its reader."""
        claims: Claims = []
        try:
            encoded = self._marshal.encode(item, claims, lambda: {f"an item of {run.name}": item})
            about = encoded.about_large(item, f"item of {run.name}")
            id = self._next_id()
            with ki_protection():
                self._connection.send(ev.Yielded(run.task, id, encoded.stored, about))
                claims.clear()  # the server's business now
        except BaseException:
            self._store.give_back(claims)
            raise

    def unclaim(self, claims: Claims) -> None:
        """Give back extents that no object will lie in."""
        self._store.give_back(claims)
