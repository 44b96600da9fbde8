"""Finds what changed in values since `PackedValues` were opened, object by object, to send back.

`MutationTracker` looks at the objects twice: it pickles the state of each, and keeps only a digest.
A part that is tracked itself is written as a number, so that a change of one object is no change
of those that contain it. Decides nothing about variables, and prints nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from workbench.serialization.arrays import Array, Reducers
from workbench.serialization.estimate import is_by_user
from workbench.serialization.object_state import (
    FIXED,
    METHODS,
    WHOLE,
    BoundName,
    ReducedState,
    bindings,
    flat,
    has_memory,
    is_builtin,
    is_same,
    is_same_maker,
    leaves,
    object_state_of,
    travels_by_value,
)
from workbench.serialization.packing import NumberingPickler, PackedValues
from workbench.serialization.state_digest import (
    ATOM,
    OBJECT,
    REFERENCE,
    StateDigest,
    TimeIsUpError,
    WorkBudget,
)

BUDGET = 0.25
"""Seconds of work allowed for comparing all objects, and also for taking their digests before."""

SLOW = 0.1
"""Seconds of pickling from which a stored object isn't compared."""

MOST_OBJECTS = 10_000
"""Objects tracked one by one. If a variable has more, only the objects that it refers to directly
are tracked, as a whole: their parts come back as new objects."""

_BY_NAME = type | FunctionType | np.dtype


class _Seen(NamedTuple):
    """State of an object when it was examined.

    ``leaves``: what its state refers to, if that says all; else ``digest`` is the state's digest.
    ``parts``: numbers of the objects it refers to. ``is_flat``: it has only numbers, texts etc.
    """

    kind: str
    leaves: list[Any] | None
    digest: bytes
    maker: Any
    parts: frozenset[int]
    is_flat: bool = False


class Difference(NamedTuple):
    """Changes since the tracker was made.

    ``objects``: new states, by number, of objects that the other side can change in place.
    ``renewed``: by number, objects that it can't: they take the place of its own. ``variables``:
    values of variables that must be bound anew. ``numbers``: objects to write as
    numbers when these are packed. ``names``: variables through which a change can be seen.
    ``unknown``: variables not compared, or not wholly, for lack of time.
    ``unsteady``: variables that can't be compared: no two pickles of them are the same.
    ``coarse``: variables whose parts are all sent, because there are too many to track.
    """

    objects: dict[int, ReducedState]
    renewed: dict[int, Any]
    variables: dict[str, Any]
    numbers: dict[int, int]
    names: tuple[str, ...]
    unknown: tuple[str, ...]
    unsteady: tuple[str, ...]
    coarse: tuple[str, ...]
    arrays: tuple[Array, ...] = ()


NO_DIFFERENCE = Difference({}, {}, {}, {}, (), (), (), ())


