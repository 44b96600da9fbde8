"""Pickles values together, and opens them with their objects numbered alike on both sides.

Pickler and unpickler number the objects in the same order (pickle's memo). So either side can
refer to an object by its number: no search, no comparison, no id of its own. `mutations` finds
what changed in them.
"""

from __future__ import annotations

import gc
import io
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.errors import TaskError
from workbench.errors.exception_state import bare, exception_state_of, fill
from workbench.serialization.arrays import Array, Reducers, address, owner_of
from workbench.serialization.codec import Parts, Where, load, pickle_into
from workbench.serialization.libraries import MAPPED, writable
from workbench.serialization.pickler import BufferCallback, Pickler, Writable, by_cloudpickle
from workbench.serialization.scratch import Scratch, Sink
from workbench.serialization.shared_memory import SharedBlocks, is_of_pandas

Numbers = Mapping[int, Any]
"""id of an object that the other side has → its number there, or its whole name in a module."""


class OtherSide(NamedTuple):
    """What the other process has, so that it needn't be sent.

    ``numbers``: its objects that were sent earlier. Functions whose globals are the ``namespace``
    have that of the other side there. Views of the ``known`` arrays, which have numbers, are views
    of the other side's. ``of_modules``: ids of objects that its modules have, and their names.
    ``code``: ids of functions and classes that its namespace has, and their names there; if given,
    functions travel without the globals that the namespace has. ``code_apart``: see `PackedValues`.
    """

    numbers: Numbers | None = None
    namespace: dict[str, Any] | None = None
    known: Sequence[Array] = ()
    of_modules: Mapping[int, str] = {}
    code: Mapping[int, str] | None = None
    code_apart: bool = False


NOTHING_THERE = OtherSide()


class _Namespace:
    """Stands in a pickle for the namespace of the cell that is pickled, or where it is opened."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._module = {name: names[name] for name in _OF_MODULES if name in names}

    def __reduce__(self) -> Any:
        return _namespace, (self._module,)


_OF_MODULES = ("__package__", "__name__", "__path__", "__file__")
"""What a function's globals have of its module, as cloudpickle has it."""

_opening = threading.local()  # its `namespace`, `apart`: those of the values being opened


def _namespace(module: dict[str, Any]) -> dict[str, Any]:
    namespace: dict[str, Any] | None = getattr(_opening, "namespace", None)
    if namespace is None:
        return module
    if "__builtins__" not in namespace:  # no code has run in it: a new one, on a worker
        namespace |= module
    return namespace


def _variable(name: str) -> Any:
    """Return a function or class of the namespace that the values being opened belong to."""
    return _opening.namespace[name]


def _code(place: int) -> Any:
    """Return a code object, or the id of a class, that travelled apart."""
    return _opening.apart[place]


class NamespacePickler(Pickler):
    """Leaves out the globals of the namespace's own functions, which the other side has.

    Of functions and classes in ``code``, by id, it writes only the names.
    """

    def __init__(
        self,
        file: Writable,
        reducers: Reducers,
        keep: BufferCallback,
        namespace: dict[str, Any] | None = None,
        code: Mapping[int, str] = {},
    ) -> None:
        super().__init__(file, reducers, keep)
        self._namespace = namespace
        self._names = code
        if type(self) is NamespacePickler:
            plain = self._reducers[np.ndarray]
            self._reducers[np.ndarray] = partial(_reduce_with_flag, plain)

    def _find(self, kind: type) -> Any:
        if kind in _VIEWS:
            return _reduce_view
        if kind is CellType:
            return by_cloudpickle
        if issubclass(kind, BaseException) and not issubclass(kind, TaskError):
            return _reduce_error
        return super()._find(kind)

    def _reduce_code(self, obj: Any) -> Any:
        if type(obj) is CellType:
            if obj == CellType():  # empty
                return CellType, ()
            _, new = self._cells.setdefault(id(obj), (obj, CellType()))  # of the functions there
            return _filled_cell, (new, obj.cell_contents)
        if (name := self._names.get(id(obj))) is not None:
            return _variable, (name,)
        reduced = super()._reduce_code(obj)
        if type(obj) is FunctionType and obj.__globals__ is self._namespace:
            attributes, slots = reduced[2]
            return (*reduced[:2], (attributes, {**slots, "__globals__": {}}), *reduced[3:])
        return reduced


