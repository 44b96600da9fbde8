"""Settings: what code reads and sets in its process beside variables, in parts of one kind each.

The parts are in `interpreter`, `libraries`, `modules` and `seeding`; who uses them: `surroundings`.
Each task pays for comparing most of them, so an unchanged part must cost next to nothing.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from operator import call
from typing import Any, NamedTuple


class GONE:
    """Stands for a missing value. A class, because it is the same after a pickle."""


class NotLoadedError(Exception):
    """The module whose setting it is isn't loaded yet."""


State = dict[Any, Any]
"""Values of a part's settings, by their keys."""

Changed = dict[Any, tuple[Any, Any]]
"""Values of a part's settings before and after something changed them, by their keys."""


class Setting(NamedTuple):
    """Name that a person knows it by, and two functions: one reads its value, one sets it."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


def put_entry(live: State, key: Any, value: Any) -> None:
    """Set or delete (`GONE`) an entry by `dict`'s own methods: matplotlib's check each name."""
    if value is GONE:
        dict.pop(live, key, None)
    else:
        dict.__setitem__(live, key, value)


@dataclass(eq=False)
class Part:
    """Settings of one kind. Keeps no values."""

    name: str  # what a person calls them, unless each key is a name of its own
    find: Callable[[], State | None]  # returns the values; None while their library isn't loaded
    put: Callable[[State, Any, Any], object] = put_entry  # sets one of these by its key
    _: KW_ONLY
    ours: Iterable[Any] = ()  # keys that are kept if they appear
    # Returns what to restore, in case tasks change values before the first look; else its values.
    first: Callable[[], State | None] | None = None
    travels: bool = False  # a notebook's values are sent to its cells, and theirs to the notebook
    usual: Callable[[], State] = dict  # returns values that aren't sent, as each process has them
    # Sets a value that was sent, if `put` isn't right for that. Raises an error if it can't,
    # `NotLoadedError` if it will once a module is imported.
    take: Callable[[State, Any, Any], object] | None = None
    says_keys: bool = False  # the keys are what a person calls the settings
    is_told: bool = True  # else libraries set them as they are used: a person needn't hear of it

    def read_values(self) -> State | None:
        """Return a copy of the current values; None if their library isn't loaded, or only partly:
        a thread may be importing it."""
        try:
            live = self.find()
        except Exception:
            return None
        if live is None:
            return None
        items = list(dict.items(live))  # at once: other threads may add some
        return {k: copied(v) if type(v) in _COPIED else v for k, v in items}

    def differing(self, saved: State) -> tuple[State, list[Any]]:
        """Return the current values, and the keys of those that differ from the saved ones."""
        live = self.find()
        if live is None:
            return {}, []
        try:
            if dict.__eq__(live, saved):
                return live, []
        except Exception:  # arrays are in it, for example
            pass
        keys = differing(saved, dict(dict.items(live)))
        new = set(self.ours).intersection(keys).difference(saved)
        saved |= {key: live[key] for key in new}
        return live, [key for key in keys if key not in new]

    def restore(self, saved: State, but: Collection[Any] = ()) -> None:
        """Set all that differs from the saved values; not what has one of the keys in ``but``."""
        live, keys = self.differing(saved)
        for key in keys:
            if key in but:
                continue
            with suppress(Exception):  # can't be restored: a directory that is gone
                self.put(live, key, copied(saved.get(key, GONE)))

    def add(self, changed: Changed, only_unchanged: bool = False) -> list[Any]:
        """Change the current values as others were changed; ``only_unchanged``: not those that are
        others by now, unless both changes can be had. Return the keys of those that are left."""
        live = self.find()
        if live is None:
            return list(changed)
        missing: list[Any] = []
        for key, (before, after) in changed.items():
            now = live.get(key, GONE)
            if only_unchanged and type(now) not in (list, dict) and not is_equal(now, before):
                missing.append(key)
                continue
            if only_unchanged and type(now) is type(before) is type(after) is dict:
                after = after | {k: before[k] for k in differing(before, now) if k in before}
            try:
                self.put(live, key, merged(now, before, after))
            except NotLoadedError:
                missing.append(key)
            except Exception:  # can't be set: a directory that is gone
                continue
        return missing

    def words(self, keys: Iterable[Any]) -> list[str]:
        """Return what a person calls these settings."""
        found = list(map(str, keys)) if self.is_told else []
        return found if self.says_keys or not found else [self.name]


def settings(
    name: str,
    find: Callable[[], Iterable[Setting] | None],
    travels: bool = False,
    is_told: bool = True,
) -> Part:
    """Return the part of settings that functions read and set; ``find`` returns these, or None."""
    known: dict[str, Setting] = {}
    readers: dict[str, Callable[[], Any]] = {}

    def read() -> State | None:
        if not readers:
            known.update((each.name, each) for each in find() or ())
            readers.update((name, each.read) for name, each in known.items())
        return dict(zip(readers, map(call, readers.values()), strict=True)) if readers else None

    def put(live: object, key: Any, value: Any) -> None:
        known[key].write(value)

    return Part(name, read, put, travels=travels, says_keys=True, is_told=is_told)


def differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Any]:
    """Return the keys whose values differ, or that only one of the two has."""
    return [
        key for key in {**one, **other} if not is_equal(one.get(key, GONE), other.get(key, GONE))
    ]


def is_equal(one: Any, other: Any) -> bool:
    """True if two values are identical or equal. False if they can't be compared."""
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays, for example
        return False


def merged(value: Any, before: Any, after: Any) -> Any:
    """Return a value with another's changes. Of a dict or list only what was added or removed: the
    rest may be somebody else's. In a list, items added before all others stay in front, others go
    to the end."""
    if type(value) is type(before) is type(after) is dict:
        return value | {key: after[key] for key in differing(before, after) if key in after}
    if not (type(value) is type(before) is type(after) is list):
        return copied(after)
    first = next((n for n, item in enumerate(after) if item in before), len(after))
    new = [item for item in after if item not in before and item not in value]
    leading = [item for item in after[:first] if item in new]
    kept = [item for item in value if item in after or item not in before]
    return [*leading, *kept, *(item for item in new if item not in leading)]


CONTAINERS = (tuple, list, dict, set, deque, defaultdict, Counter, OrderedDict)
"""Types whose values are compared with copies. All but the first can be changed in place."""

_COPIED = frozenset(CONTAINERS)


def copied(value: Any) -> Any:
    """Return a copy of a container, as the original may change."""
    if type(value) is tuple:
        return tuple(map(copied, value))
    return copy.copy(value) if type(value) in CONTAINERS else value
