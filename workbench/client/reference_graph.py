"""The references that lead to an object: the names of things there, and which have to go.

`client.referrer_search` finds them and fills the graph. Pure: no search here.
"""

from __future__ import annotations

import gc
import re
import sys
import types
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from workbench.client.collector import referents_of
from workbench.client.reference_code import runs, span, statement, typed
from workbench.client.references import Reference, attributes_of, is_persons
from workbench.core.events import Place
from workbench.heap.roots import is_output, locals_of

MOST_PLACES = 20
"""Most places reported of one object."""

_MODES = ("attributes", "forced attributes", "threads", "f_locals", "fixed")
_RANK = {"variable": 0, "output": 1, "stored": 1, "cell": 1, "module": 2, "runs": 3}
_NOT_HERE = ("runs", "cell")
_ALONE = ("task", "thread", "call", "figure", "loaded", "small")
_ENDS = (*_ALONE, "widget", "context")
_HOW = {"frame": "error", "close": "suspended"}


class Name(NamedTuple):
    """Expression for a thing. ``mode``: the thing isn't at ``path`` itself but is e.g. its dict of
    attributes; ``private``: attributes that begin with an underscore belong to a library.

    A root's, where a search ends: a variable, or something else with a name of its own, has the
    whole code that lets go of it in ``cut``; ``coarse``: a library's variable, not to be deleted.
    """

    path: str
    keeper: str = "variable"  # see `core.events.Place`
    where: str = ""
    before: str = ""  # code to run first, e.g. an import
    mode: str = ""
    private: bool = False
    cut: str = ""
    coarse: bool = False


ALL = sys.maxsize


class FoundPlace(NamedTuple):
    """A place, and the references that end if it lets go: by child, how many; `ALL` if that itself
    ends, like a thread."""

    place: Place
    ends: Counter[int]


