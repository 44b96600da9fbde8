"""Formats a key, a value, its type and an error for paths and messages. Evaluates nothing.

A key has a form that can be pasted: ``'name'``, ``Color.RED``, ``date(2020, 1, 1)``.
"""

from __future__ import annotations

import ast
import enum
import sys
from types import FunctionType
from typing import Any

import numpy as np

from workbench.format import OWN

LONGEST = 200
"""Characters; a longer key is better found by its number."""


def written(key: Any) -> str | None:
    """Return an expression that equals a key, in the main module; None: there is no short one."""
    try:
        text = _written(key)
    except Exception:  # its `__repr__` raises, or it is nested too deeply
        return None
    return text if text is not None and len(text) <= LONGEST else None


def _written(key: Any) -> str | None:
    kind: type = type(key)
    if kind in _LITERALS:
        is_number = kind is not float or abs(key) < np.inf
        return repr(key) if is_number else None
    if isinstance(key, np.generic):
        item = key.item()
        return _written(item) if type(item) in _LITERALS and item == key else None
    if isinstance(key, enum.Enum):
        cls = _name_of(kind)
        return f"{cls}.{key.name}" if cls and key.name else None
    if isinstance(key, type):
        return _name_of(key)
    if isinstance(key, tuple) and vars(kind).get("__eq__") in (None, _AS_TUPLES):
        items = [_written(item) for item in key]
        comma = "," if len(items) == 1 else ""
        return None if None in items else f"({', '.join(map(str, items))}{comma})"
    if kind is frozenset:
        items = [_written(item) for item in key]
        return None if None in items else f"frozenset([{', '.join(map(str, items))}])"
    return _call(key)


def _call(key: Any) -> str | None:
    """Return its ``repr``, if that is a call of its class with plain arguments."""
    text = repr(key)
    call = ast.parse(text, mode="eval").body if len(text) <= LONGEST else None
    cls = _name_of(type(key))
    if not isinstance(call, ast.Call) or cls is None:
        return None
    called = ast.unparse(call.func).rpartition(".")[2]
    if called != type(key).__name__:
        return None
    for argument in (*call.args, *(k.value for k in call.keywords)):
        ast.literal_eval(argument)
    return cls + text[text.index("(") :]


def _name_of(cls: type) -> str | None:
    """Return the name of a class in the main module: its own, or one with a module's name."""
    if cls.__module__ == "builtins":
        return cls.__name__
    main = vars(sys.modules["__main__"])
    first, *others = cls.__qualname__.split(".")
    found = main.get(first)
    for name in others:
        found = getattr(found, name, None)
    if found is cls:
        return str(cls.__qualname__)
    modules = (name for name, value in list(main.items()) if isinstance(value, type(sys)))
    for name in modules:
        if not name.startswith("_") and getattr(main[name], cls.__name__, None) is cls:
            return f"{name}.{cls.__name__}"
    return None


_AS_TUPLES: Any = tuple.__eq__
_LITERALS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})


def short(value: Any, most: int = 30) -> str:
    """Return a repr that fits into a path; never raises."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


def type_of(value: Any) -> str:
    """Return the type's name: ``_thread.lock``, ``generator``, ``Model``."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def describe(value: Any) -> str:
    """Return a value's type and shape: ``ndarray float64 (1797, 64)``, ``dict (3)``, ``Model``."""
    kind = type(value)
    name = kind.__qualname__
    if kind in SIZED:
        return f"{name} ({len(value)})"
    if kind is FunctionType or issubclass(kind, type):
        own = value.__module__ == "workbench.host.cells"  # it runs cells
        return f"{OWN if own else f'{name} '}{value.__qualname__}"
    try:
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    except Exception:  # a property of the object raises
        return name
    if issubclass(kind, np.generic):
        return name  # the name says it all
    if isinstance(dtype, np.dtype):
        name = f"{name} {dtype}"
    is_shape = type(shape) is tuple and all(type(length) is int for length in shape)
    if not is_shape and getattr(kind, "__workbench_own__", False):
        return f"{OWN}{name}"
    return f"{name} {shape}" if is_shape else name


SIZED = frozenset({list, tuple, dict, set, frozenset, str, bytes, bytearray})
"""Python's own types with a length."""


def error_line(error: BaseException) -> str:
    """Return the type and first line of an error's text; never raises."""
    try:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    except Exception:
        return type(error).__name__
