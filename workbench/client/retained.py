"""What memory ends with some references: objects that nothing else refers to, and their sizes.

References are counted as the garbage collector counts them: an object whose references all come
from inside is gone once nothing outside refers to any of them. Finds no names: that is
`client.referrer_search`'s.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from workbench.client.collector import LEAVES
from workbench.client.reference_graph import ALL, referents
from workbench.heap.process import ProcessMemory
from workbench.heap.sizes import Block, blocks, is_apart, own_size
from workbench.serialization.arrays import address

MOST, MOST_LEAVES = 500_000, 100_000
"""Most objects that are noted, and numbers and texts: of more of these, a sample stands for all."""

MIX = 0x9E3779B97F4A7C15  # 2**64 by the golden ratio: spreads addresses

LARGE = 1 << 16
"""Bytes from which on a text counts by itself."""


class Retained:
    """The objects that can be reached from some, with the references that each has from elsewhere.

    ``ours``: references that the caller has, by id. ``arrow``: the memory of all Arrow objects,
    by id: C++ counts who has them. ``stay``: ids of what isn't looked into, as modules' namespaces.
    Keeps the objects, so that no id is used again.
    """

    def __init__(
        self,
        begin: Iterable[Any],
        ours: Mapping[int, int],
        arrow: Mapping[int, list[Block]],
        stay: Container[int],
    ) -> None:
        self.things: dict[int, Any] = {}
        self._inside: dict[int, list[int]] = {}  # what each refers to
        self._every = 1  # the sample has one of so many leaves
        self._leaves: set[int] = set()
        self._stay = stay
        self.complete = True
        inner = Counter[int]()
        self._walk([*begin], inner)
        probe = object()
        self.things[id(probe)], number = probe, id(probe)
        del probe
        counts = dict(zip(self.things, map(sys.getrefcount, self.things.values()), strict=True))
        none = counts.pop(number)
        del self.things[number]
        self._outside = {n: count - none - inner[n] - ours.get(n, 0) for n, count in counts.items()}
        self._memory = ProcessMemory()
        arrays = {n: each for n, each in self.things.items() if isinstance(each, np.ndarray)}
        views = {n for n, each in arrays.items() if isinstance(each.base, np.ndarray)}
        shown = {n: blocks(each) for n, each in self.things.items() if n not in views}
        self._blocks = {n: found for n, found in shown.items() if found}
        apart = [found for number, found in arrow.items() if number not in self.things]
        self._apart = {block.address for found in apart for block in found}
        # Arrow may refer to these: they count with it, though C++ keeps them.
        self._own = {address(each) for each in arrays.values() if each.flags.owndata}

    def _walk(self, todo: list[Any], inner: Counter[int]) -> None:
        self.things.update((id(each), each) for each in todo)
        while todo:
            inside = _referents(todo[-1])
            kept = self._inside[id(todo.pop())] = []
            self._limit(len(inside))
            for child in self._sampled(inside):
                if child is None:
                    continue
                number = id(child)
                if type(child) in LEAVES:
                    self._leaves.add(number)
                elif number not in self.things:
                    if number in self._stay or is_apart(type(child)):
                        continue
                    if len(self.things) >= MOST:
                        self.complete = False
                        continue
                    todo.append(child)
                self.things[number] = child
                kept.append(number)
            inner.update(kept)

    def _limit(self, more: int) -> None:
        """Make the sample smaller if there may be too many leaves with ``more``."""
        before = self._every
        while len(self._leaves) + more > MOST_LEAVES * (self._every // before):
            self._every *= 2
        if self._every > before:
            left = self._sampled([self.things[number] for number in self._leaves])
            for number in self._leaves - set(map(id, left)):
                self._leaves.discard(number)
                del self.things[number]

    def _sampled(self, inside: list[Any]) -> list[Any]:
        """Leave out leaves that aren't in the sample.

        They are chosen by their address: of a leaf, all references are in the sample, or none.
        """
        if self._every == 1:
            return inside
        others = self._every - 1
        return [e for e in inside if id(e) * MIX >> 40 & others == 0 or _is_whole(e)]

    def dead(self, ends: Mapping[int, int]) -> tuple[int, dict[int, int]]:
        """Return the bytes that end with these references (by child, how many), and what stays.

        That is, by id: the object that something outside refers to, and that leads to it.
        """
        stays: dict[int, int] = {}
        begin = [n for n, outside in self._outside.items() if outside > ends.get(n, 0)]
        for first in sorted(begin, key=lambda n: n in self._leaves):
            todo = [first]
            while todo:
                number = todo.pop()
                if number not in stays and ends.get(number, 0) < ALL:
                    stays[number] = first
                    todo += [each for each in self._inside.get(number, ()) if each in self.things]
        gone = self.things.keys() - stays.keys()
        used = self._apart.union(block.address for block in self._shown(stays))
        return self._size(gone, used - self._own), stays

    def shared(self, stays: Mapping[int, int]) -> Counter[int]:
        """Return the bytes that lead from each object that stays, each counted for one of them."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, first in stays.items():
            found[first].append(number)
        return Counter({first: self._size(each, set()) for first, each in found.items()})

    def _size(self, numbers: Iterable[int], but: set[int]) -> int:
        total = 0
        for number in numbers:
            thing = self.things[number]
            is_sample = number in self._leaves and not _is_whole(thing)
            total += own_size(thing) * (self._every if is_sample else 1)
        shown = {block for block in self._shown(numbers) if block.address not in but}
        return total + sum(self._memory.taken(*block)[0] for block in shown)

    def _shown(self, numbers: Iterable[int]) -> Iterator[Block]:
        return (block for number in numbers for block in self._blocks.get(number, ()))


def _referents(thing: Any) -> list[Any]:
    if isinstance(thing, np.ndarray) and isinstance(thing.base, np.ndarray):
        return [thing.base]  # a view has no references to the items
    is_array = isinstance(thing, np.ndarray | np.flatiter)
    return referents(thing) if is_array else gc.get_referents(thing)


def _is_whole(thing: Any) -> bool:
    """True of what no sample stands for."""
    return type(thing) not in LEAVES or sys.getsizeof(thing) >= LARGE
