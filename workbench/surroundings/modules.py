"""State of a person's own modules: what they keep in variables, and in attributes of classes.

A library's modules aren't looked at: of these, only the settings in `libraries`.
"""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from collections.abc import Container, Iterator, Mapping
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

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


class Anew(NamedTuple):
    """A container that was assigned: who has the one before it doesn't get its items."""

    value: Any


def _put(live: State, key: str, value: Any) -> None:
    """Set the variable or attribute; change a container in place, as others may have it, too."""
    holder, name = _holder(key), key.rpartition(".")[2]
    if holder is None:
        raise NotLoadedError(key)
    there: Any = live.get(key)
    if isinstance(value, Anew):
        there, value = None, value.value
    if value is GONE:
        delattr(holder, name)
    elif type(there) is not type(value) or type(value) not in CONTAINERS[1:]:
        setattr(holder, name, value)
    else:
        items = list(value.items()) if isinstance(value, dict) else list(value)
        there.clear()
        getattr(there, "extend" if hasattr(there, "extend") else "update")(items)


# -- seeing changes without keeping what was there -------------------------------------------------


class Unkept(_Modules):
    """The same part, of which a look keeps no object alive: a notebook looks once, and for good."""

    def read_values(self) -> State | None:
        """Return what shows whether a value is still the same, by its name."""
        return {key: _Identity(value) for key, value in self._all().items()}

    def differing(self, saved: State) -> tuple[State, list[Any]]:
        """Return the values, and the names of those that are others than at `read_values`."""
        live = self._all()
        changed = [k for k, v in live.items() if k not in saved or saved[k] != _Identity(v)]
        return live, changed + [k for k in saved if k not in live and _holder(k) is not None]


class _Identity:
    """Equal to that of the same object with the same items. Keeps only numbers, texts and code."""

    def __init__(self, value: object, depth: int = 3) -> None:
        kind = type(value)
        self._value: Any = None
        self._items: list[_Identity] = []
        if kind in CONTAINERS and depth and len(value) <= MOST_ITEMS:  # type: ignore[arg-type]
            items = chain(*value.items()) if isinstance(value, dict) else value
            self._items = [_Identity(each, depth - 1) for each in items]  # type: ignore[attr-defined]
        try:
            self._value = weakref.ref(value)
        except TypeError:
            self._value = value if kind in _ATOMS else (id(value), kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity) or self._items != other._items:
            return False
        one, two = self._value, other._value
        if isinstance(one, weakref.ref) and isinstance(two, weakref.ref):
            return one() is two() is not None
        return one is two or (type(one) is type(two) and bool(one == two))  # a NaN is itself

    __hash__ = None  # type: ignore[assignment]


MOST_ITEMS = 1000
"""Items of a container that are looked at; a change of a longer one isn't seen."""

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
