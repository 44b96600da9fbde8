"""Decides which state a class that travels by value has: the newest that this process has seen,
whatever the order in which pickles arrive.

Such a class is pickled with each of its instances, but is one class in each process. So an object
stored before the class was changed brings the old state, and must not change the class back.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import FunctionType, MemberDescriptorType, resolve_bases
from typing import Any, NamedTuple

from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_ID, _class_setstate

Origin = tuple[int, int]
"""The process that made something (`OWN`, or its prefix), and a serial number there."""

OWN = 0
"""This process, in an origin. No prefix is 0."""

_EARLIER = -1
"""This process at an earlier time, as `submitter`: its states apply."""


class _Building(threading.local):
    """What this thread is unpickling: ``origin`` is where the pickle is from, if known.

    ``submitter``: the process for which a task runs here. ``met``: collects states of classes
    that exist here already, if `classes_met` is active.
    """

    origin: Origin | None = None
    submitter = OWN
    met: list[tuple[type, Any]] | None = None


building = _Building()


class _Held(NamedTuple):
    """A class that came in a pickle: where its state is from, and which attributes it had."""

    origin: Origin | None
    names: frozenset[str]


_held: weakref.WeakKeyDictionary[type, _Held | None] = weakref.WeakKeyDictionary()
"""None: the class was made here. One per process, like cloudpickle's table of classes."""

_UNKNOWN = _Held(None, frozenset())


def note_own(cls: type) -> None:
    """Note that a class is pickled: unless it came in a pickle, it was made here.

    If it came in a pickle of this process's own, later ones have nothing newer either.
    """
    held = _held.setdefault(cls, None)
    if held is not None and held.origin is not None and held.origin[0] == OWN:
        _held[cls] = held._replace(origin=(OWN, sys.maxsize))


def _known_or_made(make: Callable[..., type], *arguments: Any) -> type:
    """Return the class that a pickle describes. It is made only if this process doesn't have it:
    `__init_subclass__` and metaclasses note each class that is made."""
    known: type | None = _DYNAMIC_CLASS_TRACKER_BY_ID.get(arguments[-2])
    if known is None:
        return make(*arguments)
    bases = resolve_bases(arguments[2])
    if building.submitter == _EARLIER and known.__bases__ != bases:
        with contextlib.suppress(TypeError):  # `NamedTuple` is no base: it makes a tuple
            known.__bases__ = bases
    return known


def set_class_state(cls: type, state: Any) -> type:
    """Fill a class that came in a pickle, as cloudpickle does, but not with an outdated state.

    Classes of this process stay as they are, unless it is a worker and a task's submitter sends
    them. cloudpickle would reset their attributes to those at the time of pickling, and replace
    their methods by copies that don't see this process's globals.
    """
    is_new, held = cls not in _held, _held.setdefault(cls, _UNKNOWN)
    if building.met is not None and not is_new:
        building.met.append((cls, state))
        return cls
    if building.submitter == _EARLIER:
        held, _held[cls] = _Held(None, frozenset(_attributes(cls))), None
        return _filled(cls, state, held)
    origin = building.origin
    if held is None:  # made here, perhaps by an earlier cell of the notebook that now sends it
        if building.submitter == OWN or (origin is not None and origin[0] != building.submitter):
            return cls
        held = _UNKNOWN
    elif not is_new and _is_older(origin, held.origin):
        return cls
    _held[cls] = _Held(origin or held.origin, frozenset(state[0]))
    return _filled(cls, state, held)


def _filled(cls: type, state: Any, held: _Held) -> type:
    for name in held.names.difference(state[0]):  # it was deleted in the process that made it
        with contextlib.suppress(AttributeError, TypeError):
            delattr(cls, name)
    if isinstance(cls, ABCMeta) and building.submitter == _EARLIER:
        cls._abc_registry_clear()  # type: ignore[attr-defined]
        for each in cls.__mro__:  # these have noted instances of what was registered
            getattr(each, "_abc_caches_clear", bool)()
    members: Mapping[str, Any] = getattr(cls, "__members__", {})
    for name, attributes in state[1].items():
        members[name].__dict__ = {"_value_": members[name].value, **attributes}
    return _class_setstate(cls, state)  # type: ignore[no-any-return]


def add_members(cls: type[Enum], arguments: Any, attributes: Any, members: Any) -> None:
    """Add what cloudpickle forgets of an enum: names that are another member's, and attributes."""
    for name, member in cls.__members__.items():
        attributes.pop(name, None)
        arguments[3][name] = member.value
        members[name] = {n: v for n, v in vars(member).items() if n != "_value_"}


def _attributes(cls: type) -> Iterator[str]:
    """Yield the attributes that its state would have: not its slots, nor Python's own except for
    methods, nor what an enum is made with."""
    for name, value in vars(cls).items():
        is_pythons = name.startswith("__") and type(value) is not FunctionType
        is_own = is_pythons or name == "_abc_impl"
        if issubclass(cls, Enum):
            is_own |= name.startswith("_") or name in cls.__members__
        if not is_own and not isinstance(value, MemberDescriptorType):
            yield name


def _is_older(origin: Origin | None, held: Origin | None) -> bool:
    """True if a state from ``origin`` must not replace the class's state from ``held``.

    Between processes, own pickles are never newer, and the running task's submitter is up to date.
    """
    if origin is None:
        return False
    if held is None or origin[0] != held[0]:
        return origin[0] == OWN or (held is not None and held[0] == building.submitter)
    return origin[1] <= held[1]  # the same object again: its class may have changed since


@contextlib.contextmanager
def earlier_states() -> Iterator[None]:
    """Give classes that this thread unpickles the states in the pickles, though these are older."""
    before, building.submitter = building.submitter, _EARLIER
    try:
        yield
    finally:
        building.submitter = before


@contextlib.contextmanager
def classes_met() -> Iterator[list[tuple[type, Any]]]:
    """Collect class states that this thread unpickles for existing classes; change none."""
    before, building.met = building.met, []
    try:
        yield building.met
    finally:
        building.met = before
