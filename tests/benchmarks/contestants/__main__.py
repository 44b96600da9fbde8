"""`python -m contestants NAME FILE SECONDS DIVISOR ROW…`: take one sample, write it as JSON.

Runs in the contestant's own environment, in a process of its own: see `rounds`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from pools import Effort


def main() -> None:
    """See the module."""
    name, file, seconds, divisor, *rows = sys.argv[1:]
    contestant = importlib.import_module(f"contestants.{name}")
    sample = contestant.measure(set(rows), Effort(float(seconds), int(divisor)))
    Path(file).write_text(json.dumps(sample))


if __name__ == "__main__":  # multiprocessing imports this module again in its children
    main()
