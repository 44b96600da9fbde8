"""The checkpoints of one notebook, in branches: under one name in the session."""

from __future__ import annotations

import os
from collections.abc import Iterator

from workbench import config
from workbench.checkpoints.records import MAIN, Checkpoint, CheckpointTree
from workbench.core.snapshot import KEPT_PREFIX
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Summary, WhenFull
from workbench.ref import ObjectRef

MOST = 100
"""Checkpoints that are kept, besides the last of each branch."""


def kept_name() -> str:
    """Return the name under which this notebook's variables are kept in its session."""
    return KEPT_PREFIX + (config.notebook_path() or "console")


class Timeline:
    """All checkpoints, by number; each branch's last one.

    What it `publish`es is one object; so a kernel that dies leaves all of a checkpoint, or none.
    If another kernel has that ``name``, this one has none, and what it keeps ends with it.
    The oldest checkpoints go when there are more than `MOST`, or when the store is full.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name
        self._known: dict[int, tuple[Checkpoint, ObjectRef]] = {}
        self.branches: dict[str, int] = {}
        self.branch = MAIN
        engine.ask(WhenFull(self._make_room))

    def load(self) -> bool:
        """Read what an earlier kernel has published; True if there is something."""
        ref = self._engine.ask(Lookup(self.name))
        if ref is None:
            return False
        (history,) = self._engine.get([ref], None, False)
        there = {client.pid for client in self._engine.ask(Summary()).clients} - {os.getpid()}
        if history.process in there:  # another kernel of this name is at work
            self.name = ""
            return False
        refs = list(history.checkpoints.values())
        found = self._engine.get(refs, None, False)
        self._known = {each.number: (each, ref) for each, ref in zip(found, refs, strict=True)}
        self.branches, self.branch = dict(history.branches), history.branch
        return bool(self.branches)

    @property
    def present(self) -> Checkpoint | None:
        """The last checkpoint of the present branch."""
        number = self.branches.get(self.branch)
        return None if number is None else self._known[number][0]

    @property
    def shown(self) -> tuple[list[Checkpoint], dict[str, int], str]:
        """All checkpoints, the oldest first; each branch's last one; the present branch. Any
        thread."""
        known = dict(self._known)
        return [known[n][0] for n in sorted(known)], dict(self.branches), self.branch

    def __iter__(self) -> Iterator[Checkpoint]:
        """Iterate over all checkpoints, the oldest first."""
        return iter(self.shown[0])

    def next_number(self) -> int:
        return max(self._known, default=0) + 1

    def line(self, branch: str = "") -> list[Checkpoint]:
        """Return a branch's checkpoints, the last one first."""
        number = self.branches.get(branch or self.branch)
        found: list[Checkpoint] = []
        while number in self._known:
            found.append(self._known[number][0])
            number = found[-1].before
        return found

    def of_cell(self, cell: int) -> Checkpoint | None:
        """Return the last checkpoint of a cell: of the present branch, else of any."""
        known = self.line() + [*self][::-1]
        return next((each for each in known if each.cell == cell), None)

    def record(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint to the present branch, or replace the one of its number. Publish it."""
        ref, _ = self._engine.put(checkpoint)
        self._known[checkpoint.number] = checkpoint, ref
        self.branches[self.branch] = checkpoint.number
        while len(self._known) > MOST + len(self.branches) and self._drop_oldest():
            pass
        self.publish()

    def move(self, checkpoint: Checkpoint, branch: str = "") -> None:
        """Have a branch end with a checkpoint, and be the present one. Publish that."""
        self.branch = branch or self.branch
        if checkpoint.number not in self._known:  # the oldest: one has just been made
            self._known[checkpoint.number] = checkpoint, self._engine.put(checkpoint)[0]
        self.branches[self.branch] = checkpoint.number
        self.publish()

    def _make_room(self) -> bool:
        """Forget the oldest checkpoint in a full store; True if there was one."""
        is_dropped = self._drop_oldest()
        if is_dropped:
            self.publish()
        return is_dropped

    def _drop_oldest(self) -> bool:
        """Forget the oldest checkpoint that no branch ends with; False if there is none."""
        ends = {*self.branches.values()}
        oldest = next((n for n in sorted(self._known) if n not in ends), None)
        if oldest is None:
            return False
        del self._known[oldest]
        return True

    def publish(self) -> None:
        refs = {number: ref for number, (_, ref) in self._known.items()}
        history = CheckpointTree(refs, dict(self.branches), self.branch, os.getpid())
        self._engine.put(history, self.name)

    def close(self) -> None:
        """Let go of the checkpoints; what is published stays."""
        self._known, self.branches = {}, {}

    def forget(self) -> None:
        """Drop everything, also for later kernels."""
        self._known, self.branches, self.branch = {}, {}, MAIN
        self._engine.name(None, self.name)
