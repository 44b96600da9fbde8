"""Options of `remote(...)` and ``.options(...)``: records, and checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from workbench.ray_api import asks_nothing

MOST_RETURNS = 100_000
"""Results of one task; `core.message_types.Returns` has the same limit."""

DETACHED = "detached"
"""Value of ``lifetime``: until `kill`, or the session's end."""

STREAMING = "streaming"
"""Value of ``num_returns``: as many as the task yields."""

DYNAMIC = "dynamic"
"""Value of ``num_returns``: one, the list of refs to the yielded objects."""

Variables = tuple[tuple[str, str], ...]
"""Environment variables, each with its value."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of a task; `remote` describes them."""

    num_returns: int | str = 1
    max_retries: int = 3
    name: str = ""
    retry_exceptions: tuple[type[BaseException], ...] = ()
    timeout: float = 0.0
    num_cpus: float = 1.0
    max_ahead: int = 16
    memory: int = 0
    runtime_env: Variables = ()
    max_calls: int = 0
    is_usual: bool = field(init=False, repr=False, compare=False)
    """True if a task with these options needs nothing but a processor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_usual", self._is_usual())

    def _is_usual(self) -> bool:
        return (
            self.num_cpus == 1
            and not self.timeout
            and not self.retry_exceptions
            and isinstance(self.num_returns, int)
            and not self.memory
            and not self.runtime_env
            and not self.max_calls
        )


@dataclass(frozen=True, slots=True)
class CellOptions(TaskOptions):
    """Further options of a background cell.

    ``job`` is the name by which people find it again, ``binds`` are the variables for its
    results except the first. If it is ``size`` tasks, ``group`` is the id of the first
    one, 0 in the first one itself.
    """

    job: str = ""
    binds: tuple[str, ...] = ()
    size: int = 1
    group: int = 0

    def _is_usual(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ExecutorOptions(TaskOptions):
    """Further options of an executor's task: at most ``max_workers`` of an executor run at a time.
    ``executor`` is a number unique in the session."""

    executor: int = 0
    max_workers: int = 0

    def _is_usual(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class CallOptions(TaskOptions):
    """Options of an actor's method; `method` describes them."""

    concurrency_group: str = ""

    def _is_usual(self) -> bool:
        return not self.concurrency_group and TaskOptions._is_usual(self)


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """Options of a class; `remote` describes them."""

    name: str = ""
    max_restarts: int = 0
    max_task_retries: int = 0
    max_concurrency: int = 0
    get_if_exists: bool = False
    num_cpus: float = 0.0
    memory: int = 0
    runtime_env: Variables = ()
    namespace: str = ""
    lifetime: str = ""
    allow_out_of_order_execution: bool | None = None
    concurrency_groups: tuple[tuple[str, int], ...] = ()


ALIASES = {"_generator_backpressure_num_objects": "max_ahead"}
"""Ray's names for options of ours; -1 is its default."""

Options = TypeVar("Options", TaskOptions, CallOptions, ActorOptions)

LONGEST = 1e9
"""Longest time limit in seconds: 30 years."""

MOST = (1 << 31) - 1
"""Most retries, restarts and calls at a time. A greater number is reduced to it: as good as all."""


def names_in(options: type[Options]) -> list[str]:
    """Return the names of the options."""
    return [each.name for each in fields(options) if each.init]


def changed(options: Options, given: Mapping[str, Any], what: str) -> Options:
    """Return the options with the given ones replaced; None leaves one unchanged.

    ``what`` says whose they are, for errors: ``A task``. TypeError or ValueError if there is no
    such option, or it can't have that value.
    """
    known = names_in(type(options))
    asked = {key: value for key, value in given.items() if not asks_nothing(key, value)}
    given = {ALIASES.get(k, k): v for k, v in asked.items() if not (k in ALIASES and v == -1)}
    unknown = given.keys() - known
    if unknown:
        raise TypeError(
            f"{what} has no option {', '.join(sorted(unknown))}. There are: {', '.join(known)}."
        )
    return replace(
        options, **{key: _CHECKS[key](key, v) for key, v in given.items() if v is not None}
    )


