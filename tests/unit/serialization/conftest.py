"""Patience for the process in which `inspect` tries to build a value again."""

from __future__ import annotations

import pytest

from tests.patience import TIMEOUT
from workbench.serialization import roundtrip


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports what it needs, on a machine that may be busy."""
    monkeypatch.setattr(roundtrip, "MOST_SECONDS", TIMEOUT)
