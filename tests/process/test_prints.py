"""What tasks print, in a script: on its stdout and stderr, in whole lines, before what follows."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

import pytest

import workbench as wb
from tests.process.scripts import Scripts
from workbench.engine.base import Engine


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
