"""Where the memory of a person's program begins: variables, results, errors, figures, modules.

Each root has the statement that lets go of it.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from typing import Any

from workbench.call_site import is_own
from workbench.heap.frames import locals_of
from workbench.heap.survey import HeapRoot

_SAME = frozenset(("In", "Out", "_ih", "_oh", "_dh", "get_ipython", "exit", "quit", "open"))
"""IPython's variables, and those whose content has plainer names, too."""


def roots(error: BaseException | None = None) -> Iterator[HeapRoot]:
    """Yield the roots in the order in which shared parts are counted.

    ``error``: the one that is being shown; without it, the last one.
    """
    main: dict[str, Any] = vars(sys.modules["__main__"])
    outputs = main.get("_oh") if "get_ipython" in main else None
    outputs = outputs if isinstance(outputs, dict) else {}
    results = {id(value) for value in list(outputs.values())}
    for name, value in list(main.items()):
        if name in _SAME or isinstance(value, types.ModuleType) or _is_output(name):
            continue
        if not (name.startswith("__") and name.endswith("__")):
            # `%xdel` deletes all names that IPython has for the value, `del` one of them.
            yield HeapRoot(
                "variable", name, value, "", f"{'%x' * (id(value) in results)}del {name}"
            )
    for number, value in list(outputs.items()):
        yield HeapRoot("output", f"Out[{number}]", value, "", f"%xdel _{number}")
    yield from _raised(error)
    yield from _figures()
    yield from _running()


def _is_output(name: str) -> bool:
    return name.startswith("_") and (not name.strip("_") or name.lstrip("_i").isdigit())


def _raised(error: BaseException | None) -> Iterator[HeapRoot]:
    """Yield the variables of functions in tracebacks that the last error keeps."""
    shell = getattr(vars(sys.modules["__main__"]).get("get_ipython"), "__self__", None)
    kept_by = ["sys.last_exc"] * (sys.version_info >= (3, 12))
    kept_by += ["sys.last_value", "sys.last_traceback"]
    kept_by += ["get_ipython().InteractiveTB.tb"] * (shell is not None)
    cut = f"import sys; {' = '.join(kept_by)} = None"
    if error is not None and shell is None:
        cut = ""  # the program ends with it
    tracebacks = [getattr(getattr(shell, "InteractiveTB", None), "tb", None)]
    error = error or getattr(sys, "last_value", None)
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        tracebacks.append(error.__traceback__)
        error = error.__cause__ or error.__context__
    for step in reversed(tracebacks):
        while step is not None:
            code = step.tb_frame.f_code
            if code.co_flags & CO_OPTIMIZED and is_own(code.co_filename):
                kept = f"in {code.co_name}(), kept by the traceback of the last error"
                for name, value in locals_of(step.tb_frame).items():
                    yield HeapRoot("traceback", name, value, kept, cut)
            step = step.tb_next


def _figures() -> Iterator[HeapRoot]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    for number, manager in list(helpers.Gcf.figs.items()) if helpers else ():
        cut = f"{_imported('matplotlib.pyplot', 'plt')}plt.close({number!r})"
        yield HeapRoot("figure", f"figure {number}", manager.canvas.figure, "", cut)


def _imported(name: str, called: str = "") -> str:
    """Return the import that a statement needs where a module isn't known by this name yet."""
    top = name.partition(".")[0]
    main, bound = vars(sys.modules["__main__"]), called or top
    if main.get(bound) is sys.modules[name if called else top]:
        return ""
    return f"import {name}{called and f' as {called}'}; "


def _running() -> Iterator[HeapRoot]:
    """Yield the variables of a person's functions that run in threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames: dict[int, Any] = sys._current_frames()
    # Our own frame would keep all that our callers have.
    ours = frames.pop(threading.get_ident(), None)
    frames[threading.get_ident()] = ours.f_back if ours else None
    del ours
    for ident, frame in frames.items():
        while frame is not None:
            code = frame.f_code
            if code.co_flags & CO_OPTIMIZED and is_own(code.co_filename):
                thread = "" if ident == threading.main_thread().ident else names.get(ident, "")
                where = f"in {code.co_name}(), which runs"
                where += f" in thread {thread!r}" if thread else ""
                for name, value in locals_of(frame).items():
                    yield HeapRoot("running", name, value, where)
            frame = frame.f_back


def attributes(libraries: bool = True) -> Iterator[HeapRoot]:
    """Yield the attributes of modules, except what they import from each other.

    ``libraries``: False for a person's own modules only.
    """
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "sys") or not isinstance(module, types.ModuleType):
            continue
        namespace = object.__getattribute__(module, "__dict__")  # loads no lazy module
        file = getattr(module, "__file__", None)
        is_persons = isinstance(file, str) and is_own(file)
        if not (is_persons or libraries):
            continue
        for attribute, value in list(namespace.items()):
            if isinstance(value, types.ModuleType) or attribute.startswith("__"):
                continue
            if isinstance(value, type | types.FunctionType) and value.__module__ != name:
                continue  # imported from there
            cut = _emptied(name, attribute, value, is_persons)
            yield HeapRoot("module", f"{name}.{attribute}", value, "", cut)


def _emptied(name: str, attribute: str, value: Any, is_persons: bool) -> str:
    """Return how to empty an attribute of a module: of a library's, only what is made for it."""
    path = f"{_imported(name)}{name}.{attribute}"
    if hasattr(type(value), "cache_clear"):
        return f"{path}.cache_clear()"
    if not is_persons:
        return ""
    if isinstance(value, dict | list | set):
        return f"{path}.clear()"
    return f"{_imported(name)}del {name}.{attribute}"
