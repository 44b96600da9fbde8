"""Random puts, gets, tasks and spills while any process is killed at any moment, is stopped, or is
out of descriptors.

After each round every named object is there, byte by byte; the books are what the system says;
nothing leaks. Reproduce with the seed, and ``CHAOS_ROUNDS`` for more rounds than usual; the
processes' timing is not the seed's.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.chaos.driver import MEMORY, SESSION, WORKERS, join
from tests.chaos.values import is_right
from tests.leaks import descriptors, eventually
from tests.patience import THOROUGH
from tests.process.processes import Processes, few_descriptors, segments
from tests.process.scripts import Script
from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.engine.queries import Lookup, Names
from workbench.errors import ObjectFreedError, SessionError
from workbench.system.sizes import round_up

DRIVERS = 3
MOST_NAMES = 40
MOST_SHOWN = 2
SEEDS = [*map(int, os.environ.get("CHAOS_SEED", "").split())] or range(12 if THOROUGH else 3)
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "200" if THOROUGH else "12"))
REMEMBERED = 60
"""Actions that a failure tells."""

NEARLY_ALL = MEMORY - 500_000
"""Bytes: the store but for some small objects, functions for example."""

ALWAYS = {"StoreFullError", "SpillError", "ObjectLostError", "ObjectFreedError"}
"""What a command may fail with at any time: others free, show and pin what it is about."""

ACTORS = {"ActorDiedError", "ActorUnavailableError"}
"""What calls of an actor may."""

SHORT = ("Too many open files", "LimitError", "ActorDiedError", "WorkerCrashedError")
"""What else it may fail with, or because of, while somebody is out of descriptors."""

TEXT = "from tests.chaos.driver import main\nmain()"

Start = Callable[..., Script]


class Driver:
    """A driver process and the command it hasn't answered. It is told, and judged, elsewhere."""

    def __init__(self, number: int, script: Script) -> None:
        self.number = number
        self.script = script
        self.command: tuple[str, ...] = ("join",)  # as it starts
        self.shown = 0


