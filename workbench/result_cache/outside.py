"""What code reads and changes outside of its process, as far as Python tells, while it runs.

Python tells of each file that it opens (`sys.addaudithook`), and of programs and connections; not
of what libraries written in C open themselves. Of those, Linux tells, in some directories: the
working directory, and those that the code or a variable names. And files are looked at that these
name.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
_PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
_REMOVED = {"os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree", "os.link"}
_DIRECTORIES = {"os.listdir", "os.scandir"}

_EVENTS = {"open", "sqlite3.connect", CALLED} | _NETWORK | _PROGRAMS | _REMOVED | _DIRECTORIES

_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)
    }
    | {"/proc/", "/sys/", "/dev/"}
)
"""Beginnings of the paths of files that don't count: packages have versions."""


class Outside:
    """What one run reads and changes outside. Filled by the hook, in the thread that runs."""

    def __init__(self) -> None:
        self._read: dict[str, LookedAt | None] = {}  # as it was when it was opened first
        self._named: dict[str, LookedAt | None] = {}  # as it was before the run
        self._written: set[str] = set()
        self._directories: dict[str, str] = {}
        self._told: set[str] = set()
        self.calls = False  # True: it has submitted calls
        self._opens: OpenedFiles | None = None
        self._began = time.time_ns()

    def names(self, texts: Iterable[str], cwd: str) -> None:
        """Look at the files and directories that texts name, and at the working directory, before
        the run."""
        whole, directories = [cwd], list[str]()
        for text in texts:
            if text and len(text) <= MOST_LETTERS and text.isprintable() and "://" not in text:
                path = os.path.abspath(os.path.join(cwd, os.path.expanduser(text)))
                found = look_at(path)
                if os.path.isdir(path) and not _is_passing(path + os.sep):
                    whole.append(path)
                else:
                    directories.append(os.path.dirname(path))
                is_name = found is not None or (("." in text or os.sep in text) and " " not in text)
                if is_name and (found is not None or not os.path.lexists(path)):
                    self._named[path] = found
        self._opens = OpenedFiles(whole, directories)

    def note(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an event of Python's; see its table of audit events."""
        if event == "open":
            self._opened(*args)
        elif event == "sqlite3.connect":
            self._opened(args[0], "r", 0)
        elif event in _DIRECTORIES:
            self._listed(args[0])
        elif event in _NETWORK:
            address = args[-1] if event in ("socket.connect", "socket.bind") else ()
            if isinstance(address, tuple):  # else a file of this machine
                self._told.add(NETWORK)
        elif event in _PROGRAMS:
            self._told.add(PROGRAMS)
        elif event in _REMOVED:
            path = args[0] if isinstance(args[0], str | os.PathLike) else ""
            if not _is_passing(os.path.abspath(os.fspath(path))):
                self._told.add(REMOVED)
        elif event == CALLED:
            self.calls = True

    def _opened(self, file: Any, mode: Any, flags: int) -> None:
        if isinstance(file, bytes):
            file = os.fsdecode(file)
        if not isinstance(file, str | os.PathLike) or file == ":memory:":
            return
        path = os.path.abspath(os.fspath(file))
        if _is_passing(path):
            return
        is_changed = flags & os.O_ACCMODE != os.O_RDONLY
        # What is changed is read, too, unless it begins empty.
        if path not in self._written and not (is_changed and flags & os.O_TRUNC):
            self._read.setdefault(path, look_at(path))
        if is_changed:
            self._written.add(path)

    def _listed(self, directory: Any) -> None:
        if directory is None or isinstance(directory, str | os.PathLike):
            path = os.path.abspath(os.fspath(directory or "."))
            if not _is_passing(path + os.sep) and path not in map(os.path.abspath, sys.path):
                self._directories.setdefault(path, directory_state(path))

    def conditions(
        self, modules: Iterable[str], reads: Iterable[str] = ()
    ) -> tuple[Conditions, list[str]]:
        """Return what has to be as it is now for the result to be the same; and files because of
        which there is no such result: they were read, and have changed since. ``modules`` are those
        of a person's that it used."""
        found, changed = Conditions(), list[str]()
        for path, before in self._read.items():
            if look_at(path) != before:
                changed.append(path)
        for path in {*self._read, *self._named, *self._written, *map(os.path.abspath, reads)}:
            state = read_state(path)
            if state is not None or path in self._named or path in self._read:
                found.files[path] = state
        found.directories = {
            path: directory_state(path) for path in self._directories if os.path.isdir(path)
        }
        files = [os.path.abspath(file) for name in modules if (file := file_of(name)) is not None]
        found.files |= {file: read_state(file) for file in files}
        found.versions = versions_of(list(sys.modules))
        return found, sorted(changed)

    def close(self) -> None:
        """Note which files were opened, at the run's end."""
        if self._opens is not None:
            with self._opens:
                paths = self._opens.take()
            known = {*self._read, *self._written, *self._named}
            for path in paths - known:
                found = look_at(path)
                if found is not None and not _is_passing(path):
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
    """True if a file is a library's, the system's, or one that nobody keeps."""
    return path.startswith((*_LIBRARIES, tempfile.gettempdir() + "/tmp")) or path.endswith(".pyc")


_current: Outside | None = None
_hooked = False


@contextmanager
def watched(outside: Outside) -> Iterator[None]:
    """Context of the run. One at a time in a process: Python's hooks are the process's."""
    global _current, _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_note)
    _current = outside
    try:
        yield
    finally:
        _current = None
        outside.close()


def _note(event: str, args: tuple[Any, ...]) -> None:
    """Called by Python at each event, in any thread, for as long as the process lives."""
    global _current
    current = _current
    if current is not None and event in _EVENTS:
        _current = None  # what noting does isn't the run's
        try:
            current.note(event, args)
        except Exception:  # the run mustn't fail by it
            current.calls = True
        finally:
            _current = current
