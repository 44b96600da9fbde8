"""What changed of values since `PackedValues` were opened, object by object, to be sent back.

`MutationTracker` looks at the objects twice: the state of each is pickled, and only its digest is
kept. A part that is tracked itself is a number there, so that the change of one object is no change
of those that have it. Decides nothing about variables, and says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pickle import PickleBuffer
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import xxhash

from workbench.serialization.arrays import Reducers, out_of_band
from workbench.serialization.object_state import (
    FIXED,
    WHOLE,
    BoundName,
    ReducedState,
    bindings,
    parts_of,
    state_of,
    travels_by_value,
)
from workbench.serialization.packing import NumberingPickler, PackedValues
from workbench.serialization.pickler import Pickler

MOST_OBJECTS = 10_000
"""Objects tracked one by one. Of a variable that has more, those that it names itself are taken
whole: their parts come back as new objects."""

_BY_NAME = type | FunctionType | np.dtype

PIECE = 16 << 20
"""Bytes of an array after which it is looked whether there is time for more."""

MANY = 100
"""Parts of a container from which it is worth a look whether all of them are numbers and texts."""


class _Seen(NamedTuple):
    """An object as it was when somebody looked. ``parts``: numbers of those it has."""

    kind: str
    digest: bytes
    maker: bytes
    parts: frozenset[int]


class _TimeIsUpError(Exception):
    """Looking has taken all the time there was for it."""


@dataclass(slots=True)
class Difference:
    """What is not as it was.

    ``objects``: what each consists of now that can be changed in place where it came from, by its
    number. ``variables``: values of those that have to be bound anew. ``numbers``: what to write as
    a number when these are packed. ``names``: the variables through which any of it can be seen.
    ``unknown``: those not compared, or not wholly, because it would have taken too long.
    """

    objects: dict[int, ReducedState] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class MutationTracker:
    """The objects of some variables as they are now, to be compared with what they are later.

    Parameters
    ----------
    values : mapping
        The variables.
    memo : mapping
        All objects that have a number, by it: what `PackedValues.open` gives.
    reducers : mapping
        As the values were packed with.
    seconds : float
        How long the look at them may take.
    """

    def __init__(
        self, values: Mapping[str, Any], memo: Mapping[int, Any], reducers: Reducers, seconds: float
    ) -> None:
        self._values = values
        self._memo = memo  # keeps them alive: they are known by their ids
        self._reducers = reducers
        self._objects: dict[int, Any] = {}  # those watched, by number
        self._bound: dict[int, dict[BoundName, Any]] = {  # functions and classes that came along
            number: bindings(obj) for number, obj in memo.items() if travels_by_value(obj)
        }
        found = self._find()
        watched = {**self._objects, **{number: memo[number] for number in self._bound}}
        self._numbers = {id(obj): number for number, obj in watched.items()}
        self._before, self._unknown, broken = self._look(seconds, found)
        self._unknown |= set(broken)

    # -- which they are ---------------------------------------------------------------------------

    def _find(self) -> dict[int, ReducedState]:
        """Those that the variables lead to, through others that have a number; their contents."""
        known = {
            id(obj): number
            for number, obj in self._memo.items()
            if number in self._bound or not (type(obj) in FIXED or isinstance(obj, _BY_NAME))
        }
        found: dict[int, ReducedState] = {}
        self._roots = {name: set(_numbers((value,), known)) for name, value in self._values.items()}
        self._inside = {
            number: set(_numbers(bound.values(), known)) for number, bound in self._bound.items()
        }
        for roots in (*self._roots.values(), *self._inside.values()):
            mine: dict[int, ReducedState] = {}
            queue = list(roots)
            for number in queue:  # grows meanwhile
                if number in found or number in mine or number in self._bound:
                    continue
                try:
                    mine[number] = state_of(self._memo[number], self._reducers)
                except Exception:  # of code of the user's
                    continue
                if len(found) + len(mine) > MOST_OBJECTS:
                    mine = {number: mine[number] for number in roots if number in mine}
                    break
                queue += _numbers(parts_of(mine[number]), known)
            found |= mine
        self._objects = {number: self._memo[number] for number in found}
        return found

    # -- what they are ----------------------------------------------------------------------------

    def _look(
        self, seconds: float, found: Mapping[int, ReducedState]
    ) -> tuple[dict[int, _Seen], set[int], dict[int, Exception]]:
        """Each as it is now; those for which there was no time; those that can't be pickled."""
        seen: dict[int, _Seen] = {}
        unknown: set[int] = set()
        broken: dict[int, Exception] = {}
        digest = _StateDigest(time.perf_counter() + seconds)
        pickler = NumberingPickler(digest, self._reducers, digest.add_buffer, self._numbers)
        plain = Pickler(digest, self._reducers, digest.add_buffer)  # does without being asked
        for number, obj in self._objects.items():
            try:
                digest.check()
                now = found.get(number) or state_of(obj, self._reducers)
                pickler.root = obj if now.kind == WHOLE else None
                pickler.met = set()
                parts = digest.of(plain if _is_flat(now) else pickler, now.parts)
                maker = b"" if now.maker is None else digest.of(pickler, now.maker)
                seen[number] = _Seen(now.kind, parts, maker, frozenset(pickler.met))
            except _TimeIsUpError:
                unknown.add(number)
            except Exception as error:  # now there is something in it that doesn't travel
                broken[number] = error
        return seen, unknown, broken

    def difference(self, seconds: float) -> Difference:
        """What is not as it was; looking may take so many seconds."""
        now, unknown, broken = self._look(seconds, {})
        unknown |= self._unknown
        before = self._before
        changed = broken.keys() - unknown
        changed |= {n for n, seen in now.items() if n not in unknown and seen[:3] != before[n][:3]}
        anew = {n for n in changed if n in now and not _can_fill(before[n], now[n])}
        while holders := {n for n, seen in now.items() if seen.parts & anew} - changed:
            changed |= holders
            anew |= {n for n in holders if now[n].kind == WHOLE}
        rebound = self._rebound(anew)
        edges = [{n: seen.parts for n, seen in side.items()} for side in (before, now)]
        edges.append({n: frozenset(inside) for n, inside in self._inside.items()})
        names = [str(name) for each in rebound.values() for what, name in each if what == "global"]
        names += [n for n in self._values if self._leads(n, edges, changed | set(rebound))]
        return Difference(
            {
                **{n: state_of(self._objects[n], self._reducers) for n in changed - anew},
                **{n: ReducedState("bindings", bound) for n, bound in rebound.items()},
            },
            {n: self._values[n] for n, roots in self._roots.items() if roots & anew},
            {key: n for key, n in self._numbers.items() if n not in anew},
            tuple(dict.fromkeys(names)),
            tuple(n for n in self._values if self._leads(n, edges, unknown)),
        )

    def _rebound(self, anew: set[int]) -> dict[int, dict[BoundName, Any]]:
        """Of functions and classes, the names that mean another object now, or one to be made."""
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

    def _leads(self, name: str, edges: list[dict[int, frozenset[int]]], targets: set[int]) -> bool:
        """Whether the variable led, or leads, to one of those."""
        queue, seen = set(self._roots[name]), set[int]()
        while queue:
            if queue & targets:
                return True
            seen |= queue
            queue = {part for side in edges for n in queue for part in side.get(n, ())} - seen
        return False


