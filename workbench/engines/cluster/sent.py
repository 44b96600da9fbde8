"""What is noted of what was sent to a cluster: functions, and tasks that aren't over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from workbench.client.function_cache import Export
from workbench.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Sent:
    """A function as it was sent: in each head, or (no ``code``) as an object of its own."""

    id: int
    code: bytes
    ref: ObjectRef | None
    export: Export

    is_a_functions: ClassVar[bool] = True  # see `client.references.is_ours`


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
