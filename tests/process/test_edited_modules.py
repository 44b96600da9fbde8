"""Modules that are edited while the workers are warm."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from workbench.engine.base import CellListener


class Project:
    """A directory on ``sys.path`` with one module. Each edit is a second newer than the last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._time = 1_700_000_000

    def edit(self, text: str, module: str = "edited_helpers") -> None:
        path = self.directory / f"{module}.py"
        path.write_text(text)
        self._time += 1
        os.utime(path, (self._time, self._time))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Project(tmp_path)
    for name in [name for name in sys.modules if name.startswith("edited_")]:
        del sys.modules[name]


def test_an_edit_reaches_a_warm_worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker, so that it is always the same."""
    monkeypatch.setenv("WORKBENCH_RELOAD", "1")
    session = wb.init(workers=1, memory="64MB")
    shown: list[str] = []
    session.listener = CellListener(lambda output: shown.append(output.data.decode()))
    project.edit("def answer(): return 1\nclass Thing:\n    def name(self): return 'old'")
    import edited_helpers  # type: ignore[import-not-found]

    by_name = wb.remote(edited_helpers.answer)  # a function of the module itself

    @wb.remote
    def asks() -> tuple[int, str, int]:
        import edited_helpers

        return edited_helpers.answer(), edited_helpers.Thing().name(), os.getpid()

    first = wb.get(asks.remote())
    assert wb.get(by_name.remote()) == 1
    project.edit("def answer(): return 2\nclass Thing:\n    def name(self): return 'new'")
    assert wb.get(asks.remote()) == (2, "new", first[2])
    assert wb.get(by_name.remote()) == 2
    project.edit("def answer(: return 3")  # the old one stays
    assert wb.get(by_name.remote()) == 2
    assert "SyntaxError" in "".join(shown)
    project.edit("def answer(): return 4")
    assert wb.get(by_name.remote()) == 4


def test_without_the_setting_nothing_is_loaded_again_but_when_asked_for(project: Project) -> None:
    session = wb.init(workers=1, memory="64MB")
    project.edit("def answer(): return 1")

    @wb.remote(max_retries=0)
    def asks(dies: bool = False) -> int:
        import edited_helpers

        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return int(edited_helpers.answer())

    assert wb.get(asks.remote()) == 1
    project.edit("def answer(): return 2")
    assert wb.get(asks.remote()) == 1
    session.refresh()  # as a notebook's cell does with %autoreload
    assert wb.get(asks.remote()) == 2
    # A worker that comes later imports it with its first task: what it was like then, it knows.
    with pytest.raises(wb.errors.WorkerCrashedError):
        wb.get(asks.remote(True))
    assert wb.get(asks.remote()) == 2
    project.edit("def answer(): return 3")
    session.refresh()
    assert wb.get(asks.remote()) == 3
