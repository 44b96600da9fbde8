"""What the kernel's files say of processors and memory, on machines made of files; why the system
refuses something; sizes as people type them."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kernels import kernel_files
from workbench.format import human_bytes
from workbench.system import limits, machine
from workbench.system.sizes import parse_bytes

GIB = 1 << 30

V2 = {"proc/self/cgroup": "0::/user/pod\n"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/x\n"}

POD, DOCKER = "sys/fs/cgroup/user/pod", "sys/fs/cgroup/memory/docker/abc"
LIMIT = "memory.limit_in_bytes"

MEMORY = [
    ({}, {}, 16 * GIB),
    ({**V2, f"{POD}/memory.max": f"{2 * GIB}\n"}, {}, 2 * GIB),
    ({**V2, "sys/fs/cgroup/user/memory.max": f"{3 * GIB}\n"}, {}, 3 * GIB),  # the parent's
    ({**V2, f"{POD}/memory.high": f"{3 * GIB}\n"}, {}, 3 * GIB),
    ({**V1, f"{DOCKER}/{LIMIT}": f"{GIB}\n"}, {}, GIB),
    ({**V1, f"sys/fs/cgroup/memory/{LIMIT}": f"{GIB}\n"}, {}, GIB),  # docker's view
    ({}, {"MEM_LIMIT": str(2 * GIB)}, 2 * GIB),  # JupyterHub and Binder
    ({}, {"MEM_LIMIT": "nonsense"}, 16 * GIB),
]


@pytest.mark.parametrize(("files", "environ", "limit"), MEMORY)
def test_memory_is_the_least_of_all_limits(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str], limit: int
) -> None:
    assert machine.memory_limit(environ, kernel_files(tmp_path, files)) == limit


def quota(directory: str, quota: str, period: str) -> dict[str, str]:
    files = {f"{directory}/cpu.cfs_quota_us": quota, f"{directory}/cpu.cfs_period_us": period}
    return {**V1, **files}


QUOTAS = [
    ({**V2, f"{POD}/cpu.max": "100000 100000\n"}, 1),
    ({**V2, "sys/fs/cgroup/user/cpu.max": "50000 100000\n"}, 1),  # half a processor is one
    (quota("sys/fs/cgroup/cpu,cpuacct/docker/abc", "100000\n", "100000\n"), 1),
    (quota("sys/fs/cgroup/cpu/docker/abc", "100000\n", "100000\n"), 1),
    (quota("sys/fs/cgroup/cpu,cpuacct", "-1\n", "100000\n"), None),
    ({**V2, f"{POD}/cpu.max": "99900000 100000\n"}, None),  # more than there are
]


@pytest.mark.parametrize(("files", "count"), QUOTAS)
def test_quota_and_affinity_count(tmp_path: Path, files: dict[str, str], count: int | None) -> None:
    allowed = len(os.sched_getaffinity(0))
    assert machine.cpu_count(kernel_files(tmp_path, files)) == (count or allowed)


PIDS = {**V2, f"{POD}/pids.max": "7000\n", "sys/fs/cgroup/user/pids.max": "max\n"}

REFUSED = [
    (OSError(errno.EMFILE, ""), "NOFILE", 3000, "`ulimit -n` allows it 3000; close some"),
    (OSError(errno.ENOMEM, ""), "AS", 1 << 46, "`ulimit -v` allows a process 70.4 TB of address"),
    (OSError(errno.EFBIG, ""), "FSIZE", 1 << 40, "`ulimit -f` allows files of 1.1 TB"),
    (OSError(errno.EAGAIN, ""), "NPROC", 5000, "`ulimit -u` allows you 5000 processes and threads"),
    (RuntimeError("can't start new thread"), "NPROC", 9000, "container allows 7000 processes"),
    (OSError(errno.ENOSPC, ""), "FSIZE", 1 << 40, "the disk is full"),
]


@pytest.mark.parametrize(("error", "limit", "most", "said"), REFUSED)
def test_what_the_system_refuses_is_traced_to_a_limit(
    tmp_path: Path, error: Exception, limit: str, most: int, said: str
) -> None:
    number = getattr(resource, f"RLIMIT_{limit}")
    before = resource.getrlimit(number)
    resource.setrlimit(number, (most, before[1]))
    try:
        assert said in limits.reason(error, kernel_files(tmp_path, PIDS))
    finally:
        resource.setrlimit(number, before)


def meminfo(total: int, available: int) -> dict[str, str]:
    text = f"MemTotal: {total >> 10} kB\nMemFree: 1 kB\nMemAvailable: {available >> 10} kB\n"
    return {"proc/meminfo": text}


def group(version: int, limit: str, used: int, **stat: int) -> dict[str, str]:
    """``stat``: fields of memory.stat, by their names in version 2."""
    if version == 2:
        names, fields = ("memory.max", "memory.current"), stat
        directory, files = POD, V2
    else:
        names = LIMIT, "memory.usage_in_bytes"
        fields = {f"total_{V1_FIELDS.get(name, name)}": value for name, value in stat.items()}
        fields |= {"active_file": 7, "inactive_file": 7}  # without the groups below it
        directory, files = DOCKER, V1
    return {
        **files,
        f"{directory}/{names[0]}": limit,
        f"{directory}/{names[1]}": str(used),
        f"{directory}/memory.stat": "".join(f"{k} {v}\n" for k, v in fields.items()),
    }


V1_FIELDS = {"file_mapped": "mapped_file", "file_dirty": "dirty", "file_writeback": "writeback"}


MUCH, LITTLE = meminfo(16 * GIB, 9 * GIB), meminfo(16 * GIB, GIB)

LEFT = [
    (MUCH, (9 * GIB, 16 * GIB)),
    ({**MUCH, **group(2, str(4 * GIB), 3 * GIB, inactive_file=GIB)}, (2 * GIB, 4 * GIB)),
    ({**MUCH, **group(1, str(4 * GIB), 3 * GIB)}, (GIB, 4 * GIB)),
    # Half of the kernel's own caches can go. Above `high` everybody waits.
    (MUCH | group(2, str(4 * GIB), 3 * GIB, slab_reclaimable=2 * GIB), (2 * GIB, 4 * GIB)),
    (MUCH | group(2, "max", GIB) | {f"{POD}/memory.high": str(3 * GIB)}, (2 * GIB, 3 * GIB)),
    ({**LITTLE, **group(2, str(4 * GIB), 0)}, (GIB, 16 * GIB)),
    ({**LITTLE, **group(1, str(GIB), 2 * GIB)}, (0, GIB)),
    ({"proc/meminfo": ""}, (machine.UNLIMITED, machine.UNLIMITED)),
]


@pytest.mark.parametrize(("files", "left"), LEFT)
def test_gauges_show_least(tmp_path: Path, files: dict[str, str], left: tuple[int, int]) -> None:
    gauge = machine.MemoryGauge(kernel_files(tmp_path, files))
    assert gauge.read() == left
    assert gauge.container == any("cgroup" in name for name in files if left[1] <= 4 * GIB)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("stat", "reclaimable"),
    [
        ({"active_file": 62, "inactive_file": 91, "file_mapped": 20}, 133),  # programs stay,
        ({"active_file": 20, "inactive_file": 20, "file_mapped": 90}, 20),  # and half at most
        ({"inactive_file": 40, "file_dirty": 10, "file_writeback": 5}, 25),  # still to be written
        ({"inactive_file": 10, "file_dirty": 30}, 5),  # dirty shared memory among it, perhaps
        ({"inactive_file": 7000, "active_file": 7000}, 4096),  # read at two moments: never more
    ],
)
def test_cache_counts(tmp_path: Path, version: int, stat: dict[str, int], reclaimable: int) -> None:
    MIB = 1 << 20
    inside = group(version, str(4096 * MIB), 3 * GIB, **{k: v * MIB for k, v in stat.items()})
    root = kernel_files(tmp_path, MUCH | inside)
    available = min(1024 + reclaimable, 4096)
    assert machine.MemoryGauge(root).read() == (available * MIB, 4 * GIB)


def test_what_a_process_has_to_itself_grows_with_what_it_takes() -> None:
    gauge = machine.MemoryGauge()
    before = gauge.private(os.getpid())
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE) as taken:  # malloc may reuse what others left
        taken.write(b"\1" * len(taken))
        assert gauge.private(os.getpid()) >= before + (60 << 20)
    assert gauge.private(2**22 + 1) == 0  # no such process


def test_objects_go_to_a_disk_if_there_is_one(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    disk = "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
    mounts = f"{disk}2 1 0:5 / {mine} rw - tmpfs none rw\n"
    root = kernel_files(tmp_path / "a", {"proc/self/mountinfo": mounts})
    assert machine.spill_directory({"TMPDIR": str(mine)}, root) != str(mine)
    everywhere = kernel_files(tmp_path / "b", {"proc/self/mountinfo": disk})
    assert machine.spill_directory({"TMPDIR": str(mine)}, everywhere) == str(mine)
    gone = {"TMPDIR": str(tmp_path / "gone")}
    assert machine.spill_directory(gone, everywhere) in ("/var/tmp", tempfile.gettempdir())


def test_huge_pages_that_we_have(tmp_path: Path) -> None:
    smaps = """\
