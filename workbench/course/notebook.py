"""The notebook that asks: its variables, and whether it has loaded Workbench. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from workbench.errors.remote_frames import shell


def is_loaded() -> bool:
    """True if this is a notebook in which ``%load_ext workbench`` has run."""
    manager = getattr(shell(), "extension_manager", None)
    return manager is not None and "workbench" in manager.loaded


def variables() -> Mapping[str, Any]:
    """The notebook's; of a script, what it has at its top."""
    running = shell()
    found: Mapping[str, Any] = vars(sys.modules["__main__"]) if running is None else running.user_ns
    return found
