"""The store as a table: what is there, how large, where, what keeps it, for how long already.

Reads a snapshot's records; asks nobody.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.core.snapshot import A_RESULT, ObjectRecord
from workbench.markup import Rich, Table, page
from workbench.units import UNKNOWN, human_bytes, human_seconds

MOST_ROWS = 60
"""Objects shown; the rest are counted."""

ORDERS = ("size", "age", "name", "type")
HEAD = ("name", "type", "size", "where", "pins", "age")


@dataclass(frozen=True)
class Objects(Rich):
    """Objects in some order. Prints as a text, shows as a table; iterate it for the records.

    Attributes
    ----------
    records : tuple of ObjectRecord
    others, others_size : int
        How many more there are, and their bytes.
    """

    records: tuple[ObjectRecord, ...]
    others: int = 0
    others_size: int = 0

    def __iter__(self) -> Iterator[ObjectRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        return self.table().text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self.table().html())

    def table(self) -> Table:
        """What it shows."""
        left = self.records[MOST_ROWS:]
        count, size = len(left) + self.others, sum(r.size for r in left) + self.others_size
        more = f"and {count} more, {human_bytes(size)}" if count else ""
        rows = tuple(row_of(record) for record in self.records[:MOST_ROWS])
        return Table(HEAD, rows, ("size", "age"), more)


def listing(
    objects: Iterable[ObjectRecord],
    pattern: str = "",
    order: str = "size",
    limit: int | None = None,
    others: int = 0,
    others_size: int = 0,
) -> Objects:
    """The objects of a session as a table.

    Parameters
    ----------
    objects : iterable of ObjectRecord
    pattern : str
        Only those of which a name or the type matches: ``train*``, ``ndarray*``.
    order : str
        By ``size`` or ``age``, the greatest first, or by ``name`` or ``type``.
    limit : int, optional
        How many to list.
    others, others_size : int
        How many there are besides ``objects``, and their bytes.

    Raises
    ------
    ValueError
        If there is no such order.
    """
    if order not in ORDERS:
        raise ValueError(f"Objects can be sorted by {', '.join(ORDERS)}, not by {order!r}.")
    records = [r for r in objects if not pattern or _matches(r, pattern)]
    match order:
        case "size":
            records.sort(key=lambda r: -r.size)
        case "age":
            records.sort(key=lambda r: -(r.age or 0.0))
        case "name":
            records.sort(key=lambda r: (not r.names, r.names))
        case "type":
            records.sort(key=type_of)
    left = records[limit:] if limit is not None else []
    del records[len(records) - len(left) :]
    return Objects(tuple(records), others + len(left), others_size + sum(r.size for r in left))


def type_of(record: ObjectRecord) -> str:
    """What kind of object it is, as far as the session knows."""
    if record.about:
        return record.about.type
    return UNKNOWN if record.type is None else record.type or A_RESULT


def age_of(record: ObjectRecord) -> str:
    """How long it has been there: ``12 s``."""
    if record.age is None:
        return UNKNOWN
    return human_seconds(round(record.age)) if record.age >= 1 else "now"


def size_of(record: ObjectRecord) -> int | None:
    """Its bytes; None as long as nobody knows them."""
    return record.size if record.size or record.where not in ("", "pending") else None


def pins_text(record: ObjectRecord) -> str:
    """What keeps it, in a few words."""
    counts: Sequence[tuple[str, int]] = (
        ("name", len(record.names)),
        ("user", bool(record.pinned)),
        ("job", bool(record.job)),
        ("ref", len(record.holders)),
        ("task", record.tasks),
        ("contained", record.parents),
        ("escaped", len(record.escapes)),
        ("view", len(record.viewers or ())),
    )
    return ", ".join(f"{what} × {n}" if n > 1 else what for what, n in counts if n)


def _matches(record: ObjectRecord, pattern: str) -> bool:
    return any(fnmatch.fnmatch(text, pattern) for text in (*record.names, type_of(record)))


def row_of(record: ObjectRecord) -> tuple[str, ...]:
    """One line of the table, in the order of `HEAD`."""
    return (
        ", ".join(record.names) or f"{record.id:016x}",
        type_of(record),
        human_bytes(record.size),
        record.where if record.state != "freed" else "freed, still shown",
        pins_text(record),
        age_of(record),
    )
