"""The exam of `inspect`: each kind of thing that fails, in each kind of place; one line each."""

from __future__ import annotations

import asyncio
import builtins
import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import logging
import multiprocessing
import multiprocessing.connection
import queue
import socket
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from inspect import currentframe
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.unit.serialization.samples import LOCK, Holder, Pair, by_value, closing_over, html
from workbench.errors import SerializationError
from workbench.expressions import LONGEST
from workbench.serialization import codec, rebuilding
from workbench.serialization.costs import explain
from workbench.serialization.inspection import MOST_LISTED, MOST_SHOWN, inspect
from workbench.serialization.registry import Custom
from workbench.serialization.roundtrip import MOST_BYTES


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None: ...


class Own(threading.Thread):
    """A class of the user's."""


def raised() -> BaseException:
    try:
        raise ValueError("some")
    except ValueError as error:
        return error


def made_by(module: str, name: str, *arguments: Any) -> Callable[[], Any]:
    return lambda: getattr(pytest.importorskip(module), name)(*arguments)


def shell() -> Any:
    made = InteractiveShell()
    made.restore_sys_module_state()  # it puts a module of its own in the place of `__main__`
    return made


# how it is made, what it is said to be
BOUND: dict[str, tuple[Callable[[], Any], str]] = {
    "lock": (threading.Lock, "A lock"),
    "shared lock": (multiprocessing.Lock, "A lock"),
    "local": (threading.local, "A thread's own data"),
    "queue": (queue.Queue, "A queue"),
    "shared value": (lambda: multiprocessing.Value("i"), "A shared value"),
    "own thread": (Own, "A thread"),
    "processes": (lambda: concurrent.futures.ProcessPoolExecutor(1), "A pool of workers"),
    "program": (lambda: subprocess.Popen(["true"]), "A running process"),
    "future": (concurrent.futures.Future, "A future"),
    "loop": (asyncio.new_event_loop, "An event loop"),
    "shell": (shell, "A kernel"),
    "file": (functools.partial(open, __file__, "rb"), "An open file"),
    "Arrow's file": (made_by("pyarrow", "OSFile", __file__), "An open file"),
    "socket": (socket.socket, "A connection"),
    "client": (made_by("httpx", "Client"), "A connection"),
    "generator": (generator, "A run that is half-way through"),
    "coroutine": (coroutine, "A run that is half-way through"),
    "frame": (currentframe, "A frame"),
    "traceback": (lambda: raised().__traceback__, "A frame"),
    "context": (contextvars.copy_context, "A context variable"),
    "weak reference": (lambda: weakref.ref(Own), "A weak reference"),
    "pointer": (lambda: ctypes.pointer(ctypes.c_int(1)), "An address in memory"),
    "library": (lambda: ctypes.CDLL(None), "A loaded library"),
    "log handler": (logging.StreamHandler, "A log handler"),
}

PLACES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda bad: bad, "obj"),
    (lambda bad: {"a": [1, Holder(x=(2, bad))]}, "obj['a'][1].x[1]"),
    (lambda bad: Holder(f=closing_over(bad)), "closure of obj.f → value"),
]


def closed(thing: Any) -> None:
    """As far as it can be."""
    for name in ("close", "term", "shutdown"):
        if hasattr(thing, name) and type(thing).__module__ != "weakref":
            getattr(thing, name)()
            break
    if isinstance(thing, subprocess.Popen):
        thing.wait()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("number", "kind"), [*enumerate(BOUND)])
def test_what_belongs_to_one_process_is_one_line(number: int, kind: str) -> None:
    main = sys.modules["__main__"]
    make, said = BOUND[kind]
    around, path = PLACES[number % len(PLACES)]
    bad = make()
    found = inspect(around(bad), {}, "obj")
    closed(bad)
    assert sys.modules["__main__"] is main  # that is where other tests have their variables
    assert [f.path for f in found.failures] == [path]
    (failure,) = found.failures
    assert failure.advice.startswith(f"{said} ")
    assert ("await it" in failure.advice) == (kind == "coroutine")
    assert "belongs to one process: " in failure.advice
    assert str(found).count("\n") == 2


