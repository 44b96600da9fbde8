"""Random work in the pool: what tasks ask for, and what becomes of them when workers die.

Light and heavy tasks, time limits, retries, streams, background cells of one task and of many,
cancelling, interrupts, memory that runs short. The store is another machine's business
(`test_session_machine`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.core.conftest import FUNCTION, Stage
from tests.unit.core.peers import BOOM, NONE, Peer, pick
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left, Measured, MeasuredProcess, Tick, WorkerExited
from workbench.core.pool import LIGHT, SPARE_SECONDS
from workbench.core.session import Session
from workbench.core.snapshot_builder import take_snapshot
from workbench.core.tasks import ONE
from workbench.core.time_limits import PATIENCE

PICK = st.integers(0, 1000)
HEADROOM = 1000
IDLE = 4.0
CPUS = 2


class Hand:
    """A worker process, and what its tasks have done."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.began: dict[int, float] = {}
        self.items: Counter[int] = Counter()  # stream → items made here or before
        self.taken: Counter[int] = Counter()
        self.stopping: set[int] = set()

    @property
    def sent(self) -> list[int]:
        """In order; the first one runs."""
        return [run.task for run in self.peer.runs]

    @property
    def running(self) -> do.Run | None:
        return next(iter(self.peer.runs), None)

    @property
    def blocked(self) -> bool:
        return self.peer.waits > 0


