"""What is stored of a notebook's variables: checkpoints and their groups. Only records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.ref import ObjectRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAIN = "main"
"""The branch that a notebook begins with."""


class Lost(NamedTuple):
    """Why a variable isn't in a checkpoint: its type, the reason, and the cell that made it."""

    kind: str
    why: str
    cell: int


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """Variables that share objects or memory, stored together.

    ``box`` is the stored `KeptPickles` that have theirs at ``place``; ``buffers`` are its large
    buffers, by digest, each stored on its own. ``uses`` are names of functions and classes that
    the pickle refers to; ``is_code``: it has those. ``since`` is the last cell after which the
    variables were compared. ``kinds``: their types, in words. ``altered``: those that don't come
    back as they were, and what is other: a key of `report.checkpoints.ALTERED`.
    """

    names: tuple[str, ...]
    box: ObjectRef
    place: int
    buffers: Mapping[bytes, ObjectRef]
    uses: frozenset[str]
    nbytes: int
    is_code: bool = False
    since: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    altered: Mapping[str, str] = field(default_factory=dict)


class Pickle(NamedTuple):
    """What a box has for each group. A buffer that is stored on its own, as one of the group's
    ``buffers``, is its digest here."""

    stream: bytes
    buffers: list[bytes]
    refs: list[ObjectRef]


class KeptPickles(NamedTuple):
    """What a box has: the pickles of the groups that were stored together."""

    pickles: list[Pickle]


class KeptBuffer(NamedTuple):
    """The bytes of a large buffer."""

    array: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A notebook's variables after a cell.

    ``before``: the number of the checkpoint that the cell began with; None for the first.
    ``plain`` are numbers and short texts; ``modules`` are names of modules by variable.
    ``changed`` and ``deleted``: what the cell did to variables, as far as they were compared;
    ``seconds``: how long it ran. ``directory`` and ``path`` are the process's.
    """

    number: int
    before: int | None
    cell: int
    source: str
    when: float
    seconds: float
    groups: tuple[StoredGroup, ...]
    plain: Mapping[str, Any]
    modules: Mapping[str, str]
    lost: Mapping[str, Lost]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    directory: str
    path: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """All variables in it."""
        return [*self.plain, *self.modules, *(name for each in self.groups for name in each.names)]

    @property
    def altered(self) -> dict[str, str]:
        """Variables that don't come back as they were, and what is other."""
        return {name: why for group in self.groups for name, why in group.altered.items()}

    @property
    def nbytes(self) -> int:
        """Bytes that its groups take in the store; those of other checkpoints may be the same."""
        return sum(group.nbytes for group in self.groups)

    @property
    def not_compared(self) -> dict[str, int]:
        """Variables that weren't compared after the cell, and the last cell after which they
        were."""
        return {n: p.since for p in self.groups if p.since != self.cell for n in p.names}


@dataclass(frozen=True, slots=True)
class CheckpointTree:
    """All checkpoints of a notebook, by number; each branch's last one; the present branch; and the
    kernel's process."""

    checkpoints: Mapping[int, ObjectRef] = field(default_factory=dict)
    branches: Mapping[str, int] = field(default_factory=dict)
    branch: str = MAIN
    process: int = 0
