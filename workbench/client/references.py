"""How one Python object refers to another: the expression that leads there, and how it is emptied.

For single objects: `client.referrer_search` goes from one to the next. Nothing here keeps what it
looks at. `reference_code` writes the code that empties references.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from workbench import call_site
from workbench.client.collector import is_arrow, referents_of, shows
from workbench.heap.roots import is_output, locals_of

LONGEST_KEY = 200
"""Most characters of a dict key that is written out; longer keys are given by their place."""

LITERALS = (str, int, bool, bytes, type(None))
"""Types whose ``repr`` can be written in a person's code."""

Wanted = Mapping[int, Any]
"""Things by id."""


class Reference(NamedTuple):
    """One reference.

    ``step`` is the child's path, with ``{}`` for the holder's; empty if nobody can type it. ``cut``
    is how the holder lets go of it (see `reference_code.statement`), empty if it can't; ``key``
    says which of its slots. ``private``: it is internal to a library.
    """

    child: int
    step: str = ""
    cut: str = ""
    key: Any = None
    private: bool = False


def references_of(holder: Any, wanted: Wanted) -> list[Reference]:
    """Return the slots of an object that hold something wanted (by id). Never raises."""
    found: list[Reference] = []
    with contextlib.suppress(Exception):  # it changed meanwhile, or its own code raised
        for reference in _slots(holder, wanted):
            found.append(reference)
    told = {reference.child for reference in found}
    return found + [Reference(each) for each in referred(holder, wanted) if each not in told]


