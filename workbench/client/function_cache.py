"""Functions that were sent, and whether the data that they read is unchanged. Sends nothing."""

from __future__ import annotations

import builtins
import dis
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass
from operator import is_
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

from workbench.ref import ObjectRef
from workbench.serialization.arrays import Reducers
from workbench.serialization.codec import Contents
from workbench.serialization.comparison import Verdict, compare, remember
from workbench.serialization.object_state import is_immutable

MOST_REMEMBERED = 1 << 20
"""Most bytes of a function's data that are kept, to be compared with at each submit."""

_ABSENT = object()
_GONE = object()
_CODE = type, FunctionType, ModuleType


@dataclass(eq=False)
class Export:
    """The stored form of a function, valid while what it took along is unchanged.

    A notebook's function refers to other functions, classes and data by their names, or closes over
    them. When a cell defines one of those again, sets an attribute of a class, or changes an
    element of a list, the function has to be sent again. ``code`` are the functions and classes
    that it took along. ``_reducers()`` returns those that it was pickled with. ``_by_ref`` are refs
    of arrays that went by reference: held, so that the arrays stay stored. ``called`` is what was
    sent: a method's object or a partial's arguments may change in place. If it ``has_more``, it
    reads more data than is remembered here, and is compared as a whole from ``next_look`` on: see
    `Submitter`.
    """

    is_a_functions: ClassVar = True  # see `heap.sizes.is_ours`

    ref: ObjectRef
    code: InitVar[Sequence[FunctionType | type]]
    _reducers: Callable[[], Reducers] = dict
    _by_ref: Sequence[ObjectRef] = ()
    called: InitVar[Any] = None

    def __post_init__(self, code: Sequence[FunctionType | type], called: Any) -> None:
        self.has_more = False
        self.next_look = 0.0
        self._always_differs = False  # each pickle differs: no change can be seen
        self._left = MOST_REMEMBERED
        self._watched: list[tuple[dict[str, Any], str, Callable[[], Any]]] = []
        self._cells: list[tuple[Any, Callable[[], Any]]] = []
        self._data: list[tuple[Callable[[], Any], Parts | None, Contents]] = []
        self._plain: list[tuple[weakref.ref[Any], CodeType, Any]] = []
        self._code: list[tuple[weakref.ref[Any], Parts, list[Callable[[], Any]]]] = []
        seen: set[int] = set()
        for each in code:
            if not isinstance(each, type) and is_immutable(each.__defaults__) and _is_plain(each):
                self._plain.append((weakref.ref(each), each.__code__, each.__defaults__))
                continue
            watches = [_watch(value) for value in _values(each)]
            self._code.append((weakref.ref(each), _names(each), watches))
            for name, value in vars(each).items():
                if not (name.startswith("__") or name == "_abc_impl" or _is_descriptor(value)):
                    self._remember(value, _watch(value), seen)
        for function in code:
            if isinstance(function, type):
                continue
            namespace = function.__globals__
            for name in _global_names(function.__code__):
                value = namespace.get(name, _ABSENT)
                if value is not _ABSENT or not hasattr(builtins, name):
                    watch = _watch(value)
                    self._watched.append((namespace, name, watch))
                    self._remember(value, watch, seen)
            for cell in function.__closure__ or ():
                value = _content(cell)
                watch = _watch(value)
                self._cells.append((cell, watch))
                self._remember(value, watch, seen)
            for value in _defaults(function):
                self._remember(value, _watch(value), seen)
        self._remember(called, lambda: called, seen)

    def is_current(self) -> bool:
        """True if each remembered name still means the same object, and that is unchanged."""
        if self._always_differs:
            return False
        for namespace, name, value in self._watched:  # at each submit: faster than `all`
            if namespace.get(name, _ABSENT) is not value():
                return False
        for cell, value in self._cells:
            if _content(cell) is not value():
                return False
        for alive, body, defaults in self._plain:
            function = alive()
            if function is not None and not (
                function.__code__ is body
                and function.__defaults__ is defaults
                and _is_plain(function)
            ):
                return False
        for alive, names, watches in self._code:
            code = alive()
            if code is not None and not (
                _has(_names(code), names)
                and _has(_values(code), tuple([watch() for watch in watches]))
            ):
                return False
        for value, parts, was in self._data:
            now = value()
            if parts is not None and _has(_elements(now), parts):
                continue
            if not self._is_same(now, was):
                return False
        return True

    def _remember(self, value: Any, watch: Callable[[], Any], seen: set[int]) -> None:
        if id(value) in seen or value is _ABSENT or is_immutable(value) or _is_code(value):
            return
        seen.add(id(value))
        try:
            was = remember(value, self._reducers(), self._left)
        except Exception:  # it isn't pickled as data: the function has a serializer of its own
            return
        if was is None:
            self.has_more = True
        elif not self._is_same(value, was):
            self._always_differs = True
        else:
            self._left -= len(was.stream) + sum(b.nbytes for b in was.buffers)
            self._data.append((watch, _parts(value), was))

    def _is_same(self, value: Any, was: Contents) -> bool:
        """True if the value is unchanged. Without a time limit: the data is small."""
        return compare(value, was, self._reducers(), math.inf).verdict is Verdict.SAME


Parts = tuple[Any, ...]
"""The elements of a list, or keys and values of a dict, all immutable: while these are the same
objects, the container is unchanged, which is quick to check."""


def _parts(value: Any) -> Parts | None:
    if type(value) is not dict and type(value) is not list:
        return None
    parts = _elements(value)
    return parts if is_immutable(parts) else None


def _elements(value: Any) -> Parts:
    return (*value, *value.values()) if type(value) is dict else (*value,)


def _has(now: Parts, parts: Parts) -> bool:
    return len(now) == len(parts) and all(map(is_, now, parts))


def _is_plain(function: FunctionType) -> bool:
    """True if a function has only code and positional defaults: quick to compare."""
    return not (function.__kwdefaults__ or function.__dict__)


def _names(code: FunctionType | type) -> Parts:
    """Return the attribute names of a function or class; of a function its code, too."""
    if isinstance(code, type):
        return (*vars(code),)
    return (code.__code__, *(code.__kwdefaults__ or ()), *vars(code))


def _values(code: FunctionType | type) -> Parts:
    """Return the attribute values of a function or class; of a function its defaults, too."""
    if isinstance(code, type):
        return (*vars(code).values(),)
    return (*_defaults(code), *vars(code).values())


def _defaults(function: FunctionType) -> Parts:
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _is_descriptor(value: Any) -> bool:
    """True of a method or property: its functions are followed, and it can't change in place."""
    return hasattr(type(value), "__get__")


def _is_code(value: Any) -> bool:
    """True of code, which is followed by its own names, and of our handles, which don't change."""
    return isinstance(value, _CODE) or type(value).__module__.partition(".")[0] == "workbench"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return _ABSENT


def _watch(value: Any) -> Callable[[], Any]:
    try:
        watched = weakref.ref(value)
    except TypeError:  # numbers, text, lists: held
        return lambda: value

    def alive() -> Any:
        found = watched()
        return _GONE if found is None else found  # the name may mean None now

    return alive


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL" or instruction.opname == "LOAD_NAME":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
