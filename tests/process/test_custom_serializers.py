"""Custom serializers through a whole session: registered in one process, known in all."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import workbench as wb
from tests.process.gates import Gate
from tests.process.processes import Processes
from workbench.engine.base import Engine
from workbench.errors import SerializationError, WorkerCrashedError


def held_class() -> Any:
    """As a cell defines it: with a lock that can't be pickled."""

    class Held:
        def __init__(self, x: Any) -> None:
            self.x = x
            self.lock = threading.Lock()

    return Held


def test_a_serializer_of_a_cells_class(session: Engine, gate: Gate, processes: Processes) -> None:
    """That workers know it is told of every engine by `tests/contract/engine/test_values.py`."""
    Held = held_class()
    with pytest.raises(TypeError, match=r"x\.lock|Held\.lock"):
        wb.put(Held(1))
    wb.deregister_serializer(Held)  # nothing happens
    for _ in range(2):  # idempotent
        wb.register_serializer(Held, serializer=lambda held: held.x, deserializer=Held)

    @wb.remote
    def make(x: Any) -> Any:
        return [Held(x), Held(x)]

    first = wb.get(make.remote(2))
    assert [held.x for held in first] == [2, 2]
    assert type(first[0]) is Held  # the notebook's own class, not another of its name

    stopped = wb.remote(gate.stop).options(max_retries=0).remote()
    os.kill(gate.next().pid, signal.SIGKILL)  # its successor has heard of the serializer too
    with pytest.raises(WorkerCrashedError):
        wb.get(stopped)
    assert all(h[0].x == 3 for h in wb.get([make.remote(3) for _ in range(20)]))

    wb.register_serializer(Held, serializer=lambda held: held.x, deserializer=lambda x: ("new", x))
    assert wb.get(wb.put(Held(4))) == ("new", 4)  # replaced at once
    assert wb.get(make.remote(5)) == [("new", 5)] * 2
    wb.deregister_serializer(Held)
    with pytest.raises(TypeError, match="lock"):
        wb.put(Held(6))
    with pytest.raises(TypeError, match=r"the result of .*make.*lock"):
        wb.get(make.remote(6))


def test_registering_leaves_plain_cloudpickle_alone(session: Engine) -> None:
    class Plain:
        x = 1

    before = cloudpickle.dumps(Plain()), dict(cloudpickle.CloudPickler.dispatch_table)
    wb.register_serializer(Plain, serializer=lambda plain: 2, deserializer=lambda data: data)
    assert wb.get(wb.put(Plain())) == 2
    after = cloudpickle.dumps(Plain()), dict(cloudpickle.CloudPickler.dispatch_table)
    assert after == before


def test_a_registered_class_comes_before_the_fast_paths(session: Engine) -> None:
    wb.register_serializer(
        np.ndarray, serializer=lambda a: a.tolist(), deserializer=lambda data: ("list", data)
    )
    assert wb.get(wb.put(np.arange(3))) == ("list", [0, 1, 2])
    assert wb.get(wb.put([np.arange(2)])) == [("list", [0, 1])]
    wb.deregister_serializer(np.ndarray)
    assert isinstance(wb.get(wb.put(np.arange(3))), np.ndarray)


def test_what_cannot_be_registered(session: Engine) -> None:
    wrong: list[tuple[Any, Any, Any, str]] = [
        (list, str, str, "takes it apart by itself"),
        (wb.ObjectRef, str, str, "has its own serializer"),
        (Path, "text", str, "serializer must be a function"),
        (Path, str, None, "deserializer must be a function"),
    ]
    for cls, serializer, deserializer, text in wrong:
        with pytest.raises(TypeError, match=text):
            wb.register_serializer(cls, serializer=serializer, deserializer=deserializer)


def test_a_serializer_that_cannot_be_sent(session: Engine) -> None:
    lock, Held = threading.Lock(), held_class()
    with pytest.raises(SerializationError, match="closure of serializer → lock"):
        wb.register_serializer(Held, serializer=lambda held: lock, deserializer=Held)
    with pytest.raises(SerializationError, match="cannot pickle"):
        wb.put(Held(1))  # it isn't half registered
