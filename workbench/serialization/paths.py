"""Builds the path to a part of an object: ``model.callbacks[2].lock``, ``df['x'].iloc[3]``.

Names what a pickler saves, step by step, as people would write it. Saves nothing.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import pickle
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from workbench.expressions import written
from workbench.serialization.dataframes import ColumnCells, Columns, cells_of, columns_of

LARGE_DICT = 64
"""Entries of a dict above which they share one name."""


@dataclass(slots=True, eq=False)
class Step:
    """One object on the path from the root to the object being pickled."""

    object: Any
    label: str = ""
    """Name that its parent has for it: ``.lock``, ``[2]``; empty if it is the parent's own part."""

    role: str = "value"
    """``value``, or its relation to ``owner``: ``arguments``, ``state``, ``closure``, ``globals``,
    ``members`` (of an enum), ``cells`` (of an array; the owner knows their names),
    ``table`` (a part of an object whose owner knows which of its parts have names)."""

    owner: Any = None
    _: KW_ONLY
    group: str = ""
    """Common name of it and its neighbours: ``[…]``; empty: it is named alone."""

    of: str = ""
    """``closure`` or ``global`` if the label is a variable of that kind."""

    before: str = ""
    """Text before the whole path: ``[*`` of ``[*names][3]``."""

    cells: ColumnCells | None = None
    """Names of its objects, if it is an array and they aren't its own indices."""

    table: Columns | None = None
    """Named parts of what it is made of; the rest belongs to the object itself."""

    _children: int = field(default=0, init=False)
    _numbers: list[int] | None = field(default=None, init=False)  # of the items in a sample
    _mode: str = field(default="", init=False)  # "items" or "pairs" while those are saved
    _key: Any = field(default=None, init=False)
    _parts: dict[int, str] = field(default_factory=dict, init=False)

    @property
    def is_large_dict(self) -> bool:
        """True if it is a dict whose entries share one name."""
        plain = self.role == "value" and isinstance(self.object, dict)
        return plain and len(self.object) > LARGE_DICT

    def reduced_to(self, args: Any, state: Any) -> None:
        """Note that these two are parts of the object, not items in it."""
        self._parts = {id(args): "arguments", id(state): "state"}
        self.table = columns_of(self.object, args)

    @contextlib.contextmanager
    def saving(self, mode: str) -> Iterator[None]:
        self._mode, self._children, self._numbers = mode, 0, None
        yield
        self._mode = ""

    def sample(self, numbers: list[int]) -> None:
        """Announce that the items with these numbers are saved next."""
        self._children, self._numbers = 0, numbers

    def pass_by(self, child: Any) -> None:
        """Count a child that is saved next and needs no path."""
        if self._mode == "pairs" and self._children % 2 == 0:
            self._key = child
        self._children += 1

    def skip(self, batch: Sequence[Any]) -> None:
        """Count items or pairs that are saved next elsewhere."""
        self._children += len(batch) * (2 if self._mode == "pairs" else 1)

    def _number(self, n: int) -> int:
        return n if self._numbers is None else self._numbers[n]

    def step(self, child: Any) -> Step:
        """Return the step to the child that is saved next."""
        n, self._children = self._children, self._children + 1
        if self.role == "table":
            return _part_of(self.owner if self.table is None else self.table, child)
        if self._mode == "items":
            return self._item(self._number(n), child)
        if self._mode == "pairs":
            return self._pair(n, child)
        if self.role == "arguments":
            return self._argument(n, child)
        if self.role == "closure":
            return Step(child, self.owner.__code__.co_freevars[n], of="closure")
        if self.role == "state":
            return self._part_of_state(n, child)
        part = self._parts.get(id(child))
        if part == "arguments" and self.table is not None:
            return _part_of(self.table, child)
        if part is not None:
            return Step(child, "", part, self.object, cells=self.cells, table=self.table)
        if type(self.object) in (tuple, frozenset):
            return self._item(n, child)
        if isinstance(self.object, enum.Enum) and child is type(self.object):
            return Step(child, ".__class__")
        return Step(child)

    def _argument(self, n: int, child: Any) -> Step:
        if type(child) is pickle.PickleBuffer:
            return Step(child)
        if isinstance(self.owner, enum.EnumMeta):
            return Step(child, "", "members" if n == 3 else "value", self.owner)
        if isinstance(self.owner, enum.Enum):
            return Step(child, ".__class__" if child is type(self.owner) else ".value")
        return Step(child, _argument(self.owner, n, child))

    def _item(self, n: int, child: Any) -> Step:
        if self.role == "cells":
            return Step(child, self.owner.label(n), group=self.owner.group(n))
        if self.role == "state":
            return Step(child, _item_of_state(self.owner, n), group="[…]")
        if type(self.object) in (set, frozenset):
            return Step(child, f"][{n}]", before="[*", group="{…}")
        return Step(child, f"[{n}]", group="[…]")

    def _pair(self, n: int, child: Any) -> Step:
        """Return the step to a key or a value: of a dict, or of an object's attributes."""
        if n % 2 == 0:
            self._key = child
            if self.role != "value":
                return Step(child)
            return Step(child, f"][{self._number(n // 2)}]", before="[*", group=" keys")
        key = self._key
        if self.role == "members":
            return Step(child, f".{key}.value")
        if self.role == "globals":
            return Step(child, key, of="global")
        if self.role == "state":
            if isinstance(self.owner, types.FunctionType) and key in _ROLES:
                return Step(child, "", _ROLES[key], self.owner)
            if self.table is not None and str(key).startswith("_"):  # private to its library
                return _part_of(self.table, child)
            return Step(child, f".{key}")
        group = "[…]" if self.is_large_dict else ""
        text = written(key)
        if text is None:
            label = f".values()][{self._number(n // 2)}]"
            return Step(child, label, before="[*", group=group)
        return Step(child, f"[{text}]", group=group)

    def _part_of_state(self, n: int, child: Any) -> Step:
        if isinstance(self.owner, functools.partial) and n < 4:
            return Step(child, (".func", ".args", ".keywords", ".__dict__")[n])
        if isinstance(self.owner, np.ndarray) and isinstance(child, list):
            return Step(child, "", "cells", self.cells or cells_of(self.owner))
        if self.table is not None:
            return _part_of(self.table, child)
        if child is None or isinstance(child, dict):  # (attributes, slots)
            return Step(child, "", "state", self.owner)
        return Step(child, f".__getstate__()[{n}]")


