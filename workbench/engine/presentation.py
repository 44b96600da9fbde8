"""How a session shows itself to people and to Python, the same on every engine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from workbench.config import notebook_path


class _Session(Protocol):
    """What is needed of an engine here. ``address``: by which `init` finds it again."""

    leave: Callable[[], None]

    @property
    def session(self) -> str: ...
    @property
    def ended(self) -> str | None: ...
    @property
    def workers(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def address_info(self) -> dict[str, str]: ...
    @property
    def mimebundle(self) -> Callable[[object], dict[str, str]]: ...


S = TypeVar("S", bound=_Session)


class SessionPresentation:
    """Base of engines: see `engine.base.Engine` for each of these."""

    def __repr__(self: _Session) -> str:
        state = "over" if self.ended is not None else f"{self.workers} workers"
        return f"Session({self.session!r}, {state})"

    def _repr_mimebundle_(
        self: _Session, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return self.mimebundle(self)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self: _Session, *error: object) -> None:
        self.leave()

    def __getitem__(self: _Session, key: str) -> str:
        return self.address_info[key]

    @property
    def address_info(self: _Session) -> dict[str, str]:
        return {"address": self.address, "node_id": platform.node()}


def process_label() -> str:
    """What this process is called, to people: its notebook's path, or its script's name."""
    script = os.path.basename(sys.argv[0] or "python")
    notebook = "a notebook" if script == "ipykernel_launcher.py" else ""
    return notebook_path() or notebook or script
