"""Where a process's own memory is, in words: `%workbench memory`, a view's bar, and the note of a
`MemoryError`. From one survey of `heap`; asks nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.format import count, human_bytes, human_count, listed, printable
from workbench.heap.narrow import Narrower
from workbench.heap.process import LARGE
from workbench.heap.survey import Holder, Survey
from workbench.report.html import Block, bar_blocks, block_html, block_text
from workbench.report.markup import Rich, Table, clip, page
from workbench.report.view_texts import BAR_PARTS, Bar

MOST_HOLDERS, LARGEST = 15, 5
"""Holders that have a row of their own; and in the note of a `MemoryError`."""

SHARE, IN_MODULE = 0.005, 10_000_000
"""A holder has a row from this share of all memory on; an attribute of a module, of which there are
thousands, from these bytes on, or from `NOTICED` on if nobody can empty it."""

NOTICED = 100_000_000
"""Bytes from which on a part of a library, another process or the store is worth a row."""

_SMALLER = {
    "variables": "smaller variables",
    "outputs": "smaller results in Out",
    "frames": "smaller variables of functions",
    "figures": "smaller figures",
    "objects": "modules, and other Python objects",
}
"""By kind of holder, a key of `BAR_PARTS`: what those without a row are called."""

HEAD = ("what", "memory", "to let go of it")


class Fact(NamedTuple):
    """One row. ``reserved``: further bytes, never written to; ``remedy``: code, a line each."""

    part: str
    what: str
    nbytes: int
    remedy: str = ""
    about: bool = False
    reserved: int = 0

    def cells(self) -> tuple[str, ...]:
        cut = " and ".join(f"`{each}`" for each in self.remedy.splitlines())
        size = f"{'about ' * self.about}{human_bytes(self.nbytes)}"
        size += f" of {human_bytes(self.nbytes + self.reserved)}" if self.reserved else ""
        return self.what, size, cut


def facts_of(found: Survey) -> list[Fact]:
    """Return what the process's memory consists of: together, all of it."""
    memory, (used, kept) = found.memory, found.memory.python
    shown = [each for each in found.holders if _has_row(each, memory.resident)][:MOST_HOLDERS]
    rest = [each for each in (*found.holders, found.modules) if each not in shown]
    small = sum(each.small for each in (*found.holders, found.modules))
    others = {"objects": max(used - small, 0)}  # small objects that the walk hasn't met
    if not found.modules.nbytes:  # they weren't looked at: all that malloc gave and nobody has
        known = sum(each.total - each.small for each in found.holders)
        others["objects"] += max(memory.malloc[0] - known, 0)
    facts = [_fact(each, found.holders) for each in shown]
    for kind, what in _SMALLER.items():
        nbytes = sum(each.nbytes for each in rest if each.kind == kind)
        facts.append(Fact(kind, what, nbytes + others.get(kind, 0)))
    facts.append(Fact("kept", "kept free by Python, for small objects", kept))
    left = max(memory.private - sum(each.nbytes for each in facts), 0)
    free = min(memory.malloc[1], left)
    facts += [
        Fact("kept", "kept free by malloc", free),
        Fact("files", "files that are mapped: libraries", memory.files),
        Fact("stored", "the store, as far as it was used here", memory.store),
        Fact("stored", "other shared memory", memory.shared),
        Fact("unexplained", "not explained", left - free),
    ]
    return sorted((each for each in facts if each.nbytes), key=lambda each: -each.nbytes)


def _has_row(holder: Holder, whole: int) -> bool:
    if holder.kind == "objects":
        return holder.total >= (IN_MODULE if cut_of(holder) else NOTICED)
    return holder.total >= max(LARGE, SHARE * whole)


def _fact(holder: Holder, others: Sequence[Holder]) -> Fact:
    names = ", ".join(dict.fromkeys(root.name for root in holder.roots))
    what = f"{f'{clip(names, 40)} {holder.roots[0].where}'.strip()}: {clip(holder.type, 40)}"
    also = [each.name for each in others if each.shares[holder.name] >= LARGE]
    what += f" (also in {listed(also, 3)})" if also else ""
    reserved = holder.reserved if holder.reserved >= LARGE else 0
    what += " (only reserved beyond that: nobody wrote to it)" if reserved else ""
    return Fact(holder.kind, what, holder.nbytes, cut_of(holder), holder.is_sampled, reserved)


