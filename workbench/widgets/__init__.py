"""Live views of a session in notebooks, and their data. They show what `report.page` words and
send actions to the engine; plots are in `plots`, still forms in `report.html`.

Importing this is cheap: ipywidgets is imported with the first name that is used.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Costs", "Dashboard", "History", "Jobs", "Occupancy", "Pins", "dashboard"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'workbench.widgets' has no attribute {name!r}")
    from workbench.widgets import views

    return getattr(views, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
