"""What code reads and changes outside of its process, as far as Python tells, while it runs.

Python tells of each file that it opens (`sys.addaudithook`), and of programs and connections; not
of what libraries written in C open themselves. Of those, Linux tells, in some directories: the
working directory, and those that the code or a variable names. And files are looked at that these
name.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import Any

from workbench.call_site import file_of
from workbench.engine.records import CALLED
from workbench.result_cache.code import told_by_names
from workbench.result_cache.conditions import (
    Conditions,
    LookedAt,
    directory_state,
    look_at,
    read_state,
    versions_of,
)
from workbench.result_cache.opened_files import OpenedFiles

MOST_LETTERS = 255
"""Characters of a text that may name a file."""

NETWORK, PROGRAMS = "the network", "other programs"
REMOVED, FILES = "files that it removes or renames", "files that Python's `open` doesn't open"

_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind"}
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
_TOLD = {**dict.fromkeys(_PROGRAMS, PROGRAMS), "os.truncate": REMOVED}
_REMOVED = {"os.remove", "os.rmdir", "shutil.rmtree"}
_MADE = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1}  # the path's place
_DIRECTORIES = {"os.listdir", "os.scandir"}

_EVENTS = {"open", "sqlite3.connect", CALLED, *_MADE, *_TOLD, *_NETWORK, *_REMOVED, *_DIRECTORIES}

_LIBRARIES = tuple(
    {
        os.path.join(os.path.realpath(path), part, "")
        for path in (sys.prefix, sys.base_prefix)  # a project may be inside of its environment
        for part in ("bin", "etc", "include", "lib", "lib64", "share")
    }
    | {os.path.realpath(p) + os.sep for n, p in sysconfig.get_paths().items() if n != "data"}
    | {"/proc/", "/sys/", "/dev/"}
)
"""Beginnings of the paths of files that don't count: packages have versions."""


