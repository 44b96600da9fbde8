"""`python tests/benchmarks/scale.py`: what one event costs the core when there is much of all.

Sessions of 10 000, 100 000 and a million objects and as many tasks are driven by peers that are
made up here, without a socket. Each event is a batch of its own, so that no two share a decision.
Prints tables; asserts nothing of time.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median

from table import Table, as_markdown

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, WorkerExited
from workbench.core.session import Session

SIZES = (10_000, 100_000, 1_000_000)
WORKERS = 1000
FLAT = 0.2
CYCLES = 100
"""Of one operation at a time; then it is the next session's turn."""

ASK_EVERY = 10_000
"""Events. A process asks for leave to send more small objects before it has used up what it has,
which is far more."""

DRIVER = 1
STRIDE = 997
"""From one object that is asked for to the next: they don't lie together in memory."""

RESULT = ev.Value(b"N")
ABOUT = ev.About("thing", 1, 0, 0, 0.0, 0.0)


class World:
    """A session and its peers: ``size`` objects, and as many tasks that no worker has been sent.

    If the scene is ``busy``, these are queued, and all workers run one, which takes ``seconds``.
    Else they wait for an object, and all workers but one have nothing to do.
    """

    def __init__(self, size: int, scene: Scene) -> None:
        self.spent = 0.0  # seconds inside the core
        self.longest = 0.0  # of them in one event
        self.events = 0
        self.session = Session("scale", WORKERS, 1 << 40)
        self.runs: deque[tuple[int, int]] = deque()  # (worker's client, task) as they were sent
        self.clients: dict[int, int] = {}  # worker's number → its client
        self.seconds = scene.seconds
        self.ids = count((DRIVER << ID_BITS) + 1)
        self._numbers = count(DRIVER + 1)
        self.tell(DRIVER, ev.Hello(1, DRIVER))
        self.function, self.actor = self.put(), self.put()
        creation = ev.Submit(self.actor, self.function, b"", returns=0, actor=self.actor)
        self.tell(DRIVER, ev.Create(creation))
        self.clients.popitem()  # the actor's worker isn't the pool's
        self.finish()
        self.gate: tuple[int, ...] = ()
        if not scene.busy:
            self.gate = (self.submit(),)
            busy_one, _ = self.runs.pop()  # it is never done, and never crashes
            self.clients = {n: client for n, client in self.clients.items() if client != busy_one}
        self.objects = deque(self.put() for _ in range(size))
        scheduler = self.session.state.scheduler
        while len(scheduler.tasks) < size:
            self.last = self.submit(self.gate)
        if scene.busy:  # what a task takes is known when one is done; then more may be sent ahead
            for _ in range(WORKERS):
                self.submit()
                self.finish()
            while len(scheduler.queue) < size:
                self.last = self.submit()
        self.longest = 0.0

    def tell(self, number: int, event: ev.Event) -> None:
        """One batch of one event; does what comes of it."""
        if self.events % ASK_EVERY == 0 and DRIVER in self.session.state.clients:
            self.session.handle([(DRIVER, ev.Ask(0, "inline"))], 0.0)
        batch = [(number, event)]
        started = time.perf_counter()
        out = self.session.handle(batch, 0.0)
        seconds = time.perf_counter() - started
        self.spent += seconds
        self.longest = max(self.longest, seconds)
        self.events += 1
        for instruction in out:
            match instruction:
                case do.Send(to, do.Run() as run):
                    self.runs.append((to, run.task))
                case do.Hangup():
                    raise RuntimeError(instruction.reason)
                case do.Fork():
                    self.clients[instruction.worker] = client = next(self._numbers)
                    self.tell(client, ev.Hello(client, client, instruction.worker))

    def put(self) -> int:
        """A new object of the driver's."""
        id = next(self.ids)
        self.tell(DRIVER, ev.Sealed(id, ev.Value(b"P" * 64), ABOUT))
        return id

    def submit(self, deps: tuple[int, ...] = (), actor: int = 0) -> int:
        """A new task of the driver's."""
        id = next(self.ids)
        function = 0 if actor else self.function
        self.tell(DRIVER, ev.Submit(id, function, b"args", deps, name="f", retries=9, actor=actor))
        return id

    def drop(self, id: int) -> None:
        """The driver's handle is gone."""
        self.tell(DRIVER, ev.Drop((id,)))

    def finish(self) -> int:
        """The first of all that run is done; which that was."""
        client, task = self.runs.popleft()
        self.tell(client, ev.Done(task, (RESULT,), self.seconds))
        return task


