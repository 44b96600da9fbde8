"""Style and types, by the tools that know: as tests, so that they run beside the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("check", ["mypy", "ruff check", "ruff format --check"])
def test_it_has_nothing_to_say(check: str) -> None:
    command = [sys.executable, "-m", *check.split()]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("library", ["nbclient", "nbconvert", "nbformat", "sklearn"])
def test_collecting_stays_light(library: str) -> None:
    """Each process of pytest would spend seconds on them: tests import them inside."""
    above = re.compile(rf"^(?:import|from) {library}\b", re.MULTILINE)
    tests = Path(__file__).parent
    assert [path.name for path in tests.rglob("*.py") if above.search(path.read_text())] == []
