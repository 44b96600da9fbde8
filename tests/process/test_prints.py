"""What tasks print, in a script: on its stdout and stderr, in whole lines, before what follows."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.engines.base import Engine

_PRELUDE = """
import os, signal, sys, threading
import workbench as wb
from tests.process.gates import stopper

@wb.remote
def speak(*words, end="\\n"):
    print(*words, end=end)
    print("err", *words, end=end, file=sys.stderr)
"""


def command(text: str) -> list[str]:
    return [sys.executable, "-c", _PRELUDE + textwrap.dedent(text)]


def run(text: str, **environ: str) -> tuple[str, str]:
    """What a script wrote to stdout, and to stderr."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        command(text), capture_output=True, text=True, timeout=TIMEOUT,
        env={**os.environ, "PYTHONPATH": root, **environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_they_are_there_when_get_returns() -> None:
    out, err = run("""
        wb.init(workers=1)
        for i in range(20):
            wb.get(speak.remote(i))
            print("got", i)
        ready, _ = wb.wait([speak.remote("waited")])
        print("it has")
        wb.get(speak.remote("no end of line", end=""))
        print("next line")

        @wb.remote
        class Actor:
            def __init__(self): print("an actor")
            def method(self): print("its method")

        wb.get(Actor.remote().method.remote())
        print("end")
    """)
    lines = [f"{word}{i}" for i in range(20) for word in ("", "got ")]
    assert out.splitlines() == [
        *lines, "waited", "it has", "no end of line", "next line",
        *("(worker 2) an actor", "(worker 2) its method", "end"),
    ]  # fmt: skip
    assert err.splitlines() == [
        *(f"err {i}" for i in range(20)),
        "err waited",
        "err no end of line",
    ]


def test_of_several_workers_lines_are_whole_and_say_whose_they_are() -> None:
    out, _ = run("""
        wb.init(workers=3)
        begun, go = (os.environ["WORKBENCH_RUNTIME_DIR"] + name for name in ("/begun", "/go"))
        for path in (begun, go):
            os.mkfifo(path)
        ends = [os.open(path, os.O_RDWR) for path in (begun, go)]

        @wb.remote
        def count(name):
            open(begun, "wb", buffering=0).write(b".")
            open(go, "rb", buffering=0).read(1)
            for i in range(200):
                print(name, end=" ")
                print(i)

        refs = [count.remote(name) for name in "abc"]
        for _ in refs:
            os.read(ends[0], 1)
        os.write(ends[1], b"...")  # all three at a time
        wb.get(refs)
        print("end")
    """)
    *lines, end = out.splitlines()
    assert end == "end"
    for name in "abc":
        mine = [line.rpartition(") ")[2] for line in lines if f"{name} " in line]
        assert mine == [f"{name} {i}" for i in range(200)]
    assert lines[-1].startswith("(worker ")


def test_what_was_not_waited_for_is_there_at_the_end() -> None:
    out, _ = run("""
        wb.init(workers=1)
        first, second = speak.remote("one", end=""), speak.remote("two", end="")
        wb.get(second)
    """)
    assert out.splitlines() == ["one", "two"]


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_they_can_be_turned_off(how: str) -> None:
    given = "log_to_driver=False" if how == "argument" else ""
    environ = {} if given else {"WORKBENCH_LOG_TO_DRIVER": "0"}
    text = f"wb.init(workers=1, {given}); wb.get(speak.remote(1)); print('end')"
    assert run(text, **environ) == ("end\n", "")


def test_they_go_where_prints_go_at_that_moment(
    session: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    @wb.remote
    def say(word: str) -> None:
        print(word)

    import contextlib
    import io

    wb.get(say.remote("captured"))
    assert capsys.readouterr().out.endswith("captured\n")
    with contextlib.redirect_stdout(io.StringIO()) as file:
        wb.get(say.remote("redirected"))
    assert file.getvalue().endswith("redirected\n")
    assert capsys.readouterr().out == ""


def test_a_closed_stdout_ends_nothing() -> None:
    _, err = run("""
        wb.init(workers=1)
        reader, writer = os.pipe()
        sys.stdout = open(writer, "w", 1)
        os.close(reader)
        assert wb.get(speak.remote("nobody reads this")) is None
        try:
            sys.stdout.close()  # else Python 3.13 says at the end that it can't
        except BrokenPipeError:
            pass
        sys.stdout = open(os.devnull, "w")
        sys.stdout.close()
        assert wb.get(speak.remote("closed")) is None
        sys.stdout = None
        assert wb.get(speak.remote("none")) is None
        sys.stdout = open(os.dup(2), "w", encoding="ascii")
        wb.get(speak.remote("é"))
    """)
    assert [line for line in err.splitlines() if not line.startswith("err")] == ["\\xe9"]


def test_a_stdout_that_nobody_reads_keeps_nobody_from_results_for_long() -> None:
    """A thread holds stdout's lock, and another waits for that lock to print."""
    out, _ = run("""
        from tests.leaks import eventually
        from workbench.client import task_prints

        wb.init(workers=1)
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
        assert wb.get(speak.options(num_returns=1).remote()) is None
        assert wb.get(wb.put(7)) == 7
        os.fork() or os._exit(0)
        sys.__stdout__.write("end\\n")
        sys.__stdout__.flush()
        os._exit(0)
    """)
    assert out == "end\n"


def test_a_signals_handler_may_get_while_its_thread_prints() -> None:
    out, _ = run("""
        wb.init(workers=1)

        class Slow:
            def write(self, text):
                if "first" in text and not done:
                    signal.raise_signal(signal.SIGUSR1)
                return sys.__stdout__.write(text)
            def flush(self): sys.__stdout__.flush()

        done = []
        def handler(*_):
            wb.get(speak.remote("second"))
            done.append(True)

        signal.signal(signal.SIGUSR1, handler)
        sys.stdout = Slow()
        print("first, in the main thread")
        wb.get(speak.remote("first"))
        assert done
    """)
    assert sorted(out.splitlines()) == ["first", "first, in the main thread", "second"]


def test_a_forked_child_prints_its_own_and_nothing_twice() -> None:
    out, _ = run("""
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        wb.init(workers=1)

        def child(number):
            sys.stdout.write(f"child {number}\\n")
            sys.stdout.flush()

        refs = [speak.remote(i) for i in range(200)]
        context = multiprocessing.get_context("fork")
        children = []
        for number in range(20):
            children.append(context.Process(target=child, args=(number,)))
            children[-1].start()
        for each in children:
            each.join()
            assert each.exitcode == 0
        wb.get(refs)
    """)
    said = out.splitlines()
    assert sorted(said) == sorted([*map(str, range(200)), *(f"child {n}" for n in range(20))])
    assert [line for line in said if line.isdigit()] == [*map(str, range(200))]


def test_nothing_of_it_stays(session: Engine) -> None:
    import threading

    wb.get(wb.remote(lambda: print("said")).remote())
    names = {thread.name for thread in threading.enumerate()}
    assert "workbench-prints" in names
    wb.shutdown()
    assert eventually(lambda: "workbench-prints" not in {t.name for t in threading.enumerate()})


@pytest.mark.parametrize(
    "end",
    ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "__import__('ctypes').string_at(0)"],
)
def test_what_a_process_shows_right_before_it_dies_is_shown(end: str) -> None:
    """In a kernel, too, it would be lost: its prints go out 0.05 s after the last ones."""
    out, _ = run(f"""
        wb.init(workers=1)

        @wb.remote(max_retries=0)
        def dies():
            import ctypes
            for n in range(200):
                print("line", n)
            ctypes.CDLL(None).puts(b"from C")
            {end}
        try:
            wb.get(dies.remote())
        except wb.errors.WorkerCrashedError:
            print("it died")
    """)
    lines = [line.removeprefix("(worker 1) ") for line in out.splitlines()]
    assert [line for line in lines if line != "from C"] == [
        *(f"line {n}" for n in range(200)),
        "it died",
    ]
    assert lines.count("from C") == 1