def test_an_installed_class_that_keeps_some_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = types.ModuleType("installed_somewhere")
    installed.__file__ = f"{np.__file__.rpartition('numpy')[0]}installed_somewhere.py"
    source = """
class Inner: pass
class Driver:
    def __init__(self, pool, state): self._pool, self._state = pool, state
"""
    exec(source, installed.__dict__)
    monkeypatch.setitem(sys.modules, "installed_somewhere", installed)
    pool: Any = installed.Inner()
    pool.threads, pool.lock = [threading.Thread() for _ in range(9)], LOCK
    driver = installed.Driver(pool, {"run": generator(), "m": types})
    (failure,) = inspect({"driver": driver}, {}, "obj").failures
    assert failure.path == "obj['driver']"
    assert failure.advice == (
        "Driver keeps a thread (`._pool.threads[0]`), which belongs to one process: make it "
        "inside the task."
    )
    users = installed.Driver(None, Holder(lock=LOCK))  # what is the user's can be changed
    (failure,) = inspect(users, {}, "obj").failures
    assert failure.path == "obj._state.lock"


def test_what_is_alike_is_one_line_and_what_is_too_much_is_counted() -> None:
    found = inspect([Holder(x=LOCK) for _ in range(694)], {}, "obj")
    assert len(found.failures) == 694
    assert str(found).splitlines()[0] == "694 parts can't be stored:"
    assert str(found).splitlines()[-1].strip() == "And 693 more are like it, up to obj[693].x."
    assert html(found).count("_thread.lock</td>") == 1
    many = inspect(Holder(**{f"x{i}": LOCK for i in range(60)}), {}, "obj")
    assert str(many).endswith(f"  … and {60 - MOST_LISTED} more: the answer's `failures`.")
    assert f"… and {60 - MOST_LISTED} more" in html(many)
    assert "And one more is like it, up to obj[1]." in str(inspect([LOCK, LOCK], {}, "obj"))


def failing(value: Any) -> SerializationError:
    with pytest.raises(SerializationError) as caught:
        codec.serialize(value, {}, parts=lambda: {"obj": value})
    return caught.value


def test_a_few_failures_are_shown_those_that_are_alike_once_and_all_are_there() -> None:
    error = failing([Holder(**{f"lock{i}": LOCK}) for i in range(23)])
    assert len(error.failures) == 23
    assert str(error).count("(_thread.lock)") == MOST_SHOWN
    assert f"… and {23 - MOST_SHOWN} more" in str(error)
    error = failing([LOCK] * 3 + [Holder(lock=LOCK) for _ in range(20)])
    assert str(error).count("(_thread.lock)") == 2
    assert "And 19 more are like it, up to obj[22].lock." in str(error)


def test_several_parts_are_named() -> None:
    parts = {"x": [LOCK], "y": 1, "z": {"k": LOCK}}
    with pytest.raises(SerializationError, match=r"^x and z can't be serialized, because of:"):
        codec.serialize((*parts.values(),), {}, parts=lambda: parts)


def test_a_long_path_is_cut_in_the_middle() -> None:
    value: Any = BadReduce()
    for n in range(400):
        value = {f"key {n}": value}
    with pytest.raises(SerializationError) as caught:
        codec.deserialize_inline(codec.serialize(value, {}).inline())
    path = str(caught.value).split(" can't be rebuilt")[0]
    assert len(path) <= rebuilding.LONGEST_PATH + 3
    assert path.startswith("object['key 399']['key 398']")
    assert path.endswith("['key 1']['key 0']")


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


@dataclasses.dataclass(frozen=True)
class Place:
    x: int
    name: str = "here"


class Odd:
    """A key that says nothing of itself that could be pasted."""

    def __repr__(self) -> str:
        return "Odd(object at 0x7f)"


class Raises:
    def __repr__(self) -> str:
        raise ValueError


class Nested:
    class Deep(enum.Flag):
        ON = 1


