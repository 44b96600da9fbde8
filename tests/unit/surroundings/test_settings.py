"""Settings of a process: what an import changes stays, what a task changes goes."""

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

from workbench.surroundings.import_watch import ImportWatch
from workbench.surroundings.interpreter import attributes
from workbench.surroundings.seeding import Seeds, seed
from workbench.surroundings.settings import Part, Setting, merged, settings
from workbench.surroundings.surroundings import Surroundings


def _part(at: dict[str, Any], **options: Any) -> Part:
    return Part("part", lambda: at, **options)


def _surroundings(part: Part) -> Surroundings:
    made = Surroundings([part])
    made.close()
    return made


@contextmanager
def _imports(surroundings: Surroundings) -> Iterator[None]:
    """What happens in this context is the work of an import."""
    with surroundings._learning():
        yield


def test_settings_each_for_itself() -> None:
    at = {"one": 1, "two": 1, "fails": 1}

    def fails(value: int) -> None:
        raise ValueError(value)

    part = settings(
        "part",
        lambda: [
            Setting("fails", lambda: at["fails"], fails),
            Setting("one", lambda: at["one"], lambda value: at.update(one=value)),
            Setting("two", lambda: at["two"], lambda value: at.update(two=value)),
        ],
    )
    surroundings = _surroundings(part)
    at["one"] = 2  # a task
    with _imports(surroundings):
        at["two"] = 2
    at.update(fails=2, two=3)
    surroundings.restore()
    assert at == {"one": 1, "two": 2, "fails": 2}
    assert part.words(["one", "two"]) == ["one", "two"]


def test_attributes_also_if_one_was_deleted() -> None:
    module = ModuleType("some")
    vars(module).update(one=1, two=2)
    surroundings = _surroundings(settings("part", lambda: attributes(module, "one", "two")))
    del module.one
    vars(module)["two"] = 3
    with _imports(surroundings):
        vars(module)["two"] = 4
    surroundings.restore()
    assert (vars(module)["one"], vars(module)["two"]) == (1, 4)


def test_entries_each_for_itself() -> None:
    live = {"stays": 1, "changes": 1, "goes": 1}
    surroundings = _surroundings(_part(live, ours=["ours"]))
    live.update(changes=2, new=3, ours=4)
    del live["goes"]
    with _imports(surroundings):
        live.update(imported=5, new=6)
    surroundings.restore()
    assert live == {"stays": 1, "changes": 1, "goes": 1, "imported": 5, "new": 6, "ours": 4}


def test_entries_that_cannot_be_compared() -> None:
    first = np.arange(3)
    live: dict[str, Any] = {"array": first}
    surroundings = _surroundings(_part(live))
    live["array"] = np.arange(3)
    surroundings.restore()
    assert live["array"] is first


@pytest.mark.parametrize(
    ("before", "after", "becomes"),
    [
        ("xab", "yxab", "yab"),  # x is a task's, y an import's
        ("ab", "ab", "ab"),
        ("abx", "abxy", "aby"),
        ("ab", "b", "b"),
        ("b", "yb", "yab"),  # a task took a away
    ],
)
def test_a_list_keeps_its_order(before: str, after: str, becomes: str) -> None:
    assert "".join(merged(list("ab"), list(before), list(after))) == becomes


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
