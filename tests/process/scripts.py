"""Drivers in processes of their own: Python text that talks with the test line by line."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.patience import TIMEOUT

_ROOT = Path(__file__).parents[2]

_PRELUDE = """
import os, signal, sys
import workbench as wb
from tests.process.gates import stopper

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Script:
    """A running script. ``say(...)`` in it is a `line` here, and `tell` is its ``hear()``.

    ``before`` is a command that runs it.
    """

    def __init__(self, text: str, *arguments: str, before: Sequence[str] = ()) -> None:
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
        self._buffer = b""
        self._process = subprocess.Popen(
            [*before, sys.executable, "-c", _PRELUDE + textwrap.dedent(text), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        self.pid = self._process.pid

    def line(self) -> str:
        """The next line it says."""
        while b"\n" not in self._buffer:
            assert self.speaks(TIMEOUT), f"silence after {self._buffer!r}"
            chunk = os.read(self._stdout.fileno(), 1 << 16)
            assert chunk, f"it ended, with status {self._process.wait(TIMEOUT)}"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def speaks(self, within: float) -> bool:
        """Whether it says something, or ends, within so many seconds."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        return b"\n" in self._buffer or bool(poll.poll(within * 1000))

    def tell(self, word: str = "") -> None:
        self._stdin.write(word.encode() + b"\n")
        self._stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(TIMEOUT)

    def close(self) -> None:
        """End it, if it hasn't ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(TIMEOUT)
        self._stdin.close()
        self._stdout.close()


Scripts = Callable[..., Script]
"""Starts one: the fixture ``script``."""
