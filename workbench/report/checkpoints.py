"""Words about kept variables: what was kept, what came back, what didn't, and the branches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.checkpoints.records import Checkpoint, Lost
from workbench.format import count, human_bytes, human_seconds, human_time, listed
from workbench.report.markup import Rich, Table, page
from workbench.report.mistyped import did_you_mean

NONE_KEPT = "Nothing is kept. `%workbench keep` keeps the variables after each cell from now on."

NOTHING_TO_UNDO = (
    "No earlier checkpoint is there: nothing was kept before, or the store had no room for it any "
    "more."
)

INTERRUPTED = (
    "What this cell changed isn't kept yet: that was stopped. It is at the next cell's end."
)

MEANWHILE = "Nothing was changed: a cell runs, or has run meanwhile. Press again when it has ended."

NOT_HERE = "The variables aren't kept in this session: `%workbench keep` keeps them from now on."

NO_LONGER = "The variables aren't kept any more, and no cell can be undone."

NOT_YET = "not compared since cell [{cell}]; it is when the notebook is idle"

NAMELESS = (
    " They end with this process, unless its session has a name and is kept: "
    "`%workbench start --session NAME --keep 8h`."
)

ALTERED = {
    "file": "as an ordinary array",
    "globals": "without being its functions' globals",
    "memory": "in memory of its own",
    "traceback": "without a traceback",
}
"""What is other of a variable that comes back."""

LONG = 3600.0
"""Seconds for which a session is kept that need no hint."""

MOST_NAMED = 4
"""Variables that a line names."""


def kept_text(checkpoint: Checkpoint, seconds: float, linger: float) -> str:
    """Return the line of ``%workbench keep``. ``linger``: seconds that they are kept afterwards."""
    there = len(checkpoint.names)
    line = (
        f"From now on the variables are kept after each cell: {there} of "
        f"{count(there + len(checkpoint.lost), 'variable')} now, {human_bytes(checkpoint.nbytes)} "
        f"in the store. This took {human_seconds(seconds)}."
    )
    stay = (
        f" They stay for {human_time(linger)} after this kernel has ended"
        f"{'' if linger >= LONG else '; `%workbench start --keep 8h` keeps them longer'}."
    )
    return f"{line}{_lost(' Not kept: ', checkpoint.lost)}{stay if linger else NAMELESS}"


def back_text(checkpoint: Checkpoint, failed: Mapping[str, Lost], own: Iterable[str]) -> str:
    """Return the line of a new kernel: what is back, as of which cell, and what isn't.

    ``failed``: couldn't be built; ``own``: names that the notebook had bound before.
    """
    lost = {**checkpoint.lost, **failed}
    back = len(checkpoint.names) - len(failed) - len(own := [*own])
    line = (
        f"{back} of {count(len(checkpoint.names) + len(checkpoint.lost), 'variable')} "
        f"{'is' if back == 1 else 'are'} back, as of {_cell(checkpoint)}."
    )
    line += _lost(" Not back: ", lost) + _altered(checkpoint.altered)
    if own:
        line += f" The notebook had its own {named(own)} already."
    return line + stale_text(checkpoint) + (" `%workbench lost` lists them." if lost else "")


def stale_text(checkpoint: Checkpoint) -> str:
    """Return a sentence on variables that weren't compared after the cell; '' if all were."""
    stale = checkpoint.not_compared
    if not stale:
        return ""
    known = [f"`{name}` (as of cell [{cell}])" for name, cell in stale.items()]
    return f" Not compared since: {listed(known, MOST_NAMED)}."


def moved_text(
    checkpoint: Checkpoint,
    changed: Sequence[str],
    failed: Mapping[str, Lost],
    stays: Sequence[str],
    altered: Mapping[str, str],
) -> str:
    """Return the line of ``%undo`` and ``%checkout``. ``stays``: what it doesn't have; ``altered``:
    what comes back otherwise."""
    line = f"The variables are as of {_cell(checkpoint)}"
    line += f": {named(changed)} changed." if changed else ": none had changed."
    line += _lost(" Not back: ", failed) + _altered(altered)
    if stays:
        line += f" As they are: {named(stays)}, which can't be stored."
    return line + stale_text(checkpoint)


def full_text(full: Mapping[str, str]) -> str:
    """Return a line on variables that the store has no room for: why, of the first."""
    return f"Not kept: {named([*full])}. {_brief(next(iter(full.values())))}"


def branch_text(branch: str, is_new: bool) -> str:
    return f"Branch {branch} is new, and begins here." if is_new else f"On branch {branch}."


def no_checkpoint_text(wanted: str, there: str, branches: Iterable[str]) -> str:
    """Return why there is nothing to check out."""
    if not wanted.strip("[]").isdigit():
        hint = did_you_mean(wanted, branches)
        return f"There is no branch {wanted!r}.{hint} `%workbench branches` lists them."
    return f"No checkpoint of cell {wanted} is kept; there are those of {there}."


@dataclass(frozen=True, repr=False)
class LostTable(Rich):
    """The variables that can't be stored, why, and which cell made each; those that come back
    ``altered``; and those that weren't compared ``since`` a cell."""

    lost: Mapping[str, Lost]
    since: Mapping[str, int]
    altered: Mapping[str, str]

    def _text(self) -> str:
        return self._table().text() if self._table().rows else "All variables are kept."

    def _repr_html_(self) -> str:
        return page("Not kept", self._table().html() if self._table().rows else self._text())

    def _table(self) -> Table:
        rows = [(n, x.kind, _brief(x.why), f"[{x.cell}]") for n, x in self.lost.items()]
        rows += [(n, "", f"comes back {ALTERED[why]}", "") for n, why in self.altered.items()]
        rows += [(n, "", NOT_YET.format(cell=cell), "") for n, cell in self.since.items()]
        return Table(("variable", "type", "why", "made in"), tuple(rows), ())


def changed_text(checkpoint: Checkpoint) -> str:
    """Return the variables that a cell changed, or ''."""
    deleted = [f"del {name}" for name in checkpoint.deleted]
    return named([*checkpoint.changed, *deleted])


def _brief(why: str) -> str:
    """Return a reason without the list that follows it, as of a full store."""
    return why.partition("\n")[0].removesuffix(" The largest:")


def _cell(checkpoint: Checkpoint) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(checkpoint.when))
    return f"cell [{checkpoint.cell}], {when}"


def _lost(begin: str, lost: Mapping[str, Lost]) -> str:
    known = [
        f"`{name}` ({each.kind}, cell [{each.cell}])" if each.kind else f"`{name}` ({each.why})"
        for name, each in lost.items()
    ]
    return f"{begin}{listed(known, MOST_NAMED)}." if known else ""


def _altered(altered: Mapping[str, str]) -> str:
    known = [f"`{name}` ({ALTERED[why]})" for name, why in altered.items()]
    return f" Not as before: {listed(known, MOST_NAMED)}." if known else ""


def named(names: Sequence[str]) -> str:
    """Name the first of these variables; the rest are counted."""
    return listed([f"`{name}`" for name in names], MOST_NAMED)