KEYS: dict[str, Any] = {
    "text": "name",
    "long text": "x" * (LONGEST + 1),
    "number": -7,
    "infinity": float("inf"),
    "tuple": (1, ("a", None)),
    "enum": Color.RED,
    "flag": Nested.Deep.ON,
    "frozen set": frozenset({1, "a"}),
    "class": Color,
    "frozen dataclass": Place(3, "there"),
    "date": datetime.date(2020, 1, 31),
    "time": datetime.datetime(2020, 1, 31, 12, tzinfo=datetime.UTC),
    "decimal": decimal.Decimal("1.50"),
    "timestamp": pd.Timestamp("2020-01-31"),
    "numpy's number": np.int64(5),
    "object": Odd(),
    "object that can't be shown": Raises(),
    "function": len,
}


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is defined where a person types."""
    main = types.ModuleType("__main__")
    names = {"Color": Color, "Place": Place, "Nested": Nested, "Pair": Pair, "np": np, "pd": pd}
    main.__dict__.update(names, datetime=datetime, decimal=decimal)
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main.__dict__


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_whole_and_can_be_pasted(name: str, notebook: dict[str, Any]) -> None:
    key, bad = KEYS[name], threading.Lock()
    for obj in (
        {key: bad},
        {**{f"k{i}": [i] for i in range(2345)}, key: bad},
        collections.OrderedDict([("a", [1]), (key, bad)]),
        {"a": {Color.BLUE: Holder(x={key: [0, bad]})}},
    ):
        (failure,) = inspect(obj, {}, "obj", rebuild=False).failures
        assert eval(failure.path, {**notebook, "obj": obj}) is bad
        assert "…" not in failure.path


def test_a_key_is_written_as_people_write_it(notebook: dict[str, Any]) -> None:
    written = {"flag": "Nested.Deep.ON", "frozen dataclass": "Place(x=3, name='there')"}
    for name, text in (written | {"timestamp": "pd.Timestamp('2020-01-31 00:00:00')"}).items():
        (failure,) = inspect({KEYS[name]: LOCK}, {}, "obj").failures
        assert failure.path == f"obj[{text}]"


PASTED: dict[str, Any] = {
    "a key": {1: 2, LOCK: 3},
    "in a key": {(1, LOCK): 3},
    "in a set": {1, "a", LOCK},
    "columns of one name": pd.DataFrame([["a", LOCK]], columns=["x", "x"], dtype=object),
    "a column's long name": pd.DataFrame({"c" * 99: pd.Series([LOCK], dtype=object)}),
    "a column's odd name": pd.DataFrame({Odd(): pd.Series([LOCK], dtype=object)}),
    "a series": pd.Series([1, LOCK], index=["p", "p"], dtype=object),
    "an index": pd.Series([1], index=pd.Index([LOCK], dtype=object)),
    "a field": np.array([(1, LOCK)], dtype=[("a", int), ("b", object)]),
    "default": by_value("def test(a=1, *, b=bad): pass", bad=LOCK),
    "method": by_value("class test:\n def f(self, a=bad): pass", bad=LOCK)(),
    "class method": by_value("class test:\n @classmethod\n def f(c, a=bad): pass", bad=LOCK)(),
    "property": by_value("class test:\n @property\n def p(s, a=bad): pass", bad=LOCK),
    "mapping proxy": types.MappingProxyType({"a": [LOCK]}),
    "default factory": collections.defaultdict(functools.partial(print, LOCK)),
    "enum": by_value("import enum\nclass test(enum.Enum): RED = 1; BLUE = bad", bad=LOCK),
    "member": by_value("import enum\nclass test(enum.Enum): RED = 1; BLUE = bad", bad=LOCK).BLUE,
    "member's part": by_value("import enum\nclass test(enum.Enum): B = (1, bad)", bad=LOCK).B,
}


@pytest.mark.parametrize("name", PASTED)
def test_the_path_is_what_one_would_write(name: str, notebook: dict[str, Any]) -> None:
    obj = PASTED[name]
    (failure,) = inspect(obj, {}, "obj").failures
    assert eval(failure.path, {**notebook, "obj": obj}) is LOCK


class NeedsTwoError(Exception):
    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(f"{a} and {b}")


class BadState(Holder):
    def __setstate__(self, state: Any) -> None:
        raise ValueError("not this state")


class BadNew:
    def __new__(cls, needed: Any) -> BadNew:
        return super().__new__(cls)


class BadReduce:
    def __reduce__(self) -> Any:
        return int, ("no number",)


class WritesInPlace(Holder):
    def __setstate__(self, state: Any) -> None:
        state["array"] *= 2


ONLY_HERE = """
class OnlyHere:
    def __reduce__(self): return "OnlyHere"
test = OnlyHere()
"""
"""Says that it is a name of the notebook's main module."""


