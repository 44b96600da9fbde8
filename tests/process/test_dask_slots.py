"""A slot of a Dask worker's: tasks in a real child process, stopped, killed and replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psutil
import pytest

from tests.leaks import eventually
from tests.process.endings import leave_at_once
from workbench.engines.cluster.backend import TaskEnd
from workbench.engines.cluster.heads import Head, encode
from workbench.engines.cluster.keeper import batch_of
from workbench.engines.cluster.parcels import Packer, failure_of
from workbench.engines.dask.channel import HeadDone, RunHead, ShownBytes
from workbench.engines.dask.packed import close_all, unpack
from workbench.engines.dask.slots import ChildDied, SlotChild, Slots

_end = msgspec.msgpack.Decoder(TaskEnd).decode


@pytest.fixture
def slots() -> Iterator[Slots]:
    """One slot; its children are gone afterwards."""
    slots = Slots(1)
    yield slots
    slots.close()
    children = psutil.Process().children(recursive=True)
    assert not [c for c in children if "workbench.engines.dask.child" in c.cmdline()]


def no_refs(ref: object) -> Any:
    raise AssertionError("there are no refs here")


def head_of(function: Callable[..., Any], task: int, **more: Any) -> RunHead:
    code = Packer("s~1", 1, no_refs, "here").pack(function, None).header
    head = Head(task, "f", "s~1", 1, function=task, code=code, **more)
    return RunHead(task, encode(head), "s~1", "tcp://nowhere", [], [])


class Ran:
    """One task that has run: what it showed, how it ended, what it gave."""

    def __init__(
        self, slots: Slots, message: RunHead, shown: Callable[[str], object] = lambda text: None
    ) -> None:
        self.text = ""
        self.child = 0

        def heard(child: SlotChild, said: Any, fds: list[int]) -> None:
            self.child = child.pid
            if type(said) is ShownBytes:
                for each in batch_of(said.data):
                    self.text += each.data.decode()
                    shown(self.text)

        done, fds = slots.run(message, [], heard)
        self.end = _end(done.end)
        self.value: Any = None
        values = [unpack(v, fds.pop(0) if v.lengths else -1) for v in done.values]
        close_all(fds)
        if values[0].failed:
            self.value = failure_of(values[0])
        else:
            self.value = Packer("s~1", 1, no_refs, "here").open(message.task, values[0])


def test_a_task_runs_in_its_childs_main_thread_and_shows_what_it_prints(slots: Slots) -> None:
    def where() -> tuple[int, bool]:
        import threading

        print("from Python")
        os.system("echo from a program")
        return os.getpid(), threading.current_thread() is threading.main_thread()

    ran = Ran(slots, head_of(where, 1))
    assert ran.value == (ran.child, True)
    assert ran.text == "from Python\nfrom a program\n"  # all of it before the end
    assert ran.end.how == "done"
    assert ran.end.shown > 0
    again = Ran(slots, head_of(os.getpid, 2))
    assert again.value == ran.value[0]  # the child is kept


def test_what_is_shown_right_before_a_death_is_kept(slots: Slots) -> None:
    """Once: what was sent by then isn't told again. Its last words are told too."""

    def dies() -> None:
        import sys

        out: Any = sys.stdout
        out.lock.acquire()  # no other thread is amid sending at the end
        print("first")
        print("second")
        print("last words")
        os.write(2, b"a complaint\n")
        leave_at_once(7)

    sent: list[str] = []
    with pytest.raises(ChildDied) as caught:
        Ran(slots, head_of(dies, 1), sent.append)
    died = caught.value
    assert (died.code, died.killed, died.worker) == (7, False, 1)
    assert "a complaint" in died.words
    before = sent[-1] if sent else ""
    unsent = [data for task, kind, data in died.unsent or () if (task, kind) == (1, "stdout")]
    assert before + b"".join(unsent).decode() == "first\nsecond\nlast words\n"
    assert Ran(slots, head_of(lambda: "the next one runs", 2)).value == "the next one runs"


def test_what_blocks_is_stopped_and_the_child_goes_on(slots: Slots) -> None:
    def sleeps() -> None:
        import threading

        print(os.getpid())
        threading.Event().wait(600)

    pids: list[str] = []

    def stop(text: str) -> None:
        pids.append(text)
        slots.stop(1, force=False)

    ran = Ran(slots, head_of(sleeps, 1), stop)
    assert ran.end.how == "stopped"
    assert "stopped" in str(ran.value)
    assert Ran(slots, head_of(os.getpid, 2)).value == int(pids[0])


def test_one_that_is_stopped_before_it_begins_never_does(slots: Slots) -> None:
    assert not slots.stop(1, force=False)
    ran = Ran(slots, head_of(lambda: print("never"), 1))
    assert (ran.end.how, ran.text) == ("stopped", "")
    assert Ran(slots, head_of(lambda: 5, 2)).value == 5


def test_what_does_not_listen_is_killed_with_what_it_started(slots: Slots) -> None:
    def deaf() -> None:
        import signal
        import subprocess

        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        child = subprocess.Popen(["sleep", "600"])
        print(child.pid)
        child.wait()

    started: list[int] = []

    def kill(text: str) -> None:
        started.append(int(text))
        slots.stop(1, force=True)

    with pytest.raises(ChildDied) as died:
        Ran(slots, head_of(deaf, 1), kill)
    assert died.value.killed
    assert eventually(lambda: not psutil.pid_exists(started[0]))


def test_a_kill_that_comes_too_late_is_not_the_next_tasks(
    slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task has ended, and its end is about to be read."""
    hear = SlotChild.hear

    def late(child: SlotChild) -> Any:
        said = hear(child)
        if type(said[0]) is HeadDone and said[0].task == 1:
            slots.stop(1, force=True)
        return said

    monkeypatch.setattr(SlotChild, "hear", late)
    assert Ran(slots, head_of(lambda: 4, 1)).value == 4
    assert Ran(slots, head_of(lambda: 5, 2)).value == 5
