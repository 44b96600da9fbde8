"""Surveys from variables to what they hold: the plainest paths, and nothing kept."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.client import survey as walk
from workbench.client.survey import main_variables, survey
from workbench.engines.base import ROOT_NOTE


class Target:
    pass


TARGET = Target()


def held_by(thing: Any) -> tuple[int | None, str]:
    return (1, "ref") if thing is TARGET else (None, "")


def paths(**roots: Any) -> list[str]:
    return [path for path, _ in survey(held_by, roots).get(1, ())]


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def closing_over() -> Any:
    target = TARGET

    def inner() -> Any:
        return target

    return inner


def test_what_is_found_does_not_hang_on_who_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others had the processor for a second between any two looks at the clock."""
    clock = SimpleNamespace(monotonic=map(float, count()).__next__, thread_time=lambda: 0.0)
    monkeypatch.setattr(walk, "time", clock)
    assert paths(many=[[n] for n in range(walk.MOST_INSIDE - 1)] + [[TARGET]]) == [
        f"many[{walk.MOST_INSIDE - 1}][0]"
    ]


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
        (Slotted([TARGET]), "x"),
        (closing_over(), "target in x()"),
        (partial(print, TARGET), "x"),
        (CYCLE, "x[0]"),
        (np.array([None, TARGET], dtype=object), "x[1]"),
        (np.array([[None, TARGET]], dtype=object), "x"),
        (pd.Series([TARGET]), "x"),
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


def test_a_survey_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_NODES", 100)
    assert paths(first=TARGET, many=list(range(200)), last=[[TARGET]]) == ["first"]


def test_functions_that_run_and_the_last_error_hold_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = TARGET
    here = (
        f"local{ROOT_NOTE} in test_functions_that_run_and_the_last_error_hold_things(), which runs"
    )
    assert main_variables()[here] is TARGET
    del local

    def fails(kept: Any) -> None:
        raise ValueError(kept)

    try:
        fails(TARGET)
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert main_variables()[f"kept{ROOT_NOTE} in fails(), kept by sys.last_value"] is TARGET
    looked: list[Any] = []

    def other_thread(argument: Any) -> None:
        looked.append(main_variables()[f"argument{ROOT_NOTE} in other_thread(), which runs"])

    thread = threading.Thread(target=other_thread, args=(TARGET,))
    thread.start()
    thread.join()
    assert looked == [TARGET]


def test_looking_keeps_nothing() -> None:
    thing = Holder()
    watch = weakref.ref(thing)
    survey(held_by, main_variables())
    del thing
    assert watch() is None


def test_nor_do_the_frames_that_asked_stay() -> None:
    def asks() -> weakref.ref[Holder]:
        thing = Holder()
        survey(held_by, main_variables())
        return weakref.ref(thing)

    gc.disable()  # a cycle would go with the next collection, whenever that is
    try:
        assert [asks()() for _ in range(3)] == [None] * 3
    finally:
        gc.enable()
