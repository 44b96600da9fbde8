"""Takes the state of one object, apart from the state of its parts, and restores it.

`object_state_of` an object here, sent and given to `restore` there, makes that object the same,
for all who refer to it. Knows nothing of who compares, sends and decides: see `mutations`.
"""

from __future__ import annotations

import contextlib
import copyreg
import datetime
import decimal
import fractions
import operator
import pathlib
import re
import sys
import types
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from workbench.serialization.arrays import Reducers, has_attributes

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, range, type(...)})

FIXED: frozenset[type] = _ATOMS | frozenset({
    type(NotImplemented), types.ModuleType, types.BuiltinFunctionType, types.MethodType,
    types.MethodDescriptorType, types.CodeType, np.ufunc, *np.sctypeDict.values(),
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern,
    pathlib.PurePosixPath, pathlib.PosixPath,
})  # fmt: skip
"""Types whose instances can't be changed in place."""

METHODS = frozenset({types.BuiltinFunctionType, types.MethodType})
"""Methods of objects (`found.append`): only their objects can be changed."""


class ReducedState(NamedTuple):
    """State of an object: new containers that hold the object's own parts."""

    kind: str
    """How to put it back; `WHOLE`: impossible."""

    parts: Any
    maker: Any = None
    """What can't be changed in place: dtype and shape of an array, or the function and arguments
    that make the object; of an iterator only the arguments."""


WHOLE = "whole"

SMALL_ARRAY = 16 << 10
"""Bytes of an array up to which a copy is kept to compare with; of larger ones a digest."""

MOST_ITEMS = 1000
"""Items examined for something that can change, in a tuple and those inside it."""

BoundName = tuple[str, str | int]
"""Name in a function or class: a ``global``, an ``attribute``, a parameter with a ``default``, or
a ``cell`` of its closure, by position."""


_FIXED_CONTAINERS = frozenset({tuple, frozenset})


def is_immutable(value: Any) -> bool:
    """True if it always pickles the same: numbers, text, small tuples of such.

    A function's pickle may differ, because it refers to other objects.
    """
    left = [value]
    for each in left:  # grows while it is read
        if type(each) in _FIXED_CONTAINERS:
            if len(left) + len(each) > MOST_ITEMS:
                return False
            left += each
        elif type(each) not in _ATOMS:
            return False
    return True


def can_change(value: Any, depth: int = 8) -> bool:
    """True if the value may have something that can be changed in place."""
    if type(value) in _FIXED_CONTAINERS:
        return not depth or any(can_change(each, depth - 1) for each in value)
    if type(value) in METHODS:
        return can_change(value.__self__, depth)
    if isinstance(value, types.FunctionType | type):
        return travels_by_value(value)
    return type(value) not in FIXED and not isinstance(value, np.dtype)


def is_array(value: Any) -> bool:
    """True if it is a plain array: built from the store's bytes, it is read-only."""
    return type(value) is np.ndarray and not value.dtype.hasobject


def has_memory(value: Any) -> bool:
    """Return True for an array, of any class, of which others may be views."""
    return isinstance(value, np.ndarray) and not value.dtype.hasobject


def is_read_only(value: Any) -> bool:
    """True if it is an array, of any class, that can't be written to."""
    return isinstance(value, np.ndarray) and not value.flags.writeable


def object_state_of(value: Any, reducers: Reducers) -> ReducedState:
    """Return the state of a value. Calls the user's pickling code, and passes its errors on.

    Instances of types in ``reducers`` are taken whole.
    """
    kind = type(value)
    if kind in _BUILTIN:
        return ReducedState(kind.__name__, _BUILTIN[kind](value))
    if kind is np.ndarray:
        return ReducedState("array", value.view(), (value.dtype, value.shape))
    if kind in reducers:
        return ReducedState(WHOLE, value)
    if has_attributes(kind) and not value.dtype.hasobject:
        own = value.view(np.ndarray), dict(vars(value))
        return ReducedState("subclass", own, (kind, value.dtype, value.shape))
    if kind.__module__.partition(".")[0] == "numpy" and kind.__name__ in _NUMPY:
        return ReducedState(kind.__name__, *_NUMPY[kind.__name__](value))
    if kind.__name__ == "CallbackRegistry" and kind.__module__ == "matplotlib.cbook":
        # Its pickle has only some of its callbacks.
        return ReducedState("callbacks", ())
    try:
        reduced = value.__reduce_ex__(5)
    except TypeError:  # perhaps only the pickler knows how
        return ReducedState(WHOLE, value)
    if type(reduced) is not tuple or not 2 <= len(reduced) <= 5:
        return ReducedState(WHOLE, value)
    make, args, state, items, entries = (*reduced, None, None, None)[:5]
    is_empty = make is copyreg.__newobj__ and args == (kind,)  # type: ignore[attr-defined]
    if not is_empty and state is items is entries is None:
        # Others may share memory between what they are made of and what they show: pandas' blocks.
        return ReducedState(WHOLE, value, args if kind.__module__ in _ITERATORS else None)
    parts = (
        _own(state),
        None if items is None else list(items),
        None if entries is None else list(entries),
    )
    return ReducedState("state", parts, None if is_empty else (make, args))