class _StateDigest:
    """The file that pickles are written to, of which nothing is kept but a digest."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._hash = xxhash.xxh3_128()

    def check(self) -> None:
        if time.perf_counter() > self._until:
            raise _TimeIsUpError

    def of(self, pickler: Pickler, value: Any) -> bytes:
        """The digest of a value. The pickler knows nothing of those before."""
        self._hash.reset()
        pickler.clear_memo()
        pickler.dump(value)
        return self._hash.digest()

    def write(self, data: Any, /) -> None:
        self._hash.update(data)
        self.check()

    def add_buffer(self, buffer: PickleBuffer) -> None:
        array = out_of_band(buffer)
        for part in _in_pieces(np.ascontiguousarray(array)):
            self.write(part)


def _in_pieces(array: Any) -> Iterator[Any]:
    if array.nbytes:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.nbytes, PIECE):
            yield flat[start : start + PIECE]


def _numbers(parts: Iterable[Any], known: Mapping[int, int]) -> list[int]:
    """The numbers of the parts that have one, and of tuples' parts."""
    numbers = []
    stack = [parts]
    while stack:
        each = stack.pop()
        if type(each) is list and len(each) > MANY and _are_fixed(each):
            continue
        for part in each:
            kind = type(part)
            if kind is tuple or kind is frozenset:
                stack.append(part)
            elif kind not in FIXED and (number := known.get(id(part))) is not None:
                numbers.append(number)
    return numbers


def _are_fixed(parts: Iterable[Any]) -> bool:
    return FIXED.issuperset(map(type, parts))


def _is_flat(now: ReducedState) -> bool:
    """Whether it is a large container of nothing but numbers, texts and the like."""
    parts = now.parts
    if now.kind in ("list", "set"):
        return len(parts) > MANY and _are_fixed(parts)
    if now.kind == "dict":
        return len(parts) > MANY and _are_fixed(parts) and _are_fixed(parts.values())
    return False


def _can_fill(before: _Seen, now: _Seen) -> bool:
    """Whether the object that was so can be made so in place."""
    return now.kind != WHOLE and (before.kind, before.maker) == (now.kind, now.maker)


@dataclass(frozen=True, slots=True)
class Mutations:
    """A `Difference` as it travels.

    ``packed`` has its objects and variables; None if they stayed: ``lost`` says why, in a sentence,
    unless they weren't asked for.
    """

    names: tuple[str, ...]
    unknown: tuple[str, ...]
    packed: PackedValues | None = None
    lost: str = ""
