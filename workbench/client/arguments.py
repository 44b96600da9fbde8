"""A call's arguments as they travel, top-level refs apart; and what people call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from workbench.ref import ObjectRef

SLOTTED = b"@"
"""Payload of a task whose arguments were too large for a message: they are the first dep."""

REFS_ALONE = b"&"
"""Payload of a task whose arguments are its deps, in that order, and no others."""

Place = int | str
"""Where a top-level ref stood: the argument's number, or its keyword."""

Packed = (
    tuple[tuple[Any, ...], dict[str, Any]]
    | tuple[tuple[Any, ...], dict[str, Any], tuple[Place, ...]]
)
"""A call's arguments; with refs among them None stands there, and their places beside them, in the
order of the deps. All of it of Python's simplest types, because these are pickled twenty times as
fast as one of our own would be."""


def pack_arguments(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    stored_as: Callable[[Any], ObjectRef | None],
) -> tuple[Packed, list[ObjectRef]]:
    """Arguments without their top-level refs, and those refs in order.

    An array that is what the store has (``stored_as``) isn't stored once more: its ref goes.
    """
    refs: list[ObjectRef] = []
    places: list[Place] = []

    def without_ref(place: Place, value: Any) -> Any:
        ref = stored_as(value) if type(value) is np.ndarray else value
        if type(ref) is not ObjectRef:
            return value
        refs.append(ref)
        places.append(place)
        return None

    rest = tuple([without_ref(n, value) for n, value in enumerate(args)])
    named = {name: without_ref(name, value) for name, value in kwargs.items()}
    return (rest, named, tuple(places)) if refs else (rest, named), refs


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


def name_at(place: Place, parameters: Sequence[str]) -> str:
    """The same for one of them."""
    if isinstance(place, str):
        return place
    named = [name for name in parameters if name[0] != "*"]
    if place < len(named):
        return named[place]
    if len(named) < len(parameters):
        return f"{parameters[-1][1:]}[{place - len(named)}]"
    return f"argument {place + 1}"


def places_of(packed: Packed) -> tuple[Place, ...]:
    """Where the refs stood, in the order of the deps."""
    return packed[2] if len(packed) > 2 else ()


def with_values(packed: Packed, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with these values where the refs were."""
    if len(packed) == 2:
        return packed
    rest, named, places = packed
    args, kwargs = list(rest), dict(named)
    for place, value in zip(places, values, strict=True):
        if isinstance(place, str):
            kwargs[place] = value
        else:
            args[place] = value
    return tuple(args), kwargs
