"""Tasks and cells run, show and are stopped with nothing around them but a `Link`.

In a process of its own, with no session, no client and no shared memory: as in a worker of Ray
or of Dask.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

from tests.patience import TIMEOUT

HOST = """
    import gc, os, signal, subprocess, sys, threading
    from dataclasses import dataclass

    from workbench.errors import TaskError
    from workbench.host.cell import Cell
    from workbench.host.cells import Namespace, run_cell
    from workbench.host.fd_capture import FdCapture
    from workbench.host.interrupts import Interrupts
    from workbench.host.link import Failed
    from workbench.host.setup import set_up
    from workbench.host.tracebacks import describe_error
    from workbench.host.task_context import TaskContext
    from workbench.host.throttle import Throttle
    from workbench.host.unsent import Unsent

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
    unsent, marks = Unsent(), []
    output = set_up(link, captures, marks.append, UNSENT)
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

    def until(condition):
        for _ in range(3000):
            if condition():
                break
            threading.Event().wait(0.01)

    def once(capture, name, act, after=False):
        "Do that once, before or after this method of a capture is called."
        method = getattr(capture, name)

        def acts(*args):
            delattr(capture, name)
            if not after:
                act()
            found = method(*args)
            if after:
                act()
            return found

        setattr(capture, name, acts)

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


def hosted(code: str, unsent: str = "None") -> tuple[list[tuple[str, str]], list[str]]:
    """What a process shows, as (kind, text) with neighbouring text joined, and what it tells."""
    program = textwrap.dedent(HOST).replace("UNSENT", unsent) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT)
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
    shown, (result, early) = hosted("""
        from workbench.host.display import send_display

        def task(number):
            print("one")
            assert link.flushed.wait(30)  # while the task runs
            early = [o.data.decode() for o in link.sent]
            os.system("echo two")
            sys.__stdout__.write("and more\\n")
            sys.stdout.buffer.write(b"of it\\n")
            subprocess.run(["echo", "past us"], stdout=sys.stdout)
            send_display({"text/plain": "three"}, {}, {}, False)
            print("four", file=sys.stderr)
            return number + 1, early

        print("before any task")
        tell(*run(1, task, 4))
    """)
    assert (result, early) == ("5", str(["one\n"]))
    assert [(kind, text) for kind, text in shown if kind != "display"] == [
        ("stdout", "one\ntwo\nand more\nof it\npast us\n"),
        ("stderr", "four\n"),
    ]
    assert json.loads(dict(shown)["display"])["data"] == {"text/plain": "three"}


def test_what_cannot_be_shown_is_refused_or_left_out_and_what_no_task_writes_is_nobodys() -> None:
    shown, (position, result, unattended) = hosted("""
        from workbench.host.display import send

        os.write(2, b"late\\n")
        until(lambda: marks)
        position = marks[-1]
        run(1, print, "next")
        run(2, send, "display", "x" * (33 << 20))
        tell(position, run(3, sys.stdout.write, b"bytes"), run(4, lambda: input('?')))
    """)
    assert position == "5"  # last words of a crash are those after it
    assert "TypeError: write() takes a str, not bytes" in result
    assert unattended.startswith("UnattendedError: input() needs a person")
    left_out = ("stderr", "A display of 34.6 MB was left out: 33.6 MB at most.\n")
    assert shown == [("stdout", "next\n"), left_out]


def test_a_handler_may_print_while_a_print_is_on_its_way() -> None:
    """At each line of what empties the queue: a signal's handler, a finalizer."""
    shown, (count,) = hosted("""
        def task():
            places = []

            def at_each_line(frame, event, arg):
                if not frame.f_code.co_filename.endswith(("outstream.py", "ki_protection.py")):
                    return None
                if event == "line" and len(places) < 300:
                    places.append(frame.f_lineno)
                    sys.settrace(None)
                    os.write(2, b"C\\n")  # so that the print looks
                    print("handler")
                    sys.settrace(at_each_line)
                return at_each_line

            sys.settrace(at_each_line)
            print("first")
            sys.settrace(None)
            return len(places)

        tell(run(1, task))
    """)
    assert int(count) > 10
    text = "".join(text for kind, text in shown if kind == "stdout")
    assert text.count("handler") == int(count)
    assert text.count("first") == 1


def test_a_print_and_c_code_that_come_while_all_is_taken_keep_their_order() -> None:
    shown, _ = hosted("""
        def says(word, in_c):
            sys.stdout.write(word)
            os.write(1, in_c)

        def task():
            once(captures[0], "size", lambda: says("printed, ", b"from C\\n"))
            once(captures[0], "read", lambda: says("again, ", b"and C\\n"))
            sys.stdout.write("begins\\n")

        tell(run(1, task))
    """)
    assert shown == [("stdout", "begins\nprinted, from C\nagain, and C\n")]


