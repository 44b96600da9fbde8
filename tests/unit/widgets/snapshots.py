"""Sessions at one moment, made by hand: a usual one, an empty one, huge ones, hostile ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.core.events import About
from workbench.core.snapshot import (
    ActorRecord,
    ClientRecord,
    JobRecord,
    MemoryRecord,
    ObjectRecord,
    Sample,
    SegmentRecord,
    Snapshot,
    WorkerRecord,
)

MB = 1_000_000
TAKEN = 1_763_733_912.0
"""2025-11-21 14:05:12 UTC."""

NOTEBOOK, SCRIPT, WORKER = 1, 2, 3
HERE, THERE, DISK = 0x7001, 0x7002, 0x7003
CLIENTS = (
    ClientRecord(NOTEBOOK, 900_000_001, "driver", "first-steps.ipynb"),
    ClientRecord(SCRIPT, 900_000_002, "driver", "train.py"),
    ClientRecord(WORKER, 900_000_003, "worker", ""),
)
WORKERS = (
    WorkerRecord(1, 900_000_003, "busy", ("fit", "fit", "score")),
    WorkerRecord(2, 900_000_004, "blocked", ("gather",)),
    WorkerRecord(3, 900_000_005, "idle", (), 77),
)


def an_object(
    id: int, size: int, type: str = "ndarray float64 (1000, 1000)", repeats: int = 0, **more: Any
) -> ObjectRecord:
    """One in the notebook's memory that it holds a ref to, unless told otherwise."""
    about = About(
        type, 79, max(size - 79, 0), 1, size / 40e9, size / 4e9, "cell 3, line 2", repeats
    )
    usual = ObjectRecord(
        id, "ready", (), size, "memory", about, (NOTEBOOK,), (), 0, 0, age=75.0, segment=HERE
    )
    return msgspec.structs.replace(usual, **more)


