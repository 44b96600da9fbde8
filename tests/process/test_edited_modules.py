"""Modules that are edited while the workers are warm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from workbench.engines.base import Engine


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


@pytest.fixture
def reloading(project: Project, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """One worker, so that it is always the same, and warm."""
    monkeypatch.setenv("WORKBENCH_RELOAD", "1")
    return wb.init(workers=1, memory="64MB")


def test_an_edit_reaches_a_warm_worker(reloading: Engine, project: Project) -> None:
    project.edit("def answer(): return 1\nclass Thing:\n    def name(self): return 'old'")

    @wb.remote
    def asks() -> tuple[int, str, int]:
        import edited_helpers

        return edited_helpers.answer(), edited_helpers.Thing().name(), os.getpid()

    @wb.remote
    def asks_directly() -> int:
        from edited_helpers import answer

        return int(answer())

    first = wb.get(asks.remote())
    assert wb.get(asks_directly.remote()) == 1
    project.edit("def answer(): return 2\nclass Thing:\n    def name(self): return 'new'")
    assert wb.get(asks.remote()) == (2, "new", first[2])
    assert wb.get(asks_directly.remote()) == 2


def test_a_function_of_the_module_itself_is_the_new_one(
    reloading: Engine, project: Project
) -> None:
    project.edit("def answer(): return 1")
    import edited_helpers  # type: ignore[import-not-found]

    remote = wb.remote(edited_helpers.answer)  # travels by its name
    assert wb.get(remote.remote()) == 1
    project.edit("def answer(): return 2")
    assert wb.get(remote.remote()) == 2


def test_an_edit_that_cannot_be_read_says_so_and_the_old_one_stays(
    reloading: Engine, project: Project
) -> None:
    shown: list[str] = []
    reloading.output = lambda output: shown.append(output.data.decode())
    project.edit("def answer(): return 1")

    @wb.remote
    def asks() -> int:
        import edited_helpers

        return int(edited_helpers.answer())

    assert wb.get(asks.remote()) == 1
    project.edit("def answer(: return 2")
    assert wb.get(asks.remote()) == 1
    assert "SyntaxError" in "".join(shown)
    project.edit("def answer(): return 3")
    assert wb.get(asks.remote()) == 3


def test_without_the_setting_nothing_is_loaded_again(project: Project) -> None:
    session = wb.init(workers=1, memory="64MB")
    project.edit("def answer(): return 1")

    @wb.remote
    def asks() -> int:
        import edited_helpers

        return int(edited_helpers.answer())

    assert wb.get([asks.remote() for _ in range(8)]) == [1] * 8
    project.edit("def answer(): return 2")
    assert set(wb.get([asks.remote() for _ in range(8)])) == {1}
    session.refresh()  # as a notebook's cell does with %autoreload
    assert set(wb.get([asks.remote() for _ in range(8)])) == {2}
    project.edit("def answer(): return 3")
    session.refresh()
    assert set(wb.get([asks.remote() for _ in range(8)])) == {3}


def test_a_worker_that_comes_later_sees_the_first_edit_too(project: Project) -> None:
    """The module is imported by its first task: what it was like then, it has to know."""
    session = wb.init(workers=1, memory="64MB")
    project.edit("def answer(): return 1")

    @wb.remote(max_retries=0)
    def asks(dies: bool = False) -> int:
        import edited_helpers

        if dies:
            os._exit(0)
        return int(edited_helpers.answer())

    session.refresh()
    with pytest.raises(wb.errors.WorkerCrashedError):
        wb.get(asks.remote(True))
    assert wb.get(asks.remote()) == 1
    project.edit("def answer(): return 2")
    session.refresh()
    assert wb.get(asks.remote()) == 2
