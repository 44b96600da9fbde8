"""What is measured: pools and stores of `pools`, and functions ``measure(rows, effort)``."""

from pathlib import Path

_BLOCKS = Path(__file__).with_name("cells.txt").read_text().split("\n== ")[1:]
CELLS = {name: code.strip() for name, _, code in (each.partition("\n") for each in _BLOCKS)}
"""By name: cells.txt."""
