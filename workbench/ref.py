"""ObjectRef: the handle people hold. It knows its id and its engine; everything else is asked."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.errors import ForeignRefError

if TYPE_CHECKING:
    from workbench.engines.base import Engine


class ObjectRef:
    """A handle to an object in the store; the object lives at least as long as its handles.

    Two refs to one object are equal and hash alike. ``await ref`` gives the object without
    blocking the event loop; :meth:`future` gives a ``concurrent.futures.Future``.
    """

    __slots__ = ("__weakref__", "_engine", "id")

    def __init__(self, id: int, engine: Engine) -> None:
        self.id = id
        self._engine = engine

    @property
    def session(self) -> str:
        """The session the object lives in."""
        return self._engine.session

    def hex(self) -> str:
        """The id as text."""
        return f"{self.id:016x}"

    def future(self) -> Future[Any]:
        """A future of the object. Cancelling it doesn't cancel the task."""
        return self._engine.future(self)

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.wrap_future(self.future()).__await__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectRef):
            return NotImplemented
        return self.id == other.id and self._engine is other._engine

    def __hash__(self) -> int:
        return hash(self.id)

    def __copy__(self) -> ObjectRef:
        return self

    def __deepcopy__(self, memo: object) -> ObjectRef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickles that aren't the store's: nobody can know who will have them."""
        self._engine.escaped(self)
        return restore, (self.id, self.session)

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()}, {self._engine.state(self)})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from workbench.report import cards

        return cards.of_ref(self._engine, self).bundle()


def restore(id: int, session: str) -> ObjectRef:
    """Make the handle again in the process that unpickles it.

    Raises
    ------
    ForeignRefError
        If this process isn't in that session.
    """
    engine = context.get()
    if engine is None or engine.session != session:
        where = "no session" if engine is None else f"session {engine.session!r}"
        raise ForeignRefError(
            f"This ref belongs to session {session!r}, and this process has {where}. A ref is "
            "good only inside its own session: get the object there and move the object instead."
        )
    return engine.borrow(id)
