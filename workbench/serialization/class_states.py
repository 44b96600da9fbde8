"""Which state a class has that travels by value: the newest that this process has seen of it,
whatever the order in which pickles arrive.

A class is pickled with each thing that has it, and is one class in each process. So an object that
was stored before the class was changed brings the old state, and mustn't change the class back.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from cloudpickle.cloudpickle import _class_setstate

Origin = tuple[int, int]
"""Which process made something (`OWN`, or its prefix), and its number among what that made."""

OWN = 0
"""This process, in an origin. No prefix is 0."""


class _Building(threading.local):
    """What this thread builds of a pickle: where that is from, if that is known.

    ``submitter``: the process for which a task runs here. ``met``: states that came of classes
    that are here, if somebody asks.
    """

    origin: Origin | None = None
    submitter = OWN
    met: list[tuple[type, Any]] | None = None


building = _Building()


class _Held(NamedTuple):
    """Of a class that came in a pickle: where its state is from, and the attributes in that."""

    origin: Origin | None
    names: frozenset[str]


_held: weakref.WeakKeyDictionary[type, _Held | None] = weakref.WeakKeyDictionary()
"""None: it was made here. One for the process, as cloudpickle's table of such classes is."""

_UNKNOWN = _Held(None, frozenset())


def note_own(cls: type) -> None:
    """A class is pickled: unless it came in a pickle, it was made here.

    If it came in a pickle of this process's own, those that follow have nothing newer either.
    """
    held = _held.setdefault(cls, None)
    if held is not None and held.origin is not None and held.origin[0] == OWN:
        _held[cls] = held._replace(origin=(OWN, sys.maxsize))


def set_class_state(cls: type, state: Any) -> type:
    """Fill a class that came in a pickle: cloudpickle's way, but not with what is out of date.

    Classes of this process are what they are now. cloudpickle would set their attributes back to
    what they were when the pickle was made, and put copies in place of their methods, which don't
    see this process's globals any more.
    """
    is_new, held = cls not in _held, _held.setdefault(cls, _UNKNOWN)
    if building.met is not None and not is_new:
        building.met.append((cls, state))
        return cls
    origin = building.origin
    if held is None or (not is_new and _is_older(origin, held.origin)):
        return cls
    names = frozenset(state[0])
    _held[cls] = _Held(origin or held.origin, names)
    for name in held.names - names:  # it was deleted where the class is from
        with contextlib.suppress(AttributeError, TypeError):
            delattr(cls, name)
    return _class_setstate(cls, state)  # type: ignore[no-any-return]


def _is_older(origin: Origin | None, held: Origin | None) -> bool:
    """Of two processes' only the one for which a task runs is known to be up to date.

    What this process has stored itself has nothing that the class here hadn't then.
    """
    if origin is None:
        return False
    if held is None or origin[0] != held[0]:
        return origin[0] == OWN or (held is not None and held[0] == building.submitter)
    return origin[1] <= held[1]  # the same object again: the class may have been changed since


@contextlib.contextmanager
def classes_met() -> Iterator[list[tuple[type, Any]]]:
    """The states that come meanwhile, in this thread, of classes that are here: none is changed."""
    before, building.met = building.met, []
    try:
        yield building.met
    finally:
        building.met = before
