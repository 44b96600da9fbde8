"""Finds what keeps an object in this process: from the object back to names, through all there is.

The garbage collector knows what refers to what, so what no variable leads to is found too. It may
run in any thread while the person's code runs: what changes meanwhile is seen as it was or as it
is. How things refer to each other is in `references`, what they are called in `reference_graph`.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextvars import Context
from inspect import CO_OPTIMIZED
from typing import Any

from workbench.call_site import is_own
from workbench.client import references
from workbench.client.collector import Kinds, but_tuples, referents_of
from workbench.client.reference_graph import Name, ReferenceGraph, Root, referents
from workbench.client.references import MACHINERY, Reference, is_ours, is_output
from workbench.core.events import Place
from workbench.engine.base import ROOT_NOTE

SECONDS, DEEP_SECONDS = 1.0, 120.0
"""How long a search works at most; the latter if somebody asked for all of it."""

CHUNK = 1000  # objects whose referents are looked at in one go
MOST_OBJECTS = 100  # through which a class is looked for that has no name
LONG = 10_000  # things in a list of which it is worth while to look whether all are numbers
FEW = 64  # objects that the collector itself looks for: its effort grows with each
CALLED = {"workbench.api", "workbench.api.observing"}  # with refs: their caller has these
_LEAVES = {int, float, complex, bool, str, bytes, type(None)}

NEAR = 20_000
"""Objects near a person's variables that are looked at first; not what is in longer containers."""

FEW_FROZEN = 2000
"""Objects that Python may have frozen itself when it started: 3.12 some 400. More were frozen by
somebody, as in workers: all that was there, and the collector leaves that alone."""

_one_at_a_time = threading.Lock()  # two searches would find each other


def find_referrers(
    targets: dict[str, Any],
    roots: Mapping[str, Any],
    deep: bool = False,
    seconds: float | None = None,
) -> tuple[tuple[Place, ...], bool, int]:
    """All that keeps the targets (by kind: the ``ref``, what ``view``s show) in this process.

    ``roots`` are names beside those of modules and running functions; what stands behind
    `ROOT_NOTE` in one is said behind it. ``seconds`` of its thread's work is what it may take at
    most. Returns places, whether all there is was looked at, and how many objects were.
    """
    if seconds is None:
        seconds = DEEP_SECONDS if deep else SECONDS
    with _one_at_a_time:
        search = _Search(targets, roots, seconds)
        try:
            complete = search.run()
            return search.places(complete), complete, search.looked_at
        finally:
            search.forget()


class _SearchTimeoutError(Exception):
    pass


