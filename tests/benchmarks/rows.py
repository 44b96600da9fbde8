"""The rows of the tables: what is measured, what it is held against, and the goal. Data alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """Which figure of which contestant, and what to call it."""

    contestant: str
    name: str
    label: str = ""


class Goal(NamedTuple):
    """``beside`` is held against: the ratio is to be ``bound`` at least, or at most.

    Without ``beside`` the figure itself is.
    """

    bound: float
    at_least: bool
    beside: Figure | None = None


class Row(NamedTuple):
    """One line of the issue's table (or a part of one): ``key`` selects it and its measurement."""

    key: str
    what: str
    ours: Figure
    goals: tuple[Goal, ...]


def _rows() -> Iterator[Row]:
    for block in Path(__file__).with_suffix(".txt").read_text().split("\n== ")[1:]:
        title, ours, *goals = block.strip().splitlines()
        key, _, what = title.partition(": ")
        yield Row(key, what, Figure(*ours.split()), tuple(map(_goal, goals)))


def _goal(line: str) -> Goal:
    found = re.fullmatch(r"([≥≤]) (\S+)(?: × (\S+) (\S+) \((.*)\))?", line)
    assert found, line
    sign, bound, *beside = found.groups()
    return Goal(float(bound), sign == "≥", Figure(*beside) if beside[0] else None)


ROWS = (*_rows(),)
"""Those of rows.txt."""


def _round_trip(key: str, what: str) -> Row:
    """Serialize and deserialize. With buffers there is more to gain, so more is asked."""
    goals = [Goal(1, True, Figure("cloudpickle", key, "cloudpickle"))]
    if key not in ("objects", "ints", "points", "text"):
        goals.append(Goal(3, True, Figure("ray", key, "Ray")))
    return Row(key, what, Figure("workbench", key), tuple(goals))


_VALUES = {
    "array": "array of 100 MB",
    "strided": "the same, not contiguous",
    "arrays": "dict of 1000 arrays of 100 kB",
    "numeric": "frame of 1 M rows, 8 numeric columns",
    "objects": "frame of 1 M rows, one of strings as objects",
    "arrow": "frame of 1 M rows, one of Arrow strings",
    "ints": "list of 1 M ints",
    "points": "100 k instances of a dataclass",
    "text": "20 MB of bytes",
    "function": "function that closes over 50 MB",
}
ROUND_TRIPS = (*(_round_trip(*each) for each in _VALUES.items()),)
"""The rows of the third table: one each of `values`."""

SERIALIZERS = {
    "workbench": "Workbench",
    "pickle": "pickle 5",
    "cloudpickle": "cloudpickle",
    "ray": "Ray",
}
"""Its columns."""

_FIGURES = {
    "B/s": "put_warm put_cold memcpy_all pwrite spill sendfile read_back readv "
    "put_full sendfile_full",
    "/s": "dict burst actor_async async_actor_async tree calls_1_1 calls_1_n calls_n_n "
    "speed_loud speed_silent",
    "B": "memory magic_memory",
    "bytes": "per_task_server per_object_small per_object_shared update_bytes",
    "share": "idle cpu_idle cpu_busy",
}
UNITS = {figure: unit for unit, figures in _FIGURES.items() for figure in figures.split()}
"""Of figures that aren't seconds."""

PEERS = {
    "workbench": "Workbench",
    "processpool": "ProcessPool",
    "loky": "loky",
    "ray": "Ray",
    "dask": "Dask",
}
"""The columns of the second table."""

FIGURES = {
    "start": "start → first result",
    "memory": "memory at rest, 2 workers",
    "empty": "one empty task",
    "burst": "empty tasks at once",
    "dict": "put and get of a small dict",
    "put_warm": "put of 100 MB, warm",
    "put_cold": "put of 100 MB, cold",
    "get_1MB": "get of 1 MB, no copy",
    "get_1GB": "get of 1 GB, no copy",
    "by_ref": "100 MB by reference, added",
    "returns": "returning 100 MB",
    "actor_sync": "1:1 actor calls sync",
    "actor_async": "1:1 actor calls async",
    "async_actor_sync": "1:1 async-actor calls sync",
    "async_actor_async": "1:1 async-actor calls async",
    "tree": "tree of sums: tasks",
    "wait_each": "1 000 tasks, `wait` for one at a time",
    "contains": "list of 10 000 refs, put and got",
}
"""Its rows."""

WHERE = {"": "beside the peers", "busy": "with every core busy"}
"""The tables of that kind: the ends of the names of `rounds.CONTESTANTS`."""

OTHERS = {
    Figure("workbench", "memcpy_all"): "memcpy of 100 MB into warm pages, all cores",
    Figure("workbench", "pwrite"): "pwrite of 100 MB into cold pages",
    Figure("floor", "empty"): "an empty task over a socket alone, both sides looking",
    Figure("floor-busy", "empty"): "the same, every core busy",
    Figure("floor", "empty_asleep"): "the same, both sides asleep",
    Figure("workbench", "make_and_copy"): "100 MB made and copied once, in a worker",
    Figure("imports", "import_numpy"): "import numpy",
    Figure("page", "update_bytes"): "a difference told to a page, 100 of 100 000 objects changed",
    Figure("kernel", "cell_here"): "a cell in a kernel, sent and answered",
    Figure("imports", "import_workbench_all"): "import of all that workbench's first use loads",
}
"""What else is worth a line: mostly limits."""

NOTES = (
    "Dask's bursts are 5 000 tasks.",
    "Start and memory are the Python functions' in the second table, the magics' in the first.",
)
