"""What a process that runs an actor needs to know of it, on every engine."""

from __future__ import annotations

from dataclasses import dataclass

CREATION = "__init__"
"""The method that makes an actor."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What an actor's worker needs to know to make it."""

    cls: type
    concurrency: int
    is_async: bool
    groups: tuple[tuple[str, int], ...] = ()
