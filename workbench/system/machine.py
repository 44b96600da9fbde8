"""What the machine and its containers allow: processors, memory (total and available), disks; and
what the kernel tells about processes.

Reads only files of the kernel; tests pass another root.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import struct
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from workbench.system.sizes import parse_bytes

SHMEM_ENABLED = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
"""File in which root sets, and the kernel tells, who gets huge pages for shared memory."""

UNLIMITED = 1 << 60
"""Kernels write "no limit" as a number near 2**63."""


def cpu_count(root: Path = Path("/")) -> int:
    """Return how many processors this process may use, by affinity and cgroup quota; at least 1."""
    count, quota = cpu_limits(root)
    return max(1, min(count, round(quota) if quota is not None else count))


def cpu_limits(root: Path = Path("/")) -> tuple[int, float | None]:
    """Return (processors by affinity, by the smallest quota of our cgroups, v2 or v1, or None)."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota: float | None = None
    for directory in _cgroups(root, "cpu"):
        fields = _text(directory / "cpu.max").split()
        if len(fields) == 2 and fields[0] != "max":
            quota = min(quota or 1e9, int(fields[0]) / int(fields[1]))
        limit, period = (
            _number(directory / "cpu.cfs_quota_us"),
            _number(directory / "cpu.cfs_period_us"),
        )
        if limit and period and limit > 0:
            quota = min(quota or 1e9, limit / period)
    return count or 1, quota


