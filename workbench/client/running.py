"""What keeps things until it ends by itself: threads, asyncio's tasks and timers. And what ends it.

For `client.referrer_search`, which goes no further there; nor where an answer is a list of all
libraries: at modules, and at numbers and texts that Python shares.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from workbench.call_site import is_own
from workbench.client.collector import LEAVES
from workbench.client.reference_graph import Name

SMALL = 512
"""Bytes up to which a number or a text has no other holders than its type."""


def ends_itself(thing: Any, variable: Callable[[Any], str]) -> Name | None:
    """Return the name of such a thing, and code that ends it if that is safe; None of others.

    ``variable`` returns a person's variable that is a thing, or ''.
    """
    asyncio = sys.modules.get("asyncio")
    if type(thing) in LEAVES and sys.getsizeof(thing) <= SMALL:
        return Name(type(thing).__name__, "small")
    if type(thing) is ModuleType and thing in sys.modules.values():
        return Name(thing.__name__, "loaded")
    if isinstance(thing, threading.Thread) and thing.is_alive():
        return Name(thing.name, "thread")
    if asyncio is None:
        return None
    if isinstance(thing, asyncio.Task) and not thing.done():
        return _task(thing, variable(thing))
    if isinstance(thing, asyncio.Handle) and not thing.cancelled():
        loop, due = thing._loop, ""
        if isinstance(thing, asyncio.TimerHandle):
            due = str(thing.when() - loop.time())
        if due.startswith("-") or not (due or thing in getattr(loop, "_ready", [thing])):
            return None  # it has run
        path = variable(thing)
        return Name(path, "call", due, cut=f"{path}.cancel()" if path else "")
    return None


def _task(task: Any, path: str) -> Name:
    name, coroutine = task.get_name(), task.get_coro()
    cut = f"{path}.cancel()"
    if not path:
        find = f"next(t for t in asyncio.all_tasks() if t.get_name() == {name!r})"
        cut = f"import asyncio; {find}.cancel()"
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    is_persons = code is not None and is_own(code.co_filename)  # else a library would break
    where = getattr(coroutine, "__qualname__", "")
    return Name(name, "task", where, cut=cut if is_persons else "")
