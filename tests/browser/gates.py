"""Where a cell stops until the test lets it on, as an import that looks well in a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.kernel import gates

MODULE = '''
"""Work that goes on when the test lets it."""


def step(number=1):
    {wait}
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


class Gate(gates.Gate):
    """Makes a module beside the notebooks, whose ``step(number)`` waits for `open`."""

    def __init__(self, folder: Path, module: str) -> None:
        super().__init__(folder / f"{module}.gate")
        (folder / f"{module}.py").write_text(MODULE.format(wait=self.wait))


Gates = Callable[[str], Gate]
"""The fixture ``gate``: makes one, by the name of its module."""
