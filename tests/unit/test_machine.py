"""What the kernel's files say of processors and memory, on machines made of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.unit.kernels import kernel_files
from workbench import machine

GIB = 1 << 30

V2 = {"proc/self/cgroup": "0::/user/pod\n"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/x\n"}

MEMORY = [
    ({}, {}, 16 * GIB),
    ({**V2, "sys/fs/cgroup/user/pod/memory.max": "max\n"}, {}, 16 * GIB),
    ({**V2, "sys/fs/cgroup/user/pod/memory.max": f"{2 * GIB}\n"}, {}, 2 * GIB),
    ({**V2, "sys/fs/cgroup/user/memory.max": f"{3 * GIB}\n"}, {}, 3 * GIB),  # the parent's
    ({**V1, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{GIB}\n"}, {}, GIB),
    ({**V1, "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, {}, 16 * GIB),
    ({**V1, "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"}, {}, GIB),  # docker's view
    ({}, {"MEM_LIMIT": str(2 * GIB)}, 2 * GIB),  # JupyterHub and Binder
    ({}, {"MEM_LIMIT": "nonsense"}, 16 * GIB),
    ({**V2, "sys/fs/cgroup/user/pod/memory.max": f"{GIB}\n"}, {"MEM_LIMIT": str(2 * GIB)}, GIB),
]


@pytest.mark.parametrize(("files", "environ", "limit"), MEMORY)
def test_memory_is_the_least_of_all_limits(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str], limit: int
) -> None:
    assert machine.memory_limit(environ, kernel_files(tmp_path, files)) == limit


QUOTAS = [
    ({**V2, "sys/fs/cgroup/user/pod/cpu.max": "100000 100000\n"}, 1),
    ({**V2, "sys/fs/cgroup/user/cpu.max": "50000 100000\n"}, 1),  # half a processor is one
    ({**V1, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "100000\n",
      "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n"}, 1),
    ({**V1, "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "100000\n",
      "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 1),
    ({**V2, "sys/fs/cgroup/user/pod/cpu.max": "max 100000\n"}, None),
    ({**V1, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
      "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, None),
    ({**V2, "sys/fs/cgroup/user/pod/cpu.max": "99900000 100000\n"}, None),  # more than there are
]  # fmt: skip


@pytest.mark.parametrize(("files", "count"), QUOTAS)
def test_processors_are_what_quota_and_affinity_allow(
    tmp_path: Path, files: dict[str, str], count: int | None
) -> None:
    allowed = len(os.sched_getaffinity(0))
    assert machine.cpu_count(kernel_files(tmp_path, files)) == (count or allowed)


def meminfo(total: int, available: int) -> dict[str, str]:
    text = f"MemTotal: {total >> 10} kB\nMemFree: 1 kB\nMemAvailable: {available >> 10} kB\n"
    return {"proc/meminfo": text}


def group(version: int, limit: str, used: int, inactive: int) -> dict[str, str]:
    if version == 2:
        names, field = ("memory.max", "memory.current"), "inactive_file"
        directory, files = "sys/fs/cgroup/user/pod", V2
    else:
        names, field = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"
        directory, files = "sys/fs/cgroup/memory/docker/abc", V1
    return {
        **files,
        f"{directory}/{names[0]}": limit,
        f"{directory}/{names[1]}": str(used),
        f"{directory}/memory.stat": f"cache 5\n{field} {inactive}\nactive_file 7\n",
    }


LEFT = [
    (meminfo(16 * GIB, 9 * GIB), (9 * GIB, 16 * GIB)),
    ({**meminfo(16 * GIB, 9 * GIB), **group(2, str(4 * GIB), 3 * GIB, GIB)}, (2 * GIB, 4 * GIB)),
    ({**meminfo(16 * GIB, 9 * GIB), **group(1, str(4 * GIB), 3 * GIB, 0)}, (GIB, 4 * GIB)),
    ({**meminfo(16 * GIB, GIB), **group(2, str(4 * GIB), 0, 0)}, (GIB, 16 * GIB)),
    ({**meminfo(16 * GIB, GIB), **group(2, "max", 0, 0)}, (GIB, 16 * GIB)),
    ({**meminfo(16 * GIB, GIB), **group(1, str(GIB), 2 * GIB, 0)}, (0, GIB)),
    ({"proc/meminfo": ""}, (machine.UNLIMITED, machine.UNLIMITED)),
]


@pytest.mark.parametrize(("files", "left"), LEFT)
def test_the_gauge_shows_whatever_has_least_left(
    tmp_path: Path, files: dict[str, str], left: tuple[int, int]
) -> None:
    assert machine.MemoryGauge(kernel_files(tmp_path, files)).read() == left


def test_what_a_process_has_to_itself_grows_with_what_it_takes() -> None:
    gauge = machine.MemoryGauge()
    before = gauge.private(os.getpid())
    taken = bytearray(64 << 20)
    taken[:: os.sysconf("SC_PAGESIZE")] = bytes(len(taken[:: os.sysconf("SC_PAGESIZE")]))
    assert gauge.private(os.getpid()) >= before + (60 << 20)
    assert gauge.private(2**22 + 1) == 0  # no such process


MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw
31 21 0:26 / /var/tmp rw - ext4 /dev/vdb rw
32 21 0:27 / /var/tmp/in\\040memory rw - ramfs none rw
33 21 0:28 / /data rw - tmpfs tmpfs rw
34 21 0:29 / /data rw - xfs /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "memory"),
    [
        ("/", False),
        ("/tmp", True),
        ("/tmp/below/it", True),
        ("/tmpfoo", False),
        ("/var/tmp", False),
        ("/var/tmp/in memory/x", True),
        ("/data/x", False),  # what is mounted later lies on top
    ],
)
def test_which_directories_are_memory(tmp_path: Path, path: str, memory: bool) -> None:
    root = kernel_files(tmp_path, {"proc/self/mountinfo": MOUNTS})
    assert machine.in_memory(path, root) == memory


def test_objects_go_to_a_disk_if_there_is_one(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    mounts = f"{MOUNTS}40 21 0:30 / {mine} rw - tmpfs tmpfs rw\n"
    root = kernel_files(tmp_path / "a", {"proc/self/mountinfo": mounts})
    assert machine.spill_directory({"TMPDIR": str(mine)}, root) != str(mine)
    everywhere = kernel_files(tmp_path / "b", {"proc/self/mountinfo": MOUNTS.splitlines()[0]})
    assert machine.spill_directory({"TMPDIR": str(mine)}, everywhere) == str(mine)
    gone = {"TMPDIR": str(tmp_path / "gone")}
    assert machine.spill_directory(gone, everywhere) in ("/var/tmp", tempfile.gettempdir())


def test_huge_pages(tmp_path: Path) -> None:
    name = machine.SHMEM_ENABLED.lstrip("/")
    offer = "always within_size [advise] never deny force\n"
    smaps = """\
7f0000000000-7f0010000000 rw-s 00000000 00:01 7 /memfd:workbench (deleted)
Size:             262144 kB
ShmemPmdMapped:     4096 kB
VmFlags: rd wr sh
7f0020000000-7f0030000000 r--s 00000000 00:01 7 /memfd:workbench (deleted)
Size:             262144 kB
ShmemPmdMapped:     4096 kB
"""
    root = kernel_files(tmp_path, {name: offer, "proc/self/smaps": smaps})
    assert machine.huge_pages_for_shared_memory(root) == "advise"
    assert machine.huge_pages_mapped(root) == 4096 * 1024, "once, not once a mapping"
    bare = kernel_files(tmp_path / "bare", {})
    assert machine.huge_pages_for_shared_memory(bare) == ""
    assert machine.huge_pages_mapped(bare) == 0
