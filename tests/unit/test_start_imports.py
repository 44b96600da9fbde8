"""What a session's start imports, in the notebook and in the process that forks workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = [
    "workbench.serialization.inspection", "workbench.serialization.roundtrip",
    "workbench.serialization.tracing", "workbench.report.facts",
]  # fmt: skip
"""What only words errors and lists."""


def run(code: str, *flags: str) -> list[str]:
    """What a fresh Python prints, by line."""
    command = [sys.executable, "-P", *flags, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


IMPORTED = "; import sys; print(*sys.modules, sep='\\n')"


@pytest.mark.parametrize("module", ["workbench.worker.preload", "workbench.client.driver"])
def test_what_words_errors_is_not_imported(module: str) -> None:
    imported = run(f"import {module}{IMPORTED}")
    assert "workbench.serialization.codec" in imported
    assert set(LATE).isdisjoint(imported)


def test_the_session_is_started_without_numpy_and_views() -> None:
    imported = run(f"import workbench.ipython.loading, workbench.engines.local{IMPORTED}")
    assert "workbench.config" in imported
    assert {"numpy", "tomllib", "workbench.widgets", "IPython"}.isdisjoint(imported)


def test_the_magics_bring_no_plots_and_widgets() -> None:
    imported = run(f"import workbench.ipython.extension{IMPORTED}")
    assert {"matplotlib", "ipywidgets", "anywidget", "pandas"}.isdisjoint(imported)


def test_what_workers_import_late_is_ours_alone() -> None:
    """A file beside the notebook, called as a module of the standard library, can't come there."""
    late = "; ".join(f"import {each}" for each in LATE)
    found = run(
        "import sys, workbench.worker.preload\nbefore = set(sys.modules)\n"
        f"{late}\nprint(*set(sys.modules) - before, sep='\\n')"
    )
    assert found
    assert [each for each in found if not each.startswith("workbench.")] == []
