"""What comes back of a notebook's variables as it was, and what is said to come back otherwise."""

from __future__ import annotations

import re

import pytest

from tests.process.test_checkpoints import Notebook, notebook
from tests.tables import tables

__all__ = ["notebook"]

CASES = tables(__file__)


@pytest.mark.parametrize(("what", "made", "shown"), CASES["shared"])
def test_what_is_shared_comes_back_shared(
    notebook: Notebook, what: str, made: str, shown: str
) -> None:
    then = notebook.run(made)
    was = notebook.value(shown)
    notebook.open(then)
    assert notebook.value(shown) is was


@pytest.mark.parametrize(("what", "made", "expected"), CASES["altered"])
def test_what_comes_back_otherwise_is_known(
    notebook: Notebook, what: str, made: str, expected: str
) -> None:
    assert notebook.run(made).altered == dict(re.findall(r"(\w+) (\w+)", expected))


CLASSES = """
import abc, enum
class Old: pass
class New: pass
class Made(Old): pass
class Abstract(abc.ABC): pass
class Both(enum.Enum):
    X = Y = 1
made, new = Made(), New()
"""


def test_what_a_cell_does_to_classes_is_undone(notebook: Notebook) -> None:
    then = notebook.run(CLASSES)
    now = notebook.run(
        "Made.__bases__ = (Old, New); Abstract.register(New); Both.more = 1; Both.X.note = [1]\n"
        "assert isinstance(new, Abstract)"
    )
    notebook.open(then)
    assert notebook.value("not isinstance(made, New) and not isinstance(new, Abstract)")
    assert notebook.value("not hasattr(Both, 'more') and not hasattr(Both.X, 'note')")
    notebook.open(now)
    assert notebook.value("isinstance(made, New) and isinstance(new, Abstract)")
    assert notebook.value("(Both.more, Both.Y.note) == (1, [1])")
