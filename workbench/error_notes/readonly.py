"""Note on a write to a stored object's bytes: whose they are, and alternatives."""

from __future__ import annotations

import dis
import gc
import os
import re
import types
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.call_site import OURS
from workbench.engine.queries import ShownBy
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.engine.base import Shown

KINDS = (ValueError, TypeError, BufferError)
"""Errors that numpy, pandas, Cython or memoryview raise for it."""

_SAYS_SO = re.compile(r"read[- ]?only|writeable|writable", re.IGNORECASE)

_OTHERS = re.compile(re.escape(OURS) + "|.*" + re.escape(os.sep + "IPython" + os.sep))
"""Files whose variables aren't the cause: a shell has a whole notebook in its ``self``."""

_TASKS = tuple(os.path.join(OURS, room, "") for room in ("host", "worker"))
"""Directories of the code that runs tasks."""

MOST_OBJECTS = 2_000
"""Objects searched for an array inside a table or a model."""


def note_of(error: BaseException) -> str:
    """Return the note if the error is such a write; else ''. Asks the session only then.

    The innermost frame tells best whose bytes they are, an outer one their name. If the frame that
    failed has arrays, but none of them shows an object, the error isn't about ours.
    """
    engine = context.get()
    if engine is None or not isinstance(error, KINDS) or not _SAYS_SO.search(str(error)):
        return ""
    frames, in_task, tb = [], False, error.__traceback__
    while tb is not None:
        filename = tb.tb_frame.f_code.co_filename
        in_task = in_task or filename.startswith(_TASKS)
        if not _OTHERS.match(filename):
            frames.append((tb.tb_frame, tb.tb_lineno, tb.tb_lasti))
        tb = tb.tb_next
    shown: Shown | None = None
    called: tuple[str, Any] = "", None
    for frame, line, at in reversed(frames):
        names = {**dict(_written_at(frame, at)), **dict(named_at(frame, line))}
        there = [(name, v, list(arrays_in(v))) for name, v in names.items()]
        for name, value, arrays in there:
            found = next(filter(None, (engine.ask(ShownBy(a)) for a in arrays)), None)
            if found is not None and (shown is None or found.id == shown.id):
                shown, called = found, (name, value)
                break
        if shown is None and any(arrays for *_, arrays in there):
            break
    if shown is None:
        return ""
    refs = (
        name
        for frame, *_ in frames
        for name, value in {**frame.f_globals, **frame.f_locals}.items()
        if type(value) is ObjectRef and value.id == shown.id and not name.startswith("_")
    )
    return _text(*called, shown, in_task, next(refs, ""))


def _text(name: str, value: Any, shown: Shown, in_task: bool, ref: str) -> str:
    """Return the note; ``ref``: a variable that is a ref to the object, '' if there is none."""
    about = f" ({shown.about})" if shown.about else ""
    if hasattr(type(value), "__array__") and hasattr(type(value), "copy"):
        copy = f"`{name} = {name}.copy()`"
    elif isinstance(value, list | tuple | dict | set | frozenset):
        copy = "copy the array before you change it"
    else:  # a model
        copy = f"`{name} = copy.deepcopy({name})`"
    stored = f"the stored object {shown.names[0]!r}" if shown.names else "a stored object"
    said = f"`{name}` shows {stored}{about}, and what is stored doesn't change."
    if in_task:
        return f"{said} The way out in a task: {copy}."
    if not (shown.names or ref):  # nothing refers to the object
        return f"{said} The way out: {copy}."
    private = f"`%get {shown.names[0]} --copy`, " if shown.names else ""
    got = f"`get({ref or 'ref'}, copy=True)`"
    return (
        f"{said} Two ways out: {copy}, or get a private copy: {private}{got}. "
        "With `--cow`, or `copy_on_write=True`, only what is written is copied."
    )


def _written_at(frame: FrameType, at: int) -> Iterator[tuple[str, Any]]:
    """Yield the variables in the failing part of a line; the written one first, if known.

    ``at``: offset of the bytecode.
    """
    code = list(dis.get_instructions(frame.f_code))
    here = next((n for n, each in enumerate(code) if each.offset == at), 0)
    extent = _extent(code[here])
    if extent is None:
        return
    # For ``y[0] = x[0]`` the part is the target: other names are outside.
    loads: list[Any] = []
    for each, following in pairwise(code[: here + 1]):
        part, behind, names = _extent(each), _extent(following), _loaded(each)
        if part and extent[0] <= part[0] and part[1] <= extent[1]:
            loads += names
        elif _is_pair(each) and names and behind and extent[0] <= behind[0] <= extent[1]:
            # Its position is the first one's. The second is inside, unless that begins behind it.
            begins_behind = bool(_loaded(following)) and behind[0] == extent[0]
            loads += () if begins_behind else names[-1:]
    # Keyword arguments come last; their names are loaded just before the call.
    keywords: tuple[Any, ...] = ()
    for each in code[max(here - 3, 0) : here]:
        if each.opname == "KW_NAMES":  # Python 3.11 and 3.12
            keywords = frame.f_code.co_consts[each.arg or 0]
        elif code[here].opname == "CALL_KW" and each is code[here - 1]:
            keywords = each.argval
            loads.pop()
    if "out" in keywords and len(loads) >= len(keywords):
        loads.insert(0, loads[keywords.index("out") - len(keywords)])
    variables = {**frame.f_globals, **frame.f_locals}
    for name in loads:
        if isinstance(name, str) and name in variables:
            yield name, variables[name]


def _is_pair(of: dis.Instruction) -> bool:
    """True if it stands for two instructions, like ``STORE_FAST_LOAD_FAST`` since Python 3.13."""
    return isinstance(of.argval, tuple) and "_FAST" in of.opname


def _loaded(of: dis.Instruction) -> tuple[Any, ...]:
    if _is_pair(of):
        first, second = of.argval
        return (first,) * of.opname.startswith("LOAD_") + (second,) * ("_LOAD_" in of.opname)
    return (of.argval,) if of.opname.startswith("LOAD_") else ()


def _extent(of: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return its start and end in the source: line and column."""
    place = of.positions
    if place is None or place.lineno is None or place.end_lineno is None:
        return None
    return (place.lineno, place.col_offset or 0), (place.end_lineno, place.end_col_offset or 0)


def named_at(frame: FrameType, line: int) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a line refers to, with their values."""
    variables = {**frame.f_globals, **frame.f_locals}
    names: dict[str, None] = {}
    for each, following in pairwise(dis.get_instructions(frame.f_code)):
        lines = [i.positions.lineno for i in (each, following) if i.positions]
        # The second of a pair may belong to the next line.
        if line in (lines if _is_pair(each) else lines[:1]):
            loaded = [name for name in _loaded(each) if isinstance(name, str)]
            names |= dict.fromkeys(filter(str.isidentifier, loaded))
    for name in names:
        if name in variables:
            yield name, variables[name]


_NO_PART = (type, types.ModuleType, types.FunctionType, ObjectRef)


def arrays_in(value: Any) -> Iterator[Any]:
    """Yield the arrays that a value is or contains, as a table or model does. Skips refs."""
    seen: set[int] = set()
    queue = [value]
    while queue and len(seen) < MOST_OBJECTS:
        each = queue.pop()
        if id(each) in seen or isinstance(each, _NO_PART):
            continue
        seen.add(id(each))
        if isinstance(each, memoryview) or hasattr(type(each), "__array_interface__"):
            yield each
        queue.extend(gc.get_referents(each))
