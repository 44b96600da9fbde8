"""What comes back of a notebook's variables as it was, and what is said to come back otherwise."""

from __future__ import annotations

import pytest

from tests.process.test_checkpoints import Notebook, notebook

__all__ = ["notebook"]

SHARED = {
    "an exception's cause": (
        "e = ValueError(1); c = e.__cause__ = KeyError(e)",
        "e.__cause__ is c",
    ),
    "a read-only view": ("d = {}; v = type.__dict__.__class__(d)", "d.update(a=1) or v['a'] == 1"),
    "a variable of functions": (
        "def f():\n    n = 1\n    def up(): nonlocal n; n += 1\n    return up\n"
        "up = f(); cells = [*up.__closure__]",
        "up() or cells[0].cell_contents == 2",
    ),
    "an element of an array": ("a = np.zeros(2, 'i4, i4'); e = a[1]", "np.shares_memory(a, e)"),
    "an array of a class": (
        "class A(np.ndarray): pass\na = np.zeros(9).view(A); v = [a[1:]]",
        "np.shares_memory(a, v[0])",
    ),
    "an array of texts": ("a = np.char.array(['a', 'b']); v = a[1:]", "np.shares_memory(a, v)"),
    "a read-only array": (
        "a = np.zeros(9); v = a[1:]; v.flags.writeable = False",
        "v.flags.writeable",
    ),
    "a cached function": ("import functools\nf = functools.cache(lambda: 1); g = [f]", "f is g[0]"),
}


@pytest.mark.parametrize("what", SHARED)
def test_what_is_shared_comes_back_shared(notebook: Notebook, what: str) -> None:
    made, shown = SHARED[what]
    then = notebook.run(made)
    was = notebook.value(shown)
    notebook.open(then)
    assert notebook.value(shown) is was


ALTERED = {
    "of objects": ("a = np.array([1, 'x'], object); v = [a[1:]]", {"a": "memory", "v": "memory"}),
    "of pandas": (
        "import pandas as pd; x = pd.DataFrame({'x': [1.5, 2]}); a = x.to_numpy(); s = x['x']",
        {"a": "memory", "x": "memory", "s": "memory"},
    ),
    "pandas alone": ("import pandas as pd; x = pd.DataFrame({'x': [1, 2]}); s = x['x']", {}),
    "an exception": ("e = None\ntry: 1 / 0\nexcept Exception as a: e = a", {"e": "traceback"}),
    "a file": (
        "import tempfile as t\nwith t.TemporaryFile() as f: a = np.memmap(f, 'u1', shape=9)\ndel f",
        {"a": "file"},
    ),
    "a namespace": ("n = {'x': 1}; exec('def f(): return x', n)\nf = n['f']", {"n": "globals"}),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_comes_back_otherwise_is_known(notebook: Notebook, what: str) -> None:
    made, expected = ALTERED[what]
    assert notebook.run(made).altered == expected


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
