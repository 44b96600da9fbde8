"""Settings of the interpreter and of its process. Those of libraries: `libraries`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal.getsignal` takes five times as long
import builtins
import decimal
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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from workbench.surroundings.settings import GONE, Part, Setting, State, put_entry, settings

_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
"""Not RLIMIT_DATA: the server sets it, at any time."""

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


def interpreter() -> list[Part]:
    """Return all parts but those of libraries."""
    encoded = vars(os.environ)["_data"]  # `os.environ` decodes each when it is compared
    builtin = ["get_ipython", "display", "__IPYTHON__"]  # of the shell
    return [
        settings("process", _of_the_process),
        settings("interpreter", _that_travel, travels=True),
        settings(DIRECTORY, lambda: [Setting(DIRECTORY, working_directory, os.chdir)], True),
        Part(PATH, lambda: {PATH: sys.path}, _set_path, travels=True, take=_add_to_path),
        Part(
            "warnings.filters",
            lambda: {"filters": warnings.filters},
            _set_filters,
            travels=True,
            take=_take_filters,
        ),
        Part("builtins", lambda: vars(builtins), ours=builtin),
        Part(ENVIRON, lambda: encoded, _set_variable, travels=True),
        Part("logging", _loggers, _set_logger, travels=True, usual=_of_jupyter),
    ]


DIRECTORY, PATH, ENVIRON = "working directory", "sys.path", "os.environ"
"""Parts that workers have from the notebook that started the session."""


def _of_the_process() -> list[Setting]:
    return [
        *attributes(
            sys,
            "stdin",
            "stdout",
            "stderr",
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
        Setting("logging.setLoggerClass", logging.getLoggerClass, logging.setLoggerClass),
        Setting(
            "logging.setLogRecordFactory",
            logging.getLogRecordFactory,
            logging.setLogRecordFactory,
        ),
        Setting("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval),
        Setting("sys.settrace", sys.gettrace, sys.settrace),
        Setting("sys.setprofile", sys.getprofile, sys.setprofile),
        Setting("threading.settrace", threading.gettrace, threading.settrace),
        Setting("threading.setprofile", threading.getprofile, threading.setprofile),
        Setting("gc.enable", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        Setting("gc.set_threshold", gc.get_threshold, lambda each: gc.set_threshold(*each)),
        Setting("gc.set_debug", gc.get_debug, gc.set_debug),
        Setting(
            "tracemalloc", tracemalloc.is_tracing, lambda on: None if on else tracemalloc.stop()
        ),
        Setting("signal.setitimer", _has_alarm, _set_alarm),
        Setting(
            "os.sched_setaffinity",
            partial(os.sched_getaffinity, 0),
            partial(os.sched_setaffinity, 0),
        ),
        Setting("os.umask", _umask, os.umask),
        *map(_handler, _SIGNALS),
        *map(_limit, _LIMITS),
    ]


def _that_travel() -> list[Setting]:
    manager = logging.Logger.manager
    set_locale = partial(locale.setlocale, locale.LC_ALL)
    return [
        Setting("sys.setrecursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
        Setting(
            "sys.set_int_max_str_digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits
        ),
        Setting("locale.setlocale", set_locale, set_locale),
        Setting("socket.setdefaulttimeout", socket.getdefaulttimeout, socket.setdefaulttimeout),
        Setting("logging.disable", lambda: manager.disable, logging.disable),
    ]


def contextual() -> Part:
    """Return the decimal context: each task has a new one, so there is nothing to restore."""
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")

    def find() -> State:
        context = decimal.getcontext()
        return {name: getattr(context, name) for name in names} | {"traps": dict(context.traps)}

    def put(live: object, key: Any, value: Any) -> None:
        if key == "traps":
            decimal.getcontext().traps.update(value)
        else:
            setattr(decimal.getcontext(), key, value)

    return Part("decimal.getcontext()", find, put, travels=True)


def attributes(module: ModuleType, *names: str) -> list[Setting]:
    """Return settings for attributes of a module. One may be missing; a list is set in place."""
    get = vars(module).get

    def write(name: str, value: Any) -> None:
        live = get(name)
        if isinstance(live, list) and isinstance(value, list):
            live[:] = value
        else:
            put_entry(vars(module), name, value)

    return [
        Setting(f"{module.__name__}.{name}", partial(get, name, GONE), partial(write, name))
        for name in names
    ]


def working_directory() -> str:
    """Return the working directory; '' if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _set_variable(live: object, key: Any, value: Any) -> None:
    name = os.fsdecode(key)
    if value is GONE:
        del os.environ[name]
    else:
        os.environ[name] = os.fsdecode(value)
    if name == "TZ":
        time.tzset()


