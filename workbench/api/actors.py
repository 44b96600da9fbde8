"""Actors as people use them: the class, the handle, its methods. The engine does the rest."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from workbench.api.signatures import Signature, signature_of_class, signature_of_method
from workbench.core.snapshot import ACTOR_PREFIX
from workbench.engine.base import Call, Engine, Exported, engine_of
from workbench.engine.queries import Here, Lookup
from workbench.engine.records import CREATION, Blueprint
from workbench.format import printable, shortened
from workbench.options import (
    ALIASES,
    SEPARATOR,
    STREAMING,
    ActorOptions,
    CallOptions,
    TaskOptions,
    changed,
    full_name,
)
from workbench.ref import ObjectRef

ASYNC_CONCURRENCY = 1000
"""Default number of calls that an actor with ``async def`` methods runs at a time, as in Ray."""

BUILT_IN = {"__ray_ready__": (), "__ray_call__": ("function",), "__ray_terminate__": ()}
"""Methods that every actor has, with the names of their parameters: return True once ``__init__``
is over, run ``function(instance, ...)`` in it, end after the calls before."""

Limits = tuple[int, tuple[tuple[str, int], ...]]
"""How many calls run at a time: without a concurrency group, and of each group."""

_OPTIONS = "__workbench_method__"
"""The attribute of a function in which `method` keeps its options."""

_SHOWING = ("_repr_", "_ipython_")
"""Prefixes of methods by which notebooks show an instance, but not a class."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a handle knows of its actor; stored under the actor's id."""

    cls: str
    methods: dict[str, Signature]
    options: dict[str, dict[str, Any]]  # by method: options of its own
    actor: ActorOptions = field(default_factory=ActorOptions)

    @property
    def name(self) -> str:
        """Name without the namespace."""
        return self.actor.name.rpartition(SEPARATOR)[2]


