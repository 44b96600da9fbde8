"""The pickler: cloudpickle's reducers, out-of-band buffers, and our own reducers for some types.

A subclass with its own table: what is registered here doesn't change plain ``cloudpickle.dumps``
in the same process.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import pickle
import sys
from collections.abc import Callable
from enum import Enum
from functools import _lru_cache_wrapper, lru_cache
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, ClassVar, Protocol

import cloudpickle
from cloudpickle.cloudpickle import _class_setstate, _make_skeleton_class

from workbench.serialization import arrays, interchange, libraries
from workbench.serialization.arrays import Reducer, Reducers
from workbench.serialization.class_states import (
    _known_or_made,
    add_members,
    note_own,
    set_class_state,
)

BufferCallback = Callable[[pickle.PickleBuffer], Any]


class Writable(Protocol):
    def write(self, data: Any, /) -> Any: ...


class ByteCounter:
    """File that counts the bytes of a pickle and of its buffers, and keeps none.

    Not the pickler itself: that would be a cycle, and the pickled object would live on for a while.
    """

    def __init__(self) -> None:
        self.inband = self.outband = self.buffers = 0

    def write(self, data: Any, /) -> None:
        self.inband += len(data)

    def add_buffer(self, buffer: pickle.PickleBuffer) -> None:
        """Count a buffer: for use as a pickler's ``buffer_callback``."""
        self.outband += arrays.out_of_band(buffer).nbytes
        self.buffers += 1


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler of one dump.

    Faster than cloudpickle's for many small objects: the reducer of a type is looked up once per
    dump, not per object. ``reducers`` by exact type come before all else. `arrays.out_of_band`
    returns the array of a buffer that ``buffer_callback`` got.
    """

    dispatch_table: ClassVar[dict[type, Reducer]] = {}  # empty: `reducer_override` does its work

    def __init__(self, file: Writable, reducers: Reducers, buffer_callback: BufferCallback) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)
        self.code: list[FunctionType | type] = []  # pickled by value
        self._cells: dict[int, tuple[CellType, CellType]] = {}  # each with what stands for it
        self._reducers: dict[type, Reducer | None] = {**arrays.REDUCERS, **reducers}
        self._class_id: Callable[[str], Any] = str

    def reducer_override(self, obj: Any) -> Any:
        """Reduce an object; the C pickler calls it for every one that isn't a plain builtin."""
        try:
            reducer = self._reducers[type(obj)]
        except KeyError:
            reducer = self._reducers[type(obj)] = self._find(type(obj))
        if reducer is None:
            return NotImplemented
        if reducer is by_cloudpickle:
            return self._reduce_code(obj)
        return reducer(obj)

    def _find(self, kind: type) -> Reducer | None:
        """Return the reducer of a type first met in this dump. None: pickle's default."""
        if kind is FunctionType or issubclass(kind, type):
            return by_cloudpickle
        if kind is _lru_cache_wrapper:
            return _reduce_cached
        if kind is MethodType:
            return _reduce_method
        if kind is CodeType:
            return _reduce_code_object
        if arrays.has_attributes(kind):
            return arrays.reduce_own_subclass
        return libraries.find(kind) or _registered(kind) or interchange.find(kind)

    def write_code_to(self, apart: list[Any], get: Callable[[int], Any]) -> None:
        """Put code objects and ids of classes into a list; in the pickle, ``get`` gets them by
        their place in it."""

        def put(each: Any) -> tuple[Any, ...]:
            apart.append(each)
            return get, (len(apart) - 1,)

        self._reducers[CodeType] = put
        self._reducers[_ClassId] = lambda each: put(each.text)
        self._class_id = _ClassId

    def class_state(self, cls: type) -> Any:
        """Return the state of a class that travels by value, as `set_class_state` gets it."""
        return self._reduce_code(cls)[2]

    def _reduce_code(self, obj: Any) -> Any:
        reduced = super().reducer_override(obj)
        if type(reduced) is not tuple:
            return reduced
        if type(obj) is FunctionType:
            self.code.append(obj)
            if obj.__closure__:
                return self._with_shared_cells(obj, *reduced)
        elif reduced[-1] is _class_setstate:
            self.code.append(obj)
            note_own(obj)
            reduced[2][0].pop("__slotnames__", None)  # a cache of copyreg's, made with an instance
            if issubclass(obj, Enum):
                add_members(obj, reduced[1], *reduced[2])
            make, arguments, *state = _with_slots(obj, *reduced[:-1])
            *most, class_id, extra = arguments
            arguments = *most, self._class_id(class_id), extra
            if make is _make_skeleton_class:  # not of an enum
                make, arguments = _known_or_made, (make, *arguments)
            return make, arguments, *state, set_class_state
        return reduced

    def _with_shared_cells(self, function: FunctionType, make: Any, how: Any, *rest: Any) -> Any:
        """Have functions that share a variable share it there: cloudpickle makes each new cells."""
        assert function.__closure__ is not None
        *others, empty = how
        pairs = zip(function.__closure__, empty, strict=True)
        cells = [self._cells.setdefault(id(cell), (cell, new))[1] for cell, new in pairs]
        return make, (*others, tuple(cells)), *rest


