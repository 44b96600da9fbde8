"""State of the interpreter and of the process that tasks may change, in parts to be put back.

To compare all of it takes some microseconds, for each task pays for it. What libraries have
besides: `kept_libraries`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal.getsignal` takes five times as long
import builtins
import gc
import locale
import logging
import os
import signal
import socket
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

T = TypeVar("T")

GONE = object()
"""In place of a value: there was none."""


class Kept(Protocol):
    """One part of it, as it was when this was made."""

    def look(self) -> Any:
        """It now: a copy, to be compared."""

    def learn(self, before: Any, after: Any) -> None:
        """What is different between two looks belongs to the process: it stays."""

    def restore(self) -> None:
        """Put back what is different."""


class KeptValue(Generic[T]):
    """What one function tells and another one sets."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], object]) -> None:
        self._read = read
        self._write = write
        self._kept = read()

    def look(self) -> T:
        return self._read()

    def learn(self, before: T, after: T) -> None:
        if before != after:
            self._kept = after

    def restore(self) -> None:
        if self._read() != self._kept:
            self._write(self._kept)


class KeptAttributes:
    """Attributes of a module, by identity. ``undo`` is called before they are put back."""

    def __init__(
        self, module: ModuleType, *names: str, undo: Callable[[], object] = lambda: None
    ) -> None:
        self._undo = undo
        self._module = vars(module)
        self._names = names
        self._get = itemgetter(*names)
        self._kept = self._get(self._module)

    def look(self) -> tuple[Any, ...]:
        return tuple(self._module.get(name, GONE) for name in self._names)

    def learn(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        changed = zip(self._kept, before, after, strict=True)
        self._kept = tuple(kept if was is now else now for kept, was, now in changed)

    def restore(self) -> None:
        with suppress(KeyError):  # somebody deleted one
            if self._get(self._module) == self._kept:
                return
        self._undo()
        self._module.update(zip(self._names, self._kept, strict=True))


class KeptEntries:
    """A dict's: each for itself. ``put`` sets one, or deletes it (`GONE`).

    ``ours`` are keys that may come: they stay from then on.
    """

    def __init__(
        self,
        live: MutableMapping[Any, Any],
        put: Callable[[Any, Any], object] | None = None,
        ours: Iterable[Any] = (),
    ) -> None:
        self._live = live
        self._put = put or self._set
        self._ours = frozenset(ours)
        self._kept = dict(live)

    def look(self) -> dict[Any, Any]:
        return dict(self._live)

    def learn(self, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> None:
        for key in differing(before, after):
            if key in after:
                self._kept[key] = after[key]
            else:
                self._kept.pop(key, None)

    def restore(self) -> None:
        if self._live == self._kept:
            return
        for key in differing(self._kept, dict(self._live)):
            if key in self._ours and key not in self._kept:
                self._kept[key] = self._live[key]
            else:
                self._put(key, self._kept.get(key, GONE))

    def _set(self, key: Any, value: Any) -> None:
        if value is GONE:
            self._live.pop(key, None)
        else:
            self._live[key] = value


class KeptList:
    """A list's, in their order. ``live`` finds it, ``after`` is called when it was changed."""

    def __init__(
        self, live: Callable[[], list[Any]], after: Callable[[], object] = lambda: None
    ) -> None:
        self._live = live
        self._after = after
        self._kept = list(live())

    def look(self) -> list[Any]:
        return list(self._live())

    def learn(self, before: list[Any], after: list[Any]) -> None:
        """What came before all others stays there, what came later goes to the end."""
        if before == after:
            return
        first = next((n for n, item in enumerate(after) if item in before), len(after))
        new = [item for item in after if item not in before and item not in self._kept]
        kept = [item for item in self._kept if item in after or item not in before]
        leading = [item for item in after[:first] if item in new]
        self._kept = [*leading, *kept, *(item for item in new if item not in leading)]

    def restore(self) -> None:
        live = self._live()
        if live != self._kept:
            live[:] = self._kept
            self._after()


class Umask:
    """To read it, it has to be set."""

    def __init__(self) -> None:
        self._kept = self.look()

    def look(self) -> int:
        mask = os.umask(0o077)
        os.umask(mask)
        return mask

    def learn(self, before: int, after: int) -> None:
        if before != after:
            self._kept = after

    def restore(self) -> None:
        os.umask(self._kept)


Settings = tuple[int, bool, bool, list[Any], list[Any]]
"""A logger's level, whether it is disabled, and propagates; its handlers and filters."""


class Loggers:
    """What is set on each logger. One that wasn't there is as if nobody had set anything on it."""

    _UNSET: Settings = (logging.NOTSET, False, True, [], [])

    def __init__(self) -> None:
        self._root = logging.getLogger()
        self._known = logging.Logger.manager.loggerDict
        self._kept = self.look()

    def look(self) -> dict[logging.Logger, Settings]:
        return {
            logger: (
                logger.level,
                logger.disabled,
                logger.propagate,
                list(logger.handlers),
                list(logger.filters),
            )
            for logger in self._all()
        }

    def learn(
        self, before: Mapping[logging.Logger, Settings], after: Mapping[logging.Logger, Settings]
    ) -> None:
        self._kept |= {
            logger: now for logger, now in after.items() if before.get(logger, self._UNSET) != now
        }

    def restore(self) -> None:
        kept, unset = self._kept, self._UNSET
        for logger in self._all():
            level, disabled, propagates, handlers, filters = kept.get(logger, unset)
            if logger.level != level:
                logger.setLevel(level)
            if logger.handlers != handlers:
                self._restore_handlers(logger, handlers)
            if logger.filters != filters:
                logger.filters[:] = filters
            logger.disabled, logger.propagate = disabled, propagates

    def _restore_handlers(self, logger: logging.Logger, handlers: list[Any]) -> None:
        for handler in [each for each in logger.handlers if each not in handlers]:
            logger.removeHandler(handler)
            handler.close()  # of a file it may have
        logger.handlers[:] = handlers

    def _all(self) -> list[logging.Logger]:
        named = list(self._known.values())  # threads make loggers, too
        return [self._root, *(each for each in named if isinstance(each, logging.Logger))]


def differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Any]:
    """The keys whose values aren't the same, or that only one of them has."""
    return [
        key
        for key in {**one, **other}
        if key not in one or key not in other or not _same(one[key], other[key])
    ]


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays, for example
        return False


def interpreter() -> list[Kept]:
    """All of it that there is without libraries."""
    set_locale = partial(locale.setlocale, locale.LC_ALL)
    parts: list[Kept] = [
        KeptAttributes(
            sys, "stdin", "stdout", "stderr", "argv", "excepthook", "displayhook",
            "unraisablehook", "breakpointhook", "dont_write_bytecode",
        ),
        KeptAttributes(threading, "excepthook", "__excepthook__"),
        KeptAttributes(
            warnings, "showwarning", "formatwarning", undo=lambda: logging.captureWarnings(False)
        ),
        KeptEntries(vars(builtins), ours=["get_ipython", "display", "__IPYTHON__"]),  # of the shell
        KeptEntries(_environ(), _set_variable),
        KeptList(lambda: sys.path),
        KeptList(lambda: warnings.filters, _forget_warned),  # type: ignore[arg-type, return-value]
        KeptList(lambda: gc.callbacks),
        KeptValue(_directory, _change_directory),
        Umask(),
        KeptValue(_numbers, _set_numbers),
        KeptValue(_hooks, _set_hooks),
        KeptValue(_collector, _set_collector),
        KeptValue(_handlers, _set_handlers),
        KeptValue(set_locale, set_locale),
        KeptValue(socket.getdefaulttimeout, socket.setdefaulttimeout),
        KeptValue(tracemalloc.is_tracing, lambda on: None if on else tracemalloc.stop()),
        KeptValue(_logging, _set_logging),
        Loggers(),
    ]  # fmt: skip
    if hasattr(os, "sched_getaffinity"):
        parts.append(
            KeptValue(lambda: os.sched_getaffinity(0), lambda cpus: os.sched_setaffinity(0, cpus))
        )
    if resource is not None:
        parts += [_limit(which) for which in _LIMITS]
    return parts


def _environ() -> MutableMapping[Any, Any]:
    """The encoded variables: ``os.environ`` decodes each when it is compared."""
    encoded: MutableMapping[Any, Any] | None = vars(os.environ).get("_data")
    return os.environ if encoded is None else encoded


def _set_variable(key: Any, value: Any) -> None:
    name = os.fsdecode(key)
    if value is GONE:
        del os.environ[name]
    else:
        os.environ[name] = os.fsdecode(value)
    if name == "TZ" and hasattr(time, "tzset"):
        time.tzset()


def _forget_warned() -> None:
    """Have modules forget which warnings they have shown: it depended on the filters."""
    with warnings.catch_warnings():
        pass


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed under us
        return ""


def _change_directory(directory: str) -> None:
    with suppress(OSError):  # removed, or closed to us, meanwhile
        os.chdir(directory)


_Numbers = tuple[int, float, int]


def _numbers() -> _Numbers:
    return sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()


def _set_numbers(numbers: _Numbers) -> None:
    recursion, switch, digits = numbers
    sys.setrecursionlimit(recursion)
    sys.setswitchinterval(switch)
    sys.set_int_max_str_digits(digits)


def _hooks() -> tuple[Any, ...]:
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()


def _set_hooks(hooks: tuple[Any, ...]) -> None:
    setters = sys.settrace, sys.setprofile, threading.settrace, threading.setprofile
    for setter, hook in zip(setters, hooks, strict=True):
        setter(hook)


_Collector = tuple[bool, tuple[int, int, int], int]


def _collector() -> _Collector:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _set_collector(collector: _Collector) -> None:
    enabled, threshold, debug = collector
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)


