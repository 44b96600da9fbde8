"""Which state a class has that travels by value: the newest that this process has seen of it,
whatever the order in which pickles arrive.

A class is pickled with each thing that has it, and is one class in each process. So an object that
was stored before the class was changed brings the old state, and mustn't change the class back.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from cloudpickle.cloudpickle import _class_setstate

Origin = tuple[int, int]
"""Which process made something, and its number among all that this one made."""


class _Building(threading.local):
    """What this thread builds of a pickle: where that is from, if that is known.

    ``submitter``: the process for which a task runs here. ``met``: states that came of classes of
    this process, if somebody asks.
    """

    origin: Origin | None = None
    submitter = 0
    met: list[tuple[type, Any]] | None = None


building = _Building()


class _Held(NamedTuple):
    """Of a class of another process: where its state is from, and the attributes in that."""

    origin: Origin | None
    names: frozenset[str]


_held: weakref.WeakKeyDictionary[type, _Held | None] = weakref.WeakKeyDictionary()
"""None: it was made here. One for the process, as cloudpickle's table of such classes is."""

_UNKNOWN = _Held(None, frozenset())


def note_own(cls: type) -> None:
    """A class is pickled: unless it came in a pickle, it was made here."""
    _held.setdefault(cls, None)


def set_class_state(cls: type, state: Any) -> type:
    """Fill a class that came in a pickle: cloudpickle's way, but not with what is out of date.

    Classes of this process are what they are now. cloudpickle would set their attributes back to
    what they were when the pickle was made, and put copies in place of their methods, which don't
    see this process's globals any more.
    """
    held = _held.setdefault(cls, _UNKNOWN)
    if held is None:
        if building.met is not None:
            building.met.append((cls, state))
        return cls
    origin = building.origin
    if _is_older(origin, held.origin):
        return cls
    names = frozenset(state[0])
    _held[cls] = _Held(origin or held.origin, names)
    for name in held.names - names:  # it was deleted where the class is from
        with contextlib.suppress(AttributeError, TypeError):
            delattr(cls, name)
    return _class_setstate(cls, state)  # type: ignore[no-any-return]


def _is_older(origin: Origin | None, held: Origin | None) -> bool:
    """Of two processes' only the one for which a task runs is known to be up to date."""
    if origin is None or held is None:
        return False
    if origin[0] == held[0]:
        return origin[1] < held[1]
    return held[0] == building.submitter


@contextlib.contextmanager
def classes_met() -> Iterator[list[tuple[type, Any]]]:
    """The states that come meanwhile, in this thread, of classes of this process."""
    before, building.met = building.met, []
    try:
        yield building.met
    finally:
        building.met = before
