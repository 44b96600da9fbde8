"""What a session must do, the naive way: everything is worked out anew after each event.

No counts are kept up to date and no decision is made here. Where the real session may choose
(which worker, how many at a time), the machine that plays against both checks what it chose."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.catalog import MOST_SITES
from workbench.core.events import ID_BITS
from workbench.core.lifetime import ALONE_AT_START
from workbench.core.loop_events import Left, Tick, WorkerExited, WorkerForked
from workbench.core.pool import KILLS, MOST_STARTUP_FAILURES
from workbench.core.session import Session
from workbench.core.snapshot import Change, ObjectRecord, Snapshot
from workbench.core.snapshot_builder import take_snapshot


def plain(value: ev.Value | None) -> object:
    """A value as it is compared: of a refusal of the core's only the code."""
    if value is not None and value.header.startswith(b"!"):
        return value.header.split(b"\n")[0]
    return value


@dataclass
class Object:
    """One object."""

    state: str = "pending"
    value: ev.Value | None = None
    holds: Counter[int] = field(default_factory=Counter)  # by client
    views: Counter[int] = field(default_factory=Counter)
    escapes: tuple[str, ...] = ()
    pinned: str = ""
    seconds: float = 0.0

    @property
    def told_state(self) -> str:
        """In the snapshot's words."""
        failed = self.state == "ready" and self.value is not None and self.value.failed
        return "failed" if failed else self.state


@dataclass
class Job:
    """One task that isn't done. ``worker``: the number of the one it was sent to."""

    submit: ev.Submit
    owner: int
    pins: list[int]
    worker: int = 0
    attempts: int = 0

    @property
    def results(self) -> range:
        return range(self.submit.task, self.submit.task + self.submit.returns)


@dataclass
class Hand:
    """One worker process."""

    client: int = 0
    blocked: int = 0
    recalled: bool = False
    sent: list[int] = field(default_factory=list)


def lessen(counts: Counter[int], client: int) -> None:
    """One fewer, if there is any; no zeros stay."""
    counts.subtract([client])
    if counts[client] <= 0:
        del counts[client]


