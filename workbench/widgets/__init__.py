"""What a session looks like: live views, plots, static forms. They show a snapshot and delegate.

Importing this is cheap: each name brings what it needs when it is asked for.
"""

from __future__ import annotations

from typing import Any

_HOME = {
    **dict.fromkeys(["Costs", "Dashboard", "Jobs", "Occupancy", "Pins", "dashboard"], "views"),
}

__all__ = ["Costs", "Dashboard", "Jobs", "Occupancy", "Pins", "dashboard"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'workbench.widgets' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"workbench.widgets.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
