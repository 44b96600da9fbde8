"""Random moves to disk and back, under the eyes of everybody who may read: the bytes stay right.

The model is the content of every page of every segment. Whatever a process knows the place of
must lie there, at any moment, however late it hears of a move.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import NONE, PAGES, Peer, pick
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Copied, Left, Tick
from workbench.core.spilling import HIGH
from workbench.system.sizes import PAGE, round_up

PICK = st.integers(0, 1000)
CAPACITY = 12 * PAGE


def pages(offset: int, length: int) -> range:
    return range(offset // PAGE, (offset + round_up(length)) // PAGE)


class SpillMachine(RuleBasedStateMachine):
    """Two drivers or more, one worker, and a disk that may fail."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage(1, CAPACITY, spills=True)
        self.content: dict[tuple[int, int], int] = {}  # (segment, page) → object that lies there
        self.disk: set[int] = set()
        self.copies: list[do.Copy] = []
        self.asked: dict[tuple[int, int], int] = {}  # (client, request) → object, unanswered
        self.growing: dict[tuple[int, int], int] = {}  # (client, request) → bytes, unanswered
        self.requests = iter(range(1000, 10**9))
        for _ in range(2):
            self.joins()
        self.worker = self.stage.worker()
        for _ in range(2):
            self.puts(0, 1, "f")
            self.turn()
        self.function = self.stage.session.state.catalog.names["f"]
        for n in range(4):
            self.puts(n, 2, "")
        self.turn()

    @property
    def drivers(self) -> list[Peer]:
        return [peer for peer in self.stage.peers.values() if not peer.worker]

    def turn(self, after: float = 0.0) -> None:
        for number, event in self.stage.batch:
            if isinstance(event, ev.Grow):
                self.growing[number, event.request] = event.nbytes
        for instruction in self.stage.turn(after):
            match instruction:
                case do.Copy():
                    self.copies.append(instruction)
                    if instruction.disk:
                        self.disk.add(instruction.target[0])
                        entry = self.stage.session.state.catalog.get(instruction.object)
                        assert entry is None or not (entry.pinned or entry.viewers)
                case do.Punch(segment, extents):
                    for offset, length in extents:
                        self.clear(segment, pages(offset, length))
                case do.Discard(segment):
                    self.clear(segment, range(PAGES))
                case do.Send(to, do.Answer(request)):
                    self.asked.pop((to, request), None)
                case do.Send(to, do.Grown(request, _, text)):
                    nbytes = self.growing.pop((to, request))
                    assert not text or nbytes > self.possible(), "refused, and others could move"
        self.check()

    @invariant()
    def all_hear_of_it(self) -> None:
        """After each step."""
        self.turn()

    def possible(self) -> int:
        """Bytes that could be had by moving objects to disk."""
        session = self.stage.session
        if session.state.now < session.spilling.broken_until:
            return 0
        movable = sum(e.value.length for e in session.spilling.victims(CAPACITY) if e.value)
        budget = session.state.budget
        return CAPACITY - budget.granted - budget.in_messages() + movable

    def clear(self, segment: int, which: Iterable[int]) -> None:
        for page in [p for s, p in self.content if s == segment and p in which]:
            del self.content[segment, page]

    def check(self) -> None:
        """What anybody may map is there."""
        for peer in self.stage.peers.values():
            known = [*peer.readable.items()]
            known += [(id, value) for id, views in peer.views.items() for value in views]
            for id, value in known:
                if value.segment:
                    found = {self.content.get((value.segment, p)) for p in self.place(value)}
                    assert found == {id}, f"{peer.number} may read {id} and finds {found}"
            assert peer.arena.footprint <= peer.granted
        peers = {peer.segment: peer for peer in self.stage.peers.values()}
        others = [s for s, _ in self.content if s not in self.disk and s not in peers]
        taken_back = sum(  # by the machine, whether the owner has read it or not
            length
            for peer in peers.values()
            for message in peer.inbox
            if isinstance(message, do.Release) and message.cold
            for _, length in message.extents
        )
        held = sum(peer.arena.footprint for peer in peers.values()) - taken_back
        assert held + len(others) * PAGE <= CAPACITY

    def place(self, value: ev.Value) -> range:
        return pages(value.offset, value.length)

    @precondition(lambda self: len(self.drivers) < 4)
    @rule()
    def joins(self) -> None:
        self.stage.driver(linger=1e6)

    @precondition(lambda self: len(self.drivers) > 2)
    @rule(n=PICK)
    def leaves(self, n: int) -> None:
        peer = pick(self.drivers[1:], n)
        self.asked = {key: id for key, id in self.asked.items() if key[0] != peer.number}
        self.growing = {key: n for key, n in self.growing.items() if key[0] != peer.number}
        peer.post(Left())
        del self.stage.peers[peer.number]

    @precondition(lambda self: any(p.inbox for p in self.stage.peers.values()))
    @rule(n=PICK)
    def reads(self, n: int) -> None:
        pick([p for p in self.stage.peers.values() if p.inbox], n).read()

    @rule()
    def is_left_alone(self) -> None:
        """Nobody uses the session: free memory is to go back."""
        state = self.stage.session.state
        for client, nbytes in state.budget.trim_all(state.now):
            state.send(client, do.Trim(nbytes))
        self.stage.post(0, Tick())

    @rule(seconds=st.sampled_from([0.1, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.stage.post(0, Tick())
        self.turn(seconds)

    @precondition(lambda self: self.copies)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def copies_one(self, fails: bool) -> None:
        copy = self.copies.pop(0)
        error = "the disk is full" if fails else ""
        digest = 0
        if not fails:
            sources = pages(copy.source[1], copy.length)
            targets = pages(copy.target[1], copy.length)
            for source, target in zip(sources, targets, strict=True):
                lies = self.content.get((copy.source[0], source))
                if lies is not None:
                    self.content[copy.target[0], target] = lies
            digest = 7
        self.stage.post(0, Copied(copy.object, digest, error))

    @rule(n=PICK, size=st.integers(1, 6), name=st.sampled_from(["", "", "a", "b"]))
    def puts(self, n: int, size: int, name: str) -> None:
        peer = pick(self.stage.peers.values(), n)
        value = peer.value(size)
        self.turn()
        if value is None and any(isinstance(message, do.Grown) for message in peer.inbox):
            peer.read_all()
            value = peer.value(size)
        if value is not None:
            id = peer.put(value, name)
            for page in self.place(value):
                self.content[value.segment, page] = id

    @precondition(lambda self: any(p.held for p in self.stage.peers.values()))
    @rule(n=PICK, o=PICK, what=st.sampled_from(["drop", "want", "free", "pin", "unpin", "spill"]))
    def handles(self, n: int, o: int, what: str) -> None:
        peer = pick([p for p in self.stage.peers.values() if p.held], n)
        id = pick(peer.held, o)
        if id == self.function and what != "want":
            return
        match what:
            case "drop":
                peer.drop(id)
            case "want":
                peer.post(ev.Want((id,)))
            case "free":
                peer.post(ev.Free((id,)))
                peer.values.pop(id, None)
            case "pin" | "unpin":
                peer.post(ev.Pin(id, "here", what == "pin"))
            case "spill":
                request = next(self.requests)
                self.asked[peer.number, request] = id
                peer.post(ev.Ask(request, "spill", id))

    @rule(n=PICK, m=PICK, o=PICK)
    def lends(self, n: int, m: int, o: int) -> None:
        """A ref goes from one process to another."""
        peers = [p for p in self.stage.peers.values() if p.held]
        if peers:
            giver, taker = pick(peers, n), pick(self.stage.peers.values(), m)
            id = pick(giver.held, o)
            taker.borrow((id,))
            taker.post(ev.Want((id,)))

    @rule(n=PICK, o=PICK, gone=st.booleans())
    def looks(self, n: int, o: int, gone: bool) -> None:
        peer = pick(self.stage.peers.values(), n)
        if gone and peer.views:
            peer.unview(pick(peer.views, o))
        elif not gone:
            shown = [id for id, value in peer.readable.items() if value.segment]
            if shown:
                peer.view(pick(shown, o))

    @precondition(lambda self: any(p.held for p in self.drivers))
    @rule(n=PICK, deps=st.lists(PICK, min_size=1, max_size=2))
    def submits(self, n: int, deps: list[int]) -> None:
        peer = pick([p for p in self.drivers if p.held], n)
        ids = tuple(dict.fromkeys(pick(peer.held, o) for o in deps))
        peer.borrow((self.function,))
        peer.submit(self.function, ids, ())

    @precondition(lambda self: self.worker.runs)
    @rule()
    def finishes(self) -> None:
        run = self.worker.runs[0]
        for id in [id for id in self.worker.views if id in run.deps]:
            while id in self.worker.views:
                self.worker.unview(id)
        self.worker.finish((NONE,), 1.0)

    def settle(self) -> None:
        """Everybody answers, the disk works, until nothing moves."""
        for _ in range(1000):
            self.turn()
            reading = [p for p in self.stage.peers.values() if p.inbox]
            for peer in reading:
                peer.read_all()
            if self.copies:
                self.copies_one(False)
            elif self.worker.runs:
                self.finishes()
            elif not reading:
                return
        raise AssertionError("they never come to an end")

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        self.settle()
        session = self.stage.session
        assert not self.asked, "a wish that was never answered"
        assert not self.growing, "somebody still waits for memory"
        assert not session.state.moves
        for stale in session.state.stale_copies.values():
            assert stale.viewers
        for peer in list(self.stage.peers.values()):
            for id in list(peer.views):
                while id in peer.views:
                    peer.unview(id)
        self.settle()
        assert not session.state.stale_copies
        for peer in self.stage.peers.values():
            assert (
                not peer.segment
                or session.state.budget.arenas[peer.segment].granted == peer.granted
            )
        session.spilling.grown = True  # as after a put
        self.time_passes(6.0)
        self.settle()
        over = session.state.budget.live - HIGH * CAPACITY
        spilling = session.spilling
        newest = next(reversed(spilling.resting), None)
        left = [v for v in spilling.victims(CAPACITY) if v is not newest]
        assert over <= 0 or not left, "above the mark, and nobody moves"
        for peer in list(self.stage.peers.values()):
            for id in peer.held:
                peer.post(ev.Free((id,)))
                peer.drop(id)
        self.drivers[0].post(ev.Free(tuple(entry.id for entry in session.state.catalog.values())))
        self.settle()
        assert session.state.budget.live == session.state.budget.spilled == 0
        assert not [s for s in session.state.budget.arenas.values() if s.owner is None]


TestSpilling = SpillMachine.TestCase
TestSpilling.settings = settings(max_examples=settings().max_examples, stateful_step_count=60)
