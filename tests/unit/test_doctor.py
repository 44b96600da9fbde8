"""What `workbench doctor` says of machines that aren't as they should be. Healthy: test_cli."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from workbench.cli import doctor
from workbench.config import Config
from workbench.memory import segment
from workbench.system import machine
from workbench.system.sizes import PAGE

GB = 10**9

Machine = dict[str, Any]
"""What the machine would say, by the function that asks it."""


class Gauge:
    """The memory that is available."""

    def __init__(self, available: int) -> None:
        self._available = available

    def __call__(self) -> Gauge:
        return self

    def read(self) -> tuple[int, int]:
        """As a MemoryGauge's."""
        return self._available, 100 * GB


def limits(**found: int) -> Machine:
    return {"memory_limits": lambda: found, "MemoryGauge": Gauge(50 * GB)}


CASES: dict[str, tuple[Machine, Config, str, str, str]] = {
    "the least counts": (
        limits(RAM=9 * GB, MEM_LIMIT=2 * GB), Config(memory=GB),
        "memory", "ok", "RAM 9 GB, MEM_LIMIT 2 GB; MEM_LIMIT counts; 50 GB available",
    ),
    "a store larger than memory": (
        limits(RAM=GB), Config(memory=2 * GB), "memory", "problem", "the store may take 2 GB",
    ),
    "no memory left": (
        limits(RAM=9 * GB) | {"MemoryGauge": Gauge(10)}, Config(memory=GB, headroom=GB),
        "memory", "note", "10 B available",
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
    "huge pages": (
        {"huge_pages": lambda: "advise"}, Config(), "huge pages", "ok", "advise",
    ),
    "no huge pages": (
        {"huge_pages": lambda: "never"}, Config(), "huge pages", "note", "never",
    ),
    "a kernel without them": (
        {"huge_pages": lambda: ""}, Config(), "huge pages", "note", "unknown",
    ),
    "memory to spill to": (
        {"file_system": lambda path, root=None: "tmpfs"}, Config(memory=1, spill_dir="/"),
        "spill space", "note", "tmpfs",
    ),
    "little room": (
        {"file_system": lambda path, root=None: "ext4"}, Config(memory=1 << 60, spill_dir="/"),
        "spill space", "note", "ext4",
    ),
    "room": (
        {"file_system": lambda path, root=None: "ext4"}, Config(memory=1, spill_dir="/"),
        "spill space", "ok", "free",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "config", "check", "state", "text"), CASES.values(), ids=CASES)
def test_what_it_makes_of_it(
    monkeypatch: pytest.MonkeyPatch,
    said: Machine,
    config: Config,
    check: str,
    state: str,
    text: str,
) -> None:
    for name, answer in said.items():
        monkeypatch.setattr(machine, name, answer)
    finding = doctor.CHECKS[check](config)
    assert (finding.check, finding.state) == (check, state)
    assert text in finding.found
    assert bool(finding.advice) == (state != "ok")


@pytest.mark.parametrize(("there", "state"), [("gone", "problem"), ("", "note")])
def test_a_spill_directory_that_is_not_there(tmp_path: Path, there: str, state: str) -> None:
    finding = doctor.spill(Config(spill_dir=there and str(tmp_path / there)))
    assert finding.state == state
    assert "WORKBENCH_SPILL_DIR" in finding.advice


def test_readers_that_are_not_kept_from_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = segment.create(PAGE)
    monkeypatch.setattr(segment, "create", lambda size: both_writable(made))
    finding = doctor.shared_memory(Config())
    assert finding.state == "problem"
    assert finding.data["readonly_refuses_writing"] is False


def both_writable(made: segment.Descriptors) -> segment.Descriptors:
    os.close(made.readonly)
    return segment.Descriptors(made.writable, os.dup(made.writable), made.size)


def test_of_a_cluster_it_says_that_it_checks_this_machine() -> None:
    finding = doctor.settings(Config(engine="ray"))
    assert finding.state == "note"
    assert "Ray, which isn't checked" in finding.found
    assert "this machine alone" in finding.advice
    assert doctor.settings(Config()).state == "ok"


def test_a_process_that_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = doctor.access({"ports": {"7": [8080]}, "processes": [6, 7]})
    assert finding.state == "problem"
    assert "8080" in finding.found
