"""Random lives of actors: calls in each caller's order, or as soon as they can; none lost, none
twice without a crash.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import BOOM, NONE, Peer, pick
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.tasks import ActorState

PICK = st.integers(0, 1000)


class ActorMachine(RuleBasedStateMachine):
    """Two drivers, a pool of one worker that makes arguments, and actors."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage(1, 1 << 20)
        self.drivers = [self.stage.driver(linger=5.0), self.stage.driver(linger=5.0)]
        self.maker = self.stage.worker()
        self.cls = self.drivers[0].put(ev.Value(b"a class"))
        self.drivers[1].borrow((self.cls,))
        self.handles: dict[int, set[int]] = {}  # actor → drivers that hold it
        self.concurrency: dict[int, int] = {}
        self.in_order: dict[int, bool] = {}
        self.calls: dict[int, tuple[int, int]] = {}  # task → (actor, caller)
        self.retries: dict[int, int] = {}
        self.results: dict[int, list[int]] = defaultdict(list)  # caller → its calls' results
        self.ran: dict[tuple[int, int], list[int]] = defaultdict(list)  # as above → what was run
        self.times: Counter[int] = Counter()
        self.crashes: Counter[int] = Counter()  # task → crashes while it had been sent
        self.workers: dict[int, Peer] = {}  # number → an actor's worker
        self.alive: set[int] = set()  # workers whose actor has been made
        self.sent: dict[int, list[int]] = defaultdict(list)  # worker → tasks it has
        self.settle()

    def settle(self) -> None:
        """Hand over the batch, and look at what comes of it."""
        self.obey(self.stage.turn())
        for number, peer in list(self.workers.items()):
            self.look(number, peer)
        for actor in self.stage.session.state.scheduler.actors.values():
            worker = actor.worker
            room = worker is not None and len(worker.sent) < actor.concurrency
            if room and not actor.in_order and actor.state is ActorState.ALIVE:
                waits = [task.pending_dependencies for task in actor.calls]
                assert all(waits), "held up by another call's argument"

    def obey(self, out: list[do.Anything]) -> None:
        for instruction in out:
            match instruction:
                case do.Fork(worker):
                    self.stage.starting.remove(worker)
                    self.workers[worker] = self.stage.connect(worker)
                case do.Kill(worker) if worker in self.workers:
                    self.ends(worker)
                case do.Hangup(client, _):
                    gone = [n for n, p in self.workers.items() if p.number == client]
                    for worker in gone:
                        self.ends(worker)

    def look(self, number: int, peer: Peer) -> None:
        """What an actor's worker was sent."""
        while peer.inbox:
            message = peer.inbox.popleft()
            if isinstance(message, do.Stop):
                if message.task in self.sent[number]:
                    self.finish(number, message.task, ev.error_value("cancelled", ""))
                continue
            if isinstance(message, do.Forget):
                peer.post(ev.Unview(tuple((id, 0) for id in message.objects)))
            if not isinstance(message, do.Run):
                continue
            self.sent[number].append(message.task)
            if message.method == "__init__":
                assert number not in self.alive, "made twice in one process"
                continue
            assert number in self.alive, "a call before it is made"
            actor, caller = self.calls[message.task]
            self.times[message.task] += 1
            assert self.times[message.task] <= 1 + self.crashes[message.task], "run twice"
            assert len(self.sent[number]) <= self.concurrency[actor] + 64
            if self.times[message.task] == 1:
                before = self.ran[actor, caller]
                if self.in_order[actor] and before:
                    assert before[-1] < message.task, "out of its caller's order"
                before.append(message.task)

    def ends(self, worker: int) -> None:
        """Its process is gone."""
        peer = self.workers.pop(worker)
        self.alive.discard(worker)
        for task in self.sent.pop(worker, []):
            self.crashes[task] += 1
        self.obey(self.stage.crash(peer))

    def finish(self, worker: int, task: int, value: ev.Value) -> None:
        self.sent[worker].remove(task)
        if task not in self.calls and not value.failed:
            self.alive.add(worker)
        self.workers[worker].post(ev.Done(task, (value,), 0.1))

    # -- what happens -----------------------------------------------------------------------------

    @precondition(lambda self: len(self.handles) < 5)
    @rule(
        n=PICK, restarts=st.sampled_from([0, 1, -1]), concurrency=st.integers(1, 2),
        in_order=st.booleans(), late=st.booleans(), made=st.booleans(),
        cpus=st.sampled_from([0, 0, 500, 1000]),
    )  # fmt: skip
    def creates(
        self, n: int, restarts: int, concurrency: int, in_order: bool, late: bool, made: bool,
        cpus: int,
    ) -> None:  # fmt: skip
        driver = pick(self.drivers, n)
        actor = driver.put(ev.Value(b"described"))
        deps = (driver.submit(self.cls, (), ())[0],) if late else ()
        creation_task = ev.Submit(
            actor, self.cls, b"", deps, (), 0, "Actor", 0, 0, actor, "__init__",
            ev.TaskSpec(cpus) if cpus else None,
        )  # fmt: skip
        driver.post(ev.Create(creation_task, restarts, concurrency, in_order=in_order))
        self.handles[actor] = {driver.number}
        self.concurrency[actor] = concurrency
        self.in_order[actor] = in_order
        self.settle()
        for worker, tasks in self.sent.items():
            if made and actor in tasks:
                self.finish(worker, actor, NONE)
                self.settle()

    @precondition(lambda self: any(self.handles.values()))
    @rule(n=PICK, d=PICK, late=st.lists(st.booleans(), min_size=1, max_size=3),
          retries=st.integers(0, 1))  # fmt: skip
    def calls_it(self, n: int, d: int, late: list[bool], retries: int) -> None:
        actor = pick([a for a, holders in self.handles.items() if holders], n)
        driver = pick(self.drivers, d)
        if driver.number not in self.handles[actor]:
            driver.borrow((actor,))
            self.handles[actor].add(driver.number)
        for waits in late:
            deps = (driver.submit(self.cls, (), ())[0],) if waits else ()
            task = driver.id()
            driver.holds[task] += 1
            self.calls[task] = actor, driver.number
            self.results[driver.number].append(task)
            driver.post(ev.Submit(task, 0, b"", deps, (), 1, "call", 0, retries, actor, "method"))
        self.settle()

    @rule(n=PICK, failed=st.sampled_from([False, False, True]))
    def an_argument_is_made(self, n: int, failed: bool) -> None:
        while self.maker.inbox:
            self.maker.read()
        if self.maker.runs:
            self.maker.finish((BOOM if failed else NONE,), 0.01)
        self.settle()

    @precondition(lambda self: any(self.sent.values()))
    @rule(n=PICK, t=PICK, failed=st.sampled_from([False, False, False, True]))
    def a_call_is_done(self, n: int, t: int, failed: bool) -> None:
        worker = pick([w for w, sent in self.sent.items() if sent], n)
        first = self.sent[worker]
        actor = self.calls.get(first[0], (0, 0))[0]
        task = pick(first[: self.concurrency.get(actor, 1)], t)
        self.finish(worker, task, BOOM if failed else NONE)
        self.settle()

    @precondition(lambda self: self.workers)
    @rule(n=PICK)
    def a_worker_dies(self, n: int) -> None:
        self.ends(pick(self.workers, n))
        self.settle()

    @precondition(lambda self: self.calls)
    @rule(n=PICK, force=st.booleans())
    def somebody_cancels(self, n: int, force: bool) -> None:
        self.drivers[0].post(ev.Cancel(pick(self.calls, n), force))
        self.settle()

    @precondition(lambda self: self.handles)
    @rule(n=PICK, restart=st.booleans())
    def somebody_kills(self, n: int, restart: bool) -> None:
        self.drivers[0].post(ev.KillActor(pick(self.handles, n), restart))
        self.settle()

    @precondition(lambda self: self.workers)
    @rule(n=PICK)
    def it_leaves(self, n: int) -> None:
        worker = pick(self.workers, n)
        self.workers[worker].post(ev.Leave())
        self.settle()
        if worker in self.workers:
            self.ends(worker)
        self.settle()

    @precondition(lambda self: any(self.handles.values()))
    @rule(n=PICK, d=PICK)
    def a_handle_is_dropped(self, n: int, d: int) -> None:
        actor = pick([a for a, holders in self.handles.items() if holders], n)
        number = pick(sorted(self.handles[actor]), d)
        self.handles[actor].discard(number)
        next(p for p in self.drivers if p.number == number).drop(actor)
        self.settle()

    # -- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everybody does what they owe: every call is answered, and nothing is left."""
        if not hasattr(self, "stage"):
            return
        while any(self.handles.values()):  # those that wait for processors get them in the end
            self.a_handle_is_dropped(0, 0)
        for _ in range(2000):
            busy = [w for w, sent in self.sent.items() if sent]
            while self.maker.inbox:
                self.maker.read()
            if self.maker.runs:
                self.maker.finish((NONE,), 0.01)
            elif busy:
                self.finish(busy[0], self.sent[busy[0]][0], NONE)
            else:
                break
            self.settle()
        session = self.stage.session
        assert not session.state.pool.broken
        assert not session.state.scheduler.tasks, "a call was forgotten"
        for driver in self.drivers:
            answered = {m.object for m in driver.inbox if isinstance(m, do.Ready)}
            assert set(self.results[driver.number]) <= answered
        for driver in self.drivers:
            for id in list(+driver.holds):
                while driver.holds[id]:
                    driver.drop(id)
        self.settle()
        while self.maker.inbox:
            self.maker.read()
        self.settle()
        assert not session.state.scheduler.actors
        assert not self.workers, "an actor nobody can reach has a process"
        assert not len(session.state.catalog)


TestActors = ActorMachine.TestCase
TestActors.settings = settings(max_examples=settings().max_examples)
