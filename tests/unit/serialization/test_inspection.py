"""What fails is found where it is, all of it; and what finds it writes what our pickler does."""

from __future__ import annotations

import functools
import io
import pickle
import sqlite3
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.serialization.inspection import inspect
from workbench.serialization.pickler import Pickler
from workbench.serialization.tracing import MOST_DEPTH, TracingPickler

LOCK = threading.Lock()


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("fine", "lock")

    def __init__(self) -> None:
        self.fine, self.lock = 1, threading.Lock()


def closing_over(value: Any) -> Any:
    def inner() -> Any:
        return value

    return inner


def by_value(source: str, **names: Any) -> Any:
    """A function as notebooks have them: of no module that anybody can import."""
    namespace = {"__name__": "__main__", **names}
    exec(source, namespace)
    return namespace["test"]


FOUND = [
    ([1, [LOCK]], "obj[1][0]"),
    ({"a": {3: LOCK}}, "obj['a'][3]"),
    ({LOCK: 1}, "obj key <unlocked _thread.lock object…"),
    ((1, LOCK), "obj[1]"),
    (Holder(callbacks=[1, Holder(logger=Holder(lock=LOCK))]), "obj.callbacks[1].logger.lock"),
    (Slotted(), "obj.lock"),
    (closing_over(LOCK), "obj → closure variable 'value'"),
    (by_value("def test(): return lock", lock=LOCK), "obj → global 'lock'"),
    (functools.partial(print, LOCK), "obj.args[0]"),
    (functools.partial(print, end=LOCK), "obj.keywords['end']"),
    (Holder(lock=LOCK).__init__, "obj.__self__.lock"),
    (ValueError("no", LOCK), "obj.args[1]"),
    (np.array([1, LOCK], dtype=object), "obj[1]"),
    (pd.DataFrame({"y": [1.0, 2.0], "x": ["a", LOCK]}), "obj column 'x' row 1"),
    (pd.Series(["a", LOCK], index=["p", "q"]), "obj row 'q'"),
    (Holder(frame=pd.DataFrame({"x": [[1, LOCK]]})), "obj.frame column 'x' row 0[1]"),
]


@pytest.mark.parametrize(("value", "path"), FOUND, ids=[path for _, path in FOUND])
def test_the_path_leads_to_what_fails(value: Any, path: str) -> None:
    ok, failures = inspect(value, {}, "obj")
    assert not ok
    assert [failure.path for failure in failures] == [path]
    assert failures[0].type == "_thread.lock"
    assert "cannot pickle '_thread.lock' object" in failures[0].why
    assert "__getstate__" in failures[0].advice


def test_all_failures_are_found() -> None:
    value = Holder(
        one=LOCK, two=(i for i in range(3)), three=sqlite3.connect(":memory:"), four=[LOCK, open]
    )
    _, failures = inspect(value, {}, "model")
    value.three.close()
    assert {f.path: f.type for f in failures} == {
        "model.one": "_thread.lock",
        "model.two": "generator",
        "model.three": "sqlite3.Connection",
        "model.four[0]": "_thread.lock",
    }
    assert "Connect inside the task" in next(f for f in failures if "three" in f.path).advice


def test_what_is_fine_is_fine() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (1, loop, [np.zeros(3)] * 3, Holder(a=1), lambda x: x, pd.DataFrame({"a": [1]})):
        assert inspect(value, {}) == (True, ())
    assert str(inspect(1, {})) == "It can be serialized."


def test_a_very_deep_object_is_named_not_crashed_on() -> None:
    deep: list[Any] = []
    for _ in range(10 * MOST_DEPTH):
        deep = [deep]
    _, (failure,) = inspect(deep, {}, "deep")
    assert f"more than {MOST_DEPTH} objects deep" in failure.why
    while deep:  # a list in a list in a list ... is also deep to take apart
        deep = deep[0]


def test_registered_types_are_asked_for_their_reducer() -> None:
    lock_type = type(LOCK)
    assert inspect([LOCK], {lock_type: lambda lock: (threading.Lock, ())}).ok


def test_it_can_be_read() -> None:
    found = inspect({"<b>": LOCK}, {}, "obj")
    assert "1 part can't be serialized:\n  obj['<b>'] (_thread.lock): TypeError" in str(found)
    assert "obj[&#x27;&lt;b&gt;&#x27;]" in found._repr_html_()
    assert "<script" not in found._repr_html_()


SAME = [
    1,
    [1, "a", None],
    {"k": (1.5, b"x")},
    Holder(a=[1], b={2}),
    lambda x: x + 1,
    np.arange(4.0),
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
    functools.partial(print, 1),
]


@pytest.mark.parametrize("value", SAME, ids=lambda v: type(v).__name__)
def test_it_pickles_as_the_real_one_does(value: Any) -> None:
    file, buffers = io.BytesIO(), []
    TracingPickler({}, "value", file=file, buffer_callback=buffers.append).trace(value)
    real, real_buffers = io.BytesIO(), []
    Pickler(real, {}, real_buffers.append).dump(value)
    assert [b.raw().tobytes() for b in buffers] == [b.raw().tobytes() for b in real_buffers]
    again = pickle.loads(file.getvalue(), buffers=buffers)
    assert type(again) is type(value)