_BUILTIN: dict[type, Callable[[Any], Any]] = {
    list: list,
    dict: dict,
    Counter: dict,
    set: list,
    bytearray: bytes,
}


_ITERATORS = ("builtins", "itertools")
"""Modules with iterators over other iterators: `zip`, `enumerate`, `chain`."""


def is_builtin(value: Any) -> bool:
    """True if taking its state runs no code of the user's."""
    return type(value) in _BUILTIN


def _masked(value: Any) -> tuple[Any, Any]:
    mask = None if value.mask is np.False_ else value.mask.copy()
    return (value.data.view(np.ndarray), mask, value.fill_value), (value.dtype, value.shape)


_NUMPY: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "MaskedArray": _masked,
    "Generator": lambda value: (value.bit_generator.state,),
    "RandomState": lambda value: (value.get_state(legacy=False),),
}
"""By class name, for parts of numpy that load on first use: function that returns parts, maker."""


def _own(state: Any) -> Any:
    """Copy a state's dicts: an instance's own dict would change later."""
    if type(state) is dict:
        return dict(state)
    if type(state) is tuple:
        return tuple([_own(each) for each in state])
    return state


def leaves(found: ReducedState) -> list[Any] | None:
    """Return the objects that a state refers to, in order, with marks that distinguish its form.

    None: the same objects don't imply the same state.
    """
    kind, parts, maker = found
    if kind in ("list", "set"):
        return parts  # type: ignore[no-any-return]
    if kind in ("dict", "Counter"):
        return [*parts, *parts.values()]
    if kind == "bytearray":
        return [parts]
    if kind == "array" and parts.nbytes <= SMALL_ARRAY and not parts.dtype.hasobject:
        return [parts.tobytes(), *maker]
    if kind != "state":
        return None
    state, items, entries = parts
    listed = [*flat(state), items is not None, entries is not None, *flat(maker)]
    if items is not None:
        listed += items
    for key, value in entries or ():
        listed += (key, value)
    return listed


def flat(state: Any) -> Iterable[Any]:
    """Return what is in a state's dicts and tuples, with their lengths."""
    if type(state) is dict:
        return (len(state), *state, *state.values())
    if type(state) is tuple:
        return (len(state), *chain.from_iterable(map(flat, state)))
    return (state,)


def is_same(before: list[Any] | None, now: list[Any] | None) -> bool:
    """True if these `leaves` are the same objects, or equal texts and numbers."""
    if before is None or now is None or len(before) != len(now):
        return False
    return all(map(operator.is_, before, now)) or all(map(_is_equal, before, now))


def is_same_maker(before: Any, now: Any) -> bool:
    return is_same([*flat(before)], [*flat(now)])


def _is_equal(before: Any, now: Any) -> bool:
    kind = type(before)
    if before is now:
        return True
    if kind is not type(now):
        return False
    if kind is tuple:
        return len(before) == len(now) and all(map(_is_equal, before, now))
    if kind in _EXACT:
        return bool(before == now)
    # 0.0 and -0.0, decimals, and times in two zones are equal, but not the same.
    is_known = kind in FIXED or isinstance(before, np.dtype)
    return is_known and bool(before == now) and repr(before) == repr(now)


_EXACT = frozenset({int, bool, str, bytes, range})
"""Types whose equal values are the same."""


# -- functions and classes -------------------------------------------------------------------------


def travels_by_value(value: Any) -> bool:
    """True if it is a function or class that no module has under its name."""
    kind = type(value)  # `isinstance` would ask `__class__`, which of a proxy may raise
    if kind is not types.FunctionType and not issubclass(kind, type):
        return False
    if value.__module__ == "__main__":
        return True
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not value


