"""Clients that ask for much and read nothing, or begin much and end nothing: what it costs others.

Sizes are the server's memory, as the kernel has it. What is right is that others are served, and
that it doesn't grow with what a client would have it keep.
"""

from __future__ import annotations

import resource
from contextlib import ExitStack, suppress

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import Processes
from tests.process.strangers import Stranger
from workbench.core import events as ev
from workbench.engines.base import Engine
from workbench.wire.codec import encode
from workbench.wire.framing import frame

MB = 1 << 20


class Bystander:
    """Somebody whom it all is no business of: is served, and sees that the server doesn't grow."""

    def __init__(self, session: Engine, processes: Processes) -> None:
        self.server = processes.server()
        wb.get(wb.remote(lambda: np.ones(100_000)).remote())
        self._kept = wb.put(np.arange(100_000))
        assert eventually(lambda: all(w.state == "idle" for w in session.snapshot().workers))
        self._before = self.server.memory_info().rss
        self._descriptors = self.server.num_fds()

    def is_served(self, most: int, descriptors: int) -> None:
        """The server has grown by so many bytes and descriptors at most."""
        assert (wb.get(self._kept) == np.arange(100_000)).all()
        assert wb.get(wb.remote(lambda: "served").remote()) == "served"
        grown = self.server.memory_info().rss - self._before
        assert grown < most, f"by {grown / MB:.0f} MB"
        more = self._descriptors + descriptors
        assert eventually(lambda: self.server.num_fds() <= more), "descriptors are kept"


def push(stranger: Stranger, data: bytes) -> int:
    """Send as much as the server takes within a moment; how much that was."""
    stranger.sock.settimeout(0.2)
    sent = 0
    with suppress(TimeoutError, ConnectionError):
        while sent < len(data):
            sent += stranger.sock.send(data[sent : sent + MB])
    return sent


def test_questions_whose_answers_are_never_read(
    session: Engine, runtime: str, processes: Processes
) -> None:
    questions: list[list[ev.Event]] = [
        [ev.Ask(1, "overview")] * 100_000,
        [ev.Subscribe(n % 50, once=True) for n in range(100_000)],
        [ev.Ask(1, "jobs"), ev.Ask(1, "sync"), ev.Find(1, "x")] * 30_000,
    ]
    refs = [wb.put(n, name=f"x{n}") for n in range(1000)]
    bystander = Bystander(session, processes)
    with ExitStack() as stack:
        for flood in questions:
            for _ in range(3):
                stranger = stack.enter_context(Stranger(runtime))
                stranger.say([stranger.hello])
                data = b"".join(
                    frame(encode(flood[n : n + 5000])) for n in range(0, len(flood), 5000)
                )
                assert push(stranger, data) < len(data), "it is read no further than it reads"
        bystander.is_served(40 * MB, 9)
    bystander.is_served(40 * MB, 0)
    del refs
    for n in range(1000):
        wb.free(session.find(f"x{n}"))


@pytest.mark.extended
def test_two_thousand_connections(session: Engine, runtime: str, processes: Processes) -> None:
    count = 2000
    bystander = Bystander(session, processes)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < count + 500:
        pytest.skip("this machine lets no process have so many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], count + 500), limits[1]))
    try:
        with ExitStack() as stack:
            for _ in range(count):
                stranger = stack.enter_context(Stranger(runtime))
                stranger.say([stranger.hello])
            bystander.is_served(40 * MB, count)
            assert len(session.snapshot().clients) > count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    bystander.is_served(40 * MB, 0)