class _Search:
    """One search. Its nodes are kept until `forget`, so that ids mean what they meant.

    No reference to a node may stand in a list, closure or generator of ours that isn't in
    ``_own``: it would be found.
    """

    def __init__(self, targets: dict[str, Any], roots: Mapping[str, Any], seconds: float) -> None:
        self._end_at = time.thread_time() + seconds
        self._graph = ReferenceGraph({kind: id(thing) for kind, thing in targets.items()})
        while targets:  # nobody else has them on our account: references are counted
            self._graph.nodes.update(map(_by_id, [targets.popitem()[1]]))
        self._closed: set[int] = set()  # what has a root, and needs no other
        self._expanded: set[int] = set()
        self._unseen: dict[int, Any] = {}  # what the collector doesn't look into
        self._is_complete = True
        self._flat: dict[int, bool] = {}  # by long list
        self._kinds = Kinds()
        # What has nodes on our account.
        self._own = {id(self._graph.nodes), id(self._unseen), id(roots)}
        self._main = vars(sys.modules["__main__"])
        self._namespaces: dict[int, Name] = {}
        self._begin(roots)
        self.looked_at = len(self._values)  # even if there is no time for more
        for target in self._graph.targets.values():
            self._known(target)

    def forget(self) -> None:
        self._graph.nodes.clear()
        self._unseen.clear()
        self._values.clear()

    # -- where it ends ----------------------------------------------------------------------------

    def _begin(self, roots: Mapping[str, Any]) -> None:
        self._last_result = 0  # by id: IPython's of the last cell, which the next one replaces
        self._variables: dict[int, list[Root]] = defaultdict(list)  # by value, which ...
        self._values: list[Any] = []  # ... is kept, or another could have its id
        self._own.add(id(self._values))
        for key, value in list(roots.items()):
            path, _, where = key.partition(ROOT_NOTE)
            kind = "stored" if where else "variable"
            self._name(value, Root(Name(path, kind, where), f"del {path}"))
        for name, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType):
                self._namespaces.setdefault(id(vars(module)), self._module(name, module))
        self._namespaces[id(self._main)] = Name("")
        for name, value in list(self._main.items()):
            if name not in _SAME:
                keeper = "output" if is_output(name) else "variable"
                self._name(value, Root(Name(name, keeper), f"del {name}"))
            if name == "get_ipython" and isinstance(value, types.MethodType):
                self._name(value.__self__, Root(Name("get_ipython()")))
                self._last_result = id(getattr(value.__self__, "last_execution_result", None))
        self._frames()
        figures = sys.modules.get("matplotlib._pylab_helpers")
        for number, manager in list(figures.Gcf.figs.items()) if figures else ():
            plt = sys.modules.get("matplotlib.pyplot")
            path, before = self._named_module("matplotlib.pyplot", plt)
            cut = f"{before}{path}.close({number!r})"
            self._name(manager, Root(Name(str(number), "figure"), cut))
            self._closed.add(id(manager))
        widgets = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
        self._widgets = id(widgets)
        self._widget_ids = {id(widget): key for key, widget in list(widgets.items())}

    def _name(self, value: Any, root: Root) -> None:
        self._values.append(value)
        self._variables[id(value)].append(root)

    def _module(self, name: str, module: types.ModuleType) -> Name:
        path, before = self._named_module(name, module)
        is_persons = references._is_own_module(name, getattr(module, "__file__", None))
        return Name(path, "module", name, before, "attributes", not is_persons)

    def _named_module(self, name: str, module: Any) -> tuple[str, str]:
        """How a person gets at it, and the import that this takes."""
        for variable in (name, name.rpartition(".")[2], *_SHORT.get(name, ())):
            if variable.isidentifier() and self._main.get(variable) is module:
                return variable, ""
        top = name.partition(".")[0]
        free = self._main.get(top, sys.modules.get(top)) is sys.modules.get(top)
        found: Any = sys.modules.get(top)
        for part in name.split(".")[1:]:
            found = getattr(found, "__dict__", {}).get(part)
        if free and found is module and all(map(str.isidentifier, name.split("."))):
            return name, f"import {name}; "
        return f"__import__('sys').modules[{name!r}]", ""

    def _frames(self) -> None:
        """The variables of functions that run now. Our own are no reason."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        names[threading.main_thread().ident] = ""
        for frame, ident in references.frames().items():
            self._frame(frame, names.get(ident, ""))

    def _frame(self, frame: types.FrameType, thread: str) -> None:
        code = frame.f_code
        package = str(frame.f_globals.get("__name__", ""))
        if not code.co_flags & CO_OPTIMIZED:
            if id(frame.f_locals) not in self._namespaces and is_own(code.co_filename):
                self._namespaces[id(frame.f_locals)] = Name("", "cell", package)
            return
        is_machinery = package.startswith(MACHINERY) or package in CALLED
        for name, value in references.locals_of(frame).items():
            if is_machinery:
                self._values.append(value)
                self._graph.ours.add(id(value))
            else:
                where = f"{code.co_name}()" + (f" in thread {thread!r}" if thread else "")
                self._name(value, Root(Name(name, "runs", where)))

    # -- all there is -----------------------------------------------------------------------------

    def _check_time(self) -> None:
        if time.thread_time() > self._end_at:
            raise _SearchTimeoutError

    def _look_near(self) -> None:
        """Find what the collector doesn't look into near a person's variables."""
        modules = [m for m in list(sys.modules.values()) if hasattr(m, "__dict__")]
        todo: list[Any] = [self._main, *map(vars, modules)]
        for frame in references.frames():
            todo += references.locals_of(frame).values()
        is_frozen = gc.get_freeze_count() > FEW_FROZEN
        if is_frozen:
            self._unseen.update(map(_by_id, todo))
        seen: set[int] = set()
        while todo and (is_frozen or len(seen) < NEAR):
            self.looked_at += len(todo)
            todo = self._near(todo, seen, is_frozen)

    def _look_anywhere(self) -> None:
        """Find the rest of what the collector doesn't look into."""
        self.looked_at = 0
        todo = but_tuples(gc.get_objects, None)
        todo += self._unseen.values()
        while todo:
            self.looked_at += len(todo)
            todo = self._hidden(todo)

    def _near(self, todo: list[Any], seen: set[int], all: bool) -> list[Any]:
        """What is in these and wasn't seen. ``all``: the collector looks into none of it."""
        found: list[Any] = []
        if not all:
            todo = [each for each in todo if not _is_long(each)]
        for inside in self._chunks(todo):
            for each in inside:
                if type(each) in _LEAVES:
                    continue
                hidden = _hides(each, self._kinds[type(each)])
                if (hidden or gc.is_tracked(each)) and id(each) not in seen:
                    seen.add(id(each))
                    found.append(each)
                    if all or hidden:
                        self._unseen[id(each)] = each
                    if not all and len(seen) >= NEAR:
                        return found
        return found

    def _hidden(self, todo: list[Any]) -> list[Any]:
        """What is in these and hasn't been noted, of what the collector doesn't look into."""
        found: list[Any] = []
        kinds, unseen = self._kinds, self._unseen
        for inside in self._chunks(todo):
            new = {
                id(each): each
                for each in inside
                if (kind := kinds[type(each)]) and _hides(each, kind)
            }
            for number in new.keys() & unseen.keys():
                del new[number]
            unseen.update(new)
            found += new.values()
        return found

    def _is_flat(self, numbers: Any) -> bool:
        """Whether it is a long list of nothing but numbers and texts."""
        if type(numbers) is not list or len(numbers) < LONG:
            return False
        if id(numbers) not in self._flat:
            self._flat[id(numbers)] = all(
                _LEAVES.issuperset(map(type, numbers[at : at + LONG]))  # lets other threads run
                for at in range(0, len(numbers), LONG)
            )
        return self._flat[id(numbers)]

    def _chunks(self, todo: list[Any]) -> Iterator[list[Any]]:
        """What these refer to, some at a time."""
        for at in range(0, len(todo), CHUNK):
            self._check_time()
            chunk = [each for each in todo[at : at + CHUNK] if not self._is_flat(each)]
            inside = referents_of(chunk)
            for array in [each for each in chunk if self._kinds[type(each)] == 1]:
                inside += referents(array)
            yield inside

    def _find_holders(self, wanted: dict[int, Any]) -> list[Any]:
        """Everything that refers to one of these."""
        self._check_time()
        if len(wanted) <= FEW:
            found = but_tuples(gc.get_referrers, *wanted.values())
        else:
            found = self._scan(but_tuples(gc.get_objects, None), wanted)
        return found + self._scan(list(self._unseen.values()), wanted)

    def _scan(self, todo: list[Any], wanted: dict[int, Any]) -> list[Any]:
        found: list[Any] = []
        ids = wanted.keys()
        for at in range(0, len(todo), CHUNK):
            self._check_time()
            chunk = todo[at : at + CHUNK]
            arrays = [each for each in chunk if self._kinds[type(each)] == 1]
            found += [array for array in arrays if not ids.isdisjoint(map(id, referents(array)))]
            if not ids.isdisjoint(map(id, referents_of(chunk))):
                found += [e for e in chunk if not ids.isdisjoint(map(id, referents_of([e])))]
        return found

    # -- back, step by step -----------------------------------------------------------------------

    def places(self, complete: bool) -> tuple[Place, ...]:
        self._unseen.clear()  # each reference of ours counts
        self._values.clear()
        return self._graph.places(complete)

    def run(self) -> bool:
        """Whether it came to its end.

        First what the collector itself knows, then what it doesn't look into: so the plain answers
        are there however large the rest is.
        """
        try:
            self._expand_all()
            for look in (self._look_near, self._look_anywhere):
                before = set(self._unseen)
                try:
                    look()
                except _SearchTimeoutError:
                    self._is_complete = False
                # To use what has been found, however little time is left.
                self._end_at = max(self._end_at, time.thread_time() + SECONDS / 2)
                new = [thing for id, thing in self._unseen.items() if id not in before]
                again = {id: self._graph.nodes[id] for id in self._expanded}
                self._own |= {id(new), id(again)}
                self._take(self._scan(new, again), again)
                self._own -= {id(new), id(again)}
                del new, again
                self._expand_all()
        except _SearchTimeoutError:
            return False
        return self._is_complete

    def _expand_all(self) -> None:
        while wanted := self._frontier():
            self._expand(wanted)

    def _frontier(self) -> dict[int, Any]:
        """What has to go, or has no name yet, and whose holders nobody has looked for."""
        left = self._graph.missing() - self._expanded - self._closed
        return {id: self._graph.nodes[id] for id in left}

    def _expand(self, wanted: dict[int, Any]) -> None:
        self._own.add(id(wanted))
        self._expanded |= wanted.keys()
        self._take(self._find_holders(wanted), wanted)
        self._own.discard(id(wanted))

    def _known(self, number: int) -> None:
        """Note the names that it has without a search."""
        for root in self._variables.get(number, ()):
            self._graph.roots[number][root] = None

    def _take(self, found: list[Any], wanted: dict[int, Any]) -> None:
        for holder in found:
            if id(holder) in self._own or type(holder) is _Search:
                continue
            namespace = self._namespaces.get(id(holder))
            if namespace is not None:
                self._end_in(namespace, holder, wanted)
            elif isinstance(holder, Context):
                self._end_in_context(holder, wanted)
            else:
                self._hold(holder, wanted)

    def _hold(self, holder: Any, wanted: dict[int, Any]) -> None:
        number, kind = id(holder), type(holder)
        for reference in references.references_of(holder, wanted):
            if reference.child == id(kind) and len(self._graph.holders[id(kind)]) > MOST_OBJECTS:
                continue  # of a class that has no name, one object with a name is enough
            if reference.child in self._widget_ids and (
                number == self._widgets or kind is types.MethodType
            ):
                self._end_widget(reference.child)
            elif is_ours(kind) or number == self._last_result:
                self._graph.ours.add(reference.child)
            else:
                if number in self._closed:
                    reference = Reference(reference.child)
                self._graph.add(holder, reference)
                self._known(number)
                if kind is _task_type():
                    self._end_in_task(holder)
                elif isinstance(holder, threading.Thread) and holder.is_alive():
                    self._closed.add(number)
                    self._end(number, Name(holder.name, "thread"), "")

    def _end_in(self, name: Name, namespace: dict[str, Any], wanted: dict[int, Any]) -> None:
        for key, value in list(namespace.items()):
            if id(value) not in wanted or (name.path == "" and key in _SAME):
                continue
            path = ".".join(filter(None, (name.path, key)))
            coarse = name.keeper == "module" and name.private
            keeper = "output" if name.path == "" and is_output(key) else name.keeper
            named = Name(path, keeper, name.where, name.before)
            self._end(id(value), named, f"{name.before}del {path}", coarse)

    def _end_in_context(self, context: Context, wanted: dict[int, Any]) -> None:
        self._closed.update(each.child for each in references.references_of(context, wanted))
        for variable, value in list(context.items()):
            if id(value) in self._graph.nodes:
                path = self._variable(variable)
                name = Name(path or variable.name, "context")
                self._end(id(value), name, f"{path}.set(None);" if path else "")

    def _end_in_task(self, task: Any) -> None:
        path, name = self._variable(task), task.get_name()
        before = "" if path else "import asyncio; "
        path = path or f"next(t for t in asyncio.all_tasks() if t.get_name() == {name!r})"
        where = getattr(task.get_coro(), "__qualname__", "")
        self._closed.add(id(task))
        self._end(id(task), Name(name, "task", where), f"{before}{path}.cancel()")

    def _end_widget(self, number: int) -> None:
        widget = self._graph.nodes[number]
        path = self._variable(widget)
        module = "__import__('sys').modules['ipywidgets.widgets.widget']"
        place = path or f"{module}._instances[{self._widget_ids[number]!r}]"
        self._end(
            number,
            Name(path or type(widget).__name__, "widget"),
            f"{place}.close(); import gc; gc.collect();",
        )

    def _end(self, number: int, name: Name, cut: str, coarse: bool = False) -> None:
        self._graph.roots[number][Root(name, cut, coarse)] = None

    def _variable(self, thing: Any) -> str:
        """A person's variable that is this; nothing if none is."""
        return next((name for name, value in list(self._main.items()) if value is thing), "")


_SHORT = {"matplotlib.pyplot": ("plt",), "numpy": ("np",), "pandas": ("pd",)}
_SAME = ("_oh", "_ih", "_dh", "In", "__builtins__")
"""What IPython has under plainer names too."""


def _by_id(thing: Any) -> tuple[int, Any]:
    return id(thing), thing


def _task_type() -> Any:
    return getattr(sys.modules.get("asyncio"), "Task", None)


def _is_long(thing: Any) -> bool:
    return isinstance(thing, list | dict | tuple | set | frozenset) and len(thing) > NEAR


def _hides(thing: Any, kind: int) -> bool:
    """Whether the collector doesn't look into it, and there may be something in it."""
    if kind == 2:
        return type(thing) is tuple or not gc.is_tracked(thing)
    return kind == 1 and (thing.base is not None or thing.dtype.hasobject)
