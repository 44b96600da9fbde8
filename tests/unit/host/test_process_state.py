"""Parts of a process's state: what an import changes stays, what a task changes goes."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from workbench.host.import_watch import ImportWatch
from workbench.host.interpreter_state import attributes
from workbench.host.saved_state import GONE, SavedState, settings
from workbench.host.seeding import Seeds, seed


def test_settings_each_for_itself() -> None:
    at = {"one": 1, "two": 1, "fails": 1}

    def fails(value: int) -> None:
        raise ValueError(value)

    part = settings(
        lambda: [
            (lambda: at["fails"], fails),
            (lambda: at["one"], lambda value: at.update(one=value)),
            (lambda: at["two"], lambda value: at.update(two=value)),
        ]
    )
    at["one"] = 2  # a task
    before = part.look()
    at["two"] = 2  # an import
    part.learn(before, part.look())
    part.learn({0: 1, 1: 4, 2: 4}, {0: 1, 1: 4, 2: 4})  # nothing changed meanwhile
    at.update(fails=2, two=3)
    part.restore()
    assert at == {"one": 1, "two": 2, "fails": 2}


def test_attributes_also_if_one_was_deleted() -> None:
    module = ModuleType("some")
    vars(module).update(one=1, two=2)
    part = settings(lambda: attributes(module, "one", "two"))
    del module.one
    vars(module)["two"] = 3
    before = part.look()
    assert before == {0: GONE, 1: 3}
    part.learn(before, {0: GONE, 1: 4})
    part.restore()
    assert (vars(module)["one"], vars(module)["two"]) == (1, 4)


def test_entries_each_for_itself() -> None:
    live = {"stays": 1, "changes": 1, "goes": 1}
    part = SavedState(lambda: live, ours=["ours"])
    live.update(changes=2, new=3, ours=4)
    del live["goes"]
    before = part.look()
    live.update(imported=5, new=6)
    part.learn(before, part.look())
    part.restore()
    assert live == {"stays": 1, "changes": 1, "goes": 1, "imported": 5, "new": 6, "ours": 4}


def test_entries_that_cannot_be_compared() -> None:
    first = np.arange(3)
    live: dict[str, Any] = {"array": first}
    part = SavedState(lambda: live)
    live["array"] = np.arange(3)
    part.restore()
    assert live["array"] is first


def test_a_list_keeps_its_order() -> None:
    live, all = list[str](), slice(None)
    for before, after, becomes in (
        ("xab", "yxab", "yab"),  # x is a task's, y an import's
        ("ab", "ab", "ab"),
        ("abx", "abxy", "aby"),
        ("ab", "b", "b"),
        ("b", "yb", "yab"),  # a task took a away
    ):
        live[:] = "ab"
        part = SavedState(
            lambda: {"list": live}, lambda _, key, value: live.__setitem__(all, value)
        )
        part.learn({"list": list(before)}, {"list": list(after)})
        live[:] = list("something else")
        part.restore()
        assert "".join(live) == becomes


def test_generators_nobody_touched_are_left_alone() -> None:
    def is_renewed() -> bool:
        twin.setstate(random.getstate())
        seeds.renew()
        twin.getrandbits(32)  # with which it is looked whether anybody has
        return random.getstate() != twin.getstate()

    state, twin = random.getstate(), random.Random()
    try:
        seeds = Seeds()
        seeds.renew()
        assert not is_renewed()
        random.random()
        assert is_renewed()
        seed(1)
        first = random.random()
        assert is_renewed()
        assert random.random() != random.Random(1).random() == first
    finally:
        random.setstate(state)


def test_the_outermost_import_is_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "outer_one.py").write_text("import inner_one")
    (tmp_path / "inner_one.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []

    @contextmanager
    def around() -> Iterator[None]:
        seen.append("inner_one" in sys.modules)
        yield
        seen.append("inner_one" in sys.modules)

    watch = ImportWatch(around)
    watch.install()
    try:
        outer = importlib.import_module("outer_one")
        importlib.import_module("inner_one")
    finally:
        watch.uninstall()
        monkeypatch.delitem(sys.modules, "outer_one")
        monkeypatch.delitem(sys.modules, "inner_one")
    assert seen == [False, True]
    assert "exec_module" not in vars(outer.__loader__)
    assert watch not in sys.meta_path
