"""The whole core against its naive twin: drivers and workers that do anything, at any moment."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.unit.core.invariants import check
from tests.unit.core.peers import PAGES, Peer, pick
from tests.unit.core.spec import Follower, Hand, Spec, plain
from tests.unit.core.turns import Turns
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, Tick, WorkerExited, WorkerForked
from workbench.core.pool import KILLS, MOST_STARTUP_FAILURES, SPARE_SECONDS
from workbench.core.session import Session
from workbench.core.snapshot_builder import take_snapshot
from workbench.core.spilling import COLLECT_EVERY
from workbench.system.sizes import PAGE

PICK = st.integers(0, 11)  # which of what there is: see `pick`
FEW = st.lists(PICK, max_size=2)
PACE = st.sampled_from(["all read", "turn", "gather"])
"""Hand the batch over, and have everybody take in what comes; or not that; or neither."""

CAPACITY = 24 * PAGE

ENOUGH = 1000
"""Nobody exchanges so many messages about so little, unless in a circle."""


def pages(offset: int, length: int) -> range:
    return range(offset // PAGE, (offset + length) // PAGE)


class SessionMachine(RuleBasedStateMachine):
    """Events go into a batch; `turn` hands it to the session and to the spec, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = Spec()
        self.batch: list[tuple[int, ev.Event]] = []
        self.peers: dict[int, Peer] = {}
        self.workers: dict[int, int] = {}  # connection → worker number, of all that ever were
        self.processes: set[int] = set()  # workers that were forked and haven't exited
        self.forked: set[int] = set()  # all that ever were
        self.knows: dict[int, set[int]] = {}  # client → segments it has been shown
        self.asked: dict[int, float] = {}  # client → when it was to collect garbage
        self.segments: set[int] = set()  # opened and not discarded
        self.punched: dict[int, set[int]] = {}  # segment → pages given back after its owner left
        self.contents: dict[int, tuple[int, ...]] = {}  # object → what it contains
        self.followers: dict[int, Follower] = {}  # by connection
        self.turns = Turns()
        self.sound = False  # the last turn came out as it must

    @initialize(workers=st.integers(1, 3))
    def begin(self, workers: int) -> None:
        self.session = Session("test", workers, CAPACITY)
        self.spec.started()
        self.post(0, Tick())
        self.turn()
        self.driver_joins(5.0)
        for worker in self.starting():
            self.worker_joins(worker)
        self.peers[1].put(ev.Value(b"a function"), "f")
        self.turn()

    def post(self, number: int, event: ev.Event) -> None:
        self.batch.append((number, event))

    def turn(self, pace: str = "turn") -> None:
        """See `PACE`."""
        if pace == "gather":
            return
        self.sound = False
        self.hand_over()
        for _ in range(ENOUGH):
            reading = [peer for peer in self.peers.values() if peer.inbox and pace == "all read"]
            if not reading:
                break
            for peer in reading:
                peer.read_all()
            self.hand_over()
        else:
            raise AssertionError("they never come to an end")
        self.sound = True

    def hand_over(self) -> None:
        """The batch goes in; check every instruction that comes of it, and where it leads."""
        while self.batch:
            batch, self.batch = self.batch, []
            present = set(self.spec.clients)
            for number, event in batch:
                self.spec.apply(number, event)
                present |= self.spec.clients.keys()
                if isinstance(event, ev.Opened):
                    self.segments.add(event.segment)
                    self.knows[number].add(event.segment)
            self.spec.end_of_batch()
            left = {number for number, event in batch if isinstance(event, Left)}
            told: Counter[tuple[int, object]] = Counter()
            exits = 0
            out = self.session.handle(batch, self.spec.now)
            for instruction in out:
                match instruction:
                    case do.Send(to, message):
                        assert to in present, "a message for somebody who isn't there"
                        told.update((to, what) for what in self.hear(to, message))
                        if to in self.peers:
                            self.peers[to].inbox.append(message)
                    case do.Kill(worker):
                        assert worker in {self.workers[number] for number in left}
                    case do.WatchDriver(to):
                        assert to in present
                    case do.Exit():
                        exits += 1
                    case _:
                        self.obey(instruction)
            assert told == self.spec.due
            self.spec.due.clear()
            assert exits == self.spec.over()
            check(self.session.state)
            self.compare()

    def see_whose_turn(self, task: int) -> None:
        """Drivers take turns, also for what somebody waits for."""
        tasks = self.session.state.scheduler.tasks
        waiting = {id: tasks[id].audience for id in self.spec.queued()}
        if task in waiting:
            self.turns.had(waiting[task], waiting)

    def hear(self, to: int, message: do.Message) -> list[object]:
        """A message that is owed comes back as what it says; others are judged here."""
        match message:
            case do.Welcome():
                return ["Welcome"]
            case do.Ready(object, value):
                self.check_shown(to, value)
                return [("Ready", object, plain(value))]
            case do.Found(_, object):
                return [("Found", object)]
            case do.Answer(request):
                return [("Answer", request)]
            case ev.Register(serializer, payload):
                return [("Registered", serializer, payload)]
            case do.Forget(objects, unused):
                return [("Forget", id, "unused" * unused) for id in objects]
            case do.Shared(segment, size):
                assert segment in self.segments
                assert segment not in self.knows[to], "shown twice"
                assert size == PAGES * PAGE
                self.knows[to].add(segment)
            case do.Run(values=values):
                for value in values:
                    self.check_shown(to, value)
                self.see_whose_turn(message.task)
                self.spec.ran(to, message)
            case do.Unshare(segment):
                self.knows[to].remove(segment)
                assert segment not in self.segments, "unmapped too soon"
            case do.Recall(count):
                hand = self.spec.hand_of(to)
                assert 0 < count < len(hand.sent)
                assert self.spec.idle(), "a recall, and nobody has time"
                assert not hand.recalled, "asked again before it answered"
                hand.recalled = True
            case do.Changed(_, change):
                self.followers[to].hear(change)
            case do.Release(extents):
                segment = next(s for s, owner in self.spec.owners.items() if owner == to)
                for offset, length in extents:
                    assert self.spec.returned(segment, offset, length) == [length]
                    self.check_unread(segment, offset, length)
            case do.Grown(request, granted, text):
                client, grow = self.spec.requests.pop(0)
                assert (to, request) == (client, grow.request), "out of turn"
                if granted:
                    assert granted == grow.nbytes
                else:
                    assert text
                    assert self.session.state.budget.granted + grow.nbytes > CAPACITY
            case do.Trim(nbytes):
                assert nbytes > 0
                assert to not in self.spec.trimming, "asked again before it answered"
                self.spec.trimming.add(to)
            case do.CollectGarbage():
                assert self.spec.now >= self.asked.get(to, -COLLECT_EVERY) + COLLECT_EVERY
                self.asked[to] = self.spec.now
            case _:
                raise AssertionError(message)
        return []

    def obey(self, instruction: do.Anything) -> None:
        match instruction:
            case do.Fork(worker):
                assert worker not in self.forked, "a worker's number is never used again"
                assert self.spec.working() < self.session.state.pool.target
                if self.spec.startup_failures >= MOST_STARTUP_FAILURES * KILLS:
                    assert all(hand.client for hand in self.spec.hands.values()), "one at a time"
                self.spec.hands[worker] = Hand()
                self.forked.add(worker)
                self.processes.add(worker)
            case do.Hangup(client, _):
                hand = self.spec.hand_of(client)
                assert hand in self.spec.idle(), "sent home with work in hand"
                assert self.spec.working() > self.session.state.pool.target
                hand.blocked += 1
                self.hang_up(client)
            case do.Punch(segment, extents):
                assert segment not in self.spec.owners
                for offset, length in extents:
                    self.spec.returned(segment, offset, length)
                    self.check_unread(segment, offset, length)
                    self.punched.setdefault(segment, set()).update(pages(offset, length))
            case do.Discard(segment):
                assert segment not in self.spec.owners
                self.segments.remove(segment)
                self.spec.returned(segment, 0, PAGES * PAGE)
                self.check_unread(segment, 0, PAGES * PAGE)
            case _:
                raise AssertionError(instruction)

    def hang_up(self, number: int) -> None:
        del self.peers[number]
        self.followers.pop(number, None)
        self.post(number, Left())

    def check_shown(self, to: int, value: ev.Value) -> None:
        assert not value.segment or value.segment in self.knows[to] & self.segments

    def check_unread(self, segment: int, offset: int, length: int) -> None:
        """Nobody looks at these bytes, by the peers' own word."""
        for peer in self.peers.values():
            for value in (v for views in peer.views.values() for v in views):
                assert value.segment != segment or not offset <= value.offset < offset + length

    def compare(self) -> None:
        """The session says of itself what the spec says, also to who subscribes."""
        for follower in self.followers.values():
            follower.check(self.session)
        spec, snapshot = self.spec, take_snapshot(self.session.state)
        pins, contained = spec.pinned_by_tasks(), spec.contained()
        assert {
            o.id: (
                o.state, sorted(o.names), {*o.holders}, {*o.viewers}, o.tasks, o.parents,
                o.escapes, o.load_seconds, o.pinned,
            )
            for o in snapshot.objects
        } == {
            id: (
                object.told_state,
                sorted(name for name, named in spec.names.items() if named == id),
                {*object.holds},
                {*object.views},
                pins[id],
                contained[id],
                object.escapes,
                object.seconds,
                object.pinned,
            )
            for id, object in spec.objects.items()
        }  # fmt: skip
        assert spec.sealed == spec.needed(), "released too late, or never"
        assert snapshot.queued == sum(not job.worker for job in spec.jobs.values())
        assert snapshot.running == sum(bool(hand.sent) for hand in spec.hands.values())
        assert {c.client for c in snapshot.clients} == spec.clients.keys()
        if spec.busy() < self.session.state.pool.target:
            assert not (spec.idle() and spec.queued()), "somebody has time, and there is work"
        for segment in self.segments - spec.owners.keys():
            live = [pages(o, n) for (s, o), n in spec.sealed.items() if s == segment]
            assert self.punched[segment].union(*live) == {*range(PAGES)}, "memory not given back"

    def connect(self, hello: ev.Hello) -> None:
        number = hello.prefix
        self.peers[number] = Peer(number, hello.worker, self.post)
        self.workers[number] = hello.worker
        self.knows[number] = set()
        self.post(number, hello)

    def starting(self) -> list[int]:
        return sorted(self.processes - set(self.workers.values()))

    def driver_joins(self, linger: float, admin: bool = False) -> None:
        number = len(self.workers) + 1
        self.connect(ev.Hello(1000 + number, number, linger=linger, admin=admin))

    def worker_joins(self, worker: int) -> None:
        self.post(0, WorkerForked(worker, 2000 + worker))
        self.connect(ev.Hello(2000 + worker, len(self.workers) + 1, worker))

    def worker_dies(self, worker: int, exit_first: bool = True) -> None:
        self.processes.remove(worker)
        number = next((p.number for p in self.peers.values() if p.worker == worker), 0)
        if number and not exit_first:
            self.hang_up(number)
        self.post(0, WorkerExited(worker, -9 if number else 1))
        if number and exit_first:
            self.hang_up(number)

    @precondition(lambda self: self.starting() or len(self.peers) < 6)
    @rule(
        n=PICK,
        linger=st.sampled_from([5.0, 0.0]),
        admin=st.sampled_from([False, False, True]),
        pace=PACE,
    )
    def joins(self, n: int, linger: float, admin: bool, pace: str) -> None:
        if self.starting():
            self.worker_joins(pick(self.starting(), n))
        else:
            self.driver_joins(linger, admin)
        self.turn(pace)

    @rule(n=PICK, what=st.sampled_from(["wait", "leave", "die"]), how=st.booleans(), pace=PACE)
    def fate(self, n: int, what: str, how: bool, pace: str) -> None:
        """Time passes, or somebody goes: politely or not, with its process's end first or last."""
        if what == "wait":
            self.time_passes(2.5 if how else 6.0)
        elif what == "leave" and self.peers:
            peer = pick(self.peers.values(), n)
            if how:
                peer.post(ev.Bye())
            self.hang_up(peer.number)
        elif what == "die" and self.processes:
            self.worker_dies(pick(sorted(self.processes), n), exit_first=how)
        self.turn(pace)

    def time_passes(self, seconds: float) -> None:
        self.turn()
        self.spec.now += seconds
        self.post(0, Tick())
        self.turn()

    @precondition(lambda self: any(p.inbox for p in self.peers.values()))
    @rule(n=PICK, pace=PACE)
    def reads(self, n: int, pace: str) -> None:
        pick([p for p in self.peers.values() if p.inbox], n).read()
        self.turn(pace)

    @precondition(lambda self: self.peers)
    @rule(
        n=PICK, size=st.integers(0, 5), inside=FEW, name=st.sampled_from(["", "a", "b"]), pace=PACE
    )
    def puts(self, n: int, size: int, inside: list[int], name: str, pace: str) -> None:
        peer = pick(self.peers.values(), n)
        contains = tuple(pick(peer.held, i) for i in inside if peer.held)
        value = peer.value(size, contains)
        if value is not None:
            self.contents[peer.put(value, name)] = contains
        self.turn(pace)

    @precondition(lambda self: any(p.held for p in self.peers.values()))
    @rule(
        n=PICK, o=PICK, name=st.sampled_from("ab"), pace=PACE,
        what=st.sampled_from(
            ["drop", "want", "free", "bind", "unbind", "find", "ask", "escape", "loaded",
             "pin", "unpin", "keep"]
        ),
    )  # fmt: skip
    def handles(self, n: int, o: int, name: str, what: str, pace: str) -> None:
        """Somebody does something with an object it holds or has heard of."""
        peer = pick([p for p in self.peers.values() if p.held], n)
        id = pick(peer.held, o)
        match what:
            case "want":
                peer.post(ev.Want((id,)))
            case "drop":
                peer.drop(id)
            case "free":
                peer.post(ev.Free((id,)))
            case "bind" | "unbind":
                peer.post(ev.Bind(name, id if what == "bind" else 0))
            case "find":
                peer.post(ev.Find(1, name))
            case "ask":
                peer.post(ev.Ask(1, "overview"))
            case "escape":
                peer.post(ev.Escape(id, f"at {name}"))
            case "pin" | "unpin":
                peer.post(ev.Pin(id, f"at {name}", what == "pin"))
            case "keep":
                peer.post(ev.Keep(5.0 * (name == "a")))
            case "loaded":
                peer.post(ev.Loaded((id,), (0.5 + (name == "b"),)))
        self.turn(pace)

    @precondition(lambda self: any(p.readable for p in self.peers.values()))
    @rule(n=PICK, o=PICK, dies=st.booleans(), pace=PACE)
    def looks(self, n: int, o: int, dies: bool, pace: str) -> None:
        """Somebody reads an object: finds the refs inside, maps its bytes; or lets go of them."""
        peer = pick([p for p in self.peers.values() if p.readable], n)
        if dies and peer.views:
            peer.unview(pick(peer.views, o))
        else:
            id, value = pick(peer.readable.items(), o)
            peer.borrow(value.contains)
            if value.segment:
                peer.view(id)
        self.turn(pace)

    @precondition(lambda self: self.peers)
    @rule(n=PICK, pace=PACE)
    def subscribes(self, n: int, pace: str) -> None:
        """Somebody asks what has changed."""
        peer = pick(self.peers.values(), n)
        follower = self.followers.setdefault(peer.number, Follower())
        if not follower.waits:
            peer.post(follower.ask())
        self.turn(pace)

    @precondition(lambda self: self.peers)
    @rule(n=PICK, o=PICK, payload=st.sampled_from([b"one", b"two", b""]), pace=PACE)
    def registers(self, n: int, o: int, payload: bytes, pace: str) -> None:
        """Somebody has a custom serializer, another one, or none any more."""
        peer = pick(self.peers.values(), n)
        own = [s for s in self.spec.serializers if s >> ID_BITS == peer.number]
        peer.post(ev.Register(pick(own, o) if own and payload != b"one" else peer.id(), payload))
        self.turn(pace)

    @precondition(lambda self: any(p.held for p in self.peers.values()))
    @rule(
        n=PICK, function=PICK, deps=FEW, inside=FEW, pace=PACE, times=st.sampled_from([1, 1, 8]),
        returns=st.sampled_from([1, 1, 2, 0]), retries=st.integers(0, 1),
    )  # fmt: skip
    def submits(
        self, n: int, function: int, deps: list[int], inside: list[int], times: int, pace: str,
        **options: int,
    ) -> None:  # fmt: skip
        peer = pick([p for p in self.peers.values() if p.held], n)
        held = peer.held
        for _ in range(times):
            peer.submit(
                pick(held, function),
                tuple(pick(held, d) for d in deps),
                tuple(pick(held, i) for i in inside),
                **options,
            )
        self.turn(pace)

    @precondition(lambda self: any(p.held for p in self.peers.values()))
    @rule(n=PICK, function=PICK, count=st.integers(1, 5), retries=st.integers(0, 1), pace=PACE)
    def submits_a_burst(self, n: int, function: int, count: int, retries: int, pace: str) -> None:
        """In one message; of anything that somebody holds, there or not."""
        peer = pick([p for p in self.peers.values() if p.held], n)
        peer.submit_calls(pick(peer.held, function), count, retries)
        self.turn(pace)

    def drivers(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if not peer.worker]

    @precondition(lambda self: self.drivers())
    @rule(many=st.integers(2, 4), pace=PACE)
    def all_drivers_submit(self, many: int, pace: str) -> None:
        """Several tasks each, of a function of its own; there are two drivers at least."""
        if len(self.drivers()) < 2:
            self.driver_joins(0.0)
        for peer in self.drivers():
            function = peer.put(ev.Value(b"a function"))
            for _ in range(many):
                peer.submit(function, (), ())
        self.turn(pace)

    def running(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.runs and not peer.waits]

    @precondition(lambda self: self.running())
    @rule(
        n=PICK, size=st.integers(0, 3), inside=FEW, failed=st.sampled_from([False, False, True]),
        seconds=st.sampled_from([0.0001, 0.0001, 1.0]), pace=PACE,
    )  # fmt: skip
    def finishes(
        self, n: int, size: int, inside: list[int], failed: bool, seconds: float, pace: str
    ) -> None:
        peer = pick(self.running(), n)
        results = range(peer.runs[0].task, peer.runs[0].task + peer.runs[0].returns)
        held = [id for id in peer.held if not self.reaches(id, results)]
        contains = tuple(pick(held, i) for i in inside if held)
        first = ev.Value(b"boom", failed=True) if failed else peer.value(size, contains)
        values = [first or ev.Value(b"P", contains=contains), *[ev.Value(b"N")] * len(results)]
        for id, value in zip(results, values, strict=False):
            self.contents[id] = value.contains
        peer.finish(tuple(values[: len(results)]), seconds)
        self.turn(pace)

    def reaches(self, id: int, targets: range) -> bool:
        """Objects that contain each other keep each other alive, as reference counts do."""
        return id in targets or any(self.reaches(c, targets) for c in self.contents.get(id, ()))

    @precondition(lambda self: any(p.runs for p in self.peers.values()))
    @rule(n=PICK, pace=PACE)
    def blocks_or_goes_on(self, n: int, pace: str) -> None:
        peer = pick([p for p in self.peers.values() if p.runs], n)
        if peer.waits:
            peer.unblock()
        else:
            peer.block()
        self.turn(pace)

    def teardown(self) -> None:
        if self.sound:
            self.come_to_rest()
            self.all_leave()

    def come_to_rest(self) -> None:
        """Everybody does what they owe: then nothing is left undone."""
        self.turn()
        for _ in range(ENOUGH):
            moved = False
            for worker in self.processes - {p.worker for p in self.peers.values()}:
                moved = True
                if worker in self.workers.values():  # killed after its connection ended
                    self.processes.remove(worker)
                    self.post(0, WorkerExited(worker, -9))
                else:
                    self.worker_joins(worker)
            for peer in list(self.peers.values()):
                while peer.inbox:
                    peer.read()
                    moved = True
                if peer.waits:
                    peer.unblock()
                    moved = True
                elif peer.runs:
                    values = (ev.Value(b"N"),) * peer.runs[0].returns
                    peer.finish(values, 0.0001)
                    moved = True
            self.turn()
            if not moved:
                break
        assert not self.spec.jobs, "a task was forgotten"
        assert not self.spec.requests, "a Grow was forgotten"
        assert all(object.state != "pending" for object in self.spec.objects.values())
        self.time_passes(SPARE_SECONDS)
        if self.spec.startup_failures < MOST_STARTUP_FAILURES * KILLS:
            assert self.spec.working() == self.session.state.pool.target

    def all_leave(self) -> None:
        """With the names gone and everybody with them, nothing stays."""
        self.driver_joins(0.0)
        self.turn()
        for name in list(self.spec.names):
            pick(self.peers.values(), -1).post(ev.Bind(name, 0))
        for id in [id for id, o in self.spec.objects.items() if o.escapes or o.pinned]:
            pick(self.peers.values(), -1).post(ev.Free((id,)))
        self.turn("all read")
        for number, peer in list(self.peers.items()):
            peer.post(ev.Bye())
            self.hang_up(number)
        self.turn()
        while self.processes:  # for each one that dies another is made, until the pool gives up
            self.worker_dies(min(self.processes))
            self.turn()
        assert not self.spec.objects
        assert not self.segments
        assert not len(self.session.state.catalog)
        assert not self.session.state.budget.arenas
        assert not self.session.state.scheduler.tasks


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=settings().max_examples // 3)