def _reduce_with_flag(plain: Any, array: Array) -> Any:
    """Reduce an array so that it is read-only there if it is here."""
    reduced = plain(array)
    is_usual = array.flags.writeable or type(reduced) is not tuple
    return reduced if is_usual else (*reduced, False, None, None, np.ndarray.setflags)


_DICTS: Any = dict, OrderedDict
_VIEWS = {type(getattr(each(), n)()): n for each in _DICTS for n in ("keys", "values", "items")}
_VIEWS[MappingProxyType] = ""


def _reduce_view(view: Any) -> Any:
    """Reduce a view of a dict so that it is one there: cloudpickle's has a dict of its own."""
    return _view_of, (*gc.get_referents(view), _VIEWS[type(view)])


def _view_of(whole: Any, name: str) -> Any:
    return getattr(whole, name)() if name else MappingProxyType(whole)


def _filled_cell(cell: CellType, contents: Any) -> CellType:
    cell.cell_contents = contents
    return cell


def _reduce_error(error: BaseException) -> Any:
    """Reduce an exception with its causes, but without tracebacks."""
    state = exception_state_of(error, ())
    return bare, (type(error), state.group), state._replace(group=None), None, None, fill


class NumberingPickler(NamespacePickler):
    """Writes a number in place of an object that the other side has.

    ``met`` are the numbers written. ``root`` is written out on its first appearance, although it
    has a number. A dump takes three times as long as with `Pickler`: it looks up every object.
    """

    def __init__(
        self,
        file: Writable,
        reducers: Reducers,
        keep: BufferCallback,
        numbers: Numbers,
        namespace: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(file, reducers, keep, namespace)
        self.numbers = numbers
        self.met: set[int] = set()
        self.root: Any = None

    _find = Pickler._find  # a view of a dict travels without its values

    def persistent_id(self, obj: Any) -> Any:
        number = self.numbers.get(id(obj))
        if number is None:
            return None
        if obj is self.root:
            self.root = None
            return None
        self.met.add(number)
        return number


class _Unpickler(pickle.Unpickler):
    """Subclass for ``persistent_load``: in Python 3.13.0 it can't be set on an instance."""

    resolve: Callable[[Any], Any] | None

    def persistent_load(self, number: int | str) -> Any:
        if self.resolve is None:
            raise pickle.UnpicklingError("It refers to objects of another process.")
        return self.resolve(number)


@dataclass(frozen=True, slots=True)
class PackedValues:
    """Values in the form that travels. ``refs`` keep the stored objects in them alive.

    ``apart`` is a pickle of what is in the stream as a number, if that was asked for: code objects,
    and cloudpickle's ids of classes. So the stream is the same for the same code in another file,
    on another line, or in another process.
    """

    stream: bytes
    buffers: list[Array]
    refs: list[Any]
    apart: bytes = b""

    @property
    def code(self) -> list[CodeType]:
        return [each for each in self._apart() if isinstance(each, CodeType)]

    @property
    def class_ids(self) -> list[str]:
        return [each for each in self._apart() if isinstance(each, str)]

    def _apart(self) -> list[CodeType | str]:
        return pickle.loads(self.apart) if self.apart else []

    def with_class_ids(self, new: Mapping[str, str]) -> PackedValues:
        """Return the same with other ids of classes: those of this process."""
        ids = [new[each] if isinstance(each, str) else each for each in self._apart()]
        return replace(self, apart=pickled(ids)) if ids else self

    def open(
        self,
        where: Where,
        resolve: Callable[[Any], Any] | None = None,
        namespace: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[int, Any]]:
        """Build private, writable copies of the values; return them, and all objects by number.

        ``resolve`` returns the object for a number that travelled in its place. ``namespace``
        becomes the globals of functions from the packing side's namespace; None: a new one.
        SerializationError if they can't be rebuilt in this process; the message says what in them,
        and why.
        """
        buffers = [private_bytes(buffer) for buffer in self.buffers]
        unpickler = _Unpickler(io.BytesIO(self.stream), buffers=buffers)
        unpickler.resolve = resolve
        outer = getattr(_opening, "namespace", None), getattr(_opening, "apart", None)
        _opening.namespace, _opening.apart = namespace, self._apart()
        before = None if namespace is None else namespace.get("__builtins__")
        try:
            value = load(self.stream, buffers, where, lambda *_, **__: unpickler.load())
        finally:
            _opening.namespace, _opening.apart = outer
            if namespace is not None and before is not None:
                namespace["__builtins__"] = before  # cloudpickle sets another
        return value, unpickler.memo.copy()


def pickled(value: Any) -> bytes:
    """Return a pickle with everything in it. Raises what pickling raises."""
    with io.BytesIO() as file:
        Pickler(file, {}, lambda _: True).dump(value)  # all in band
        return file.getvalue()


def private_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return a contiguous array's bytes as private, writable memory."""
    if not array.nbytes:
        return np.empty(0, np.uint8)
    flat = array.reshape(-1).view(np.uint8)
    return flat.copy() if flat.nbytes < MAPPED else writable(flat)


def written_parts(array: Array) -> list[tuple[Array, Array]] | None:
    """Return, for a large array opened here, the bytes that may have changed, with the old ones.

    None if the array isn't one, or a part of one. Its pages are copies of sealed ones, made on the
    first write; see `ReadOnly.private`.
    """
    if array.nbytes < MAPPED or not array.flags.c_contiguous:
        return None
    owner = owner_of(array)
    sealed = getattr(owner, "keeps", None)
    if not isinstance(sealed, np.ndarray) or sealed.dtype != np.uint8:
        return None
    flat, mapped = array.reshape(-1).view(np.uint8), np.frombuffer(owner, np.uint8)
    begins = len(mapped) - len(sealed)  # a mapping begins with a page
    start = address(flat) - address(mapped) - begins
    before = sealed[start : start + len(flat)]
    return [(flat[a:b], before[a:b]) for a, b in owner.written(address(flat), len(flat))]


def pack(
    value: Any,
    reducers: Reducers,
    refs: list[Any],
    parts: Parts,
    limit: int = 1 << 62,
    there: OtherSide = NOTHING_THERE,
) -> tuple[PackedValues, Any]:
    """Return the values in the form that travels, and the pickler's memo: id → (number, object).

    The memo keeps those objects alive. The ``reducers`` fill ``refs``; ``parts`` is called on
    failure: it names the parts to search for the cause. ``limit`` is a number of bytes of pickle.
    SerializationError if something inside can't be pickled; the message says what and where.
    StoreFullError if the pickle passes the limit.
    """

    numbers, namespace, known, of_modules, code, code_apart = there
    apart: list[Any] = []

    def make(file: Writable, reducers: Reducers, keep: BufferCallback) -> Pickler:
        made: Pickler
        if numbers is not None:
            made = NumberingPickler(file, reducers, keep, {**of_modules, **numbers}, namespace)
        elif of_modules:
            made = NumberingPickler(file, reducers, keep, of_modules)
        elif code is not None:
            made = NamespacePickler(file, reducers, keep, namespace, code)
        else:
            made = Pickler(file, reducers, keep)
        if namespace is not None:
            made.globals_ref[id(namespace)] = _Namespace(namespace)
        if code_apart:
            apart.clear()
            made.write_code_to(apart, _code)
        return made

    sink = Sink(limit, Scratch())
    pickler, buffers = pickle_into(sink, value, reducers, parts, make)
    if buffers and SharedBlocks(buffers, known):
        own = [obj for _, obj in pickler.memo.copy().values() if is_of_pandas(type(obj))]
        shared = SharedBlocks(buffers, known, own)
        refs.clear()
        sink = Sink(limit, Scratch())
        pickler, buffers = pickle_into(sink, value, shared.reducers(reducers), parts, make)
    pieces = sink.pieces()
    stream = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
    packed = PackedValues(stream, buffers, refs, pickled(apart) if apart else b"")
    pieces.clear()  # the caller keeps the memo, whose pickler refers to the sink
    sink.chunks.clear()
    return packed, pickler.memo
