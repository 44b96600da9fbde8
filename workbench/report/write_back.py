"""Sentences on what a remote cell changed in place: where it is now, and how to get it.

`filled_in` puts the names of the variables into one of the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.format import joined, listed

MOST_NAMES = 6

WAITING = "{what} changed on the worker: `%get {names}` brings {it}"
"""The change is kept until somebody asks for it."""

NOT_COMPARED = (
    "{what} {was}n't compared with what was sent, which takes long: `--out {names}` brings {it} "
    "back"
)

UNSTEADY = (
    "{what} can't be compared with what was sent, no two pickles of {it} are the same: "
    "`--out {names}` brings {it} back"
)

COARSE = (
    "{what}: its objects came back as new ones, because there are so many; other variables that "
    "have some of these objects still have the old ones"
)
"""The variable has too many objects to track each."""

APART = (
    "{what} share an object, but on the worker each had its own copy of it, because "
    "{first} is stored; after `%free {first}` they share it on the worker too"
)
"""The cell changed one of them."""

ARE_APART = (
    "{what} share an object, but on the worker each has its own copy of it, because "
    "{first} is stored: a change of one copy isn't seen in the other. After `%free {first}` they "
    "share it on the worker too"
)
"""For an expression, before it runs: nobody waits for its end."""

PERHAPS_APART = (
    "Workbench didn't look whether {stored}, which is stored, shares objects with {what}: "
    "on the worker each had its own"
)
"""There are too many objects to search."""

SET_THERE = "{what} {was} set on the worker only"
"""Settings, not variables."""

SET_WAITING = "{what} {was} set on the worker: `%get --jobs` brings {it}"

DELETED = "{what} {was} deleted on the worker: `%get --jobs` deletes {it} here"

GOES_ON = "{what} goes on in a thread of the worker: what it changes from now on stays there"

NOT_SENT = "{what} of the notebook {was}n't sent: {why}"
"""Settings of the notebook that can't be sent."""

STAYED = "{what} stays on the worker: {why}"

LOST = "{what} changed on the worker and can't be brought back: {why}"

COPIES = (
    "{what} changed in the runs, each of which has a copy of its own: nothing of that came back. "
    "What a run assigns comes back."
)
"""For a cell that runs once per item."""

IN_NAMESPACE = (
    "{what} changed in {actor} and {stays} there: `--in {names}` sends the notebook's own again"
)

OF_NAMESPACE = "{what} {was} the namespace's own: `--in {names}` sends the notebook's"

OF_ITEM = "{what} {was} that of the item, not the notebook's variable"

NOT_UPDATED = (
    "{what} changed on the worker and can't be changed here: {why}. The notebook's own "
    "{unchanged}; `--out {names}` brings {it} as a new object"
)

KERNEL_GONE = (
    "{what} changed on the worker; the kernel that had {it} is gone, and nothing is left to be "
    "changed. Next time `--out` keeps it"
)

MERGED = "{what} had changed here since {job} took {it} along, and {has} both changes now"

CHANGED_IN_BOTH = (
    "{what} changed in the notebook too, since {job} took {it} along, and would be overwritten. "
    "`%get {first} --as NAME` brings the worker's as another variable"
)

NOT_LOOKED_AT = "whether the notebook changed {what} meanwhile was not checked"

_ONE = {"has": "has", "it": "it", "was": "was", "stays": "stays", "unchanged": "is as it was"}
_SEVERAL = {
    "has": "have",
    "is_": "are",
    "it": "them",
    "was": "were",
    "stays": "stay",
    "unchanged": "are as they were",
}


def filled_in(sentence: str, names: Sequence[str], **more: str) -> str:
    """Fill the sentence with these variables; ``more`` fills its other places."""
    what = joined(names) if len(names) <= MOST_NAMES else listed(names, MOST_NAMES)
    words = _ONE if len(names) == 1 else _SEVERAL
    shown = " ".join(names[:MOST_NAMES])
    return sentence.format(what=what, names=shown, first=names[0], **words, **more)
