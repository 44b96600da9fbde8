"""Search for what keeps an object in this process: from the object back to names.

The garbage collector knows what refers to what, so the search also finds what no variable leads to.
It may run in any thread while the person's code runs: what changes meanwhile is seen as it was or
as it is. `references` knows how things refer to each other, `reference_graph` their names.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from inspect import CO_OPTIMIZED
from typing import Any

from workbench.call_site import is_own, is_persons
from workbench.client import collector, references
from workbench.client.collector import Kinds, but_tuples, hides, is_flat, referents_of
from workbench.client.reference_graph import FoundPlace, Name, ReferenceGraph, referents
from workbench.client.references import Reference, referred
from workbench.client.running import ends_itself
from workbench.client.search_budget import EnoughError, SearchBudget
from workbench.core.events import Place
from workbench.engine.base import ROOT_NOTE
from workbench.heap.roots import expression_for, figures, is_output, locals_of, running_frames
from workbench.heap.sizes import MACHINERY, Block, blocks, is_ours

PASS = 10  # objects of which `gc.get_referrers` sees the referents while we look at one
HOLDER = 50  # looks that each thing counts for which refers to a known one
CHUNK = 1000  # objects whose referents are read in one call
MOST_OBJECTS = 100  # to look through for a class that has no name
FEW = 64  # `gc.get_referrers` searches for up to so many: its effort grows with each
CALLED = {"workbench.api", "workbench.api.observing"}  # called with refs that their caller holds

NEAR = 20_000
"""Most objects near a person's variables to look at first; longer containers are left out."""

FEW_FROZEN = 2000
"""Objects that Python itself may freeze when it starts: 3.12 some 400. If there are more, somebody
has called `gc.freeze`, as in workers: the collector doesn't see what existed then."""

_one_at_a_time = threading.Lock()  # two searches would find each other


def find_referrers(
    targets: dict[str, Any], roots: Mapping[str, Any], budget: SearchBudget
) -> tuple[tuple[Place, ...], bool, int]:
    """Find all that keeps the targets (by kind: the ``ref``, what ``view``s show) in this process.

    ``roots`` are names beside those of modules and running functions; a text behind `ROOT_NOTE`
    says where the name is. Returns places, whether the search was complete, and how many objects it
    looked at.
    """
    with searching(targets, roots, budget) as search:
        complete = search.run()
        found = tuple(each.place for each in search.places(complete))
        return found, complete, search.looked_at


@contextmanager
def searching(
    targets: dict[str, Any], roots: Mapping[str, Any], budget: SearchBudget
) -> Iterator[ReferrerSearch]:
    """Make a search for ``targets``, which is emptied. One at a time."""
    with _one_at_a_time:
        search = ReferrerSearch(targets, roots, budget)
        try:
            yield search
        finally:
            search.forget()