class Fragile(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        raise KeyError(key)


NOT_REBUILT: dict[str, tuple[Any, str, str]] = {
    "exception": (NeedsTwoError(1, 2), "missing 1 required positional", "NeedsTwoError.__init__"),
    "state": (BadState(x=1), "ValueError: not this state", "Correct `BadState.__setstate__`"),
    "new": (BadNew(1), "missing 1 required positional argument", "Give BadNew a `__reduce__`"),
    "reduce": (BadReduce(), "invalid literal for int()", "Correct `BadReduce.__reduce__`"),
    "writes": (
        WritesInPlace(array=np.ones(100)),
        "read-only",
        "Correct `WritesInPlace.__setstate__`",
    ),
    "items": (Fragile({"a": 1}), "KeyError: 'a'", "Give Fragile a `__reduce__`"),
}
AROUND: list[tuple[Callable[[Any], Any], str]] = [
    (lambda bad: {"a": [np.ones(9), Holder(x=(2, bad)), Holder(y=bad)]}, "obj['a'][1].x[1]"),
    (lambda bad: pd.DataFrame({"a": [1, 2], "b": ["x", bad]}), "obj['b'].iloc[1]"),
    (lambda bad: Holder(f=closing_over([bad])), "closure of obj.f → value[0]"),
]


@pytest.mark.parametrize(("number", "name"), [*enumerate(NOT_REBUILT)])
def test_what_cannot_be_built_again_is_said_to_be_so(number: int, name: str) -> None:
    bad, why, advice = NOT_REBUILT[name]
    put, path = AROUND[number % len(AROUND)]
    (failure,) = inspect(put(bad), {}, "obj").failures
    assert failure.path == path
    assert failure.type.endswith(type(bad).__name__)
    assert failure.why.startswith("can be pickled, but not built again: ")
    assert why in failure.why
    assert advice in failure.advice


def test_what_is_built_again_is_not_built_here(notebook: dict[str, Any]) -> None:
    """Side effects, and changes of the notebook's own classes, stay in the other process."""
    kind = by_value("class test:\n  n = 0\n  def __setstate__(self, s): test.n += 1; print('x')")
    model = kind()
    model.x, kind.n = 1, 5
    assert inspect(model, {}, "obj") == (True, ())
    assert kind.n == 5


def test_a_name_of_the_main_module_alone_is_not_there_elsewhere(notebook: dict[str, Any]) -> None:
    notebook["OnlyHere"] = only = by_value(ONLY_HERE)
    _, (failure,) = inspect([only], {}, "obj")
    assert (failure.path, "AttributeError" in failure.why) == ("obj[0]", True)
    assert "module that can be imported" in failure.advice


def test_what_is_too_large_to_be_built_again_is_said() -> None:
    large = np.zeros(MOST_BYTES // 8 + 1)
    found = inspect(Holder(x=large), {}, "obj")
    assert found.ok
    assert "Whether it can be built again was not tried: it is too large for that." in str(found)
    assert "not tried" not in str(inspect([large], {}, "obj"))  # it always can


def test_a_deserializer_that_raises_is_blamed_if_it_is_known_where() -> None:
    custom = Custom(Holder, lambda held: 1, _no_deserializer)
    _, (failure,) = inspect([Holder()], {Holder: custom}, "obj")
    assert failure.path == "obj[0]"
    assert failure.advice == "Correct its deserializer, or `deregister_serializer(Holder)`."
    many = ["x" * rebuilding.MOST_BYTES, Holder()]  # more than is read again
    _, (failure,) = inspect(many, {Holder: custom}, "obj")
    assert (failure.path, failure.type) == ("obj", "list")
    assert failure.advice == "It is not known what in it: inspect a part of it."


def _no_deserializer(data: Any) -> Any:
    raise LookupError(data)


def test_a_function_with_a_cache_travels(notebook: dict[str, Any]) -> None:
    source = "import functools\n@functools.lru_cache(3)\ndef test(n): return n and test(n - 1) + 1"
    value = [by_value(source), functools.lru_cache(builtins.len)]
    assert inspect(value, {}, "obj") == (True, ())


class Unbound:
    """As web frameworks' proxies are outside of a request: every look at them raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("working outside of a request")


def test_a_proxy_that_is_of_nothing_is_a_failure_like_others() -> None:
    for value in (Unbound(), Holder(x=[Unbound()])):
        _, (failure,) = inspect(value, {})
        assert failure.type.endswith("Unbound")
        assert "outside of a request" in failure.why
    assert inspect(Unbound(), {}).failures[0].path == "Unbound"
    with pytest.raises(SerializationError, match="outside of a request"):
        explain([Unbound()], {})
