"""Stop: what runs, sleeps, doesn't listen or waits its turn is stopped; its neighbours keep all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.engine.conftest import Book
from tests.kernel.gates import Gate
from tests.leaks import eventually

SLEEPS = "import time\ntime.sleep" + "(3600)"
"""Code of a cell. (The tests themselves never do that.)"""

KINDS = {
    "a loop": "n = 0\nwhile True: n += 1",
    "a sleep": SLEEPS,
    "a subprocess": "import subprocess\nsubprocess.run(['sleep', '3600'])",
    "a lock": "import threading\nthreading.Event().wait(3600)",
    "each of its items": SLEEPS,
}

DEAF = "import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)"
"""A loop in C, which never looks for signals, and keeps the interpreter's lock."""


def began(path: Path) -> str:
    return f"open({str(path)!r}, 'w').close()"


@pytest.mark.parametrize("kind", KINDS)
def test_what_runs_is_stopped(book: Book, tmp_path: Path, kind: str) -> None:
    runs, mark, some = "", began(tmp_path / "on"), 1
    if kind == "each of its items":
        runs, mark, some = "-n 20", f"open({str(tmp_path)!r} + f'/{{index}}', 'w').close()", 2
    cell = book.ok(f"%%remote --name runs {runs}\n{mark}\n{KINDS[kind]}")
    assert eventually(lambda: len(list(tmp_path.iterdir())) >= some)
    book.ok("job = %workbench job runs\njob.cancel()")
    assert "stopped" in book.over(cell)
    assert not cell.failure, "who stops something needs no traceback"
    book.fails("job.result()", "TaskCancelledError", "stopped")
    assert book.value("wb.get(wb.remote(len).remote('abc'))") == "3"


def test_a_stop_is_heard_once(book: Book, tmp_path: Path) -> None:
    """Who catches it may put things in order, undisturbed."""
    cell = book.ok(
        f"%%remote --name tidy\nimport threading\ntimes = 0\n"
        f"for seconds in (3600, 0.3):\n    try:\n        {began(tmp_path / 'on')}\n"
        "        threading.Event().wait(seconds)\n"
        "    except KeyboardInterrupt:\n        times += 1\n"
        "print('stopped', times)"
    )
    assert eventually((tmp_path / "on").exists)
    book.ok("job = %workbench job tidy\njob.cancel()")
    book.over(cell)
    assert cell.text() == "stopped 1\n"


def test_what_does_not_listen_is_killed_by_force(book: Book, tmp_path: Path) -> None:
    """And what others have stored from any process stays."""
    book.ok("""
        kept = [wb.remote(lambda n: np.full(200_000, n)).remote(n) for n in range(12)]
        wb.wait(kept, num_returns=12)
        mine = wb.put(np.arange(300_000))
    """)
    cell = book.ok(f"%%remote --name deaf\n{began(tmp_path / 'on')}\n{DEAF}")
    assert eventually((tmp_path / "on").exists)
    book.ok("job = %workbench job deaf\njob.cancel()")
    assert book.value("job.wait(0.2)") == "False"
    book.ok("job.cancel(force=True)")
    assert "stopped" in book.over(cell)
    assert book.value("[int(each.sum()) for each in wb.get(kept)]") == repr(
        [200_000 * n for n in range(12)]
    )
    assert book.value("int(wb.get(mine)[-1])") == "299999"
    assert book.value("wb.get(wb.remote(len).remote('abc'))") == "3"


def test_the_queued_never_begin_what_is_over_stays(book: Book, gate: Gate, tmp_path: Path) -> None:
    slots = book.system.workers
    book.ok(f"""
        @wb.remote
        def wait(n):
            open(f"{tmp_path}/busy-{{n}}", "w").close()
            {gate.wait}
        busy = [wait.remote(n) for n in range({slots})]
    """)
    assert eventually(lambda: len(list(tmp_path.glob("busy-*"))) == slots)
    book.ok(f"""
        queued = wb.remote(lambda: {began(tmp_path / "ran")}).remote()
        wb.cancel(queued)
    """)
    book.fails("wb.get(queued)", "TaskCancelledError")
    gate.open(slots)
    book.ok("wb.get(busy)\nwb.cancel(busy[0])\nwb.get(busy)")
    assert book.value("wb.get(wb.remote(len).remote('abc'))") == "3"
    assert not (tmp_path / "ran").exists()


def test_what_a_task_has_submitted_is_stopped_with_it(book: Book, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    book.ok(f"""
        def sleeps(path):
            try:
                open(path, "w").close()
                pause()
            finally:
                os.remove(path)
        parent = wb.remote(lambda: wb.get([wb.remote(sleeps).remote(p) for p in {paths}])).remote()
    """)
    assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    book.ok("wb.cancel(parent)")
    book.fails("wb.get(parent)", "TaskCancelledError")
    assert eventually(lambda: not list(tmp_path.iterdir()))


def test_the_stop_button_stops_what_waits_alone(book: Book, gate: Gate, tmp_path: Path) -> None:
    behind = book.ok(f"%%remote\n{gate.wait}\nx = 1")
    cell = book.start(f"%%remote -w\n{began(tmp_path / 'on')}\n{SLEEPS}")
    assert eventually((tmp_path / "on").exists)
    book.until(lambda: cell.lines)  # the kernel has begun to wait
    book.interrupt()
    book.until(lambda: cell.idle)
    assert "was stopped" in cell.failure, cell.failure
    gate.open()
    assert "done" in book.over(behind)


def test_a_task_is_stopped_without_its_children(book: Book, gate: Gate) -> None:
    book.needs("recursive")
    book.ok(f"""
        def inner():
            {gate.wait}
            return 7
        def outer():
            wb.put([wb.remote(inner).options(num_cpus=0).remote()], name="inner")
            pause()
        task = wb.remote(outer).remote()
    """)
    assert eventually(lambda: book.value("len(wb.objects('inner'))") == "1")
    book.ok("wb.cancel(task, recursive=False)")
    gate.open()
    assert book.value("wb.get(wb.get('inner')[0])") == "7"
