"""A driver that does what it is told, a line a command, and answers each with a line.

``done WORDS``, ``failed TYPE TEXT`` for an error of the project's own, or ``broken`` and where.
What is right it checks itself. Which commands when is not its business.
"""

from __future__ import annotations

import errno
import sys
import traceback
from random import Random
from typing import Any

import numpy as np

import workbench as wb
from tests.chaos.values import is_right, make, name_of
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.errors import ObjectLostError, WorkbenchError

SESSION = "chaos"
MEMORY = 32_000_000
WORKERS = 2


def join(disk: str) -> Engine:
    """Start the session, or join it."""
    return wb.init(session=SESSION, workers=WORKERS, memory=MEMORY, linger=10, spill_dir=disk)


def _right(name: str, value: Any) -> None:
    assert is_right(name, value), f"these are not the bytes of {name}"


@wb.remote
def work(data: Any, name: str, number: int) -> Any:
    """A task that reads an object, puts another, and makes a third."""
    _right(name, data)
    value = make(number)
    wb.put(value, name=name_of(number, value))
    _right(name, data)
    return value


@wb.remote
def same(data: Any) -> Any:
    """A task that takes what a call returns."""
    return data


@wb.remote
def small(number: int) -> tuple[int, Any]:
    """A short task, which goes straight to a worker, mostly; some wait for one of their own."""
    if number % 40 == 39:
        return number, np.full(20_000, number)
    return number, wb.get(same.remote(number)) if number % 40 == 19 else None


@wb.remote
def fills(nbytes: int) -> None:
    """A task that needs nearly all of the store."""
    wb.put(np.ones(nbytes, np.uint8))


@wb.remote
class Keeper:
    """An actor that shows one object until the next."""

    def __init__(self) -> None:
        self.name, self.shown = "", None

    def keep(self, name: str, data: Any) -> None:
        """Show this one from now on; what was shown until now must be right still."""
        if self.name:
            _right(self.name, self.shown)
        _right(name, data)
        self.name, self.shown = name, data


