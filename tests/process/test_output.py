"""What tasks show: through Python, past it, much of it; under whose cell, and before what."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from tests.patience import THOROUGH, TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from workbench.core.events import Output
from workbench.engine.base import CellListener, Engine
from workbench.errors import TaskCancelledError

LINE = "one line of a flood, as a loop prints it while somebody looks for an error\n"


class Screen:
    """What this driver was told to show, by origin. The next submits have the one that is set."""

    def __init__(self, engine: Engine) -> None:
        self.received: list[Output] = []
        self._came = threading.Condition()
        self._engine = engine
        engine.listener = CellListener(self._show)

    def _show(self, output: Output) -> None:
        with self._came:
            self.received.append(output)
            self._came.notify_all()

    def under(self, origin: int) -> None:
        """What is submitted from now on belongs to this cell."""
        self._engine.listener = CellListener(self._show, origin=lambda: origin)

    def shown(self, origin: int = 0) -> list[tuple[str, str]]:
        """In order; neighbouring text of a stream as one."""
        joined: list[tuple[str, bytes]] = []
        for each in list(self.received):
            if each.origin == origin and joined and joined[-1][0] == each.kind:
                joined[-1] = (each.kind, joined[-1][1] + each.data)
            elif each.origin == origin:
                joined.append((each.kind, each.data))
        return [(kind, data.decode("utf-8", "backslashreplace")) for kind, data in joined]

    def text(self, kind: str = "stdout", origin: int = 0) -> str:
        return "".join(text for k, text in self.shown(origin) if k == kind)

    def wait_for(self, text: str, origin: int = 0) -> None:
        """Until it is shown; somebody has to read meanwhile, and the connection's thread does."""
        with self._came:
            assert self._came.wait_for(
                lambda: any(text in shown for _, shown in self.shown(origin)), TIMEOUT
            ), self.shown(origin)


@pytest.fixture
def screen(session: Engine) -> Iterator[Screen]:
    before = session.listener
    yield Screen(session)
    session.listener = before


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_prints_too(screen: Screen) -> None:
    @wb.remote
    def forks() -> Any:
        def child() -> None:
            print("child")
            grandchild = os.fork()
            if not grandchild:
                print("grandchild", flush=True)
                leave_at_once()
            os.waitpid(grandchild, 0)
            print("child ends", end="")

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        print("\nparent")
        return process.exitcode

    assert wb.get(forks.remote()) == 0
    assert screen.shown() == [("stdout", "child\ngrandchild\nchild ends\nparent\n")]


@pytest.mark.parametrize("kind", ["threads", "a loop"])
def test_calls_of_an_actor_that_run_together(screen: Screen, gate: Gate, kind: str) -> None:
    """Each print is its own call's, before its result; what C code writes is one's of those that
    run."""
    stop = gate.stop

    class Threads:
        def call(self, name: str) -> None:
            print(name, "begins")
            stop()
            os.write(2, b"C\n")
            stop()
            print(name, "ends")

    class Loop:
        async def call(self, name: str) -> None:
            print(name, "begins")
            await asyncio.to_thread(stop)
            os.write(2, b"C\n")
            await asyncio.to_thread(stop)
            print(name, "ends")

    cls: Any = Threads if kind == "threads" else Loop
    actor = wb.remote(max_concurrency=2)(cls).remote()
    refs = []
    for origin in (1, 2):
        screen.under(origin)
        refs.append(actor.call.remote(str(origin)))
    for _ in range(2):
        for visitor in [gate.next() for _ in refs]:
            visitor.let_on()
    for origin, ref in enumerate(refs, 1):
        wb.get(ref)
        assert screen.text(origin=origin) == f"{origin} begins\n{origin} ends\n"
    assert screen.text("stderr", 1) + screen.text("stderr", 2) == "C\n" * 2


@pytest.mark.thorough
def test_cancelled_at_any_moment_the_worker_prints_on(screen: Screen) -> None:
    """An interrupt in the middle of a print, again and again, in the main thread and in others."""

    class Prints:
        def flood(self) -> None:
            number = 0
            while True:
                number += 1
                print(number, "x" * 50)
                if number % 100 == 0:
                    os.write(1, b"C\n")

    actor = wb.remote(max_concurrency=2)(Prints).remote()
    for origin in range(1, 40 if THOROUGH else 8):
        screen.under(origin)
        ref = actor.flood.remote() if origin % 2 else wb.remote(Prints().flood).remote()
        screen.wait_for("x", origin)  # the first lines a flood may have cut already
        wb.cancel(ref)
        with pytest.raises(TaskCancelledError):
            wb.get(ref)
        assert len(screen.text(origin=origin)) < 8_000_000
    screen.under(0)
    wb.get([wb.remote(lambda: print("goes on")).remote() for _ in range(2)])
    assert screen.text() == "goes on\ngoes on\n"


def test_a_sink_that_fails_harms_nobody(screen: Screen, session: Engine, capfd: Any) -> None:
    def broken(output: Output) -> None:
        raise RuntimeError("no room on the page")

    session.listener = CellListener(broken)
    wb.get(wb.remote(lambda: print("x")).remote())
    assert wb.get(wb.put("goes on")) == "goes on"
    assert "no room on the page" in capfd.readouterr().err


NOT_SHOWN = re.compile(r"^\[([\d.e+]+) ([kMG]?)B not shown\]\n", re.MULTILINE)
FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


@pytest.mark.fresh_session  # its processes have room for what a flood begins with
@pytest.mark.parametrize("how", ["print", "C code"])
def test_a_flood_is_cut_and_its_memory_given_back(screen: Screen, how: str) -> None:
    count = 600_000

    @wb.remote
    def floods(line: str) -> int:
        if how == "print":
            for _ in range(count // 1000):
                print(line * 1000, end="")
        else:  # nobody can read before all is written: it holds the lock
            flood = line.encode() * count
            ctypes.PyDLL(None).write(1, flood, len(flood))
        print("the last line")
        return os.stat("/proc/self/fd/1").st_blocks * 512

    assert wb.get(floods.remote(LINE)) < 16_000_000
    text = screen.text()
    assert text.startswith(LINE * 10)
    assert text.endswith(LINE * 50 + "the last line\n")
    left_out = sum(float(n) * FACTORS[factor] for n, factor in NOT_SHOWN.findall(text))
    shown = NOT_SHOWN.sub("", text)
    assert len(shown) < 20_000_000
    assert len(shown) + left_out == pytest.approx(count * len(LINE), rel=0.01)
    assert all(LINE.startswith(line) for line in {*shown.splitlines()} - {"the last line"})


def test_many_prints_are_few_messages(screen: Screen) -> None:
    def prints() -> None:
        for number in range(20_000):
            print(number, "of many lines")

    wb.get(wb.remote(prints).remote())
    assert screen.text() == "".join(f"{n} of many lines\n" for n in range(20_000))
    assert len(screen.received) < 1000
