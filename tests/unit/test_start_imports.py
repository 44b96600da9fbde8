"""What an import brings along: in the notebook, the server, the process that forks workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = {
    "workbench.serialization.inspection", "workbench.serialization.roundtrip",
    "workbench.serialization.tracing",
}  # fmt: skip
"""What only words errors and lists."""

VIEWS = {"matplotlib", "ipywidgets", "anywidget", "pandas"}

HEAVY = {"numpy", "IPython", "cloudpickle", "asyncio", "tqdm", *VIEWS, *LATE}

ABSENT = {
    "workbench": HEAVY | {"msgspec"},
    "workbench.cli": HEAVY | {"argparse"},
    "workbench.server.__main__": HEAVY | {"pickle"},
    # Before they start another process, that has as much to import:
    "workbench.server.forkserver_start": {"msgspec", "inspect"},
    "workbench.ipython.loading, workbench.engines.local, workbench.api.lifecycle": HEAVY
    | {"tomllib", "workbench.widgets", "workbench.ipython.extension"},
    "workbench.api.gathering, workbench.report.html": HEAVY,
    "workbench.plots.axes, workbench.cli.sessions": HEAVY,
    "workbench.worker.preload": VIEWS | LATE | {"IPython", "workbench.report.facts"},
    "workbench.client.driver": VIEWS | LATE | {"IPython", "workbench.report.facts"},
    "workbench.ipython.extension": VIEWS | LATE | {"workbench.widgets"},
}


def run(code: str) -> list[str]:
    """What a fresh Python prints, by line."""
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("modules", ABSENT)
def test_importing_stays_light(modules: str) -> None:
    imported = run(f"import sys, {modules}; print(*sys.modules, sep='\\n')")
    assert "workbench" in imported
    assert not ABSENT[modules] & set(imported)


def test_what_workers_import_late_is_ours_alone() -> None:
    """A file beside the notebook, called as a module of the standard library, can't come there."""
    late = ", ".join([*LATE, "workbench.report.facts"])
    found = run(
        "import sys, workbench.worker.preload\nbefore = set(sys.modules)\n"
        f"import {late}\nprint(*set(sys.modules) - before, sep='\\n')"
    )
    assert found
    assert [each for each in found if not each.startswith("workbench.")] == []
