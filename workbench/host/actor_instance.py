"""An actor's instance: creation on an event loop, methods, variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from workbench.errors import ActorExit
from workbench.host.cells import Namespace


def _leave(instance: Any) -> NoReturn:
    raise ActorExit


def _call(instance: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(instance, *args, **kwargs)


_OWN: dict[str, Callable[..., Any]] = {
    "__ray_ready__": lambda instance: True,
    "__ray_call__": _call,
    "__ray_terminate__": _leave,
}


async def made_on_loop(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make an instance on the loop: ``__init__`` may be async, or start tasks there."""
    if inspect.iscoroutinefunction(cls.__init__):
        instance = cls.__new__(cls, *args, **kwargs)
        await cls.__init__(instance, *args, **kwargs)
        return instance
    return cls(*args, **kwargs)


def variables_of(instance: Any, cls: type) -> dict[str, Any]:
    """Return what the instance keeps, under names that a person knows."""
    if isinstance(instance, Namespace):
        return dict(instance.variables)
    return {cls.__name__: instance}


def method_of(instance: Any, name: str) -> Callable[..., Any]:
    """Return a method of the instance, or one that every actor has (`api.actors.BUILT_IN`)."""
    if name in _OWN:
        return partial(_OWN[name], instance)
    found: Callable[..., Any] = getattr(instance, name)
    if name in getattr(instance, "__dict__", ()):  # an attribute of the instance hides it
        hidden: Any = inspect.getattr_static(type(instance), name, found)
        found = hidden.__get__(instance, type(instance)) if hasattr(hidden, "__get__") else hidden
    return found
