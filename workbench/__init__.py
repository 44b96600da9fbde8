"""Workbench: a shared-memory store and a worker pool behind %put, %get and %%remote.

The public names, loaded when first used: importing this costs nothing. No code belongs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench.api import (
        cancel,
        deregister_serializer,
        exit_actor,
        explain_cost,
        free,
        get,
        get_actor,
        init,
        inspect_serializability,
        is_initialized,
        kill,
        objects,
        pin,
        put,
        register_serializer,
        shutdown,
        snapshot,
        spill,
        unpin,
        wait,
        why,
    )
    from workbench.config import Config
    from workbench.functions import remote
    from workbench.gathering import as_completed, gather, map  # noqa: A004 - as the executors' and the builtin
    from workbench.ref import ObjectRef
    from workbench.streams import ObjectRefGenerator

_HOME = {
    "Config": "workbench.config",
    "ObjectRef": "workbench.ref",
    "ObjectRefGenerator": "workbench.streams",
    "remote": "workbench.functions",
    **dict.fromkeys(["as_completed", "gather", "map"], "workbench.gathering"),
    **dict.fromkeys(
        [
            "cancel", "deregister_serializer", "exit_actor", "explain_cost", "free", "get",
            "get_actor", "init", "inspect_serializability", "is_initialized", "kill", "objects",
            "pin", "put", "register_serializer", "shutdown", "snapshot", "spill", "unpin",
            "wait", "why",
        ],
        "workbench.api",
    ),
}

__all__ = [
    "Config",
    "ObjectRef",
    "ObjectRefGenerator",
    "as_completed",
    "cancel",
    "deregister_serializer",
    "exit_actor",
    "explain_cost",
    "free",
    "gather",
    "get",
    "get_actor",
    "init",
    "inspect_serializability",
    "is_initialized",
    "kill",
    "map",
    "objects",
    "pin",
    "put",
    "register_serializer",
    "remote",
    "shutdown",
    "snapshot",
    "spill",
    "unpin",
    "wait",
    "why",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext workbench`."""
    from workbench.ipython.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext workbench`."""
    from workbench.ipython.extension import unload

    unload(shell)
