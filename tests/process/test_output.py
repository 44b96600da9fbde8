"""What a worker prints: through Python, past it, much of it; under whose cell, and before what."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.core.events import Output
from workbench.engines.base import Engine
from workbench.errors import TaskCancelledError, TaskError, WorkerCrashedError

LINE = "one line of a flood, as a loop prints it while somebody looks for an error\n"


class Screen:
    """What this driver was told to show, by origin. The next submits have the one that is set."""

    def __init__(self, engine: Engine) -> None:
        self._received: list[tuple[int, str, bytes]] = []
        self._came = threading.Condition()
        self._engine = engine
        engine.output = self._show

    def _show(self, output: Output) -> None:
        with self._came:
            self._received.append((output.origin, output.kind, output.data))
            self._came.notify_all()

    def under(self, origin: int) -> None:
        """What is submitted from now on belongs to this cell."""
        self._engine.origin = lambda: origin

    def shown(self, origin: int = 0) -> list[tuple[str, str]]:
        """In order; neighbouring text of a stream as one."""
        joined: list[tuple[str, str]] = []
        for whose, kind, data in list(self._received):
            if whose == origin and joined and joined[-1][0] == kind:
                joined[-1] = (kind, joined[-1][1] + data.decode())
            elif whose == origin:
                joined.append((kind, data.decode()))
        return joined

    def text(self, kind: str = "stdout", origin: int = 0) -> str:
        return "".join(text for k, text in self.shown(origin) if k == kind)

    def wait_for(self, text: str, origin: int = 0) -> None:
        """Until it is shown; somebody has to read meanwhile, and the connection's thread does."""
        with self._came:
            assert self._came.wait_for(
                lambda: any(text in shown for _, shown in self.shown(origin)), 30
            ), self.shown(origin)

    def clear(self) -> None:
        self._received.clear()

    @property
    def messages(self) -> int:
        return len(self._received)


@pytest.fixture
def screen(session: Engine) -> Screen:
    return Screen(session)


# -- past Python -----------------------------------------------------------------------------------


def test_a_programs_errors_do_not_come_amid_a_line_of_its_output(
    screen: Screen, gate: Gate
) -> None:
    stop = gate.stop

    @wb.remote
    def writes() -> None:
        import os

        os.write(2, b"warning\n")
        os.write(1, b"first\nhel")
        stop()
        os.write(1, b"lo\n")

    done = writes.remote()
    visitor = gate.next()
    screen.wait_for("warning")
    visitor.let_on()
    wb.get(done)
    assert screen.text() == "first\nhello\n"
    assert all(text.endswith("\n") for _, text in screen.shown()), screen.shown()


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


