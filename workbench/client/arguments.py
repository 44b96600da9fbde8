"""A call's arguments as they are sent, with top-level refs apart; and their names for errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.ref import ObjectRef

SLOTTED = b"@"
"""Payload of a task whose arguments were too large for a message: its first dep holds them."""

REFS_ALONE = b"&"
"""Payload of a task whose arguments are its deps, in that order, and no others."""

Place = int | str
"""Where a top-level ref stood: the argument's number, or its keyword."""

Packed = (
    tuple[tuple[Any, ...], dict[str, Any]]
    | tuple[tuple[Any, ...], dict[str, Any], tuple[Place, ...]]
)
"""A call's arguments. Refs among them are replaced by None; their places follow, in the order of
the
deps. Only Python's simplest types: they are pickled twenty times as fast as a class of ours."""


def pack_arguments(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    stored_as: Callable[[Any], ObjectRef | None],
) -> tuple[Packed, list[ObjectRef]]:
    """Return the arguments without their top-level refs, and those refs in order.

    An array that is a stored object (``stored_as``) isn't stored again: its ref is sent.
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
    """Return the names of the positional parameters of a function or class, if they are known, for
    errors. The name of ``*args`` begins with an asterisk.
    """
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
    """Return the arguments by name, for errors; see `name_at`."""
    return {**{name_at(place, parameters): arg for place, arg in enumerate(args)}, **kwargs}


def name_at(place: Place, parameters: Sequence[str]) -> str:
    """Return the name of the argument at ``place``, for errors; ``parameters`` are the positional
    ones. The last may begin with an asterisk: it then takes all further arguments."""
    if isinstance(place, str):
        return place
    named = [name for name in parameters if name[0] != "*"]
    if place < len(named):
        return named[place]
    if len(named) < len(parameters):
        return f"{parameters[-1][1:]}[{place - len(named)}]"
    return f"argument {place + 1}"


def name_in(function: Any, place: Place) -> str:
    """Return the same of an argument of this function or class."""
    return name_at(place, parameters_of(function))


def places_of(packed: Packed) -> tuple[Place, ...]:
    """Return where the refs stood, in the order of the deps."""
    return packed[2] if len(packed) > 2 else ()


def with_values(packed: Packed, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments, with these values where the refs were."""
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
