"""The functions that executors send, so that each is sent once and not with every call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from workbench.engines.base import Exported
from workbench.interop import calls


class SentFunctions:
    """Of one executor, which may have something that is done before each.

    What isn't a function (a method, a partial, an object that can be called) may be another one
    or have changed by the next time: it is sent with each call, or once for each map.
    """

    def __init__(self, setup: calls.Setup | None) -> None:
        self._setup = setup
        self._known: dict[tuple[int, bool], Exported] = {}

    def call(
        self, fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[Exported, tuple[Any, ...]]:
        """What to send for one call."""
        if isinstance(fn, _FUNCTIONS):
            return self._of(fn, chunked=False), args
        return self._of(calls.apply, chunked=False), (fn, *args)

    def for_chunks(self, fn: Callable[..., Any]) -> Exported:
        """What is called with a list of calls' arguments."""
        return self._of(fn, chunked=True) if isinstance(fn, _FUNCTIONS) else self._new(fn, True)

    def forget(self) -> None:
        """What they close over is let go of. Those of modules stay as long as those do."""
        for key, known in list(self._known.items()):
            if not _lasts(known.function if self._setup is None else None):
                del self._known[key]

    def _of(self, fn: Callable[..., Any], chunked: bool) -> Exported:
        key = id(fn), chunked  # of a function that is kept alive by what is known of it
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new(fn, chunked)
        return known

    def _new(self, fn: Callable[..., Any], chunked: bool) -> Exported:
        target = calls.Each(fn) if chunked else fn
        if self._setup is not None:
            target = calls.WithSetup(self._setup, target)
        return Exported(target, getattr(fn, "__qualname__", type(fn).__name__))


_FUNCTIONS = FunctionType | BuiltinFunctionType | type


def _lasts(fn: Any) -> bool:
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    name = getattr(fn, "__qualname__", "")
    return module is not None and module.__name__ != "__main__" and vars(module).get(name) is fn