def test_what_another_thread_has_taken_when_the_task_ends_is_sent_before_that() -> None:
    _, sent = hosted("""
        taken, ends, over = threading.Event(), threading.Event(), threading.Event()

        def take():
            taken.set()
            ends.wait(30)
            over.wait(0.2)  # in vain

        def task():
            once(captures[0], "read", take, after=True)
            os.write(1, b"from C\\n")
            assert taken.wait(30)
            once(captures[0], "has_news", ends.set)  # when the end is looked for what is left

        run(1, task)
        sent = [o.data for o in link.sent]
        over.set()
        tell(*sent)
    """)
    assert sent == [str(b"from C\n")]


def test_what_is_being_sent_is_kept_for_who_sees_the_process_die() -> None:
    """A thread has taken it, and waits for a processor: also the part of a line."""
    _, kept = hosted(
        """
        from workbench.host.display import send
        found = []

        def look():
            found.extend(data for _, _, data in unsent.read())

        def task():
            sys.stdout.write("whole\\n")
            assert link.flushed.wait(30)
            once(captures[0], "size", look)
            once(captures[0], "has_news", lambda: sys.stdout.write("begun"))
            send("comm", 7)

        run(1, task)
        tell(*found, list(unsent.read()))
    """,
        unsent="unsent",
    )
    assert kept == [str(b"7"), str(b"begun"), "[]"]


def test_who_sends_finds_a_piece_of_a_line_both_kept_and_queued_or_neither() -> None:
    _, (waits, sent) = hosted(
        """
        def send_meanwhile():
            sender.start()
            sender.join(0.2)
            waits.append(sender.is_alive())

        def task():
            sys.stdout.write("a ")
            once(captures[0], "has_news", send_meanwhile)
            sys.stdout.write("line\\n")
            sender.join()

        sender, waits = threading.Thread(target=output.finish, args=(2,)), []
        run(1, task)
        tell(*waits, b"".join(o.data for o in link.sent))
    """,
        unsent="unsent",
    )
    assert (waits, sent) == ("True", str(b"a line\n"))


def test_nothing_is_kept_of_a_task_whose_thread_prints_on() -> None:
    _, (kept,) = hosted("""
        def throttles():
            return sum(isinstance(each, Throttle) for each in gc.get_objects())

        for number in range(3):
            with link.work.task(Run(number, "")):
                output.finish(number)
                os.write(1, b"after all was sent")
                print("late")  # takes that out of the queue
        run(9, lambda: until(lambda: print("more") or throttles() <= 1))  # its own
        until(lambda: not throttles())
        tell(throttles())
    """)
    assert kept == "0"


def test_a_cell_shows_its_value_and_hands_over_what_it_assigns_or_its_namespace_keeps_it() -> None:
    shown, (ran, x, missing, second, error) = hosted("""
        text = "async def add(a):\\n    return a + 1\\nx = await add(y)\\nx"
        cell = Cell(text, "<c>", 2, ("x", "z"))
        ran, x, missing = run(1, run_cell, cell, y=1)
        space = Namespace()
        run(1, space.run, Cell("x = 1", "<a>", 1, ()))
        _, second = run(2, space.run, Cell("x += 1", "<b>", 1, ("x",)))
        error = run(3, space.run, Cell("1 / 0", "<c>", 7, ()))
        tell(ran.unset, x, missing.error, second, error)
    """)
    assert (ran, x) == (str(("z",)), "2")
    assert "without giving 'z' a value" in missing
    ((kind, display),) = shown
    assert kind == "display"
    assert json.loads(display)["data"] == {"text/plain": "2"}
    assert second == "2"
    assert "ZeroDivisionError: division by zero" in error
    assert "line 7" in error


def test_what_runs_in_a_thread_or_spins_is_stopped_and_the_next_one_runs() -> None:
    code = "print('begins\\n', end='')\nwhile True: pass"
    shown, results = hosted(f"""
        def stop(task):
            assert link.flushed.wait(30)
            interrupts.stop(task)

        def spin():
            print("spins")
            while True:
                pass

        def lingers():
            threading.Thread(target=go_on.wait).start()
            return link.work.leaves_threads(link.work.current)

        go_on = threading.Event()
        lingered = run(9, lingers)
        go_on.set()
        thread = threading.Thread(target=stop, args=(1,))
        thread.start()
        results = [lingered, run(1, run_cell, Cell({code!r}, "<c>", 1, ()))]
        thread.join()
        interrupts.stop(2)  # before it begins
        results += [run(2, print, "never"), run(3, print, "next")]
        link.flushed.clear()
        thread = threading.Thread(target=lambda: results.append(run(4, spin)))
        thread.start()
        stop(4)
        thread.join(30)
        tell(*results)
    """)
    lingers, stopped, never, last, spun = results
    assert (lingers, last) == ("True", "None")
    assert all(each.startswith("KeyboardInterrupt") for each in (stopped, never, spun))
    assert shown == [("stdout", "begins\nnext\nspins\n")]


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
