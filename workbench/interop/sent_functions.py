"""Functions that executors send: each is sent once, not with every call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from workbench.engine.base import Comparing, Exported
from workbench.interop import calls

Kind = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Turns a function into another one, as `calls.Each` and `calls.WithSetup` do."""


class SentFunctions:
    """Functions sent by one executor, with its setup if it has one.

    A callable that isn't a function (a method, a partial, a callable object) may be new or changed
    the next time: it is sent with each call, or once for each map.
    """

    def __init__(self, with_setup: Kind | None) -> None:
        self._with_setup = with_setup
        self._known: dict[tuple[int, Kind | None], tuple[Callable[..., Any], Exported]] = {}

    def call(
        self, fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[Exported, tuple[Any, ...]]:
        """Return the function and the arguments to send for one call."""
        if isinstance(fn, _FUNCTIONS):
            return self._exported(fn), args
        return self._exported(calls.apply), (fn, *args)

    def for_chunks(self, fn: Callable[..., Any], kind: Kind) -> Exported:
        """Return the function that a map which begins now calls with chunks: what it reads is
        compared once, not again for each chunk."""
        found = self._exported(fn, kind) if isinstance(fn, _FUNCTIONS) else self._new(fn, kind)
        found.comparing = Comparing.ONCE
        return found

    def forget(self) -> None:
        """Forget functions, so that what they close over is freed. Those of modules stay."""
        for key, (fn, _) in list(self._known.items()):
            if self._with_setup is not None or not _lasts(fn):
                del self._known[key]

    def _exported(self, fn: Callable[..., Any], kind: Kind | None = None) -> Exported:
        key = id(fn), kind  # the function is kept alive here
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = fn, self._new(fn, kind)
        return known[1]

    def _new(self, fn: Callable[..., Any], kind: Kind | None) -> Exported:
        target = fn if kind is None else kind(fn)
        if self._with_setup is not None:
            target = self._with_setup(target)
        return Exported(target, getattr(fn, "__qualname__", type(fn).__name__))


_FUNCTIONS = FunctionType | BuiltinFunctionType | type


def _lasts(fn: Any) -> bool:
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    name = getattr(fn, "__qualname__", "")
    return module is not None and module.__name__ != "__main__" and vars(module).get(name) is fn
