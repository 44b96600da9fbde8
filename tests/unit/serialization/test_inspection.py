"""What fails is found where it is, all of it, and said so that a person can act on it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import itertools
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization.samples import LOCK, Holder, Slotted, by_value, closing_over, html
from workbench.errors import SerializationError
from workbench.serialization import codec
from workbench.serialization.costs import explain
from workbench.serialization.inspection import FLATTEN, inspect
from workbench.serialization.pickler import is_picklable
from workbench.serialization.registry import Custom
from workbench.serialization.tracing import MOST_DEPTH


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """Its state is a list."""

    a: Any
    b: Any


class Listed(Holder):
    """Its state is a list too, of something else."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)

    def __getstate__(self) -> list[Any]:
        return [*self.__dict__.values()]


class Remade:
    """Says by which arguments it is made again."""

    def __init__(self, rows: int, held: Any, columns: int) -> None:
        self.rows, self.held, self.columns = rows, held, columns

    def __reduce__(self) -> Any:
        return Remade, (self.rows, self.held, self.columns)


class Wraps:
    """Wraps a function, and keeps it under a name of its own too."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __reduce__(self) -> Any:
        return Wraps, (self._function,)


FOUND = [
    ({LOCK: 1}, "[*obj][0]"),
    (Holder(callbacks=[1, Holder(logger=Holder(lock=LOCK))]), "obj.callbacks[1].logger.lock"),
    (Slotted(1, LOCK), "obj.b"),
    (Frozen(1, LOCK), "obj.b"),
    (Listed(LOCK), "obj.__getstate__()[0]"),
    (Remade(1, LOCK, 1), "obj.held"),
    (Wraps(by_value("def test(): return lock", lock=LOCK)), "global of obj → lock"),
    (
        by_value("def outer(a, b): return lambda: (a, b)\ntest = outer(1, [lock])", lock=LOCK),
        "closure of obj → b[0]",
    ),
    (closing_over(closing_over(Holder(x=LOCK))), "closure of obj → closure of value → value.x"),
    (functools.partial(print, LOCK), "obj.args[0]"),
    (ValueError("no", LOCK), "obj.args[1]"),
    (pd.DataFrame({"y": [1.0, 2.0], "x": ["a", LOCK]}), "obj['x'].iloc[1]"),
    (np.array([[1, 2], [3, LOCK]], dtype=object), "obj[1, 1]"),
    (pd.DataFrame({("x", 1): [LOCK]}, index=["p"]), "obj[('x', 1)].iloc[0]"),
    (pd.DataFrame({"x": pd.Categorical([LOCK])}), "obj['x']"),
    (Holder(frame=pd.DataFrame({"x": [[1, LOCK]]})), "obj.frame['x'].iloc[0][1]"),
]


@pytest.mark.parametrize(("value", "path"), FOUND, ids=[path for _, path in FOUND])
def test_the_path_leads_to_what_fails(value: Any, path: str) -> None:
    ok, failures = inspect(value, {}, "obj")
    assert not ok
    assert [failure.path for failure in failures] == [path]
    assert failures[0].type == "_thread.lock"
    assert "cannot pickle '_thread.lock' object" in failures[0].why
    assert "__getstate__" in failures[0].advice


def test_what_two_attributes_are_is_called_by_none_of_them() -> None:
    _, failures = inspect(Remade(1, LOCK, LOCK), {}, "obj")
    assert [f.path for f in failures] == ["obj.__reduce__()[1][1]", "obj.__reduce__()[1][2]"]


def test_what_is_fine_is_fine() -> None:
    loop: list[Any] = []
    loop.append(loop)
    frame = pd.DataFrame({"a": [1]})
    for value in (1, loop, frame, [loop, np.zeros(3), Holder(a=1), lambda x: x, frame]):
        assert inspect(value, {}) == (True, ())
    assert str(inspect(1, {}, "x")) == "`x` can be stored."
    assert "<code>int</code> can be stored." in html(inspect(1, {}))
    found = inspect({"<b>": LOCK}, {}, "obj")
    assert "1 part can't be stored:\n  obj['<b>'] (_thread.lock): TypeError" in str(found)
    assert "obj[&#x27;&lt;b&gt;&#x27;]" in html(found)


DEEP: tuple[Callable[[Any], Any], ...] = (
    lambda inner: [inner],
    lambda inner: Holder(a=inner),
    lambda inner: lambda: inner,
)


def test_what_is_deep_can_be_stored_if_it_can() -> None:
    """How deep the pickler goes differs between Pythons; what is said is so on each."""
    for nest, depth in itertools.product(DEEP, (400, 2500)):
        deep: Any = None
        for _ in range(depth):
            deep = nest(deep)
        ok, failures = inspect(deep, {}, "deep")
        assert ok == is_picklable(deep, {})
        assert [failure.advice for failure in failures] == [FLATTEN] * (not ok)
    deep = None
    for _ in range(10 * MOST_DEPTH):
        deep = [deep]
    _, (failure,) = inspect(deep, {}, "deep")
    assert f"more than {MOST_DEPTH} objects deep" in failure.why
    with pytest.raises(SerializationError, match=r"(?s)^obj can't be serialized.*deep.*Flatten"):
        codec.serialize(deep, {}, parts=lambda: {"obj": deep})
    while deep:  # a list in a list in a list ... is also deep to take apart
        deep = deep[0]


class Chained:
    """Is made again from another one, which is made anew each time."""

    def __reduce__(self) -> Any:
        return Chained, (Chained(),)


class Mirrored:
    """Is made again from itself."""

    def __reduce__(self) -> Any:
        return list, ((self,),)


def _returning(returned: Any) -> dict[type, Any]:
    return {Holder: Custom(Holder, returned, lambda data: data)}


@pytest.mark.parametrize(
    ("value", "reducers", "says"),
    [
        (Holder(), _returning(lambda obj: obj), r"registered for Holder returns contains the H"),
        (Holder(), _returning(lambda obj: {"in": [obj]}), "contains the Holder itself"),
        (Holder(), _returning(lambda obj: [Holder()]), "contains another Holder"),
        (Mirrored(), {}, r"Mirrored.__reduce__ returns contains the Mirrored itself"),
    ],
)
def test_what_is_made_from_itself_is_told_so(value: Any, reducers: Any, says: str) -> None:
    """The true cause: nothing is deep here, and nothing could be flattened."""
    _, (failure,) = inspect({"a": [1, value]}, reducers, "obj")
    assert failure.path == "obj['a'][1]"
    assert re.search(says, failure.why)
    assert "objects deep" not in str(failure)
    assert "made from" in failure.advice
    with pytest.raises(SerializationError, match=says):
        codec.serialize(value, reducers)


def test_a_class_that_makes_others_of_itself_is_said_to_be_deep_as_the_chain_could_end() -> None:
    _, (failure,) = inspect(Chained(), {}, "obj")
    assert re.search(r"more than \d{4} objects deep", failure.why)
    assert failure.advice == FLATTEN
    chain = Holder(next=Holder(next=None))
    assert inspect(chain, _returning(lambda obj: [obj.next]), "chain").ok


def test_a_table_that_pandas_keeps_in_another_way_is_walked_like_any_object() -> None:
    class OtherFrame(pd.DataFrame):
        columns = property(lambda self: 1 / 0)

    (failure,) = inspect(OtherFrame({"x": ["a", LOCK]}), {}, "obj").failures
    assert failure.path.startswith("obj._mgr")


def test_a_large_object_is_looked_at_in_part() -> None:
    many = [[i] for i in range(50)]
    assert inspect(many, {}, "obj", most=51).only_first == 0
    assert inspect(many, {}, "obj", most=50).only_first == 50
    assert inspect(many, {}, "obj", most=50) == (True, ())
    found = inspect([LOCK, *many, LOCK], {}, "obj", most=50)
    assert [f.path for f in found.failures] == ["obj[0]"]
    assert "(looked at the first 50 objects)" in str(found)
    assert "(looked at the first 50 objects)" in html(found)
    (beyond,) = inspect([*many, LOCK], {}, "obj", most=50).failures
    assert beyond.path == "obj"
    assert "not among the first 50 objects" in beyond.advice


def test_numbers_are_not_counted_as_objects() -> None:
    value = [*range(5000), *"abc", dict.fromkeys(range(5000), 1.0), LOCK]
    assert [f.path for f in inspect(value, {}, "obj", most=3).failures] == ["obj[5004]"]


class SaysNothing(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError("no text")


class Reduces(Holder):
    """Its ``__reduce__`` returns or raises what it is told to."""

    def __reduce__(self) -> Any:
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned


def test_a_reduce_that_returns_what_it_may_not_is_to_be_corrected() -> None:
    for returned in (Holder, (Holder,), (Holder, "no tuple")):
        _, (failure,) = inspect([Reduces(returned=returned)], {}, "obj")
        assert failure.path == "obj[0]"
        assert failure.advice.startswith("Correct `Reduces.__reduce__`: it returns the class")
    _, (failure,) = inspect(ValueError(LOCK), {}, "obj")
    assert "__reduce__" not in failure.advice


def test_an_error_that_cannot_be_shown() -> None:
    value = [Reduces(returned=SaysNothing())]
    _, (failure,) = inspect(value, {}, "obj")
    assert (failure.path, failure.why) == ("obj[0]", "SaysNothing")
    with pytest.raises(SerializationError, match=r"obj\[0\] .*SaysNothing"):
        codec.serialize(value, {}, parts=lambda: {"obj": value})


def test_recursion_that_is_not_nesting() -> None:
    raising = Reduces(returned=RecursionError("mine"))
    for value in (raising, [raising]):
        with pytest.raises(SerializationError) as caught:
            codec.serialize(value, {})
        assert "mine" in str(caught.value)
        assert "objects deep" not in str(caught.value)


def test_a_needle_in_a_haystack_is_found() -> None:
    """Batches that the C pickler takes are not looked at one by one."""
    hay: Any = {"list": [Holder(n=n) for n in range(20_000)], "dict": {}}
    hay["dict"] = {n: Holder(n=n) for n in range(20_000)}
    hay["list"][17_171].n = LOCK
    hay["dict"][13_131].n = LOCK
    hay["list"][3].n = hay  # leads back to the whole
    _, failures = inspect(hay, {}, "hay", most=15_000)
    assert [f.path for f in failures] == ["hay['list'][17171].n", "hay['dict'][13131].n"]


def test_deep_objects_in_a_thread_with_a_small_stack() -> None:
    """As some systems give to every thread but the main one: an error, never a crash."""
    code = """
