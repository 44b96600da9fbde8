"""The exam of `why` is passed, in a process of its own.

What thousands of tests leave behind in theirs is no part of it, and takes long to look through.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import TEST_TIMEOUT

EXAM = Path(__file__).with_name("why_exam.py")


@pytest.mark.extended
@pytest.mark.thorough
@pytest.mark.timeout(5 * TEST_TIMEOUT)
def test_the_exam_is_passed() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(EXAM)], env=env, cwd=EXAM.parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
