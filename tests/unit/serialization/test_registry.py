"""Custom serializers by class: registered here, heard of from elsewhere, taken back."""

from __future__ import annotations

import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.patience import TIMEOUT
from workbench.errors import SerializationError
from workbench.serialization.registry import Custom, Registry, rebuild


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
    registry.queue_registration(7, b"thing")
    registry.queue_registration(8, b"other")
    assert registry.reducers() == {Thing: THING, Other: KNOWN[b"other"]}
    registry.queue_registration(7, b"again")
    assert registry.reducers()[Thing] is KNOWN[b"again"]
    registry.queue_registration(7, b"other")  # the number means another class now
    assert registry.reducers() == {Other: KNOWN[b"other"]}
    for number in (7, 8, 9):
        registry.queue_registration(number, b"")
    assert registry.reducers() == {}


def test_of_two_for_one_class_the_later_counts_and_the_other_stays(registry: Registry) -> None:
    registry.queue_registration(7, b"thing")
    registry.queue_registration(8, b"again")
    assert registry.reducers()[Thing] is KNOWN[b"again"]
    registry.queue_registration(8, b"")
    assert registry.reducers()[Thing] is THING
    registry.add(KNOWN[b"again"], itertools.count(9).__next__)
    assert registry.reducers()[Thing] is KNOWN[b"again"]
    registry.remove(Thing)
    assert registry.reducers()[Thing] is THING


def test_nobody_serializes_without_what_is_being_loaded() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slowly(payload: bytes) -> Custom:
        registry.reducers()  # loading may serialize something itself
        entered.set()
        assert go_on.wait(TIMEOUT)
        return KNOWN[payload]

    registry = Registry(slowly)
    registry.queue_registration(7, b"thing")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(registry.reducers)
        assert entered.wait(TIMEOUT)
        second = threads.submit(registry.reducers)
        registry.queue_registration(7, b"other")  # never waits
        go_on.set()
        assert first.result(TIMEOUT) == second.result(TIMEOUT) == {Other: KNOWN[b"other"]}


def test_what_ctrl_c_ends_is_loaded_later() -> None:
    interruptions = [KeyboardInterrupt]

    def load_at_second_try(payload: bytes) -> Custom:
        if interruptions:
            raise interruptions.pop()
        return KNOWN[payload]

    registry = Registry(load_at_second_try)
    registry.queue_registration(7, b"thing")
    with pytest.raises(KeyboardInterrupt):
        registry.reducers()
    assert registry.reducers() == {Thing: THING}


def test_what_cannot_be_loaded_is_remembered(registry: Registry) -> None:
    registry.queue_registration(7, b"elsewhere")
    registry.queue_registration(8, b"thing")
    assert registry.reducers() == {Thing: THING}
    assert [*registry.broken.values()] == ["no module elsewhere"]
    registry.queue_registration(7, b"other")
    assert Other in registry.reducers()
    assert not registry.broken


@pytest.mark.parametrize("broken", [KeyError("k"), pickle.PicklingError("p")])
def test_errors_of_the_two_functions_name_the_class(broken: Exception) -> None:
    def fail(_: Any) -> Any:
        raise broken

    function, arguments = THING(Thing(3))
    assert function is rebuild
    assert function(*arguments).x == 3
    with pytest.raises(SerializationError, match="serializer registered for Thing") as caught:
        Custom(Thing, fail, str)(Thing(1))
    assert caught.value.__cause__ is broken
    with pytest.raises(SerializationError, match="deserializer registered for Thing") as caught:
        rebuild("Thing", fail, 1)
    assert caught.value.__cause__ is broken


def test_only_classes_that_ask(registry: Registry) -> None:
    for cls in (int, list, dict, type(None), type, type(load), "Thing"):
        with pytest.raises(TypeError, match=r"can't have a serializer|takes a class"):
            Custom(cls, str, str)