class ReferrerSearch:
    """One search. Its nodes are kept until `forget`, so that no id is used again.

    No list, closure or generator of ours may refer to a node unless it is in ``_own``: the
    search would find it.
    """

    def __init__(
        self, targets: dict[str, Any], roots: Mapping[str, Any], budget: SearchBudget
    ) -> None:
        self._budget = budget
        self._pass = 0  # looks for one call of `gc.get_referrers`
        self.graph = ReferenceGraph({kind: id(thing) for kind, thing in targets.items()})
        while targets:  # `targets` mustn't keep them: references are counted
            self.graph.nodes.update(map(_by_id, [targets.popitem()[1]]))
        self._closed: set[int] = set()  # what has a root and needs no further search
        self._expanded: set[int] = set()
        self._unseen: dict[int, Any] = {}  # arrays, tuples and untracked dicts
        self._is_complete = True
        self._flat: dict[int, bool] = {}
        self._kinds = Kinds()
        # Containers of ours that refer to nodes.
        self._own = {id(self.graph.nodes), id(self._unseen), id(roots)}
        self._own.add(id(threading.current_thread()))
        self._main = vars(sys.modules["__main__"])
        self.namespaces: dict[int, Name] = {}
        self._begin(roots)
        self.looked_at = len(self._values)  # even if it may look at nothing more
        for target in self.graph.targets.values():
            self._known(target)

    def arrow_blocks(self) -> dict[int, list[Block]]:
        """Return the memory that each of Arrow's objects shows that were found, by id."""
        hidden = list(self._unseen.values())
        return {id(each): blocks(each) for each in hidden if self._kinds[type(each)] == 3}

    def held(self) -> Counter[int]:
        """Return how many references the search has to each object that it keeps."""
        return Counter([*self.graph.nodes, *self._unseen, *map(id, self._values)])

    def forget(self) -> None:
        self.graph.nodes.clear()
        self._unseen.clear()
        self._values.clear()

    # -- where it ends ----------------------------------------------------------------------------

    def _begin(self, roots: Mapping[str, Any]) -> None:
        self._last_result = 0  # id of IPython's result of the last cell, which the next replaces
        self._variables: dict[int, list[Name]] = defaultdict(list)  # by value, which ...
        self._values: list[Any] = []  # ... is kept, so that its id isn't used again
        self._own.add(id(self._values))
        for key, value in list(roots.items()):
            path, _, where = key.partition(ROOT_NOTE)
            kind = "stored" if where else "variable"
            self._name(value, Name(path, kind, where, cut=f"del {path}"))
        for name, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType):
                self.namespaces.setdefault(id(vars(module)), self._module(name, module))
        self.namespaces[id(self._main)] = Name("")
        for name, value in list(self._main.items()):
            if name not in _SAME:
                keeper = "output" if is_output(name) else "variable"
                self._name(value, Name(name, keeper, cut=f"del {name}"))
            if name == "get_ipython" and isinstance(value, types.MethodType):
                self._name(value.__self__, Name("get_ipython()"))
                self._last_result = id(getattr(value.__self__, "last_execution_result", None))
        self._frames()
        for number, manager, cut in figures():
            self._name(manager, Name(str(number), "figure", cut=cut))
            self._closed.add(id(manager))
        widgets = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
        self._widgets = id(widgets)
        self._widget_ids = {id(widget): key for key, widget in list(widgets.items())}

    def _module(self, name: str, module: types.ModuleType) -> Name:
        """Return the name of a module's namespace."""
        path, before = expression_for(name, module, self._main)
        is_librarys = name != "__main__" and not is_persons(name)
        return Name(path, "module", name, before, "attributes", is_librarys)

    def _name(self, value: Any, root: Name) -> None:
        self._values.append(value)
        self._variables[id(value)].append(root)

    def _frames(self) -> None:
        """Note the variables of running functions. Those of our own functions are no reason."""
        for frame, thread in running_frames():
            code, package = frame.f_code, str(frame.f_globals.get("__name__", ""))
            if not code.co_flags & CO_OPTIMIZED:
                if id(frame.f_locals) not in self.namespaces and is_own(code.co_filename):
                    self.namespaces[id(frame.f_locals)] = Name("", "cell", package)
                continue
            is_machinery = package.startswith(MACHINERY) or package in CALLED
            for name, value in locals_of(frame).items():
                if is_machinery:
                    self._values.append(value)
                    self.graph.ours[id(value)] += 1
                else:
                    self._name(value, Name(name, "runs", f"{code.co_name}(){thread}"))

    # -- all there is -----------------------------------------------------------------------------

    def _look_near(self) -> None:
        """Find what the collector doesn't look into near a person's variables."""
        modules = [m for m in list(sys.modules.values()) if hasattr(m, "__dict__")]
        todo: list[Any] = [self._main, *map(vars, modules)]
        for frame, _ in running_frames():
            todo += locals_of(frame).values()
        is_frozen = gc.get_freeze_count() > FEW_FROZEN
        if is_frozen:
            self._unseen.update(map(_by_id, todo))
        seen: set[int] = set()
        while todo and (is_frozen or len(seen) < NEAR):
            self.looked_at += len(todo)
            todo = self._near(todo, seen, is_frozen)

    def _look_anywhere(self) -> None:
        """Find all else that the collector doesn't look into."""
        self.looked_at = 0
        todo = but_tuples(gc.get_objects, None)
        todo += self._unseen.values()
        while todo:
            self.looked_at += len(todo)
            todo = self._hidden(todo)

    def _near(self, todo: list[Any], seen: set[int], all: bool) -> list[Any]:
        """Return what these refer to and wasn't seen. ``all``: the collector sees none of it."""
        found: list[Any] = []
        if not all:
            todo = [each for each in todo if not _is_long(each)]
        for inside in self._chunks(todo):
            for each in inside:
                if type(each) in collector.LEAVES:
                    continue
                hidden = hides(each, self._kinds[type(each)])
                if (hidden or gc.is_tracked(each)) and id(each) not in seen:
                    seen.add(id(each))
                    found.append(each)
                    if all or hidden:
                        self._unseen[id(each)] = each
                    if not all and len(seen) >= NEAR:
                        return found
        return found

    def _hidden(self, todo: list[Any]) -> list[Any]:
        """Return what these refer to, isn't noted yet, and the collector doesn't look into."""
        found: list[Any] = []
        kinds, unseen = self._kinds, self._unseen
        for inside in self._chunks(todo):
            new = {
                id(each): each
                for each in inside
                if (kind := kinds[type(each)]) and hides(each, kind)
            }
            for number in new.keys() & unseen.keys():
                del new[number]
            unseen.update(new)
            found += new.values()
        return found

    def _chunks(self, todo: list[Any]) -> Iterator[list[Any]]:
        """Yield what these refer to, `CHUNK` at a time."""
        for at in range(0, len(todo), CHUNK):
            self._budget.spend(CHUNK)
            chunk = [each for each in todo[at : at + CHUNK] if not is_flat(each, self._flat)]
            inside = referents_of(chunk)
            for array in [each for each in chunk if self._kinds[type(each)] == 1]:
                inside += referents(array)
            yield inside

    def _find_holders(self, wanted: dict[int, Any]) -> list[Any]:
        """Return everything that refers to one of these."""
        if len(wanted) <= FEW:
            self._pass = self._pass or len(but_tuples(gc.get_objects, None)) // PASS
            self._budget.spend(self._pass)
            found = but_tuples(gc.get_referrers, *wanted.values())
        else:
            found = self._scan(but_tuples(gc.get_objects, None), wanted)
        return found + self._scan(list(self._unseen.values()), wanted)

    def _scan(self, todo: list[Any], wanted: dict[int, Any]) -> list[Any]:
        found: list[Any] = []
        ids = wanted.keys()
        for at in range(0, len(todo), CHUNK):
            self._budget.spend(CHUNK)
            chunk = todo[at : at + CHUNK]
            arrays = [each for each in chunk if self._kinds[type(each)] == 1]
            found += [array for array in arrays if not ids.isdisjoint(map(id, referents(array)))]
            found += [e for e in chunk if self._kinds[type(e)] == 3 and referred(e, wanted)]
            if not ids.isdisjoint(map(id, referents_of(chunk))):
                found += [e for e in chunk if not ids.isdisjoint(map(id, referents_of([e])))]
        return found

    # -- back, step by step -----------------------------------------------------------------------

    def places(self, complete: bool) -> tuple[FoundPlace, ...]:
        self._unseen.clear()  # our references would be counted
        self._values.clear()
        return self.graph.places(complete)

    def run(self) -> bool:
        """Search; return True if it was complete.

        First among objects that the collector looks into, then among the others: so the plain
        answers are found however many others there are.
        """
        try:
            self._expand_all()
            for look in (self._look_near, self._look_anywhere):
                before = set(self._unseen)
                try:
                    look()
                except EnoughError:
                    self._is_complete = False
                self._budget.extend()
                new = [thing for id, thing in self._unseen.items() if id not in before]
                again = {id: self.graph.nodes[id] for id in self._expanded}
                self._own |= {id(new), id(again)}
                self._take(self._scan(new, again), again)
                self._own -= {id(new), id(again)}
                del new, again
                self._expand_all()
        except EnoughError:
            self._is_complete = False
        return self._is_complete

    def go_on(self, targets: dict[str, Any], inside: Iterable[int]) -> bool:
        """Search for these targets too, after `run`; return True if all was complete. What is
        ``inside`` the first target is no reason."""
        self._own |= {id(targets), *inside}
        for kind, thing in targets.items():
            self.graph.targets[kind] = id(thing)
            self.graph.nodes[id(thing)] = thing
            self._known(id(thing))
        self._budget.extend()
        try:
            self._expand_all()
        except EnoughError:
            self._is_complete = False
        return self._is_complete

    def _expand_all(self) -> None:
        while wanted := self._frontier():
            self._expand(wanted)

    def _frontier(self) -> dict[int, Any]:
        """Return what has to go, or has no name yet, and whose holders aren't searched yet."""
        left = self.graph.missing() - self._expanded - self._closed
        return {id: self.graph.nodes[id] for id in left}

    def _expand(self, wanted: dict[int, Any]) -> None:
        self._own.add(id(wanted))
        self._expanded |= wanted.keys()
        self._take(self._find_holders(wanted), wanted)
        self._own.discard(id(wanted))

    def _known(self, number: int) -> None:
        """Note the variables whose value it is, and if it ends by itself."""
        for root in self._variables.get(number, ()):
            self.graph.roots[number][root] = None
        if (end := ends_itself(self.graph.nodes[number], self._variable)) is not None:
            self._closed.add(number)
            self.graph.roots[number][end] = None

    def _take(self, found: list[Any], wanted: dict[int, Any]) -> None:
        for holder in found:
            self._budget.spend(HOLDER)
            if id(holder) in self._own or type(holder) is ReferrerSearch:
                continue
            namespace = self.namespaces.get(id(holder))
            if namespace is not None:
                self._end_in(namespace, holder, wanted)
            elif isinstance(holder, Context) and not self._variable(holder):
                self._end_in_context(holder, wanted)
            else:
                self._hold(holder, wanted)

    def _hold(self, holder: Any, wanted: dict[int, Any]) -> None:
        number, kind = id(holder), type(holder)
        for reference in references.references_of(holder, wanted):
            if reference.child == id(kind) and len(self.graph.holders[id(kind)]) > MOST_OBJECTS:
                continue  # of a class that has no name, one object with a name is enough
            if reference.child in self._widget_ids and (
                number == self._widgets or kind is types.MethodType
            ):
                self._end_widget(reference.child)
            elif is_ours(kind) or number == self._last_result:
                self.graph.ours[reference.child] += 1
            else:
                if number in self._closed:
                    reference = Reference(reference.child)
                self.graph.add(holder, reference)
                self._known(number)
                self._go_on_with_owner(holder)

    def _go_on_with_owner(self, holder: Any) -> None:
        """Go on with what decides how long this lives: nothing else that refers to it counts."""
        kept_with = getattr(type(holder), "kept_with", None)
        owner = kept_with(holder) if kept_with and type(holder).__module__ == _COPIES else None
        if owner is not None:
            self._closed.add(id(holder))
            self.graph.copies.add(id(holder))
            self.graph.add(owner, Reference(id(holder)))
            self._known(id(owner))

    def _end_in(self, name: Name, namespace: dict[str, Any], wanted: dict[int, Any]) -> None:
        for key, value in list(namespace.items()):
            if id(value) not in wanted or (name.path == "" and key in _SAME):
                continue
            path = ".".join(filter(None, (name.path, key)))
            coarse = name.keeper == "module" and name.private
            keeper = "output" if name.path == "" and is_output(key) else name.keeper
            cut = f"{name.before}del {path}"
            root = Name(path, keeper, name.where, name.before, cut=cut, coarse=coarse)
            self.graph.roots[id(value)][root] = None

    def _end_in_context(self, context: Context, wanted: dict[int, Any]) -> None:
        self._closed.update(each.child for each in references.references_of(context, wanted))
        for variable, value in list(context.items()):
            if id(value) in self.graph.nodes:
                path = self._variable(variable)
                cut = f"{path}.set(None)" if path else ""
                root = Name(path or variable.name, "context", cut=cut)
                self.graph.roots[id(value)][root] = None

    def _end_widget(self, number: int) -> None:
        widget = self.graph.nodes[number]
        path = self._variable(widget)
        module = "__import__('sys').modules['ipywidgets.widgets.widget']"
        place = path or f"{module}._instances[{self._widget_ids[number]!r}]"
        cut = f"{place}.close(); import gc; gc.collect();"
        root = Name(path or type(widget).__name__, "widget", cut=cut)
        self.graph.roots[number][root] = None

    def _variable(self, thing: Any) -> str:
        """Return a person's variable that is this thing, or ''; not ``_``, soon another."""
        names = (name for name, value in list(self._main.items()) if value is thing)
        return next((name for name in names if name.strip("_")), "")


_COPIES = "workbench.interop.shared_arguments"
_SAME = ("_oh", "_ih", "_dh", "In", "__builtins__")
"""Variables of IPython whose content has plainer names, too."""


def _by_id(thing: Any) -> tuple[int, Any]:
    return id(thing), thing


def _is_long(thing: Any) -> bool:
    return isinstance(thing, list | dict | tuple | set | frozenset) and len(thing) > NEAR