class MutationTracker:
    """State of some variables' objects, to be compared with their state later.

    Parameters
    ----------
    values : mapping
        The variables.
    memo : mapping
        All numbered objects, by number: what `PackedValues.open` returns.
    reducers : mapping
        Those with which the values were packed.
    seconds : float
        Budget for taking the digests, in seconds of work (see `state_digest`), so that a busy
        machine changes nothing.
    foreign : collection of int
        Numbers of objects that the other side lacks: they are bound anew.
    slow : collection of int
        Numbers of objects known to take too long to pickle: they are not compared, unless
        that needs no pickling.
    opened : bool
        True if nobody has used the objects since they were opened from a pickle. Then unwritten
        pages of large arrays aren't read.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        memo: Mapping[int, Any],
        reducers: Reducers,
        seconds: float = BUDGET,
        foreign: Collection[int] = (),
        slow: Collection[int] = (),
        opened: bool = True,
    ) -> None:
        self._values = values
        self._memo = memo  # keeps the objects alive, so that their ids stay valid
        self._reducers = reducers
        self._foreign = frozenset(foreign)
        self._slow = frozenset(slow)
        self._opened = opened
        self._objects: dict[int, Any] = {}  # the tracked ones, by number
        self._known: dict[int, int] = {}  # number, by id
        self._bound: dict[int, dict[BoundName, Any]] = {}  # functions and classes that came along
        budget = WorkBudget(seconds)
        self._unknown: set[int] = set()
        self._coarse: set[int] = set()
        self._before = self._find(budget)
        late = {n: seen for n, seen in self._before.items() if n not in self._unknown}
        missed, broken = self._take_digests(late, budget, is_fresh=True)
        self._before |= late
        self._unknown |= missed | broken.keys()
        self._unsteady = self._never_the_same(budget) - self._unknown

    # -- which they are, and what they are --------------------------------------------------------

    def _find(self, budget: WorkBudget) -> dict[int, _Seen]:
        """Find the objects that the variables reach through other numbered objects."""
        known = self._known
        for number, obj in self._memo.items():
            kind = type(obj)
            if kind in FIXED or (kind is tuple and number >= 0):
                continue  # a packed tuple's parts have numbers themselves
            if not isinstance(obj, _BY_NAME):
                known[id(obj)] = number
            elif travels_by_value(obj):
                known[id(obj)] = number
                self._bound[number] = bindings(obj)
        self._roots = {name: set(_numbers((value,), known)) for name, value in self._values.items()}
        self._inside = {
            number: set(_numbers(bound.values(), known)) for number, bound in self._bound.items()
        }
        found: dict[int, _Seen] = {}
        half = budget.left / 2  # the rest is for objects with too many parts
        for roots in (*self._roots.values(), *self._inside.values()):
            mine: dict[int, _Seen] = {}
            queue = list(roots)
            for number in queue:  # grows meanwhile
                if number in found or number in mine or number in self._bound:
                    continue
                is_late = budget.left < half or len(found) + len(mine) > MOST_OBJECTS
                if is_late and number not in roots:
                    mine = {number: mine[number] for number in roots if number in mine}
                    self._coarse |= mine.keys()
                    break
                try:
                    if number in self._slow and not is_builtin(self._memo[number]):
                        self._unknown.add(number)
                    elif budget.left >= 0:
                        mine[number] = self._see(self._memo[number], budget)
                        queue += mine[number].parts
                except Exception:  # from the user's code
                    self._unknown.add(number)
                if budget.left < 0:  # this object, or one before it, has used it up
                    self._unknown.add(number)
            found |= mine
        self._objects = {number: self._memo[number] for number in found}
        watched = {**self._objects, **{number: self._memo[number] for number in self._bound}}
        self._numbers = {id(obj): number for number, obj in watched.items()}
        methods = {n: obj for n, obj in self._memo.items() if type(obj) in METHODS}
        self._methods = {id(obj): (number, obj.__self__) for number, obj in methods.items()}
        return found

    def _see(self, obj: Any, budget: WorkBudget, before: _Seen | None = None) -> _Seen:
        """Return an object's state; ``before`` itself if the leaves are the same."""
        state = object_state_of(obj, self._reducers)
        named = leaves(state)
        budget.spend(OBJECT + ATOM * len(named or ()))
        if before is not None and is_same(before.leaves, named):
            return before
        is_flat = named is not None and FIXED.issuperset(map(type, named))
        inside = [*flat(state.maker)] if state.kind == WHOLE else () if is_flat else named or ()
        budget.spend(REFERENCE * len(inside))
        parts = frozenset(_numbers((type(obj), *inside), self._known))  # its class is a part, too
        return _Seen(state.kind, named, b"", state.maker, parts, is_flat)

    def _take_digests(
        self, seen: dict[int, _Seen], budget: WorkBudget, is_fresh: bool = False
    ) -> tuple[set[int], dict[int, Exception]]:
        """Add digests where they are needed. Return the objects for which there was no time, and
        those with a part that can't be pickled."""
        unknown: set[int] = set()
        broken: dict[int, Exception] = {}
        digest = StateDigest(budget, self._opened, is_fresh)
        pickler: NumberingPickler | None = None
        for number, each in seen.items():
            if each.leaves is not None and (each.is_flat or self._say_all(each.leaves)):
                continue
            if pickler is None:
                pickler = NumberingPickler(digest, self._reducers, digest.add_buffer, self._numbers)
            if number in self._slow:
                unknown.add(number)
                continue
            obj = self._objects[number]
            try:
                digest.check()
                state = object_state_of(obj, self._reducers)
                pickler.root = obj if state.kind == WHOLE else None
                pickler.met = set()
                is_whole = state.kind == WHOLE
                taken = digest.digest_of(pickler, (state.parts, is_whole or state.maker))
                parts = each.parts | pickler.met
                seen[number] = each._replace(leaves=None, digest=taken, parts=parts)
            except TimeIsUpError:
                unknown.add(number)
            except Exception as error:  # a part was added that can't be pickled
                broken[number] = error
        return unknown, broken

    def _never_the_same(self, budget: WorkBudget) -> set[int]:
        """Return the objects whose state differs each time it is taken."""
        by_user = {*filter(is_by_user, {*map(type, self._objects.values())})}
        asked = [n for n, obj in self._objects.items() if type(obj) in by_user]
        return self._compare(asked, budget)[1] if asked else set()

    def _say_all(self, named: Iterable[Any]) -> bool:
        """True if none of these can change unnoticed."""
        return FIXED.issuperset(map(type, named)) or all(
            type(each) in FIXED
            or id(each) in self._numbers
            or isinstance(each, _BY_NAME)
            or (type(each) in (tuple, frozenset) and self._say_all(each))
            for each in named
        )

    def difference(self, seconds: float = BUDGET) -> Difference:
        """Return what changed; comparing may take this many seconds of work."""
        compared = [n for n in self._before if n not in self._unsteady]
        now, changed, unknown = self._compare(compared, WorkBudget(seconds))
        before = self._before
        anew = {n for n in changed if n in now and not _can_fill(before[n], now[n])}
        anew |= changed & self._foreign
        while holders := {n for n, seen in now.items() if seen.parts & anew} - changed:
            changed |= holders
            anew |= {n for n in holders if now[n].kind == WHOLE}
        rebound = self._rebound(anew)
        methods = {
            key: number
            for key, (number, of) in self._methods.items()
            if self._numbers.get(id(of)) not in anew
        }
        numbers = self._numbers | methods
        edges = [{n: seen.parts for n, seen in side.items()} for side in (before, now)]
        edges.append({n: frozenset(inside) for n, inside in self._inside.items()})
        names = [str(name) for each in rebound.values() for what, name in each if what == "global"]
        names += self._through(edges, changed | set(rebound))
        return Difference(
            {
                **{n: object_state_of(self._objects[n], self._reducers) for n in changed - anew},
                **{n: ReducedState("bindings", bound) for n, bound in rebound.items()},
            },
            {n: self._objects[n] for n in anew},
            {n: self._values[n] for n, roots in self._roots.items() if roots & anew},
            {key: n for key, n in numbers.items() if n not in anew},
            tuple(dict.fromkeys(names)),
            self._through(edges, unknown),
            self._through(edges, self._unsteady),
            tuple(n for n, roots in self._roots.items() if roots & self._coarse & changed),
            tuple(each for n, each in self._objects.items() if has_memory(each) and n not in anew),
        )

    def _compare(
        self, numbers: Iterable[int], budget: WorkBudget
    ) -> tuple[dict[int, _Seen], set[int], set[int]]:
        """Return the present state of each, those that changed, and those that weren't compared."""
        now: dict[int, _Seen] = {}
        late: dict[int, _Seen] = {}  # those that have to be pickled
        changed: set[int] = set()
        unknown = set(self._unknown)
        for number in numbers:
            before = self._before[number]
            if number in unknown:
                continue
            if budget.left < 0:
                unknown.add(number)
                continue
            try:
                each = now[number] = self._see(self._objects[number], budget, before)
            except Exception:  # from the user's code; packing will report it
                changed.add(number)
                continue
            if before.leaves is None:
                late[number] = each
            elif each is not before:
                changed.add(number)
        missed, broken = self._take_digests(late, budget)
        changed |= broken.keys()
        for number in late.keys() - missed - broken.keys():
            if (late[number].kind, late[number].digest) != (
                self._before[number].kind,
                self._before[number].digest,
            ):
                changed.add(number)
        return {**now, **late}, changed, unknown | missed

    def _rebound(self, anew: set[int]) -> dict[int, dict[BoundName, Any]]:
        """Return names of functions and classes that refer to another or a renewed object now."""
        late = {number: bindings(self._memo[number]) for number in self._bound}
        renewed = {id(self._objects[number]) for number in anew}
        return {
            number: rebound
            for number, was in self._bound.items()
            if (
                rebound := {
                    binding: part
                    for binding, part in late[number].items()
                    if was.get(binding, late) is not part or id(part) in renewed
                }
            )
        }

    def _through(
        self, edges: list[dict[int, frozenset[int]]], targets: set[int]
    ) -> tuple[str, ...]:
        """Return the variables that led, or lead, to one of the ``targets``."""
        names = []
        for name, roots in self._roots.items():
            queue, seen = set(roots), set[int]()
            while queue and not queue & targets:
                seen |= queue
                queue = {part for side in edges for n in queue for part in side.get(n, ())} - seen
            names += [name] * bool(queue)
        return tuple(names)