class ReferenceGraph:
    """Known references that lead to the ``targets`` (by kind), by ids.

    A reference can be emptied if its holder has a name and can let go of it. If it can't, as in a
    tuple or inside a library, all references to the holder have to go instead. Nodes are kept, so
    that no id is used again.
    """

    def __init__(self, targets: dict[str, int]) -> None:
        self.targets = targets
        self.nodes: dict[int, Any] = {}
        self.holders: dict[int, dict[tuple[int, Reference], None]] = defaultdict(dict)  # by child
        self.children: dict[int, dict[Reference, None]] = defaultdict(dict)  # by holder
        self.roots: dict[int, dict[Name, None]] = defaultdict(dict)
        self.ours = Counter[int]()  # references that the session itself has, by child
        self.emptied: set[int] = set()  # holders that can let go, of the places that were found
        self.copies: set[int] = set()  # each has one holder: it is kept as long as that lives

    def add(self, holder: Any, reference: Reference) -> None:
        """Add ``holder``'s reference to a target or to a known holder."""
        self.nodes[id(holder)] = holder
        self.holders[reference.child][id(holder), reference] = None
        self.children[id(holder)][reference] = None

    def _roots(self, number: int) -> list[Name]:
        """Return the roots that count: if one is a task, thread or figure, only such ones."""
        found = list(self.roots.get(number, ()))
        return [root for root in found if root.keeper in _ALONE] or found

    def _holders(self, number: int) -> Iterable[tuple[int, Reference]]:
        """Return the holders that count: none of a task, thread or figure."""
        alone = any(root.keeper in _ALONE for root in self.roots.get(number, ()))
        return () if alone else self.holders.get(number, ())

    def missing(self) -> set[int]:
        """Return what has to go, as far as known: the search must find all holders of these."""
        return set().union(*(self.resolve(each, False)[1] for each in self.targets.values()))

    # -- names, and what has to go ----------------------------------------------------------------

    def resolve(self, target: int, lenient: bool) -> tuple[dict[int, Name], set[int]]:
        """Return the names of things that can let go, and ids to which all references must go."""
        need = {target}
        while True:
            names = self._names(need, lenient)
            more = {
                holder
                for child in need
                for holder, reference in self._holders(child)
                if holder not in need
                and not (holder in names and self._joined(names[holder], reference, lenient)[1])
            }
            if not more:
                return names, need
            need |= more

    def _names(self, need: set[int], lenient: bool) -> dict[int, Name]:
        """Return names by shortest path, plainest roots first; none leads through ``need``."""
        names: dict[int, Name] = {}
        roots = [
            (_RANK.get(root.keeper, 9), number, root)
            for number in self.roots
            if number not in need
            for root in self._roots(number)
        ]
        queue = deque((number, name) for _, number, name in sorted(roots, key=lambda each: each[0]))
        while queue:
            number, name = queue.popleft()
            if number in names or number in need:
                continue
            names[number] = name
            for reference in self.children.get(number, ()):
                child = self._joined(name, reference, lenient)[0]
                if child is not None:
                    queue.append((reference.child, child))
        return names

    def _joined(
        self, name: Name, reference: Reference, lenient: bool
    ) -> tuple[Name | None, str, Any, str]:
        """Return (child's name, how the holder lets go of it, the slot's key, holder's path)."""
        if name.keeper in _ENDS:
            return None, "", None, ""
        path, cut, key = typed(reference.step, name.path), reference.cut, reference.key
        private, of = reference.private, name.path
        if cut in _MODES:
            keeper = "local" if cut == "threads" else name.keeper
            private = private and not lenient
            return name._replace(path=path, mode=cut, private=private, keeper=keeper), "", None, ""
        if not reference.step:
            return None, cut, key, of
        if name.mode == "threads":  # dicts by thread
            return name._replace(mode="attributes", private=False), "", None, ""
        if name.mode == "fixed":  # the arguments of a function, which needs them
            cut = ""
        if name.mode == "f_locals":
            return name._replace(path=f"{of}.f_locals[{key!r}]", mode=""), "frame", key, of
        if name.mode in ("attributes", "forced attributes"):
            if not (isinstance(key, str) and key.isidentifier()):
                of = f"vars({of})"
                path = typed(reference.step, of)
            else:
                path, cut = f"{of}.{key}", name.mode.removesuffix("s")
                private = name.private and key.startswith("_") and not is_output(key)
        if private and not lenient:
            return None, "", None, ""
        return name._replace(path=path, mode="", private=False), cut, key, of

    # -- the answer -------------------------------------------------------------------------------

    def places(self, complete: bool) -> tuple[FoundPlace, ...]:
        """Return where the targets are held: by names found strictly, else leniently. What has no
        name is reported only if the search is ``complete``."""
        found: list[FoundPlace] = []
        for kind, target in self.targets.items():
            found += (
                self._places(kind, target, lenient=False)
                or self._places(kind, target, lenient=True)
                or (self._unnamed(kind, target) if complete else [])
            )
        return tuple(found[:MOST_PLACES])

    def _places(self, kind: str, target: int, lenient: bool) -> list[FoundPlace]:
        """Return named places; unless ``lenient``, none if one is deep in a library's variable."""
        names, need = self.resolve(target, lenient)
        groups: dict[tuple[int, str, str], list[Any]] = {}
        ends: dict[Place, Counter[int]] = defaultdict(Counter)
        owners = self._owners(need)
        in_use = any(map(_is_a_librarys, map(self.nodes.__getitem__, need - {target})))
        found: list[tuple[tuple[Any, ...], Place]] = []
        for number in need:
            for root in self._roots(number):
                if root.coarse and number != target and not lenient:
                    return []
                needed = root.coarse and (in_use or callable(self.nodes[number]))
                cut = "" if needed else root.cut
                by = "copy" if number in owners else ""
                place = Place(kind, *root[:3], cut, by=by)
                ends[place][number] += ALL if root.keeper in _ENDS else 1
                found.append((_order(root, 0, ""), place))
            for holder, reference in self._holders(number):
                if holder not in need and holder in names:
                    child, cut, key, of = self._joined(names[holder], reference, lenient)
                    member = key, child, reference.child
                    groups.setdefault((holder, cut, of), []).append(member)
        for (holder, cut, of), members in groups.items():
            self.emptied.add(holder)
            name = names[holder]
            place = self._grouped(kind, name, self.nodes[holder], cut, of, members)
            is_needed = in_use and name.keeper == "module" and name.private
            is_copys = bool(owners & {reference.child for reference in self.children[holder]})
            by = place.by or ("copy" if is_copys else "")
            place = replace(place, cut="" if is_needed else place.cut, by=by)
            emptied = emptied_by(cut, self.nodes[holder])
            self.nodes.update((id(each), each) for each in emptied)
            ends[place].update(map(id, emptied) if emptied else [each[2] for each in members])
            found.append((_order(name, of.count("[") + of.count(".") + 1, cut), place))
        found.sort(key=lambda each: each[0])
        places = [
            FoundPlace(place, ends[place]) for place in dict.fromkeys(each for _, each in found)
        ]
        places = _usable_in_order(places)
        if self._has_ring(need):
            places = list(map(_collected, places))
        return _outputs_together(places)

    def _owners(self, need: set[int]) -> set[int]:
        """Return which of these have to go because a copy is kept as long as they live."""
        found, new = set[int](), self.copies & need
        while new := {h for n in new for h, _ in self._holders(n) if h in need} - found:
            found |= new
        return found

    def _grouped(
        self, kind: str, name: Name, holder: Any, cut: str, of: str, members: list[Any]
    ) -> Place:
        """Return one place for all references that one holder has."""
        keys = list(dict.fromkeys(key for key, *_ in members))
        empties = isinstance(holder, list | dict | set | deque) and len(holder) == len(keys)
        empties = empties and cut in ("index", "item", "place") and not name.mode
        code = name.before + statement(cut, of, keys, empties)
        paths = [child.path for _, child, _ in members if child is not None]
        path = paths[0] if paths else of
        if cut == "index" and len(keys) > 1:
            path = "\n".join(span(of, *run) for run in reversed(runs(keys)[-3:]))
        elif len(paths) > 1:
            path = "\n".join(paths[:3])
        where, by = name.where, ""
        if cut in ("frame", "close"):
            holders = self.holders.get(id(holder), ())
            frames = [number for number, each in holders if each.cut == "f_locals"]
            path = "\n".join(map(str, keys[:3]))
            where = _function_of(self.nodes[frames[0]] if frames else holder)
            by = of.partition(".__traceback__")[0]
        keeper = name.keeper if name.keeper in _NOT_HERE else _HOW.get(cut, name.keeper)
        return Place(
            kind, path, keeper, where, "" if name.keeper == "runs" else code, len(keys), by
        )

    def _known(self, number: int) -> int:
        """Return how many references to the node come from the holders that were found."""
        holders = {holder for holder, _ in self.holders.get(number, ())}
        found = 0
        for holder in map(self.nodes.__getitem__, holders):
            inside = referents(holder)
            for each in list(inside):
                # A dict of attributes, or of a frame's locals: made only because we asked.
                if type(each) is dict and id(each) not in holders and _made_dict(holder, each):
                    inside += gc.get_referents(each)
            found += sum(each is self.nodes[number] for each in inside)
        return found

    def _has_ring(self, need: set[int]) -> bool:
        """True if some of these form a cycle: then they stay until the collector runs."""
        left = {n: {h for h, _ in self._holders(n)} & need for n in need}
        while free := {number for number, holders in left.items() if not holders}:
            left = {n: holders - free for n, holders in left.items() if n not in free}
        return bool(left)

    def _unnamed(self, kind: str, target: int) -> list[FoundPlace]:
        """Return the place of a target without a name: in a cycle, or referred to by C code."""
        _, need = self.resolve(target, lenient=True)
        if need & self.ours.keys():
            return [FoundPlace(Place(kind, "", "own"), Counter())]
        for number in need:
            if sys.getrefcount(self.nodes[number]) - 2 > self._known(number):
                what = "" if number == target else type(self.nodes[number]).__qualname__
                return [FoundPlace(Place(kind, what, "outside"), Counter({number: ALL}))]
        ring = Counter(dict.fromkeys(need, ALL))
        return [FoundPlace(Place(kind, "", "cycle", "", "import gc; gc.collect()"), ring)]


