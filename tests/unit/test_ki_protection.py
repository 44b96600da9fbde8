"""An interrupt of a thread waits for the end of the outermost shield around it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.patience import TIMEOUT
from workbench.system.ki_protection import interrupt, ki_protection


def in_thread(body: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(TIMEOUT)
    if errors:
        raise errors[0]


def test_what_is_shielded_is_done_to_the_end_and_nothing_else() -> None:
    done = []

    def body() -> None:
        with ki_protection():
            interrupt(threading.get_ident())
            with ki_protection():
                done.append("inner")
            done.append("outer")
        done.append("after")

    def unshielded() -> None:
        with ki_protection():
            done.append("before")
        interrupt(threading.get_ident())
        done.append("after")

    for each in (body, unshielded):
        with pytest.raises(KeyboardInterrupt):
            in_thread(each)
    assert done == ["inner", "outer", "before"]


def test_it_is_for_one_thread_alone() -> None:
    held, interrupted = threading.Event(), threading.Event()
    done = []

    def other() -> None:
        try:
            with ki_protection():
                held.set()
                assert interrupted.wait(TIMEOUT)
                done.append("whole")
        except KeyboardInterrupt:
            done.append("interrupted")

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(TIMEOUT)
    with ki_protection():
        interrupt(thread.ident or 0)
    interrupted.set()
    thread.join(TIMEOUT)
    assert done == ["whole", "interrupted"]
