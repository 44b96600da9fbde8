"""What a cell reads and gives back, and what stands on a magic's line: tables, and the errors."""

from __future__ import annotations

import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import tables
from workbench.errors import CellSyntaxError
from workbench.ipython.arguments import in_one_word
from workbench.ipython.cells import analyse
from workbench.ipython.magics.objects import KeepingMagics
from workbench.ipython.magics.remote import RemoteMagics
from workbench.ipython.magics.sessions import SessionMagics
from workbench.ipython.magics.store import StoringMagics

CELLS = [
    (cell, *names.replace("-", "").split(" | "))
    for rows in tables(__file__).values()
    for names, cell in rows
]


@pytest.mark.parametrize(("source", "required", "optional", "assigned"), CELLS)
def test_names_of_a_cell(source: str, required: str, optional: str, assigned: str) -> None:
    found = analyse(source)
    builtin = vars(builtins)
    assert [name for name in found.required if name not in builtin] == required.split()
    assert {*found.optional} - builtin.keys() == {*optional.split()}
    assert found.assigned == (*assigned.split(),), "in the order of appearance"


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