def a_session(objects: Sequence[ObjectRecord], **more: Any) -> Snapshot:
    """With three segments, two minutes behind it, and jobs."""

    def in_segment(id: int) -> int:
        return sum(record.size for record in objects if record.segment == id)

    def end(id: int) -> int:
        return max((r.offset + r.size for r in objects if r.segment == id), default=0)

    live, spilled = in_segment(HERE) + in_segment(THERE), in_segment(DISK)
    warm = 48 * MB
    usual = Snapshot(
        "first-steps~1a2b", 2_000 * MB, live, live + warm, 3, 1, tuple(objects), WORKERS, CLIENTS,
        spilled=spilled,
        count=len(objects),
        jobs=JOBS,
        actors=(ActorRecord(77, "Counter", (), "alive", 3, 0, 0),),
        segments=(
            SegmentRecord(HERE, NOTEBOOK, in_segment(HERE) + warm, in_segment(HERE), end(HERE)),
            SegmentRecord(THERE, WORKER, in_segment(THERE), in_segment(THERE), end(THERE)),
            SegmentRecord(DISK, 0, 0, spilled, end(DISK), True),
        ),
        history=(
            Sample(112.0, 0, 0, 0, 0, 0),
            Sample(90.0, live // 3, 0, 3, 0, 0),
            Sample(64.5, live * 5 // 4, 0, 9, 1, 0),
            Sample(40.0, live * 5 // 4 - spilled, spilled // 2, 9, 2, 1),
            Sample(12.0, live * 7 // 8, spilled, 12, 5, 2),
            Sample(3.0, live, spilled, 13, 5, 2),
        ),
        memory=MemoryRecord(
            8_000 * MB,
            5_100 * MB,
            ((900_000_001, 410 * MB), (900_000_003, 95 * MB), (900_000_004, 80 * MB)),
        ),
        taken=TAKEN,
    )  # fmt: skip
    return msgspec.structs.replace(usual, **more)


JOBS = (
    JobRecord(0x51, 1, "cell 4", "done", 4.2, 3, 1, ("model", "scores"), True, 1, 1, 2),
    JobRecord(0x52, 2, "cell 7", "running", 61.0, 12, 0, ("best",), False, 3, 8, 1),
    JobRecord(0x53, 3, "cell 8", "queued", 0.0, 0, 0, (), False),
    JobRecord(0x54, 4, "cell 5", "failed", 0.25, 1, 0, (), False, 1, 1, 1),
)


def usual() -> Snapshot:
    """One object of each kind that a person meets."""
    objects = [
        an_object(1, 80 * MB, "ndarray float64 (10000000,)", names=("x",), viewers=(NOTEBOOK,)),
        an_object(2, 42 * MB, "DataFrame (500000, 9)", names=("train", "frame"), offset=80 * MB),
        an_object(
            3, 24 * MB, "ndarray float32 (6000, 1000)", repeats=2, offset=126 * MB,
            pinned="cell 5, line 1", load_seconds=0.0041,
        ),
        an_object(4, 9 * MB, "dict", offset=152 * MB, escapes=("cell 6, line 4",), age=3.0),
        an_object(
            5, 16 * MB, "ndarray float64 (2000, 1000)", segment=THERE, holders=(SCRIPT,), tasks=2,
            viewers=(WORKER,), in_use=True, age=8.0,
        ),
        an_object(6, 12 * MB, "Booster", segment=THERE, offset=16 * MB, job="cell 4", holders=()),
        an_object(7, 30 * MB, "Tensor float32 (7500000,)", where="disk", segment=DISK, parents=1),
        an_object(
            8, 6 * MB, "ndarray int64 (750000,)", offset=164 * MB, state="freed", holders=(),
            viewers=(SCRIPT,), age=7_300.0,
        ),
        an_object(9, 320, "list", where="inline", segment=0, age=0.2),
        an_object(10, 0, state="pending", where="pending", segment=0, about=None, tasks=1),
    ]  # fmt: skip
    return a_session(objects)


def empty() -> Snapshot:
    """A session that has just begun."""
    return a_session(
        (), jobs=(), history=(), workers=(), segments=(), clients=CLIENTS[:1], granted=0,
        session="young",
    )  # fmt: skip


def elsewhere() -> Snapshot:
    """As much as another engine can tell: objects, but not where they lie, nor what they cost."""
    objects = [
        an_object(
            n, n * MB, segment=0, about=None, holders=(), viewers=None, age=None, key=f"part {n}"
        )
        for n in range(1, 4)
    ]
    objects.append(an_object(4, 0, where="pending", segment=0, about=None, age=None))
    objects = [msgspec.structs.replace(record, type=None) for record in objects]
    return Snapshot(
        "cluster", None, None, None, None, None, tuple(objects), (), CLIENTS[:1], spilled=None,
        count=4, segments=None, history=None, taken=TAKEN, engine="ray", scope="as far as is known",
    )  # fmt: skip


def crowd(count: int) -> Snapshot:
    """So many objects, most of them small."""
    types = ["ndarray float64 (8,)", "DataFrame (3, 2)", "dict", "list", "str", "bytes", "Model"]
    types += ["Tensor", "Index"]
    objects, at = [], {HERE: 0, THERE: 0}
    for n in range(count):
        segment = THERE if n % 3 == 0 else HERE
        size = 4096 * (1 + (n * 7919) % 97) * (40 if n % 53 == 0 else 1)
        objects.append(
            an_object(
                n + 1,
                size,
                types[(n * n // 7) % len(types)],
                repeats=n % 41 == 0,
                segment=segment,
                offset=at[segment],
                age=(n * 37) % 9000 / 2,
                names=(f"part{n}",) * (n % 50 == 0),
                viewers=(WORKER,) * (n % 9 == 0),
            )
        )
        at[segment] += size + (4096 * 5 if n % 11 == 0 else 0)
    return a_session(objects)


HOSTILE = '<script>alert(1)</script> & "$x_1$" `code` 数据\n' + "very_long_" * 30


def hostile() -> Snapshot:
    """Names and places that would be markup, mathematics, or wider than any page."""
    record = an_object(
        1, 5 * MB, HOSTILE, repeats=1, names=(HOSTILE,), pinned=HOSTILE, escapes=(HOSTILE,),
        holders=(SCRIPT,),
    )  # fmt: skip
    jobs = (JobRecord(0x51, 1, HOSTILE, "running", 4.2, 3, 1, (HOSTILE,), True, 1, 1, 2),)
    clients = (*(ClientRecord(n, 900_000_000 + n, "driver", HOSTILE) for n in (1, 2)), CLIENTS[2])
    workers = (WorkerRecord(1, 900_000_003, "busy", (HOSTILE,), 5),)
    more = [an_object(2, 5 * MB, segment=THERE), an_object(3, 5 * MB, offset=5 * MB)]
    return a_session([record, *more], jobs=jobs, clients=clients, workers=workers, session=HOSTILE)
