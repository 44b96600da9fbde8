"""A client without our code's manners, for tests of what the server does with such."""

from __future__ import annotations

import array
import itertools
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.patience import TIMEOUT
from workbench.core import events as ev
from workbench.core.events import ID_BITS
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