def _made_dict(holder: Any, inside: dict[Any, Any]) -> bool:
    if isinstance(holder, types.FrameType):
        return inside is not holder.f_globals and inside is not holder.f_builtins
    return attributes_of(holder) is inside


def referents(thing: Any) -> list[Any]:
    """Return what a thing refers to; also of arrays, where the collector doesn't know."""
    if isinstance(thing, np.flatiter):
        return [thing.base]
    if not isinstance(thing, np.ndarray):
        return referents_of([thing])
    return [thing.base, *(thing.flat if thing.dtype.hasobject else ())]


def emptied_by(cut: str, holder: Any) -> list[Any]:
    """Return all that a holder lets go of with a cut of this kind, if not only single slots."""
    if cut == "cache":
        own = {id(vars(holder)), id(holder.__wrapped__)}
        return [each for each in referents_of([holder]) if id(each) not in own]
    if cut == "close":
        return referents_of([holder])  # also what its code is about to use
    if cut != "frame":
        return []
    return list((holder if type(holder) is dict else locals_of(holder)).values())


def _collected(found: FoundPlace) -> FoundPlace:
    place, ends = found
    if not place.cut or "gc.collect()" in place.cut:
        return found
    cut = f"{place.cut.rstrip(';')}; import gc; gc.collect();"
    return FoundPlace(replace(place, cut=cut), ends)