import threading
from workbench.serialization.costs import explain
from workbench.serialization.inspection import inspect
class Node: pass
for depth in (200, 1500, 20_000):
    top = node = Node()
    for _ in range(depth):
        node.next = Node(); node = node.next
    node.lock = threading.Lock()
    def look():
        print(len(inspect(top, {}, "top").failures))
    threading.stack_size(512 << 10)
    thread = threading.Thread(target=look); thread.start(); thread.join()
    while hasattr(top, "next"): top = top.next  # also deep to take apart
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (3 * "1\n", 0), done.stderr


WAYS: dict[str, Callable[[Any], Any]] = {
    "inspect": lambda value: inspect(value, {}),
    "explain": lambda value: explain(value, {}),
    "serialize": lambda value: codec.serialize(value, {}),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("lock", [None, LOCK])
def test_what_was_looked_at_dies_at_once(way: Callable[[Any], Any], lock: Any) -> None:
    gc.collect()
    gc.disable()
    try:
        held = Holder(lock=lock)
        seen = weakref.ref(held)
        with contextlib.suppress(SerializationError):
            way([held, closing_over(held)])
        del held
        assert seen() is None
    finally:
        gc.enable()


def test_two_threads_leave_the_recursion_limit_as_it_was() -> None:
    limit = sys.getrecursionlimit()
    both_inside = threading.Barrier(2)

    class Waits:
        def __reduce__(self) -> Any:
            with contextlib.suppress(threading.BrokenBarrierError):
                both_inside.wait(0.2)  # never both: the second waits outside
            return int, ()

    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(lambda n: inspect([Waits() for _ in range(n)], {}), (1, 3)):
            pass
    assert sys.getrecursionlimit() == limit
