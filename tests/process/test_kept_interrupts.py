"""Ctrl-C while variables are set back: nothing is lost, and nothing half undone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.patience import THOROUGH
from tests.process.test_interrupts import everywhere
from workbench.engine.base import Engine
from workbench.ipython.keeping import Keeping

MAIN = """
import numpy as np, signal
class A: v = 1
class Heard:
    def __setstate__(self, state):
        vars(self).update(state)
        if hasattr(np, 'is_sent'): signal.raise_signal(signal.SIGINT)
heard = Heard(); heard.x = 1
a = A(); a.x = [1]; array = np.zeros(100_000); view = array[3:]; one = two = [1]; gone = [7]; s = 1
def f(): return one[0]
"""

OTHER = """
A.v = 2; a.x.append(2); array[3] = 5; one[0] = 2; new = [1]; del gone; s = 2; heard.x = 2
def f(): return one[0] + 10
"""

LOOK = """[
    A.v, a.x, view[0], two, f(), s, heard.x, 'new' in globals(), 'gone' in globals(),
    type(a) is A and one is two and np.shares_memory(array, view),
]"""


class Notebook:
    """Cells without a shell, of a notebook that keeps its variables; two branches."""

    def __init__(self, engine: Engine) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.running: Any = SimpleNamespace(number=0, is_running=True)
        self.keeping = Keeping(
            self.names, lambda: [n for n in self.names if n[0] != "_"], self.running
        )
        self.keeping.keep(engine)
        self.run(MAIN)
        self.was = {"main": self.look()}
        self.keeping.switch("other")
        self.ends("")
        self.run(OTHER)
        self.was["other"] = self.look()

    def run(self, source: str) -> None:
        self.running.number += 1
        exec(source, self.names)
        self.ends(source)

    def ends(self, source: str) -> None:
        self.keeping.cell_ended(SimpleNamespace(info=SimpleNamespace(raw_cell=source)))

    def look(self) -> str:
        return repr(eval(LOOK, self.names))

    def switch(self) -> None:
        """Go to the other branch."""
        self.keeping.checkout("main" if self.look() == self.was["other"] else "other")

    def check(self) -> None:
        assert self.look() in self.was.values()
        self.ends("")
        for branch, was in self.was.items():
            self.keeping.checkout(branch)
            assert self.look() == was


@pytest.fixture
def notebook(session: Engine, capsys: pytest.CaptureFixture[str]) -> Iterator[Notebook]:
    made = Notebook(session)
    yield made
    made.keeping.stop()
    made.names.clear()


def test_ctrl_c_while_an_object_is_built_comes_when_all_are(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numpy.is_sent", True, raising=False)
    with pytest.raises(KeyboardInterrupt):
        notebook.keeping.checkout("main")
    assert notebook.look() == notebook.was["main"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.extended
@pytest.mark.thorough
@pytest.mark.own_process
def test_ctrl_c_at_any_place(notebook: Notebook) -> None:
    heard: set[object] = set()
    everywhere(notebook.switch, lambda thoroughly: notebook.check(), heard)
    assert len(heard) > 500 or THOROUGH
