"""Finds the line of a person's code that calls Workbench: for costs and pins. Reads frames only."""

from __future__ import annotations

import functools
import os
import pickle
import re
import sys
import sysconfig
import warnings
from types import FrameType
from typing import Any, NamedTuple

from workbench.errors.remote_frames import cell_label

MOST_FRAMES = 200
"""Frames searched for the notebook's cell."""

OURS = os.path.dirname(__file__) + os.sep
"""Prefix of the paths of Workbench's own files."""

_ELSEWHERE = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, OURS)
    }
)
"""Directories that hold no code of the person's."""

_INSTALLED = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"
"""In paths of what is installed elsewhere: for a user, or in an environment below this one."""

_BETWEEN = re.compile(
    rf"{re.escape(OURS)}|.*{os.sep}(IPython|cloudpickle){os.sep}|{re.escape(pickle.__file__)}"
)
"""Files that are never the reported place."""


def call_site(task: str = "") -> str:
    """Return ``Cell In[7], line 3``, ``train.py:12`` or ``train.py:12, from Cell In[7], line 3``.

    Names a library's line only if no line of the person's own led to it.

    ``task`` is the running task's name, in a worker: it identifies a remote cell.
    """
    frame = _outside(sys._getframe(1))
    if frame is None:
        return ""
    inner = frame
    if not task and "IPython" not in sys.modules:
        return _place(inner)  # no cells here
    for _ in range(MOST_FRAMES):
        file = _file(frame.f_code.co_filename)
        if file.is_cell:
            label = cell_label(frame.f_code.co_filename) or task or "a cell"
            cell = f"{label}, line {frame.f_lineno}"
            return cell if frame is inner else f"{_place(inner)}, from {cell}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _place(inner)


def name_of(value: Any) -> str:
    """Return the caller's name for the value: a variable that is it; else its type.

    For errors only: searching a frame's variables takes a while.
    """
    frame = _outside(sys._getframe(1))
    variables = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    names = [name for name, held in variables.items() if held is value and name.isidentifier()]
    public = [name for name in names if not name.startswith("_")]
    return public[-1] if public else type(value).__qualname__


def warn(text: str) -> None:
    """Warn about the line of a person's code that made the call."""
    frame, person, level = sys._getframe(1), _outside(sys._getframe(1)), 2
    while person is not None and frame is not person and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def is_own(file: str) -> bool:
    """True if a file, by its code's name, is a person's: a cell, a script, a project's module."""
    return not _file(file).is_library


def is_persons(name: str) -> bool:
    """True if an imported module is a person's own, not a library's."""
    package = name.partition(".")[0]
    if package in sys.stdlib_module_names:
        return False
    # Only the package is asked: resolving a path takes a while.
    file = file_of(package) or file_of(name)
    return file is not None and is_own(file)


def file_of(name: str) -> str | None:
    """Return the file of a loaded module; None if it has none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file if isinstance(file, str) else None


class _File(NamedTuple):
    """Properties of a file, from its name. Cells have names given by IPython's compiler."""

    short: str
    is_between: bool
    is_cell: bool
    is_library: bool


@functools.lru_cache(1000)
def _file(name: str) -> _File:
    is_cell = "ipykernel_" in name or name.startswith("<ipython-input-")
    is_frozen = name.startswith("<frozen ")  # Python's own, without a file
    path = os.path.realpath(name)
    is_installed = path.startswith(_ELSEWHERE) or any(each in path for each in _INSTALLED)
    is_library = not is_cell and (is_frozen or is_installed)
    return _File(os.path.basename(name), _BETWEEN.match(name) is not None, is_cell, is_library)


def _outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of a person's own; else that of a library that called ours."""
    while frame is not None and _file(frame.f_code.co_filename).is_between:
        frame = frame.f_back
    library = frame
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        file = _file(frame.f_code.co_filename)
        if not (file.is_library or file.is_between):
            return frame
        frame = frame.f_back
    return library


def _place(frame: FrameType) -> str:
    return f"{_file(frame.f_code.co_filename).short}:{frame.f_lineno}"