_SIGNALS = [
    getattr(signal, name)
    for name in (
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
        "SIGCHLD", "SIGVTALRM", "SIGPROF", "SIGWINCH",
    )
    if hasattr(signal, name)
]  # fmt: skip


def _handlers() -> tuple[Any, ...]:
    """Who handles signals, and whether an alarm is to come: it would end the next task."""
    alarm = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    return *map(_signal.getsignal, _SIGNALS), alarm


def _set_handlers(handlers: tuple[Any, ...]) -> None:
    *kept, alarm = handlers
    if not alarm:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(_SIGNALS, kept, strict=True):
        if handler is not None:  # else it isn't Python's
            signal.signal(number, handler)


def _logging() -> tuple[Any, ...]:
    disabled = logging.Logger.manager.disable
    return disabled, logging.getLoggerClass(), logging.getLogRecordFactory(), logging.lastResort


def _set_logging(kept: tuple[Any, ...]) -> None:
    disabled, logger_class, factory, last = kept
    logging.disable(disabled)
    logging.setLoggerClass(logger_class)
    logging.setLogRecordFactory(factory)
    logging.lastResort = last


_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE")


def _limit(name: str) -> KeptValue[tuple[int, int]]:
    """One of the process's limits. The hard one can't be raised again, nor the other above it."""
    which = getattr(resource, name)

    def write(limits: tuple[int, int]) -> None:
        soft, hard = limits[0], resource.getrlimit(which)[1]
        fits = hard == resource.RLIM_INFINITY or 0 <= soft <= hard
        resource.setrlimit(which, (soft if fits else hard, hard))

    return KeptValue(lambda: resource.getrlimit(which), write)
