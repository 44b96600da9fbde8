"""Counterpart of `ray.util`: our functions under Ray's names, and two small classes over actors.

The public names, loaded when first used. No code belongs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.api.actor_control import list_named_actors as list_named_actors
    from workbench.api.serializers import deregister_serializer as deregister_serializer
    from workbench.api.serializers import inspect_serializability as inspect_serializability
    from workbench.api.serializers import register_serializer as register_serializer
    from workbench.util.actor_pool import ActorPool as ActorPool
    from workbench.util.queue import Queue as Queue
    from workbench.util.unordered import as_completed as as_completed
    from workbench.util.unordered import map_unordered as map_unordered

_HOME = {
    "ActorPool": "util.actor_pool",
    "Queue": "util.queue",
    "as_completed": "util.unordered",
    "deregister_serializer": "api.serializers",
    "inspect_serializability": "api.serializers",
    "list_named_actors": "api.actor_control",
    "map_unordered": "util.unordered",
    "register_serializer": "api.serializers",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("actor_pool", "queue"):
        return import_module(f"workbench.util.{name}")
    if name not in _HOME:
        from workbench.ray_api import IN_UTIL, missing

        raise missing("module 'workbench.util'", name, IN_UTIL)
    value = getattr(import_module(f"workbench.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