def _slots(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    # The looks may yield others, too; those of long containers don't, as it takes a while.
    kind, seen = type(holder), set[int]()
    for base, look in _LOOKS:
        if issubclass(kind, base):  # not isinstance: that asks a proxy for what it stands for
            for reference in look(holder, wanted):
                if reference.child in wanted:
                    seen.add(reference.child)
                    yield reference
    if not issubclass(kind, _PLAIN):
        yield from (each for each in _instance(holder, wanted, seen) if each.child in wanted)


def _dict(holder: dict[Any, Any], wanted: Wanted) -> Iterator[Reference]:
    for place, (key, value) in enumerate(list(dict.items(holder))):
        if id(value) in wanted:
            if is_literal(key):
                yield Reference(id(value), f"{{}}[{_braced(repr(key))}]", "item", key)
            else:
                yield Reference(id(value), f"{{}}[list({{}})[{place}]]", "place", place)
        if id(key) in wanted:
            yield Reference(id(key), f"list({{}})[{place}]", "place", place)


def _list(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    for place in [n for n, value in enumerate(holder) if id(value) in wanted]:
        yield Reference(id(holder[place]), f"{{}}[{place}]", "index", place)


def _tuple(holder: tuple[Any, ...], wanted: Wanted) -> Iterator[Reference]:
    fields = getattr(type(holder), "_fields", ())
    for place, value in enumerate(holder):
        if id(value) in wanted:
            step = f".{fields[place]}" if place < len(fields) else f"[{place}]"
            yield Reference(id(value), "{}" + step)


def _set(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    cut = "element" if isinstance(holder, set) else ""
    for place, value in enumerate(list(holder)):
        if id(value) in wanted:
            yield Reference(id(value), f"list({{}})[{place}]", cut, place)


def _array(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    # Another owner of the array's memory must stay: the array's address points into it.
    yield Reference(id(holder.base), "{}.base" if isinstance(holder.base, np.ndarray) else "")
    if holder.dtype.hasobject:
        flat = "" if holder.ndim == 1 else ".flat"
        for place, value in enumerate(holder.flat):
            if id(value) in wanted:
                yield Reference(id(value), f"{{}}{flat}[{place}]", "array" + flat, place)


def _function(holder: types.FunctionType, wanted: Wanted) -> Iterator[Reference]:
    # Without what it was made with, it would fail the next time that it is called.
    for name in ("__defaults__", "__closure__", "__globals__", "__annotations__"):
        yield Reference(id(getattr(holder, name)), f"{{}}.{name}")
    yield Reference(id(holder.__kwdefaults__), "{}.__kwdefaults__", "fixed")
    yield Reference(id(vars(holder)), "{}", "attributes")


def _fields(*names: str) -> Any:
    """Return the look of a type that has these attributes and can't change them."""

    def look(holder: Any, wanted: Wanted) -> Iterator[Reference]:
        for name in names:
            yield Reference(id(getattr(holder, name, None)), f"{{}}.{name}")

    return look


def _frame(holder: types.FrameType, wanted: Wanted) -> Iterator[Reference]:
    """Yield the variables of a function that has ended: `clear` may empty its frame."""
    # A debugger has asked for the dict. No variable may hold it here, see `locals_of`.
    yield Reference(id(holder.f_locals), "{}", "f_locals")
    yield Reference(id(holder.f_back), "{}.f_back")
    for name, value in locals_of(holder).items():
        yield Reference(id(value), f"{{}}.f_locals[{name!r}]", "frame", name)


def _suspended(state: str) -> Any:
    """Return the look of generators and coroutines: their variables are in a suspended frame.

    ``close`` empties it, but since Python 3.12 not before the first step. An asynchronous
    generator has no ``close``: only an event loop can empty it.
    """
    frame, suspended = f"{state}_frame", f"{state}_suspended"

    def look(holder: Any, wanted: Wanted) -> Iterator[Reference]:
        cut = "close" if hasattr(holder, "close") and getattr(holder, suspended) else ""
        for name, value in locals_of(getattr(holder, frame)).items():
            yield Reference(id(value), f"{{}}.{frame}.f_locals[{name!r}]", cut, name)

    return look


def _class(holder: type, wanted: Wanted) -> Iterator[Reference]:
    (attributes,) = gc.get_referents(vars(holder))  # a proxy of it
    yield Reference(id(attributes), "{}", "attributes", None, not is_persons(holder))


def _cached(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    """Yield what a `functools.lru_cache` holds: results, arguments, the function."""
    own = {id(vars(holder)), id(holder.__wrapped__)}
    yield from [
        Reference(each, "", "cache") for each in referred(holder, wanted) if each not in own
    ]
    yield Reference(id(holder.__wrapped__), "{}.__wrapped__")


def _module(holder: types.ModuleType, wanted: Wanted) -> Iterator[Reference]:
    yield Reference(id(vars(holder)), "{}", "attributes")


def _thread_local(holder: Any, wanted: Wanted) -> Iterator[Reference]:
    # Not through its attributes: reading them makes a new dict for this thread.
    yield from [Reference(each, "{}", "threads") for each in referred(holder, wanted)]


def _instance(holder: Any, wanted: Wanted, seen: set[int]) -> Iterator[Reference]:
    """Yield the class and the attributes of an object, in its dict and in slots."""
    kind = type(holder)
    own = is_persons(kind)
    yield Reference(id(kind), "{}.__class__")
    forced = vars(object)["__delattr__"] is not getattr(kind, "__delattr__", None)
    attributes = attributes_of(holder)
    if attributes is not None and id(attributes) in wanted:
        if kind.__name__.startswith("_") and not own:
            return
        cut = "forced attributes" if forced else "attributes"
        yield Reference(id(attributes), "{}", cut, None, not own)
        seen.add(id(attributes))
    elif attributes is not None:  # Python has only now made the dict, of values stored inline
        for name, value in list(attributes.items()):
            if id(value) in wanted:
                yield _attribute(value, name, kind, forced)
                seen.add(id(value))
    for cls in kind.__mro__:
        for name, member in list(vars(cls).items()):
            if type(member) is types.MemberDescriptorType and name != "__dict__":
                with contextlib.suppress(AttributeError):
                    value = member.__get__(holder)
                    if id(value) in wanted and id(value) not in seen:
                        yield _attribute(value, name, kind, forced)
                        seen.add(id(value))


def _attribute(value: Any, name: str, kind: type, forced: bool) -> Reference:
    cut = "forced attribute" if forced else "attribute"
    if not name.isidentifier():
        return Reference(id(value), f"vars({{}})[{_braced(repr(name))}]")
    own = is_persons(kind)
    private = name.startswith("_") and not (own or is_output(name))
    if (kind.__name__.startswith("_") and not own) or not kind.__flags__ & _HEAP_TYPE:
        cut = ""  # a library's own objects must stay whole; those of C can't be changed
    return Reference(id(value), f"{{}}.{name}", cut, name, private)


_HEAP_TYPE = 1 << 9
"""Flag of classes that aren't built into Python (`Py_TPFLAGS_HEAPTYPE`)."""


def attributes_of(holder: Any) -> dict[str, Any] | None:
    """Return an object's ``__dict__`` without running code of its class; None if it has none."""
    try:
        found = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def referred(holder: Any, wanted: Wanted) -> list[int]:
    own = id(type(holder))
    if is_arrow(type(holder)):
        return [number for number, each in wanted.items() if owns(each) and shows(holder, each)]
    found = (id(each) for each in referents_of([holder]))
    return [each for each in dict.fromkeys(found) if each in wanted and each != own]


def owns(thing: Any) -> bool:
    """True of an array that isn't a view of another: the one that all views of an object show."""
    return isinstance(thing, np.ndarray) and not isinstance(thing.base, np.ndarray)


_LOOKS: tuple[tuple[Any, Any], ...] = (
    (dict, _dict),
    (list, _list),
    (deque, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _set),
    (np.ndarray, _array),
    (np.flatiter, _fields("base")),
    (types.FunctionType, _function),
    (types.CellType, _fields("cell_contents")),
    (types.MethodType, _fields("__self__", "__func__")),
    (functools.partial, _fields("func", "args", "keywords")),
    (memoryview, _fields("obj")),
    (BaseException, _fields("__traceback__", "__context__", "__cause__", "args")),
    (types.TracebackType, _fields("tb_frame", "tb_next")),
    (types.FrameType, _frame),
    (types.GeneratorType, _suspended("gi")),
    (types.CoroutineType, _suspended("cr")),
    (types.AsyncGeneratorType, _suspended("ag")),
    (type, _class),
    (functools._lru_cache_wrapper, _cached),
    (threading.local, _thread_local),
    (types.ModuleType, _module),
)

_PLAIN = (
    types.FunctionType,
    types.CellType,
    types.MethodType,
    types.TracebackType,
    types.FrameType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    type,
    types.ModuleType,
    threading.local,
)
"""Types whose slots and attributes aren't looked at beyond the above."""


# -- what is a person's ----------------------------------------------------------------------------


def is_persons(kind: type) -> bool:
    """True of a person's own class: its private attributes aren't internal to a library."""
    if kind is types.SimpleNamespace:
        return True
    return kind.__module__ == "__main__" or call_site.is_persons(str(kind.__module__))


# -- keys ------------------------------------------------------------------------------------------


def is_literal(key: Any) -> bool:
    """True if a key can be written out."""
    if type(key) is tuple:
        return all(map(is_literal, key)) and len(repr(key)) <= LONGEST_KEY
    if type(key) is float:
        return key == key and abs(key) != float("inf")
    if type(key) not in LITERALS:
        return False
    return type(key) is int or len(key if isinstance(key, str | bytes) else "") <= LONGEST_KEY


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