def memory_limit(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> int:
    """Return the bytes of memory for us: the smallest of RAM, cgroup limits and ``MEM_LIMIT``.

    JupyterHub (and so Binder) sets ``MEM_LIMIT``.
    """
    return min(memory_limits(environ, root).values(), default=4 << 30)


def memory_limits(
    environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> dict[str, int]:
    """Return those of these limits that exist, in bytes, by what sets them."""
    limits = {}
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"))
    if match:
        limits["RAM"] = int(match[1]) * 1024
    for directory in _cgroups(root, "memory"):
        for version, name, _ in _LIMITS:
            limit = _number(directory / name)
            if limit is not None and 0 < limit < UNLIMITED:
                what = f"cgroup v{version}"
                limits[what] = min(limit, limits.get(what, limit))
    try:
        limits["MEM_LIMIT"] = parse_bytes(environ.get("MEM_LIMIT", ""))
    except ValueError:
        pass
    return limits


def process_limit(root: Path = Path("/")) -> int | None:
    """Return how many processes and threads our cgroups allow in all; None: as many as you like."""
    limits = (_number(directory / "pids.max") for directory in _cgroups(root, "pids"))
    return min((limit for limit in limits if limit is not None), default=None)


def spill_directory(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> str:
    """Return the directory for objects that have no room in memory, on a disk if there is one.

    It is the first of ``TMPDIR``, ``/var/tmp``, ``/tmp`` that is writable and not itself in memory
    (a tmpfs), else the first writable one; '' if there is none.
    """
    wished = [environ.get("TMPDIR", ""), "/var/tmp", tempfile.gettempdir()]
    usable = [path for path in wished if path and os.access(path, os.W_OK | os.X_OK)]
    return next((path for path in usable if not in_memory(path, root)), next(iter(usable), ""))


def in_memory(path: str, root: Path = Path("/")) -> bool:
    """True if files at this path take memory instead of disk space."""
    return file_system(path, root) in ("tmpfs", "ramfs")


def huge_pages(root: Path = Path("/")) -> str:
    """Return when shared memory gets huge pages: ``advise``, ``never`` and so on; '': unknown."""
    text = _text(root / SHMEM_ENABLED.lstrip("/"))
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else ""


def huge_pages_mapped(root: Path = Path("/")) -> int:
    """Return the bytes of shared memory, mapped writable here, that are in huge pages."""
    pattern = r"^\S+ rw-s .*\n(?:\w+: .*\n)*?ShmemPmdMapped: +(\d+) kB"
    found = re.findall(pattern, _text(root / "proc/self/smaps"), re.MULTILINE)
    return sum(map(int, found)) * 1024


class MemoryGauge:
    """Measures, repeatedly, how much memory is left."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._meminfo = root / "proc/meminfo"
        self.container = False  # True if the last reading is a cgroup's
        self._groups = [
            (limit, directory / used, directory / "memory.stat", version)
            for directory in _cgroups(root, "memory")
            for version, name, used in _LIMITS
            if (limit := _number(directory / name)) is not None and 0 < limit < UNLIMITED
        ]

    def read(self) -> tuple[int, int]:
        """Return (available, total) bytes of what has least left: the machine, or a cgroup.

        Reclaimable file cache counts as available, as in ``MemAvailable``: see `_reclaimable`.
        """
        meminfo = _text(self._meminfo)
        total, available = _field(meminfo, "MemTotal:"), _field(meminfo, "MemAvailable:")
        left = [(available * 1024, total * 1024)] if total else []
        for limit, used, stat, version in self._groups:
            current = _number(used)
            if current is not None:
                spare = limit - current + _reclaimable(_text(stat), version)
                left.append((min(max(spare, 0), limit), limit))
        least = min(left, default=(UNLIMITED, UNLIMITED))
        self.container = bool(total) and least is not left[0]
        return least

    def private(self, pid: int) -> int:
        """Return the bytes of a process's private memory; 0 if it is gone."""
        try:
            return self.of_process(pid)[0]
        except OSError:
            return 0

    def of_process(self, pid: int) -> tuple[int, int, int]:
        """Return a process's private memory in bytes: what it has touched, and what it has
        reserved; and the code of its libraries. OSError if it is gone."""
        with open(f"{self._root}/proc/{pid}/status", "rb") as file:
            found = dict(_SIZES.findall(file.read()))
        private, data, code = (int(found.get(name, 0)) << 10 for name in _OF_PROCESS)
        return private, data, code


# -- this process ----------------------------------------------------------------------------------


def reset_peak_memory() -> bool:
    """Reset `peak_memory`; False if the system can't."""
    try:
        return Path("/proc/self/clear_refs").write_bytes(b"5") > 0
    except OSError:
        return False


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes, since its start or last reset."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def be_ended_first() -> None:
    """Have Linux choose this process and those that it starts when memory has run out: without it,
    the largest is killed, such as the notebook's kernel or JupyterLab.

    A process may always raise its own score (proc_pid_oom_score_adj(5)). Ray does so for workers.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


# -- processes, sockets, file systems -------------------------------------------------------------


def command_lines(root: Path = Path("/")) -> dict[int, tuple[str, ...]]:
    """Return the command line of each of this user's processes, by pid."""
    found = {}
    for directory in (root / "proc").glob("[0-9]*"):
        try:
            if directory.stat().st_uid == os.getuid():
                line = (directory / "cmdline").read_bytes()
                found[int(directory.name)] = tuple(os.fsdecode(line).split("\0")[:-1])
        except OSError:  # it has ended
            pass
    return found


def started_by(pid: int, but: int = 0, root: Path = Path("/")) -> list[int]:
    """Return the processes that a process's main thread has started, and those these have, and so
    on, ``but`` one and what that has started."""
    try:
        with open(f"{root}/proc/{pid}/task/{pid}/children", "rb") as file:
            children = [int(each) for each in file.read().split()]
    except OSError:  # it has ended, or the kernel doesn't tell
        return []
    return [
        each
        for child in children
        if child != but
        for each in (child, *started_by(child, but, root))
    ]


def proportional(pid: int, root: Path = Path("/")) -> int:
    """Return a process's proportional set size (PSS) in bytes; 0 if it is gone."""
    rollup = _text(root / "proc" / str(pid) / "smaps_rollup")
    return _field(rollup, "Pss:") * 1024


def stat_of(pid: int | None, root: Path = Path("/")) -> list[str]:
    """Return what ``/proc`` tells of a process behind its name, the state first; [] if it is gone.

    The name stands in brackets and may have any character in it: the last one ends it.
    """
    return _text(root / "proc" / str(pid) / "stat").rpartition(")")[2].split()


def age(pid: int, root: Path = Path("/")) -> float:
    """Return the seconds since a process began; 0 if it is gone."""
    stat = stat_of(pid, root)
    uptime = _text(root / "proc/uptime").split()
    if len(stat) < _STARTED or not uptime:
        return 0.0
    return max(float(uptime[0]) - int(stat[_STARTED - 1]) / os.sysconf("SC_CLK_TCK"), 0.0)


def exit_status(pid: int, pidfd: int) -> int | None:
    """Return the status of a process that has ended, as ``os.waitstatus_to_exitcode`` does.

    It needn't be a child. Until its parent has waited for it, ``/proc`` tells; then only Linux 6.15
    and later do, by a ``pidfd`` opened before. None if nobody can tell any more.
    """
    fields = stat_of(pid)
    if len(fields) >= _EXIT_CODE and fields[0] == "Z":
        return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE - 1]))
    with suppress(OSError):  # PIDFD_GET_INFO, PIDFD_INFO_EXIT
        found = fcntl.ioctl(pidfd, 0xC040FF0B, _PIDFD_INFO.pack(8, 0))
        known, status = _PIDFD_INFO.unpack(found)
        return os.waitstatus_to_exitcode(status) if known & 8 else None
    return None


