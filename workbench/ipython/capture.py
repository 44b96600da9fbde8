"""Collects what a `%%remote` cell takes along: values, how each travels, and their size.

Finds and counts, and changes no variable; stores again what changed since it was stored.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from IPython.display import display

from workbench.core.snapshot import ObjectRecord
from workbench.engine.base import Engine
from workbench.engine.queries import Describe, Lookup, Names, OwnReducers
from workbench.expressions import describe
from workbench.format import count, human_bytes
from workbench.host.captured import TOGETHER
from workbench.ipython.cells import CellNames
from workbench.ipython.freshness import Freshness
from workbench.ipython.missing_names import missing
from workbench.ipython.notebook import Notebook
from workbench.ref import ObjectRef
from workbench.report.markup import Table
from workbench.report.text import Listing
from workbench.report.write_back import OF_ITEM, OF_NAMESPACE, filled_in
from workbench.serialization.aliases import in_common
from workbench.serialization.estimate import Estimate, Estimator
from workbench.serialization.mutations import SLOW

LARGE = 50_000_000
"""Bytes by value from which a cell's table is shown unasked."""


WORTH_A_WORD = 1_000_000  # bytes by value from which a row says what would be cheaper
_EACH = "<each>"  # in place of an owner: the cell runs once for each item

REFERENCE = "by reference"
VALUE = "by value"
IMPORT = "by import"
NOT = "can't travel"


@dataclass(frozen=True, slots=True)
class InputRecord:
    name: str  # the variable; of a global that a function brings, also the function's name
    type: str
    bytes: int | None  # approximate; None if unknown. By value, nothing counts twice
    how: str  # by reference, by value, by import, or not at all
    advice: str = ""  # what would avoid the copy
    at_least: bool = False  # True: counting was given up, so there are more bytes


@dataclass(frozen=True, repr=False)
class InputsPreview(Listing[InputRecord]):
    """All that a cell takes along. Prints as text, shows as a table; iterates over the records.

    ``sent``: it is on its way; else it only would be.
    """

    records: tuple[InputRecord, ...]
    sent: bool = False

    @property
    def by_value(self) -> int:
        """Bytes that are copied each time the cell runs."""
        return sum(r.bytes or 0 for r in self.records if r.how == VALUE)

    def table(self) -> Table:
        return Table(
            ("name", "type", "size", "travels", ""), tuple(map(_row, self.records)), ("size",)
        )

    def title(self) -> str:
        if not self.records:
            return "This cell takes nothing along." + " Nothing was sent." * (not self.sent)
        size = _size(self.by_value, any(r.at_least for r in self.records))
        if self.sent:
            return f"This cell sends {size} by value, each time it runs:"
        return f"This cell would send {size} by value. Nothing was sent."


class _Item(NamedTuple):
    """Something that travels; ``owner``: the function whose global it is, if any, or `_EACH`.

    ``size`` is None for a ref.
    """

    name: str
    owner: str
    value: Any
    size: Estimate | None


