"""What `workbench doctor` says of machines that aren't as they should be. Healthy: test_cli."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.cli import doctor
from workbench.config import Config
from workbench.system import machine

GB = 10**9

Machine = dict[str, Any]
"""What the machine would say, by the function that asks it."""


def limits(available: int = 50 * GB, **found: int) -> Machine:
    gauge = SimpleNamespace(read=lambda: (available, 100 * GB))
    return {"memory_limits": lambda: found, "MemoryGauge": lambda: gauge}


DISK: Machine = {"file_system": lambda path, root=None: "ext4"}

CASES: dict[str, tuple[Machine, Config, str, str, str]] = {
    "the least counts": (
        limits(RAM=9 * GB, MEM_LIMIT=2 * GB), Config(memory=GB),
        "memory", "ok", "RAM 9 GB, MEM_LIMIT 2 GB; MEM_LIMIT counts; 50 GB available",
    ),
    "a store larger than memory": (
        limits(RAM=GB), Config(memory=2 * GB), "memory", "problem", "the store may take 2 GB",
    ),
    "no memory left": (
        limits(10, RAM=9 * GB), Config(memory=GB, headroom=GB), "memory", "note", "10 B available",
    ),
    "a quota": (
        {"cpu_limits": lambda: (8, 1.5)}, Config(cpus=2, workers=2),
        "processors", "ok", "8 by affinity, a quota of 1.5: 2; workers: 2",
    ),
    "one processor": (
        {"cpu_limits": lambda: (1, None)}, Config(cpus=1, workers=1),
        "processors", "ok", "sleeps at once, since there is one processor",
    ),
    "too many workers": (
        {"cpu_limits": lambda: (2, None)}, Config(cpus=2, workers=9),
        "processors", "note", "no quota: 2; workers: 9",
    ),
    "huge pages": ({"huge_pages": lambda: "advise"}, Config(), "huge pages", "ok", "advise"),
    "none of them": ({"huge_pages": lambda: ""}, Config(), "huge pages", "note", "unknown"),
    "memory to spill to": (
        {"file_system": lambda path, root=None: "tmpfs"}, Config(memory=1, spill_dir="/"),
        "spill space", "note", "tmpfs",
    ),
    "little room": (DISK, Config(memory=1 << 60, spill_dir="/"), "spill space", "note", "ext4"),
    "room": (DISK, Config(memory=1, spill_dir="/"), "spill space", "ok", "free"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_it_makes_of_it(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    said, config, check, state, text = CASES[case]
    for name, answer in said.items():
        monkeypatch.setattr(machine, name, answer)
    finding = doctor.CHECKS[check](config)
    assert (finding.check, finding.state) == (check, state)
    assert text in finding.found
    assert bool(finding.advice) == (state != "ok")


def test_a_spill_directory_that_is_not_there(tmp_path: Path) -> None:
    for there, state in ((str(tmp_path / "gone"), "problem"), ("", "note")):
        finding = doctor.spill(Config(spill_dir=there))
        assert finding.state == state
        assert "WORKBENCH_SPILL_DIR" in finding.advice


def test_of_a_cluster_it_says_that_it_checks_this_machine() -> None:
    finding = doctor.settings(Config(engine="ray"))
    assert finding.state == "note"
    assert "Ray, which isn't checked" in finding.found
    assert "this machine alone" in finding.advice
    assert doctor.settings(Config()).state == "ok"


def test_a_process_that_listens() -> None:
    finding = doctor.access({"ports": {"7": [8080]}, "processes": [6, 7]})
    assert finding.state == "problem"
    assert "8080" in finding.found
