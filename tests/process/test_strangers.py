"""Whoever talks nonsense on the session's socket, or isn't us, is hung up on. Others go on."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.strangers import Stranger
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left
from workbench.engine.base import Engine
from workbench.wire.framing import LARGEST, frame

STRANGE: dict[str, Callable[[Stranger], bytes | list[Any]]] = {
    "another protocol": lambda s: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame too long": lambda s: struct.pack(">I", LARGEST + 1),
    "not msgpack": lambda s: frame(b"\xc1"),
    "no end of brackets": lambda s: frame(b"\x91" * 100_000),
    "no list": lambda s: frame(b"\x81\xa1a\x01"),
    "an unknown message": lambda s: [[99, 1]],
    "an event of the loop's own": lambda s: [Left()],
    "a negative size": lambda s: [s.hello, [13, 1, -5]],
    "no Hello": lambda s: [ev.Want((1,))],
    "a worker nobody asked for": lambda s: [ev.Hello(1, s.prefix, worker=999)],
    "an extent nowhere": lambda s: [s.hello, s.sealed(ev.Value(b"E", 5, 0, 4096))],
    "a segment without descriptors": lambda s: [s.hello, ev.Opened(s.id(), 4096)],
}
"""What breaks other rules is in `tests/unit/core/test_misbehaviour.py`."""


def test_who_is_hung_up_on_is_told_why_and_so_is_the_log(session: Engine, runtime: str) -> None:
    with Stranger(runtime) as stranger:
        stranger.say([stranger.hello, ev.Done(1, (), 0.0)])
        reason = stranger.hear(do.Ended).reason
        assert "done with a task it was not given" in reason
        assert "report it" in reason
        assert stranger.hung_up_on()
    [log] = Path(runtime).glob("*.workbench.log")
    assert "hung up on: done with a task it was not given" in log.read_text()


def test_strangers_are_hung_up_on(
    session: Engine, runtime: str, gate: Gate, processes: Processes
) -> None:
    ours = wb.put(np.ones(100_000))
    pending = wb.remote(gate.stop).remote()
    visitor = gate.next()
    server = processes.server()
    assert eventually(lambda: len(session.snapshot().clients) == 3)  # its workers have come
    before = server.num_fds()

    for what, words in STRANGE.items():
        with Stranger(runtime) as stranger:
            stranger.say(words(stranger))
            assert stranger.hung_up_on(), what

    fds = os.pipe()
    with Stranger(runtime) as stranger:
        stranger.say([stranger.hello, ev.Want((1,))], fds)
        assert stranger.hung_up_on(), "descriptors without a message for them"
    with Stranger(runtime) as stranger:
        stranger.say([stranger.hello, ev.Opened(stranger.id(2), 1 << 20)], fds)
        stranger.say([stranger.sealed(ev.Value(b"E", stranger.id(2), 0, 4096))])
        assert stranger.hung_up_on(), "more than it was granted"
    for fd in fds:
        os.close(fd)

    assert eventually(lambda: server.num_fds() == before)
    assert len(session.snapshot().clients) == 3
    visitor.let_on("undisturbed")
    assert wb.get(pending) == "undisturbed"
    assert (wb.get(ours) == 1).all()
