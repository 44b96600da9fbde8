"""Representation of a session for people and for Python, the same on every engine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any, Protocol, Self

from workbench.config import notebook_path


class SessionPresentation(Protocol):
    """Base of engines that people use directly."""

    leave: Callable[[], None]
    """Called by the end of ``with init():``."""

    mimebundle: Callable[[object], dict[str, str]]
    """Returns what Jupyter shows of a ref, an actor's handle, or the session."""

    @property
    def address(self) -> str:
        """Address with which `init` finds the session again."""

    def __repr__(self: Any) -> str:
        state = "over" if self.end_reason is not None else f"{self.workers} workers"
        return f"Session({self.session!r}, {state})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.mimebundle(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def __getitem__(self, key: str) -> str:
        return self.address_info[key]

    @property
    def address_info(self) -> dict[str, str]:
        """Ray's address info, as far as it applies; also ``session["address"]``."""
        return {"address": self.address, "node_id": platform.node()}


def process_label() -> str:
    """Return the name of this process for people: its notebook's path, or its script's name."""
    script = os.path.basename(sys.argv[0] or "python")
    notebook = "a notebook" if script == "ipykernel_launcher.py" else ""
    return notebook_path() or notebook or script
