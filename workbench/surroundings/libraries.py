"""Settings of libraries: options, styles, colormaps, formatters.

Each library is looked at only once its module is loaded, and none is imported here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from workbench.surroundings.settings import Part, Setting, State, put_entry, settings


def libraries() -> list[Part]:
    return [
        # numpy 2 keeps these two in context variables, which each task has for itself.
        _library(
            "numpy",
            lambda m: [
                Setting(
                    "np.set_printoptions",
                    m.get_printoptions,
                    lambda options: m.set_printoptions(**options),
                ),
                Setting("np.seterr", m.geterr, lambda errors: m.seterr(**errors)),
            ],
            travels=True,
        ),
        Part(
            "matplotlib.rcParams",
            lambda: _attribute("matplotlib", "rcParams"),
            _set_style,
            travels=True,
            usual=_usual_style,
        ),
        _library(
            "matplotlib",
            lambda m: [Setting("matplotlib.colormaps", lambda: list(m.colormaps), _unregister)],
        ),
        Part("pd.set_option", _pandas_options, _set_pandas_option, travels=True),
        _library(
            "sklearn",
            lambda m: [
                Setting("sklearn.set_config", m.get_config, lambda config: m.set_config(**config))
            ],
            travels=True,
        ),
        _library(
            "torch",
            lambda m: [
                Setting("torch.set_default_dtype", m.get_default_dtype, m.set_default_dtype),
                Setting("torch.set_grad_enabled", m.is_grad_enabled, m.set_grad_enabled),
                Setting(
                    "torch.use_deterministic_algorithms",
                    m.are_deterministic_algorithms_enabled,
                    m.use_deterministic_algorithms,
                ),
            ],
            travels=True,
        ),
        _library(
            "torch",
            lambda m: [Setting("torch.set_num_threads", m.get_num_threads, m.set_num_threads)],
        ),
        _library(
            "multiprocessing",
            lambda m: [
                Setting(
                    "multiprocessing.set_start_method",
                    partial(m.get_start_method, allow_none=True),
                    partial(m.set_start_method, force=True),
                )
            ],
            is_told=False,
        ),
        Part("IPython's formatters and hooks", _tables, _fill, first=partial(_tables, True)),
    ]


def _library(
    name: str,
    find: Callable[[Any], Iterable[Setting]],
    travels: bool = False,
    is_told: bool = True,
) -> Part:
    """Return the settings that functions of a module read and set."""

    def found() -> Iterable[Setting] | None:
        return find(sys.modules[name]) if name in sys.modules else None

    return settings(f"{name}, {'sent' if travels else 'kept'}", found, travels, is_told)


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


def _usual_style() -> State:
    """Return matplotlib's defaults, and what differs between a notebook and its workers."""
    module = sys.modules["matplotlib"]
    own = ("backend", "backend_fallback", "interactive", "toolbar")
    usual = dict(dict.items(module.rcParamsDefault))
    return usual | {key: dict.get(module.rcParams, key) for key in own}


def _unregister(names: list[str]) -> None:
    """Unregister all other colormaps: a name can be registered only once."""
    colormaps = sys.modules["matplotlib"].colormaps
    for name in set(colormaps).difference(names):
        colormaps.unregister(name)


# -- pandas ----------------------------------------------------------------------------------------


def _pandas_options() -> State | None:
    options = _attribute("pandas", "options")
    return None if options is None else dict(_options(options.d))


def _options(options: State, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each of `pandas.options` by its whole name."""
    for key, value in options.items():
        if type(value) is dict:
            yield from _options(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _set_pandas_option(live: State, name: str, value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about deprecated options
        sys.modules["pandas"].set_option(name, value)


# -- IPython ---------------------------------------------------------------------------------------


def _shell() -> Any:
    """Return the worker's shell, if there has been a cell: see `shell.WorkerShell`."""
    module = sys.modules.get("workbench.host.shell")
    return None if module is None else module.WorkerShell.made


def _tables(first: bool = False) -> State | None:
    """Return the shell's tables, formatters of types and hooks, without matplotlib's entries.

    Pyplot adds hooks at its first figure; IPython moves the formatter of figures when it shows one.
    ``first``: as they were when the shell was made, as a cell may have changed them.
    """
    if (shell := _shell()) is None:
        return None
    tables = shell.first_tables if first else shell.tables()
    return dict(enumerate(map(_own, tables)))


def _own(table: Any) -> Any:
    own = [entry for entry in table if not _is_matplotlibs(entry, table)]
    if isinstance(table, dict):
        return {key: table[key] for key in own}
    return set(own) if isinstance(table, set) else own


def _fill(_: State, number: int, content: Any) -> None:
    table = _shell().tables()[number]
    others = [entry for entry in table if _is_matplotlibs(entry, table)]
    filled = (
        {k: table[k] for k in others} | content if isinstance(table, dict) else others + content
    )
    table.clear()
    getattr(table, "extend" if isinstance(table, list) else "update")(filled)


def _is_matplotlibs(entry: object, table: Any) -> bool:
    """True for its type, the name of one, or a function, unless a person's function formats it."""
    module = entry[0] if isinstance(entry, tuple) else getattr(entry, "__module__", "")
    if str(module).partition(".")[0] not in ("matplotlib", "matplotlib_inline"):
        return False
    formats = table[entry] if isinstance(table, dict) else entry
    of = str(getattr(getattr(formats, "func", formats), "__module__", "")).partition(".")[0]
    return of in ("matplotlib", "matplotlib_inline", "IPython", "workbench")