def _whole(least: int) -> Callable[[str, Any], int]:
    def check(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wrong = f"{key}={value!r} must be a whole number, {least} or more."
            raise _error(value, int)(wrong)
        return min(value, MOST)

    return check


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        raise _error(value, int, float)(f"{key}={value!r} must be a number, 0 or more.")
    return float(value)


def _error(value: Any, *types: type) -> type[TypeError | ValueError]:
    """Return TypeError for a value of none of the types, else ValueError. A bool is no int."""
    return ValueError if type(value) is not bool and isinstance(value, types) else TypeError


def _positive(key: str, value: Any) -> float:
    if _number(key, value) == 0:
        raise ValueError(f"{key}={value!r} must be above 0; leave it out for no limit.")
    return float(value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key}={value!r} must be text.")
    return value


def _groups(key: str, value: Any) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{key}={value!r} must be a dict like {{'io': 2}}: how many run at a time.")
    if "" in value:
        raise ValueError(f"{key}={value!r} must have names that aren't empty.")
    return tuple((name, _whole(1)(f"{key}[{name!r}]", most)) for name, most in value.items())


def _switch(key: str, value: Any) -> bool:
    return bool(value)


def _returns(key: str, value: Any) -> int | str:
    if value in (STREAMING, DYNAMIC):
        return str(value)
    if isinstance(value, str):
        raise ValueError(f"num_returns={value!r} must be a number, {STREAMING!r} or {DYNAMIC!r}.")
    number = _whole(0)(key, value)
    if number > MOST_RETURNS:
        raise ValueError(
            f"num_returns={number:,} is more than {MOST_RETURNS:,}: yield the results "
            f"(num_returns={STREAMING!r}), or return a list."
        )
    return number


def _exceptions(key: str, value: Any) -> tuple[type[BaseException], ...]:
    if isinstance(value, bool):
        return (Exception,) if value else ()
    types = (value,) if isinstance(value, type) else value
    if not isinstance(types, tuple | list) or not all(
        isinstance(t, type) and issubclass(t, Exception) for t in types
    ):
        wrong = f"{key}={value!r} must be True, or a list of exception types."
        raise _error(value, tuple, list)(wrong)
    return tuple(types)


def _bytes(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 62:
        wrong = f"{key}={value!r} must be a number of bytes, 0 or more."
        raise _error(value, int, float)(wrong)
    return int(value)


def _namespace(key: str, value: Any) -> str:
    if not _text(key, value) or SEPARATOR in value:
        raise ValueError(f"{key}={value!r} must not be empty, or have {SEPARATOR!r} in it.")
    return str(value)


def _lifetime(key: str, value: Any) -> str:
    if value not in (DETACHED, "non_detached"):
        raise _error(value, str)(f"{key}={value!r} must be {DETACHED!r} or 'non_detached'.")
    return str(value)


def environment_of(key: str, value: Any) -> Variables:
    """Return the variables of a ``runtime_env``; TypeError, ValueError if it has anything else."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{key}={value!r} must be a dict like {{'env_vars': {{'NAME': 'value'}}}}.")
    others = [part for part, content in value.items() if content and part != "env_vars"]
    if others:
        raise ValueError(
            f"{key} takes 'env_vars' and nothing else, not {', '.join(map(repr, others))}: workers "
            "have the notebook's own Python, packages, files and directory. Install what they need "
            "there (`%pip install`)."
        )
    variables = value.get("env_vars") or {}
    if not isinstance(variables, Mapping) or not all(
        isinstance(text, str) and "\0" not in text for pair in variables.items() for text in pair
    ):
        raise TypeError(f"The env_vars of {key} must be texts by name, not {variables!r}.")
    return tuple(variables.items())


SEPARATOR = "::"
"""Separates the namespace from the name of an actor that has one."""


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "num_returns": _returns,
    "max_retries": _whole(-1),
    "max_calls": _whole(0),
    "name": _text,
    "retry_exceptions": _exceptions,
    "timeout": _positive,
    "num_cpus": _number,
    "max_ahead": _whole(1),
    "memory": _bytes,
    "runtime_env": environment_of,
    "namespace": _namespace,
    "lifetime": _lifetime,
    "max_restarts": _whole(-1),
    "max_task_retries": _whole(-1),
    "max_concurrency": _whole(1),
    "get_if_exists": _switch,
    "allow_out_of_order_execution": _switch,
    "concurrency_groups": _groups,
    "concurrency_group": _text,
}


def full_name(options: ActorOptions, default: str) -> str:
    """Return the name with its namespace; ``default`` if none is given. ValueError if the options
    contradict each other."""
    name, namespace = options.name, options.namespace or default
    if options.lifetime == DETACHED and not name:
        raise ValueError(
            f"lifetime={DETACHED!r} needs a `name`: else nobody finds the actor when its handles "
            "are gone."
        )
    if options.get_if_exists and not name:
        raise ValueError("get_if_exists=True needs a `name`: that of the actor to get.")
    if SEPARATOR in name:
        raise ValueError(f"name={name!r} must not have {SEPARATOR!r} in it.")
    return f"{namespace}{SEPARATOR}{name}" if name and namespace else name
