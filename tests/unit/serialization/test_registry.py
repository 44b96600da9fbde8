"""Custom serializers by class: registered here, heard of from elsewhere, taken back."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest

from workbench.errors import SerializationError
from workbench.serialization.registry import Custom, Registry, check, rebuild


class Thing:
    def __init__(self, x: Any) -> None:
        self.x = x


class Other(Thing): ...


THING = Custom(Thing, lambda thing: thing.x, Thing)
KNOWN = {b"thing": THING, b"again": Custom(Thing, str, str), b"other": Custom(Other, str, str)}


def load(payload: bytes) -> Custom:
    if payload not in KNOWN:
        raise ImportError(f"no module {payload.decode()}")
    return KNOWN[payload]


@pytest.fixture
def registry() -> Registry:
    return Registry(load)


def test_there_and_back() -> None:
    function, arguments = THING(Thing(3))
    assert function is rebuild
    assert function(*arguments).x == 3


def test_one_number_a_class(registry: Registry) -> None:
    numbers = itertools.count(1)
    assert registry.add(THING, numbers.__next__) == 1
    assert registry.add(Custom(Other, str, str), numbers.__next__) == 2
    again = Custom(Thing, str, str)
    assert registry.add(again, numbers.__next__) == 1
    assert registry.reducers()[Thing] is again
    assert registry.remove(Thing) == 1
    assert Thing not in registry.reducers()
    assert registry.remove(Thing) is None
    assert registry.remove(int) is None


def test_what_others_say_is_loaded_when_somebody_serializes(registry: Registry) -> None:
    registry.tell(7, b"thing")
    registry.tell(8, b"other")
    assert registry.reducers() == {Thing: THING, Other: KNOWN[b"other"]}
    registry.tell(7, b"again")
    assert registry.reducers()[Thing] is KNOWN[b"again"]
    registry.tell(7, b"other")  # the number means another class now
    assert registry.reducers() == {Other: KNOWN[b"other"]}
    registry.tell(7, b"")
    registry.tell(8, b"")
    registry.tell(9, b"")
    assert registry.reducers() == {}


def test_what_cannot_be_loaded_is_remembered(registry: Registry) -> None:
    registry.tell(7, b"elsewhere")
    registry.tell(8, b"thing")
    assert registry.reducers() == {Thing: THING}
    assert registry.broken == ["no module elsewhere"]
    registry.tell(7, b"other")
    assert Other in registry.reducers()
    assert registry.broken == []


@pytest.mark.parametrize("broken", [KeyError("k"), pickle.PicklingError("p")])
def test_errors_of_the_two_functions_name_the_class(broken: Exception) -> None:
    def fail(_: Any) -> Any:
        raise broken

    with pytest.raises(SerializationError, match="serializer registered for Thing") as caught:
        Custom(Thing, fail, str)(Thing(1))
    assert caught.value.__cause__ is broken
    with pytest.raises(SerializationError, match="deserializer registered for Thing") as caught:
        rebuild("Thing", fail, 1)
    assert caught.value.__cause__ is broken


def test_only_classes_that_ask(registry: Registry) -> None:
    assert check(Thing, str, str) == Custom(Thing, str, str)
    for cls in (int, list, dict, type(None), type, type(load), "Thing"):
        with pytest.raises(TypeError, match=r"can't have a serializer|takes a class"):
            check(cls, str, str)
