"""Whoever talks nonsense on the session's socket, or isn't us, is hung up on; who asks for much and
reads nothing is read no further. Others go on."""

from __future__ import annotations

import array
import itertools
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import Processes
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.wire.codec import decode_from_server, encode
from workbench.wire.framing import frame, split

ABOUT = ev.About("thing", 1, 0, 0, 0.0, 0.0)


class Stranger:
    """A client without our code's manners. ``hello`` is what it should say first."""

    prefixes = itertools.count(1)

    def __init__(self, runtime: str) -> None:
        self.prefix = next(self.prefixes)
        self.hello = ev.Hello(1, self.prefix)
        [path] = Path(runtime).glob("*.workbench")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(path))
        self.sock.settimeout(TIMEOUT)
        self._messages: list[Any] = []
        self._rest = b""

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.sock.close()

    def id(self, number: int = 1) -> int:
        """An id that it may make."""
        return (self.prefix << ID_BITS) + number

    def sealed(self, value: ev.Value | None = None, name: str = "") -> ev.Sealed:
        return ev.Sealed(self.id(), value or ev.Value(b"N"), ABOUT, name)

    def say(self, what: bytes | Sequence[Any], fds: Sequence[int] = ()) -> None:
        """Send bytes as they are, or messages in a frame, and descriptors beside them."""
        data = what if isinstance(what, bytes) else frame(encode(list(what)))
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], beside)

    def hear(self, kind: type) -> Any:
        """The next message of a kind."""
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if isinstance(message, kind):
                    return message
            data = self.sock.recv(1 << 16)
            assert data, "hung up on, and shouldn't be"
            payloads, self._rest = split(self._rest + data)
            for payload in payloads:
                self._messages += decode_from_server(payload)

    def hung_up_on(self) -> bool:
        """Whether the server ends the connection; what it says before is ignored."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True


STRANGE: dict[str, Callable[[Stranger], bytes | list[Any]]] = {
    "another protocol": lambda s: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown message": lambda s: [[99, 1]],
    "an extent nowhere": lambda s: [s.hello, s.sealed(ev.Value(b"E", 5, 0, 4096))],
    "a segment without descriptors": lambda s: [s.hello, ev.Opened(s.id(), 4096)],
}
"""What else is no message is in `tests/unit/wire/test_messages.py`, what breaks other rules in
`tests/unit/core/test_misbehaviour.py`."""


def test_who_is_hung_up_on_is_told_why_and_so_is_the_log(session: Engine, runtime: str) -> None:
    with Stranger(runtime) as stranger:
        stranger.say([stranger.hello, ev.Done(1, (), 0.0)])
        reason = stranger.hear(do.Ended).reason
        assert "done with a task it was not given" in reason
        assert "report it" in reason
        assert stranger.hung_up_on()
    [log] = Path(runtime).glob("*.workbench.log")
    assert "hung up on: done with a task it was not given" in log.read_text()


def test_strangers_are_out(session: Engine, runtime: str, gate: Gate, processes: Processes) -> None:
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
    """Others are served, and the server's memory doesn't grow with what it would have it keep."""
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
                parts = (flood[n : n + 5000] for n in range(0, len(flood), 5000))
                data = b"".join(map(frame, map(encode, parts)))
                assert push(stranger, data) < len(data), "it is read no further than it reads"
        assert wb.get(refs) == list(range(1000))
        assert wb.get(wb.remote(lambda: "served").remote()) == "served"
        assert server.memory_info().rss - memory < 40 * MB
    assert eventually(lambda: server.num_fds() <= descriptors), "descriptors are kept"
    del refs
    for n in range(1000):
        wb.free(session.ask(Lookup(f"x{n}")))
