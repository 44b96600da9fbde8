"""A function whose results are kept on disk: `remote(cache=True)`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from workbench import context
from workbench.engine.queries import Pack
from workbench.host.cached_runs import FreshRun, found_or_made
from workbench.report.cached import call_note
from workbench.result_cache.fingerprints import of_facts
from workbench.result_cache.outside import running
from workbench.result_cache.records import CacheRequest
from workbench.serialization.packing import OtherSide
from workbench.surroundings.interpreter import working_directory
from workbench.surroundings.parts import parts
from workbench.surroundings.seeding import GENERATORS
from workbench.surroundings.settings import differing


class CachedFunction:
    """Calls a function, unless the same call has a result on disk. Its prints are shown again.

    Parameters
    ----------
    function : callable
        The function.
    directory : str
        Where the results are.
    limit : int
        Bytes that they may take.
    """

    def __init__(self, function: Callable[..., Any], directory: str, limit: int) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._directory, self._limit = directory, limit

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedFunction, (self._function, self._directory, self._limit)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        engine = context.get()
        if engine is None or running:  # then it is a part of that run
            return self._function(*args, **kwargs)
        there = OtherSide(code_apart=True)
        code = engine.ask(Pack(self._function, dict, there))[0].code
        values = {"function": self._function, "arguments": (args, kwargs)}
        facts = of_facts(["a call", os.environ.get("TZ"), cwd := working_directory(), *sys.path])
        asked = CacheRequest(
            self._directory, self._limit, facts, cwd=cwd, draws_from=os.urandom(8).hex()
        )  # each call draws numbers of its own

        def make() -> FreshRun:
            before = parts()[GENERATORS].read_values() or {}
            value = self._function(*args, **kwargs)
            after = parts()[GENERATORS].read_values() or {}
            return FreshRun(value, bool(differing(before, after)))

        value, what, _ = found_or_made(asked, values, code, make)
        if note := call_note(what):
            _say(f"{getattr(self._function, '__name__', 'a function')}: {note}")
        return value


@functools.lru_cache(100)
def _say(text: str) -> None:
    """Print a note, once per worker."""
    print(text, file=sys.stderr)