7f0000000000-7f0010000000 rw-s 00000000 00:01 7 /memfd:workbench (deleted)
Size:             262144 kB
ShmemPmdMapped:     4096 kB
VmFlags: rd wr sh
7f0020000000-7f0030000000 r--s 00000000 00:01 7 /memfd:workbench (deleted)
Size:             262144 kB
ShmemPmdMapped:     4096 kB
"""
    root = kernel_files(tmp_path, {"proc/self/smaps": smaps})
    assert machine.huge_pages_mapped(root) == 4096 * 1024, "once, not once a mapping"
    assert machine.huge_pages_mapped(kernel_files(tmp_path / "bare", {})) == 0


def test_each_limit_is_told_by_what_sets_it(tmp_path: Path) -> None:
    limits = {f"{POD}/memory.max": str(3 * GIB), "sys/fs/cgroup/user/memory.max": str(2 * GIB)}
    told = machine.memory_limits({"MEM_LIMIT": "5GiB"}, kernel_files(tmp_path, V2 | limits))
    assert told == {"RAM": 16 * GIB, "cgroup v2": 2 * GIB, "MEM_LIMIT": 5 * GIB}


STAT = "7 (a) name) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1000 50 18446744"

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 0100007F:1F92 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 333 1
"""


def test_what_is_told_of_a_process(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    root = kernel_files(
        tmp_path,
        {
            "proc/7/cmdline": "python\0-m\0a module\0",
            "proc/7/stat": STAT.format(start=60 * ticks) + "\n",
            "proc/7/smaps_rollup": "00-ff ---p 0 [rollup]\nRss: 90 kB\nPss:  12 kB\nPss_Anon: 5 kB",
            "proc/8/cmdline": "",  # the kernel's own, or a process that ends
            "proc/uptime": "90.5 1.0\n",
            "proc/version": "not a process",
        },
    )
    assert machine.command_lines(root) == {7: ("python", "-m", "a module"), 8: ()}
    assert (machine.proportional(7, root), machine.proportional(9, root)) == (12 << 10, 0)
    assert (machine.age(7, root), machine.age(9, root)) == (30.5, 0.0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_other_users_processes_are_left_out(tmp_path: Path) -> None:
    root = kernel_files(tmp_path, {"proc/7/cmdline": "python\0"})
    os.chown(root / "proc/7", 65534, -1)
    assert machine.command_lines(root) == {}


def test_ports_are_those_of_listening_sockets_that_the_process_has(tmp_path: Path) -> None:
    files = {"proc/7/net/tcp": TCP, "proc/7/net/tcp6": TCP.replace("1F90", "0050")}
    root = kernel_files(tmp_path, files)
    assert machine.tcp_listeners(7, root) == []  # no descriptors: it is gone
    (root / "proc/7/fd").mkdir()
    for fd, target in enumerate(("/dev/null", "socket:[111]", "socket:[333]")):
        (root / "proc/7/fd" / str(fd)).symlink_to(target)
    assert machine.tcp_listeners(7, root) == [0x50, 0x1F90]


def test_the_file_system_is_that_of_the_innermost_and_last_mount(tmp_path: Path) -> None:
    mounts = (
        "1 0 8:1 / / rw,relatime - ext4 /dev/sda rw\n"
        "2 1 0:5 / /data rw shared:1 master:2 - xfs /dev/sdb rw\n"
        "3 2 0:6 / /data/with\\040space rw - tmpfs none rw\n"
        "4 1 0:7 / /data rw - btrfs /dev/sdc rw\n"
    )
    root = kernel_files(tmp_path, {"proc/self/mountinfo": mounts})
    places = ("/dataset", "/data/x", "/data/with space/x")
    assert [machine.file_system(path, root) for path in places] == ["ext4", "btrfs", "tmpfs"]
    assert [machine.in_memory(path, root) for path in places] == [False, False, True]
    assert machine.file_system("/data", kernel_files(tmp_path / "none", {})) == ""


def test_when_shared_memory_gets_huge_pages(tmp_path: Path) -> None:
    path = "sys/kernel/mm/transparent_hugepage/shmem_enabled"
    assert machine.huge_pages(kernel_files(tmp_path, {})) == ""
    for text, mode in (("always [advise] never\n", "advise"), ("nonsense\n", "")):
        assert machine.huge_pages(kernel_files(tmp_path, {path: text})) == mode


@given(st.integers(1, 10**15))
def test_what_is_shown_can_be_typed(n: int) -> None:
    assert parse_bytes(human_bytes(n)) == pytest.approx(n, rel=0.006)


@pytest.mark.parametrize(
    ("text", "n"),
    [("8GB", 8 * 10**9), ("512MiB", 512 << 20), ("1.5 g", 15 * 10**8), ("1000", 1000),
     ("1e9", 10**9)],
)  # fmt: skip
def test_sizes_people_type(text: str, n: int) -> None:
    assert parse_bytes(text) == n
    for wrong in ("", "GB", "1.2.3GB", "0", "five", "1XB", "-1MB", "."):
        with pytest.raises(ValueError, match="MB"):
            parse_bytes(wrong)