def cut_of(holder: Holder) -> str:
    """Return the lines that let go of a value; `%xdel` deletes all of IPython's names."""
    cuts = list(dict.fromkeys(root.cut for root in holder.roots if root.cut))
    if every := [cut for cut in cuts if cut.startswith("%xdel")][:1]:
        cuts = every + [cut for cut in cuts if not cut.startswith(("%xdel", "del "))]
    return "\n".join(cuts)


def process_bar(found: Survey) -> Bar:
    """Return the process's memory as a bar of a view."""
    sizes = Counter[str]()
    for each in facts_of(found):
        sizes[each.part] += each.nbytes
    parts = tuple((part, sizes[part]) for part in BAR_PARTS if sizes[part])
    return Bar("This notebook", human_bytes(found.memory.resident), parts, True)


def _end(found: Survey) -> str:
    if found.is_complete:
        return ""
    looked = count(found.looked_at, "object")
    return f"The search ended after {looked}: what it hasn't reached isn't explained."


@dataclass(frozen=True, repr=False)
class MemoryTable(Rich):
    """A process's memory: a bar, and a row for each that holds much."""

    found: Survey

    def _blocks(self) -> list[Block]:
        memory, facts = self.found.memory, facts_of(self.found)
        large = [each for each in facts if each.nbytes + each.reserved >= LARGE]
        rest = human_bytes(sum(each.nbytes for each in facts if each not in large))
        shared = memory.files + memory.store + memory.shared
        note = (
            f"all else {rest}; in all {human_bytes(memory.resident)}: "
            f"{human_bytes(memory.resident - shared)} of this process alone, "
            f"{human_bytes(shared)} shared with others or of files"
        )
        marks = tuple(BAR_PARTS[each.part].color for each in large)
        rows = tuple(each.cells() for each in large)
        table = Table(HEAD, rows, HEAD[1:2], note, marks, (HEAD[0], HEAD[2]))
        return [*bar_blocks(process_bar(self.found)), table, _end(self.found)]

    def _text(self) -> str:
        return "\n".join(filter(None, map(block_text, self._blocks())))

    def _repr_html_(self) -> str:
        return page(*map(block_html, self._blocks()))


STOPPED = "The cell was stopped: it went on taking memory when nearly none was left."
"""Message of the MemoryError of a cell that Workbench has interrupted."""


def shortage_text(
    found: Survey,
    asked: int | None,
    left: int,
    others: Mapping[str, int],
    narrower: Mapping[str, Sequence[Narrower]],
    room: int,
) -> str:
    """Return what helps when memory ran out, in bytes: only what was measured.

    ``asked``: None if the error doesn't tell. ``others``: what else of the session has memory.
    ``narrower``: by variable. ``room``: how much can be put, 0 if this isn't a notebook.
    """
    begins = f"{human_bytes(asked)} was asked for, and " if asked else ""
    largest = [each for each in found.holders[:LARGEST] if each.total >= LARGE]
    rows = [_fact(each, found.holders).cells() for each in largest]
    rows += [(name, human_bytes(n), "") for name, n in others.items() if n >= NOTICED]
    lines = [
        f"{begins}{human_bytes(left)} is left." + " Most of this process's memory:" * bool(rows),
        # No table: a traceback is as wide as the notebook, and lines that are longer break.
        *(f"  {size}  {what}{cut and '; to let go: '}{cut}" for what, size, cut in rows),
        *(_narrow_text(name, columns) for name, columns in narrower.items()),
    ]
    fitting = [each for each in largest if each.kind == "variables" and each.nbytes <= room]
    if fitting:
        stored = max(fitting, key=lambda each: each.nbytes).name
        lines.append(
            f"`%put {stored}` and then `del {stored}` keep it in the store, which moves it to disk "
            f"when memory runs short; `%get {stored}` brings it back."
        )
    if asked and asked > left + sum(each.total for each in largest):
        lines.append("It wouldn't fit even without all these: do it in pieces.")
    return printable("\n".join(filter(None, [*lines, _end(found)])))


def _narrow_text(name: str, columns: Sequence[Narrower]) -> str:
    tried = max(each.tried for each in columns)
    proof = f"tried with {human_count(tried)} values" if tried else "all were looked at"
    types = {each.column: each.dtype for each in columns}
    form = repr(columns[0].dtype if None in types else dict(list(types.items())[:3]))
    form = f"{form[:-1]}, ...}}" if len(types) > 3 else form
    of = f"`{name}`" if None in types else f"{count(len(types), 'column')} of `{name}`"
    return (
        f"The values of {of} are the same in a smaller type ({proof}), with "
        f"{human_bytes(sum(each.saved for each in columns))} less: "
        f"`{name} = {name}.astype({form})`."
    )
