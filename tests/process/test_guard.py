"""An allocation that would use up the machine's memory fails where it is asked for."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from workbench.errors import TaskError
from workbench.system.data_limit import raise_after_error
from workbench.system.machine import MemoryGauge

MOST = 1 << 30  # bytes that are left for the session's processes
LARGE = 4 << 30  # bytes; Linux would give that much


def limit(pid: int = 0) -> int:
    return resource.prlimit(pid, resource.RLIMIT_DATA)[0]


def test_what_is_too_large_fails_and_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    own = limit()
    monkeypatch.setenv("WORKBENCH_HEADROOM", f"{MemoryGauge().read()[0] - MOST}B")
    wb.init(workers=1)
    pid_of = wb.remote(os.getpid)
    pid = wb.get(pid_of.remote())
    try:
        assert eventually(lambda: limit() != own and limit(pid) != own)
        with pytest.raises(MemoryError):
            np.ones(LARGE, np.uint8)
        with pytest.raises(TaskError, match="Unable to allocate") as raised:
            wb.get(wb.remote(np.ones).remote(LARGE, np.uint8))
        assert isinstance(raised.value, MemoryError)
        assert wb.get(pid_of.remote()) == pid
        before = limit()
        raise_after_error()
        assert limit() > before, "there is memory to show an error"
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            assert eventually(lambda: limit(child.pid) != before), "what it has started, too"
            child.communicate(b"\n")
    finally:
        wb.shutdown()
    assert limit() == own
