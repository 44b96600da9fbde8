"""State of libraries that a task may change: options, styles, open figures, formatters.

Each library is looked at only once its module is loaded, and none is imported here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from workbench.host.saved_state import (
    GONE,
    SavedState,
    Setting,
    State,
    differing,
    put_entry,
    settings,
)


def libraries() -> list[SavedState]:
    """Return the saved states of all libraries that are known here."""
    return [
        # numpy 2 keeps most of these two in context variables, which each task has for itself.
        _library(
            "numpy",
            lambda m: [
                (m.get_printoptions, lambda options: m.set_printoptions(**options)),
                (m.geterr, lambda errors: m.seterr(**errors)),
            ],
        ),
        SavedState(lambda: _attribute("matplotlib", "rcParams"), _set_style),
        _library("matplotlib", lambda m: [(lambda: list(m.colormaps), _unregister)]),
        SavedState(_pandas_options, _set_pandas_options),
        _library("sklearn", lambda m: [(m.get_config, lambda config: m.set_config(**config))]),
        _library(
            "torch",
            lambda m: [
                (m.get_default_dtype, m.set_default_dtype),
                (m.is_grad_enabled, m.set_grad_enabled),
                (m.are_deterministic_algorithms_enabled, m.use_deterministic_algorithms),
                (m.get_num_threads, m.set_num_threads),
            ],
        ),
        _library(
            "multiprocessing",
            lambda m: [
                (
                    partial(m.get_start_method, allow_none=True),
                    partial(m.set_start_method, force=True),
                )
            ],
        ),
        SavedState(_shell_tables, _fill, first=_first_shell_tables),
    ]


def _library(name: str, find: Callable[[Any], Iterable[Setting]]) -> SavedState:
    """Return the state that functions of a module get and set."""
    return settings(lambda: find(sys.modules[name]) if name in sys.modules else None)


def _attribute(module: str, name: str) -> Any:
    """Return an attribute or None. By `vars`: `getattr` could make a module create it."""
    found = sys.modules.get(module)
    return None if found is None else vars(found).get(name)


# -- matplotlib ------------------------------------------------------------------------------------


def _set_style(style: State, key: str, value: Any) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if key == "backend" and pyplot is not None and isinstance(value, str):
        pyplot.switch_backend(value)
    else:
        put_entry(style, key, value)


def _unregister(names: list[str]) -> None:
    """Unregister all other colormaps: a name can be registered only once."""
    colormaps = sys.modules["matplotlib"].colormaps
    for name in set(colormaps).difference(names):
        colormaps.unregister(name)


# -- pandas ----------------------------------------------------------------------------------------


def _pandas_options() -> State | None:
    options = _attribute("pandas", "options")
    return None if options is None else dict(_groups(options.d))


def _groups(options: State, prefix: str = "") -> Iterator[tuple[str, State]]:
    """Yield each group of `pandas.options` with the prefix of its names."""
    yield prefix, options
    for key, value in options.items():
        if type(value) is dict:
            yield from _groups(value, f"{prefix}{key}.")


def _set_pandas_options(live: State, prefix: str, saved: Any) -> None:
    known = {} if saved is GONE else saved
    changed = [key for key in differing(live[prefix], known) if key in known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about deprecated options
        for key in changed:
            sys.modules["pandas"].set_option(f"{prefix}{key}", known[key])


# -- IPython ---------------------------------------------------------------------------------------


def _shell() -> Any:
    """Return the worker's shell, if there has been a cell: see `shell.WorkerShell`."""
    module = sys.modules.get("workbench.host.shell")
    return None if module is None else module.WorkerShell.made


def _shell_tables() -> State | None:
    """Return the shell's tables: formatters of types, hooks."""
    shell = _shell()
    return None if shell is None else dict(enumerate(shell.tables()))


def _first_shell_tables() -> State | None:
    """Return the tables as they were when the shell was made: a cell may have changed them."""
    shell = _shell()
    return None if shell is None else dict(enumerate(shell.first_tables))


def _fill(live: State, number: int, content: Any) -> None:
    table = live[number]
    table.clear()
    getattr(table, "extend" if isinstance(table, list) else "update")(content)
