"""State of the interpreter and of the process that tasks may change.

State of libraries: `library_state`.
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
from functools import partial
from types import ModuleType
from typing import Any

from workbench.host.environment import working_directory
from workbench.host.saved_state import GONE, SavedState, Setting, State, put_entry, settings

_LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
)

_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGWINCH,
)


def interpreter() -> list[SavedState]:
    """Return all saved states but those of libraries."""
    encoded = vars(os.environ)["_data"]  # `os.environ` decodes each when it is compared
    return [
        settings(_settings),
        SavedState(
            lambda: vars(builtins),
            ours=["get_ipython", "display", "__IPYTHON__"],  # of the shell
        ),
        SavedState(lambda: encoded, _set_variable),
        SavedState(_loggers, _set_logger),
    ]


def _settings() -> list[Setting]:
    manager = logging.Logger.manager
    set_locale = partial(locale.setlocale, locale.LC_ALL)
    return [
        *attributes(
            sys,
            "stdin",
            "stdout",
            "stderr",
            "path",
            "argv",
            "excepthook",
            "displayhook",
            "unraisablehook",
            "breakpointhook",
            "dont_write_bytecode",
        ),
        *attributes(gc, "callbacks"),
        *attributes(threading, "excepthook", "__excepthook__"),
        *attributes(warnings, "showwarning", "formatwarning"),
        # The former is the function that `logging.captureWarnings` replaced.
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
        (lambda: warnings.filters, _set_filters),
    ]


def attributes(module: ModuleType, *names: str) -> list[Setting]:
    """Return settings for attributes of a module. One may be missing; a list is set in place."""
    get = vars(module).get

    def write(name: str, value: Any) -> None:
        live = get(name)
        if isinstance(live, list) and isinstance(value, list):
            live[:] = value
        else:
            put_entry(vars(module), name, value)

    return [(partial(get, name, GONE), partial(write, name)) for name in names]


def _set_variable(live: object, key: Any, value: Any) -> None:
    name = os.fsdecode(key)
    if value is GONE:
        del os.environ[name]
    else:
        os.environ[name] = os.fsdecode(value)
    if name == "TZ":
        time.tzset()


def _set_filters(filters: list[Any]) -> None:
    """Set the filters, and make modules forget which warnings they have shown under others."""
    warnings.filters[:] = filters  # type: ignore[index]
    with warnings.catch_warnings():
        pass


def _has_alarm() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _set_alarm(on: bool) -> None:
    if not on:  # it would end the next task
        signal.setitimer(signal.ITIMER_REAL, 0)


def _handler(number: int) -> Setting:
    def write(handler: Any) -> None:
        if handler is not None:  # None: not set by Python
            signal.signal(number, handler)

    return partial(_signal.getsignal, number), write


def _limit(which: int) -> Setting:
    """Return the setting of a resource limit. The hard one can't be raised, and caps the soft."""

    def write(limits: tuple[int, int]) -> None:
        soft, hard = limits[0], resource.getrlimit(which)[1]
        fits = hard == resource.RLIM_INFINITY or 0 <= soft <= hard
        resource.setrlimit(which, (soft if fits else hard, hard))

    return partial(resource.getrlimit, which), write


LoggerSettings = tuple[int, bool, bool, list[Any], list[Any]]
"""A logger's level, disabled, propagate, handlers and filters."""

_UNSET: LoggerSettings = (logging.NOTSET, False, True, [], [])


def _loggers() -> State:
    """Return the settings of each logger on which anything was set."""
    named = list(logging.Logger.manager.loggerDict.values())  # threads make loggers, too
    found = {
        each: (each.level, each.disabled, each.propagate, each.handlers, each.filters)
        for each in [logging.getLogger(), *named]
        if isinstance(each, logging.Logger)
    }
    return {logger: now for logger, now in found.items() if now != _UNSET}


def _set_logger(live: State, logger: logging.Logger, value: Any) -> None:
    level, disabled, propagates, handlers, filters = _UNSET if value is GONE else value
    if logger.level != level:
        logger.setLevel(level)
    for handler in [each for each in logger.handlers if each not in handlers]:
        logger.removeHandler(handler)
        handler.close()  # it may have a file open
    logger.handlers[:], logger.filters[:] = handlers, filters
    logger.disabled, logger.propagate = disabled, propagates