class Outside:
    """What one run reads and changes outside. Filled by the hook, in any thread."""

    def __init__(self) -> None:
        self._read: dict[str, LookedAt | None] = {}  # as it was when it was opened first
        self._named: dict[str, LookedAt | None] = {}  # as it was before the run
        self._written: set[str] = set()
        self._made: set[str] = set()  # files and directories that weren't there
        self._listed: dict[str, str] = {}
        self._told: set[str] = set()
        self.calls = False  # True: it has submitted calls
        self._opens: OpenedFiles | None = None
        self._began = time.time_ns()
        self._children = resource.getrusage(resource.RUSAGE_CHILDREN)

    def names(self, texts: Iterable[str], cwd: str) -> None:
        """Look at the files and directories that texts name, and at the working directory, before
        the run."""
        whole, directories = [cwd], list[str]()
        for text in texts:
            if text and len(text) <= MOST_LETTERS and text.isprintable() and "://" not in text:
                path = os.path.abspath(os.path.join(cwd, os.path.expanduser(text)))
                found = look_at(path)
                inside = os.path.join(path, "")
                if not os.path.isdir(path):
                    directories.append(os.path.dirname(path))
                elif not (_is_passing(inside) or os.path.join(cwd, "").startswith(inside)):
                    whole.append(path)  # not "/", which many texts are
                if found is not None or (" " not in text and not os.path.lexists(path)):
                    self._named[path] = found
        self._opens = OpenedFiles(whole, {*directories} - {tempfile.gettempdir()})

    def note(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an event of Python's; see its table of audit events."""
        if event == "os.rename":
            self._removes(args[0])
        if event == "open":
            self._opened(*args)
        elif event == "sqlite3.connect":
            self._opened(re.sub(r"^file:(//)?|\?.*", "", os.fsdecode(args[0])) or None, "r", 0)
        elif event in _DIRECTORIES:
            self._lists(args[0] if args[0] is not None else ".")
        elif event in _NETWORK:
            address = args[-1] if event in ("socket.connect", "socket.bind") else ()
            if isinstance(address, tuple):  # else a file of this machine
                self._told.add(NETWORK)
        elif event in _TOLD:
            self._told.add(_TOLD[event])
        elif event in _MADE:
            self._makes(str(_absolute(args[_MADE[event]])))
        elif event in _REMOVED:
            self._removes(*args)
        elif event == CALLED:
            self.calls = True

    def _opened(self, file: Any, mode: Any, flags: int) -> None:
        path = _absolute(file)
        if path is None or file == ":memory:" or _is_passing(path):
            return
        is_changed = flags & os.O_ACCMODE != os.O_RDONLY
        if os.path.isdir(path):  # to list it; or for a file without a name
            self._lists(path if not is_changed else None)
            return
        # What is changed is read, too, unless it begins empty.
        if path not in self._written and not (is_changed and flags & os.O_TRUNC):
            self._read.setdefault(path, look_at(path))
        if is_changed:
            self._makes(path)

    def _makes(self, path: str) -> None:
        self._written |= set() if _is_passing(path) else {path}
        self._made |= set() if os.path.lexists(path) else {path}

    def _removes(self, path: Any, directory: Any = None, *_: Any) -> None:
        # What `shutil.rmtree` removes inside of a directory, it has told of.
        place = str(_absolute(path))
        if directory in (-1, None) and place not in self._made and not _is_passing(place):
            self._told.add(REMOVED)

    def _lists(self, directory: Any) -> None:
        path = _absolute(directory)
        if path is None or _is_passing(path + os.sep):
            return
        caller = sys._getframe(3).f_code.co_filename  # after `note`, `_note`
        if "importlib" not in caller or path not in map(os.path.abspath, sys.path):
            self._listed.setdefault(path, directory_state(path))

    def conditions(
        self, modules: Iterable[str], reads: Iterable[str] = ()
    ) -> tuple[Conditions, list[str]]:
        """Return what has to be as it is now for the result to be the same; and files because of
        which there is no such result: they were read, and have changed since. ``modules`` are those
        of a person's that it used."""
        found, changed = Conditions(), list[str]()
        for path, before in list(self._read.items()):
            if look_at(path) != before:
                changed.append(path)
        for path, listed in list(self._listed.items()):
            found.directories[path] = directory_state(path)
            if found.directories[path] not in (listed, ""):
                changed.append(path)
        for path in {*self._read, *self._named, *self._written, *map(os.path.abspath, reads)}:
            state = read_state(path)
            if state is not None or path in self._named or path in self._read:
                found.files[path] = state
        files = [os.path.abspath(file) for name in modules if (file := file_of(name)) is not None]
        found.files |= {file: read_state(file) for file in files}
        found.versions = versions_of(list(sys.modules))
        return found, sorted(changed)

    def close(self) -> None:
        """Note which files were opened, at the run's end, and whether other processes ran."""
        if resource.getrusage(resource.RUSAGE_CHILDREN) != self._children:  # `multiprocessing`'s
            self._told.add(PROGRAMS)
        if self._opens is not None:
            with self._opens:
                paths = self._opens.take()
            known = {*self._read, *self._written, *self._named}
            for path in paths - known:
                # Jupyter saves its notebooks at any time, by way of a hidden file.
                is_others = os.path.basename(path)[0] == "." or path.endswith(".ipynb")
                found = None if is_others or _is_passing(path) else look_at(path)
                if found is not None:
                    if found.time < self._began:
                        self._read[path] = found
                    else:
                        self._written.add(path)
            if not self._opens.is_complete:
                self._told.add(FILES)

    def unchecked(self, code: Iterable[CodeType]) -> list[str]:
        """Return what the run may depend on, and `conditions` doesn't have: by what Python told,
        and by the names in its code."""
        return sorted(self._told | told_by_names(code))


def _is_passing(path: str) -> bool:
    """True if a file is a library's or the system's."""
    return path.startswith(_LIBRARIES) or "/__pycache__/" in path


def _absolute(path: Any) -> str | None:
    """Return the path that an event has; None if it has a descriptor."""
    is_path = isinstance(path, str | bytes | os.PathLike)
    return os.path.abspath(os.fsdecode(path)) if is_path else None


running: list[Outside] = []
"""What is watched in this process: the first one, as the hook is the process's."""
_hooked = False
_noting = threading.local()


@contextmanager
def watched(outside: Outside) -> Iterator[bool]:
    """Context of the run. False if another one is watched, in another thread: then it isn't."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_note)
    _noting.now = False  # an interrupt may have left it
    try:
        running.append(outside)
        yield running[0] is outside
    finally:
        with suppress(ValueError):  # interrupted before it was there
            running.remove(outside)
        outside.close()


def _note(event: str, args: tuple[Any, ...]) -> None:
    """Called by Python at each event, in any thread, for as long as the process lives."""
    current = next(iter(running), None) if event in _EVENTS else None
    if current is not None and not getattr(_noting, "now", False):
        try:
            _noting.now = True  # what noting does isn't the run's
            current.note(event, args)
        except Exception:  # the run mustn't fail by it
            current.calls = True
        finally:
            _noting.now = False
