"""Surveys from variables to what they hold: the plainest paths, and nothing kept."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from workbench.client.survey import MOST_INSIDE, MOST_NODES, main_variables, survey
from workbench.engine.base import ROOT_NOTE


class Target:
    pass


TARGET = Target()


def held_by(thing: Any) -> tuple[int | None, str]:
    return (1, "ref") if thing is TARGET else (None, "")


def paths(**roots: Any) -> list[str]:
    return [path for path, _ in survey(held_by, roots, lambda: 0.0).get(1, ())]


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def closing_over() -> Any:
    target = TARGET

    def inner() -> Any:
        return target

    return inner


CYCLE: list[Any] = [TARGET]
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (TARGET, "x"),
        ([0, TARGET], "x[1]"),
        ({"a": {1: TARGET}}, "x['a'][1]"),
        ({TARGET: 1}, "a key of x"),
        ({TARGET}, "an element of x"),
        (deque([TARGET]), "x[0]"),
        (Holder(a=[TARGET]), "x.a[0]"),
        (Holder(_private=[TARGET]), "x"),  # nobody types that
        (closing_over(), "target in x()"),
        (partial(print, TARGET), "x"),
        (CYCLE, "x[0]"),
        (np.array([None, TARGET], dtype=object), "x[1]"),
        (np.array([[None, TARGET]], dtype=object), "x"),
    ],
)
def test_a_path_leads_to_it(value: Any, path: str) -> None:
    assert paths(x=value, other=[1, "TARGET"]) == [path]


def test_the_shortest_path_comes_first_and_each_is_told_once() -> None:
    inner = [TARGET]
    assert paths(deep=[[inner]], flat=inner) == ["flat[0]"]
    assert paths(a=TARGET, b=TARGET) == ["a", "b"]


def test_what_a_module_has_is_no_part_of_a_function_that_uses_it() -> None:
    assert paths(f=closing_over, g=paths) == []


def test_what_cannot_be_looked_at_is_passed_over() -> None:
    class Hostile:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no")

    assert paths(bad=Hostile(), good=[TARGET]) == ["good[0]"]
    proxy = weakref.proxy(Holder())
    assert paths(proxy=proxy, held=TARGET) == ["held"]


def test_a_survey_ends_early() -> None:
    """After so many things, and when its time is up; it looks into the beginning of a list."""
    many = [[0] * MOST_INSIDE] * 2
    assert paths(first=TARGET, many=many, last=[[TARGET]]) == ["first", "last[0][0]"]
    many = [list(range(MOST_INSIDE)) for _ in range(1 + MOST_NODES // MOST_INSIDE)]
    assert paths(first=TARGET, many=many, last=[[TARGET]]) == ["first"]
    roots = {"first": TARGET, "last": [[*range(200)], [[TARGET]]]}
    held = survey(held_by, roots, map(float, count()).__next__)
    assert held[1] == (("first", "ref"),)
    assert paths(x=[*range(MOST_INSIDE - 1), TARGET]) == [f"x[{MOST_INSIDE - 1}]"]
    assert paths(x=[*range(MOST_INSIDE), TARGET]) == []


def test_functions_that_run_hold_things_and_so_does_the_last_error() -> None:
    local = TARGET
    here = f"in {test_functions_that_run_hold_things_and_so_does_the_last_error.__name__}()"
    assert main_variables()[f"local{ROOT_NOTE} {here}, which runs"] is TARGET
    del local

    def fails(kept: Any) -> None:
        raise ValueError(kept)

    try:
        fails(TARGET)
    except ValueError as error:
        sys.last_value = error
    said = "in fails(), kept by the traceback of the last error"
    assert main_variables()[f"kept{ROOT_NOTE} {said}"] is TARGET
    del sys.last_value
    looked: list[Any] = []

    def other_thread(x: Any) -> None:
        looked.append(main_variables()[f"x{ROOT_NOTE} in other_thread(), which runs in thread 'A'"])

    thread = threading.Thread(target=other_thread, args=(TARGET,), name="A")
    thread.start()
    thread.join()
    assert looked == [TARGET]


def test_looking_keeps_nothing() -> None:
    def asks() -> weakref.ref[Holder]:
        thing = Holder()  # in the frame that asks
        survey(held_by, main_variables())
        return weakref.ref(thing)

    gc.disable()  # a cycle would go with the next collection, whenever that is
    try:
        assert [asks()() for _ in range(3)] == [None] * 3
    finally:
        gc.enable()
