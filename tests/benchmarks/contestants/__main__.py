"""`python -m contestants TARGET FILE SECONDS DIVISOR ROW…`: take one sample, write it as JSON.

The target is what to make or call in a module here, as ``remotes.Ray``. Runs in the contestant's
own environment, in a process of its own: see `rounds`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from measures import measure_pool, measure_store
from pools import Effort, Pool


def main() -> None:
    target, file, seconds, divisor, *rows = sys.argv[1:]
    module, name = target.split(".")
    found = getattr(importlib.import_module(f"contestants.{module}"), name)
    effort = Effort(float(seconds), int(divisor))
    if name == "measure":
        sample = found(set(rows), effort)
    else:
        made = found()
        measure = measure_pool if isinstance(made, Pool) else measure_store
        sample = measure(made, set(rows), effort)
    Path(file).write_text(json.dumps(sample))


if __name__ == "__main__":  # multiprocessing imports this module again in its children
    main()
