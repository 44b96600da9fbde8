"""A worker is as clean for the next task as for the first, whatever the one before did to it; and
has modules as they are, though they are edited while it is warm."""

from __future__ import annotations

import decimal
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.tables import tables
from workbench.engine.base import CellListener, Engine

IMPORTS = """
import asyncio, builtins, contextvars, decimal, gc, io, locale, logging, multiprocessing, os, random
import resource, signal, socket, sys, threading, time, tracemalloc, warnings
import numpy as np
"""

SPOILED = {name: fields for name, *fields in tables(__file__)[""]}
"""By what it is: see test_clean_workers.txt."""


def evaluate(code: str, expression: str = "None") -> str:
    names: dict[str, Any] = {}
    exec(IMPORTS + code, names)
    return repr(eval(expression, names))


# Two functions: short tasks of one alone may follow each other without a look at the process.
do = wb.remote(max_retries=0)(evaluate)
see = wb.remote(max_retries=0)(lambda code, expression: evaluate(code, expression))


@pytest.fixture
def worker(runtime: str) -> None:
    """A session of one worker."""
    wb.init(workers=1)


def stays(what: str) -> list[str]:
    """Of what a task changes, what the next one sees."""
    spoil, look, *more = SPOILED[what]
    imports = "".join(more)
    first = wb.get(see.remote(imports, look))
    found = []
    if wb.get(do.remote(f"{imports}\n{spoil}", look)) == first:
        found.append(f"{what} isn't changed")
    if wb.get(see.remote(imports, look)) != first:
        found.append(f"{what} stays")
    return found


RARE = ("backend", "sklearn")

if len(os.sched_getaffinity(0)) == 1:  # there is no other
    del SPOILED["processors"]


def test_what_a_task_changes_goes_with_it(worker: None) -> None:
    assert [each for what in SPOILED if what not in RARE for each in stays(what)] == []


@pytest.mark.extended
def test_what_is_changed_of_rarer_libraries_goes_too(worker: None) -> None:
    assert [each for what in RARE for each in stays(what)] == []


def test_a_worker_is_cleaned_while_nobody_needs_it_also_after_an_error(worker: None) -> None:
    pid, there = eval(wb.get(see.remote("", "os.getpid(), os.getcwd()")))
    for end in ("", "; raise LookupError('on purpose')", "; sys.exit('on purpose')"):
        wb.wait([do.remote(f"os.chdir('/'){end}")])
        assert eventually(lambda: os.readlink(f"/proc/{pid}/cwd") == there)


SETTER = """
import logging, os, sys, warnings
warnings.filterwarnings("ignore", message="of the library")
logging.getLogger("library").setLevel(logging.DEBUG)
os.environ["LIBRARY"] = "1"
sys.path.append("/library")
import matplotlib
matplotlib.rcParams["font.size"] = 33
"""


def test_what_an_import_changes_stays(worker: None, tmp_path: Path) -> None:
    """And what its task changed before and after it goes."""
    (tmp_path / "setter.py").write_text(SETTER)
    changes = (
        f"sys.path.insert(0, {str(tmp_path)!r}); warnings.simplefilter('error')\n"
        "os.environ['MINE'] = '1'\n"
        "import setter, matplotlib; matplotlib.rcParams['font.size'] = 99"
    )
    wb.get(do.remote(changes))
    look = (
        "any('of the library' in str(f[1]) for f in warnings.filters), "
        "logging.getLogger('library').level, os.getenv('LIBRARY'), '/library' in sys.path, "
        "matplotlib.rcParams['font.size'], "
        f"warnings.filters[0][0] == 'error', os.getenv('MINE'), {str(tmp_path)!r} in sys.path"
    )
    there = wb.get(see.remote("import matplotlib", look))
    assert there == "(True, 10, '1', True, 33.0, False, None, False)"


def test_an_import_that_fails_leaves_the_next_ones_alone(worker: None, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError) as raised:
        wb.get(do.remote(f"sys.path.insert(0, {str(tmp_path)!r})\nimport broken"))
    assert "import_watch" not in str(raised.value)
    assert wb.get(see.remote("import colorsys, inspect", "bool(inspect.getsource(colorsys))"))


def test_each_task_draws_its_own_numbers(session: Engine) -> None:
    """In one worker after the other, and in several at a time."""
    draw = "random.random(), np.random.rand()"
    seeded = "random.seed(1); np.random.seed(1)"
    assert wb.get(do.remote(seeded, draw)) == wb.get(do.remote(seeded, draw))
    drawn = []
    for _ in range(5):
        wb.get(do.remote(seeded))
        drawn.append(wb.get(see.remote("", draw)))
    drawn += wb.get([see.remote("", draw) for _ in range(10)])
    python, numpy = zip(*map(eval, drawn), strict=True)
    assert len(set(python)) == len(set(numpy)) == len(drawn)


def test_an_actors_process_is_its_own(session: Engine) -> None:
    def spoil(_: object) -> None:
        os.environ["KEPT"] = "1"
        decimal.getcontext().prec = 3
        random.seed(1)

    call = wb.remote(type("Keeper", (), {})).remote().__ray_call__
    wb.get(call.remote(spoil))
    look = call.remote(lambda _: (os.getenv("KEPT"), decimal.getcontext().prec, random.random()))
    assert wb.get(look) == ("1", 3, random.Random(1).random())


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