def _set_path(live: object, key: object, value: list[str]) -> None:
    sys.path[:] = value


def _add_to_path(live: object, key: object, value: list[str]) -> None:
    """Add the entries that aren't there, each behind the one that it follows in ``value``."""
    at = 0 if any(entry in sys.path for entry in value) else len(sys.path)
    for entry in value:
        if entry not in sys.path:
            sys.path.insert(at, entry)
        last = len(sys.path) - sys.path[::-1].index(entry)
        at = max(at, last)


_FIRST_FILTERS = [*warnings.filters]
"""Python's own: those of this process before it ran anybody's code."""


def _set_filters(live: object, key: object, value: Sequence[Any]) -> None:
    """Set the filters, and make modules forget which warnings they have shown under others."""
    warnings.filters[:] = value  # type: ignore[index]
    with warnings.catch_warnings():
        pass


def _take_filters(live: object, key: object, value: list[Any]) -> None:
    """Set the filters; keep those that imports have added here."""
    added = [each for each in warnings.filters if each not in (*value, *_FIRST_FILTERS)]
    _set_filters(live, key, [*value, *added])


def _umask() -> int:
    """Return the umask. `os.umask` could only read it by setting it, for all threads."""
    status = Path("/proc/self/status").read_bytes()
    return int(status[status.index(b"Umask:") + 6 :].split(None, 1)[0], 8)


def _has_alarm() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _set_alarm(on: bool) -> None:
    if not on:  # it would end the next task
        signal.setitimer(signal.ITIMER_REAL, 0)


def _handler(number: signal.Signals) -> Setting:
    def write(handler: Any) -> None:
        if handler is not None:  # None: not set by Python
            signal.signal(number, handler)

    return Setting(f"the handler of {number.name}", partial(_signal.getsignal, number), write)


def _limit(name: str) -> Setting:
    """Return the setting of a resource limit. The hard one can't be raised, and caps the soft."""
    which: int = getattr(resource, name)

    def write(limits: tuple[int, int]) -> None:
        soft, hard = limits[0], resource.getrlimit(which)[1]
        fits = hard == resource.RLIM_INFINITY or 0 <= soft <= hard
        resource.setrlimit(which, (soft if fits else hard, hard))

    return Setting(f"resource.{name}", partial(resource.getrlimit, which), write)


_UNSET: dict[str, Any] = {
    "level": logging.NOTSET,
    "disabled": False,
    "propagate": True,
    "handlers": [],
    "filters": [],
}
"""Attributes of a logger on which nothing was set."""


def _loggers() -> State:
    """Return what was set on each logger, by the logger's and the attribute's name."""
    named = list(logging.Logger.manager.loggerDict.items())  # threads make loggers, too
    return {
        (name, attribute): vars(logger)[attribute]
        for name, logger in [("", logging.root), *named]
        if isinstance(logger, logging.Logger)
        for attribute, usual in _UNSET.items()
        if vars(logger).get(attribute, usual) != usual
    }


def _of_jupyter() -> State:
    """Return what a kernel sets for itself."""
    names = ("IPKernelApp", "traitlets", "tornado")
    return {key: value for key, value in _loggers().items() if key[0] in names}


def _set_logger(live: State, key: tuple[str, str], value: Any) -> None:
    name, attribute = key
    logger = logging.getLogger(name or None)
    value = _UNSET[attribute] if value is GONE else value
    if attribute == "level":
        logger.setLevel(value)
    elif attribute == "handlers":
        for handler in [each for each in logger.handlers if each not in value]:
            logger.removeHandler(handler)
            handler.close()  # it may have a file open
        logger.handlers[:] = value
    elif attribute == "filters":
        logger.filters[:] = value
    else:
        setattr(logger, attribute, value)