class Group:
    """A background cell of several tasks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tasks: list[int] = []
        self.stopped = False

    @property
    def is_full(self) -> bool:
        return self.stopped or len(self.tasks) >= self.size


class TaskMachine(RuleBasedStateMachine):
    """One driver, a pool for two processors."""

    @initialize()
    def begin(self) -> None:
        self.sound = False
        self.stage = Stage(CPUS, 1 << 20)
        self.stage.session = Session("test", CPUS, 1 << 20, HEADROOM, idle=IDLE)
        self.stage.starting.clear()
        self.stage.post(0, Tick())
        self.hands: dict[int, Hand] = {}
        self.starting: list[int] = []
        self.tasks: dict[int, ev.Submit] = {}
        self.runs: Counter[int] = Counter()
        self.deaths: Counter[int] = Counter()  # times it ran when its worker died, or asked again
        self.stopped: set[int] = set()
        self.groups: dict[int, Group] = {}  # by their first task
        self.requests: dict[int, set[int]] = {}  # interrupts without an answer: what they stop
        self.withdrawn: dict[int, int] = {}  # by request
        self.read: dict[int, list[bytes]] = defaultdict(list)  # stream → items its reader got
        self.took: Counter[int] = Counter()  # stream → how many of them it took
        self.answers: dict[int, ev.Value] = {}
        self.measuring = False
        self.segments: set[int] = set()  # that the driver was sent
        self.driver = self.stage.meet(linger=5.0)
        self.turn()
        self.function = self.driver.put(FUNCTION)
        self.turn()

    @property
    def session(self) -> Session:
        return self.stage.session

    def turn(self, after: float = 0.0) -> None:
        """Hand over what has gathered, obey, listen; until nothing more comes of it."""
        self.sound = False
        out = self.stage.turn(after)
        while out or any(hand.peer.inbox for hand in self.hands.values()):
            for instruction in out:
                match instruction:
                    case do.Fork(worker):
                        self.starting.append(worker)
                        working = [hand for hand in self.hands.values() if not hand.blocked]
                        assert len(working) + len(self.starting) <= CPUS + LIGHT
                    case do.Kill(worker):
                        self.ends(worker)
                    case do.Hangup(client, reason):
                        assert reason in ("not needed any more", "nobody uses the session")
                        assert self.session.state.pool.resting == (reason[:6] == "nobody")
                        self.goes_home(client)
                    case do.Measure():
                        self.measuring = True
            for hand in self.hands.values():
                self.listen(hand)
            self.hear()
            out = self.stage.turn()
        busy = [hand for hand in self.hands.values() if hand.sent and not hand.blocked]
        assert self.session.state.scheduler.used == sum(self.cpus(hand) for hand in busy)
        self.sound = True

    @invariant()
    def all_hear_of_it(self) -> None:
        """After each step."""
        self.turn()

    def cpus(self, hand: Hand) -> int:
        assert hand.running is not None
        spec = self.tasks[hand.running.task].spec
        return min((spec or ev.USUAL).cpus, CPUS * ONE)

    def listen(self, hand: Hand) -> None:
        """A worker takes in what it is sent."""
        while hand.peer.inbox:
            match hand.peer.inbox[0]:
                case do.Run() as run if not hand.blocked:
                    self.begins(hand, run)
                case do.Stop(task) if task in hand.sent:
                    hand.stopping.add(task)
                case do.Recall(count):
                    self.runs.subtract(hand.sent[1:][-count:])
                case ev.Took(task, taken):
                    hand.taken[task] = taken
            hand.peer.read()

    def begins(self, hand: Hand, run: do.Run) -> None:
        task = run.task
        spec = self.tasks[task].spec or ev.USUAL
        assert run.spec == self.tasks[task].spec
        self.runs[task] += 1
        assert self.runs[task] <= 1 + self.deaths[task], "run twice without a reason"
        if hand.sent:
            assert spec == ev.TaskSpec(), "it waits behind another"
            assert (self.tasks[hand.sent[0]].spec or ev.USUAL).cpus == ONE
        others = [h.running for h in self.hands.values() if h.running is not None]
        same = [r for r in others if (r.spec or ev.USUAL).executor == spec.executor]
        assert not spec.max_workers or len(same) < spec.max_workers
        hand.began[task] = self.stage.now
        hand.items[task] = run.made
        hand.taken[task] = run.taken
        assert run.taken <= self.took[task], "more than its reader took"
        assert run.made == len(self.read[task]), "made again, or left out"

    def hear(self) -> None:
        """The driver takes in its results."""
        while self.driver.inbox:
            match self.driver.inbox.popleft():
                case do.Ready(object, value):
                    dropped = not self.driver.holds[object]
                    assert dropped or object not in self.answers, "answered twice"
                    self.answers[object] = value
                case do.Shared(segment) | do.Unshare(segment):
                    self.segments ^= {segment}
                case do.Item(task, object, value):
                    assert not value.segment or value.segment in self.segments
                    unread = not self.driver.holds[task]
                    assert unread or task not in self.answers, "an item after the end"
                    self.read[task].append(value.header)
                    self.driver.holds[object] += 1
                    self.driver.drop(object)
                case do.Answer(request, text=where) if where:
                    task = self.withdrawn.pop(request)
                    if where == "waiting":
                        assert not self.unfinished({task})
                        self.stopped.add(task)
                case do.Answer(request):
                    stopped = self.requests.pop(request)
                    assert not stopped & self.session.state.scheduler.tasks.keys(), "too soon"

    def ends(self, worker: int) -> None:
        """A process is gone."""
        hand = self.hands.pop(worker, None)
        if hand is None:
            if worker in self.starting:
                self.starting.remove(worker)
                self.stage.post(0, WorkerExited(worker, -9))
            return
        if hand.running is not None:
            self.deaths[hand.running.task] += 1
        self.runs.subtract(hand.sent[1:])
        del self.stage.peers[hand.peer.number]
        self.stage.post(0, WorkerExited(worker, -9))
        hand.peer.post(Left())

    def goes_home(self, client: int) -> None:
        worker, hand = next((w, h) for w, h in self.hands.items() if h.peer.number == client)
        assert not hand.sent, "sent home with work in hand"
        del self.hands[worker], self.stage.peers[client]
        hand.peer.post(Left())
        self.stage.post(0, WorkerExited(worker, 0))

    @precondition(lambda self: self.starting)
    @rule(n=PICK, dies=st.sampled_from([False, False, False, True]))
    def a_worker_comes(self, n: int, dies: bool) -> None:
        worker = pick(self.starting, n)
        if dies:
            self.ends(worker)
        else:
            self.starting.remove(worker)
            self.hands[worker] = Hand(self.stage.meet(worker))

    @rule(
        n=PICK,
        cpus=st.sampled_from([ONE, ONE, ONE, 0, ONE // 4, 2 * ONE, 9 * ONE]),
        timeout=st.sampled_from([0.0, 0.0, 1.0]),
        ahead=st.sampled_from([0, 0, 1, 2]),
        retries=st.integers(0, 2),
        times=st.sampled_from([1, 1, 5, 20]),
        late=st.sampled_from([False, False, True]),
        job=st.sampled_from(["", "", "cell 7"]),
        origin=st.integers(1, 2),
        most=st.sampled_from([0, 0, 1, 2]),
    )
    def submits(
        self, n: int, cpus: int, timeout: float, ahead: int, retries: int, times: int,
        late: bool, job: str, origin: int, most: int,
    ) -> None:  # fmt: skip
        """The driver submits; some wait for the result of another, or belong to an executor."""
        spec = ev.TaskSpec(cpus, timeout, b"", ahead, job, executor=most, max_workers=most)
        usual = spec == ev.USUAL
        deps = (pick(self.tasks, n),) if late and self.tasks else ()
        deps = tuple(d for d in deps if self.driver.holds[d])
        for _ in range(times):
            (task,) = self.driver.submit(
                self.function, deps, (), retries=retries, spec=None if usual else spec,
                origin=origin,
            )  # fmt: skip
            self.tasks[task] = ev.Submit(
                task, 0, b"", deps, origin=origin, spec=None if usual else spec
            )

    @rule(
        n=PICK, size=st.integers(2, 5), times=st.integers(1, 6),
        joins=st.booleans(), retries=st.integers(0, 1),
    )  # fmt: skip
    def submits_a_cell(self, n: int, size: int, times: int, joins: bool, retries: int) -> None:
        """Some tasks of a new background cell, or more of one: it may take no more."""
        first = pick(self.groups, n) if joins and self.groups else 0
        for _ in range(times):
            group = self.groups.get(first) or Group(size)
            spec = ev.TaskSpec(job="cell 8", size=group.size, group=first)
            (task,) = self.driver.submit(
                self.function, (), (), retries=retries, spec=spec, origin=1
            )
            self.tasks[task] = ev.Submit(task, 0, b"", (), origin=1, spec=spec)
            if group.is_full:
                self.stopped.add(task)
            else:
                group.tasks.append(task)
                self.groups[first or task] = group
            first = first or task

    def runnable(self) -> list[Hand]:
        return [hand for hand in self.hands.values() if hand.sent and not hand.blocked]

    @precondition(lambda self: self.runnable())
    @rule(
        n=PICK, failed=st.sampled_from([False, False, True]), again=st.booleans(),
        seconds=st.sampled_from([0.0001, 0.0001, 1.0]),
    )  # fmt: skip
    def finishes(self, n: int, failed: bool, again: bool, seconds: float) -> None:
        hand = pick(self.runnable(), n)
        run = hand.running
        assert run is not None
        value = BOOM if failed else NONE
        if run.task in hand.stopping:
            value, again = ev.error_value("cancelled", "it heard"), False
        again = again and value.failed
        self.deaths[run.task] += again
        self.done(hand, run, value, seconds, again)

    def done(self, hand: Hand, run: do.Run, value: ev.Value, took: float, again: bool) -> None:
        hand.peer.runs.popleft()
        hand.stopping.discard(run.task)
        hand.peer.post(ev.Done(run.task, (value,), took, again=again))
        if hand.running is not None:  # the next one begins
            hand.began[hand.running.task] = self.stage.now

    @precondition(lambda self: self.runnable())
    @rule(n=PICK, size=st.integers(0, 2))
    def yields(self, n: int, size: int) -> None:
        """A stream hands out an item, if its reader has taken enough."""
        hand = pick(self.runnable(), n)
        run = hand.running
        assert run is not None
        ahead = run.spec.ahead if run.spec is not None else 0
        if ahead and hand.items[run.task] - hand.taken[run.task] < ahead:
            value = hand.peer.value(size) or NONE
            value = ev.Value(
                b"%d" % hand.items[run.task], value.segment, value.offset, value.length
            )
            hand.items[run.task] += 1
            hand.peer.post(ev.Yielded(run.task, hand.peer.id(), value))

    @precondition(lambda self: self.tasks)
    @rule(n=PICK, count=st.integers(1, 2))
    def takes(self, n: int, count: int) -> None:
        """The reader of a stream takes what it got."""
        task = pick(self.tasks, n)
        self.took[task] += count
        self.driver.post(ev.Took(task, self.took[task]))

    @precondition(lambda self: self.runnable())
    @rule(n=PICK)
    def waits(self, n: int) -> None:
        hand = pick(self.runnable(), n)
        self.runs.subtract(hand.sent[1:])
        hand.peer.block()

    @precondition(lambda self: any(hand.blocked for hand in self.hands.values()))
    @rule(n=PICK)
    def goes_on(self, n: int) -> None:
        pick([hand for hand in self.hands.values() if hand.blocked], n).peer.unblock()

    @precondition(lambda self: self.hands)
    @rule(n=PICK)
    def dies(self, n: int) -> None:
        self.ends(pick(self.hands, n))

    @precondition(lambda self: self.tasks)
    @rule(n=PICK, force=st.booleans())
    def cancels(self, n: int, force: bool) -> None:
        task = pick(self.tasks, n)
        self.stopped |= self.unfinished({task}) | self.of_job(task)
        self.driver.post(ev.Cancel((task,), force))

    @precondition(lambda self: self.tasks)
    @rule(n=PICK)
    def withdraws(self, n: int) -> None:
        """Only if it wasn't sent, and the answer says so."""
        task = pick(self.tasks, n)
        if not (self.tasks[task].spec or ev.USUAL).job:
            request = 1 << 20
            self.withdrawn[request] = task
            self.driver.post(ev.Ask(request, "withdraw", task))
        self.turn()
        assert not self.withdrawn

    def unfinished(self, tasks: Iterable[int]) -> set[int]:
        return self.session.state.scheduler.tasks.keys() & set(tasks)

    def of_job(self, id: int) -> set[int]:
        """What is stopped with this background cell; no more of it will come."""
        if id in self.groups:
            self.groups[id].stopped = True
            return self.unfinished(self.groups[id].tasks)
        spec = self.tasks[id].spec
        is_job = spec is not None and spec.job and not spec.group
        return self.unfinished({id}) if is_job else set()

    @precondition(lambda self: self.tasks)
    @rule(n=PICK, origin=st.integers(1, 2), with_job=st.booleans(), force=st.booleans())
    def interrupts(self, n: int, origin: int, with_job: bool, force: bool) -> None:
        """A person stops a cell: what it submitted, but for background cells that aren't named."""
        task = pick(self.tasks, n)
        stopped = self.unfinished(
            id for id, submit in self.tasks.items()
            if submit.origin == origin and not (submit.spec or ev.USUAL).job
        )  # fmt: skip
        stopped |= self.of_job(task) if with_job else set()
        request = len(self.requests) + n * 100
        if request not in self.requests:
            self.stopped |= stopped
            self.requests[request] = stopped
            jobs = (task,) if with_job else ()
            self.driver.post(ev.Interrupt(request, origin, jobs, force))

    @precondition(lambda self: self.tasks)
    @rule(n=PICK)
    def drops(self, n: int) -> None:
        """Nobody wants the result any more; of a stream that means: nor its items."""
        task = pick(self.tasks, n)
        if self.driver.holds[task]:
            self.driver.drop(task)
            if (self.tasks[task].spec or ev.USUAL).ahead:
                self.stopped.add(task)
            self.answers.setdefault(task, NONE)  # it won't be told

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.5]))
    def time_passes(self, seconds: float) -> None:
        """Who runs for longer than it may is told; who doesn't hear it is ended."""
        self.turn(seconds)
        self.stage.post(0, Tick())
        self.turn()
        for hand in self.hands.values():
            run = hand.running
            spec = self.tasks[run.task].spec if run is not None else None
            if run is None or spec is None or not spec.timeout:
                continue
            since = self.stage.now - hand.began[run.task]
            assert since < spec.timeout or run.task in hand.stopping
            assert since < spec.timeout + PATIENCE + 2.5, "it goes on for ever"

    @precondition(lambda self: self.measuring)
    @rule(
        left=st.sampled_from([100, 5000, 10**6]), sizes=st.lists(st.integers(0, 9000), max_size=9)
    )
    def memory_is_measured(self, left: int, sizes: list[int]) -> None:
        """If little is left, one of those who have most ends, the youngest; if it has to be."""
        self.measuring = False
        used = tuple(zip(self.hands, sizes, strict=False))
        before = set(self.hands)
        peers = ((self.hands[hand].peer.number, size) for hand, size in used)
        found = tuple(MeasuredProcess(n, n, size, size, 0, 1 << 40) for n, size in peers)
        self.stage.post(0, Measured(left, 10**5, found))
        self.turn()
        gone = before - self.hands.keys()
        if left >= HEADROOM or max(sizes[: len(before)], default=0) < 2000:
            assert not gone
        for worker in gone:
            assert 2 * dict(used)[worker] >= max(size for _, size in used)

    def teardown(self) -> None:
        """Everybody does what they owe: every task is answered, and nothing is left."""
        if not self.sound:  # what went wrong is known
            return
        for _ in range(5000):
            if self.starting:
                worker = self.starting.pop()
                self.hands[worker] = Hand(self.stage.meet(worker))
            elif blocked := [hand for hand in self.hands.values() if hand.blocked]:
                blocked[0].peer.unblock()
            elif running := self.runnable():
                hand = running[0]
                assert hand.running is not None
                self.done(hand, hand.running, NONE, 0.0001, False)
            else:
                break
            self.turn()
        assert not self.session.state.pool.broken
        assert not self.session.state.scheduler.tasks, "a task was forgotten"
        assert set(self.tasks) <= self.answers.keys()
        assert not self.requests, "an interrupt was forgotten"
        for first in self.groups:  # what was to come of it won't
            self.driver.post(ev.Cancel((first,)))
        self.turn()
        for items in self.read.values():
            assert items == [b"%d" % i for i in range(len(items))], "lost, doubled, out of order"
        cancelled = {t for t, v in self.answers.items() if v.header.startswith(b"!cancelled")}
        for task, submit in self.tasks.items():  # who needs what was cancelled is cancelled too
            if self.stopped.intersection(submit.deps):
                self.stopped.add(task)
        assert cancelled <= self.stopped, "cancelled by nobody"
        for job in take_snapshot(self.session.state).jobs:
            assert not job.kept
            group = self.groups[job.id].tasks if job.id in self.groups else [job.id]
            assert job.ended == job.size == len(group)
            if all(self.driver.holds[id] for id in group):
                failed = any(self.answers[id].failed and id not in cancelled for id in group)
                stopped = not cancelled.isdisjoint(group)
                assert job.state == ("failed" if failed else "stopped" if stopped else "done")
        for id in list(+self.driver.holds):
            while self.driver.holds[id]:
                self.driver.drop(id)
        self.turn()
        self.stage.turn(SPARE_SECONDS)
        self.stage.post(0, Tick())
        self.turn()
        for hand in list(self.hands.values()):
            self.listen(hand)
        self.turn()
        assert self.session.state.scheduler.used == 0
        assert not len(self.session.state.catalog)


TestTasks = TaskMachine.TestCase
TestTasks.settings = settings(max_examples=settings().max_examples * 2 // 3)
