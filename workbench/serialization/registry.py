"""Custom serializers by class: those registered in this process, and in others of the session.

Doesn't touch cloudpickle's tables: plain ``cloudpickle.dumps`` in this process stays the same.
The deserializer travels with each object, so readers need no registration.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from workbench.errors import SerializationError
from workbench.serialization.arrays import Reducer, Reducers

Function = Callable[[Any], Any]

_BUILT_IN = frozenset(
    {type(None), bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set}
    | {frozenset, type, FunctionType}
)
"""Types that the pickler handles before it asks for a reducer."""


@dataclass(frozen=True, slots=True)
class Custom:
    """Reducer made of a serializer and a deserializer: for a class, not for its subclasses.
    TypeError if `cls` is no class or one that pickle never asks about, or one of the others no
    function."""

    cls: type
    serializer: Function
    deserializer: Function

    def __post_init__(self) -> None:
        if not isinstance(self.cls, type):
            raise TypeError(f"register_serializer takes a class, not {self.cls!r}.")
        if self.cls in _BUILT_IN:
            raise TypeError(
                f"{self.cls.__name__} can't have a serializer: pickle takes it apart by itself. "
                "Register one for a class of your own that holds it."
            )
        for what in ("serializer", "deserializer"):
            if not callable(function := getattr(self, what)):
                raise TypeError(f"The {what} must be a function of one argument, not {function!r}.")

    def parts(self) -> dict[str, Any]:
        """Return the parts among which an error of pickling is searched, by name."""
        functions = {"serializer": self.serializer, "deserializer": self.deserializer}
        return {self.cls.__name__: self.cls, **functions}

    def __call__(self, obj: Any) -> tuple[Any, ...]:
        """Reduce the object, as its ``__reduce__`` would."""
        name = self.cls.__qualname__
        data = _called("serializer", name, self.serializer, obj)
        return rebuild, (name, self.deserializer, data)


def rebuild(name: str, deserializer: Function, data: Any) -> Any:
    """Rebuild an object of the class with this name; called where a stored one is read.
    SerializationError if the deserializer raises."""
    return _called("deserializer", name, deserializer, data)


def _called(what: str, name: str, function: Function, argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as error:
        raise SerializationError(
            f"The {what} registered for {name} raised {type(error).__name__}: {error}."
        ) from error


class Registry:
    """Serializers of one process in one session, by exact class.

    Threads: any thread may call any method. Registrations from elsewhere are loaded by the next
    thread that serializes, since that imports and runs user code; `queue_registration` never
    waits for it.
    """

    def __init__(self, load: Callable[[bytes], Custom]) -> None:
        self._load = load
        self._lock = threading.RLock()  # held while loading: others wait
        self._learning = False
        self._known: dict[int, Custom] = {}  # by number; the later of two for one class counts
        self._reducers: dict[type, Reducer] = {}  # replaced, never changed
        self._numbers: dict[type, int] = {}  # of the classes registered here
        self._news: deque[tuple[int, bytes]] = deque()
        self.broken: dict[int, str] = {}  # why those from elsewhere can't be used here

    # -- registered here ----------------------------------------------------------------------

    def add(self, custom: Custom, next_id: Callable[[], int]) -> int:
        """Use it from now on; return the number by which others know it."""
        with self._lock:
            number = self._numbers.get(custom.cls)
            if number is None:
                number = self._numbers[custom.cls] = next_id()
            self._set(number, custom)
            return number

    def remove(self, cls: type) -> int | None:
        """Stop using it; return its number, None if there is none."""
        with self._lock:
            number = self._numbers.pop(cls, None)
            if number is not None:
                self._set(number, None)
            return number

    # -- registered elsewhere -----------------------------------------------------------------

    def queue_registration(self, number: int, payload: bytes) -> None:
        """Queue a registration of another process; an empty payload revokes it."""
        self._news.append((number, payload))

    def reducers(self) -> Reducers:
        """Return all reducers in use. Don't change the mapping."""
        if self._news:
            with self._lock:
                if not self._learning:  # loading may itself serialize something
                    self._learn()
        return self._reducers

    def _learn(self) -> None:
        self._learning = True
        try:
            while True:
                if not self._news:
                    return
                # Each stays in the queue until it is known: Ctrl-C may interrupt loading.
                number, payload = self._news[0]
                self.broken.pop(number, None)
                custom = None
                try:
                    custom = self._load(payload) if payload else None
                except Exception as error:
                    self.broken[number] = str(error)
                self._set(number, custom)
                self._news.popleft()
        finally:
            self._learning = False

    def _set(self, number: int, custom: Custom | None) -> None:
        self._known.pop(number, None)
        if custom is not None:
            self._known[number] = custom
        self._reducers = {each.cls: each for each in self._known.values()}