class Chaos:
    """One seed's run. It knows which names must be there, and whom it has killed."""

    def __init__(self, seed: int, start: Start, processes: Processes, disk: Path) -> None:
        self.chance = random.Random(seed)
        self.log: list[str] = []
        self._start = start
        self._processes = processes
        self._disk = disk
        self._numbers = iter(range(seed * 10_000_000, (seed + 1) * 10_000_000, 10))
        self._killed: set[str] = set()
        self._is_short = False  # see SHORT
        self._at_rest = False  # nobody shows anything, and no driver holds anything
        self._ownerless = False  # nobody has an arena
        self._kept: dict[str, None] = {}  # names that must be there, the oldest first
        self._known: list[str] = []  # names, and objects without one, that commands are about
        self._pinned: dict[str, None] = {}
        self._begin()
        self._drivers = [Driver(n, start(TEXT, str(disk))) for n in range(DRIVERS)]
        self._hear_all()
        self._others = self._other_descriptors()

    def _begin(self) -> None:
        self.engine = join(str(self._disk))
        self.engine.snapshot()
        self._server = self._processes.server()
        path = Path(os.environ["WORKBENCH_RUNTIME_DIR"]) / f"{SESSION}.workbench.log"
        self._server_log = os.open(path, os.O_RDONLY)  # the next server's start removes it
        self._kept.clear()
        self._known.clear()
        self._pinned.clear()

    def note(self, text: str) -> None:
        """What a failure will tell."""
        self.log.append(text)
        del self.log[:-REMEMBERED]

    def _tell(self, driver: Driver, *command: str) -> None:
        if driver.command:
            self._hear(driver)
        self.note(f"driver {driver.number}: {' '.join(command)}")
        driver.command = command
        driver.script.tell(" ".join(command))
        if command[0] == "free":
            self._kept.pop(command[1], None)

    def _hear(self, driver: Driver) -> str:
        """Its answer, judged."""
        word, _, rest = driver.script.line().partition(" ")
        command, driver.command = driver.command, ()
        match command[0]:
            case "show":
                driver.shown += 1
            case "look" | "rest":
                driver.shown = 0
        self.note(f"driver {driver.number}: {command[0]} is {word} {rest[:300]}")
        if word == "failed":
            kind = rest.split()[0]
            excuses = [*ALWAYS]
            if command[0] in ("call", "count"):
                excuses += ACTORS
            if "server" in self._killed:
                excuses.append("SessionError")
            short = any(w in rest for w in SHORT) and (self._is_short or command[0] == "results")
            assert short or any(name in kind for name in excuses), rest
            assert "can't be read back" not in rest
            return ""
        assert word == "done", rest
        match command:
            case ("put", _, "yes") | ("task", *_):
                self._kept[rest] = None
        if command[0] in ("put", "task"):
            self._known.append(rest)
        return rest

    def _hear_all(self) -> None:
        for driver in self._drivers:
            if driver.command:
                self._hear(driver)

    def _do(self, driver: Driver, *command: str) -> str:
        self._tell(driver, *command)
        return self._hear(driver)

    def _replace(self, driver: Driver) -> None:
        """Kill it, whatever it does, and have another in its place."""
        self.note(f"driver {driver.number} is killed")
        driver.script.close()
        place = self._drivers.index(driver)
        self._drivers[place] = Driver(driver.number, self._start(TEXT, str(self._disk)))

    def round(self) -> None:
        """Some commands and some deaths, and then an account of everything."""
        self._killed.clear()
        self._at_rest = False
        for _ in range(self.chance.randint(6, 14)):
            self._step()
        if self.chance.random() < 0.9:
            self._strike()
        self._hear_all()
        if "server" in self._killed:
            self._begin_again()
        self.account()
        match self.chance.randrange(25):
            case 0:
                self.orphans()
            case 1 | 2:
                self.everything()

    def _step(self) -> None:
        """A command, perhaps beside others that are under way."""
        driver = self.chance.choice(self._drivers)
        self._tell(driver, *self._command(driver))
        if self.chance.random() < 0.5:
            self._hear(driver)
        if self.chance.random() < 0.1 and self._kept:
            self._duel(self.chance.choice(list(self._kept)))
        if self.chance.random() < 0.2:
            self._look_at_memory()
        if self.chance.random() < 0.005:
            self._stop_one()
        if self.chance.random() < 0.02:
            self._run_short()

    def _stop_one(self) -> None:
        """A driver is stopped, whatever it holds and does: others go on."""
        stopped, *others = self.chance.sample(self._drivers, DRIVERS)
        self.note(f"driver {stopped.number} is stopped")
        stopped.script.signal(signal.SIGSTOP)
        try:
            for driver in others * 2:
                self._do(driver, *self._command(driver))
        finally:
            stopped.script.signal(signal.SIGCONT)
            self.note(f"driver {stopped.number} goes on")

    def _run_short(self) -> None:
        """A process can open hardly anything for a moment: it and the others go on."""
        self._hear_all()
        driver = self.chance.choice(self._drivers)
        kind = self.chance.choice(["driver", "worker", "server", "forkserver"])
        gone = psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError
        with suppress(*gone, StopIteration, IndexError):
            pids = {
                "driver": lambda: driver.script.pid,
                "worker": lambda: self.chance.choice(self._processes.workers()).pid,
                "server": lambda: self._server.pid,
                "forkserver": lambda: self._processes.forkserver().pid,
            }
            pid = pids[kind]()
            left = self.chance.randrange(6)
            self.note(f"{kind} {pid} has {left} descriptors left")
            before = {worker.pid for worker in self._processes.workers()}
            with few_descriptors(pid, left):
                self._is_short = True
                if kind == "forkserver":  # it would need them to replace this one
                    self.chance.choice(self._processes.workers()).kill()
                for each in (driver, self.chance.choice(self._drivers)):
                    self._do(each, *self._command(each))
            self.note(f"{kind} {pid} has descriptors")
            if kind == "forkserver":
                self._kill_all_but(before)
        self._is_short = False

    def _kill_all_but(self, before: set[int]) -> None:
        """Workers that were born while there were few descriptors: each would put that limit back
        after its tasks, whatever it is given from outside."""
        forkserver = self._processes.forkserver()
        forkserver.suspend()  # so that none is just being born
        try:
            assert eventually(lambda: forkserver.status() == psutil.STATUS_STOPPED)
            for worker in self._processes.workers():
                if worker.pid not in before:
                    worker.kill()
        finally:
            forkserver.resume()

    def _duel(self, name: str) -> None:
        """One reads what another moves to disk, while a third writes."""
        one, other, third = self.chance.sample(self._drivers, 3)
        self._do(one, "get", name)  # it knows the place: what follows needs no word of the server
        self._tell(other, "spill", name, "5")
        self._tell(third, "put", str(next(self._numbers) + 1), "no")
        other.script.speaks(self.chance.uniform(0, 0.01))
        self._tell(one, *(("show", name) if one.shown < MOST_SHOWN else ("get", name, "20")))

    def _look_at_memory(self) -> None:
        """Never is more of it touched than there may be."""
        self._server.suspend()  # so that none changes hands meanwhile
        assert eventually(lambda: self._server.status() == psutil.STATUS_STOPPED)
        touched = sum(segments(self._server.pid).values())
        self._server.resume()
        assert touched <= MEMORY

    def _command(self, driver: Driver) -> tuple[str, ...]:
        number = str(next(self._numbers) + self.chance.randrange(4))
        if len(self._known) < 3:
            return "put", number, "yes"
        if len(self._kept) > MOST_NAMES:
            return "free", next(iter(self._kept))
        name = self.chance.choice(self._known[-MOST_NAMES:])
        kinds = {
            "put": 6, "hide": 3, "get": 3, "gets": 2, "show": 3, "look": 1, "drop": 2, "free": 1,
            "pin": 1, "unpin": 1, "spill": 3, "spills": 2, "task": 4, "submit": 2, "results": 1,
            "call": 2, "count": 4, "short": 4,
        }  # fmt: skip
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        if kind == "show" and driver.shown == MOST_SHOWN:
            kind = "look"
        match kind:
            case "put" | "hide":
                return "put", number, "yes" if kind == "put" else "no"
            case "gets" | "spills":
                return kind[:-1], name, "10"
            case "task" | "submit" | "count":
                return kind, name, number
            case "short":
                return kind, number
            case "look" | "results":
                return (kind,)
            case "pin" if len(self._pinned) < 2:
                self._pinned[name] = None
                return "pin", name
            case "pin" | "unpin" if self._pinned:
                name = next(iter(self._pinned))
                del self._pinned[name]
                return "unpin", name
            case "unpin":
                return "get", name
            case _:
                return kind, name

    def _strike(self) -> None:
        """Kill somebody while everybody is at work."""
        kinds = {"worker": 10, "driver": 5, "forkserver": 2, "server": 1}
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        for driver in self._drivers:
            if not driver.command:
                self._tell(driver, *self._command(driver))
            elif driver.command == ("join",):  # it would start a session if there were none
                self._hear(driver)
        victim = self.chance.choice(self._drivers)
        self.chance.choice(self._drivers).script.speaks(self.chance.uniform(0, 0.03))
        self._killed.add(kind)
        if kind == "driver":
            self._replace(victim)
            return
        self.note(f"a {kind} is killed")
        with suppress(psutil.NoSuchProcess, StopIteration, IndexError):  # not there just now
            match kind:
                case "worker":
                    self.chance.choice(self._processes.workers()).kill()
                case "forkserver":
                    self._processes.forkserver().kill()
                case "server":
                    self._server.kill()

    def _begin_again(self) -> None:
        """The server was killed: all that is the session's ends, and drivers go on in another."""
        assert self._processes.gone()
        with pytest.raises(SessionError):
            self.engine.snapshot()
        for driver in self._drivers:
            self._tell(driver, "ask")
            assert driver.script.line().startswith("failed SessionError")
            driver.command = ()
        wb.shutdown()
        self.close()
        self._begin()
        for driver in self._drivers:
            self._do(driver, "look")
            self._do(driver, "join")

    def account(self) -> None:
        """Every named object is there, and right; and the books agree with the system."""
        names = self.engine.ask(Names())
        lost = self._kept.keys() - set(names)
        assert not lost, f"lost: {lost}"
        for name in names:
            self._look(name)
        self._known = [name for name in self._known if name in names]
        if self.chance.random() < 0.5:
            self._rest()
        self._settled()

    def _rest(self) -> None:
        """Nobody shows anything, or has a handle."""
        for driver in self._drivers:
            self._do(driver, "rest")
        self._at_rest = True

    def _look(self, name: str) -> None:
        ref = self.engine.ask(Lookup(name))
        try:
            assert ref is None or is_right(name, wb.get(ref)), f"altered: {name}"
        except ObjectFreedError:
            ref = None
        assert ref is not None or name not in self._kept, f"lost: {name}"  # its Free came just now

    def _settled(self) -> None:
        if not eventually(lambda: not self._untruths()):
            raise AssertionError("\n".join(self._untruths()))

    def _untruths(self) -> list[str]:
        """What differs between the books, one another, and what the system says. None at rest."""
        snapshot = self.engine.snapshot()
        found: list[str] = []

        def same(what: str, one: object, other: object) -> None:
            if one != other:
                found.append(f"{what}: {one} and {other}")

        same("tasks", (snapshot.queued, snapshot.running), (0, 0))
        pool = [worker.state for worker in snapshot.workers if not worker.actor]
        same("workers", pool, ["idle"] * WORKERS)
        inline = sum(record.size for record in _those(snapshot, "inline"))
        live = snapshot.live - inline
        if self._at_rest:  # else views may keep places that objects have left
            in_memory = sum(round_up(record.size) for record in _those(snapshot, "memory"))
            on_disk = sum(round_up(record.size) for record in _those(snapshot, "disk"))
            same("in memory, in all and by object", live, in_memory)
            same("on disk, in all and by object", snapshot.spilled, on_disk)
        memory, disk = segments(self._server.pid), self._files(self._server.pid)
        touched, granted = sum(memory.values()), snapshot.granted - inline
        if not live <= touched <= granted:
            found.append(f"memory: not live {live} <= touched {touched} <= granted {granted}")
        if self._ownerless:
            same("memory of objects, and really", live, touched)
        same("on disk, by the books and really", snapshot.spilled, sum(disk.values()))
        ours = {*segments(os.getpid()), *self._files(os.getpid())}
        same("segments that only the observer has", ours - memory.keys() - disk.keys(), set())
        same("files in the spill directory", os.listdir(self._disk), [])
        same("the observer's other descriptors", self._other_descriptors(), self._others)
        return found or self._strangers(snapshot)

    def _strangers(self, snapshot: Snapshot) -> list[str]:
        """Processes that are nobody's, or that the server doesn't know."""
        every = {process.pid for process in self._processes.all()} - {self._server.pid}
        forkserver = {process.pid for process in self._server.children()}
        below = {process.pid for process in self._server.children(recursive=True)}
        workers = {worker.pid for worker in snapshot.workers}
        if every == below == forkserver | workers and len(forkserver) == 1:
            return []
        return [f"processes: {every}; the server's {forkserver}, all {below}; workers {workers}"]

    def _files(self, pid: int) -> dict[int, int]:
        return segments(pid, f"{self._disk}/")

    def _other_descriptors(self) -> int:
        """How many descriptors the observer has, but for segments'."""
        ours = ("/memfd:workbench", f"{self._disk}/")
        return sum(not target.startswith(ours) for target in descriptors().values())

    def orphans(self) -> None:
        """All who write are killed: what is left of memory is the objects, to the page."""
        self.note("all drivers and workers are killed")
        for driver in list(self._drivers):
            self._replace(driver)
        self._hear_all()
        self._processes.forkserver().kill()
        self._at_rest = self._ownerless = True
        self._settled()
        self._ownerless = False

    def everything(self) -> None:
        """All is freed: each driver and a worker in turn can have the whole store."""
        self._rest()
        kept = [r.id for r in self.engine.snapshot().objects if r.names or r.pinned]
        wb.free([self.engine.borrow(id) for id in kept])
        self._kept.clear()
        self._known.clear()
        self._pinned.clear()
        self._settled()
        for driver in self._drivers:
            self._tell(driver, "fill", str(NEARLY_ALL))
            driver.command = ()
            assert driver.script.line().startswith("done")  # nothing excuses a failure
        self._settled()

    def end(self) -> None:
        """Everybody leaves, as one should."""
        for driver in self._drivers:
            driver.script.tell()
            assert driver.script.wait() == 0
        wb.shutdown()
        self.close()

    def server_log(self) -> str:
        """What it wrote."""
        return os.pread(self._server_log, 1 << 20, 0).decode()

    def close(self) -> None:
        """Let go of the log."""
        os.close(self._server_log)


def _those(snapshot: Snapshot, where: str) -> Iterator[ObjectRecord]:
    return (record for record in snapshot.objects if record.where == where)


def _in_shared_memory() -> set[str]:
    """What sessions of this machine have left there, by name."""
    return {name for name in os.listdir("/dev/shm") if "workbench" in name}


def _run(seed: int, rounds: int, start: Start, processes: Processes, disk: Path) -> None:
    shared = _in_shared_memory()
    chaos = Chaos(seed, start, processes, disk)
    for number in range(rounds):
        chaos.note(f"round {number}")
        try:
            chaos.round()
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}; the last actions:")
            for line in chaos.log:
                error.add_note(f"  {line}")
            error.add_note(f"The server's log:\n{chaos.server_log()}")
            chaos.close()
            raise
    chaos.end()
    assert _in_shared_memory() <= shared
    assert os.listdir(disk) == []


def test_a_few_rounds(script: Start, processes: Processes, tmp_path: Path) -> None:
    _run(0, 2, script, processes, tmp_path)


@pytest.mark.extended
@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_rounds(seed: int, script: Start, processes: Processes, tmp_path: Path) -> None:
    _run(seed, ROUNDS, script, processes, tmp_path)
