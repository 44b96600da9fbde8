"""Working directory, import path and environment variables of a notebook, set on a worker.

A worker starts with those of the notebook that started the session. Later changes are sent with
each cell, and undone after it: see `process_state`.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """Differences between the notebook and its workers; an empty field means none."""

    directory: str = ""
    path: tuple[str, ...] = ()  # all of ``sys.path``
    environ: tuple[tuple[str, str | None], ...] = ()  # changed variables; None: deleted


class Baseline:
    """Environment of the workers: that of this process when this was made.

    Not ``shared``: another process started the session, so the workers may differ.
    """

    def __init__(self, shared: bool = True) -> None:
        self._directory = working_directory() if shared else ""
        self._path = _path() if shared else ()
        self._environ: Mapping[str, str] = dict(os.environ)

    def difference(self) -> Environment | None:
        """Return what has changed since; None if nothing has."""
        directory, path, environ = working_directory(), _path(), dict(os.environ)
        if (directory, path, environ) == (self._directory, self._path, self._environ):
            return None
        changed = {n: v for n, v in environ.items() if self._environ.get(n) != v}
        gone = dict.fromkeys(self._environ.keys() - environ.keys())
        return Environment(
            directory if directory != self._directory else "",
            path if path != self._path else (),
            tuple({**changed, **gone}.items()),
        )


def surely(clean: Callable[[], object]) -> None:
    """Call ``clean``, again if a Stop interrupts it: the next cell would have the leftovers."""
    try:
        clean()
    except KeyboardInterrupt:
        clean()
        raise


def move(around: Environment, cell: str = "") -> None:
    """Apply the differences. If the directory doesn't exist here, print that and stay: workers
    may be on other machines than the notebook."""
    for name, value in around.environ:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    new = [entry for entry in around.path if entry not in sys.path]
    known = next((n for n, entry in enumerate(around.path) if entry in sys.path), 0)
    sys.path[:0] = new[:known]  # entries that come first in the notebook
    sys.path += new[known:]
    if around.directory:
        try:
            os.chdir(around.directory)
        except OSError as error:
            _say_where(around.directory, working_directory(), error.strerror or "", cell)


@functools.lru_cache(100)
def _say_where(wanted: str, directory: str, why: str, cell: str) -> None:
    """Print that a cell runs elsewhere than its notebook; once per worker if it has items."""
    print(
        f"The notebook is in {wanted}, and this worker, on {platform.node()}, can't go there "
        f"({why}): the cell runs in {directory}. Files and modules beside the notebook aren't "
        "here. Put what cells need into the store, or have all machines share that directory.",
        file=sys.stderr,
    )


def set_variables(variables: Iterable[tuple[str, str]]) -> None:
    """Set environment variables, until what the task changed is put back."""
    os.environ.update(variables)
    time.tzset()


def working_directory() -> str:
    """Return the working directory; '' if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _path() -> tuple[str, ...]:
    return tuple(str(entry) or working_directory() for entry in sys.path)