def _is_a_librarys(thing: Any) -> bool:
    """True of a library's own object, which others may use too."""
    kind = type(thing)
    return attributes_of(thing) is not None and not (
        issubclass(kind, types.FunctionType | type | BaseException) or is_persons(kind)
    )


def _usable_in_order(places: list[FoundPlace]) -> list[FoundPlace]:
    """Put code that deletes a variable behind the code that uses it."""

    def is_used(found: FoundPlace) -> bool:
        place = found.place
        if place.cut != f"del {place.path}" or not place.path.isidentifier():
            return False
        word = re.compile(rf"\b{place.path}\b")
        return any(word.search(each.place.cut) for each in places if each is not found)

    places = sorted(places, key=is_used)
    if any("gc.collect()" in place.cut for place, _ in places):
        places[-1] = _collected(places[-1])
    return places


def _function_of(holder: Any) -> str:
    for name in ("f_code", "gi_code", "cr_code", "ag_code"):
        code = getattr(holder, name, None)
        if code is not None:
            return f"{code.co_name}()"
    return ""


def _order(name: Name, depth: int, cut: str) -> tuple[Any, ...]:
    """Return the sort key of a place: plainest first; in one variable the deeper before what would
    move it, and slots known by their place before those known by key."""
    root = name.path.partition("[")[0].partition(".")[0]
    return _RANK.get(name.keeper, 9), root if depth else "", -depth, cut not in ("place", "element")


def _outputs_together(found: list[FoundPlace]) -> list[FoundPlace]:
    """Merge the up to four places where IPython keeps a result: one command empties them."""
    outputs = [place for place, _ in found if _has_outputs(place)]
    if not any(place.keeper == "output" for place in outputs):
        return found
    cut = "%reset -f out"
    if any(_HIDDEN in place.cut for place in outputs):  # which that command misses
        cut = f"get_ipython().displayhook.flush(); {_HIDDEN}.update(_='', __='', ___='')"
    first = outputs[0]
    path = "\n".join(place.path for place in outputs if place.keeper == "output")
    whole = Place(first.kind, path, "output", "", cut, sum(place.count for place in outputs))
    ends = Counter[int]()
    for place, each in found:
        ends.update(each if place in outputs else ())
    return [
        FoundPlace(whole, ends) if each.place is first else each
        for each in found
        if each.place is first or each.place not in outputs
    ]


_HIDDEN = "get_ipython().user_ns_hidden"


def _has_outputs(place: Place) -> bool:
    inside = place.path.startswith(f"{_HIDDEN}['_") or "displayhook._" in place.path
    return place.keeper == "output" or inside
