"""What is noted of what was sent to a cluster: functions, and tasks that aren't over."""

from __future__ import annotations

from typing import NamedTuple

from workbench.client.function_cache import Export
from workbench.ref import ObjectRef


class Sent(NamedTuple):
    """A function as it was sent: in each head, or (no ``code``) as an object of its own."""

    id: int
    code: bytes
    ref: ObjectRef | None
    export: Export


class RunningTask(NamedTuple):
    """A task of ours that isn't over. ``ids`` are its results', ``parent`` submitted it; it
    ``needs`` those objects."""

    task: int
    name: str
    origin: int
    job: int
    ids: tuple[int, ...]
    actor: int
    parent: int
    needs: tuple[int, ...] = ()