def _numbers(parts: Iterable[Any], known: Mapping[int, int]) -> list[int]:
    """Return the numbers of the parts, of tuples' parts, and of bound methods' objects."""
    numbers = []
    stack = [parts]
    while stack:
        each = stack.pop()
        for part in each:
            kind = type(part)
            if kind not in FIXED and (number := known.get(id(part))) is not None:
                numbers.append(number)
            elif kind is tuple or kind is frozenset:
                stack.append(part)
            elif kind in METHODS:
                stack.append((part.__self__,))
    return numbers


def _can_fill(before: _Seen, now: _Seen) -> bool:
    """True if the object can be changed in place from ``before`` to ``now``."""
    same_maker = is_same_maker(before.maker, now.maker)
    return now.kind != WHOLE and before.kind == now.kind and same_maker


@dataclass(frozen=True, slots=True)
class Mutations:
    """A `Difference` in the form that travels, with the names that a cell bound.

    The first four fields are as in `Difference`. ``packed`` holds its objects and variables, and
    the values of the names ``bound``; None if they stayed on the worker: then ``lost`` says why in
    a sentence, unless they weren't asked for. ``gone`` are names that the cell deleted; ``stayed``
    are those whose values can't be pickled, with the reasons.
    """

    names: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    coarse: tuple[str, ...] = ()
    packed: PackedValues | None = None
    lost: str = ""
    bound: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    stayed: Mapping[str, str] = field(default_factory=dict)
