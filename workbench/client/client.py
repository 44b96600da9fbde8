"""Client: the Engine of one session's server, put together from its parts.

Threads: any may call the public methods; messages are handled in whichever reads the socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from workbench import context
from workbench.client.base import ClientBase
from workbench.client.object_store import ObjectStore
from workbench.client.referrer_search import find_referrers
from workbench.client.role import Role
from workbench.client.search_budget import SearchBudget
from workbench.client.submitter import Submitter
from workbench.client.subscriptions import Subscription, measured
from workbench.client.survey import held
from workbench.client.value_holders import holders_of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import A_RESULT, Snapshot
from workbench.engine import queries
from workbench.engine.base import Abilities, CollectedJob, Engine, SessionFacts, Shown
from workbench.engine.lending_future import Lending
from workbench.engine.queries import Answering
from workbench.ref import ObjectRef
from workbench.serialization.registry import Custom, Function
from workbench.system.ki_protection import ki_protection


class Client(Answering):
    """A session, seen from one of its processes: an `Engine` without what only drivers need.

    `engine.base` describes each method. Most are methods of its parts, bound in ``__init__``, as
    is who answers which query.
    """

    can = Abilities()
    facts = SessionFacts()

    def __init__(self, base: ClientBase, role: Role) -> None:
        base.references.engine = cast(Engine, self)  # only drivers need what is missing
        self._base = base
        self._role = role
        self.session = base.session  # an attribute, for it is read once for each ref in a pickle
        self.listener = role.listener
        self.connection = base.connection
        self.objects = base.objects
        self._requests = requests = base.requests
        self._subscriptions: dict[int, Subscription] = {}  # by number

        store = ObjectStore(base, role)
        self.put, self.get, self.wait = store.put, store.get, store.wait
        self.future, self.arrivals, self.state = store.future, store.arrivals, base.objects.state
        self.pin, self.free, self.spill = store.pin, store.free, store.spill
        self.borrow, self.escaped, self.name = store.borrow, store.escaped, store.name
        self.wait_for_item, self.next_item = store.wait_for_item, store.next_item
        self.took = base.generators.took

        tasks = Submitter(base, store, role)
        self.submit, self.create, self.call = tasks.submit, tasks.create, tasks.call
        self.cancel, self.kill_actor = tasks.cancel, tasks.kill_actor
        self.together, self.interrupt = base.connection.together, requests.interrupt
        self.mimebundle: Callable[[object], dict[str, str]] = context.mimebundle
        self.abandon = base.abandon

        here = partial(held, base.objects.held_by, lambda: role.listener.roots())
        self.answers = {
            queries.Summary: requests.summary,
            queries.Matching: requests.search,
            queries.CaughtUp: requests.catch_up,
            queries.Jobs: lambda: requests.ask_for("jobs").jobs,
            queries.Outputs: lambda job: requests.ask_for("log", job).outputs,
            queries.Capacity: lambda: base.capacity,
            queries.HugePages: base.arena.huge_pages,
            queries.Lookup: store.find,
            queries.Names: requests.names,
            queries.Reasons: requests.why,
            queries.Describe: requests.describe,
            queries.Withdraw: lambda task: requests.ask_for("withdraw", task).text == "waiting",
            queries.Peek: store.peek,
            queries.Here: role.here,
            queries.Held: here,
            queries.Keepers: holders_of,
            queries.ShownBy: self._shown,
            queries.StoredAs: store.stored_as,
            queries.WhenFull: store.when_full.add,
            queries.Compare: store.compare,
            queries.Pack: base.marshal.pack,
            queries.OwnReducers: lambda: base.marshal.reducers([]),
            queries.PutProgress: base.arena.copying,
            queries.CopySpeed: base.arena.copy_speed,
        }
        base.arena.held = base.objects.held = here
        base.handlers |= {
            do.Explain: self._explain,
            do.Collected: self._collected,
            do.Changed: self._changed,
        }
        base.at_end.append(self._ended)

    @property
    def lending(self) -> Lending | None:
        return self._role.lending

    def _shown(self, array: Any) -> Shown | None:
        id = self.objects.shown(array, self._role.task)
        if id is None:
            return None
        described = self._requests.describe(id)
        if described is None:
            return Shown(id, (), "")
        record = described.object
        return Shown(id, record.names, record.about.type if record.about else A_RESULT)

    def register(self, cls: type, by: tuple[Function, Function] | None) -> None:
        marshal, number, payload = self._base.marshal, None, b""
        if by is not None:
            self.connection.check_open()
            custom = Custom(cls, *by)
            payload = marshal.inline((cls, *by), custom.parts)
        with ki_protection():  # this process and the server both know it, or neither
            if by is None:
                number = marshal.registry.remove(cls)
            else:
                number = marshal.registry.add(custom, self._base.next_id)
            if number is not None:
                self.connection.send(ev.Register(number, payload))

    # -- the session --------------------------------------------------------------------------

    def wait_welcome(self) -> None:
        """Wait until the server has said which session this is."""
        self._base.wait_welcome()
        self.session = self._base.session

    @property
    def workers(self) -> int:
        return self._base.workers

    @property
    def end_reason(self) -> str | None:
        return self.connection.end_reason

    def snapshot(self) -> Snapshot:
        return measured(self._requests.snapshot())

    def changes(self) -> Subscription:
        self.connection.check_open()
        number = self._requests.number()
        made = self._subscriptions[number] = Subscription(
            number, self._tell, lambda n: self._subscriptions.pop(n, None)
        )
        if self.connection.end_reason is not None:  # just now: `_ended` may not have seen this one
            made.came(None)
        return made

    def refresh(self) -> None:
        self.connection.post(ev.Refresh())

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        origin = self._role.listener.origin()
        found: CollectedJob | None = self._requests.ask(
            lambda request: ev.Collect(request, job, origin, name)
        )
        return found

    def close(self, goodbye: bool = True) -> None:
        self._base.close(goodbye)

    def _tell(self, message: ev.Event) -> None:
        if self.connection.end_reason is None:
            self.connection.send(message)
            self.connection.flush()

    # -- the reading thread -----------------------------------------------------------------------

    def _explain(self, message: do.Explain) -> None:
        # In another thread: the search may take a while, and people can interrupt their waiting.
        name = "workbench-referrers"
        threading.Thread(target=self._find, args=(message,), name=name, daemon=True).start()

    def _find(self, message: do.Explain) -> None:
        found: tuple[Any, ...] = ((), False)
        kept, roots = self.objects.kept(message.object), self._role.listener.roots()
        try:
            budget = SearchBudget(message.deep, partial(self._looks, message))
            found = find_referrers(kept, roots, budget)
        finally:  # also if an object's own code raised
            self.connection.post(ev.Explained(message.inquiry, *found))

    def _looks(self, message: do.Explain, looked_at: int) -> None:
        self.connection.post(ev.Explained(message.inquiry, (), False, looked_at, done=False))

    def granted(self, results: tuple[int, ...]) -> list[ObjectRef | None]:
        """Return handles of objects that the server now holds for this process; None for 0."""
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
