"""Describes a notebook: its variables, what they share, and settings of its process. Runs in the
kernel, of which both twins describe themselves by the same code; imports nothing of ours."""

from __future__ import annotations

import decimal
import enum
import functools
import json
import locale
import logging
import os
import random
import re
import sys
import time
import types
import warnings
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

ATOMS = (
    int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented),
    decimal.Decimal, range, np.generic, np.dtype,
)  # fmt: skip

CONTAINERS = (list, tuple, dict, set, frozenset, deque)

OF_IPYTHON = re.compile(r"_|__|___|_\d+|_i\d*|_ii|_iii|_oh|_dh|_ih|_exit_code|__builtins__")

TWIN = logging.getLogger("twin")

RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class Look:
    """The variables of a notebook, each as a text. An object that comes again is named by where it
    came first: the variable, and how many objects came before it there."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._places: dict[int, str] = {}
        self._name = ""
        self._met = 0
        self._kept: list[Any] = []  # so that no id comes twice
        self._arrays: list[tuple[str, np.ndarray[Any, Any]]] = []

    def variables(self) -> dict[str, str]:
        """Return all that a person made, by name."""
        hidden = self._namespace["get_ipython"]().user_ns_hidden
        found: dict[str, str] = {}
        for name, value in sorted(self._namespace.items()):
            if OF_IPYTHON.fullmatch(name) or hidden.get(name, ...) is value:
                continue
            before = len(self._arrays)
            self._name, self._met = name, 0
            found[name] = self._text(value)
            self._arrays[before:] = [(name, each) for _, each in self._arrays[before:]]
        for n, (name, one) in enumerate(self._arrays):
            for other, two in self._arrays[:n]:
                if one is not two and np.shares_memory(one, two):
                    offset = _address(one) - _address(two)
                    found[name] += f" shares memory with {other} at {offset};"
        return found

    def _text(self, value: Any) -> str:
        if isinstance(value, ATOMS) and type(value).__module__ != "__main__":
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if id(value) in self._places:
            return f"<{self._places[id(value)]}>"
        if type(value) is tuple and not value:
            return "()"
        self._places[id(value)] = f"{self._name} {self._met}" if self._met else self._name
        self._met += 1
        self._kept.append(value)
        return self._inside(value)

    def _all(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self._text, values))

    def _pairs(self, items: Mapping[Any, Any]) -> str:
        return ", ".join(f"{self._text(k)}: {self._text(v)}" for k, v in items.items())

    def _inside(self, value: Any) -> str:
        kind = type(value)
        if isinstance(value, type):
            return self._class(value)
        if kind is types.FunctionType:
            return self._function(value)
        if isinstance(value, types.MethodType | types.BuiltinFunctionType):
            of = value.__self__
            return f"{value.__name__} of {self._text(of)}"
        if isinstance(value, functools.partial):
            return f"partial {self._text(value.func)} ({self._all(value.args)}; {value.keywords})"
        if isinstance(value, RUNNING):
            return f"{kind.__name__} {value.__name__}"
        if isinstance(value, enum.Enum):
            return f"{self._text(kind)}.{value.name}"
        if kind.__module__.startswith("pandas."):
            return _pandas(value, self._pairs)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, BaseException):
            return f"{kind.__name__} {value.args!r}"
        if isinstance(value, np.random.Generator):
            return f"generator {value.bit_generator.state}"
        if kind.__module__ not in ("__main__", "types") and not issubclass(kind, CONTAINERS):
            return re.sub(r" at 0x\w+", "", f"{kind.__name__} {value!r}")
        named = self._text(kind) if kind.__module__ == "__main__" else kind.__qualname__
        return f"{named}({self._items(value)}; {self._state(value)})"

    def _items(self, value: Any) -> str:
        if isinstance(value, dict):
            return self._pairs(value)
        if isinstance(value, set | frozenset):
            return ", ".join(sorted(map(repr, value)))
        if isinstance(value, list | tuple | deque):
            return self._all(value)
        return ""

    def _state(self, value: Any) -> str:
        slots = (n for kind in type(value).__mro__ for n in vars(kind).get("__slots__", ()))
        state = {n: getattr(value, n) for n in slots if hasattr(value, n)}
        of_collections = {n: getattr(value, n, None) for n in ("default_factory", "maxlen")}
        state |= {n: v for n, v in of_collections.items() if v is not None}
        return self._pairs({**getattr(value, "__dict__", {}), **state})

    def _class(self, kind: type) -> str:
        if kind.__module__ != "__main__":
            return f"class {kind.__qualname__}"
        hidden = types.MemberDescriptorType | property | classmethod | staticmethod
        own = {n: v for n, v in vars(kind).items() if not n.startswith("_")}
        plain = {n: v for n, v in own.items() if not isinstance(v, hidden)}
        return f"class {kind.__qualname__}({self._all(kind.__bases__)}) {self._pairs(plain)}"

    def _function(self, function: types.FunctionType) -> str:
        code = function.__code__
        if function.__module__ != "__main__":
            return f"function {function.__module__}.{function.__qualname__}"
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        here = function.__globals__ is self._namespace
        return (
            f"function {function.__qualname__} {code.co_names} "
            f"{[c for c in code.co_consts if isinstance(c, ATOMS)]} "
            f"({self._text(function.__defaults__)}) [{self._all(cells)}] "
            f"{self._pairs(function.__dict__)}{'' if here else ' globals of its own'}"
        )

    def _array(self, array: np.ndarray[Any, Any]) -> str:
        if isinstance(array, np.ma.MaskedArray):
            return f"masked {self._array(np.asarray(array.data))} {array.mask} {array.fill_value}"
        plain = np.asarray(array)
        if plain.size and not plain.dtype.hasobject:
            self._arrays.append(("", plain))
        inside = self._all(plain.ravel()) if plain.dtype.hasobject else plain.tolist()
        is_own = type(array) is not np.ndarray and hasattr(array, "__dict__")
        more = f" {self._text(type(array))} {self._pairs(vars(array))}" if is_own else ""
        return f"array {array.dtype} {array.shape} {inside}{more}"


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _pandas(value: Any, pairs: Any) -> str:
    kind = type(value).__name__
    if kind == "DataFrame":
        dtypes = [*map(str, value.dtypes)]
        return f"{kind} {value.to_dict('split')} {dtypes} {pairs(value.attrs)}"
    if kind == "Series":
        return f"{kind} {value.name!r} {value.dtype} {value.to_dict()}"
    return f"{kind} {value!r}"


def settings() -> dict[str, str]:
    """Return what a person can set of this process, by what it is called."""
    found: dict[str, Any] = {
        "decimal": (decimal.getcontext().prec, str(decimal.getcontext().rounding)),
        "errors of numpy": np.geterr(),
        "print options": np.get_printoptions(),
        "environment": {k: v for k, v in os.environ.items() if k.startswith("TWIN")},
        "directory": os.getcwd(),
        "path": sys.path,
        "recursion": sys.getrecursionlimit(),
        "logging": [(each.level, len(each.handlers)) for each in (logging.root, TWIN)],
        "locale": locale.setlocale(locale.LC_ALL),
        "time zone": time.tzname,
    }
    if (own := sys.modules.get("own")) is not None:
        found["own"] = own.level, own.items, own.Kind.made
    if (pandas := sys.modules.get("pandas")) is not None:
        found["pandas"] = pandas.get_option("display.max_rows")
    if (matplotlib := sys.modules.get("matplotlib")) is not None:
        found["style"] = matplotlib.rcParams["lines.linewidth"]
    found["random"] = zlib.crc32(repr(random.getstate()).encode())
    found["np.random"] = zlib.crc32(np.random.get_state()[1].tobytes())  # type: ignore[arg-type]
    found["filters"] = [(kind, each.__name__) for kind, _, each, _, _ in warnings.filters]
    return {name: repr(value) for name, value in found.items()}


def described(namespace: Mapping[str, Any]) -> str:
    """Return all of it, in JSON."""
    return json.dumps(
        {**Look(namespace).variables(), **{f"({k})": v for k, v in settings().items()}}
    )


ENVIRON, CWD, PATH, FILTERS = dict(os.environ), os.getcwd(), [*sys.path], [*warnings.filters]
ERR, OPTIONS = np.geterr(), np.get_printoptions()
LIMIT, LOCALE = sys.getrecursionlimit(), locale.setlocale(locale.LC_ALL)


def begin() -> None:
    """Have the settings as they were when this module was imported, before any cell."""
    os.environ.clear()
    os.environ.update(ENVIRON)
    os.chdir(CWD)
    sys.path[:] = PATH
    warnings.filters[:] = FILTERS
    np.seterr(**ERR)
    np.set_printoptions(**OPTIONS)
    sys.setrecursionlimit(LIMIT)
    decimal.setcontext(decimal.Context())
    time.tzset()
    locale.setlocale(locale.LC_ALL, LOCALE)
    TWIN.setLevel(0)
    logging.root.setLevel(logging.WARNING)
    logging.root.handlers.clear()
    if (pandas := sys.modules.get("pandas")) is not None:
        pandas.reset_option("display.max_rows")
    if (matplotlib := sys.modules.get("matplotlib")) is not None:
        matplotlib.rcdefaults()
    random.seed(0)
    np.random.seed(0)
    sys.modules.pop("own", None)