def put(world: World) -> None:
    """put an object, drop the oldest"""
    world.objects.append(world.put())
    world.drop(world.objects.popleft())


def get(world: World) -> None:
    """want an object, view it, unview it"""
    world.objects.rotate(-STRIDE)
    id = world.objects[0]
    world.tell(DRIVER, ev.Want((id,)))
    world.tell(DRIVER, ev.View(id, 0))
    world.tell(DRIVER, ev.Unview(((id, 0),)))


def task(world: World) -> None:
    """submit a task; one is done, another begins; drop the result"""
    world.submit()
    world.drop(world.finish())


def burst(world: World) -> None:
    """submit two tasks in one message; two are done, others begin; drop the results"""
    tasks = next(world.ids), next(world.ids)
    form = ev.CallForm(world.function, name="f", retries=9)
    world.tell(DRIVER, ev.SubmitCalls(tasks, (b"args",) * 2, form))
    world.drop(world.finish())
    world.drop(world.finish())


def call(world: World) -> None:
    """submit an actor's call; it is done; drop the result"""
    id = world.submit(actor=world.actor)
    client, _ = world.runs.pop()
    world.tell(client, ev.Done(id, (RESULT,), 0.0))
    world.drop(id)


def cancel(world: World) -> None:
    """submit a task that can't begin; cancel it; drop the result"""
    id = world.submit(world.gate)
    world.tell(DRIVER, ev.Cancel((id,)))
    world.drop(id)


def depend(world: World) -> None:
    """the same of one that waits for one that can't begin"""
    id = world.submit((world.last,))
    world.tell(DRIVER, ev.Cancel((id,)))
    world.drop(id)


def block(world: World) -> None:
    """a worker waits for something, and goes on"""
    client, task = world.runs[0] if world.runs else (next(iter(world.clients.values())), 0)
    world.tell(client, ev.Blocked(task, objects=(world.last,)))
    world.tell(client, ev.Unblocked())


def crash(world: World) -> None:
    """a worker dies, another comes and takes its task"""
    number, client = world.clients.popitem()
    world.runs = deque(run for run in world.runs if run[0] != client)
    world.tell(client, Left())
    world.tell(0, WorkerExited(number, -9))


Operation = Callable[[World], None]


@dataclass(frozen=True)
class Scene:
    """What the workers are at, and what is measured then."""

    title: str
    busy: bool
    seconds: float
    operations: tuple[Operation, ...]


ALWAYS: tuple[Operation, ...] = (put, get, task, burst, call, cancel, depend, crash)
SCENES = (
    Scene("tasks of 1 s, queued", True, 1.0, ALWAYS),
    Scene("tasks of 100 µs, queued", True, 1e-4, ALWAYS),
    Scene("tasks that wait, idle workers", False, 1.0, (*ALWAYS, block)),
)


def measure(world: World, operation: Operation) -> float:
    """Seconds an event."""
    world.spent, world.events = 0.0, 0
    for _ in range(CYCLES):
        operation(world)
    return world.spent / world.events


def show(scene: Scene, sizes: tuple[int, ...], rounds: int) -> Table:
    """Build the worlds; measure in turns; say what came of it. Ratios are of one turn each."""
    worlds = [World(size, scene) for size in sizes]
    samples = [[[measure(w, o) for w in worlds] for o in scene.operations] for _ in range(rounds)]
    names = [f"{size:,}".replace(",", " ") for size in sizes]
    table = [[scene.title, *names, f"{names[-1]} ÷ {names[0]}", "flat"]]
    for operation, *turns in zip(scene.operations, *samples, strict=True):
        growth = median(turn[-1] / turn[0] for turn in turns)
        costs = [f"{1e6 * median(column):.1f} µs" for column in zip(*turns, strict=True)]
        flat = "yes" if abs(growth - 1) <= FLAT else "no"
        table.append([operation.__doc__ or "", *costs, f"{growth:.2f} ×", flat])
    longest = [f"{1e3 * world.longest:.1f} ms" for world in worlds]
    return [*table, ["the longest single event", *longest, "", ""]]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="scale.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no million, fewer rounds")
    options = parser.parse_args()
    gc.disable()  # as the server does
    began = time.monotonic()
    sizes, rounds = (SIZES[:2], 3) if options.quick else (SIZES, 25)
    for scene in SCENES:
        lines = show(scene, sizes, rounds)
        print(as_markdown(lines), end="\n\n", flush=True)
    print(
        f"Seconds an event; medians of {rounds} turns. {len(os.sched_getaffinity(0))} cores, "
        f"Python {platform.python_version()}, {time.monotonic() - began:.0f} s."
    )


if __name__ == "__main__":
    main()
