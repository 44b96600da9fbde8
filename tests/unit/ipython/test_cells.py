"""What a cell reads and gives back, and what stands on a magic's line: tables, and the errors."""

from __future__ import annotations

import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import CellSyntaxError
from workbench.ipython.arguments import in_one_word
from workbench.ipython.cells import analyse
from workbench.ipython.magics.objects import KeepingMagics
from workbench.ipython.magics.remote import RemoteMagics
from workbench.ipython.magics.sessions import SessionMagics
from workbench.ipython.magics.store import StoringMagics

# source, names it needs, names it perhaps reads, names it gives back (builtins left out)
CELLS = [
    ("a, (b, *c) = v", "v", "", "a b c"),
    ("d[k] = e\nobj.attr = f", "e d k f obj", "", ""),
    ("(n := m) + n", "m", "", "n"),
    ("x: int = z\ny: Note", "z", "Note", "x"),
    ("_private = x\npublic = _private", "x", "", "public"),
    # deletion: the name goes along, so that it can be missed at the end
    ("x = 1\ndel x", "", "x", ""),
    ("x = 1\nif flag:\n    del x", "flag", "x", "x"),
    # imports, functions, classes and helpers don't come back
    ("from math import pi\narea = pi * r ** 2", "r", "", "area"),
    ("from math import *\ny = sin(x)", "", "sin x", "y"),
    (
        "def f(a, b=default, *, c: Note = other) -> Note:\n    return a + g",
        "default other", "Note g", "",
    ),
    (
        "@decorate\nclass A(Base, metaclass=Meta):\n    u = v\n    def m(self): return t",
        "decorate Base Meta", "v t", "",
    ),
    ("with make(p) as (a, b):\n    d = a", "make p", "", "d"),
    ("try:\n    x = f()\nexcept E as e:\n    x = g(e)\nfinally:\n    h()", "h", "f E g", "x"),
    # functions read when they are called
    ("def f():\n    k = 1\n    def g(): return k\n    return g", "", "", ""),
    ("key = lambda q, w=e: q + w + r", "e", "r", "key"),
    ("async def f():\n    global g\n    g = 1\n    return h", "", "h", ""),
    # branches run or don't
    ("if flag:\n    y = 1\nprint(y)", "flag", "y", "y"),
    ("try:\n    x\nexcept NameError:\n    x = 0", "", "x", "x"),
    ("for x in x:\n    pass\nprint(x)", "x", "", ""),
    (
        "match v:\n    case {'a': b, **r} if g(b):\n        s = b, r\n"
        "    case [1, *o]:\n        s = o\n    case K.q as w:\n        s = w",
        "v", "g K", "s",
    ),
    # comprehensions have a scope of their own
    ("[a * b for a in q for b in a if b > c]", "q c", "", ""),
    ("{k: v for k, v in d.items()}\nk", "d k", "", ""),
    ("[last := x for x in xs]\nlast", "xs", "", "last"),
    ("print(f'{x!r:>{w}}')", "x w", "", ""),
    # await
    ("r = await f(x)", "f x", "", "r"),
    ("async with a as b:\n    c = [i async for i in b]", "a", "", "c"),
    # IPython's syntax: the code and the names in its text
    ("%time y = f(x)\nz = y", "f x", "", "y z"),
    ("best = %timeit -n 10 -r3 -o g(a)", "g a", "", "best"),
    ("%%timeit s = k\nb = s + a", "k a", "", ""),
    ("%prun -s cumulative y = f(x)", "f x", "", "y"),
    ("%%capture\n!ls {x}\n%time y = z", "z", "x", "y"),
    ("!ls $a {b.c(d)} $$HOME {{e}} {no python}", "", "a b d", ""),
    ("%%bash --out o --err e\necho $x {y}", "", "", "o e"),
    ("%pip install {package}", "", "package", ""),
    ("a.b?\nc??", "", "a c", ""),
    ("def f():\n    !ls {q}\n    %time w", "", "q w", ""),
    ("%run script.py\nx", "", "x", ""),
    ("s = '''\n!ls {no}\n%cd\n'''\n!ls", "", "", "s"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "required", "optional", "assigned"), CELLS)
def test_names_of_a_cell(source: str, required: str, optional: str, assigned: str) -> None:
    found = analyse(source)
    builtin = vars(builtins)
    assert [name for name in found.required if name not in builtin] == required.split()
    assert {*found.optional} - builtin.keys() == set(optional.split())
    assert found.assigned == tuple(assigned.split()), "in the order of appearance"


