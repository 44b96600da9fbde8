"""What code mentions: modules, clocks, random numbers, files in its texts. Runs none of it."""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterable
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any

from workbench.call_site import is_persons

MOST_ITEMS = 100
"""Items of a container that are looked at."""

CLOCK, ENVIRONMENT = "the clock", "environment variables"
RANDOM, FILE_TIMES = "random numbers", "times and links of files"

_TOLD = {
    CLOCK: "perf_counter perf_counter_ns monotonic monotonic_ns time_ns process_time thread_time "
    "now utcnow today",
    ENVIRONMENT: "environ getenv environb",
    FILE_TIMES: "getmtime getatime getctime st_mtime st_mtime_ns st_atime st_ctime readlink",
    RANDOM: "urandom getrandom token_bytes token_hex token_urlsafe secrets randbits uuid1 uuid4",
}
_TOLD_BY = {name: word for word, names in _TOLD.items() for name in names.split()}
_SEEDED = {"default_rng", "RandomState", "SeedSequence", "PCG64", "Random", "SystemRandom"}
"""Make generators, which are seeded by an argument, or differ each time."""
_TIMES = {"time", "localtime", "gmtime", "ctime", "asctime"}
"""Tell the time, or format one that is their argument."""


_looked, _own = 0, set[str]()
"""How many modules were loaded at the last look, and a person's own among them."""


def own_modules() -> set[str]:
    """Return a person's modules that are loaded."""
    global _looked, _own
    if len(sys.modules) != _looked or not sys.modules.keys() >= _own:
        _looked = len(sys.modules)
        found = {name for name in list(sys.modules) if is_persons(name)}
        _own = {n for n in found if n.partition(".")[0] not in ("__main__", "workbench")}
    return _own


def mentioned(code: Iterable[CodeType]) -> set[str]:
    """Return a person's modules whose names are in the code."""
    names = {name for each in _all_code(code) for name in each.co_names}
    return own_modules() & names


def reached(names: Iterable[str]) -> set[str]:
    """Return modules, and a person's modules that these import, and so on."""
    own = own_modules()
    queue = list(own.intersection(names))
    for name in queue:  # grows while it is read
        for value in list(vars(sys.modules[name]).values()):
            home = value.__name__ if isinstance(value, ModuleType) else _home(value)
            if home in own and home not in queue:
                queue.append(home)
        codes = chain(*functions_of(name).values())
        queue += mentioned(codes).difference(queue)  # imported when they are called
    return set(queue)


def _home(value: Any) -> str:
    """Return the module that defines a value, or its class."""
    home = getattr(value, "__module__", "")
    return home if isinstance(home, str) else ""


def texts_in(code: Iterable[CodeType]) -> set[str]:
    """Return the texts that code has as constants."""
    found: set[str] = set()
    for each in _all_code(code):
        found.update(text for text in each.co_consts if isinstance(text, str))
    return found


def texts_of(values: Iterable[Any]) -> set[str]:
    """Return values that may name files: texts, paths, and those in small containers."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, str | os.PathLike):
            found.add(str(value))
        elif type(value) in (list, tuple, set, dict) and len(value) <= MOST_ITEMS:
            items = value.values() if isinstance(value, dict) else value
            found.update(str(each) for each in items if isinstance(each, str | os.PathLike))
    return found


def _all_code(code: Iterable[CodeType]) -> list[CodeType]:
    """Return code objects and those inside them, each once."""
    found = list(dict.fromkeys(code))
    for each in found:  # grows while it is read
        found += [c for c in each.co_consts if isinstance(c, CodeType) and c not in found]
    return found


def told_by_names(code: Iterable[CodeType]) -> set[str]:
    """Return what code depends on besides its inputs, by the names in it, in words."""
    told: set[str] = set()
    own: dict[str, list[CodeType]] = {}
    for module in own_modules():
        for name, codes in functions_of(module).items():
            own.setdefault(name, []).extend(codes)
    queue = _all_code(code)
    for each in queue:  # grows while it is read
        for called in sorted(own.keys() & {*each.co_names}):
            queue += [c for c in _all_code(own.pop(called)) if c not in queue]
        before, calls = "", ""
        for step in dis.get_instructions(each):
            if isinstance(step.argval, str) and step.opname.startswith(("LOAD_", "IMPORT_FROM")):
                name, is_from = step.argval, step.opname == "IMPORT_FROM"
                is_time = name in ("time", "strftime") and (before == "time" or is_from)
                if is_time or name in _TOLD_BY:
                    told.add(CLOCK if is_time else _TOLD_BY[name])
                before = calls = name
            elif step.opname == "CALL" and calls in _SEEDED and step.arg == 0:
                told.add(RANDOM)
            elif step.opname == "CALL" and calls in _TIMES and step.arg == 0:
                told.add(CLOCK)
            elif step.opname not in ("CACHE", "PRECALL", "PUSH_NULL"):
                before = calls = ""
    return told


def functions_of(module: str) -> dict[str, list[CodeType]]:
    """Return the code of the functions and methods that a module defines, by their names."""
    found: dict[str, list[CodeType]] = {}
    for value in list(vars(sys.modules[module]).values()):
        members = vars(value).values() if isinstance(value, type) else [value]
        for each in members:
            if type(each) is FunctionType and each.__module__ == module:
                found.setdefault(each.__name__, []).append(each.__code__)
    return found
