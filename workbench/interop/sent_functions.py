"""The functions that executors send, so that each is sent once and not with every call."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from workbench.engines.base import Exported
from workbench.interop import calls

MOST = 100
"""Functions that one executor remembers."""

_APPLY = Exported(calls.apply, "call")

_lasting: dict[tuple[int, bool], Exported] = {}
"""Functions of modules, which stay as long as the process: no executor has to send them again."""


class SentFunctions:
    """Of one executor, which may have something that is done before each."""

    def __init__(self, setup: calls.Setup | None) -> None:
        self._setup = setup
        self._known: OrderedDict[tuple[int, bool], Exported] = OrderedDict()

    def of(self, fn: Callable[..., Any], chunked: bool) -> Exported:
        """How the function is sent; ``chunked``: called with a list of calls' arguments."""
        key = id(fn), chunked  # of a function that is kept alive by what is known
        known = self._known.get(key) or (_lasting.get(key) if self._setup is None else None)
        if known is not None:
            return known
        target = calls.Each(fn) if chunked else fn
        if self._setup is not None:
            target = calls.WithSetup(self._setup, target)
        known = Exported(target, getattr(fn, "__qualname__", type(fn).__name__))
        if self._setup is None and _lasts(fn):
            _lasting[key] = known
            return known
        self._known[key] = known
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return known

    def call(
        self, fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[Exported, tuple[Any, ...]]:
        """What to send for one call. A method or a partial is another one each time: it goes
        along as an argument."""
        if self._setup is None and not isinstance(fn, FunctionType | BuiltinFunctionType | type):
            return _APPLY, (fn, *args)
        return self.of(fn, False), args

    def clear(self) -> None:
        self._known.clear()


def _lasts(fn: Callable[..., Any]) -> bool:
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    name = getattr(fn, "__qualname__", "")
    return module is not None and module.__name__ != "__main__" and vars(module).get(name) is fn
