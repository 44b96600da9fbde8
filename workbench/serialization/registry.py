"""Custom serializers by class: what this process registered, and what it was told of.

Never cloudpickle's own tables: plain ``cloudpickle.dumps`` in the same process is not changed.
The deserializer travels with each object, so whoever reads it needs no registration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from workbench.errors import SerializationError
from workbench.serialization.arrays import Reducer

Function = Callable[[Any], Any]

_BUILT_IN = frozenset(
    {type(None), bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set}
    | {frozenset, type, FunctionType}
)
"""What the pickler takes apart before it asks anybody."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A reducer made of a serializer and a deserializer."""

    cls: type
    serializer: Function
    deserializer: Function

    def __call__(self, obj: Any) -> tuple[Any, ...]:
        """What ``__reduce__`` would return for this object."""
        name = self.cls.__qualname__
        try:
            data = self.serializer(obj)
        except Exception as error:
            raise SerializationError(
                f"The serializer registered for {name} raised {type(error).__name__}: {error}."
            ) from error
        return rebuild, (name, self.deserializer, data)


def rebuild(name: str, deserializer: Function, data: Any) -> Any:
    """Make the object again; where a stored one is read.

    Raises
    ------
    SerializationError
        If the deserializer raises.
    """
    try:
        return deserializer(data)
    except Exception as error:
        raise SerializationError(
            f"The deserializer registered for {name} raised {type(error).__name__}: {error}."
        ) from error


class Registry:
    """The serializers of one process in one session, by exact class.

    Threads: `tell` and `retract` may be called from any; what was told is loaded by whoever
    serializes next, since that imports and runs a user's code.

    Parameters
    ----------
    load : callable(bytes) → Custom
        Makes what other processes say readable.
    """

    def __init__(self, load: Callable[[bytes], Custom]) -> None:
        self._load = load
        self._reducers: dict[type, Reducer] = {}
        self._numbers: dict[type, int] = {}  # of those registered here
        self._told: dict[int, type] = {}  # of those registered elsewhere
        self._news: deque[tuple[int, bytes]] = deque()
        self._broken: dict[int, str] = {}

    # -- registered here ----------------------------------------------------------------------

    def add(self, custom: Custom, next_id: Callable[[], int]) -> int:
        """Use it from now on; returns the number that others know it by."""
        self._reducers[custom.cls] = custom
        number = self._numbers.get(custom.cls)
        if number is None:
            number = self._numbers[custom.cls] = next_id()
        return number

    def remove(self, cls: type) -> int | None:
        """Don't use it any more; None if there is none."""
        self._reducers.pop(cls, None)
        return self._numbers.pop(cls, None)

    # -- registered elsewhere -----------------------------------------------------------------

    def tell(self, number: int, payload: bytes) -> None:
        """Another process registered this; an empty payload takes it back."""
        self._news.append((number, payload))

    def reducers(self) -> dict[type, Reducer]:
        """All in use."""
        while self._news:
            self._learn(*self._news.popleft())
        return self._reducers

    def _learn(self, number: int, payload: bytes) -> None:
        self._broken.pop(number, None)
        known = self._told.pop(number, None)
        if known is not None:
            self._reducers.pop(known, None)
        if payload:
            try:
                custom = self._load(payload)
            except Exception as error:
                self._broken[number] = str(error)
            else:
                self._told[number] = custom.cls
                self._reducers[custom.cls] = custom

    @property
    def broken(self) -> list[str]:
        """Why what others registered can't be used here."""
        return list(self._broken.values())


def check(cls: Any, serializer: Any, deserializer: Any) -> Custom:
    """A custom serializer, if it can be one.

    Raises
    ------
    TypeError
        If one of the three isn't what it has to be.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_serializer takes a class, not {cls!r}.")
    if cls in _BUILT_IN:
        raise TypeError(
            f"{cls.__name__} can't have a serializer: pickle takes it apart by itself. Register "
            "one for a class of your own that holds it."
        )
    for what, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise TypeError(f"The {what} must be a function of one argument, not {function!r}.")
    return Custom(cls, serializer, deserializer)
