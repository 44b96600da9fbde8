"""What a notebook has set, a process that takes it on, and what comes back. In this process."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from workbench.call_site import is_own
from workbench.host.cells import say_what_failed
from workbench.ipython.sent_settings import SentSettings
from workbench.surroundings.interpreter import DIRECTORY, ENVIRON, PATH
from workbench.surroundings.modules import MODULES
from workbench.surroundings.parts import parts
from workbench.surroundings.pickled import opened
from workbench.surroundings.settings import GONE
from workbench.surroundings.surroundings import Made, Surroundings, add, taken_on


@pytest.fixture(autouse=True)
def _surroundings() -> Iterator[None]:
    with Surroundings(part for part in parts().values() if part.name != MODULES) as before:
        yield
        before.restore()


def _sent(sent: SentSettings) -> Any:
    return opened(sent.packed({})[0])


def _run(source: str, sent: dict[str, Any]) -> Made | None:
    """Run code as a cell of a notebook that has sent this."""
    made: list[Made] = []
    with taken_on(sent, made) as failed:
        assert not failed
        exec(source, {})
    return made[0] if made else None


def test_only_what_workers_lack_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOES", "1")
    sys.path[:] = ["", "/else"]
    sent = SentSettings()
    assert not {DIRECTORY, PATH, ENVIRON}.intersection(_sent(sent))
    monkeypatch.setenv("COMES", "2")
    monkeypatch.delenv("GOES")
    assert _sent(sent)[ENVIRON] == {b"COMES": b"2", b"GOES": GONE}
    monkeypatch.chdir(tmp_path)
    assert _sent(sent)[DIRECTORY] == {DIRECTORY: str(tmp_path)}
    assert _sent(sent)[PATH] == {PATH: [str(tmp_path), "/else"]}
    sent.close()


def test_in_anothers_session_nobody_knows_where_the_workers_are() -> None:
    sent = SentSettings(shared=False)
    found = _sent(sent)
    assert found[DIRECTORY] == {DIRECTORY: os.getcwd()}
    assert found[PATH]
    assert ENVIRON not in found
    sent.close()


@pytest.mark.parametrize(
    ("theirs", "becomes"),
    [("one a two b", "one a two b"), ("b", "a b"), ("x y", "a b x y"), ("b a b x", "a b x")],
)
def test_new_entries_of_the_path_keep_their_place(theirs: str, becomes: str) -> None:
    sys.path[:] = ["a", "b"]
    parts()[PATH].take({}, PATH, theirs.split())
    assert sys.path == becomes.split()


def test_libraries_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And the cell's own settings come back, merged with those made meanwhile."""
    for name in (None, "lark"):  # nbformat brings that: it writes to the stderr of its import
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    sent = SentSettings()
    np.set_printoptions(precision=3)
    mpl.rcParams["lines.linewidth"] = 7
    warnings.filterwarnings("ignore", "of the notebook")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s!%(message)s")
    data, lost = sent.packed({})
    assert not lost
    with Surroundings() as before:
        before.restore()
    np.set_printoptions(precision=8)
    mpl.rcParams["lines.linewidth"] = 1
    logging.root.handlers.clear()
    source = (
        "import logging, numpy, matplotlib, warnings\n"
        "print(numpy.array([1 / 3]), matplotlib.rcParams['lines.linewidth'])\n"
        "warnings.warn('of the notebook')\n"
        "logging.info('told')\n"
        "matplotlib.rcParams['lines.linewidth'] = 9\n"
        "warnings.simplefilter('error', UserWarning)"
    )
    with Surroundings() as before:
        made = _run(source, opened(data))
        before.restore()
    said = capsys.readouterr()
    assert said.out == "[0.333] 7.0\n"
    assert said.err == "INFO!told\n"
    assert made is not None
    assert set(opened(made.packed)) == {"matplotlib.rcParams", "warnings.filters"}
    warnings.simplefilter("ignore", ResourceWarning)
    add(opened(made.packed))
    assert mpl.rcParams["lines.linewidth"] == 9
    assert [each[0] for each in warnings.filters[:2]] == ["error", "ignore"]
    sent.close()


