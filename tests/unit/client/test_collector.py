"""What the garbage collector is asked: nothing that a module written in C keeps for itself."""

from __future__ import annotations

import _asyncio
import asyncio
import gc
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from workbench.client.collector import but_tuples, referents_of
from workbench.client.referrer_search import find_referrers
from workbench.client.search_budget import SearchBudget
from workbench.client.survey import survey


class Own(ModuleType):
    pass


async def _awaited() -> None:
    """Leaves an object that asyncio's C code uses again."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


def test_a_module_refers_to_its_namespace_alone() -> None:
    own = Own("own")
    asyncio.run(_awaited())
    for _ in range(3):
        assert [id(each) for each in referents_of([_asyncio])] == [id(vars(_asyncio))]
    assert [id(each) for each in referents_of([own, [1000.5]])][-1] == id(vars(own))
    assert 1000.5 in referents_of([own, [1000.5]])


def test_a_module_that_waits_to_be_used_is_not_loaded(tmp_path: Any) -> None:
    (tmp_path / "wb_lazy.py").write_text("raise RuntimeError('loaded')")
    spec = importlib.util.spec_from_file_location("wb_lazy", tmp_path / "wb_lazy.py")
    assert spec is not None
    assert spec.loader is not None
    lazy = importlib.util.module_from_spec(spec)
    importlib.util.LazyLoader(spec.loader).exec_module(lazy)
    assert len(referents_of([lazy])) == 1


def test_no_look_asks_the_collector_for_what_modules_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    get_referents = gc.get_referents

    def watched(*things: Any) -> list[Any]:
        asked.update(each.__name__ for each in things if issubclass(type(each), ModuleType))
        return get_referents(*things)

    monkeypatch.setattr(gc, "get_referents", watched)
    target = object()
    monkeypatch.setitem(vars(sys.modules["__main__"]), "kept", [target])
    places, _, _ = find_referrers({"ref": target}, {}, SearchBudget())
    assert "kept[0]" in [place.path for place in places]
    held = survey(lambda thing: (1 if thing is target else None, "ref"), {"m": gc, "x": [target]})
    assert held[1] == (("x[0]", "ref"),)
    assert not asked


def test_what_the_collector_finds_has_no_tuples_and_not_itself() -> None:
    found = but_tuples(gc.get_objects, None)
    assert len(found) > 1000
    assert not [each for each in found if type(each) is tuple]
    assert not any(each is found for each in found)