class Spec:
    """The state a session must be in, and the messages it owes (``due``)."""

    def __init__(self) -> None:
        self.now = 0.0
        self.linger = 0.0
        self.exit_at: float | None = None
        self.clients: dict[int, ev.Hello] = {}
        self.graceful: set[int] = set()
        self.objects: dict[int, Object] = {}
        self.waiting: set[tuple[int, int]] = set()
        self.names: dict[str, int] = {}
        self.serializers: dict[int, bytes] = {}
        self.gone: dict[int, int] = {}  # drivers that left, with their prefix
        self.jobs: dict[int, Job] = {}
        self.hands: dict[int, Hand] = {}  # by worker number
        self.caches: set[tuple[int, int]] = set()  # (client, function)
        self.startup_failures = 0
        self.requests: list[tuple[int, ev.Grow]] = []
        self.trimming: set[int] = set()
        self.failing: list[tuple[Job, ev.Value | str]] = []
        self.owners: dict[int, int] = {}  # segment → client that writes it
        self.sealed: dict[tuple[int, int], int] = {}  # (segment, offset) → length, not released
        self.due: Counter[tuple[int, object]] = Counter()  # (client, what it must be told)

    def pinned_by_tasks(self) -> Counter[int]:
        """How often each object is."""
        return Counter(id for job in self.jobs.values() for id in job.pins)

    def contained(self) -> Counter[int]:
        """How often each object is in others that are ready."""
        ready = [o.value for o in self.objects.values() if o.state == "ready" and o.value]
        return Counter(id for value in ready for id in value.contains)

    def alive(self) -> set[int]:
        """The objects that something keeps."""
        own = {id for id, o in self.objects.items() if o.holds or o.escapes or o.pinned}
        return own.union(self.names.values(), self.pinned_by_tasks(), self.contained())

    def needed(self) -> dict[tuple[int, int], int]:
        """The extents somebody may still read."""
        pins = self.pinned_by_tasks()
        return {
            (o.value.segment, o.value.offset): o.value.length
            for id, o in self.objects.items()
            if o.value is not None and o.value.segment
            if o.state == "ready" or o.views or pins[id]
        }

    def queued(self) -> list[int]:
        """Tasks that could run now."""
        return [
            id for id, job in self.jobs.items()
            if not job.worker and not any(map(self.pending, self.waits(job)))
        ]  # fmt: skip

    def waits(self, job: Job) -> tuple[int, ...]:
        return (job.submit.function, *job.submit.deps)

    def pending(self, id: int) -> bool:
        return id in self.objects and self.objects[id].state == "pending"

    def working(self) -> int:
        return sum(1 for hand in self.hands.values() if not hand.blocked)

    def busy(self) -> int:
        """Processors in use."""
        return sum(1 for hand in self.hands.values() if hand.sent and not hand.blocked)

    def idle(self) -> list[Hand]:
        return [
            hand for hand in self.hands.values()
            if hand.client in self.clients and not hand.sent and not hand.blocked
        ]  # fmt: skip

    def hand_of(self, client: int) -> Hand:
        return next(hand for hand in self.hands.values() if hand.client == client)

    def apply(self, client: int, event: ev.Event) -> None:
        """One event, up to all its consequences for objects and tasks."""
        match event:
            case ev.Hello():
                self.clients[client] = event
                self.owe(client, "Welcome")
                if event.worker:
                    for serializer, payload in self.serializers.items():
                        self.owe(client, ("Registered", serializer, payload))
                    self.hands[event.worker].client = client
                    self.startup_failures = 0
                elif not event.admin:
                    self.exit_at = None
                    self.linger = max(self.linger, event.linger)
            case ev.Keep(linger):
                self.linger = linger
            case ev.Bye():
                self.graceful.add(client)
            case Left():
                self.left(client)
            case ev.Opened(segment, _):
                self.owners[segment] = client
            case ev.Sealed(object, value, _, name):
                self.objects[object] = Object()
                self.objects[object].holds[client] += 1
                self.seal(object, value)
                if name:
                    self.names[name] = object
            case ev.Want(objects):
                for id in objects:
                    self.want(client, id)
            case ev.Hold(objects):
                for id in objects:
                    if id in self.objects:
                        self.objects[id].holds[client] += 1
            case ev.Drop(objects):
                for id in objects:
                    if id in self.objects:
                        lessen(self.objects[id].holds, client)
            case ev.View(object, _):
                if object in self.objects:
                    self.objects[object].views[client] += 1
            case ev.Unview(views):
                for id, _ in views:
                    if id in self.objects:
                        lessen(self.objects[id].views, client)
            case ev.Free(objects):
                for id in objects:
                    self.free(id)
            case ev.Find(_, name):
                found = self.names.get(name, 0)
                if found:
                    self.objects[found].holds[client] += 1
                self.owe(client, ("Found", found))
            case ev.Bind(name, object):
                if object == 0:
                    self.names.pop(name, None)
                elif object in self.objects and self.objects[object].state != "freed":
                    self.names[name] = object
            case ev.Escape(object, site):
                known = self.objects.get(object)
                if known is not None and known.state != "freed" and site not in known.escapes:
                    known.escapes = (*known.escapes, site)[:MOST_SITES]
            case ev.Pin(object, site, on):
                known = self.objects.get(object)
                if known is not None and known.state != "freed":
                    known.pinned = site if on else ""
            case ev.Loaded(objects, seconds):
                for id, took in zip(objects, seconds, strict=True):
                    if id in self.objects:
                        self.objects[id].seconds = self.objects[id].seconds or took
            case ev.Register(serializer, payload):
                self.serializers.pop(serializer, None)
                if payload:
                    self.serializers[serializer] = payload
                for hand in self.hands.values():
                    if hand.client in self.clients and hand.client != client:
                        self.owe(hand.client, ("Registered", serializer, payload))
            case ev.Grow():
                self.requests.append((client, event))
            case ev.Submit():
                self.submit(client, event)
            case ev.SubmitCalls():
                for submit in event.submits():
                    self.submit(client, submit)
            case ev.Done(task, values):
                self.hand_of(client).sent.remove(task)
                job = self.jobs.pop(task)
                for id, value in zip(job.results, values, strict=True):
                    self.seal(id, value)
            case ev.GaveBack(tasks, asked):
                hand = self.hand_of(client)
                hand.recalled = hand.recalled and not asked
                self.take_back(hand, list(tasks))
            case ev.Blocked() | ev.Unblocked():
                self.hand_of(client).blocked += 1 if isinstance(event, ev.Blocked) else -1
            case WorkerExited(worker, status):
                self.exited(self.hands.pop(worker), status)
            case ev.Ask():
                self.owe(client, ("Answer", event.request))
            case ev.Trimmed(_, answer):
                assert answer
                self.trimming.remove(client)
            case WorkerForked() | Tick() | ev.Subscribe():
                pass
            case _:
                raise NotImplementedError(event)
        self.settle()

    def end_of_batch(self) -> None:
        """What is decided once: nothing can run, and nothing ever will."""
        if self.startup_failures >= MOST_STARTUP_FAILURES * KILLS and not self.working():
            for id in self.queued():
                if id in self.jobs:
                    self.fail(self.jobs[id], "crashed")
        self.settle()
        for client in self.gone.keys() - {job.owner for job in self.jobs.values()}:
            prefix = self.gone.pop(client)
            for serializer in [s for s in self.serializers if s >> ID_BITS == prefix]:
                del self.serializers[serializer]
                for hand in self.hands.values():
                    if hand.client in self.clients:
                        self.owe(hand.client, ("Registered", serializer, b""))

    def started(self) -> None:
        self.exit_at = self.now + ALONE_AT_START

    def over(self) -> bool:
        return self.exit_at is not None and self.now >= self.exit_at

    def owe(self, client: int, what: object) -> None:
        if client in self.clients:
            self.due[client, what] += 1

    def settle(self) -> None:
        """Free what nothing keeps; forget what nobody can ask for; tell who caches it."""
        while True:
            alive, pins = self.alive(), self.pinned_by_tasks()
            dying = [id for id, o in self.objects.items() if o.state != "freed" and id not in alive]
            if not dying:
                break
            for id in dying:
                self.objects[id].state = "freed"
        for id, object in list(self.objects.items()):
            if object.state == "freed" and not pins[id]:
                for cache in [c for c in self.caches if c[1] == id]:
                    self.caches.remove(cache)
                    object.views[cache[0]] += 1
                    self.owe(cache[0], ("Forget", id, "unused"))
                if not object.views:
                    object.value = None
                    if id not in alive:
                        del self.objects[id]
        self.waiting = {w for w in self.waiting if self.pending(w[1])}

    def tell(self, client: int, id: int) -> None:
        object = self.objects.get(id)
        if object is None:
            self.owe(client, ("Ready", id, b"!unknown"))
        elif object.state == "freed":
            self.owe(client, ("Ready", id, b"!freed"))
        else:
            self.owe(client, ("Ready", id, plain(object.value)))

    def want(self, client: int, id: int) -> None:
        if self.pending(id):
            self.waiting.add((client, id))
        else:
            self.tell(client, id)

    def tell_watchers(self, id: int) -> None:
        for waiter in [w for w in self.waiting if w[1] == id]:
            self.waiting.remove(waiter)
            self.tell(*waiter)

    def seal(self, id: int, value: ev.Value) -> None:
        if value.segment:
            self.sealed[value.segment, value.offset] = value.length
        if not self.pending(id):
            return
        self.objects[id].state = "ready"
        self.objects[id].value = value
        for child in value.contains:
            self.objects.setdefault(child, Object("freed"))
        self.tell_watchers(id)
        if value.failed:
            self.fail_waiting(id, value)

    def fail_waiting(self, id: int, why: ev.Value | str) -> None:
        for job in list(self.jobs.values()):
            if id in self.waits(job) and job.submit.task in self.jobs:
                self.fail(job, why)

    def fail(self, job: Job, why: ev.Value | str) -> None:
        """All its results are ``why``: a failed value, or the code of a refusal.

        In order of distance: whoever waits for those results fails after them.
        """
        self.failing.append((job, why))
        if len(self.failing) > 1:
            return
        while self.failing:
            job, why = self.failing[0]
            if self.jobs.pop(job.submit.task, None):
                self.settle()
                for id in job.results:
                    self.seal(id, why if isinstance(why, ev.Value) else ev.error_value(why, ""))
            del self.failing[0]

    def free(self, id: int) -> None:
        object = self.objects.get(id)
        if object is None or object.state == "freed":
            return
        for holder in object.holds:
            self.owe(holder, ("Forget", id, ""))
            if object.state == "ready":
                object.views[holder] += 1
        self.names = {name: o for name, o in self.names.items() if o != id}
        was, object.state, object.escapes = object.state, "freed", ()
        object.pinned = ""
        self.tell_watchers(id)
        if was == "pending":
            self.fail_waiting(id, "freed")
        self.settle()

    def submit(self, client: int, event: ev.Submit) -> None:
        job = Job(event, client, [])
        if self.startup_failures >= MOST_STARTUP_FAILURES * KILLS:
            self.startup_failures = (MOST_STARTUP_FAILURES - 1) * KILLS
        why: ev.Value | str = ""
        for id in self.waits(job):
            object = self.objects.get(id)
            if object is None or object.state == "freed":
                if not isinstance(why, str) or not why:
                    why = "unknown" if object is None else "freed"
            elif object.value is not None and object.value.failed and not why:
                why = object.value
        job.pins = [id for id in (*self.waits(job), *event.contains) if id in self.objects]
        for id in job.results:
            self.objects[id] = Object(holds=Counter([client]))
            self.waiting.add((client, id))
        self.jobs[event.task] = job
        if why:
            self.fail(job, why)

    def exited(self, hand: Hand, status: int) -> None:
        if not hand.client:
            self.startup_failures += 1 if status == -9 else KILLS
        sent = list(hand.sent)
        for id in sent[:1]:
            job = self.jobs[id]
            job.attempts += 1
            if job.attempts > job.submit.retries:
                hand.sent.remove(id)
                self.fail(job, "crashed")
                self.settle()
        self.take_back(hand, list(hand.sent))

    def take_back(self, hand: Hand, tasks: list[int]) -> None:
        for id in tasks:
            hand.sent.remove(id)
            self.jobs[id].worker = 0
        self.abandon(tasks)

    def abandon(self, tasks: list[int]) -> None:
        """What hasn't begun, whose submitter has left and whose results nobody wants."""
        for id in reversed(tasks):
            job = self.jobs[id]
            wanted = job.owner in self.clients or any(map(self.pending, job.results))
            if not job.worker and not wanted:
                del self.jobs[id]
                self.settle()

    def left(self, client: int) -> None:
        hello = self.clients.pop(client)
        for object in self.objects.values():
            object.holds.pop(client, 0)
            object.views.pop(client, 0)
        self.caches = {c for c in self.caches if c[0] != client}
        self.waiting = {w for w in self.waiting if w[0] != client}
        for hand in self.hands.values():
            hand.blocked += hand.client == client  # as long as its process lives
        self.trimming.discard(client)
        self.requests = [r for r in self.requests if r[0] != client]
        self.owners = {s: c for s, c in self.owners.items() if c != client}
        self.settle()
        self.abandon(list(self.jobs))
        if not hello.worker:
            self.gone[client] = hello.prefix
        drivers = [h for h in self.clients.values() if not h.worker and not h.admin]
        if not hello.worker and not hello.admin and not drivers:
            self.exit_at = self.now + (0.0 if client in self.graceful else self.linger)

    def ran(self, client: int, run: do.Run) -> None:
        """It sent a task to a worker: one that could run, to one with a slot, with all it needs?"""
        hand = self.hand_of(client)
        assert not hand.blocked, "a task for a worker that waits"
        assert run.task in self.queued(), "not one that could run"
        job = self.jobs[run.task]
        values = [self.objects[id].value for id in job.submit.deps]
        if (client, run.function) not in self.caches:
            values.append(self.objects[run.function].value)
            self.caches.add((client, run.function))
        assert list(run.values) == values
        assert run.function == job.submit.function
        assert run.deps == job.submit.deps
        job.worker = next(n for n, h in self.hands.items() if h is hand)
        hand.sent.append(run.task)

    def returned(self, segment: int, offset: int, length: int) -> list[int]:
        """These bytes are nobody's any more; returns the lengths of the extents among them."""
        gone = [p for p in self.sealed if p[0] == segment and offset <= p[1] < offset + length]
        return [self.sealed.pop(place) for place in gone]


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
