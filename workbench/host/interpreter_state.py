"""State of the interpreter and of the process that tasks may change.

What libraries have besides: `library_state`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal.getsignal` takes five times as long
import builtins
import gc
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

from workbench.host.environment import working_directory
from workbench.host.saved_state import GONE, Saved, SavedEntries, SavedList, SavedSettings, Setting

_LIMITS = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
)  # fmt: skip

_SIGNALS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE,
    signal.SIGALRM, signal.SIGTERM, signal.SIGCHLD, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGWINCH,
)  # fmt: skip


def interpreter() -> list[Saved]:
    """All of it that there is without libraries."""
    encoded = vars(os.environ)["_data"]  # `os.environ` decodes each when it is compared
    return [
        SavedSettings(*_settings()),
        Umask((_umask, os.umask)),
        SavedEntries(
            lambda: vars(builtins), ours=["get_ipython", "display", "__IPYTHON__"]  # of the shell
        ),
        SavedEntries(lambda: encoded, _set_variable),
        SavedList(lambda: sys.path),
        SavedList(lambda: sys.argv),
        SavedList(lambda: warnings.filters, _forget_warned),  # type: ignore[arg-type, return-value]
        SavedList(lambda: gc.callbacks),
        Loggers(),
    ]  # fmt: skip


def _settings() -> list[Setting]:
    manager = logging.Logger.manager
    set_locale = partial(locale.setlocale, locale.LC_ALL)
    return [
        *attributes(
            sys, "stdin", "stdout", "stderr", "argv", "excepthook", "displayhook",
            "unraisablehook", "breakpointhook", "dont_write_bytecode",
        ),
        *attributes(threading, "excepthook", "__excepthook__"),
        *attributes(warnings, "showwarning", "formatwarning"),
        # The former is what `logging.captureWarnings` took the place of.
        *attributes(logging, "_warnings_showwarning", "lastResort"),
        (lambda: manager.disable, logging.disable),
        (logging.getLoggerClass, logging.setLoggerClass),
        (logging.getLogRecordFactory, logging.setLogRecordFactory),
        (working_directory, os.chdir),
        (sys.getrecursionlimit, sys.setrecursionlimit),
        (sys.getswitchinterval, sys.setswitchinterval),
        (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
        (sys.gettrace, sys.settrace),
        (sys.getprofile, sys.setprofile),
        (threading.gettrace, threading.settrace),
        (threading.getprofile, threading.setprofile),
        (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        (gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)),
        (gc.get_debug, gc.set_debug),
        (tracemalloc.is_tracing, lambda on: None if on else tracemalloc.stop()),
        (set_locale, set_locale),
        (socket.getdefaulttimeout, socket.setdefaulttimeout),
        (_has_alarm, _set_alarm),
        (partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
        *map(_handler, _SIGNALS),
        *map(_limit, _LIMITS),
    ]  # fmt: skip


def attributes(module: ModuleType, *names: str) -> list[Setting]:
    """Attributes of a module; also one that somebody deletes."""
    get = vars(module).get
    return [(partial(get, name, GONE), partial(setattr, module, name)) for name in names]


def _set_variable(live: object, key: Any, value: Any) -> None:
    name = os.fsdecode(key)
    if value is GONE:
        del os.environ[name]
    else:
        os.environ[name] = os.fsdecode(value)
    if name == "TZ":
        time.tzset()


def _forget_warned() -> None:
    """Have modules forget which warnings they have shown: it depended on the filters."""
    with warnings.catch_warnings():
        pass


def _has_alarm() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _set_alarm(on: bool) -> None:
    if not on:  # it would end the next task
        signal.setitimer(signal.ITIMER_REAL, 0)


def _handler(number: int) -> Setting:
    def write(handler: Any) -> None:
        if handler is not None:  # else it isn't Python's
            signal.signal(number, handler)

    return partial(_signal.getsignal, number), write


def _limit(which: int) -> Setting:
    """One of the process's limits. The hard one can't be raised again, nor the other above it."""

    def write(limits: tuple[int, int]) -> None:
        soft, hard = limits[0], resource.getrlimit(which)[1]
        fits = hard == resource.RLIM_INFINITY or 0 <= soft <= hard
        resource.setrlimit(which, (soft if fits else hard, hard))

    return partial(resource.getrlimit, which), write


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class Umask(SavedSettings):
    """To read it, it has to be set, which threads would see: so it is put back without a look."""

    def restore(self) -> None:
        os.umask(self._saved[0])


LoggerSettings = tuple[int, bool, bool, list[Any], list[Any]]
"""A logger's level, whether it is disabled, and propagates; its handlers and filters."""


class Loggers:
    """What is set on each logger. One that wasn't there is as if nobody had set anything on it."""

    _UNSET: LoggerSettings = (logging.NOTSET, False, True, [], [])

    def __init__(self) -> None:
        self._root = logging.getLogger()
        self._known = logging.Logger.manager.loggerDict
        self._saved = self.look()

    def look(self) -> dict[logging.Logger, LoggerSettings]:
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
        self,
        before: Mapping[logging.Logger, LoggerSettings],
        after: Mapping[logging.Logger, LoggerSettings],
    ) -> None:
        self._saved |= {
            logger: now for logger, now in after.items() if before.get(logger, self._UNSET) != now
        }

    def restore(self) -> None:
        saved, unset = self._saved, self._UNSET
        for logger in self._all():
            level, disabled, propagates, handlers, filters = saved.get(logger, unset)
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
        return [self._root, *[each for each in named if isinstance(each, logging.Logger)]]