class ActorMethod:
    """A method of an actor: ``handle.method.remote(...)``.

    Parameters
    ----------
    handle : ActorHandle
        The actor's handle.
    name : str
        The method's name.
    options : CallOptions
        The options of its calls.
    """

    __slots__ = ("_handle", "_name", "_options")

    def __init__(self, handle: ActorHandle, name: str, options: CallOptions) -> None:
        self._handle = handle
        self._name = name
        self._options = options

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit one call. It begins after the calls that this process has submitted before; if the
        actor runs several at a time, as soon as its arguments are ready.

        Parameters
        ----------
        *args, **kwargs
            The method's arguments. A ref among them stands for its object.

        Returns
        -------
        ObjectRef, list of ObjectRef, ObjectRefGenerator, or None
            For ``num_returns`` of 1, more, ``"streaming"`` (a method that yields), or 0.

        Raises
        ------
        SerializationError
            If an argument can't be pickled. Then nothing is submitted.
        TypeError
            If the method doesn't take these arguments.
        """
        ref, description = self._handle._ref, self._handle._description
        signature = description.methods.get(self._name)
        if signature is None:
            parameters = BUILT_IN.get(self._name, ())
        else:
            signature.check(f"{description.cls}.{self._name}", args, kwargs)
            parameters = signature.names
        if self._options.concurrency_group:
            _check_group(description.actor, self._options.concurrency_group)
        call: Call[TaskOptions] = Call(args, kwargs, self._options, parameters)
        return engine_of(ref).call(ref, self._name, call)

    def options(self, /, **given: Any) -> ActorMethod:
        """Return the same method with other options.

        Parameters
        ----------
        **given
            The options of `method`.

        Returns
        -------
        ActorMethod

        Raises
        ------
        TypeError, ValueError
            If there is no such option, or it can't have that value.
        """
        options = changed(self._options, _of_call(given), "A call")
        return ActorMethod(self._handle, self._name, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._name} is an actor's method: call `.{self._name}.remote(...)`, and `get` what "
            "it returns."
        )


class ActorHandle:
    """A handle to an actor. The actor lives as long as its handles, or until `kill` if detached.

    Handles can be passed to tasks and other actors, and stored in objects.

    Parameters
    ----------
    ref : ObjectRef
        Ref of the object that stands for the actor.
    description : Description
        That object's value.
    """

    __slots__ = ("__weakref__", "_description", "_options", "_ref")

    def __init__(self, ref: ObjectRef, description: Description) -> None:
        self._ref = ref
        self._description = description
        self._options: dict[str, CallOptions] = {}  # by method, filled on demand

    def __getattr__(self, name: str) -> ActorMethod:
        options = self._options.get(name)
        if options is None:
            options = self._options[name] = self._options_of(name)
        return ActorMethod(self, name, options)

    def _options_of(self, name: str) -> CallOptions:
        """Return the options of a method; AttributeError if there is none."""
        description = self._description
        if name not in description.methods and name not in BUILT_IN:
            text = (
                f"{description.cls} has no method {name!r}; an actor's state is in its own "
                f"process, and only methods reach it: {', '.join(description.methods) or 'none'}."
            )
            raise AttributeError(shortened(text))
        options = _options_of(description.actor.max_task_retries, f"{description.cls}.{name}")
        if name in description.options:
            options = replace(options, **description.options[name])
        return options

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
        Options of its actors.
    engine : callable() → Engine
        Returns the session in which an actor is made.
    exported : dict of Limits → Exported, optional
        The class as it was sent.
    signatures : dict of str → Signature, optional
        Those of its methods and its ``__init__``, if already known.
    """

    def __init__(
        self,
        cls: type,
        options: ActorOptions,
        engine: Callable[[], Engine],
        exported: dict[Limits, Exported] | None = None,
        signatures: dict[str, Signature] | None = None,
    ) -> None:
        functools.update_wrapper(self, cls, updated=())
        self._cls = cls
        self._options = options
        self._engine = engine
        self._exported = {} if exported is None else exported
        self._signatures = signatures if signatures is not None else _signatures_of(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._cls.__name__} is remote: `{self._cls.__name__}.remote(...)` makes an actor."
        )

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the class: constants, static methods, ``__mro__``."""
        if name == "_cls" or name.startswith(_SHOWING):
            raise AttributeError(name)
        return getattr(self._cls, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._cls)})

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        name = self._cls.__name__
        raise TypeError(
            f"{name} is remote, and no class can be derived from it: derive from the plain class, "
            f"and make both remote (`Remote{name} = remote({name})` leaves {name} what it is)."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClass, (self._cls, self._options, self._engine)

    def options(self, /, **given: Any) -> ActorClass:
        """Return the same class with other options, for ``Cls.options(...).remote(...)``.

        Parameters
        ----------
        **given
            The options of `remote` for a class.

        Returns
        -------
        ActorClass

        Raises
        ------
        TypeError, ValueError
            If there is no such option, or it can't have that value.
        """
        options = changed(self._options, given, "An actor")
        return ActorClass(self._cls, options, self._engine, self._exported, self._signatures)

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor. Returns at once; if its ``__init__`` raises, its calls raise that error.

        Parameters
        ----------
        *args, **kwargs
            Arguments of its ``__init__``. A ref among them stands for its object.

        Returns
        -------
        ActorHandle

        Raises
        ------
        ValueError
            If another actor has the name, or it asks for more processors than the session has.
        SerializationError
            If the class or an argument can't be pickled.
        TypeError
            If its ``__init__`` doesn't take these arguments.
        """
        engine = self._engine()
        here = engine.ask(Here())
        options = replace(self._options, name=full_name(self._options, here.namespace))
        if options.name and (ref := engine.ask(Lookup(ACTOR_PREFIX + options.name))) is not None:
            return _of_that_name(engine, ref, options)
        methods = {**self._signatures}
        signature = methods.pop(CREATION)
        signature.check(self._cls.__name__, args, kwargs)
        members = inspect.getmembers(self._cls, inspect.isfunction)
        is_async = any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for _, f in members
        )
        concurrency = options.max_concurrency or (ASYNC_CONCURRENCY if is_async else 1)
        unordered = options.allow_out_of_order_execution
        if unordered is None:
            unordered = is_async or concurrency > 1 or bool(options.concurrency_groups)
        options = replace(
            options, max_concurrency=concurrency, allow_out_of_order_execution=unordered
        )
        limits = concurrency, options.concurrency_groups
        exported = self._exported.get(limits)
        if exported is None:
            blueprint: Any = Blueprint(self._cls, concurrency, is_async, options.concurrency_groups)
            exported = self._exported[limits] = Exported(blueprint, self._cls.__name__)
        own = {name: given for name, method in members if (given := _own_options(method))}
        for given in own.values():
            if "concurrency_group" in given:
                _check_group(options, given["concurrency_group"])
        description = Description(self._cls.__name__, methods, own, options)
        call = Call(args, kwargs, options, signature.names)
        ref, other = engine.create(exported, description, call)
        if other is not None:  # another process has just made one of that name
            return _of_that_name(engine, other, options)
        return ActorHandle(ref, description)