class Count:
    """Numbers its calls; some results are large."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, number: int) -> tuple[int, int, Any]:
        self.count += 1
        return self.count, number, np.full(20_000, number) if number % 50 == 49 else None


@wb.remote(max_restarts=-1)
class Counter(Count):
    """An actor whose calls go straight to it, mostly."""

    def next(self, number: int, data: Any = None) -> tuple[int, int, Any]:
        return self.counted(number)


@wb.remote(max_restarts=-1)
class AsyncCounter(Count):
    """The same on a loop. It begins calls in their order."""

    async def next(self, number: int, data: Any = None) -> tuple[int, int, Any]:
        return self.counted(number)


@wb.remote(max_restarts=-1)
class Between:
    """An actor that calls others, as a driver does."""

    def count(self, counter: Any, data: Any, seed: int, times: int) -> None:
        count(counter, data, seed, times)


@wb.remote
def counts(counter: Any, data: Any, seed: int, times: int) -> None:
    """A task that does."""
    count(counter, data, seed, times)


def count(counter: Any, data: Any, seed: int, times: int) -> None:
    """Calls in order, by both ways, each of which has its end; and none is run twice."""
    chance = Random(seed)
    last: int | None = None  # a task that is tried again isn't the first to call
    for number in range(times):
        calls = [counter.next.remote(number)]
        if chance.random() < 0.05:
            calls.append(counter.next.remote(number, data))
        if chance.random() < 0.02:
            calls += [counter.next.remote(number) for _ in range(chance.randrange(100))]
        if chance.random() < 0.1:
            wb.get(same.remote(calls[0]))
        for call in calls:
            counted, given, large = wb.get(call)
            assert given == number, f"{given} is what {number} returned"
            assert large is None or (large == number).all()
            assert last is None or counted <= last + 1, f"{counted} after {last}"
            last = counted


class Driver:
    """The commands are its methods. Objects are called by their names, also those without."""

    def __init__(self, disk: str) -> None:
        self._disk = disk
        self.join()

    def join(self) -> None:
        self._refs: dict[str, wb.ObjectRef] = {}
        self._shown: dict[str, Any] = {}
        self._results: list[tuple[str, wb.ObjectRef]] = []
        self._keeper: Any = None
        self._engine = join(self._disk)

    def _ref(self, name: str) -> wb.ObjectRef:
        """The handle; a driver keeps it, once it has one, until it drops it."""
        ref = self._refs.get(name)
        if ref is None:
            ref = self._engine.ask(Lookup(name))
        if ref is None:
            raise ObjectLostError(f"There is no {name}.")
        self._refs[name] = ref
        return ref

    def put(self, number: str, is_named: str) -> str:
        value = make(int(number))
        name = name_of(int(number), value)
        self._refs[name] = wb.put(value, name=name) if is_named == "yes" else wb.put(value)
        return name

    def get(self, name: str, times: str = "1") -> None:
        for _ in range(int(times)):
            _right(name, wb.get(self._ref(name)))

    def show(self, name: str) -> None:
        self._shown[name] = value = wb.get(self._ref(name))
        _right(name, value)

    def look(self) -> None:
        """What is shown must be right, whatever has become of the object and of the session."""
        while self._shown:
            _right(*self._shown.popitem())

    def drop(self, name: str) -> None:
        self._refs.pop(name, None)

    def free(self, name: str) -> None:
        wb.free(self._ref(name))

    def pin(self, name: str) -> None:
        wb.pin(self._ref(name))

    def unpin(self, name: str) -> None:
        wb.unpin(self._ref(name))

    def spill(self, name: str, times: str = "1") -> None:
        for _ in range(int(times)):
            wb.spill(self._ref(name))

    def task(self, name: str, number: str) -> str:
        value = wb.get(work.remote(self._ref(name), name, int(number)))
        made = name_of(int(number), make(int(number)))
        _right(made, value)
        return made

    def submit(self, name: str, number: str) -> None:
        made = name_of(int(number), make(int(number)))
        self._results.append((made, work.remote(self._ref(name), name, int(number))))

    def results(self) -> None:
        while self._results:
            made, ref = self._results.pop()
            _right(made, wb.get(ref))

    def call(self, name: str) -> None:
        self._keeper = self._keeper or Keeper.remote()
        try:
            wb.get(self._keeper.keep.remote(name, self._ref(name)))
        except WorkbenchError:
            self._keeper = None
            raise

    def count(self, name: str, seed: str) -> None:
        """From here, from an actor, or from a task: an actor of either kind."""
        ref, chance = self._ref(name), Random(int(seed))
        counter: Any = chance.choice([Counter, AsyncCounter]).remote()
        match chance.randrange(4):
            case 0:
                wb.get(Between.remote().count.remote(counter, ref, int(seed), 100))
            case 1:
                wb.get(counts.remote(counter, ref, int(seed), 100))
            case _:
                count(counter, ref, int(seed), 200)

    def short(self, seed: str) -> None:
        """Short tasks one after the other, some beside others, each of which has its end."""
        chance = Random(int(seed))
        for number in range(200):
            tasks = [small.remote(number)]
            if chance.random() < 0.05:
                tasks += [small.remote(number) for _ in range(chance.randrange(20))]
            if chance.random() < 0.05:
                wb.get(same.remote(tasks[0]))
            for task in tasks:
                given, data = wb.get(task)
                assert given == number, f"{given} is what {number} returned"
                assert data is None or np.all(data == number)

    def rest(self) -> None:
        """Let go of everything."""
        self._refs.clear()
        self._results.clear()
        self._keeper = None
        self.look()

    def fill(self, nbytes: str) -> None:
        """Nearly all of the store, from here and from a worker."""
        wb.put(np.ones(int(nbytes), np.uint8))
        wb.get(fills.remote(int(nbytes)))

    def ask(self) -> None:
        wb.snapshot()


def main() -> None:
    """Answer for the joining, then for each command."""
    driver = None
    command = ["join"]
    while command:
        try:
            if driver is None:
                driver, answer = Driver(sys.argv[1]), ""
            else:
                answer = getattr(driver, command[0])(*command[1:]) or ""
            print("done", answer, flush=True)
        except (WorkbenchError, OSError) as error:
            if not isinstance(error, WorkbenchError) and error.errno != errno.EMFILE:
                raise
            print("failed", type(error).__name__, repr(str(error)), flush=True)
        except Exception:
            print("broken", repr(traceback.format_exc()), flush=True)
        command = sys.stdin.readline().split()
    wb.shutdown()
