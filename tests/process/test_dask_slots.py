"""A slot of a Dask worker's: tasks in a real child process, stopped, killed and replaced."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.leaks import eventually
from tests.process.endings import leave_at_once
from workbench.client.refusals import failure_of
from workbench.engines.cluster.backend import Head
from workbench.engines.cluster.keeper import batch_of
from workbench.engines.cluster.parcels import Packer
from workbench.engines.dask.slots import ChildDied, HeadDone, RunHead, SlotChild, Slots
from workbench.serialization import codec


@pytest.fixture
def slots() -> Iterator[Slots]:
    """One slot; its children are gone afterwards."""
    slots = Slots(1)
    yield slots
    slots.close()
    mine = [p for p in psutil.process_iter(["ppid", "cmdline"]) if p.info["ppid"] == os.getpid()]
    assert not [p for p in mine if "workbench.engines.dask.child" in (p.info["cmdline"] or ())]


def no_refs(ref: object) -> Any:
    raise AssertionError("there are no refs here")


def head_of(function: Callable[..., Any], task: int) -> RunHead:
    code = Packer("s~1", 1, no_refs, "here").pack(function, None).header
    head = Head(task, "f", "s~1", 1, function=task, code=code)
    return RunHead(head, ())


class Shown:
    """What a child shows."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, child: SlotChild, said: Any) -> None:
        if type(said) is bytes:
            texts = [m.data.decode() for m in batch_of(said) if m.kind == "stdout"]
            self.text += "".join(texts)


def run(slots: Slots, function: Callable[..., Any], task: int, shown: Shown) -> HeadDone:
    child = slots.lease()
    try:
        return child.run(head_of(function, task), shown, lambda: False)
    finally:
        slots.release(child)


def says_and_gives() -> int:
    print("said")
    os.system("echo by a program")
    return os.getpid()


def test_tasks_run_in_one_child_and_all_output_comes_before_the_end(slots: Slots) -> None:
    pids = set()
    for task in (1, 2):
        shown = Shown()
        done = run(slots, says_and_gives, task, shown)
        assert sorted(shown.text.splitlines()) == ["by a program", "said"]
        pids.add(codec.deserialize_inline(done.values[0].header))
    assert len(pids) == 1
    assert os.getpid() not in pids


def sleeps() -> None:
    print("sleeps", flush=True)
    threading.Event().wait(3600)


@pytest.mark.parametrize("force", [False, True])
def test_a_task_is_stopped_or_its_process_killed(slots: Slots, force: bool) -> None:
    child, shown = slots.lease(), Shown()
    ended: list[HeadDone | ChildDied] = []

    def runs() -> None:
        try:
            ended.append(child.run(head_of(sleeps, 3), shown, lambda: False))
        except ChildDied as died:
            ended.append(died)

    thread = threading.Thread(target=runs)
    thread.start()
    assert eventually(lambda: "sleeps" in shown.text)
    child.stop(4, force)  # of another task: nothing happens
    child.stop(3, force)
    thread.join()
    (end,) = ended
    if force:
        assert isinstance(end, ChildDied)
        assert "was killed by signal 9 while it ran `f`" in end.said("f")
    else:
        assert isinstance(end, HeadDone)
        assert "was stopped" in str(failure_of(end.values[0].header))
    slots.release(child)
    run(slots, says_and_gives, 5, Shown())


def test_a_task_that_ends_its_process_leaves_its_last_words(slots: Slots) -> None:
    def dies() -> None:
        print("last words")
        os.write(2, b"to stderr\n")
        leave_at_once(3)

    shown = Shown()
    with pytest.raises(ChildDied) as died:
        run(slots, dies, 6, shown)
    left = b"".join(data for _, kind, data in died.value.unsent if kind == "stdout").decode()
    assert shown.text + left == "last words\n"
    said = died.value.said("dies")
    assert "ended (3) while it ran `dies`" in said
    assert "to stderr" in said
