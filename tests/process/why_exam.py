"""What keeps an object, wherever Python can hide it; and that what `why` says to do lets go of it.

Each puzzle hides a ref, or an array that shows the object, in a person's own namespace. The answer
must name the keeper, and each line of code that it gives is run, in its order; then the store must
be empty, and all else still work.
"""

from __future__ import annotations

import gc
import importlib
import sys
import tracemalloc
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.leaks import eventually
from tests.patience import THOROUGH
from workbench.client.value_holders import holders_of
from workbench.engine.base import Engine
from workbench.engine.queries import Reasons
from workbench.report.why import Why, why_value
from workbench.report.why import why as in_words

REF, VIEW = "ref", "view"

MAIN = vars(sys.modules["__main__"])


class Puzzle(NamedTuple):
    """One of why_puzzles.txt, which says what stands there."""

    name: str
    kinds: tuple[str, ...]
    hide: str
    told: str
    then: str


def _puzzles() -> Iterator[Puzzle]:
    text = Path(__file__).with_name("why_puzzles.txt").read_text()
    for block in text.split("\n== ")[1:]:
        title, *lines = block.partition("\n\n# --")[0].strip().splitlines()
        name, _, kind = title.rstrip(")").partition(" (")
        (told,) = [line[3:] for line in lines if line.startswith("-> ")]
        hide = [line for line in lines if not line.startswith(("-> ", ">> "))]
        then = [line[3:] for line in lines if line.startswith(">> ")]
        kinds = (kind,) if kind else (REF, VIEW)
        yield Puzzle(name, kinds, "\n".join(hide), told, "\n".join(then))


LIBRARIES = ("ipywidgets", "matplotlib.pyplot", "pandas", "pyarrow")


def _libraries(puzzle: Puzzle) -> list[str]:
    """What it imports. ``make slow`` has them all there for each, as a kernel has: searches take
    twice as long among what they make."""
    return [name for name in LIBRARIES if THOROUGH or name.partition(".")[0] in puzzle.hide]


PUZZLES = sorted(_puzzles(), key=_libraries)


@pytest.fixture
def namespace() -> Iterator[dict[str, Any]]:
    """The main module's, where a person's code runs, and a module of his own; as it was after."""
    helpers = sys.modules["helpers"] = types.ModuleType("helpers")
    before = dict(MAIN)
    gc.disable()  # rings stay until the code of the answer; what is left, the session collects
    try:
        yield MAIN
    finally:
        for name in MAIN.keys() - before.keys():
            del MAIN[name]
        vars(helpers).clear()
        del sys.modules["helpers"]
        sys.__dict__.pop("last_value", None)
        sys.__dict__.pop("last_traceback", None)
        gc.enable()


def hidden(session: Engine, puzzle: Puzzle, kind: str, namespace: dict[str, Any]) -> int:
    """Hide a new object; its id."""
    ref, _ = session.put(np.arange(1 << 16), "")
    namespace["_given"] = [ref if kind == REF else session.get([ref], None, False)[0]]
    exec(puzzle.hide.replace("GIVE", "_given.pop()"), namespace)
    return ref.id


def asked(session: Engine, id: int) -> Why:
    account = session.ask(Reasons(id, deep=True))  # however long a busy machine takes
    assert account is not None
    return in_words(account, "")


def is_gone(session: Engine, id: int) -> bool:
    return all(record.id != id for record in session.snapshot().objects)


EXAM = [
    pytest.param(puzzle, kind, id=f"{puzzle.name}-{kind}")
    for number, puzzle in enumerate(PUZZLES)
    # In every run one of a puzzle's kinds, by turns; ``make slow`` has all.
    for kind in (puzzle.kinds if THOROUGH else puzzle.kinds[number % len(puzzle.kinds) :][:1])
]


@pytest.mark.filterwarnings("ignore:coroutine 'g' was never awaited")
@pytest.mark.parametrize(("puzzle", "kind"), EXAM)
def test_the_keeper_is_named_and_lets_go(
    puzzle: Puzzle, kind: str, session: Engine, namespace: dict[str, Any]
) -> None:
    for library in _libraries(puzzle):  # what imports leave behind is no part of a puzzle
        importlib.import_module(library)
    id = hidden(session, puzzle, kind, namespace)
    why = asked(session, id)
    assert why.complete
    assert puzzle.told in str(why)
    codes = [reason.code for reason in why.reasons if reason.code]
    assert codes or puzzle.then, str(why)
    for code in codes:
        exec(code, namespace)
    exec(puzzle.then, namespace)
    if not codes and kind == REF:
        ends = ("free(", "runs", "timer", "context", "one thread")
        assert any(word in str(why) for word in ends)
    if kind == VIEW:
        assert "free(" not in str(why)
    assert eventually(lambda: is_gone(session, id)), f"{why}\n\n{session.ask(Reasons(id))}"


@pytest.mark.filterwarnings("ignore:coroutine 'g' was never awaited")
@pytest.mark.parametrize("puzzle", [p for p in PUZZLES if VIEW in p.kinds], ids=lambda p: p.name)
def test_a_value_that_is_not_stored_frees_what_is_said(
    puzzle: Puzzle, session: Engine, namespace: dict[str, Any]
) -> None:
    """The first holder alone, and then all of them; a tracer agrees within 15 %."""
    for library in _libraries(puzzle):
        importlib.import_module(library)
    tracemalloc.start()
    try:
        value = np.ones(1 << 18)
        size, watch = value.nbytes, weakref.ref(value)
        namespace["_given"] = [value]
        del value
        exec(puzzle.hide.replace("GIVE", "_given.pop()"), namespace)
        account = holders_of([watch()], deep=True)
        why = why_value(account, "x")
        assert why.complete
        assert puzzle.told in str(why)
        before, freed = tracemalloc.get_traced_memory()[0], []
        for code in [reason.code for reason in why.reasons if reason.code]:
            exec(code, namespace)
            freed.append(before - tracemalloc.get_traced_memory()[0])
        exec(puzzle.then, namespace)
        assert eventually(lambda: watch() is None), str(why)
        freed.append(before - tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert freed[-1] == pytest.approx(account.together, abs=0.15 * size), str(why)
    if not puzzle.then:
        assert freed[0] == pytest.approx(account.holders[0].frees, abs=0.15 * size), str(why)
