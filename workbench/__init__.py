"""Workbench: a shared-memory store and a worker pool behind %put, %get and %%remote.

The public names, loaded when first used: importing this costs nothing. No code belongs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench import exceptions, util, widgets
    from workbench.api import (
        cancel,
        free,
        get,
        pin,
        put,
        spill,
        unpin,
        wait,
    )
    from workbench.api.actor_control import exit_actor, get_actor, kill, list_named_actors
    from workbench.api.actors import method
    from workbench.api.functions import remote
    from workbench.api.gathering import as_completed, gather, map  # noqa: A004 - as the executors' and the builtin
    from workbench.api.lifecycle import init, is_initialized, shutdown
    from workbench.api.observing import objects, snapshot, why
    from workbench.api.resources import available_resources, cluster_resources
    from workbench.api.serializers import (
        deregister_serializer,
        explain_cost,
        inspect_serializability,
        register_serializer,
    )
    from workbench.config import Config
    from workbench.core.snapshot import Snapshot
    from workbench.interop.executor import Executor
    from workbench.interop.pool import Pool
    from workbench.interop.registration import register_joblib
    from workbench.interop.stored_array import StoredArray
    from workbench.plots.axes import plot_costs, plot_occupancy, plot_pins, plot_timeline
    from workbench.ref import ObjectID as ObjectID
    from workbench.ref import ObjectRef
    from workbench.ref_generator import DynamicObjectRefGenerator, ObjectRefGenerator
    from workbench.runtime_context import get_runtime_context
    from workbench.widgets.views import dashboard

_HOMES = {
    "api.actor_control": "exit_actor get_actor kill list_named_actors",
    "api.actors": "method",
    "api": "cancel free get pin put spill unpin wait",
    "config": "Config",
    "core.snapshot": "Snapshot",
    "api.functions": "remote",
    "interop.executor": "Executor",
    "interop.pool": "Pool",
    "interop.registration": "register_joblib",
    "interop.stored_array": "StoredArray",
    "api.gathering": "as_completed gather map",
    "api.lifecycle": "init is_initialized shutdown",
    "api.observing": "objects snapshot why",
    "ref": "ObjectID ObjectRef",
    "ref_generator": "DynamicObjectRefGenerator ObjectRefGenerator",
    "api.resources": "available_resources cluster_resources",
    "runtime_context": "get_runtime_context",
    "api.serializers": (
        "deregister_serializer explain_cost inspect_serializability register_serializer"
    ),
    "plots.axes": "plot_costs plot_occupancy plot_pins plot_timeline",
    "widgets.views": "dashboard",
}
_HOME = {name: f"workbench.{home}" for home, names in _HOMES.items() for name in names.split()}

_MODULES = {
    "actor": "api.actor_control",  # Ray's name
    "exceptions": "exceptions",
    "util": "util",
    "widgets": "widgets",
}

__all__ = [
    "Config", "DynamicObjectRefGenerator", "Executor", "ObjectRef", "ObjectRefGenerator", "Pool",
    "Snapshot", "StoredArray", "as_completed",
    "available_resources", "cancel", "cluster_resources", "dashboard", "deregister_serializer",
    "exceptions", "exit_actor", "explain_cost", "free", "gather", "get", "get_actor",
    "get_runtime_context", "init", "inspect_serializability", "is_initialized", "kill",
    "list_named_actors", "map", "method", "objects", "pin", "plot_costs", "plot_occupancy",
    "plot_pins", "plot_timeline", "put", "register_joblib", "register_serializer", "remote",
    "shutdown", "snapshot", "spill", "unpin", "util", "wait", "why", "widgets",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOME.get(name)
    if name in _MODULES:
        return import_module(f"workbench.{_MODULES[name]}")
    if home is None:
        from workbench.ray_api import IN_RAY, missing

        raise missing("module 'workbench'", name, IN_RAY)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Load the extension: `%load_ext workbench`."""
    from workbench.ipython.loading import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension: `%unload_ext workbench`."""
    from workbench.ipython.loading import unload

    unload(shell)
