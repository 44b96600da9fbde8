"""`remote`: functions that run on the pool, as people call them. Classes: see `actors`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from workbench import api, config, context
from workbench.api.actors import ActorClass
from workbench.api.signatures import Signature, signature_of
from workbench.call_site import name_of
from workbench.engine.base import Call, Exported
from workbench.options import (
    ALIASES,
    DYNAMIC,
    STREAMING,
    ActorOptions,
    TaskOptions,
    changed,
    names_in,
)
from workbench.ray_api import OF_TASKS
from workbench.report.mistyped import did_you_mean

CACHE = "cache"
"""The option of `remote` that isn't one of tasks: it is about the function."""

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A function that runs on the pool: ``f.remote(...)`` returns an `ObjectRef`.

    Made by `remote`. The function is sent at the first call, and again after what it refers to has
    changed.

    Parameters
    ----------
    function : callable
        The function to run there.
    options : TaskOptions
        The options of its calls.
    exported : Exported, optional
        The function as it was sent, if it was.
    signature : Signature, optional
        The arguments that it takes, if already known.
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
        """Pickle it as part of a cell or another function: it also works on a worker."""
        return RemoteFunction, (self._function, self._options)

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit one call.

        Parameters
        ----------
        *args, **kwargs
            The function's arguments. A ref among them stands for its object.

        Returns
        -------
        ObjectRef, list of ObjectRef, ObjectRefGenerator, or None
            For ``num_returns`` of 1, more, ``"streaming"``, or 0.

        Raises
        ------
        SerializationError
            If the function or an argument can't be pickled. Then nothing is submitted.
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
        """Return the same function with other options, for ``f.options(...).remote(...)``.

        Parameters
        ----------
        **given
            The options of `remote`.

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
    cache: bool | None = None,
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
            Number of results, each with its own ref (default 1): the function returns a tuple of
            that length, or yields them. ``"streaming"``, the default of a function that yields:
            ``.remote()`` returns an `ObjectRefGenerator`, which gives the refs while the task runs.
            ``"dynamic"``: one ref, of a `DynamicObjectRefGenerator` of all yielded items.
        max_retries : int
            How often it is retried when its worker dies (default 3; -1: always).
        retry_exceptions : bool, or list of exception types
            Also retry it when it raises (one of these), as often (default False).
        timeout : float
            Seconds it may run. Then it is interrupted; if it ignores that for a second, its worker
            is killed. `get` raises TaskTimeoutError. Default: no limit.
        num_cpus : float
            Processors it needs (default 1): 2 leaves two fewer for others; 0.5 or 0 lets more
            tasks run than there are processors, for tasks that mostly wait.
        max_ahead : int
            How many items a generator may be ahead of its reader (default 16).
        memory : int
            Bytes it needs: no more such tasks run at a time than the machine has memory for
            (default 0). This isn't enforced.
        runtime_env : dict
            ``{"env_vars": {"NAME": "value"}}``: environment variables. They are set when the task
            begins: a library that reads them on import may have been imported before.
        max_calls : int
            After how many of its calls a worker is replaced, with the memory that C code keeps in
            it (default 0: never).
        cache : bool
            The same call isn't run again (default False): its result is found on disk, also by
            other sessions, and what it printed is shown again. The function's code and globals, its
            arguments, the files that it opens and the packages that it uses have to be the same;
            what isn't checked is said once.
        name : str
            Its name in messages; default the function's own name.

        Of a class:

        name : str
            Name by which `get_actor` finds the actor while it lives.
        namespace : str
            Actors of different namespaces may have the same name (default: none).
        lifetime : str
            ``"detached"``, which needs a name: it lives until `kill` or the session's end.
            Default: while there is a handle.
        get_if_exists : bool
            Return the actor of that name if there is one (default False: that is an error).
        max_restarts : int
            How often the actor is restarted when its worker dies (default 0; -1: always).
        max_task_retries : int
            How often a call is retried then (default 0; -1: always).
        max_concurrency : int
            How many of its calls run at a time (default 1; with ``async def`` methods 1000).
        concurrency_groups : dict of str → int
            ``{"io": 2}``: groups of methods (``@method(concurrency_group="io")``) and how many of
            their calls run at a time, in threads or a loop of the group's own. Methods without a
            group share ``max_concurrency``.
        allow_out_of_order_execution : bool
            Begin calls as soon as their arguments are ready, not in the order in which they were
            submitted (default: if there are ``async def`` methods or concurrency groups, or
            ``max_concurrency`` is above 1).
        num_cpus : float
            Processors that it takes from tasks while it lives (default 0). If other actors have
            them, it is made after these have ended. One task can always run.
        memory, runtime_env
            As for a function.

        Ray's other options are accepted if they ask for what always holds here (``num_gpus=0``);
        else an error says what to do instead.

    Returns
    -------
    RemoteFunction, ActorClass, or a decorator that makes one
        Called by ``.remote(...)``.

    Raises
    ------
    TypeError, ValueError
        If there is no such option, or it can't have that value.
    """
    known = {*names_in(TaskOptions), *names_in(ActorOptions), CACHE}
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
    options = dict(options)  # a decorator may be used again
    caches = bool(options.pop(CACHE, False))
    if isinstance(function, type):
        if caches:
            raise TypeError("Only functions have cached results: a class keeps state.")
        return ActorClass(function, changed(ActorOptions(), options, "An actor"), api.engine)
    if isinstance(function, RemoteFunction | ActorClass):
        name = vars(function).get("__name__", "It")  # name of the wrapped function or class
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
    if caches:
        from workbench.host.cached_functions import CachedFunction  # it needs the pickler

        if options.get("num_returns") in (STREAMING, DYNAMIC):
            raise ValueError("The items that a function yields aren't cached: return a list.")
        function = CachedFunction(
            function, str(config.cache_directory()), config.load().cache_limit
        )
    return RemoteFunction(function, changed(TaskOptions(), options, "A task"))