NAMES = st.sampled_from(["a", "b", "c", "d"])
STATEMENTS = st.one_of(
    st.builds("{} = {}".format, NAMES, NAMES),
    st.builds("{} += 1".format, NAMES),
    st.builds("if {}:\n    {} = 0".format, NAMES, NAMES),
    st.builds("for {} in []:\n    {} = 0".format, NAMES, NAMES),
    st.builds("del {}".format, NAMES),
    st.builds("[{} for {} in [0]]".format, NAMES, NAMES),
)


@given(st.lists(STATEMENTS, max_size=8), st.sets(NAMES))
def test_a_cell_runs_if_what_it_requires_is_there(statements: list[str], given: set[str]) -> None:
    """The oracle is Python itself: with the required and optional names, no NameError can come
    before one of them is deleted; without a required one, it must.
    """
    source = "\n".join(statements)
    found = analyse(source)
    namespace = dict.fromkeys(given, 0)
    missing: str | None = None
    try:
        exec(source, dict(namespace))
    except NameError as error:
        missing = error.name
    if missing is None:
        assert set(found.required) <= given
    else:
        assert missing in {*found.required, *found.optional} - given or "del" in source


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("x = = 3", 4, "invalid syntax"),
        ("ok = 1\nreturn 3", 5, "outside function"),
        ("if x:\nprint(1)", 5, "indented block"),
        ("\n\n%cd /", 6, "`%cd` would change the worker"),
        ("!ls \\\n  -l\nx = = 1", 6, "invalid syntax"),
        ("%%capture\n\n%get x", 6, "`%get` talks to the session"),
        ("%time %load_ext x", 4, "`%load_ext` would change the worker"),
    ],
)
def test_what_is_not_python_is_refused_with_its_place(source: str, line: int, says: str) -> None:
    with pytest.raises(CellSyntaxError, match=says) as caught:
        analyse(source, first_line=4)
    assert f"line {line} of the cell" in str(caught.value)
    # Python reads all of a cell before it runs any of it, but other cells run up to their magics.
    assert ("Nothing was sent" in str(caught.value)) == ("`" in says)


CODE = """
%%time
!echo a \\
  b
x = !ls \\
  -l
for i in x:
    %time i
here = 1
"""


def test_ipythons_syntax_becomes_python_line_for_line() -> None:
    found = analyse(CODE)
    lines = found.code.splitlines()
    assert found.timed
    assert len(lines) == len(CODE.splitlines())
    assert [n for n, line in enumerate(lines) if line.strip()] == [2, 4, 6, 7, 8]
    assert lines[8] == "here = 1"
    compile(found.code, "<cell>", "exec")
    plain = analyse("x = '''\n%time\n'''\n\n")
    assert (plain.code, plain.timed) == ("", False)


def test_all_our_magics_are_refused() -> None:
    """Each says itself what to do instead."""
    ours = {
        name
        for kind in (KeepingMagics, RemoteMagics, SessionMagics, StoringMagics)
        for names in kind.magics.values()
        for name in names
    }
    assert {"put", "remote", "workbench"} <= ours
    for name in ours:
        with pytest.raises(CellSyntaxError, match=f"`%{name}` "):
            analyse(f"%{name} x")


def test_null_bytes_are_refused() -> None:
    with pytest.raises(CellSyntaxError, match=r"not valid Python|null byte"):
        analyse("x = 1\0")


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("--map hour=range(7, 18)", "--map 'hour=range(7, 18)'"),
        ("-w --map x=f((1, 2), [3, 4]) -o a b", "-w --map 'x=f((1, 2), [3, 4])' -o a b"),
        ("--map=x=[1, 2]", "--map='x=[1, 2]'"),
        ("--map x=d['a b', 1] -w", "--map \"x=d['a b', 1]\" -w"),
        ("--map 'range(7, 9)' -w", "--map 'range(7, 9)' -w"),
        ("--map items -w", "--map items -w"),
        ("--map range(3) -o a b", "--map range(3) -o a b"),
        ("--name map -w", "--name map -w"),
    ],
)
def test_an_expression_with_spaces_in_its_brackets_is_one_word(line: str, becomes: str) -> None:
    assert in_one_word(line, "--map") == becomes
