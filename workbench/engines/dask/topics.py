"""What our messages over Dask are called: topics of its events, and keys. Pure."""

from __future__ import annotations

import hashlib
import re

PREFIX = "workbench-"

PUT = "put"
"""With this begin keys of what was stored by `put`, and not made by a task."""


def topic(session: str, audience: int) -> str:
    """The topic to which the scheduler sends what is for one driver."""
    return f"{PREFIX}{session}-{audience:x}"


def key_of(session: str, name: str, id: int) -> str:
    """Dask's key of a task or an object. What stands before the last ``-`` is its group's name
    on Dask's pages; the end is the id."""
    prefix = re.sub(r"\W+", "_", name).strip("_")[:40] or "task"
    digest = hashlib.blake2b(session.encode(), digest_size=6).hexdigest()
    return f"{prefix}-{digest}{id:016x}"


def item_key(stream: str, number: int) -> str:
    """Of an item of the stream that has the key."""
    return f"{stream}{_ITEM}{number}"


def number_of(item: str) -> int:
    """Which item of its stream has the key: 1 is the first."""
    return int(item.rpartition(_ITEM)[2])


def id_of(key: object) -> int | None:
    """The id of what has the key; None if that is none of ours."""
    found = _OURS.search(key) if type(key) is str else None
    return None if found is None else int(found[1], 16)


_ITEM = "-item-"
_OURS = re.compile(r"-[0-9a-f]{12}([0-9a-f]{16})$")
