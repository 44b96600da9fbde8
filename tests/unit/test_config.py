"""Where a session's settings come from, on machines and in containers made of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench import config
from workbench.errors import ConfigError

GIB = 1 << 30
NOWHERE = Path("nowhere.toml")


def machine(root: Path, files: dict[str, str]) -> Path:
    """A root directory with these files in it; 16 GiB of RAM."""
    for name, text in {"proc/meminfo": f"MemTotal: {16 * 1024 * 1024} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


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
    assert machine.memory_limit(environ, machine(tmp_path, files)) == limit


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
    assert machine.cpu_count(machine(tmp_path, files)) == (count or allowed)


def test_the_store_takes_its_share(tmp_path: Path) -> None:
    got = config.load(environ={}, root=machine(tmp_path, {}), file=NOWHERE)
    assert got.memory == int(16 * GIB * config.SHARE_OF_MEMORY)
    assert got.workers == got.cpus
    assert got.linger == 0.0
    assert got.session == ""


def test_who_speaks_last_is_heard(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('workers = 3\nmemory = "1GB"\nlinger = "10m"\n')
    environ = {"WORKBENCH_WORKERS": "4", "WORKBENCH_MEMORY": "2GB", "WORKBENCH_SESSION": ""}
    given = {"workers": 5, "memory": None}
    got = config.load(given, environ=environ, root=tmp_path, file=file)
    assert (got.workers, got.memory, got.linger, got.session) == (5, 2 * 10**9, 600.0, "")


BAD = [
    ({"workers": 0}, "workers=0 (from this call)"),
    ({"workers": "two"}, "workers='two'"),
    ({"workers": 257}, "between 1 and 256"),
    ({"memory": "much"}, "write it like 500MB"),
    ({"memory": "-1GB"}, "500MB"),
    ({"memory": 1000}, "at least 1 MiB"),
    ({"memory": [1]}, "memory=[1]"),
    ({"memory": float("inf")}, "memory=inf"),
    ({"memory": "1e999"}, "500MB"),
    ({"workers": float("inf")}, "workers=inf"),
    ({"linger": "soon"}, "write it like 30, 10m or 8h"),
    ({"linger": "9" * 400}, "30 years at most"),
    ({"session": "../../etc"}, "letters, digits"),
    ({"session": "x" * 51}, "50 at most"),
    ({"wrokers": 2}, "There is no setting 'wrokers'"),
]


@pytest.mark.parametrize(("given", "says"), BAD)
def test_a_bad_setting_says_which_and_what_would_do(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(given, environ={}, file=NOWHERE)
    assert says in str(caught.value)


def test_a_bad_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="from the environment"):
        config.load(environ={"WORKBENCH_WORKERS": "many"}, file=NOWHERE)
    file = tmp_path / "config.toml"
    file.write_text("workers = 0")
    with pytest.raises(ConfigError, match=r"workers=0 \(from .*config.toml"):
        config.load(environ={}, file=file)
    file.write_text("workers = = 3")
    with pytest.raises(ConfigError, match=r"config.toml is not valid TOML"):
        config.load(environ={}, file=file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"config.toml is not valid TOML"):
        config.load(environ={}, file=file)


def test_a_config_file_that_is_none_does_not_count(tmp_path: Path) -> None:
    given = {"workers": 2, "memory": 1 << 30}
    for file in (tmp_path, tmp_path / "missing.toml", tmp_path / "missing" / "config.toml"):
        assert config.load(given, environ={}, file=file).workers == 2


def test_a_notebook_keeps_its_session_name() -> None:
    one = config.notebook_session({"JPY_SESSION_NAME": "work/My analysis (2).ipynb"})
    assert one == config.notebook_session({"JPY_SESSION_NAME": "work/My analysis (2).ipynb"})
    assert one.startswith("My-analysis-2-")
    assert one != config.notebook_session({"JPY_SESSION_NAME": "play/My analysis (2).ipynb"})
    assert config.load(environ={"JPY_SESSION_NAME": "a.ipynb"}, file=NOWHERE).linger == 120.0
    assert config.notebook_session({}) == ""


def test_threads_are_shared_out_among_the_workers() -> None:
    assert config.Config(workers=2, cpus=8).threads == 4
    assert config.Config(workers=8, cpus=2).threads == 1