def bindings(value: Any) -> dict[BoundName, Any]:
    """Return the values of the names in a function or class that it may rebind."""
    if isinstance(value, type):
        return {
            ("attribute", name): part
            for name, part in vars(value).items()
            if not (name.startswith("__") or name == "_abc_impl")
        }
    read, namespace = _names_in(value.__code__), value.__globals__
    found: dict[BoundName, Any] = {("global", n): namespace[n] for n in namespace if n in read}
    found |= {("attribute", name): part for name, part in vars(value).items()}
    defaults = {**_positional(value), **(value.__kwdefaults__ or {})}
    found |= {("default", name): part for name, part in defaults.items()}
    for place, cell in enumerate(value.__closure__ or ()):
        with contextlib.suppress(ValueError):  # it is empty
            found["cell", place] = cell.cell_contents
    return found


def _positional(function: types.FunctionType) -> dict[str, Any]:
    """Return the defaults of parameters that can be positional."""
    code, values = function.__code__, function.__defaults__ or ()
    last = code.co_varnames[max(code.co_argcount - len(values), 0) : code.co_argcount]
    return dict(zip(last, values, strict=False))


def _names_in(code: types.CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


# -- putting it back -------------------------------------------------------------------------------


def can_restore(value: Any, new: ReducedState) -> bool:
    """True if `restore` can give the value this state."""
    if new.kind in ("array", "MaskedArray", "subclass"):
        is_same = (value.dtype, value.shape) == new.maker[-2:]
        return bool(is_same and value.flags.writeable)
    return new.kind != WHOLE


def restore(value: Any, new: ReducedState, old: ReducedState) -> None:
    """Change a value from state ``old`` to state ``new``.

    Runs user's code (``__setstate__``), which may fail halfway: then ``restore(value, old, new)``
    undoes it. What is in neither state stays.
    """
    parts = new.parts
    match new.kind:
        case "list" | "bytearray":
            value[:] = parts
        case "array":
            np.copyto(value, parts)
        case "subclass":
            np.copyto(value.view(np.ndarray), parts[0])
            vars(value).clear()
            vars(value).update(parts[1])
        case "dict" | "Counter":
            dict.clear(value)
            dict.update(value, parts)
        case "set":
            value.clear()
            value.update(parts)
        case "MaskedArray":
            data, mask, value.fill_value = parts
            value.mask = np.ma.nomask if mask is None else mask
            np.copyto(value.data, data)
        case "callbacks":
            pass  # this process's own
        case "Generator":
            value.bit_generator.state = parts
        case "RandomState":
            value.set_state(parts)
        case "state":
            _restore_state(value, parts, old.parts)
        case "bindings":
            for binding, part in parts.items():
                _bind(value, binding, part)


def _restore_state(value: Any, new: Any, old: Any) -> None:
    state, items, entries = new
    before, items_before, entries_before = old
    for name in _names(before) - _names(state):
        with contextlib.suppress(AttributeError):
            object.__delattr__(value, name)
    if state is not None and hasattr(type(value), "__setstate__"):
        value.__setstate__(state)
    elif state is not None:  # as pickle does; but the class may have lost its slots
        attributes, slots = state if type(state) is tuple else (state, None)
        own = getattr(value, "__dict__", None)
        for name, part in (attributes or {}).items():
            setattr(value, name, part) if own is None else own.__setitem__(name, part)
        for name, part in (slots or {}).items():
            setattr(value, name, part)
    if items is not None or items_before is not None:
        value.clear()
        value.extend(items or ())
    if entries is not None or entries_before is not None:
        value.clear()
        for key, part in entries or ():
            value[key] = part


def _bind(value: Any, binding: BoundName, part: Any) -> None:
    what, name = binding
    if what == "global":
        value.__globals__[name] = part
    elif what == "cell":
        value.__closure__[name].cell_contents = part
    elif what == "default" and name in (value.__kwdefaults__ or ()):
        value.__kwdefaults__[name] = part
    elif what == "default":
        value.__defaults__ = tuple((_positional(value) | {name: part}).values())
    else:
        setattr(value, str(name), part)


def _names(state: Any) -> set[str]:
    """Return the names of attributes in a state, if it has attributes."""
    if type(state) is dict:
        return {name for name in state if isinstance(name, str)}
    if type(state) is tuple:
        return set().union(*map(_names, state))
    return set()