def oom_kills(root: Path = Path("/")) -> int | None:
    """Return how many processes of the machine, containers included, Linux has killed since the
    boot because memory ran out; None if it doesn't tell."""
    found = re.search(r"^oom_kill (\d+)$", _text(root / "proc/vmstat"), re.MULTILINE)
    return int(found[1]) if found else None


def tcp_listeners(pid: int, root: Path = Path("/")) -> list[int]:
    """Return the TCP ports on which a process listens."""
    process = root / "proc" / str(pid)
    sockets = set()
    try:
        for fd in (process / "fd").iterdir():
            try:
                sockets.add(os.readlink(fd))
            except OSError:  # closed meanwhile
                pass
    except OSError:  # gone, or not ours
        return []
    ports = set()
    for table in ("net/tcp", "net/tcp6"):
        for line in _text(process / table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


def file_system(path: str, root: Path = Path("/")) -> str:
    """Return the type of a path's file system, like ``ext4`` or ``tmpfs``; '' if unknown."""
    path = os.path.realpath(path)
    best, kind = "", ""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields = line.split()
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of several on one mount point, the last
            best, kind = point, fields[fields.index("-", 6) + 1]
    return kind


_OF_PROCESS = b"RssAnon", b"VmData", b"VmLib"
_SIZES = re.compile(rb"^(RssAnon|VmData|VmLib):\s+(\d+)", re.MULTILINE)

_LISTENS = "0A"
"""State of a listening socket in the kernel's table."""

_STARTED = 20
"""Number of the field of ``stat``, after the name, with the start in ticks since the boot."""

_EXIT_CODE = 50
"""Number of the field, counted the same way, with the status of a process that has ended."""

_PIDFD_INFO = struct.Struct("=Q52xi")
"""``struct pidfd_info``: the mask, which asks and then tells what is known; the exit status."""

_LIMITS = (
    (2, "memory.max", "memory.current"),
    (2, "memory.high", "memory.current"),
    (1, "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Cgroup version, file of the limit, file of the use. Above ``memory.high`` no process is killed,
but all are slowed down until memory was given back."""

_FILE_CACHE = {
    1: ("total_active_file", "total_inactive_file", "total_mapped_file", "total_dirty",
        "total_writeback", ""),
    2: ("active_file", "inactive_file", "file_mapped", "file_dirty", "file_writeback",
        "slab_reclaimable"),
}  # fmt: skip
"""Fields of ``memory.stat``, which include the groups below, by cgroup version."""


def _reclaimable(stat: str, version: int) -> int:
    """Return the bytes used in a cgroup that the kernel reclaims when the limit is reached.

    That is the file cache, also of files read often ("active"), but no shared memory, which is on
    other lists. As the kernel does for ``MemAvailable``, we subtract some of it, half at most:
    mapped files, such as running programs, which would be read again at once, and dirty pages,
    which must be written first. (The kernel counts mapped and dirty shared memory with those, and
    doesn't tell them apart: we rather subtract too much.)
    """
    words = stat.split()
    fields = dict(zip(words[::2], words[1::2], strict=False))
    active, inactive, mapped, dirty, writeback, slab = (
        int(fields.get(name, 0)) for name in _FILE_CACHE[version]
    )
    cache = active + inactive
    return cache - min(mapped + dirty + writeback, cache // 2) + slab // 2


def _field(text: str, name: str) -> int:
    match = re.search(rf"^{name}\s+(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else 0


def _cgroups(root: Path, controller: str) -> list[Path]:
    """Return directories of this process's cgroup for a controller, and of its parents."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controllers
            if not base.is_dir():
                base = root / "sys/fs/cgroup" / controller
        else:
            continue
        parts = [p for p in path.split("/") if p not in ("", "..")]
        found += [base.joinpath(*parts[:i]) for i in range(len(parts) + 1)]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None
