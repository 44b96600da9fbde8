"""Tasks and cells run, show and are stopped with nothing around them but a `Link`.

In a process of its own, with no session, no client and no shared memory: as in a worker of Ray
or of Dask.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

HOST = """
    import os, signal, sys, threading
    from dataclasses import dataclass

    from workbench.errors import TaskError
    from workbench.host.cells import Cell, Namespace, run_cell
    from workbench.host.fd_capture import FdCapture
    from workbench.host.interrupts import Interrupts
    from workbench.host.link import Failed
    from workbench.host.setup import set_up
    from workbench.host.tracebacks import describe_error
    from workbench.host.task_context import TaskContext

    @dataclass
    class Run:
        task: int
        name: str

    class Messages:
        "A link that keeps what is sent."

        def __init__(self):
            self.work = TaskContext()
            self.sent = []
            self.put = self.sent.append
            self.flushed = threading.Event()

        def flush(self):
            self.flushed.set()

    report = os.fdopen(os.dup(1), "w")
    captures = FdCapture(), FdCapture()
    for fd, capture in enumerate(captures, 1):
        capture.divert(fd)
    link, interrupts = Messages(), Interrupts()
    output = set_up(link, captures)
    signal.signal(signal.SIGINT, interrupts.handle)

    def run(task, function, *args, **kwargs):
        "One task from its beginning to its end; its result, or what its reader would see raised."
        with link.work.task(Run(task, f"task {task}")):
            interrupts.begin(task)
            try:
                interrupts.enter(task)
                return function(*args, **kwargs)
            except BaseException as error:
                return describe_error(error, f"task {task}")
            finally:
                interrupts.inside = 0
                interrupts.end(task)
                output.finish(task)

    def tell(*results):
        "What was sent, as (task, kind, text), and the results, to whoever reads our stdout."
        import json
        shown = [(o.task, o.kind, o.data.decode()) for o in link.sent]
        ours = sorted(m for m in sys.modules if m.startswith("workbench"))
        told = ["\\n".join([r.cause_text, *r.remote_traceback()]) if isinstance(r, TaskError)
                else str(r) for r in results]
        json.dump([shown, told, ours], report)
        report.flush()
"""


def hosted(code: str) -> tuple[list[tuple[str, str]], list[str]]:
    """What a process shows, as (kind, text) with neighbouring text joined, and what it tells."""
    program = textwrap.dedent(HOST) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    sent, results, modules = json.loads(done.stdout)
    rooms = {name.split(".")[1] for name in modules if "." in name}
    assert not rooms & {"client", "memory", "worker", "wire", "server", "engines"}
    shown: list[tuple[str, str]] = []
    for _, kind, text in sent:
        if shown and shown[-1][0] == kind:
            text = shown.pop()[1] + text
        shown.append((kind, text))
    return shown, results


def test_a_tasks_prints_programs_and_displays_go_through_the_link() -> None:
    shown, (result,) = hosted("""
        from workbench.host.display import send_display

        def task(number):
            print("one")
            os.system("echo two")
            send_display({"text/plain": "three"}, {}, {}, False)
            print("four", file=sys.stderr)
            return number + 1

        print("before any task")
        tell(run(1, task, 4))
    """)
    assert result == "5"
    assert [(kind, text) for kind, text in shown if kind != "display"] == [
        ("stdout", "one\ntwo\n"),
        ("stderr", "four\n"),
    ]
    assert json.loads(dict(shown)["display"])["data"] == {"text/plain": "three"}


def test_a_line_leaves_while_its_task_runs() -> None:
    _, (result,) = hosted("""
        def task():
            print("a line")
            assert link.flushed.wait(30)
            return [o.data.decode() for o in link.sent]

        tell(run(1, task))
    """)
    assert result == str(["a line\n"])


def test_a_cell_runs_shows_its_value_and_hands_over_what_it_assigns() -> None:
    shown, (ran, x, missing) = hosted("""
        text = "async def add(a):\\n    return a + 1\\nx = await add(y)\\nx"
        cell = Cell(text, "<c>", 2, ("x", "z"))
        ran, x, missing = run(1, run_cell, cell, y=1)
        tell(ran.unset, x, missing.error)
    """)
    assert (ran, x) == (str(("z",)), "2")
    assert "without giving 'z' a value" in missing
    ((kind, display),) = shown
    assert kind == "display"
    assert json.loads(display)["data"] == {"text/plain": "2"}


def test_a_namespace_keeps_what_its_cells_assign() -> None:
    _, (second, error) = hosted("""
        space = Namespace()
        run(1, space.run, Cell("x = 1", "<a>", 1, ()))
        _, second = run(2, space.run, Cell("x += 1", "<b>", 1, ("x",)))
        tell(second, run(3, space.run, Cell("1 / 0", "<c>", 7, ())))
    """)
    assert second == "2"
    assert "ZeroDivisionError: division by zero" in error
    assert "line 7" in error


@pytest.mark.parametrize("what", ["select.select([], [], [], 60)", "\nwhile True: pass"])
def test_a_cell_that_runs_is_stopped_and_the_next_one_runs(what: str) -> None:
    code = f"import select\nprint('begins\\n', end='')\n{what}"
    shown, results = hosted(f"""
        def stop():
            assert link.flushed.wait(30)
            interrupts.stop(1)

        thread = threading.Thread(target=stop)
        thread.start()
        stopped = run(1, run_cell, Cell({code!r}, "<c>", 1, ()))
        thread.join()
        interrupts.stop(2)  # before it begins
        tell(stopped, run(2, print, "never"), run(3, print, "next"))
    """)
    stopped, never, last = results
    assert stopped.startswith("KeyboardInterrupt")
    assert never.startswith("KeyboardInterrupt")
    assert last == "None"
    assert shown == [("stdout", "begins\nnext\n")]


def test_a_signal_that_ended_no_call_is_sent_again() -> None:
    """As one that comes between Python's last look and the call."""
    _, (stopped, sent) = hosted("""
        import select

        kill, sent = signal.pthread_kill, []

        def first_is_lost(thread, number):
            sent.append(number)
            if len(sent) > 1:
                kill(thread, number)

        signal.pthread_kill = first_is_lost

        def stop():
            assert link.flushed.wait(30)
            interrupts.stop(1)

        def task():
            print("begins")
            select.select([], [], [], 60)

        thread = threading.Thread(target=stop)
        thread.start()
        stopped = run(1, task)
        thread.join()
        tell(stopped, len(sent))
    """)
    assert stopped.startswith("KeyboardInterrupt")
    assert int(sent) >= 2


def test_a_tasks_thread_is_stopped_too() -> None:
    _, (result,) = hosted("""
        def task():
            print("begins")
            while True:
                pass

        results = []
        thread = threading.Thread(target=lambda: results.append(run(1, task)))
        thread.start()
        assert link.flushed.wait(30)
        interrupts.stop(1)
        thread.join(30)
        tell(*results)
    """)
    assert result.startswith("KeyboardInterrupt")


def test_nobody_is_asked() -> None:
    _, (result,) = hosted("tell(run(1, lambda: input('?')))")
    assert result.startswith("UnattendedError: input() needs a person")