@functools.lru_cache(1000)
def _options_of(retries: int, name: str) -> CallOptions:
    """Return the options of a method without its own. Cached: making them takes 1 µs."""
    return CallOptions(max_retries=retries, name=name)


def _check_group(options: ActorOptions, group: str) -> None:
    groups = dict(options.concurrency_groups)
    if group not in groups:
        raise ValueError(
            f"There is no concurrency group {group!r}: the class is given them, by "
            f"`remote(concurrency_groups={{{group!r}: 2}})`. It has {', '.join(groups) or 'none'}."
        )


def handle_of(engine: Engine, ref: ObjectRef) -> ActorHandle:
    """Return a handle for an actor that another process made."""
    (description,) = engine.get([ref], None, False)
    return ActorHandle(ref, description)


def _of_that_name(engine: Engine, ref: ObjectRef, options: ActorOptions) -> ActorHandle:
    if options.get_if_exists:
        return handle_of(engine, ref)
    namespace, _, name = options.name.rpartition(SEPARATOR)
    given = f"{name!r}, {namespace!r}" if namespace else repr(name)
    raise ValueError(
        f"There is an actor named {name!r} already: `get_actor({given})`, or `get_if_exists=True`."
    )


def method(function: Any = None, /, **options: Any) -> Any:
    """Set how calls of an actor's method are run: ``@method(num_returns=2)`` in its class.

    Parameters
    ----------
    function : callable, optional
        The method. Left out, a decorator is returned.
    **options
        ``num_returns``, ``max_retries`` (or ``max_task_retries``), ``retry_exceptions``,
        ``timeout``, ``max_ahead`` and ``name``: as for a function, see `remote`.
        ``concurrency_group``: one of the class's ``concurrency_groups``.
        ``.options(...)`` of the method changes them for one call.

    Returns
    -------
    callable
        The method itself, or a decorator that returns it.

    Raises
    ------
    TypeError, ValueError
        If there is no such option, or it can't have that value.
    """
    if function is None:
        return functools.partial(method, **options)
    given = _of_call(options)
    checked = changed(CallOptions(), given, "A method")
    names = [ALIASES.get(key, key) for key in given]
    own = {name: getattr(checked, name) for name in names if hasattr(checked, name)}
    setattr(function, _OPTIONS, own)
    return function


def _of_call(given: dict[str, Any]) -> dict[str, Any]:
    """Return options of a call as those of a task; TypeError for options of the actor itself."""
    ours = {"num_cpus", "memory", "runtime_env", "max_calls"} & given.keys()
    if ours:
        raise TypeError(
            f"An actor has a process of its own, so its calls have no {', '.join(sorted(ours))}: "
            "give that to the class."
        )
    if "max_task_retries" in given:
        others = {key: value for key, value in given.items() if key != "max_task_retries"}
        return {**others, "max_retries": given["max_task_retries"]}
    return given


def _own_options(method: Any) -> dict[str, Any]:
    yields = inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)
    return {**({"num_returns": STREAMING} if yields else {}), **getattr(method, _OPTIONS, {})}


def _signatures_of(cls: type) -> dict[str, Signature]:
    methods = [name for name, _ in inspect.getmembers(cls, callable) if name[:2] != "__"]
    found = {name: signature_of_method(cls, name) for name in methods}
    return {**found, CREATION: signature_of_class(cls)}
