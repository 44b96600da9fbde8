"""A call's arguments as they travel, with slots for top-level refs; and what people call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from workbench.ref import ObjectRef

SLOTTED = b"@"
"""Payload of a task whose arguments were too large for a message: they are the first dep."""


class Slot(NamedTuple):
    """Stands for the value of dep number ``number``."""

    number: int


def pack_arguments(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    stored_as: Callable[[Any], ObjectRef | None],
) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], list[ObjectRef]]:
    """Arguments with a slot in place of each top-level ref, and those refs in order.

    An array that is what the store has (``stored_as``) isn't stored once more: its ref goes.
    """
    refs: list[ObjectRef] = []

    def slot(value: Any) -> Any:
        ref = stored_as(value) if type(value) is np.ndarray else value
        if type(ref) is ObjectRef:
            refs.append(ref)
            return Slot(len(refs) - 1)
        return value

    packed = tuple([slot(a) for a in args]), {k: slot(v) for k, v in kwargs.items()}
    return packed, refs


def parameters_of(function: Any) -> tuple[str, ...]:
    """The names of a function's or a class's positional parameters, as far as they are known.

    That of the rest, if it takes more, has an asterisk.
    """
    if type(function) is MethodType:
        return parameters_of(function.__func__)[1:]
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):
        code: CodeType = function.__code__
        names, count = code.co_varnames, code.co_argcount
        if code.co_flags & inspect.CO_VARARGS:
            return (*names[:count], f"*{names[count + code.co_kwonlyargcount]}")
        return names[:count]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ()
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: "",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "",
        inspect.Parameter.VAR_POSITIONAL: "*",
    }
    parameters = signature.parameters.items()
    return tuple(kinds[p.kind] + name for name, p in parameters if p.kind in kinds)


def argument_names(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Sequence[str] = ()
) -> dict[str, Any]:
    """What a person calls the arguments, by the positional ``parameters``: for errors.

    The last of those may have an asterisk, and be all the rest.
    """
    named = [name for name in parameters if name[0] != "*"]
    others = map("argument {}".format, count(len(named) + 1))
    if len(named) < len(parameters):
        others = map((parameters[-1][1:] + "[{}]").format, count())
    return {**dict(zip(chain(named, others), args, strict=False)), **kwargs}


def slot_names(
    packed: tuple[tuple[Any, ...], dict[str, Any]], parameters: Sequence[str]
) -> dict[int, str]:
    """The same for the arguments that came as refs, by the number of their slot."""
    named = argument_names(*packed, parameters)
    return {value.number: name for name, value in named.items() if type(value) is Slot}


def fill_slots(
    packed: tuple[tuple[Any, ...], dict[str, Any]], values: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = packed

    def fill(value: Any) -> Any:
        return values[value.number] if type(value) is Slot else value

    return tuple([fill(a) for a in args]), {k: fill(v) for k, v in kwargs.items()}