def _part_of(table: Columns, child: Any) -> Step:
    """Return the step to a part of an object, named or nameless."""
    label, cells = table.find(child) or ("", None)
    if isinstance(child, np.ndarray) and (label or cells):
        return Step(child, label, cells=cells)
    return Step(child, label, "table", table)


_ROLES = {"__closure__": "closure", "__globals__": "globals"}


def _argument(owner: Any, n: int, child: Any) -> str:
    """Return the label of the n-th argument of an object's reduction."""
    if isinstance(owner, BaseException):
        return f".args[{n}]"
    for cls in type(owner).__mro__:
        labels = _ARGUMENTS.get(cls)
        if labels is not None:
            return labels[n] if n < len(labels) else ""
    if type(owner).__module__ in _OPAQUE:
        return ""
    attribute = _attribute(owner, child)
    return f".__reduce__()[1][{n}]" if attribute is None else attribute


def _attribute(owner: Any, child: Any) -> str | None:
    """Return ``.name`` if exactly one attribute is the child; empty if the owner wraps it."""
    try:
        attributes = vars(owner)
        if attributes.get("__wrapped__") is child:
            return ""
        (name,) = (name for name, value in attributes.items() if value is child)
    except Exception:  # no attribute or several are the child, or they raise
        return None
    return f".{name}"


_ARGUMENTS: dict[type, tuple[str, ...]] = {
    types.CellType: (),
    types.FunctionType: (".__code__",),
    types.MethodType: (".__func__", ".__self__"),
    types.BuiltinMethodType: (".__self__",),
    types.MappingProxyType: (),
    classmethod: (".__func__",),
    staticmethod: (),
    property: (".fget", ".fset", ".fdel", ".__doc__"),
    collections.defaultdict: (".default_factory",),
    functools._lru_cache_wrapper: (".__wrapped__",),
    functools.partial: (".func",),
    type: ("", "", " base "),
}
"""Labels of the reduction's arguments; further ones belong to the object itself."""

_OPAQUE = frozenset({"datetime", "decimal", "uuid", "fractions"})
"""Modules whose objects have no parts worth naming."""


def _item_of_state(owner: Any, n: int) -> str:
    """Return the label of the n-th item of the list that ``__getstate__`` returned."""
    if type(owner).__getstate__.__name__ == "_dataclass_getstate":  # frozen, with slots
        return f".{dataclasses.fields(owner)[n].name}"
    return f".__getstate__()[{n}]"


class Path(NamedTuple):
    """Text of a path: an expression, and the functions of which it is a variable.

    The functions stand before it: ``closure of model.callback → lock``.
    """

    expression: str = ""
    outer: str = ""

    def joined(self, label: str, of: str, before: str) -> Path:
        """Return the path of a child; see `Step`."""
        if of:
            return Path(label, f"{self.outer}{of} of {self.expression} → ")
        return Path(f"{before}{self.expression}{label}", self.outer)

    def __str__(self) -> str:
        return self.outer + self.expression


def path_text(steps: Iterable[Step]) -> str:
    """Return the text of a path: ``model.callbacks[2].logger.lock``, ``closure of test → lock``."""
    path = Path()
    for step in steps:
        path = path.joined(step.label, step.of, step.before)
    return str(path)
