"""What libraries keep that a task may change: options, styles, open figures, formatters.

Each is looked at only once its module is loaded, and none is imported here.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench.host.display import close_figures
from workbench.host.kept_state import GONE, Kept, differing


class LibraryValue:
    """What one function of a module tells, and another one sets. Learned when it is imported."""

    def __init__(
        self, module: str, read: Callable[[Any], Any], write: Callable[[Any, Any], object]
    ) -> None:
        self._name = module
        self._read = read
        self._write = write
        self._kept: Any = self.look()

    def look(self) -> Any:
        module = sys.modules.get(self._name)
        return GONE if module is None else self._read(module)

    def learn(self, before: Any, after: Any) -> None:
        if before != after:
            self._kept = after

    def restore(self) -> None:
        module = sys.modules.get(self._name)
        if module is None:
            return
        now = self._read(module)
        if self._kept is GONE:  # it came without an import of the main thread's
            self._kept = now
        elif now != self._kept:
            self._write(module, self._kept)


class LibraryEntries:
    """Options by name. As they were when the library was imported."""

    def __init__(self, module: str) -> None:
        self._name = module
        self._kept: dict[Any, Any] | None = self.look()

    def look(self) -> dict[Any, Any] | None:
        module = sys.modules.get(self._name)
        return None if module is None else {k: _copied(v) for k, v in self._options(module)}

    def learn(self, before: dict[Any, Any] | None, after: dict[Any, Any] | None) -> None:
        if after is None:
            return
        if before is None or self._kept is None:
            self._kept = after
            self._learned(sys.modules[self._name])
            return
        changed = differing(before, after)
        self._kept |= {key: after[key] for key in changed if key in after}
        for key in changed:
            if key not in after:
                self._kept.pop(key, None)
        if changed:
            self._learned(sys.modules[self._name])

    def restore(self) -> None:
        module = sys.modules.get(self._name)
        if module is None:
            return
        if self._kept is None:
            self._kept = self.look()
            self._learned(module)
        elif not self._is_as_kept(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of options that are deprecated
                for key in differing(self._kept, dict(self._options(module))):
                    self._put(module, key, _copied(self._kept.get(key, GONE)))

    def _options(self, module: Any) -> Iterator[tuple[Any, Any]]:
        raise NotImplementedError

    def _is_as_kept(self, module: Any) -> bool:
        """Whether all are; quickly."""
        raise NotImplementedError

    def _put(self, module: Any, key: Any, value: Any) -> None:
        raise NotImplementedError

    def _learned(self, module: Any) -> None:
        """What is kept has changed."""


class MatplotlibStyle(LibraryEntries):
    """``rcParams``, and with them the backend."""

    def _options(self, module: Any) -> Iterator[tuple[Any, Any]]:
        return iter(dict.items(module.rcParams))

    def _is_as_kept(self, module: Any) -> bool:
        # As a dict: its own methods check each name.
        return dict.__eq__(module.rcParams, self._kept) is True

    def _put(self, module: Any, key: Any, value: Any) -> None:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if key == "backend" and pyplot is not None and isinstance(value, str):
            pyplot.switch_backend(value)
        elif value is GONE:
            dict.pop(module.rcParams, key, None)
        else:
            dict.__setitem__(module.rcParams, key, value)


class OpenFigures:
    """Figures that a task leaves open: a later cell would show them."""

    def look(self) -> None:
        return None

    def learn(self, before: None, after: None) -> None:
        pass

    def restore(self) -> None:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and pyplot.get_fignums():
            close_figures()


class Colormaps:
    """Names of colormaps: one can be registered only once."""

    def __init__(self) -> None:
        self._kept: Any = self.look()

    def look(self) -> Any:
        matplotlib = sys.modules.get("matplotlib")
        # By `vars`: older ones make it when it is asked for.
        found = vars(matplotlib).get("colormaps") if matplotlib is not None else None
        return None if found is None else frozenset(found)

    def learn(self, before: Any, after: Any) -> None:
        if before != after:
            self._kept = (
                after if before is None else (self._kept - (before - after)) | (after - before)
            )

    def restore(self) -> None:
        matplotlib = sys.modules.get("matplotlib")
        found = vars(matplotlib).get("colormaps") if matplotlib is not None else None
        if found is None:
            return
        if self._kept is None:
            self._kept = frozenset(found)
        elif len(found) != len(self._kept):
            for name in frozenset(found) - self._kept:
                found.unregister(name)


class PandasOptions(LibraryEntries):
    """All of `pandas.options`."""

    def __init__(self) -> None:
        self._nested: Any = None  # them as pandas has them, to be compared at one go
        super().__init__("pandas")

    def _options(self, module: Any) -> Iterator[tuple[Any, Any]]:
        options = getattr(module, "options", None)  # None: it is just being imported
        return iter(()) if options is None else _flat(options.d)

    def _is_as_kept(self, module: Any) -> bool:
        return bool(module.options.d == self._nested)

    def _put(self, module: Any, key: Any, value: Any) -> None:
        if value is not GONE:
            module.set_option(key, value)

    def _learned(self, module: Any) -> None:
        if hasattr(module, "options"):
            self._nested = copy.deepcopy(module.options.d)


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if type(value) is dict:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _copied(value: Any) -> Any:
    """A list of its own: somebody may add to the other."""
    return list(value) if type(value) is list else value


class ShellTables:
    """What the worker's IPython shell has tables of: how types are shown, hooks."""

    def __init__(self) -> None:
        self._kept: list[Any] | None = None  # by table, once there is a shell

    def look(self) -> list[Any] | None:
        shell = _shell()
        return None if shell is None else [copy.copy(table) for table in shell.tables()]

    def learn(self, before: list[Any] | None, after: list[Any] | None) -> None:
        kept = self._all_kept()
        if before is None or after is None or kept is None:
            return
        for n, (was, now) in enumerate(zip(before, after, strict=True)):
            if was != now and isinstance(now, dict):
                kept[n] |= {key: now[key] for key in differing(was, now) if key in now}
            elif was != now:
                kept[n] = now

    def restore(self) -> None:
        shell, kept = _shell(), self._all_kept()
        if shell is None or kept is None:
            return
        for table, first in zip(shell.tables(), kept, strict=True):
            if table != first:
                table.clear()
                getattr(table, "extend" if isinstance(table, list) else "update")(first)

    def _all_kept(self) -> list[Any] | None:
        shell = _shell()
        if self._kept is None and shell is not None:
            self._kept = shell.first_tables
        return self._kept


def _shell() -> Any:
    """The worker's own, if there has been a cell: see `shell.WorkerShell`."""
    module = sys.modules.get("workbench.host.shell")
    return None if module is None else module.WorkerShell.made


def libraries() -> list[Kept]:
    """Those that are known here."""
    return [
        # numpy 2 has most of these two in context variables, which are each task's own.
        LibraryValue("numpy", lambda m: m.get_printoptions(), lambda m, v: m.set_printoptions(**v)),
        LibraryValue("numpy", lambda m: m.geterr(), lambda m, v: m.seterr(**v)),
        MatplotlibStyle("matplotlib"),
        OpenFigures(),
        Colormaps(),
        PandasOptions(),
        LibraryValue("sklearn", lambda m: m.get_config(), lambda m, v: m.set_config(**v)),
        LibraryValue("torch", _torch_modes, _set_torch_modes),
        LibraryValue(
            "multiprocessing",
            lambda m: m.get_start_method(allow_none=True),
            lambda m, v: m.set_start_method(v, force=True),
        ),
        ShellTables(),
    ]


def _torch_modes(torch: Any) -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
    )


def _set_torch_modes(torch: Any, modes: tuple[Any, ...]) -> None:
    dtype, grad, deterministic, threads = modes
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)