def test_what_means_nothing_elsewhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _run("import sys\nsys.excepthook = print", {})
    assert made is not None
    assert (made.names, made.kept) == ((), ("sys.excepthook",))
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(io.StringIO())])
    sent = SentSettings()
    assert "only this process has" in sent.packed({})[1]["logging"]
    assert not sent.packed({})[1]  # said once
    sent.close()


OWN = "level, items, big = 1, [], b''\nclass Kind:\n    made = 0\n"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A module of one's own."""
    (tmp_path / "own_module.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_module")
    del sys.modules["own_module"]


def test_a_module_of_ones_own_is_as_in_the_notebook(own: Any) -> None:
    """A cell's changes come back; on the worker they are forgotten, but for what is too large."""
    items = own.items
    own.others = others = [1]
    source = "import own_module as own\nown.level += 1\nown.items.append(own.level)\n"
    source += "own.others = [2]\n"
    made = _run(
        source + "own.Kind.made += 1\nown.big = bytes(2_000_000)\nown.new = 1",
        {MODULES: {"own_module.level": 5, "own_module.items": [3]}},
    )
    assert made is not None
    assert made.kept == ("own_module.big",)
    assert (own.level, own.items, own.Kind.made, len(own.big)) == (1, [], 0, 2_000_000)
    assert not hasattr(own, "new")
    own.items.append(4)  # the notebook, meanwhile
    add(opened(made.packed))
    assert (own.level, own.Kind.made, own.new) == (6, 1, 1)
    assert own.items == [4, 6]
    assert own.items is items
    assert (own.others, others) == ([2], [1])  # assigned, not changed


def test_a_module_that_is_imported_later_has_it_too(own: Any) -> None:
    del sys.modules["own_module"]
    made: list[Made] = []
    with taken_on({MODULES: {"own_module.level": 5}}, made):
        assert importlib.import_module("own_module").level == 5
    assert not made


def test_what_is_set_in_modules_is_told_once(own: Any) -> None:
    sent = SentSettings()
    assert sent.newly_set() == []
    own.level = 2
    own.items.append(1)
    assert sent.newly_set() == ["own_module.items", "own_module.level"]
    assert sent.newly_set() == []
    assert sent.of_modules()[id(own.items)] == "own_module.items"
    assert _sent(sent)[MODULES] == {"own_module.items": [1], "own_module.level": 2}
    sent.close()


def test_nothing_is_kept_of_what_modules_had(own: Any) -> None:
    """Else a table that a module has replaced would stay in memory."""
    own.big, own.items = np.zeros(3), [np.zeros(3)]
    sent = SentSettings()
    old = [weakref.ref(own.big), weakref.ref(own.items[0])]
    own.big, own.items[0] = None, 1
    assert [each() for each in old] == [None, None]
    assert sent.newly_set() == ["own_module.big", "own_module.items"]
    sent.close()


def test_a_directory_that_is_not_there_is_said_once_a_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker may be on another machine: it stays where it is."""
    monkeypatch.chdir(tmp_path)
    gone = str(tmp_path / "gone")
    sent = {DIRECTORY: {DIRECTORY: gone}}
    for name in ("one", "one", "two"):
        with taken_on(sent, []) as failed:
            say_what_failed(failed, sent, f"{tmp_path} cell {name}")
    assert os.getcwd() == str(tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert f"The notebook is in {gone}, and this worker, on " in said[0]
    assert f"the cell runs in {tmp_path}" in said[0]


def test_what_is_installed_is_no_module_of_ones_own() -> None:
    """Wherever that is: for a user, by a distribution, in an environment below this one."""
    assert is_own("/home/ada/work/theirs.py")
    assert not is_own("/home/ada/.local/lib/python3.12/site-packages/theirs.py")
    assert not is_own("/srv/python3/dist-packages/theirs/part.py")
