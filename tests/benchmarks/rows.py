"""The rows of the table: what is measured, what it is held against, and the goal. Data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Figure(NamedTuple):
    """Which figure of which contestant, and what to call it."""

    contestant: str
    name: str
    label: str = ""


@dataclass(frozen=True)
class Goal:
    """``beside`` is held against: the ratio is to be ``bound`` at least, or at most.

    Without ``beside`` the figure itself is. A ratio of seconds that is to be large says how many
    times faster we are: the other's over ours. All other ratios are ours over the other's.
    """

    bound: float
    at_least: bool
    beside: Figure | None = None


@dataclass(frozen=True)
class Row:
    """One line of the issue's table (or a part of one): ``key`` selects it and its measurement."""

    key: str
    what: str
    ours: Figure
    goals: tuple[Goal, ...]


def _row(key: str, what: str, ours: Figure, *goals: Goal) -> Row:
    return Row(key, what, ours, goals)


def _ours(name: str, where: str = "") -> Figure:
    """``where``: see `rounds.CONTESTANTS`."""
    return Figure(f"workbench-{where}" if where else "workbench", name, "Workbench")


def _many(name: str) -> Figure:
    return Figure("many", name)


def _at_least(bound: float, *beside: str) -> Goal:
    return Goal(bound, True, Figure(*beside) if beside else None)


def _at_most(bound: float, *beside: str) -> Goal:
    return Goal(bound, False, Figure(*beside) if beside else None)


US = 1e-6

ROWS = (
    _row("put_warm", "put of a 100 MB array, warm", _ours("put_warm"),
         _at_least(0.9, "workbench", "memcpy_all", "memcpy, all cores")),
    _row("put_cold", "put of a 100 MB array, cold", _ours("put_cold"),
         _at_least(0.9, "workbench", "pwrite", "pwrite")),
    _row("get", "get of a 1 GB array", _ours("get_1GB"),
         _at_most(1.2, "workbench", "get_1MB", "get of 1 MB"), _at_most(50 * US)),
    _row("dict", "put and get of a small dict", _ours("dict"), _at_least(10, "ray", "dict", "Ray")),
    _row("empty", "one empty task, submitted and got", _ours("empty"),
         _at_most(6, "floor", "empty", "the floor"),
         _at_least(3, "processpool", "empty", "ProcessPoolExecutor"),
         _at_least(25, "ray", "empty", "Ray")),
    _row("empty", "the same, every core busy", _ours("empty", "busy"),
         _at_least(2, "processpool-busy", "empty", "ProcessPoolExecutor")),
    _row("paced", "the same on one core, 0.1 s between tasks", _ours("paced", "one"),
         _at_least(1, "processpool-one", "paced", "ProcessPoolExecutor")),
    _row("paced", "processor that an idle session uses", _ours("idle", "one"), _at_most(0.001)),
    _row("burst", "10 000 empty tasks at once", _ours("burst"),
         _at_least(8, "processpool", "burst", "ProcessPoolExecutor"),
         _at_least(30, "ray", "burst", "Ray")),
    _row("burst", "the same, every core busy", _ours("burst", "busy"),
         _at_least(8, "processpool-busy", "burst", "ProcessPoolExecutor"),
         _at_least(30, "ray-busy", "burst", "Ray")),
    _row("by_ref", "a task that takes 100 MB by reference, less the empty task", _ours("by_ref"),
         _at_most(50 * US)),
    _row("returns", "a task that returns 100 MB", _ours("returns"),
         _at_most(1.3, "workbench", "make_and_copy", "made and copied there")),
    _row("actor", "1:1 actor calls sync", _ours("actor_sync"),
         _at_least(15, "ray", "actor_sync", "Ray")),
    _row("actor", "1:1 actor calls async", _ours("actor_async"),
         _at_least(15, "ray", "actor_async", "Ray")),
    _row("async_actor", "1:1 async-actor calls sync", _ours("async_actor_sync"),
         _at_least(15, "ray", "async_actor_sync", "Ray"),
         _at_most(1.3, "workbench", "actor_sync", "a sync actor's")),
    _row("async_actor", "1:1 async-actor calls async", _ours("async_actor_async"),
         _at_least(15, "ray", "async_actor_async", "Ray")),
    _row("cores", "1:n actor calls async, n the cores", _ours("calls_1_n", "cores"),
         _at_least(1, "workbench-cores", "calls_1_1", "1:1"),
         _at_least(15, "ray-cores", "calls_1_n", "Ray")),
    _row("cores", "n:n actor calls async", _ours("calls_n_n", "cores"),
         _at_least(1, "workbench-cores", "calls_1_n", "1:n"),
         _at_least(15, "ray-cores", "calls_n_n", "Ray")),
    _row("tree", "tree of 10 000 leaves, added in pairs: tasks", _ours("tree"),
         _at_least(10, "ray", "tree", "Ray")),
    _row("wait", "1 000 tasks, `wait` for one at a time", _ours("wait_each"),
         _at_least(1, "ray", "wait_each", "Ray")),
    _row("contains", "put and get of a list of 10 000 refs", _ours("contains"),
         _at_least(1, "ray", "contains", "Ray")),
    _row("waiting", "one empty task while 100 000 wait for an object", _many("task_crowded"),
         _at_most(2, "many", "task_alone", "alone")),
    _row("queued", "an actor's call while 100 000 tasks are queued", _many("call_crowded"),
         _at_most(2, "many", "call_alone", "alone")),
    _row("queued", "a question to the server then", _many("ask_crowded"),
         _at_most(2, "many", "ask_alone", "alone")),
    _row("queued", "submitting one more then", _many("submit_crowded"),
         _at_most(2, "many", "submit_alone", "alone")),
    _row("queued", "server's memory per queued task", _many("per_task_server"), _at_most(1000)),
    _row("spill", "100 MB moved to disk", Figure("memory", "spill"),
         _at_least(0.8, "memory", "sendfile", "sendfile to the same disk")),
    _row("spill", "100 MB read back and added up", Figure("memory", "read_back"),
         _at_least(0.8, "memory", "readv", "the page cache's readv and that")),
    _row("full", "put of 100 MB into a full store", Figure("memory", "put_full"),
         _at_least(0.8, "memory", "sendfile_full", "sendfile of as much")),
    _row("crowd", "server's memory per small object, of 1 M", _many("per_object_small"),
         _at_most(600)),
    _row("crowd", "put of one more then", _many("put_crowded_small"),
         _at_most(1.5, "many", "put_alone_small", "alone")),
    _row("crowd", "server's memory per shared object, of 100 k", _many("per_object_shared"),
         _at_most(600)),
    _row("crowd", "put of one more then, of 20 kB", _many("put_crowded_shared"),
         _at_most(1.5, "many", "put_alone_shared", "alone")),
    _row("import", "import workbench", Figure("imports", "import_workbench"),
         _at_most(1.5, "imports", "import_numpy", "import numpy")),
    _row("start", "%load_ext → first %%remote result", Figure("notebook", "magic_start"),
         _at_most(0.5), _at_least(6, "ray", "start", "Ray, init → first task")),
    _row("cell", "a `%%remote -w` cell, over the same cell here", Figure("kernel", "cell_over"),
         _at_most(3e-3)),
    _row("checks", "whether ten stored variables of a cell have changed",
         Figure("checks", "check_ten"), _at_most(1e-3)),
    _row("checks", "whether a stored array of 1 GB has", Figure("checks", "check_1GB"),
         _at_most(2, "checks", "memcpy_1GB", "memcpy, all cores")),
    _row("flood", "a kernel's loop while a worker prints 100 000 lines/s",
         Figure("kernel", "speed_loud"),
         _at_least(0.9, "kernel", "speed_silent", "while it only counts")),
    _row("views", "dashboard: first paint", Figure("page", "first_paint"), _at_most(0.5)),
    _row("views", "dashboard shown, idle: of the kernel's processor", Figure("page", "cpu_idle"),
         _at_most(0.005)),
    _row("views", "dashboard shown, 5 000 puts/s: of the kernel's processor",
         Figure("page", "cpu_busy"), _at_most(0.05)),
    _row("views", "an update with 100 000 objects, in the kernel", Figure("page", "update_many"),
         _at_most(0.1)),
    _row("views", "a frame then, in the browser (19 of 20)", Figure("page", "frame_many"),
         _at_most(0.016)),
    _row("memory", "memory at rest, 2 workers", Figure("notebook", "magic_memory"),
         _at_most(150e6)),
)  # fmt: skip


