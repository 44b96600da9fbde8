"""State of a person's own modules: what they keep in variables, and in attributes of classes.

A library's modules aren't looked at: of these, only the settings in `libraries`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Container, Iterator, Mapping
from types import ModuleType
from typing import Any

from workbench.call_site import is_persons
from workbench.surroundings.settings import CONTAINERS, GONE, NotLoadedError, Part, State

MODULES = "modules of one's own"


class _Modules(Part):
    """What a person's modules keep, by its whole name: of the loaded ones."""

    def __init__(self) -> None:
        super().__init__(MODULES, self._all, _put, travels=True, says_keys=True)
        self._own: dict[str, ModuleType] = {}
        self._looked = 0  # number of loaded modules when it was looked

    def _all(self) -> State:
        loaded = sys.modules
        if len(loaded) != self._looked or any(loaded.get(n) is not m for n, m in self._own.items()):
            self._looked = len(loaded)
            self._own = {n: m for n, m in list(loaded.items()) if _is_looked_at(n)}
        return {
            f"{module_name}.{name}": value
            for module_name, module in self._own.items()
            for name, value in _kept(module)
        }

    def differing(self, saved: State) -> tuple[State, list[Any]]:
        """Return as `Part` does. What a module had that isn't loaded any more is forgotten."""
        live, keys = super().differing(saved)
        for key in [key for key in keys if key not in live and _holder(key) is None]:
            del saved[key]
        return live, [key for key in keys if key in live or key in saved]


@functools.cache
def modules() -> Part:
    """Return the part of all that a person's modules keep."""
    return _Modules()


def objects(but: Container[str] = ()) -> dict[int, str]:
    """Return the ids of containers that a person's modules keep, with their whole names; not of
    the names in ``but``."""
    live = modules().find() or {}
    return {id(v): k for k, v in live.items() if type(v) in CONTAINERS[1:] and k not in but}


def value_of(name: int | str, numbered: Mapping[int, Any]) -> Any:
    """Return the object that travelled as its number, or as its whole name in a module."""
    if isinstance(name, int):
        return numbered[name]
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _is_looked_at(name: str) -> bool:
    """True for a person's module; not for `__main__`, and not for ours, run from a clone."""
    return name.partition(".")[0] not in ("__main__", "workbench") and is_persons(name)


def _kept(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            own = list(vars(value).items())
            yield from ((f"{name}.{n}", each) for n, each in own if not n.startswith("__"))


def _holder(key: str) -> Any:
    """Return the module or class that has the variable or attribute; None if it isn't loaded."""
    outer = key.rpartition(".")[0]
    module, _, kind = outer.rpartition(".")
    return sys.modules.get(outer) or getattr(sys.modules.get(module), kind or "?", None)


def _put(live: State, key: str, value: Any) -> None:
    """Set the variable or attribute; change a container in place, as others may have it, too."""
    holder, name = _holder(key), key.rpartition(".")[2]
    if holder is None:
        raise NotLoadedError(key)
    there: Any = live.get(key)
    if value is GONE:
        delattr(holder, name)
    elif type(there) is not type(value) or type(value) not in CONTAINERS[1:]:
        setattr(holder, name, value)
    else:
        items = list(value.items()) if isinstance(value, dict) else list(value)
        there.clear()
        getattr(there, "extend" if hasattr(there, "extend") else "update")(items)
