"""Clients that ask for much and read nothing, or begin much and end nothing: what it costs others.

Sizes are the server's memory, as the kernel has it. What is right is that others are served, and
that it doesn't grow with what a client would have it keep.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

import numpy as np

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import Processes
from tests.process.strangers import Stranger
from workbench.core import events as ev
from workbench.engine.base import Engine
from workbench.wire.codec import encode
from workbench.wire.framing import frame

MB = 1 << 20


def push(stranger: Stranger, data: bytes) -> int:
    """Send as much as the server takes within a moment; how much that was."""
    stranger.sock.settimeout(0.2)
    sent = 0
    with suppress(TimeoutError, ConnectionError):
        while sent < len(data):
            sent += stranger.sock.send(data[sent : sent + MB])
    return sent


def test_questions_without_a_reader(session: Engine, runtime: str, processes: Processes) -> None:
    questions: list[list[ev.Event]] = [
        [ev.Ask(1, "overview")] * 100_000,
        [ev.Subscribe(n % 50, once=True) for n in range(100_000)],
        [ev.Ask(1, "jobs"), ev.Ask(1, "sync"), ev.Find(1, "x")] * 30_000,
    ]
    refs = [wb.put(n, name=f"x{n}") for n in range(1000)]
    wb.get(wb.remote(lambda: np.ones(100_000)).remote())
    assert eventually(lambda: all(w.state == "idle" for w in session.snapshot().workers))
    server = processes.server()
    memory, descriptors = server.memory_info().rss, server.num_fds()
    with ExitStack() as stack:
        for flood in questions:
            for _ in range(3):
                stranger = stack.enter_context(Stranger(runtime))
                stranger.say([stranger.hello])
                data = b"".join(
                    frame(encode(flood[n : n + 5000])) for n in range(0, len(flood), 5000)
                )
                assert push(stranger, data) < len(data), "it is read no further than it reads"
        assert wb.get(refs) == list(range(1000))
        assert wb.get(wb.remote(lambda: "served").remote()) == "served"
        assert server.memory_info().rss - memory < 40 * MB
    assert eventually(lambda: server.num_fds() <= descriptors), "descriptors are kept"
    del refs
    for n in range(1000):
        wb.free(session.find(f"x{n}"))
