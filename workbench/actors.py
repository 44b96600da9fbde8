"""Actors as people hold them: the class, the handle, its methods. The engine does the rest."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from workbench.engines.base import Call, Engine, Exported, engine_of
from workbench.options import STREAMING, ActorOptions, TaskOptions, changed, parameters_of
from workbench.ref import ObjectRef
from workbench.report.format import printable

ASYNC_CONCURRENCY = 1000
"""Calls that an actor with ``async def`` methods runs at a time, unless it is told otherwise: as
Ray's."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What an actor's worker needs to know to make it."""

    cls: type
    concurrency: int
    is_async: bool


@dataclass(frozen=True, slots=True)
class Description:
    """What a handle knows of its actor; stored under the actor's id."""

    cls: str
    methods: dict[str, tuple[str, ...]]  # each with the names of its positional parameters
    streams: tuple[str, ...]
    max_task_retries: int


class ActorMethod:
    """A method of an actor: ``handle.method.remote(...)``.

    Parameters
    ----------
    handle : ActorHandle
        Whose.
    name : str
        The method's.
    options : TaskOptions
        How it is to be run.
    """

    __slots__ = ("_handle", "_name", "_options")

    def __init__(self, handle: ActorHandle, name: str, options: TaskOptions) -> None:
        self._handle = handle
        self._name = name
        self._options = options

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit one call; it runs after all that this process has submitted to the actor before.

        Parameters
        ----------
        *args, **kwargs
            The method's. A ref among them stands for its object.

        Returns
        -------
        ObjectRef, list of ObjectRef, ObjectRefGenerator, or None
            For ``num_returns`` of 1, more, ``"streaming"`` (a method that yields), or 0.

        Raises
        ------
        SerializationError
            If an argument can't be pickled. Nothing is submitted then.
        """
        ref, description = self._handle._ref, self._handle._description
        call = Call(args, kwargs, self._options, description.methods[self._name])
        return engine_of(ref).call(ref, self._name, call)

    def options(self, **given: Any) -> ActorMethod:
        """The same method with other options.

        Parameters
        ----------
        **given
            Those of `remote` for a function, but ``num_cpus``.

        Returns
        -------
        ActorMethod

        Raises
        ------
        TypeError, ValueError
            If there is no such option, or it can't have that value.
        """
        if "num_cpus" in given:
            raise TypeError("An actor has a process of its own, so its calls have no num_cpus.")
        options = changed(self._options, given, "A call")
        return ActorMethod(self._handle, self._name, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._name} is an actor's method: call `.{self._name}.remote(...)`, and `get` what "
            "it returns."
        )


class ActorHandle:
    """A handle to an actor, which lives as long as its handles, or its name.

    Handles can be passed to tasks and other actors, and stored in objects.

    Parameters
    ----------
    ref : ObjectRef
        Of the object that the actor lives by.
    description : Description
        What is stored there.
    """

    __slots__ = ("__weakref__", "_description", "_ref")

    def __init__(self, ref: ObjectRef, description: Description) -> None:
        self._ref = ref
        self._description = description

    def __getattr__(self, name: str) -> ActorMethod:
        description = self._description
        if name not in description.methods:
            raise AttributeError(
                f"{description.cls} has no method {name!r}; an actor's state is in its own "
                f"process, and only methods reach it: {', '.join(description.methods) or 'none'}."
            )
        options = TaskOptions(
            num_returns=STREAMING if name in description.streams else 1,
            max_retries=description.max_task_retries,
            name=f"{description.cls}.{name}",
        )
        return ActorMethod(self, name, options)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._description.methods]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._ref == other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorHandle, (self._ref, self._description)

    def __repr__(self) -> str:
        return f"ActorHandle({printable(self._description.cls)}, {self._ref.hex()})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self._ref._engine.mimebundle(self)


class ActorClass:
    """A class whose instances are actors: ``Cls.remote(...)`` makes one, in a worker of its own.

    Made by `remote`.

    Parameters
    ----------
    cls : type
        The class.
    options : ActorOptions
        How its actors are to be.
    engine : callable() → Engine
        The session they are made in, when one is.
    exported : dict of int → Exported, optional
        The class as it was sent, by concurrency.
    """

    def __init__(
        self,
        cls: type,
        options: ActorOptions,
        engine: Callable[[], Engine],
        exported: dict[int, Exported] | None = None,
    ) -> None:
        functools.update_wrapper(self, cls, updated=())
        self._cls = cls
        self._options = options
        self._engine = engine
        self._exported = {} if exported is None else exported  # by concurrency

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._cls.__name__} is remote: `{self._cls.__name__}.remote(...)` makes an actor."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClass, (self._cls, self._options, self._engine)

    def options(self, **given: Any) -> ActorClass:
        """The same class with other options, for ``Cls.options(...).remote(...)``.

        Parameters
        ----------
        **given
            Those of `remote` for a class.

        Returns
        -------
        ActorClass

        Raises
        ------
        TypeError, ValueError
            If there is no such option, or it can't have that value.
        """
        options = changed(self._options, given, "An actor")
        return ActorClass(self._cls, options, self._engine, self._exported)

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor. Returns at once; what its ``__init__`` raises, its calls will raise.

        Parameters
        ----------
        *args, **kwargs
            Those of its ``__init__``. A ref among them stands for its object.

        Returns
        -------
        ActorHandle

        Raises
        ------
        ValueError
            If another actor has the name.
        SerializationError
            If the class or an argument can't be pickled.
        """
        engine = self._engine()
        options = self._options
        if options.name:
            ref = engine.find_actor(options.name)
            if ref is not None and options.get_if_exists:
                return handle_of(engine, ref)
            if ref is not None:
                raise ValueError(
                    f"There is an actor named {options.name!r} already: `get_actor"
                    f"({options.name!r})`, or `get_if_exists=True`."
                )
        members = inspect.getmembers(self._cls, inspect.isfunction)
        is_async = any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for _, f in members
        )
        concurrency = options.max_concurrency or (ASYNC_CONCURRENCY if is_async else 1)
        exported = self._exported.get(concurrency)
        if exported is None:
            blueprint: Any = Blueprint(self._cls, concurrency, is_async)
            exported = self._exported[concurrency] = Exported(blueprint, self._cls.__name__)
        description = Description(
            self._cls.__name__,
            {
                name: _parameters_of_method(self._cls, name, method)
                for name, method in inspect.getmembers(self._cls, callable)
                if name[:2] != "__"
            },
            tuple(name for name, method in members if _yields(method)),
            options.max_task_retries,
        )
        options = replace(options, max_concurrency=concurrency)
        call = Call(args, kwargs, options, parameters_of(self._cls))
        return ActorHandle(engine.create(exported, description, call), description)


def handle_of(engine: Engine, ref: ObjectRef) -> ActorHandle:
    """A handle for an actor that another process made."""
    (description,) = engine.get([ref], None, False)
    return ActorHandle(ref, description)


def _parameters_of_method(cls: type, name: str, method: Any) -> tuple[str, ...]:
    """Without ``self``."""
    is_bound = isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    return parameters_of(method)[0 if is_bound else 1 :]


def _yields(method: Any) -> bool:
    return inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)
