"""Who holds how much of this process's memory: a walk from roots, each part counted once.

Its work is limited by the number of objects it looks at, never by the clock, and it needs little
memory: large containers are sampled, and what was seen is noted in one bit for 16 bytes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from workbench.heap.process import LARGE, ProcessMemory
from workbench.heap.sizes import ATOMS, Block, own_size, parts

MOST = 1_000_000
"""Objects looked at: some seconds."""

SMALL = 512
"""Bytes up to which Python allocates an object in its arenas."""

NEGLIGIBLE = 0.01
"""An object of a sample that stands for less than this share of itself isn't looked at."""


class HeapRoot(NamedTuple):
    """Where the walk begins: a variable, a result, and so on.

    ``kind``: a key of `BAR_PARTS`. ``where`` says more for a person; ``cut`` is the statement that
    lets go of it, '' if there is none.
    """

    kind: str
    name: str
    value: Any
    where: str = ""
    cut: str = ""


@dataclass
class Holder:
    """One root, or several of the same value, and what it has, unless another has it first.

    ``nbytes`` in memory, about so many if ``is_sampled``; ``small`` of them in Python's arenas.
    ``reserved``: further bytes of arrays in which nobody has written yet. ``shares``: bytes that
    count for others, by their names. Once the survey is over, ``roots`` have no values.
    """

    roots: list[HeapRoot]
    type: str
    nbytes: int = 0
    small: int = 0
    reserved: int = 0
    is_sampled: bool = False
    shares: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        return self.roots[0].name

    @property
    def kind(self) -> str:
        return self.roots[0].kind

    @property
    def total(self) -> int:
        """Bytes that others can have once it is gone, in memory or only reserved."""
        return self.nbytes + self.reserved


class Survey(NamedTuple):
    """``holders``, the largest first, and all that is small in ``modules``, together.

    ``is_complete``: False if the walk ended early, after it had ``looked_at`` so many objects.
    """

    holders: list[Holder]
    modules: Holder
    memory: ProcessMemory
    is_complete: bool
    looked_at: int


def survey(
    roots: Iterable[HeapRoot], attributes: Iterable[HeapRoot] = (), most: int = MOST
) -> Survey:
    """Return who holds how much. What two roots share counts for the first one.

    ``attributes`` of modules are looked at last. ``most``: objects looked at.
    """
    walk, modules = _HeapWalk(most), Holder([HeapRoot("objects", "", None)], "")
    holders = walk.roots(roots) + walk.attributes(attributes, modules)
    holders.sort(key=lambda each: -each.total)
    for each in holders:
        each.roots = [root._replace(value=None) for root in each.roots]
    return Survey(holders, modules, walk.memory, walk.left > 0, most - walk.left)


class _Addresses(dict[int, bytearray]):
    """A set of addresses: a bit for each 16 bytes, as objects are close to each other."""

    def add(self, address: int) -> bool:
        """Add an address; False if it was there."""
        if (part := self.get(address >> 20)) is None:
            part = self[address >> 20] = bytearray(1 << 13)
        place, bit = address >> 7 & 0x1FFF, 1 << (address >> 4 & 7)
        is_new = not part[place] & bit
        part[place] |= bit
        return is_new


def _count_ours() -> int:
    thing = object()
    return sys.getrefcount(thing)


_OURS = _count_ours()
"""References that `sys.getrefcount` counts of a function's only variable."""


class _HeapWalk:
    def __init__(self, most: int) -> None:
        self.left = most
        self.memory = ProcessMemory()
        self._seen = _Addresses()
        self._owners: dict[int, tuple[Holder, int]] = {}  # of large parts, by address
        self._roots: dict[int, Holder] = {}  # by id of the value
        self._met: list[tuple[Holder, Holder]] = []  # who met the value of whom

    def roots(self, roots: Iterable[HeapRoot]) -> list[Holder]:
        """Return what roots hold, those of one value together."""
        for root in roots:
            new = Holder([], type(root.value).__name__)
            self._roots.setdefault(id(root.value), new).roots.append(root)
            self._seen.add(id(root.value))
        for holder in self._roots.values():
            self._walk(holder, holder.roots[0].value, False)
        for holder, other in self._met:
            holder.shares[other.name] = other.nbytes
        return list(self._roots.values())

    def attributes(self, roots: Iterable[HeapRoot], rest: Holder) -> list[Holder]:
        """Return those modules' attributes that hold much; add the others to the ``rest``."""
        found = []
        for root in roots:
            holder = Holder([root], type(root.value).__name__)
            if self.left > 0 and self._seen.add(id(root.value)):
                self._walk(holder, root.value, True)
            if holder.nbytes >= LARGE:
                found.append(holder)
            else:
                rest.nbytes += holder.nbytes
                rest.small += holder.small
        return found

    def _walk(self, holder: Holder, root: Any, deep: bool) -> None:
        begins, stack = True, [(root, 1.0)]
        while stack and self.left > 0:
            thing, weight = stack.pop()
            kind = type(thing)
            if kind is Block:
                self._add_block(holder, thing, weight)
                continue
            if weight != 1.0:
                # In a sample, each reference to an object counts for its share of it.
                weight /= max(sys.getrefcount(thing) - _OURS, 1)
                if weight < NEGLIGIBLE or id(thing) in self._roots:
                    continue
            elif not begins and not self._seen.add(id(thing)):
                self._share(id(thing), holder)
                continue
            self.left -= 1
            try:
                inside = () if kind in ATOMS else parts(thing, deep or begins)
                if inside is None:
                    continue
                self._add(holder, id(thing), own_size(thing), weight)
                for some, stands_for in inside:
                    stack.extend(zip(some, repeat(weight * stands_for)))
                    holder.is_sampled |= stands_for > 1
            except Exception:  # it changed meanwhile, or its library's code raised
                continue
            finally:
                inside, some, begins = (), (), False  # references are counted

    def _add(self, holder: Holder, address: int, nbytes: int, weight: float) -> None:
        holder.nbytes += round(nbytes * weight)
        if nbytes <= SMALL:
            holder.small += round(nbytes * weight)
        elif nbytes >= LARGE and weight == 1.0:
            self._owners[address] = holder, nbytes

    def _add_block(self, holder: Holder, block: Block, weight: float) -> None:
        address, nbytes = block
        if weight == 1.0 and not self._seen.add(address):
            self._share(address, holder)
        else:
            taken, reserved = self.memory.taken(address, nbytes)
            holder.reserved += reserved
            self._add(holder, address, taken, weight)

    def _share(self, address: int, holder: Holder) -> None:
        if (root := self._roots.get(address)) is not None:
            if root is not holder:
                self._met.append((holder, root))
            return
        owner, nbytes = self._owners.get(address, (holder, 0))
        if owner is not holder:
            holder.shares[owner.name] += nbytes
