"""What is kept of a session as its changes add up: right, whatever comes and goes, and bounded."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from workbench.core.events import About
from workbench.core.snapshot import Change, ObjectRecord, Snapshot
from workbench.format import OWN
from workbench.widgets.mirror import BIN, Mirror

SESSION = Snapshot("s.1", 100, 0, 0, 0, 0, (), (), (), taken=1000.0)
KINDS = ("ndarray", "dict", "")

Thing = tuple[int, int, str, bool]  # id, size, kind, named


def record(id: int, size: int, kind: str = "ndarray", named: bool = False) -> ObjectRecord:
    about = About(f"{kind} (3)", 1, size, 1, 0.0, 0.0) if kind else None
    return ObjectRecord(
        id, "ready", (f"n{id}",) * named, size, "memory", about, (1,), (), 0, 0,
        age=float(id), segment=1 + id % 2, offset=id * BIN // 2,
    )  # fmt: skip


def change(*records: ObjectRecord, gone: tuple[int, ...] = ()) -> Change:
    return Change(SESSION, records, gone)


THINGS = st.tuples(st.integers(1, 12), st.integers(0, 50), st.sampled_from(KINDS), st.booleans())
STEPS = st.lists(st.tuples(st.lists(THINGS, max_size=5), st.lists(st.integers(1, 12), max_size=3)))


@given(steps=STEPS)
def test_rows_and_sums_are_all_there_is(steps: list[tuple[list[Thing], list[int]]]) -> None:
    mirror = Mirror(most=4)
    truth: dict[int, ObjectRecord] = {}
    known: dict[int, ObjectRecord] = {}  # to somebody who follows `changed`
    for things, gone in steps:
        for id in gone:
            truth.pop(id, None)
        records = [record(*thing) for thing in things]
        truth.update((r.id, r) for r in records)
        mirror.apply(change(*records, gone=tuple(gone)))

        others = [r for id, r in truth.items() if id not in mirror.listed]
        assert len(mirror.listed) <= 4
        assert mirror.others.keys() == {r.id for r in others}
        assert {id: truth[id] for id in mirror.listed} == mirror.listed
        assert mirror.born == {id: 1000.0 - id for id in mirror.listed}

        for id in mirror.changed:
            known.pop(id, None)
            if id in mirror.listed:
                known[id] = mirror.listed[id]
        mirror.changed.clear()
        assert known == mirror.listed

        kinds: dict[str, tuple[int, int]] = {}
        for r in others:
            kind = "a task's result" if r.about is None else r.about.type.partition(" ")[0]
            n, size = kinds.get(kind, (0, 0))
            kinds[kind] = n + 1, size + r.size
        assert {kind: (n, size) for kind, n, size in mirror.kinds()} == kinds
        for segment in (1, 2):
            bins: Counter[int] = Counter()
            for r in others:
                if r.segment == segment:
                    bins[r.offset // BIN] += r.size
            assert mirror.bins(segment, 8 * BIN, 8) == [bins[n] for n in range(8)]


def test_names_come_first_then_size() -> None:
    mirror = Mirror(most=3)
    mirror.apply(change(record(1, 10), record(2, 20), record(3, 30)))
    mirror.apply(change(record(4, 5), record(5, 25), record(6, 1, named=True)))
    assert mirror.listed.keys() == {3, 5, 6}
    mirror.apply(change(record(4, 5, named=True)))
    assert mirror.listed.keys() == {3, 4, 6}


def test_it_begins_anew_when_most_rows_have_gone_and_others_wait() -> None:
    mirror = Mirror(most=4)
    mirror.apply(change(*(record(id, 100 - id) for id in range(1, 9))))
    assert not mirror.is_thin
    mirror.apply(change(gone=(1, 2)))
    assert not mirror.is_thin
    mirror.apply(change(gone=(3,)))
    assert mirror.is_thin
    mirror.apply(change(gone=(5, 6, 7, 8)))
    assert not mirror.is_thin  # there is nothing more to show


def test_what_runs_cells_is_not_listed() -> None:
    mirror = Mirror()
    own = structs.replace(record(1, 10), about=About(f"{OWN}run_cell", 1, 9, 1, 0.0, 0.0))
    mirror.apply(change(own, record(2, 10)))
    assert mirror.listed.keys() == {2}
    mirror.apply(change(gone=(1, 2)))
    assert not mirror.listed
