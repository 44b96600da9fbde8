"""Output: all of it under its own cell before its end, whoever writes it, however it ends."""

from __future__ import annotations

import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import Cluster
from tests.kernel.gates import Gate

ALL_KINDS = """
import ctypes, os, subprocess, sys
print("python")
print("to stderr", file=sys.stderr)
os.write(1, b"descriptor\\n")
ctypes.CDLL(None).puts(b"from C")
ctypes.CDLL(None).fflush(None)
subprocess.run(["echo", "subprocess"])
"""
"""Code that writes in every way."""

WRITTEN = ["descriptor", "from C", "python", "subprocess"]

ENDS = {"success": "", "error": "1 / 0", "exit": "import sys; sys.exit(2)"}


@pytest.mark.parametrize("end", ENDS)
def test_all_of_it_is_there_before_the_end(book: Book, end: str) -> None:
    """Of a cell that waits: when the cell is idle. Of one in the background: when it is over."""
    waited = book.run(f"%%remote -w\n{ALL_KINDS}\n{ENDS[end]}")
    assert bool(waited.error) == bool(ENDS[end])
    assert "to stderr\n" in waited.text("stderr")
    background = book.ok(f"%%remote\n{ALL_KINDS}\n{ENDS[end]}")
    book.over(background)
    for cell in (waited, background):
        assert sorted(cell.text().splitlines()) == WRITTEN


@pytest.mark.parametrize("how", ["cancel()", "cancel(force=True)", "crash"])
def test_what_is_stopped_or_crashes_has_shown_all(book: Book, gate: Gate, how: str) -> None:
    cell = book.ok(f"%%remote --name ends\n{ALL_KINDS}\n{gate.wait}\nos._exit(1)")
    book.until(lambda: "subprocess" in cell.text())
    if how == "crash":
        gate.open()
        assert "failed" in book.over(cell)
        book.until(lambda: "WorkerCrashedError" in cell.failure)
    else:
        book.ok(f"job = %workbench job ends\njob.{how}")
        assert "stopped" in book.over(cell)
    assert sorted(cell.text().splitlines()) == WRITTEN


def test_what_tasks_print_is_there_before_their_result(book: Book) -> None:
    """Of an actor's calls too, and of their own tasks."""
    book.ok("""
        @wb.remote
        def inner(n): print(f"inner {n}")
        @wb.remote
        def talk(n):
            print(f"task {n}")
            os.system(f"echo shell {n}")
            wb.get(inner.remote(n))
            return n
        class Talker:
            def say(self, word): print(word); return word
        talker = wb.remote(Talker).remote()
        wb.get(talker.say.remote("first"))
    """)
    cell = book.ok("assert wb.get([talk.remote(n) for n in range(10)]) == list(range(10))")
    written = sorted(line.partition(") ")[2] or line for line in cell.text().splitlines())
    kinds = ("task", "shell", "inner")
    assert written == sorted(f"{kind} {n}" for n in range(10) for kind in kinds)
    cell = book.ok("wb.get(talker.say.remote('second'))")
    assert "second" in cell.text()
    assert "first" not in cell.text()


def test_it_comes_while_the_cell_runs_and_each_cell_has_its_own(book: Book, gate: Gate) -> None:
    one = book.ok(f"%%remote\nprint('one')\n{gate.wait}\nprint('one again')")
    book.until(lambda: one.text() == "one\n")
    two = book.ok("%%remote -w\nprint('two')")
    gate.open()
    book.over(one)
    assert (one.text(), two.text()) == ("one\none again\n", "two\n")


TASK = """
def dies():
    print("last words")
    os._exit(3)
wb.get(wb.remote(max_retries=0)(dies).remote())
"""

CALL = """
@wb.remote
class Dies:
    def calls(self):
        print("last words")
        os._exit(3)
actor = Dies.remote()
wb.get(actor.calls.remote())
"""

CELL = "%%remote -w --retries 0\nprint('last words')\nos._exit(3)"


@pytest.mark.parametrize("code", [TASK, CALL, CELL])
def test_last_words_are_shown_or_said_to_be_lost(book: Book, cluster: Cluster, code: str) -> None:
    """Of what runs in a process that ends right after a print; once."""
    cell = book.run(code)
    assert cell.error in ("WorkerCrashedError", "ActorDiedError")
    words = "may not have arrived"
    if cluster.name == "dask":
        book.until(lambda: "last words" in cell.text())
        assert words not in cell.text("stderr")
    book.until(lambda: "last words" in cell.text() or words in cell.text("stderr"))
    if code == CALL:
        again = book.run("wb.get(actor.calls.remote())")
        assert again.error == "ActorDiedError"
        assert words not in again.text("stderr")
