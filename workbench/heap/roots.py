"""Where the memory of a person's program begins: variables, results, errors, figures, modules.

Each root has the statement that lets go of it.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator, Mapping
from inspect import CO_OPTIMIZED
from traceback import walk_tb
from typing import Any

from workbench.call_site import is_own, is_persons
from workbench.heap.survey import HeapRoot

SAME = frozenset(("In", "_ih", "_oh", "_dh", "__builtins__", "get_ipython", "exit", "quit", "open"))
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
        if name in SAME or isinstance(value, types.ModuleType) or is_output(name):
            continue
        if not (name.startswith("__") and name.endswith("__")):
            # `%xdel` deletes all names that IPython has for the value, `del` one of them.
            cut = f"{'%x' * (id(value) in results)}del {name}"
            yield HeapRoot("variables", name, value, "", cut)
    for number, value in list(outputs.items()):
        yield HeapRoot("outputs", f"Out[{number}]", value, "", f"%xdel _{number}")
    yield from raised(error)
    for number, manager, cut in figures():
        yield HeapRoot("figures", f"figure {number}", manager.canvas.figure, "", cut)
    yield from running()


def is_output(name: str) -> bool:
    """True of a name that IPython gives to results."""
    return name in ("Out", "_", "__", "___") or (name[:1] == "_" and name.strip("_").isdigit())


def raised(error: BaseException | None = None) -> Iterator[HeapRoot]:
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
    for traceback in reversed(tracebacks):
        for frame, _ in walk_tb(traceback):
            yield from _variables(frame, "kept by the traceback of the last error", cut)


def figures() -> Iterator[tuple[int, Any, str]]:
    """Yield pyplot's figures that aren't closed: number, manager, and the line that closes it."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    for number, manager in list(helpers.Gcf.figs.items()) if helpers else ():
        name, main = "matplotlib.pyplot", vars(sys.modules["__main__"])
        path, before = expression_for(name, sys.modules.get(name), main)
        yield number, manager, f"{before}{path}.close({number!r})"


def running() -> Iterator[HeapRoot]:
    """Yield the variables of a person's functions that run, in any thread."""
    for frame, thread in running_frames(own=True):
        yield from _variables(frame, f"which runs{thread}")


def _variables(frame: types.FrameType, how: str, cut: str = "") -> Iterator[HeapRoot]:
    """Yield the variables of a frame, if that is of a person's function."""
    code = frame.f_code
    if code.co_flags & CO_OPTIMIZED and is_own(code.co_filename):
        for name, value in locals_of(frame).items():
            yield HeapRoot("frames", name, value, f"in {code.co_name}(), {how}", cut)


def running_frames(own: bool = False) -> list[tuple[types.FrameType, str]]:
    """Return the frames that run, each with `` in thread 'name'`` unless that is the main thread.

    ``own``: also those of this thread, but for the one that asks; else no frame refers to itself,
    which would keep it and all that its callers refer to. So a generator should ask, whose frame
    goes with it.
    """
    names = {thread.ident: f" in thread {thread.name!r}" for thread in threading.enumerate()}
    names[threading.main_thread().ident] = ""
    innermost: dict[int, Any] = sys._current_frames()
    ours = innermost.pop(threading.get_ident(), None)
    if own and ours is not None:
        innermost[threading.get_ident()] = ours.f_back.f_back
    del ours
    found = []
    for ident, frame in innermost.items():
        while frame is not None:
            found.append((frame, names.get(ident, "")))
            frame = frame.f_back
    return found


def locals_of(frame: types.FrameType | None) -> dict[str, Any]:
    """Return a frame's variables. The caller must let go of them at once.

    Before Python 3.13 the frame keeps the dict that it returns, and so its values even after a
    ``del`` in the function: emptied here, unless another holder or a debugger may use it.
    """
    if frame is None:
        return {}
    given = frame.f_locals
    found = dict(given)
    is_dict = frame.f_code.co_flags & CO_OPTIMIZED
    if is_dict and sys.version_info < (3, 13) and frame.f_trace is None:
        if sys.getrefcount(given) <= _ITS_OWN:
            given.clear()
    return found


_ITS_OWN = 3
"""References to a frame's dict if no one else has it: the frame, a variable, `getrefcount`."""


def attributes(libraries: bool = True) -> Iterator[HeapRoot]:
    """Yield the attributes of modules, except what they import from each other.

    ``libraries``: False for a person's own modules only.
    """
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "sys") or not isinstance(module, types.ModuleType):
            continue
        namespace = object.__getattribute__(module, "__dict__")  # loads no lazy module
        is_own_module = is_persons(name)
        if not (is_own_module or libraries):
            continue
        for attribute, value in list(namespace.items()):
            if isinstance(value, types.ModuleType) or attribute.startswith("__"):
                continue
            if isinstance(value, type | types.FunctionType) and value.__module__ != name:
                continue  # imported from there
            cut = _emptied(name, module, attribute, value, is_own_module)
            yield HeapRoot("objects", f"{name}.{attribute}", value, "", cut)


def _emptied(name: str, module: Any, attribute: str, value: Any, is_own_module: bool) -> str:
    """Return how to empty an attribute of a module: of a library's, only what is made for it."""
    path, before = expression_for(name, module, vars(sys.modules["__main__"]))
    if hasattr(type(value), "cache_clear"):
        return f"{before}{path}.{attribute}.cache_clear()"
    if not is_own_module:
        return ""
    if isinstance(value, dict | list | set):
        return f"{before}{path}.{attribute}.clear()"
    return f"{before}del {path}.{attribute}"


def expression_for(name: str, module: Any, variables: Mapping[str, Any]) -> tuple[str, str]:
    """Return the expression for a module, and the import that it needs."""
    for variable in (name, name.rpartition(".")[2], *_SHORT.get(name, ())):
        if variable.isidentifier() and variables.get(variable) is module:
            return variable, ""
    top = name.partition(".")[0]
    free = variables.get(top, sys.modules.get(top)) is sys.modules.get(top)
    found: Any = sys.modules.get(top)
    for part in name.split(".")[1:]:
        found = getattr(found, "__dict__", {}).get(part)
    if free and found is module and all(map(str.isidentifier, name.split("."))):
        return name, f"import {name}; "
    return f"__import__('sys').modules[{name!r}]", ""


_SHORT = {"matplotlib.pyplot": ("plt",), "numpy": ("np",), "pandas": ("pd",)}
"""Usual names of modules."""
