"""ObjectRef: the handle people hold. It knows its id and its engine, and asks for all else."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    import asyncio


class IdText(str):
    """An id as text; it has ``hex()``, for code that uses Ray's ids."""

    __slots__ = ()

    def hex(self) -> str:
        """Return the same text.

        Returns
        -------
        str
        """
        return str(self)


class RefEngine(Protocol):
    """The part of `engine.base.Engine` that a ref uses."""

    @property
    def session(self) -> str: ...
    def future(self, ref: ObjectRef) -> Future[Any]: ...
    def state(self, ref: ObjectRef) -> str: ...
    def escaped(self, ref: ObjectRef) -> tuple[Any, ...]: ...
    def mimebundle(self, thing: object) -> dict[str, str]: ...


class ObjectRef:
    """A handle to an object in the store; the object lives at least as long as its handles.

    Two refs to one object are equal and hash alike. ``await ref`` returns the object without
    blocking the event loop; :meth:`future` returns a ``concurrent.futures.Future``. A ref has no
    truth value and no items, and becomes no array: get the object first.

    Parameters
    ----------
    id : int
        The object's id.
    engine : Engine
        The session that the object belongs to.
    """

    __slots__ = ("__weakref__", "_again", "_engine", "_task", "id")

    _task: int
    """The task's id, where it is known to differ: most refs have none."""

    _again: ObjectRef
    """Another handle, if this process has rejoined the session since: see `ReferenceCounter`."""

    def __init__(self, id: int, engine: RefEngine | None = None) -> None:
        if engine is None:  # `ObjectRef(binary)`, as Ray has it
            self.nil()
        self.id = id
        self._engine = engine

    @property
    def session(self) -> str:
        """The session that the object belongs to."""
        return self._engine.session

    @staticmethod
    def nil() -> NoReturn:
        """Raise TypeError: no ref refers to nothing, and none is made of an id. Ray's name."""
        raise TypeError(
            "Only `put(value)` and `.remote(...)` make refs; an id alone makes none. None stands "
            "for no ref."
        )

    from_random = nil

    def hex(self) -> str:
        """Return the id as text.

        Returns
        -------
        str
            16 hexadecimal digits.
        """
        return f"{self.id:016x}"

    def binary(self) -> bytes:
        """Return the id as bytes.

        Returns
        -------
        bytes
            8 bytes; `hex` is the same as text.
        """
        return self.id.to_bytes(8, "big")

    def task_id(self) -> IdText:
        """Return the id of the task that makes it, as ``get_task_id()`` in that task.

        For a task's further results and items it is known only where the task was submitted;
        elsewhere, and for objects that were put, it is the object's own id.

        Returns
        -------
        str
        """
        return IdText(f"{getattr(self, '_task', self.id):016x}")

    def future(self) -> Future[Any]:
        """Return a future of the object. Cancelling it doesn't cancel the task.

        Returns
        -------
        concurrent.futures.Future
        """
        return self._engine.future(self)

    def as_future(self) -> asyncio.Future[Any]:
        """Return a future of the object for the running event loop, as ``await ref`` does.

        Returns
        -------
        asyncio.Future
        """
        import asyncio

        return asyncio.wrap_future(self.future())

    def __await__(self) -> Generator[Any, None, Any]:
        return self.as_future().__await__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectRef):
            return NotImplemented
        return self.id == other.id and self._engine is other._engine

    def __hash__(self) -> int:
        return hash(self.id)

    def _is_no_value(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            "An ObjectRef is not the value that it refers to, and can't be used in its place: "
            "get the value first."
        )

    # Without these, code would compute with the ref itself: `if ref:` is true, numpy makes an
    # array of one object, pandas a column of refs. Other uses fail by themselves.
    __bool__ = __iter__ = __array__ = _is_no_value

    def __copy__(self) -> ObjectRef:
        return self

    def __deepcopy__(self, memo: object) -> ObjectRef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce for pickles that aren't the store's: nobody can know who will read them."""
        return self._engine.escaped(self)

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()}, {self._engine.state(self)})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self._engine.mimebundle(self)


ObjectID = ObjectRef
"""Ray's older name."""