def test_it_is_shown_while_the_task_runs(screen: Screen, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote
    def works() -> None:
        import ctypes
        import os

        libc = ctypes.CDLL(None)
        for number in range(3):
            libc.printf(b"%d from C\n", number)
            stop()
            print(number, "from Python")
            os.system(f"echo {number} from a program")
            stop()

    ref = works.remote()
    for number in range(3):
        visitor = gate.next()
        screen.wait_for(f"{number} from C\n")
        assert f"{number} from Python" not in screen.text()
        visitor.let_on()
        visitor = gate.next()
        screen.wait_for(f"{number} from a program\n")
        visitor.let_on()
    wb.get(ref)


def test_bytes_of_a_character_come_together(screen: Screen, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote
    def writes() -> None:
        import os

        os.write(1, "first\n€".encode()[:-1])
        stop()
        os.write(1, "€ all\n".encode()[2:] + b"\xff no text, and cut: \xe2\x82")

    ref = writes.remote()
    visitor = gate.next()
    screen.wait_for("first\n")
    visitor.let_on()
    wb.get(ref)
    received = b"".join(data for _, _, data in screen._received)
    assert received == b"first\n\xe2\x82\xac all\n\xff no text, and cut: \xe2\x82"


def test_each_tasks_text_is_its_own_and_comes_before_its_result(screen: Screen) -> None:
    @wb.remote
    def short(number: int) -> None:
        import os

        os.write(1 + number % 2, b"%d\n" % number)

    refs = []
    for number in range(1, 301):
        screen.under(number)
        refs.append(short.remote(number))
    for number, ref in enumerate(refs, 1):
        wb.get(ref)
        assert screen.shown(number) == [(("stdout", "stderr")[number % 2], f"{number}\n")]


def test_what_is_written_while_no_task_runs_is_nobodys(screen: Screen, gate: Gate) -> None:
    path = gate.path

    @wb.remote
    def leaves_a_program() -> int:
        import subprocess
        import sys

        code = f"""if True:
            import os, socket
            for _ in range(2):
                gate = socket.socket(socket.AF_UNIX)
                gate.connect({path!r})
                gate.sendall(os.getpid().to_bytes(4, "little"))
                gate.recv(9)
                os.write(1, b"late\\n")
        """
        return subprocess.Popen([sys.executable, "-c", code]).pid

    wb.shutdown()
    screen = Screen(wb.init(workers=1))
    wb.get(leaves_a_program.remote())
    visitor = gate.next()
    worker = wb.snapshot().workers[0].pid
    assert eventually(lambda: is_idle(worker))
    before = switches(worker)
    visitor.let_on()
    last = gate.next()
    assert eventually(lambda: switches(worker) > before)  # it has read that
    wb.get(wb.remote(lambda: print("next")).remote())
    last.let_on()
    assert screen.text() == "next\n"


def switches(pid: int) -> int:
    """How often threads of a process have gone to sleep."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status") as status:
            total += int(re.findall(r"\nvoluntary_ctxt_switches:\s*(\d+)", status.read())[0])
    return total


def is_idle(pid: int) -> bool:
    """Whether it does nothing at all for longer than its output may wait."""
    before = switches(pid)
    return not threading.Event().wait(0.3) and switches(pid) == before


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
                os._exit(0)
            os.waitpid(grandchild, 0)
            print("child", number, "ends", end="")

        context = multiprocessing.get_context("fork")
        children = [context.Process(target=child, args=(number,)) for number in range(3)]
        for process in children:
            process.start()
            process.join()
        print("\nparent")
        return [process.exitcode for process in children]

    assert wb.get(forks.remote()) == [0, 0, 0]
    assert screen.shown() == [("stdout", "".join(
        f"child {n}\ngrandchild {n}\nchild {n} ends" for n in range(3)
    ) + "\nparent\n")]  # fmt: skip


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


# -- all of it before the end ----------------------------------------------------------------------


def test_all_is_shown_before_the_end_however_it_ends(screen: Screen, gate: Gate) -> None:
    stop = gate.stop

    def ends(how: str) -> None:
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

    for how in ("returns", "raises", "exits", "cancelled"):
        ref = wb.remote(ends).remote(how)
        if how == "cancelled":
            visitor = gate.next()
            visitor.let_on()
            screen.wait_for("many lines\nmany lines\n")
            wb.cancel(ref)
        expected: Any = {"returns": contextlib.nullcontext()}.get(
            how, pytest.raises(TaskCancelledError if how == "cancelled" else TaskError)
        )
        with expected:
            wb.get(ref)
        begin = [("stdout", "1\n2\n"), ("stderr", "3\n")]
        assert screen.shown()[:2] == begin
        rest = screen.shown()[2:]
        if how == "cancelled":
            assert re.fullmatch(
                r"(many lines\n|\n?\[[^]\n]* not shown\]\n)+(many lines)?", rest[0][1]
            )
        else:
            assert rest == [("stdout", "the last, in C")]
        screen.clear()


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


def test_cancelled_at_any_moment_the_worker_prints_on(screen: Screen) -> None:
    """An interrupt in the middle of a print, again and again, in the main thread and in others."""

    @wb.remote
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
            prints._function()

    actor = Threads.remote()
    submits: tuple[Callable[[], wb.ObjectRef], ...] = prints.remote, actor.prints.remote
    origin = 0
    for _ in range(20):
        for submit in submits:
            origin += 1
            screen.under(origin)
            ref = submit()
            screen.wait_for("x", origin)  # the first lines a flood may have cut already
            wb.cancel(ref)
            with pytest.raises(TaskCancelledError):
                wb.get(ref)
            amount = len(screen.text(origin=origin))
            assert amount < 8_000_000
    screen.under(0)
    wb.get([wb.remote(lambda: print("goes on")).remote() for _ in range(2)])
    assert screen.text() == "goes on\ngoes on\n"


def test_a_handler_may_print_while_a_print_is_on_its_way(screen: Screen) -> None:
    """At each line of what empties the queue: a signal's handler, a finalizer."""

    @wb.remote
    def prints() -> int:
        import sys
        import threading

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        places: list[int] = []

        def at_each_line(frame: Any, event: str, arg: Any) -> Any:
            if frame.f_code.co_filename.endswith(
                ("outstream.py", "ki_protection.py", "contextlib.py")
            ):
                if event == "line" and len(places) < 300:
                    places.append(frame.f_lineno)
                    sys.settrace(None)
                    output._pass_on()
                    sys.settrace(at_each_line)
                return at_each_line
            return None

        def in_thread() -> None:
            sys.settrace(at_each_line)
            try:
                output._pass_on(send=True)
            finally:
                sys.settrace(None)

        thread = threading.Thread(target=in_thread, daemon=True)
        thread.start()
        thread.join(TIMEOUT)
        return 0 if thread.is_alive() else len(places)

    assert wb.get(prints.remote()) > 10


def test_a_line_of_which_a_part_was_just_to_be_sent_is_whole_when_the_process_dies(
    screen: Screen,
) -> None:
    """A thread has taken that part, and has waited for a processor ever since."""

    @wb.remote(max_retries=0)
    def dies() -> None:
        import os
        import signal
        import sys
        import threading
        import time

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        taken = threading.Event()

        def waits(*_: Any, **__: Any) -> None:
            taken.set()
            threading.Event().wait()

        output._sent_at = time.perf_counter()
        output._fill = waits
        print("begun", end="")
        taken.wait()
        output._sent_at = time.perf_counter() + 1000.0  # nothing is sent at the line's end
        print(" and ended")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerCrashedError):
        wb.get(dies.remote())
    assert screen.text() == "begun and ended\n"


def test_what_is_on_its_way_when_the_task_ends_comes_before_its_result(screen: Screen) -> None:
    """Another thread has taken it, and hasn't put it anywhere yet."""

    @wb.remote
    def writes() -> None:
        import os
        import sys
        import threading

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        add, flush = output._add, output._flush_c
        taken, ends = threading.Event(), threading.Event()

        def add_late(*args: Any, **options: Any) -> None:
            del output._add
            taken.set()
            ends.wait(TIMEOUT)
            add(*args, **options)

        def end() -> None:
            output._flush_c = flush
            ends.set()

        output._add, output._flush_c = add_late, end
        os.write(1, b"from C\n")
        assert taken.wait(TIMEOUT)

    for _ in range(5):
        screen.clear()
        wb.get(writes.remote())
        assert screen.text() == "from C\n"


def test_a_print_and_c_code_that_come_while_a_thread_is_at_it_keep_their_order(
    screen: Screen,
) -> None:
    @wb.remote
    def writes() -> None:
        import os
        import sys
        import threading

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        queue, main = output._queue, threading.get_ident()
        empty, goes_on, looks = threading.Event(), threading.Event(), list[int]()

        class Queue(type(queue)):  # type: ignore[misc]
            def __bool__(self) -> bool:
                more = len(self) > 0
                if not more and threading.get_ident() != main and output._busy:
                    looks.append(1)
                    if len(looks) == 2:  # behind the last one
                        empty.set()
                        goes_on.wait(TIMEOUT)
                return more

        queue = Queue(queue)
        output._queue = queue
        sys.stdout.write("begins\n")
        output._pass_on(send=True)
        sys.stdout.write("no end yet, ")  # so that the thread is to look
        assert empty.wait(TIMEOUT)
        sys.stdout.write("printed, ")
        os.write(1, b"from C\n")
        goes_on.set()

    wb.get(writes.remote())
    assert screen.text() == "begins\nno end yet, printed, from C\n"


def test_nothing_is_kept_of_a_task_whose_thread_prints_on(screen: Screen) -> None:
    @wb.remote
    def ends_late() -> None:
        import sys

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        connection = output._link.flush.__self__
        post = connection.post

        def print_first(message: Any) -> None:
            del connection.post
            print("after all was sent")
            output._pass_on()
            post(message)

        connection.post = print_first

    @wb.remote
    def flows() -> int:
        import sys

        output: Any = sys.stdout._put.__self__  # type: ignore[union-attr]
        output._pass_on(send=True)
        return len(output._throttles)

    for _ in range(3):
        wb.get([ends_late.remote(), ends_late.remote()])
    assert wb.get([flows.remote() for _ in range(4)]) == [0] * 4


def test_what_was_printed_before_a_kill_has_left(screen: Screen, gate: Gate) -> None:
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


def test_the_first_line_has_left_when_the_next_one_crashes(screen: Screen) -> None:
    @wb.remote(max_retries=0)
    def crashes() -> None:
        import ctypes

        print("about to crash")
        ctypes.string_at(0)

    with pytest.raises(WorkerCrashedError, match="Segmentation fault"):
        wb.get(crashes.remote())
    assert screen.text() == "about to crash\n"


def test_last_words_are_of_the_task_that_crashed(screen: Screen) -> None:
    wb.shutdown()
    screen = Screen(wb.init(workers=1))

    @wb.remote(max_retries=0)
    def writes(text: str, dies: bool) -> None:
        import os

        os.write(2, text.encode())
        if dies:
            os._exit(1)

    wb.get(writes.remote("a warning of another task\n", False))
    with pytest.raises(WorkerCrashedError) as caught:
        wb.get(writes.remote("out of luck", True))
    assert str(caught.value).endswith("The last it wrote to stderr:\nout of luck")
    assert screen.text("stderr").startswith("a warning of another task\n")


# -- floods ----------------------------------------------------------------------------------------

NOT_SHOWN = re.compile(r"^\[([\d.e+]+) ([kMG]?)B not shown\]\n", re.MULTILINE)
FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def left_out(text: str) -> float:
    return sum(float(n) * FACTORS[factor] for n, factor in NOT_SHOWN.findall(text))


def test_what_is_usual_is_not_cut(screen: Screen) -> None:
    wb.get(wb.remote(lambda: print(LINE * 12_000, end="")).remote())  # 0.9 MB
    assert screen.text() == LINE * 12_000


@pytest.mark.parametrize("how", ["print", "program", "C code"])
def test_a_flood_is_cut_with_notes_and_its_end_is_shown(screen: Screen, how: str) -> None:
    count = 1_400_000

    @wb.remote
    def floods(line: str) -> None:
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

    wb.get(floods.remote(LINE))
    text = screen.text()
    assert text.startswith(LINE * 10)
    assert text.endswith(LINE * 50 + "the last line\n")
    shown = len(NOT_SHOWN.sub("", text))
    assert shown < 20_000_000
    assert shown + left_out(text) == pytest.approx(count * len(LINE), rel=0.01)
    lines = set(NOT_SHOWN.sub("", text).splitlines())
    # A program that pauses within a line has its beginning shown; a note may come next.
    assert all(LINE.startswith(line) for line in lines - {"the last line"})


def test_the_memory_of_a_flood_is_given_back(screen: Screen) -> None:
    @wb.remote
    def floods() -> int:
        import os
        import subprocess

        subprocess.run("yes | head -c 200000000", shell=True, stderr=subprocess.DEVNULL)
        print("")  # reads what is there
        return os.stat("/proc/self/fd/1").st_blocks * 512

    wb.get(floods.remote())
    assert wb.get(wb.remote(_spooled).remote()) < 16_000_000


def _spooled() -> int:
    return os.stat("/proc/self/fd/1").st_blocks * 512


def test_many_prints_are_few_messages(screen: Screen) -> None:
    def prints() -> float:
        import time

        began = time.perf_counter()
        for number in range(20_000):
            print(number, "of many lines")
        return time.perf_counter() - began

    seconds = wb.get(wb.remote(prints).remote())
    assert screen.text() == "".join(f"{n} of many lines\n" for n in range(20_000))
    assert screen.messages <= 5 + seconds * 25


def test_of_a_progress_bar_what_nobody_could_see_is_not_sent(screen: Screen) -> None:
    tqdm = pytest.importorskip("tqdm")

    def loops() -> None:
        for _ in tqdm.tqdm(range(20_000), mininterval=0, miniters=1, ascii=False, ncols=70):
            pass
        print("done")

    wb.get(wb.remote(loops).remote())
    bar = screen.text("stderr")
    assert re.search(r"\r100%\|█+\| 20000/20000 \[.*\]\n$", bar)
    assert len(bar) < 20_000 * 70 / 10
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
    assert kinds.count("update") < 100


def test_text_that_is_no_text_is_refused(screen: Screen) -> None:
    @wb.remote
    def writes() -> None:
        import sys

        sys.stdout.write(b"bytes")  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="takes a str, not bytes"):
        wb.get(writes.remote())