class _ClassId:
    """Stands in a pickle for cloudpickle's id of a class."""

    def __init__(self, text: str) -> None:
        self.text = text


def _registered(kind: type) -> Reducer | None:
    """Return the reducer registered for a type with cloudpickle or copyreg.

    But not tblib's: importing distributed installs that for every exception that exists then. It
    pickles tracebacks, with the code of their frames; an exception must travel the same way whether
    or not somebody has imported it.
    """
    found: Reducer | None = cloudpickle.Pickler.dispatch_table.get(kind)
    home = getattr(found, "func", found)  # of a partial
    is_tblibs = getattr(home, "__module__", "") == "tblib.pickling_support"
    return None if is_tblibs else found


def _with_slots(cls: type, make: Any, arguments: Any, state: Any, *rest: Any) -> Any:
    """Add the slots to cloudpickle's reduction of a class: cloudpickle forgets them."""
    slots = _slots(cls)
    if make is not _make_skeleton_class or slots is None:
        return make, arguments, state, *rest
    kind, name, bases, namespace, *more = arguments
    if any(getattr(base, "__name__", "") == "NamedTuple" for base in bases):
        return make, arguments, state, *rest  # NamedTuple adds them itself, and refuses others
    attributes, others = state
    by_itself = {*_LAYOUT, *(slot for slot in slots if _is_slot(cls, cls.__dict__[slot]))}
    attributes = {name: value for name, value in attributes.items() if name not in by_itself}
    attributes.update({slot: cls.__dict__[slot] for slot in slots if slot not in by_itself})
    arguments = (kind, name, bases, {**namespace, "__slots__": slots}, *more)
    return make, arguments, (attributes, others), *rest


_LAYOUT = frozenset({"__dict__", "__weakref__"})
"""Slots for what instances have without ``__slots__``."""


def _slots(cls: type) -> tuple[str, ...] | None:
    """Return the slots a class was made with, private names mangled; None: it has none."""
    own = cls.__dict__
    if "__slots__" not in own:
        return None
    names = own["__slots__"]
    declared = {names} if isinstance(names, str) else set(names)
    if "__dict__" in own and "__dict__" not in declared:
        return None  # an attribute of that name was set later
    # The attribute of a declared name may have been replaced: by a property that reads the slot.
    return tuple(sorted(n for n, v in own.items() if n in declared or _is_slot(cls, v, n)))


def _is_slot(cls: type, value: Any, name: str = "") -> bool:
    """True if the value is the descriptor that Python made for a slot of the class."""
    is_own = type(value) is MemberDescriptorType and value.__objclass__ is cls
    return is_own and name in ("", value.__name__)


def by_cloudpickle(obj: Any) -> Any:
    """Stand for cloudpickle's reduction of functions and classes; never called.

    Not a method of the pickler in its own table: that would be a cycle, and the pickled object
    would live until the next garbage collection.
    """
    raise AssertionError(obj)


def _reduce_method(method: MethodType) -> Any:
    """Reduce a method; a notebook's ``input``, a method of its kernel, by name as Python's own."""
    if method is vars(builtins).get("input"):
        return getattr, (builtins, "input")
    return cloudpickle.Pickler.dispatch_table[MethodType](method)


def _reduce_code_object(code: CodeType) -> Any:
    """Keep the file name of the code, for tracebacks: cloudpickle 3.1.3 drops it."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    place = next(n for n, each in enumerate(arguments) if isinstance(each, str))  # it comes first
    return make, (*arguments[:place], code.co_filename, *arguments[place + 1 :])


def _reduce_cached(function: Any) -> Any:
    """Reduce a cached function with an empty cache, unless it can be imported by name."""
    module = sys.modules.get(function.__module__)
    if module and module.__name__ != "__main__":
        with contextlib.suppress(AttributeError):
            if operator.attrgetter(function.__qualname__)(module) is function:
                return NotImplemented
    own = {n: v for n, v in vars(function).items() if n not in ("__wrapped__", "cache_parameters")}
    return _cached, (function.__wrapped__, function.cache_parameters()), own


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def try_pickling(value: Any, reducers: Reducers) -> None:
    """Raise what pickling the value raises; keep nothing."""
    counter = ByteCounter()
    Pickler(counter, reducers, counter.add_buffer).dump(value)


def is_picklable(value: Any, reducers: Reducers) -> bool:
    try:
        try_pickling(value, reducers)
    except Exception:
        return False
    return True