def _round_trip(key: str, what: str, *, buffers: bool) -> Row:
    """Serialize and deserialize. With buffers there is more to gain, so more is asked."""
    cloudpickle = _at_least(1, "cloudpickle", key, "cloudpickle")
    ray = (_at_least(3, "ray", key, "Ray"),) if buffers else ()
    return Row(key, what, _ours(key), (cloudpickle, *ray))


ROUND_TRIPS = (
    _round_trip("array", "array of 100 MB", buffers=True),
    _round_trip("strided", "the same, not contiguous", buffers=True),
    _round_trip("arrays", "dict of 1000 arrays of 100 kB", buffers=True),
    _round_trip("numeric", "frame of 1 M rows, 8 numeric columns", buffers=True),
    _round_trip("objects", "frame of 1 M rows, one of strings as objects", buffers=False),
    _round_trip("arrow", "frame of 1 M rows, one of Arrow strings", buffers=True),
    _round_trip("ints", "list of 1 M ints", buffers=False),
    _round_trip("points", "100 k instances of a dataclass", buffers=False),
    _round_trip("text", "20 MB of bytes", buffers=False),
    _round_trip("function", "function that closes over 50 MB", buffers=True),
)
"""The rows of the third table: one each of `values`."""

SERIALIZERS = {
    "workbench": "Workbench",
    "pickle": "pickle 5",
    "cloudpickle": "cloudpickle",
    "ray": "Ray",
}
"""Its columns."""

UNITS = {
    "put_warm": "B/s", "put_cold": "B/s", "memcpy_all": "B/s", "pwrite": "B/s",
    "dict": "/s", "burst": "/s", "memory": "B", "magic_memory": "B",
    "actor_async": "/s", "async_actor_async": "/s", "tree": "/s", "per_task_server": "bytes",
    "spill": "B/s", "sendfile": "B/s", "read_back": "B/s", "readv": "B/s",
    "put_full": "B/s", "sendfile_full": "B/s",
    "speed_loud": "/s", "speed_silent": "/s",
    "per_object_small": "bytes", "per_object_shared": "bytes",
    "calls_1_1": "/s", "calls_1_n": "/s", "calls_n_n": "/s", "idle": "share",
    "cpu_idle": "share", "cpu_busy": "share", "update_bytes": "bytes",
}  # fmt: skip
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
