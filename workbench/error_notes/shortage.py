"""Note on a `MemoryError`: what has this process's memory, and what would help.

For errors that a person sees. `error_notes` imports it only then: it imports much.
"""

from __future__ import annotations

import contextlib
import gc
import re
import resource
import sys
from pathlib import Path
from typing import Any

from workbench import config, context
from workbench.engine.queries import Summary
from workbench.errors import SessionError, WorkbenchError
from workbench.heap import roots
from workbench.heap.narrow import narrower
from workbench.heap.survey import survey
from workbench.report import memory as report
from workbench.report.processes import Processes, is_this_process
from workbench.system import data_limit
from workbench.system.machine import MemoryGauge
from workbench.system.sizes import parse_bytes

MOST_OBJECTS = 200_000
"""Objects looked at: some half a second, and little memory."""

_ASKED = re.compile(r"allocate ([\d.]+) ?([KMGTPE]?i?)B?|of size (\d+) failed")
"""Texts of numpy, torch and pyarrow."""


def note_of(error: BaseException) -> str:
    """Return the note if this process had no memory for something; '' if a task's had none."""
    is_torchs = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    if isinstance(error, WorkbenchError) or not (isinstance(error, MemoryError) or is_torchs):
        return ""
    gc.collect()  # what would go by itself is no holder
    found = survey(roots.roots(error), roots.attributes(libraries=False), MOST_OBJECTS)
    variables = vars(sys.modules["__main__"])
    largest = [h.name for h in found.holders[: report.LARGEST] if h.kind == "variables"]
    ideas = {name: list(narrower(variables.get(name))) for name in largest}
    left, (others, capacity) = _left(), _others()
    return report.shortage_text(
        found,
        asked_for(str(error)),
        left,
        others,
        {name: some for name, some in ideas.items() if some},
        min(left, capacity) if "get_ipython" in variables else 0,
    )


def asked_for(text: str) -> int | None:
    """Return the bytes that an error's text says were asked for; None if it doesn't."""
    found = _ASKED.search(text)
    with contextlib.suppress(ValueError):
        return parse_bytes(found[3] or f"{found[1]}{found[2]}B") if found else None
    return None


def _left() -> int:
    """Return how many bytes this process may still take: of the machine, and by its own limits."""
    available, _ = MemoryGauge().read()
    left = [available - config.load().headroom]
    status = Path("/proc/self/status").read_text()
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    for name, most in (("VmData", data_limit.OWN), ("VmSize", address_space)):
        if most != resource.RLIM_INFINITY and (used := re.search(rf"{name}:\s+(\d+)", status)):
            left.append(most - int(used[1]) * 1024)
    return max(min(left), 0)


def _others() -> tuple[dict[str, int], int]:
    """Return the memory of the session's store and other processes, and what the store may hold."""
    engine: Any = context.get()
    if engine is None or engine.facts.system != "local":
        return {}, 0
    try:
        now = engine.ask(Summary(soon=True))
    except SessionError:
        return {}, 0
    sizes, processes = dict(now.memory.processes) if now.memory else {}, Processes(now)
    others = [each for each in now.clients if not is_this_process(each)]
    found = {processes.name(each.client): sizes.get(each.pid, 0) for each in others}
    return {"the store (`%objects` lists it)": now.live or 0, **found}, now.capacity or 0
