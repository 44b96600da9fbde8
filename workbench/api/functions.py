"""`remote`: functions that run on the pool, as people hold and call them. Classes: see `actors`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from workbench import api, context
from workbench.api.actors import ActorClass
from workbench.api.signatures import Signature, signature_of
from workbench.call_site import name_of
from workbench.engine.base import Call, Exported
from workbench.options import ALIASES, STREAMING, ActorOptions, TaskOptions, changed, names_in
from workbench.ray_api import OF_TASKS
from workbench.report.mistyped import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A function that runs on the pool: ``f.remote(...)`` returns an `ObjectRef`.

    Made by `remote`. The function is sent at the first call, and again when what it refers to has
    changed.

    Parameters
    ----------
    function : callable
        What runs there.
    options : TaskOptions
        How.
    exported : Exported, optional
        The function as it was sent, if it was.
    signature : Signature, optional
        What it takes, if that is known by now.
    """

    def __init__(
        self,
        function: Callable[P, R],
        options: TaskOptions,
        exported: Exported | None = None,
        signature: Signature | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._exported = exported or Exported(function, getattr(function, "__qualname__", "task"))
        self._signature = signature or signature_of(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._exported.name
        if not name.isidentifier():  # a lambda, or an inner function
            name = name_of(self)
        raise TypeError(
            f"{name} is remote: call `{name}.remote(...)`, or `{name}.__wrapped__(...)` to run it "
            "in this process."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to a worker, as part of a cell or another function, it works there too."""
        return RemoteFunction, (self._function, self._options)

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit one call.

        Parameters
        ----------
        *args, **kwargs
            The function's. A ref among them stands for its object.

        Returns
        -------
        ObjectRef, list of ObjectRef, ObjectRefGenerator, or None
            For ``num_returns`` of 1, more, ``"streaming"``, or 0.

        Raises
        ------
        SerializationError
            If the function or an argument can't be pickled. Nothing is submitted then.
        ValueError
            If it asks for more processors than the session has.
        TypeError
            If the function doesn't take these arguments.
        """
        self._signature.check(self._exported.name, args, kwargs)
        target = context.get()
        if target is None:
            target = api.engine()
        return target.submit(self._exported, Call(args, kwargs, self._options))

    def options(self, /, **given: Any) -> RemoteFunction[P, R]:
        """The same function with other options, for ``f.options(...).remote(...)``.

        Parameters
        ----------
        **given
            Those of `remote`.

        Returns
        -------
        RemoteFunction

        Raises
        ------
        TypeError, ValueError
            If there is no such option, or it can't have that value.
        """
        options = changed(self._options, given, "A task")
        return RemoteFunction(self._function, options, self._exported, self._signature)


@overload
def remote(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(
    *,
    num_returns: int | str | None = None,
    max_retries: int | None = None,
    retry_exceptions: bool | Sequence[type[Exception]] | None = None,
    timeout: float | None = None,
    num_cpus: float | None = None,
    max_ahead: int | None = None,
    name: str | None = None,
    memory: float | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    max_calls: int | None = None,
    **others: Any,
) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]: ...
def remote(function: Any = None, /, **options: Any) -> Any:
    """Make a function or a class remote: ``@remote`` or ``@remote(num_returns=2)``.

    Parameters
    ----------
    function : callable or class, optional
        Left out if there are options: then a decorator is returned.
    **options
        Of a function:

        num_returns : int, "streaming" or "dynamic"
            How many results, each with a ref of its own (default 1): what it returns is a tuple of
            so many, or it yields them. ``"streaming"``, the default of a function that yields:
            ``.remote()`` returns an `ObjectRefGenerator`, which gives the refs while the task runs.
            ``"dynamic"``: one ref, of a `DynamicObjectRefGenerator` of all it has yielded.
        max_retries : int
            How often it is run again when its worker dies (default 3; -1: always).
        retry_exceptions : bool, or list of exception types
            Run it again when it raises too (one of these), as often (default False).
        timeout : float
            Seconds it may run. Then it is interrupted, and if it doesn't hear that within a second
            its worker is ended; whoever gets it has TaskTimeoutError. Default: no limit.
        num_cpus : float
            Processors it needs (default 1): 2 leaves that many fewer for others, 0.5 or 0 lets
            more tasks run than there are processors, for those that mostly wait.
        max_ahead : int
            How many items a stream may be ahead of its reader (default 16).
        memory : int
            Bytes it needs: no more of those tasks run at a time than the machine has memory for
            (default 0). Nobody holds it to that.
        runtime_env : dict
            ``{"env_vars": {"NAME": "value"}}``: variables of its environment. They are set when it
            begins: a library that reads them when it is imported may have been imported before.
        max_calls : int
            After how many of its calls a worker ends, with what C code has kept in it, so that
            another takes its place (default 0: never).
        name : str
            What it is called in messages; default the function's own name.

        Of a class:

        name : str
            By which `get_actor` finds the actor, as long as it lives.
        namespace : str
            Actors of different namespaces may have the same name (default: none).
        lifetime : str
            ``"detached"``, which needs a name: it lives until `kill`, or the session's end.
            Default: as long as anybody has a handle.
        get_if_exists : bool
            Return the actor of that name if there is one (default False: that is an error).
        max_restarts : int
            How often the actor is made again when its worker dies (default 0; -1: always).
        max_task_retries : int
            How often a call is tried again for that reason (default 0; -1: always).
        max_concurrency : int
            How many of its calls run at a time (default 1; with ``async def`` methods 1000).
        concurrency_groups : dict of str → int
            ``{"io": 2}``: groups of methods (``@method(concurrency_group="io")``) of which so many
            run at a time, in threads of their own, or on a loop of their own. What belongs to none
            shares ``max_concurrency``.
        allow_out_of_order_execution : bool
            Begin calls as soon as their arguments are there, and not in the order in which their
            caller submitted them (default: if there are ``async def`` methods or concurrency
            groups, or ``max_concurrency`` is above 1).
        num_cpus : float
            Processors that it takes from tasks while it lives (default 0). If other actors have
            them, it is made when they have ended; one task runs in any case.
        memory, runtime_env
            As for a function.

        Other options of Ray's are accepted if they ask for what is so here anyway (``num_gpus=0``),
        and else refused with what to do instead.

    Returns
    -------
    RemoteFunction, ActorClass, or a decorator that makes one
        Called by ``.remote(...)``.

    Raises
    ------
    TypeError, ValueError
        If there is no such option, or it can't have that value.
    """
    known = {*names_in(TaskOptions), *names_in(ActorOptions)}
    unknown = sorted(options.keys() - known - OF_TASKS.keys() - ALIASES.keys())
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise TypeError(
            f"remote has no option {', '.join(unknown)}.{hint} There are: "
            f"{', '.join(sorted(known))}."
        )
    if function is None:
        return functools.partial(_remote, options)
    return _remote(options, function)


def _remote(options: dict[str, Any], function: Any) -> Any:
    if isinstance(function, type):
        return ActorClass(function, changed(ActorOptions(), options, "An actor"), api.engine)
    if isinstance(function, RemoteFunction | ActorClass):
        name = vars(function).get("__name__", "It")  # that of what it wraps
        raise TypeError(
            f"{name} is remote already: `{name}.options(...)` is the same with other options."
        )
    if not callable(function):
        raise TypeError(f"remote takes a function or a class, not {function!r}.")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        name = getattr(function, "__name__", "It")
        raise ValueError(
            f"{name} is `async def`, and a task has no event loop. Make it a method of a remote "
            "class, or make a function remote that calls `asyncio.run(...)`."
        )
    if inspect.isgeneratorfunction(function) and options.get("num_returns") is None:
        options = {**options, "num_returns": STREAMING}
    return RemoteFunction(function, changed(TaskOptions(), options, "A task"))