class CellInputs:
    """Values, or refs in their place, for the names a cell reads; and the globals that functions
    among them bring.

    They are looked up in the notebook, then in the store; optional names may be missing.
    ``given`` names travel whatever the cell reads; names ``known`` where it runs don't, unless
    given. ``each`` is the variable and the items of a cell that runs once per item. ``apart`` has
    pairs of names, the first stored, that share an object here but not where the cell runs; '' as
    second name: unknown. After `take`, ``notes`` are further remarks.

    Raises
    ------
    NotDefinedError
        If a name that is required or given is found nowhere.
    """

    def __init__(
        self,
        notebook: Notebook,
        engine: Engine,
        names: CellNames,
        given: tuple[str, ...] = (),
        known: frozenset[str] = frozenset(),
        each: tuple[str, Sequence[Any]] = ("", ()),
    ) -> None:
        self._notebook = notebook
        self._engine = engine
        self._freshness = Freshness(notebook.bindings, engine, notebook.router)
        self._is_per_item = len(each[1]) > 0
        self._captured = self._found(names, given, known)
        self._items: list[_Item] = []
        self.apart: list[tuple[str, str]] = []
        self._estimator = estimator = Estimator(engine.ask(OwnReducers()))
        taken = {id(value) for value in self._captured.values()}
        for name, value in self._captured.items():
            if isinstance(value, ObjectRef):
                self._items.append(_Item(name, "", value, None))
                continue
            size = estimator.estimate(value)
            self._items.append(_Item(name, "", value, size))
            if size.brings:
                self._follow(name, size, estimator, taken)
        name, items = each
        if items and not isinstance(items, range):
            self._items.append(_Item(name, _EACH, items, estimator.estimate([*items])))
        self._keep_together()

    def take(self) -> dict[str, Any]:
        """Return all of it, to be sent; store changed variables again. First show the table if much
        goes by value, or pickling takes long."""
        self._freshness.renew(self._captured)
        self._items = [
            each if each.owner else each._replace(value=self._captured[each.name])
            for each in self._items
        ]
        sizes = [i.size for i in self._items if i.size and not i.size.by_import]
        takes_long = any(s.at_least and s.can_be_pickled for s in sizes)
        if sum(s.bytes for s in sizes) > LARGE or takes_long:
            display(self.preview(sent=True))
        return self._captured

    def _keep_together(self) -> None:
        """Send small stored variables that share an object with another variable by value: in one
        pickle it stays one object."""
        variables, captured = self._notebook.variables, self._captured
        known = {
            name: variables[name]
            for name, sent in captured.items()
            if name in variables and not isinstance(variables[name], ObjectRef)
        }
        stored = [name for name in known if isinstance(captured[name], ObjectRef)]
        if not stored or len(known) == 1:
            return
        shared, cut = in_common(known, stored)
        sizes = {
            name: self._estimator.estimate(known[name])
            for name in dict.fromkeys(name for pair in shared for name in pair)
            if name in stored
        }
        large = {n for n, size in sizes.items() if size.bytes > TOGETHER or size.at_least}
        self.apart += [pair for pair in shared if not large.isdisjoint(pair)]
        self.apart += [(name, "") for name in cut if name in stored]
        for name, size in sizes.items():
            if any(name in pair for pair in self.apart):
                continue
            captured[name] = known[name]
            self._freshness.forget(name)
            self._items = [
                _Item(name, "", known[name], size) if each[:2] == (name, "") else each
                for each in self._items
            ]

    @property
    def notes(self) -> list[str]:
        return self._freshness.notes

    @property
    def slow(self) -> list[str]:
        """Stored variables that take longer to pickle than the worker may spend on comparing."""
        return [
            name
            for name, sent in self._captured.items()
            if isinstance(sent, ObjectRef)
            and name in self._notebook.variables
            and self._freshness.pickling(name, self._notebook.variables[name]) > SLOW
        ]

    def preview(self, sent: bool = False) -> InputsPreview:
        """Return the table of all of it. Asks the session about the refs."""
        return InputsPreview(tuple(map(self._record, self._items)), sent)

    def _found(
        self, names: CellNames, given: tuple[str, ...], known: frozenset[str]
    ) -> dict[str, Any]:
        variables = self._notebook.variables
        hidden = self._notebook.shell.user_ns_hidden  # IPython's own: In, Out, get_ipython, ...
        required = {*names.required, *given}
        wanted = [name for name in (*names.required, *names.optional) if name not in known]
        read = known.intersection((*names.required, *names.optional), variables)
        if hides := [name for name in sorted(read) if self._notebook.is_hidden_anew(name)]:
            text = OF_ITEM if self._is_per_item else OF_NAMESPACE
            self._freshness.note(filled_in(text, hides))
        captured: dict[str, Any] = {}
        absent = []
        for name in dict.fromkeys((*given, *wanted)):
            if name in variables and (name not in hidden or hidden[name] is not variables[name]):
                value = variables[name]
                stored = self._freshness.ref(name, value)
                captured[name] = value if stored is None else stored
            elif name in given or not (hasattr(builtins, name) or name in hidden):
                ref = self._engine.ask(Lookup(name))
                if ref is not None:
                    captured[name] = ref
                elif name in required:
                    absent.append(name)
        if absent:
            there = [*self._notebook.own_names(), *self._engine.ask(Names()), *dir(builtins)]
            where, outcome = "the notebook or the store", "Nothing was sent."
            raise missing(absent, where, there, self._notebook.stayed, outcome)
        return captured

    def _follow(self, owner: str, size: Estimate, estimator: Estimator, taken: set[int]) -> None:
        """Add what a function brings, what that brings, and so on: each once."""
        queue = list(size.brings.items())
        for name, value in queue:  # grows while it is read
            if id(value) not in taken:
                taken.add(id(value))
                size = estimator.estimate(value)
                self._items.append(_Item(name, owner, value, size))
                queue += size.brings.items()

    def _record(self, item: _Item) -> InputRecord:
        name, owner, value, size = item
        if size is None:
            described = self._engine.ask(Describe(value.id))
            record = None if described is None else described.object
            return _referred(name, record, self._freshness.preview_advice(name))
        if owner == _EACH:
            kind = f"{type(value[0]).__name__}, {count(len(value), 'item')}"
            called = f"{name}, an item each"
            return InputRecord(called, kind, size.bytes, VALUE, at_least=size.at_least)
        called = f"{name}, global of {owner}" if owner else name
        if size.by_import:
            return InputRecord(called, describe(value), None, IMPORT)
        if not size.can_be_pickled:
            return InputRecord(called, describe(value), None, NOT, f"`%inspect {name}` says why")
        advice = ""
        if size.bytes >= WORTH_A_WORD or size.at_least:
            less = f"{_size(size.bytes, size.at_least)} less per cell"
            advice = self._advice(name, owner, value, less)
        return InputRecord(called, describe(value), size.bytes, VALUE, advice, size.at_least)

    def _advice(self, name: str, owner: str, value: Any, less: str) -> str:
        if not owner:
            return f"`%put {name}` once, then it goes by reference: {less}"
        then = f"pass it to `{owner}` as an argument: {less}"
        if self._freshness.is_stored(name, value):
            return f"it is in the store; {then}"
        return f"`%put {name}` once, and {then}"


def _referred(name: str, record: ObjectRecord | None, advice: str) -> InputRecord:
    if record is None:
        return InputRecord(name, "ObjectRef", None, REFERENCE)
    if record.about is None:
        there = "a task's result" + (", to come" if record.state == "pending" else "")
        return InputRecord(name, there, record.size or None, REFERENCE)
    return InputRecord(name, record.about.type, record.size, REFERENCE, advice)


def _row(record: InputRecord) -> tuple[str, ...]:
    size = "" if record.bytes is None else _size(record.bytes, record.at_least)
    return record.name, record.type, size, record.how, record.advice


def _size(nbytes: int, at_least: bool) -> str:
    return f"{'at least ' if at_least else ''}{human_bytes(nbytes)}"
