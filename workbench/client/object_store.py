"""Operations on objects: put, get, wait, free, pin, name. Doesn't know where bytes lie."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from workbench import context
from workbench.call_site import call_site, name_of
from workbench.client.arena_writer import Claims
from workbench.client.base import ClientBase
from workbench.client.completion_queue import CompletionQueue
from workbench.client.marshal import ByRef, Encoded, Parts
from workbench.client.objects import chunks
from workbench.client.role import Role
from workbench.core import events as ev
from workbench.engine.base import Copying, Waitable, check_storable, first_ready, late
from workbench.engine.lending_future import Missing, new_future, waiting
from workbench.errors import SessionError, StoreFullError
from workbench.expressions import describe
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator
from workbench.serialization.comparison import ChangeCheck, Comparison
from workbench.system.ki_protection import ki_protection

LARGE = 1 << 20
"""Least bytes of an object for which the value that it was made from is remembered."""

MOST = 1_000
"""Most values remembered."""

SOON = 0.001
"""Seconds in which most calls by a line from a worker are answered."""

EACH = 0.00005
"""Seconds more for each unanswered call: telling the server of it costs all processes as much. The
server has to know all calls before it hears that their task waits."""


class ObjectStore:
    """The part of an engine about objects: `engine.base.Engine` describes the methods.

    Until the server knows of an extent, only the list of claims does.
    """

    def __init__(self, base: ClientBase, role: Role) -> None:
        self._base = base
        self._role = role
        self._connection = base.connection
        self._references = base.references
        self._objects = base.objects
        self._generators = base.generators
        self._check_refs = base.check_refs
        # Large ones, by their address. A dead one stays until another value has its address.
        self._put: OrderedDict[int, tuple[weakref.ref[Any], int]] = OrderedDict()
        self.when_full: set[Callable[[], bool]] = set()
        """See `queries.WhenFull`."""

    # -- putting ------------------------------------------------------------------------------

    def put(self, value: Any, name: str = "") -> tuple[ObjectRef, ev.About]:
        self._connection.check_open()
        check_storable(value)
        ref, _, about = self.store(value, name, lambda: {name or name_of(value): value})
        if about.inband + about.outband >= LARGE:
            self._note(value, ref)
        return ref, about

    def _note(self, value: Any, ref: ObjectRef) -> None:
        try:
            self._put[id(value)] = weakref.ref(value), ref.id
        except TypeError:  # no weak reference: its end couldn't be seen
            return
        if len(self._put) > MOST:
            self._put.popitem(last=False)  # in one step: other threads put, too

    def stored_as(self, value: Any, changed: bool) -> ObjectRef | None:
        if not changed:
            return self._objects.stored_as(value)
        found, id_ = self._put.get(id(value), (None, 0))
        if found is None or found() is not value:
            return None
        return self._references.find(id_)

    def store(
        self,
        value: Any,
        name: str,
        parts: Parts,
        what: str = "",
        by_ref: ByRef = None,
    ) -> tuple[ObjectRef, Encoded, ev.About]:
        """Store any value. ``what``: its description for people; else see `Marshal.encode`."""
        claims: Claims = []
        try:
            encoded = self._base.marshal.encode(value, claims, parts, by_ref)
            about = encoded.about(what or describe(value), self.site())
            ref = self._base.seal(encoded.stored, about, claims, name)
            if name:
                self._confirm()
            return ref, encoded, about
        except BaseException as error:
            self._base.arena.withdraw(claims)
            if not isinstance(error, StoreFullError) or not self._makes_room():
                raise
        return self.store(value, name, parts, what, by_ref)

    def _makes_room(self) -> bool:
        """Let go of what others can do without; True if there was any."""
        if True not in {let_go() for let_go in tuple(self.when_full)}:
            return False
        self._base.requests.catch_up()  # what that frees is there then
        return True

    def _confirm(self) -> None:
        """Wait until the server has handled all that was sent: then others find the name."""
        self._base.requests.ask(ev.Ask)

    def site(self) -> str:
        """Return where in a person's code the call stands."""
        run = self._role.task
        return call_site("" if run is None else run.name)

    # -- reading and waiting --------------------------------------------------------------------

    def get(self, refs: Sequence[ObjectRef], timeout: float | None, copy: Copying) -> list[Any]:
        values = self._objects.values
        ids = [ref.id for ref in refs]
        if all(map(values.__contains__, ids)):
            self._role.listener.flush()
        else:
            self._check_refs(refs)
            self._objects.request(ids)
            missing = {id for id in ids if id not in values}
            if not self._wait(self._objects.are_known(ids), timeout, lambda: missing, len(missing)):
                left = sum(id not in values for id in ids)
                raise late(left, len(ids), timeout)
            failed = self._objects.failed(ids)
            ids = ids if failed is None else [failed]  # which raises; others may not be there
        return [self._objects.load(id, copy) for id in ids]

    def wait(
        self, refs: Sequence[Waitable], num_returns: int, timeout: float | None
    ) -> tuple[list[Waitable], list[Waitable]]:
        engine = self._references.engine
        foreign = [ref for ref in refs if ref._engine is not engine]
        self._check_refs([r if isinstance(r, ObjectRef) else r.completed() for r in foreign])
        values = self._objects.values
        readers = [ref for ref in refs if type(ref) is ObjectRefGenerator]
        has_item = {reader.id: self._generators.ready(reader) for reader in readers}

        def is_ready(id: int) -> bool:
            return id in values or (id in has_item and has_item[id]())

        ids = [ref.id for ref in refs]
        known = is_ready if has_item else values.__contains__
        chosen = first_ready(refs, map(known, ids), num_returns)
        if len(chosen[0]) == num_returns:
            self._role.listener.flush()
            return chosen
        for reader in readers:
            reader.report_taken()  # its task may wait for this
        pending = ids
        self._objects.request(pending)
        enough = len(refs) - num_returns

        def done() -> bool:
            nonlocal pending
            pending = [id for id in pending if not is_ready(id)]
            return len(pending) <= enough

        def missing() -> list[int]:
            return [id for id in pending if not is_ready(id)]

        # The server doesn't count items of generators: more than all means "until `Unblocked`".
        left = len(refs) + 1 if readers else len(missing()) - enough
        self._wait(done, timeout, missing, left)
        return first_ready(refs, map(is_ready, ids), num_returns)

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        self._check_refs([stream.completed()])
        item = stream.received + 1
        self._wait(self._generators.ready(stream), None, lambda: (stream.id,), 1, item)

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        self._check_refs([stream.completed()])
        id = stream.id
        future = self._new_future(lambda: (id,), stream.received + 1)
        return self._generators.next(stream, future)

    def arrivals(self, refs: Iterable[ObjectRef]) -> CompletionQueue:
        found = CompletionQueue(
            self._check_refs, self._objects, self._wait, self._new_future, self._connection.flush
        )
        found.add(refs)
        return found

    def future(self, ref: ObjectRef) -> Future[Any]:
        self._check_refs([ref])
        id = ref.id
        return self._objects.resolve(self._new_future(lambda: (id,)), ref)

    def _new_future(self, missing: Missing, item: int = 0) -> Future[Any]:
        return new_future(self._role.lending, missing, item)

    def peek(self, ref: ObjectRef) -> Any:
        known = partial(self._objects.values.__contains__, ref.id)
        if not known():
            try:
                self._objects.request([ref.id])
                seconds = self._base.requests.glance
                if not self._connection.wait_for(known, seconds):
                    raise LookupError(f"it didn't come within {seconds:g} s")
            except SessionError:
                raise LookupError("it isn't here") from None
        return self._objects.peek(ref.id)

    def compare(self, ref: ObjectRef, value: Any, check: ChangeCheck, spent: float) -> Comparison:
        if ref.id not in self._objects.values:
            raise LookupError("it isn't here")
        contents = self._objects.contents(ref.id)
        return check.run(value, contents, self._base.marshal.reducers([]), spent)

    def _wait(
        self,
        done: Callable[[], bool],
        timeout: float | None,
        missing: Missing,
        enough: int = 0,
        item: int = 0,
    ) -> bool:
        if done():
            is_done = True
        elif timeout is not None and timeout <= 0:
            self._base.requests.ask(ev.Ask)  # what the server knows comes before its answer
            if not done() and (lending := self._role.lending) is not None:
                lending.polled(missing())
            is_done = done()
        elif self._base.worker and self._is_soon(done, timeout):
            is_done = True
        else:
            with waiting(self._role.lending, missing, enough, item):
                is_done = self._connection.wait_for(done, timeout)
        self._role.listener.flush()
        return is_done

    def _is_soon(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """True if answers by lines come before lending the slot would be worth it."""
        ahead = self._base.lines.ahead
        soon = SOON + EACH * ahead if timeout is None else min(SOON + EACH * ahead, timeout)
        return ahead > 0 and self._connection.wait_for(done, soon)

    # -- what keeps objects -------------------------------------------------------------------

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        self._check_refs([ref])
        self._connection.send(ev.Pin(ref.id, site or self.site(), on))
        self._connection.flush()

    def spill(self, ref: ObjectRef) -> str:
        self._check_refs([ref])
        return self._base.requests.ask_for("spill", ref.id).text

    def free(self, refs: Sequence[ObjectRef]) -> None:
        self._check_refs(refs)
        for chunk in chunks([ref.id for ref in refs]):
            self._connection.send(ev.Free(chunk))
            self._objects.freed(chunk)

    def borrow(self, id: int) -> ObjectRef:
        with self._objects.lock, ki_protection():
            ref = self._references.find(id)
            if ref is None:
                self._connection.post(ev.Hold((id,)))
                ref = self._references.new(id)
            return ref

    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]:
        if self._connection.end_reason is None:
            self._connection.post(ev.Escape(ref.id, self.site()))
        return context.restore, (ref.id, self._base.session)

    # -- names --------------------------------------------------------------------------------

    def find(self, name: str, or_id: bool = False) -> ObjectRef | None:
        requests = self._base.requests
        ref: ObjectRef | None = requests.ask(lambda request: ev.Find(request, name))
        if ref is None and or_id and (id := requests.identify(name)):
            return self.borrow(id)
        return ref

    def name(self, ref: ObjectRef | None, name: str) -> None:
        if ref is not None:
            self._check_refs([ref])
        self._connection.send(ev.Bind(name, 0 if ref is None else ref.id))
        self._confirm()
