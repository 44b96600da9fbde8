"""Client: the Engine of one session's server, put together from its parts.

Threads: any may call the public methods; messages are handled in whichever reads the socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from workbench import context
from workbench.client.base import ClientBase
from workbench.client.object_store import ObjectStore
from workbench.client.referrer_search import find_referrers
from workbench.client.role import Role
from workbench.client.submitter import ARGUMENTS, Submitter
from workbench.client.subscriptions import Subscription, measured
from workbench.client.survey import Places, main_variables, survey
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import ObjectDescription
from workbench.core.snapshot import A_RESULT, ACTOR_PREFIX, Change, Snapshot
from workbench.engine.base import Abilities, CollectedJob, Engine, Running, Shown
from workbench.engine.lending_future import Lending
from workbench.engine.tally import CallTally
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Reducer
from workbench.serialization.registry import Custom
from workbench.system.ki_protection import ki_protection


class Client:
    """A session, seen from one of its processes: an `Engine`, but for what a notebook sets on it.

    What each method does is said in `engine.base`. Most are those of its parts, named in
    ``__init__``.
    """

    can = Abilities()
    system = "local"
    inherits = False  # of a driver that started the session it is True

    def __init__(self, base: ClientBase, role: Role) -> None:
        base.references.engine = cast(Engine, self)  # what is missing, only notebooks use
        self._base = base
        self._role = role
        self.session = base.session  # an attribute, for it is read once for each ref in a pickle
        self.connection = base.connection
        self.objects = base.objects
        self._requests = requests = base.requests
        self._subscriptions: dict[int, Subscription] = {}  # by number

        store = ObjectStore(base, role)
        self.put, self.get, self.wait, self.peek = store.put, store.get, store.wait, store.peek
        self.compare, self.put_from = store.compare, store.put_from
        self.future, self.arrivals = store.future, store.arrivals
        self.pin, self.free, self.spill = store.pin, store.free, store.spill
        self.borrow, self.escaped = store.borrow, store.escaped
        self.find, self.name, self.unname = store.find, store.name, store.unname
        self.wait_for_item, self.next_item = store.wait_for_item, store.next_item
        self.took = base.generators.took
        self.state, self.stored_as = base.objects.state, base.objects.stored_as
        self.copy_speed, self.copying = base.arena.copy_speed, base.arena.copying
        self.huge_pages = base.arena.huge_pages
        base.arena.held = self.held

        tasks = Submitter(base, store, role)
        self.submit, self.create, self.call = tasks.submit, tasks.create, tasks.call
        self.cancel, self.withdraw, self.has_begun = tasks.cancel, tasks.withdraw, tasks.has_begun
        self.find_actor, self.kill_actor = tasks.find_actor, tasks.kill_actor
        self.actor_of, self.together = tasks.actor_of, base.connection.together

        self.tally: Callable[[], CallTally | None] = role.tally

        self.overview, self.interrupt = requests.overview, requests.interrupt
        self.why, self.summary, self.settle = requests.why, requests.summary, requests.settle
        self.jobs, self.shown_by = requests.jobs, requests.shown_by
        self.mimebundle = context.mimebundle
        self.abandon, self.pack = base.abandon, base.marshal.pack
        base.handlers |= {
            do.Explain: self._explain,
            do.Collected: self._collected,
            do.Changed: self._changed,
        }
        base.at_end.append(self._ended)

    def waiting(
        self, refs: Sequence[ObjectRef] = (), some: bool = False
    ) -> AbstractContextManager[None]:
        ids = [ref.id for ref in refs]
        return self._role.blocking(lambda: ids, 1 if some else 0)

    @property
    def lending(self) -> Lending | None:
        return self._role.lending

    # -- objects ------------------------------------------------------------------------------

    def describe(self, ref: ObjectRef, patient: bool = False) -> ObjectDescription | None:
        return self._requests.describe(ref.id, patient)

    def shown(self, array: Any) -> Shown | None:
        id = self.objects.shown(array, self._role.task)
        if not id:
            return None if id is None else Shown(0, (), "")
        described = self._requests.describe(id)
        if described is None:
            return Shown(id, (), "")
        record = described.object
        if record.about is not None and record.about.type == ARGUMENTS:
            return Shown(0, (), "")
        return Shown(id, record.names, record.about.type if record.about else A_RESULT)

    def identify(self, text: str) -> ObjectRef | None:
        id = self._requests.identify(text)
        return None if id is None else self.borrow(id)

    def names(self, beginning: str = "") -> list[str]:
        names = self._requests.names(beginning)
        return sorted(name for name in names if not name.startswith(ACTOR_PREFIX))

    @property
    def namespace(self) -> str:
        return self._role.namespace

    def actor_names(self) -> list[str]:
        names = self._requests.names(ACTOR_PREFIX)
        return sorted(name.removeprefix(ACTOR_PREFIX) for name in names)

    def running(self) -> Running:
        role, worker = self._role, self._base.worker
        run = role.task
        if run is None:
            return Running(worker, actor=role.actor, restarted=role.is_restarted)
        cpus = 0.0 if role.actor else (run.spec or ev.USUAL).cpus / ev.USUAL.cpus
        return Running(worker, run.task, run.name, role.actor, cpus, role.is_restarted)

    # -- custom serializers ---------------------------------------------------------------------

    def register(
        self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
    ) -> None:
        self.connection.check_open()
        if cls is ObjectRef:
            raise TypeError("An ObjectRef has its own serializer: what it refers to stays alive.")
        custom = Custom(cls, serializer, deserializer)
        parts = {cls.__name__: cls, "serializer": serializer, "deserializer": deserializer}
        marshal = self._base.marshal
        payload = marshal.inline((cls, serializer, deserializer), lambda: parts)
        with ki_protection():  # nobody shall know it alone
            number = marshal.registry.add(custom, self._base.next_id)
            self.connection.send(ev.Register(number, payload))

    def deregister(self, cls: type) -> None:
        with ki_protection():
            number = self._base.marshal.registry.remove(cls)
            if number is not None:
                self.connection.send(ev.Register(number, b""))

    def reducers(self) -> Mapping[type, Reducer]:
        return self._base.marshal.reducers([])

    # -- the session --------------------------------------------------------------------------

    def wait_welcome(self) -> None:
        """Wait until the server has said which session this is."""
        self._base.wait_welcome()
        self.session = self._base.session

    @property
    def workers(self) -> int:
        return self._base.workers

    @property
    def capacity(self) -> int:
        return self._base.capacity

    @property
    def ended(self) -> str | None:
        return self.connection.ended

    def snapshot(self) -> Snapshot:
        return measured(self._requests.snapshot())

    def search(self, pattern: str, order: str, most: int) -> Change:
        return self._requests.search(ev.Search(pattern, order, most))

    def changes(self) -> Subscription:
        self.connection.check_open()
        number = self._requests.number()
        made = self._subscriptions[number] = Subscription(
            number, self._tell, lambda n: self._subscriptions.pop(n, None)
        )
        if self.connection.ended is not None:  # just now: `_ended` may not have seen this one
            made.came(None)
        return made

    def held(self) -> dict[int, Places]:
        return survey(self.objects.held_by, {**main_variables(), **self._role.roots()})

    def held_in(self, value: Any, name: str) -> dict[int, Places]:
        return survey(self.objects.held_by, {name: value})

    def refresh(self) -> None:
        self.connection.post(ev.Refresh())

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        origin = self._role.origin()
        found: CollectedJob | None = self._requests.ask(
            lambda request: ev.Collect(request, job, origin, name)
        )
        return found

    def keep(self, linger: float) -> None:
        self.connection.check_open()
        self.connection.send(ev.Keep(linger))
        self.connection.flush()

    def close(self, goodbye: bool = True) -> None:
        self._base.close(goodbye)

    def _tell(self, message: ev.Event) -> None:
        if self.connection.ended is None:
            self.connection.send(message)
            self.connection.flush()

    # -- the reading thread -----------------------------------------------------------------------

    def _explain(self, message: do.Explain) -> None:
        # In a thread of its own: it may take a while, and whoever waits can be interrupted.
        name = "workbench-referrers"
        threading.Thread(target=self._find, args=(message,), name=name, daemon=True).start()

    def _find(self, message: do.Explain) -> None:
        found: tuple[Any, ...] = ((), False)
        try:
            found = find_referrers(
                self.objects.kept(message.object), self._role.roots(), message.deep
            )
        finally:  # also if something hostile was in the way
            self.connection.post(ev.Explained(message.inquiry, *found))

    def granted(self, results: tuple[int, ...]) -> list[ObjectRef | None]:
        """Handles to what the server holds for this process from now on; None for 0."""
        with self.objects.lock:
            grant = self._base.references.grant
            return [grant(id) if id else None for id in results]

    def _collected(self, message: do.Collected) -> None:
        results = self.granted(message.results)
        found = None if message.job is None else CollectedJob(message.job, results)
        self._requests.answer(message.request, found)

    def _changed(self, message: do.Changed) -> None:
        if message.request in self._subscriptions:
            self._subscriptions[message.request].came(message.change)
        else:
            self._requests.answer(message.request, message.change)

    def _ended(self, reason: str) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.came(None)
