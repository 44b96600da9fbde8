"""What libraries have that a task may change: options, styles, open figures, formatters.

Each is looked at only once its module is loaded, and none is imported here.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from workbench.host.display import close_figures
from workbench.host.saved_state import (
    GONE,
    Saved,
    SavedEntries,
    SavedSettings,
    Setting,
    differing,
    put_entry,
)


def libraries() -> list[Saved]:
    """Those that are known here."""
    return [
        # numpy 2 has most of these two in context variables, which are each task's own.
        LibrarySettings(
            "numpy",
            lambda m: [
                (m.get_printoptions, lambda options: m.set_printoptions(**options)),
                (m.geterr, lambda errors: m.seterr(**errors)),
            ],
        ),
        SavedEntries(lambda: _attribute("matplotlib", "rcParams"), _set_style),
        OpenFigures(),
        Colormaps(_colormaps_by_name, _unregister),
        PandasOptions(_pandas_options, _set_pandas_option),
        LibrarySettings(
            "sklearn", lambda m: [(m.get_config, lambda config: m.set_config(**config))]
        ),
        LibrarySettings(
            "torch",
            lambda m: [
                (m.get_default_dtype, m.set_default_dtype),
                (m.is_grad_enabled, m.set_grad_enabled),
                (m.are_deterministic_algorithms_enabled, m.use_deterministic_algorithms),
                (m.get_num_threads, m.set_num_threads),
            ],
        ),
        LibrarySettings(
            "multiprocessing",
            lambda m: [
                (
                    partial(m.get_start_method, allow_none=True),
                    partial(m.set_start_method, force=True),
                )
            ],
        ),
        ShellTables(),
    ]


class LibrarySettings:
    """What functions of a module tell and set: as they were when it was first seen."""

    def __init__(self, name: str, settings: Callable[[Any], list[Setting]]) -> None:
        self._name = name
        self._settings = settings
        self._part: SavedSettings | None = None
        self._find()

    def look(self) -> Any:
        part = self._find()
        return None if part is None else part.look()

    def learn(self, before: Any, after: Any) -> None:
        if self._part is not None and before is not None:
            self._part.learn(before, after)

    def restore(self) -> None:
        part = self._find()
        if part is not None:
            part.restore()

    def _find(self) -> SavedSettings | None:
        if self._part is None and self._name in sys.modules:
            self._part = SavedSettings(*self._settings(sys.modules[self._name]))
        return self._part


def _attribute(module: str, name: str) -> Any:
    """None while it isn't there. By `vars`: a module may make it when it is asked for."""
    found = sys.modules.get(module)
    return None if found is None else vars(found).get(name)


# -- matplotlib ------------------------------------------------------------------------------------


def _set_style(style: dict[str, Any], key: str, value: Any) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if key == "backend" and pyplot is not None and isinstance(value, str):
        pyplot.switch_backend(value)
    else:
        put_entry(style, key, value)


class OpenFigures:
    """Figures that a task leaves open, or a module it imports: a later cell would show them."""

    def look(self) -> None:
        return None

    def learn(self, before: None, after: None) -> None:
        pass

    def restore(self) -> None:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and pyplot.get_fignums():
            close_figures()


def _colormaps_by_name() -> dict[str, None] | None:
    found = _attribute("matplotlib", "colormaps")
    return None if found is None else dict.fromkeys(found)


def _unregister(live: object, name: str, value: Any) -> None:
    if value is GONE:
        sys.modules["matplotlib"].colormaps.unregister(name)


class Colormaps(SavedEntries):
    """Their names: one can be registered only once."""

    def restore(self) -> None:
        found = _attribute("matplotlib", "colormaps")
        if found is not None and (self._saved is None or len(found) != len(self._saved)):
            super().restore()


# -- pandas ----------------------------------------------------------------------------------------


def _pandas_options() -> dict[str, Any] | None:
    options = _attribute("pandas", "options")
    return None if options is None else dict(_flat(options.d))


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if type(value) is dict:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _set_pandas_option(live: object, key: str, value: Any) -> None:
    if value is not GONE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of options that are deprecated
            sys.modules["pandas"].set_option(key, value)


class PandasOptions(SavedEntries):
    """All of `pandas.options`."""

    _nested: Any = None  # them as pandas has them, to be compared at one go

    def restore(self) -> None:
        options = _attribute("pandas", "options")
        if options is not None and options.d != self._nested:
            super().restore()
            self._nested = copy.deepcopy(options.d)


# -- IPython ---------------------------------------------------------------------------------------


class ShellTables:
    """What the worker's IPython shell has tables of: how types are shown, hooks.

    They are saved by the shell, when it is made.
    """

    def look(self) -> list[Any]:
        shell = _shell()
        return [] if shell is None else [copy.copy(table) for table in shell.tables()]

    def learn(self, before: list[Any], after: list[Any]) -> None:
        shell = _shell()
        if shell is None or not before:
            return
        for saved, was, now in zip(shell.first_tables, before, after, strict=True):
            if isinstance(now, dict):
                saved |= {key: now[key] for key in differing(was, now) if key in now}
            elif was != now:
                _fill(saved, now)

    def restore(self) -> None:
        shell = _shell()
        if shell is not None:
            for table, saved in zip(shell.tables(), shell.first_tables, strict=True):
                if table != saved:
                    _fill(table, saved)


def _shell() -> Any:
    """The worker's own, if there has been a cell: see `shell.WorkerShell`."""
    module = sys.modules.get("workbench.host.shell")
    return None if module is None else module.WorkerShell.made


def _fill(table: Any, content: Any) -> None:
    table.clear()
    getattr(table, "extend" if isinstance(table, list) else "update")(content)
