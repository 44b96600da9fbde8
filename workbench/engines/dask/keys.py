"""Keys of a session's tasks and values at Dask, references to them, and what lies there. Pure."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.engines.cluster.backend import Native, StoredValue, TaskEnd

NAME = "workbench"  # of our plugins, and of the topic of Dask's events on which workers speak to us
ANSWERS = "workbench-answers"  # of the topic that drivers and tasks listen to, each told alone
INLINE = 16 << 10  # bytes of results that travel beside the end of a task: nobody fetches them

_OURS = re.compile(r"-[0-9a-f]{12}([0-9a-f]{16})$")


def key_of(session: str, name: str, id: int) -> str:
    """Return Dask's key of a task or an object: its group's name on Dask's pages, ``-``, the id."""
    prefix = re.sub(r"\W+", "_", name).strip("_")[:40] or "task"
    digest = hashlib.blake2b(session.encode(), digest_size=6).hexdigest()
    return f"{prefix}-{digest}{id:016x}"


def id_of(key: object) -> int | None:
    """Return the id of what has the key; None if the key is none of ours."""
    found = _OURS.search(key) if type(key) is str else None
    return None if found is None else int(found[1], 16)


class DaskRef:
    """A native: the key of a task or a stored value, and which of its values (0: its end). Without
    a ``hold``, somebody else keeps it."""

    def __init__(self, key: str, index: int, hold: Any = None) -> None:
        self.key, self.index, self.hold = key, index, hold

    def __reduce__(self) -> Any:
        return DaskRef, (self.key, self.index)


class DaskActor(DaskRef):
    """An actor's native: the key of its creation, its id, and the address of its Dask worker."""

    def __init__(self, key: str, actor: int, address: str, hold: Any = None) -> None:
        super().__init__(key, 0, hold)
        self.actor, self.address = actor, address

    def __reduce__(self) -> Any:
        return DaskActor, (self.key, self.actor, self.address)


Pair = tuple[DaskActor, DaskRef]  # an actor and its description: what a handle stands for


def flat(natives: Iterable[Native]) -> list[DaskRef]:
    """Return all references in these natives: an actor's is a pair."""
    return [ref for each in natives for ref in (each if type(each) is tuple else (each,))]


class TaskValues:
    """What lies under a key: a stored value, or a task's end and its results."""

    def __init__(self, end: TaskEnd | None, values: Sequence[StoredValue]) -> None:
        self.end, self.values = end, tuple(values)

    def __reduce_ex__(self, protocol: Any) -> Any:
        part: Any = pickle.PickleBuffer if protocol >= 5 else bytes
        values = [v._replace(buffers=tuple(map(part, v.buffers))) for v in self.values]
        return TaskValues, (self.end, values)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(value.nbytes for value in self.values)

    def told(self) -> bytes:
        """Return what its submitter is told at once: the results too, if they are small."""
        is_small = sum(value.nbytes for value in self.values) <= INLINE
        return pickle.dumps(self if is_small else TaskValues(self.end, ()), 5)


class TaskFailed(Exception):  # noqa: N818 - people never see it
    """What a Dask task of ours raises: its process has died. Dask may try it again; else it has
    ended ``so``."""

    def __init__(self, so: TaskValues) -> None:
        super().__init__(so)
        self.so = so

    def __repr__(self) -> str:
        return f"TaskFailed: {self.so.values[0].header.decode(errors='replace')}"
