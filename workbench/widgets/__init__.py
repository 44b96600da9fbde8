"""What a session looks like: live views, plots, static forms. They show a snapshot and delegate.

Importing this is cheap: ipywidgets comes with the first name that is asked for.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Costs", "Dashboard", "Jobs", "Occupancy", "Pins", "dashboard"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'workbench.widgets' has no attribute {name!r}")
    from workbench.widgets import views

    return getattr(views, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