def test_a_thread_that_outlives_its_task_prints_where_that_did(
    screen: Screen, gate: Gate, session: Engine
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
    def another(word: str) -> tuple[int, int]:
        print(word)
        later = threading.Thread(target=print, args=("of a thread",))
        later.start()
        later.join()
        return os.getpid(), 0

    screen.under(7)
    pid = wb.get(leaves.remote())
    visitor = gate.next()
    screen.under(8)
    ran = wb.get([another.remote("later") for _ in range(4)])
    assert pid in [where for where, _ in ran]
    for number in range(3):
        visitor.let_on()
        screen.wait_for(f"late {number}\n", origin=7)
        visitor = gate.next() if number < 2 else visitor
    assert screen.text(origin=7) == "in time\nlate 0\nlate 1\nlate 2\n"
    assert sorted(screen.text(origin=8).split()) == sorted(["later", "of", "a", "thread"] * 4)


def test_a_thread_of_an_executor_prints_for_whoever_it_works(screen: Screen) -> None:
    @wb.remote(num_cpus=2)
    def works(word: str) -> None:
        from concurrent.futures import ThreadPoolExecutor

        shared = vars(threading).setdefault("pool_of_a_test", ThreadPoolExecutor(1))
        shared.submit(print, word).result()

    for origin in (1, 2, 3):
        screen.under(origin)
        wb.get(works.remote(f"word {origin}"))
    assert [screen.text(origin=n) for n in (1, 2, 3)] == ["word 1\n", "word 2\n", "word 3\n"]
