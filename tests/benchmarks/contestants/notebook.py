"""Workbench through its magics, in an IPython shell that was there before."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from IPython.core.interactiveshell import InteractiveShell
from pools import WORKERS, Effort, Sample, memory_of_children
from traitlets.config import Config


def measure(rows: Collection[str], effort: Effort) -> Sample:
    os.environ["WORKBENCH_WORKERS"] = str(WORKERS)
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    began = time.perf_counter()
    shell.run_line_magic("load_ext", "workbench")
    shell.run_cell_magic("remote", "--wait", "result = 6 * 7")
    seconds = time.perf_counter() - began
    if shell.user_ns.get("result") != 42:
        raise RuntimeError("%%remote --wait bound no result")
    memory = memory_of_children()
    shell.run_line_magic("unload_ext", "workbench")
    return {"magic_start": seconds, "magic_memory": memory}
