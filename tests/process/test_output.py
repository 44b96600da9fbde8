"""What tasks show: through Python, past it, much of it; under whose cell, and before what. In a
script: on its stdout and stderr, in whole lines."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import multiprocessing
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from tests.patience import THOROUGH, TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate
from tests.process.scripts import Scripts
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


@wb.remote
def say(word: str) -> None:
    print(word)


def test_they_are_there_when_get_returns(runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whose a line is, and where it ends: `tests/unit/client/test_task_prints.py`."""

    @wb.remote
    def speak(*words: Any, end: str = "\n") -> None:
        print(*words, end=end)
        print("err", *words, end=end, file=sys.stderr)

    with wb.init(workers=1):
        for i in range(20):
            wb.get(speak.remote(i))
            print("got", i)
        wb.wait([speak.remote("waited")])
        print("it has")
        wb.get(speak.remote("no end of line", end=""))
        print("next line")
    out, err = capsys.readouterr()
    lines = [f"{word}{i}" for i in range(20) for word in ("", "got ")]
    assert out.splitlines() == [*lines, "waited", "it has", "no end of line", "next line"]
    assert err.splitlines()[-2:] == ["err waited", "err no end of line"]


def test_they_can_be_turned_off(runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    with wb.init(workers=1, log_to_driver=False):
        wb.get(say.remote("to nobody"))
    assert capsys.readouterr().out == ""


def test_they_go_where_prints_go_then(session: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    wb.get(say.remote("captured"))
    assert capsys.readouterr().out.endswith("captured\n")
    with contextlib.redirect_stdout(io.StringIO()) as file:
        wb.get(say.remote("redirected"))
    assert file.getvalue().endswith("redirected\n")
    ascii = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with contextlib.redirect_stdout(ascii):
        wb.get(say.remote("é"))
    assert ascii.buffer.getvalue().endswith(b"\\xe9\n")
    assert capsys.readouterr().out == ""


def test_a_closed_stdout_ends_nothing(session: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    nobodys = open(writer, "w", 1)  # noqa: SIM115
    os.close(reader)
    closed = open(os.devnull, "w")  # noqa: SIM115
    closed.close()
    for stdout in (nobodys, closed, None):
        with contextlib.redirect_stdout(stdout):
            assert wb.get(say.remote("nobody reads this")) is None
    with contextlib.suppress(BrokenPipeError):
        nobodys.close()
    assert capsys.readouterr() == ("", "")


def test_a_stdout_that_nobody_reads_keeps_nobody_from_results_for_long(script: Scripts) -> None:
    """A thread holds stdout's lock, and another waits for that lock to print."""
    stuck = script("""
        import threading
        from tests.leaks import eventually
        from workbench.client import task_prints

        wb.init(workers=1)
        speak = wb.remote(print)
        reader, writer = os.pipe()
        sys.stdout = open(writer, "w", 1)
        flood = threading.Thread(target=lambda: print("x" * 200_000), daemon=True)
        flood.start()
        speak.remote("while the lock is held").future().result(30)

        def is_held():
            free = task_prints._printing.lock.acquire(blocking=False)
            if free:
                task_prints._printing.lock.release()
            return not free

        assert eventually(is_held)
        assert wb.get(speak.remote()) is None
        assert wb.get(wb.put(7)) == 7
        os.fork() or os._exit(0)
        sys.__stdout__.write("end\\n")
        sys.__stdout__.flush()
        os._exit(0)
    """)
    assert stuck.line() == "end"


def test_a_forked_child_prints_its_own_and_nothing_twice(script: Scripts) -> None:
    forks = script("""
        import warnings
        warnings.simplefilter("ignore")
        wb.init(workers=1)
        speak = wb.remote(print)
        refs = [speak.remote(i) for i in range(60)]
        for number in range(8):
            child = os.fork()
            if not child:
                print("child", number, flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        wb.get(refs)
    """)
    said = [forks.line() for _ in range(68)]
    with pytest.raises(AssertionError, match="it ended, with status 0"):
        forks.line()
    assert sorted(said) == sorted([*map(str, range(60)), *(f"child {n}" for n in range(8))])
    assert [line for line in said if line.isdigit()] == [*map(str, range(60))]
