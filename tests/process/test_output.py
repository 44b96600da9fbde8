"""What tasks show: through Python, past it, much of it; under whose cell, and before what."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import workbench as wb
from tests.patience import THOROUGH, TIMEOUT
from tests.process.endings import WAYS, leave_at_once
from tests.process.gates import Gate
from workbench.core.events import Output
from workbench.engines.base import Engine
from workbench.errors import TaskCancelledError, TaskError, WorkerCrashedError

LINE = "one line of a flood, as a loop prints it while somebody looks for an error\n"


class Screen:
    """What this driver was told to show, by origin. The next submits have the one that is set."""

    def __init__(self, engine: Engine) -> None:
        self.received: list[Output] = []
        self._came = threading.Condition()
        self._engine = engine
        engine.output = self._show

    def _show(self, output: Output) -> None:
        with self._came:
            self.received.append(output)
            self._came.notify_all()

    def under(self, origin: int) -> None:
        """What is submitted from now on belongs to this cell."""
        self._engine.origin = lambda: origin

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
    before = session.output, session.origin
    yield Screen(session)
    session.output, session.origin = before


# -- past Python -----------------------------------------------------------------------------------


def test_c_code_and_programs_show_in_order_with_prints(screen: Screen) -> None:
    @wb.remote
    def writes() -> None:
        import ctypes
        import os
        import subprocess
        import sys

        print("one")
        subprocess.run(["echo", "two"])
        print("three")
        os.system("echo four 1>&2")
        print("five ", end="")
        os.write(1, b"six\n")
        assert sys.__stdout__ is not None
        sys.__stdout__.write("seven\n")
        sys.stdout.buffer.write(b"eight\n")
        subprocess.run(["echo", "nine"], stdout=sys.stdout, stderr=sys.stderr)
        print("ten", file=sys.stderr)
        ctypes.CDLL(None).printf(b"eleven, a line that is not over")

    wb.get(writes.remote())
    assert screen.shown() == [
        ("stdout", "one\ntwo\nthree\n"),
        ("stderr", "four\n"),
        ("stdout", "five six\nseven\neight\nnine\n"),
        ("stderr", "ten\n"),
        ("stdout", "eleven, a line that is not over"),
    ]


def test_it_is_shown_while_the_task_runs_in_whole_lines_and_characters(
    screen: Screen, gate: Gate
) -> None:
    stop = gate.stop

    @wb.remote
    def works() -> None:
        import ctypes
        import os

        os.write(2, b"warning\n")
        os.write(1, "first\n€".encode()[:-1])
        stop()
        os.write(1, "€ all\n".encode()[2:])
        ctypes.CDLL(None).printf(b"from C\n")
        stop()
        print("from Python")
        os.system("echo from a program")
        stop()
        os.write(1, b"\xff no text, and cut: \xe2\x82")

    ref = works.remote()
    for awaited in (("warning\n", "first\n"), ("from C\n",), ("from a program\n",)):
        visitor = gate.next()
        for text in awaited:
            screen.wait_for(text)
        visitor.let_on()
    wb.get(ref)
    received = b"".join(each.data for each in screen.received if each.kind == "stdout")
    whole = "first\n€ all\nfrom C\nfrom Python\nfrom a program\n".encode()
    assert received == whole + b"\xff no text, and cut: \xe2\x82"
    assert all(text.endswith("\n") for _, text in screen.shown()[:-1]), screen.shown()


def test_each_tasks_text_is_its_own_and_comes_before_its_result(screen: Screen) -> None:
    @wb.remote
    def short(number: int) -> int:
        import os
        import sys

        print(number, "begins")
        os.write(1 + number % 2, b"C\n")
        print(number, "ü", file=sys.stderr)
        print(number, "ends", end="")
        return number

    refs = []
    for number in range(1, 301):
        screen.under(number)
        refs.append(short.remote(number))
    while refs:
        ready, refs = wb.wait(refs, num_returns=min(7, len(refs)))
        for number in wb.get(ready):
            out, err = ("", "C\n") if number % 2 else ("C\n", "")
            assert screen.text(origin=number) == f"{number} begins\n{out}{number} ends"
            assert screen.text("stderr", number) == f"{err}{number} ü\n"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_prints_too(screen: Screen) -> None:
    @wb.remote
    def forks() -> Any:
        import multiprocessing
        import os

        def child(number: int) -> None:
            print("child", number)
            grandchild = os.fork()
            if not grandchild:
                print("grandchild", number, flush=True)
                leave_at_once()
            os.waitpid(grandchild, 0)
            print("child", number, "ends", end="")

        context = multiprocessing.get_context("fork")
        children = [context.Process(target=child, args=(number,)) for number in range(2)]
        for process in children:
            process.start()
            process.join()
        print("\nparent")
        return [process.exitcode for process in children]

    assert wb.get(forks.remote()) == [0, 0]
    said = "".join(f"child {n}\ngrandchild {n}\nchild {n} ends" for n in range(2))
    assert screen.shown() == [("stdout", f"{said}\nparent\n")]


def test_calls_of_an_actor_that_run_together(screen: Screen, gate: Gate) -> None:
    """Each print is its own call's. What C code writes is one's of those that run."""
    stop = gate.stop

    @wb.remote(max_concurrency=2)
    class Threads:
        def call(self, name: str) -> None:
            import os

            print(name, "begins")
            stop()
            os.write(1, b"C\n")
            stop()
            print(name, "ends")

    actor = Threads.remote()
    refs = []
    for origin, name in ((1, "a"), (2, "b")):
        screen.under(origin)
        refs.append(actor.call.remote(name))
    for _ in range(2):
        for visitor in [gate.next() for _ in refs]:
            visitor.let_on()
    wb.get(refs)
    without = [screen.text(origin=n).replace("C\n", "") for n in (1, 2)]
    assert without == ["a begins\na ends\n", "b begins\nb ends\n"]
    assert sum(screen.text(origin=n).count("C\n") for n in (1, 2)) == 2


def test_a_tasks_own_tasks_print_where_it_does(screen: Screen) -> None:
    @wb.remote
    def inner(i: int) -> None:
        print("inner", i)

    @wb.remote
    def outer() -> None:
        print("outer")
        wb.get([inner.remote(i) for i in range(3)])

    screen.under(7)
    wb.get(outer.remote())
    said = sorted(screen.text(origin=7).splitlines())
    assert said == ["inner 0", "inner 1", "inner 2", "outer"]


def test_threads_print_where_their_task_does_also_when_that_is_over(
    screen: Screen, gate: Gate
) -> None:
    stop = gate.stop

    @wb.remote
    def leaves() -> int:
        def goes_on() -> None:
            for number in range(3):
                stop()
                print("late", number)

        threading.Thread(target=goes_on, daemon=True).start()
        print("in time")
        return os.getpid()

    @wb.remote
    def another() -> int:
        def says(name: str) -> None:
            for number in range(500):
                print(f"{name}{number}\n", end="")

        threads = [threading.Thread(target=says, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return os.getpid()

    screen.under(7)
    pid = wb.get(leaves.remote())
    visitor = gate.next()
    screen.under(8)
    assert pid in wb.get([another.remote() for _ in range(4)])
    for number in range(3):
        visitor.let_on()
        screen.wait_for(f"late {number}\n", origin=7)
        visitor = gate.next() if number < 2 else visitor
    assert screen.text(origin=7) == "in time\nlate 0\nlate 1\nlate 2\n"
    assert sorted(screen.text(origin=8).split()) == sorted(
        f"{name}{number}" for name in "abc" for number in range(500) for _ in range(4)
    )


# -- all of it before the end ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["returns", "raises", "exits", "cancelled"])
def test_all_is_shown_before_the_end_however_it_ends(screen: Screen, gate: Gate, how: str) -> None:
    stop = gate.stop

    @wb.remote
    def ends() -> None:
        import os
        import sys

        print("1\n2")
        print("3", file=sys.stderr)
        if how == "cancelled":
            stop()
            while True:
                print("many lines")
        print("the last", end="")
        os.write(1, b", in C")
        if how != "returns":
            raise SystemExit(1) if how == "exits" else ValueError(how)

    ref = ends.remote()
    if how == "cancelled":
        gate.next().let_on()
        screen.wait_for("many lines\nmany lines\n")
        wb.cancel(ref)
    error: Any = TaskCancelledError if how == "cancelled" else TaskError
    with contextlib.nullcontext() if how == "returns" else pytest.raises(error):
        wb.get(ref)
    assert screen.shown()[:2] == [("stdout", "1\n2\n"), ("stderr", "3\n")]
    ((_, rest),) = screen.shown()[2:]
    if how == "cancelled":
        assert re.fullmatch(r"(many lines\n|\n?\[[^]\n]* not shown\]\n)+(many lines)?", rest)
    else:
        assert rest == "the last, in C"


def test_an_actors_loop_shows_each_calls_text_before_its_result(screen: Screen) -> None:
    @wb.remote
    class Loop:
        async def call(self, number: int) -> int:
            import asyncio
            import os

            print("begins", number)
            await asyncio.to_thread(int)  # others run meanwhile
            os.write(2, b"C\n")
            print("ends", number)
            return number

        async def leaves(self) -> None:
            print("leaves")
            wb.exit_actor()

    actor = Loop.remote()
    refs = []
    for number in range(1, 51):
        screen.under(number)
        refs.append(actor.call.remote(number))
    for number, ref in enumerate(refs, 1):
        wb.get(ref)
        assert screen.text(origin=number) == f"begins {number}\nends {number}\n"
    assert sum(len(screen.text("stderr", n)) for n in range(1, 51)) == 50 * len("C\n")
    screen.under(99)
    with contextlib.suppress(Exception):
        wb.get(actor.leaves.remote())
    assert screen.text(origin=99) == "leaves\n"


@pytest.mark.thorough
def test_cancelled_at_any_moment_the_worker_prints_on(screen: Screen) -> None:
    """An interrupt in the middle of a print, again and again, in the main thread and in others."""

    def prints() -> None:
        import os

        number = 0
        while True:
            number += 1
            print(number, "x" * 50)
            if number % 100 == 0:
                os.write(1, b"C\n")

    @wb.remote(max_concurrency=2)
    class Threads:
        def prints(self) -> None:
            prints()

    actor = Threads.remote()
    submits: tuple[Callable[[], wb.ObjectRef], ...] = wb.remote(prints).remote, actor.prints.remote
    origin = 0
    for _ in range(20 if THOROUGH else 4):
        for submit in submits:
            origin += 1
            screen.under(origin)
            ref = submit()
            screen.wait_for("x", origin)  # the first lines a flood may have cut already
            wb.cancel(ref)
            with pytest.raises(TaskCancelledError):
                wb.get(ref)
            assert len(screen.text(origin=origin)) < 8_000_000
    screen.under(0)
    wb.get([wb.remote(lambda: print("goes on")).remote() for _ in range(2)])
    assert screen.text() == "goes on\ngoes on\n"


@pytest.mark.parametrize("end", ["os._exit", "SIGKILL", "SIGSEGV"])
def test_what_a_process_shows_right_before_it_dies_is_shown(screen: Screen, end: str) -> None:
    @wb.remote(max_retries=0)
    def dies() -> None:
        import ctypes

        for number in range(200):
            print("line", number)
        ctypes.CDLL(None).puts(b"from C")
        WAYS[end]()

    with pytest.raises(WorkerCrashedError) as caught:
        wb.get(dies.remote())
    assert ("Segmentation fault" in str(caught.value)) == (end == "SIGSEGV")
    lines = screen.text().splitlines()
    assert [line for line in lines if line != "from C"] == [f"line {n}" for n in range(200)]
    assert lines.count("from C") == 1


def test_of_a_killed_process_what_was_shown_already_is_not_shown_again(
    screen: Screen, gate: Gate
) -> None:
    stop = gate.stop

    @wb.remote(max_retries=0)
    def works() -> None:
        for number in range(10):
            print("line", number)
        print("not over", end="")
        stop()

    ref = works.remote()
    visitor = gate.next()
    screen.wait_for("not over")
    os.kill(visitor.pid, signal.SIGKILL)
    with pytest.raises(WorkerCrashedError):
        wb.get(ref)
    assert screen.text() == "".join(f"line {n}\n" for n in range(10)) + "not over"


def test_last_words_are_of_the_task_that_crashed(runtime: str) -> None:
    screen = Screen(wb.init(workers=1))

    @wb.remote(max_retries=0)
    def writes(text: str, dies: bool) -> None:
        import os

        os.write(2, text.encode())
        if dies:
            leave_at_once(1)

    wb.get(writes.remote("a warning of another task\n", False))
    with pytest.raises(WorkerCrashedError) as caught:
        wb.get(writes.remote("out of luck", True))
    assert str(caught.value).endswith("The last it wrote to stderr:\nout of luck")
    assert screen.text("stderr").startswith("a warning of another task\n")


def test_a_sink_that_fails_harms_nobody(screen: Screen, session: Engine, capfd: Any) -> None:
    def broken(output: Output) -> None:
        raise RuntimeError("no room on the page")

    session.output = broken
    wb.get(wb.remote(lambda: print("x")).remote())
    assert wb.get(wb.put("goes on")) == "goes on"
    assert "no room on the page" in capfd.readouterr().err


# -- floods ----------------------------------------------------------------------------------------

NOT_SHOWN = re.compile(r"^\[([\d.e+]+) ([kMG]?)B not shown\]\n", re.MULTILINE)
FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def test_what_is_usual_is_not_cut(screen: Screen) -> None:
    odd = "\udcff|\x00"
    wb.get(wb.remote(lambda: print(LINE * 12_000 + odd, end="")).remote())  # 0.9 MB
    assert screen.text() == LINE * 12_000 + "\\udcff|\x00"


@pytest.mark.fresh_session  # its processes have room for what a flood begins with
@pytest.mark.parametrize("how", ["print", "program", "C code"])
def test_a_flood_is_cut_with_notes_its_end_is_shown_and_its_memory_given_back(
    screen: Screen, how: str
) -> None:
    count = 600_000

    @wb.remote
    def floods(line: str) -> int:
        import os
        import subprocess

        if how == "print":
            for _ in range(count // 1000):
                print(line * 1000, end="")
        elif how == "C code":  # nobody can read before all is written: it holds the lock
            import ctypes

            flood = line.encode() * count
            ctypes.PyDLL(None).write(1, flood, len(flood))
        else:
            program = f"yes '{line.rstrip()}' | head -n {count}"
            subprocess.run(program, shell=True, stderr=subprocess.DEVNULL)
        print("the last line")
        return os.stat("/proc/self/fd/1").st_blocks * 512

    assert wb.get(floods.remote(LINE)) < 16_000_000
    text = screen.text()
    assert text.startswith(LINE * 10)
    assert text.endswith(LINE * 50 + "the last line\n")
    left_out = sum(float(n) * FACTORS[factor] for n, factor in NOT_SHOWN.findall(text))
    shown = len(NOT_SHOWN.sub("", text))
    assert shown < 20_000_000
    assert shown + left_out == pytest.approx(count * len(LINE), rel=0.01)
    lines = set(NOT_SHOWN.sub("", text).splitlines())
    # A program that pauses within a line has its beginning shown; a note may come next.
    assert all(LINE.startswith(line) for line in lines - {"the last line"})


def test_many_prints_are_few_messages(screen: Screen) -> None:
    def prints() -> None:
        for number in range(20_000):
            print(number, "of many lines")

    wb.get(wb.remote(prints).remote())
    assert screen.text() == "".join(f"{n} of many lines\n" for n in range(20_000))
    assert len(screen.received) < 1000


def test_of_a_progress_bar_what_nobody_could_see_is_not_sent(screen: Screen) -> None:
    tqdm = pytest.importorskip("tqdm")

    def loops() -> None:
        for _ in tqdm.tqdm(range(3000), mininterval=0, miniters=1, ascii=False, ncols=70):
            pass
        print("done")

    wb.get(wb.remote(loops).remote())
    bar = screen.text("stderr")
    assert re.search(r"\r100%\|█+\| 3000/3000 \[.*\]\n$", bar)
    assert bar.count("\r") < 1500
    assert screen.text() == "done\n"


def test_displays_keep_their_place_among_prints(screen: Screen) -> None:
    @wb.remote
    def shows() -> None:
        import sys

        from workbench.host.display import send, send_display

        for number in range(3):
            print("before", number)
            send_display({"text/plain": f"{number}"}, {}, {"display_id": "d"}, False)
            print("after", number, file=sys.stderr)
        for number in range(1000):
            send_display({"text/plain": f"{number}"}, {}, {"display_id": "d"}, True)
        send("comm", {"n": 1})
        print("end")

    wb.get(shows.remote())
    kinds = [kind for kind, _ in screen.shown()]
    assert kinds[:9] == ["stdout", "display", "stderr"] * 3
    assert kinds[-3:] == ["update", "comm", "stdout"]
    assert '"999"' in screen.shown()[-3][1]
    assert sum(each.kind == "update" for each in screen.received) < 500
