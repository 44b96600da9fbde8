"""The notebook that asks: its variables, and whether it has loaded Workbench. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def is_loaded() -> bool:
    """True if this is a notebook in which ``%load_ext workbench`` has run."""
    manager = getattr(_shell(), "extension_manager", None)
    return manager is not None and "workbench" in manager.loaded


def variables() -> Mapping[str, Any]:
    """The notebook's; of a script, what it has at its top."""
    shell = _shell()
    found: Mapping[str, Any] = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    return found


def _shell() -> Any:
    from IPython.core.getipython import get_ipython  # late: workers import the course for `measure`

    return get_ipython()
