"""Where a cell stops until the test lets it on, as an import that looks well in a picture."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from tests.leaks import eventually

MODULE = '''
"""Work that goes on when the test lets it."""


def step(number=1):
    with open({path!r}) as gate:
        gate.read()
    return 0.5**number
'''

TRAINS = """\
%%remote
import training

for epoch in range(3):
    loss = training.step(epoch)
    print("epoch", epoch, "loss", loss)"""
"""A background cell that comes to the gate ``training`` three times."""

READS = """\
import reading

reading.step()
print("read")"""
"""A cell that keeps the kernel busy until the gate ``reading`` lets it on."""


class Gate:
    """Makes a module beside the notebooks, whose ``step(number)`` waits for `let_on`."""

    def __init__(self, folder: Path, module: str) -> None:
        self._path = str(folder / f"{module}.gate")
        os.mkfifo(self._path)
        (folder / f"{module}.py").write_text(MODULE.format(path=self._path))

    def let_on(self) -> None:
        """Wait for who comes to the gate, and let them on. One at a time may be there."""
        assert eventually(self._open), "nobody came to the gate"

    def _open(self) -> bool:
        try:
            gate = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads
                return False
            raise
        os.close(gate)
        return True

    def close(self) -> None:
        """Whoever comes now gets an error."""
        os.unlink(self._path)


Gates = Callable[[str], Gate]
"""The fixture ``gate``: makes one, by the name of its module."""
