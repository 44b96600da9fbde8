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
import io
import logging
import mmap
import multiprocessing
import multiprocessing.connection
import pathlib
import queue
import random
import select
import selectors
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import types
import uuid
import weakref
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.patience import TIMEOUT
from tests.unit.serialization.samples import LOCK, Holder, Pair, Slotted, by_value, closing_over
from workbench.errors import SerializationError
from workbench.serialization import roundtrip
from workbench.serialization.costs import explain
from workbench.serialization.expressions import LONGEST
from workbench.serialization.inspection import MOST_LISTED, inspect
from workbench.serialization.registry import Custom


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process imports what it needs, on a machine that may be busy."""
    monkeypatch.setattr(roundtrip, "MOST_SECONDS", TIMEOUT)


# -- what belongs to one process ------------------------------------------------------------------


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


def zmq_socket() -> Any:
    zmq = pytest.importorskip("zmq")
    return zmq.Context().socket(zmq.PUB)


def arrow_file() -> Any:
    return pytest.importorskip("pyarrow").OSFile(__file__)


def http_client() -> Any:
    return pytest.importorskip("httpx").Client()


def shell() -> Any:
    made = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    made.restore_sys_module_state()  # it puts a module of its own in the place of `__main__`
    return made


def future() -> Any:
    loop = asyncio.new_event_loop()
    made = loop.create_future()
    loop.close()
    return made


# how it is made, what it is said to be
BOUND: dict[str, tuple[Callable[[], Any], str]] = {
    "lock": (threading.Lock, "A lock"),
    "rlock": (threading.RLock, "A lock"),
    "condition": (threading.Condition, "A lock"),
    "event": (threading.Event, "A lock"),
    "semaphore": (threading.Semaphore, "A lock"),
    "barrier": (lambda: threading.Barrier(2), "A lock"),
    "shared lock": (multiprocessing.Lock, "A lock"),
    "local": (threading.local, "A thread's own data"),
    "queue": (queue.Queue, "A queue"),
    "simple queue": (queue.SimpleQueue, "A queue"),
    "shared queue": (multiprocessing.SimpleQueue, "A queue"),
    "shared value": (lambda: multiprocessing.Value("i"), "A shared value"),
    "thread": (threading.Thread, "A thread"),
    "timer": (lambda: threading.Timer(9, print), "A thread"),
    "own thread": (Own, "A thread"),
    "threads": (lambda: concurrent.futures.ThreadPoolExecutor(1), "A pool of workers"),
    "processes": (lambda: concurrent.futures.ProcessPoolExecutor(1), "A pool of workers"),
    "process": (multiprocessing.Process, "A running process"),
    "program": (lambda: subprocess.Popen(["true"]), "A running process"),
    "future": (concurrent.futures.Future, "A future"),
    "asyncio's future": (future, "A future"),
    "loop": (asyncio.new_event_loop, "An event loop"),
    "shell": (shell, "A kernel"),
    "file": (functools.partial(open, __file__, "rb"), "An open file"),
    "file to write": (functools.partial(open, "/dev/null", "w"), "An open file"),
    "temporary file": (tempfile.NamedTemporaryFile, "An open file"),
    "map": (lambda: mmap.mmap(-1, 9), "An open file"),
    "archive": (lambda: zipfile.ZipFile(io.BytesIO(), "w"), "An open file"),
    "Arrow's file": (arrow_file, "An open file"),
    "socket": (socket.socket, "A connection"),
    "pipe": (lambda: multiprocessing.Pipe()[0], "A connection"),
    "ssl": (ssl.create_default_context, "A connection"),
    "database": (lambda: sqlite3.connect(":memory:"), "A connection"),
    "cursor": (lambda: sqlite3.connect(":memory:").cursor(), "A connection"),
    "zmq": (zmq_socket, "A connection"),
    "client": (http_client, "A connection"),
    "epoll": (select.epoll, "A list of open descriptors"),
    "selector": (selectors.DefaultSelector, "A list of open descriptors"),
    "generator": (generator, "A run that is half-way through"),
    "coroutine": (coroutine, "A run that is half-way through"),
    "frame": (sys._getframe, "A frame"),
    "traceback": (lambda: raised().__traceback__, "A frame"),
    "context variable": (lambda: contextvars.ContextVar("v"), "A context variable"),
    "context": (contextvars.copy_context, "A context variable"),
    "weak reference": (lambda: weakref.ref(Own), "A weak reference"),
    "weak table": (weakref.WeakValueDictionary, "A weak reference"),
    "pointer": (lambda: ctypes.pointer(ctypes.c_int(1)), "An address in memory"),
    "library": (lambda: ctypes.CDLL(None), "A loaded library"),
    "log handler": (logging.StreamHandler, "A log handler"),
    "chance": (random.SystemRandom, "The machine's source of chance"),
}

PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "itself": (lambda bad: bad, "obj"),
    "among others": (lambda bad: {"a": [1, Holder(x=(2, bad))]}, "obj['a'][1].x[1]"),
    "captured": (lambda bad: Holder(f=closing_over(bad)), "closure of obj.f → value"),
}


@pytest.fixture
def kept() -> Iterator[list[Any]]:
    """Closed at the end, as far as it can be."""
    things: list[Any] = []
    main = sys.modules["__main__"]
    yield things
    assert sys.modules["__main__"] is main  # that is where other tests have their variables
    for thing in things:
        for name in ("close", "shutdown", "wait"):
            if name in dir(thing) and not isinstance(thing, threading.Barrier | threading.Event):
                if name == "wait" and not isinstance(thing, subprocess.Popen):
                    continue
                getattr(thing, name)()
                break
        if isinstance(thing, sqlite3.Cursor):
            thing.connection.close()
        elif isinstance(thing, zipfile.ZipFile) or name == "shutdown":
            continue


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", BOUND)
def test_what_belongs_to_one_process_is_one_line(kind: str, place: str, kept: list[Any]) -> None:
    make, said = BOUND[kind]
    around, path = PLACES[place]
    bad = make()
    kept.append(bad)
    found = inspect(around(bad), {}, "obj")
    assert [f.path for f in found.failures] == [path]
    (failure,) = found.failures
    assert failure.advice.startswith(f"{said} ")
    assert "belongs to one process: " in failure.advice
    assert str(found).count("\n") == 2


def test_an_installed_class_that_keeps_such_things_for_itself_is_one_line() -> None:
    installed = types.ModuleType("installed_somewhere")
    installed.__file__ = f"{np.__file__.rpartition('numpy')[0]}installed_somewhere.py"
    source = "class Inner: pass\nclass Driver: pass\n"
    exec(source, installed.__dict__)
    sys.modules["installed_somewhere"] = installed
    try:
        driver: Any = installed.Driver()
        driver._pool, driver._state = installed.Inner(), {"run": generator(), "m": types}
        driver._pool.threads = [threading.Thread() for _ in range(9)]
        driver._pool.lock = LOCK
        found = inspect({"driver": driver}, {}, "obj")
        (failure,) = found.failures
        assert failure.path == "obj['driver']"
        assert failure.advice == (
            "Driver keeps a thread (`._pool.threads[0]`), which belongs to one process: make it "
            "inside the task."
        )
        driver._pool, driver._state = None, Holder(lock=LOCK)  # what is the user's can be changed
        (failure,) = inspect(driver, {}, "obj").failures
        assert failure.path == "obj._state.lock"
    finally:
        del sys.modules["installed_somewhere"]


def test_many_of_a_kind_are_one_line_and_many_kinds_are_counted() -> None:
    found = inspect([Holder(x=LOCK) for _ in range(694)], {}, "obj")
    assert len(found.failures) == 694
    assert str(found).splitlines()[0] == "694 parts can't be stored:"
    assert str(found).splitlines()[-1].strip() == "And 693 more are like it, up to obj[693].x."
    many = inspect(Holder(**{f"x{i}": LOCK for i in range(60)}), {}, "obj")
    assert str(many).endswith(f"  … and {60 - MOST_LISTED} more: the answer's `failures`.")
    assert f"… and {60 - MOST_LISTED} more" in many._repr_html_()


# -- the path can be pasted -----------------------------------------------------------------------


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
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        raise ValueError


class Nested:
    class Deep(enum.Flag):
        ON = 1


KEYS: dict[str, Any] = {
    "text": "name",
    "quotes": 'it\'s "here" \\ \n',
    "long text": "x" * 150,
    "very long text": "x" * (LONGEST + 1),
    "unicode": "größe ✓",
    "bytes": b"\x00key",
    "number": -7,
    "large number": 10**400,
    "float": 0.1,
    "infinity": float("inf"),
    "nan": float("nan"),
    "complex": 1 + 2j,
    "none": None,
    "bool": True,
    "ellipsis": ...,
    "tuple": (1, ("a", None)),
    "tuple of one": ("a",),
    "empty tuple": (),
    "frozen set": frozenset({1, "a"}),
    "named tuple": Pair(1, "b"),
    "enum": Color.RED,
    "flag": Nested.Deep.ON,
    "class": Color,
    "builtin class": int,
    "frozen dataclass": Place(3, "there"),
    "date": datetime.date(2020, 1, 31),
    "time": datetime.datetime(2020, 1, 31, 12, tzinfo=datetime.UTC),
    "span": datetime.timedelta(days=2),
    "decimal": decimal.Decimal("1.50"),
    "path": pathlib.PurePosixPath("/a/b"),
    "id": uuid.UUID(int=5),
    "timestamp": pd.Timestamp("2020-01-31"),
    "numpy's number": np.int64(5),
    "numpy's text": np.str_("five"),
    "numpy's date": np.datetime64("2020-01-31"),
    "object": Odd(),
    "object that can't be shown": Raises(),
    "object in a tuple": (1, Odd()),
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


@pytest.mark.parametrize("around", ["alone", "first", "among many", "ordered", "deep"])
@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_whole_and_can_be_pasted(name: str, around: str, notebook: dict[str, Any]) -> None:
    key, bad = KEYS[name], threading.Lock()
    obj: Any = {
        "alone": {key: bad},
        "first": {key: bad, "other": [1], 2: {}},
        "among many": {**{f"k{i}": [i] for i in range(2345)}, key: bad},
        "ordered": collections.OrderedDict([("a", [1]), (key, bad)]),
        "deep": {"a": {Color.BLUE: Holder(x={key: [0, bad]})}},
    }[around]
    (failure,) = inspect(obj, {}, "obj", rebuild=False).failures
    assert eval(failure.path, {**notebook, "obj": obj}) is bad
    assert "…" not in failure.path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("enum", "Color.RED"),
        ("flag", "Nested.Deep.ON"),
        ("frozen dataclass", "Place(x=3, name='there')"),
        ("date", "datetime.date(2020, 1, 31)"),
        ("decimal", "decimal.Decimal('1.50')"),
        ("timestamp", "pd.Timestamp('2020-01-31 00:00:00')"),
        ("numpy's number", "5"),
        ("named tuple", "(1, 'b')"),
        ("class", "Color"),
    ],
)
def test_a_key_is_written_as_people_write_it(
    name: str, text: str, notebook: dict[str, Any]
) -> None:
    (failure,) = inspect({KEYS[name]: LOCK}, {}, "obj").failures
    assert failure.path == f"obj[{text}]"


BAD = threading.Lock()


class Plain(enum.Enum):
    GOOD = 1


PASTED: dict[str, Any] = {
    "a key": {1: 2, BAD: 3},
    "in a key": {(1, BAD): 3},
    "in a set": {1, "a", BAD},
    "in a frozen set": frozenset([1, BAD]),
    "a frame's cell": pd.DataFrame({"a": [1], "b": pd.Series([BAD], dtype=object)}),
    "columns of one name": pd.DataFrame([["a", BAD]], columns=["x", "x"], dtype=object),
    "a column's long name": pd.DataFrame({"c" * 99: pd.Series([BAD], dtype=object)}),
    "a column's date": pd.DataFrame({pd.Timestamp(0): pd.Series([BAD], dtype=object)}),
    "a column's odd name": pd.DataFrame({Odd(): pd.Series([BAD], dtype=object)}),
    "a series": pd.Series([1, BAD], index=["p", "p"], dtype=object),
    "an index": pd.Series([1], index=pd.Index([BAD], dtype=object)),
    "an object array": np.array([[1, 2], [3, BAD]], dtype=object),
    "a field": np.array([(1, BAD)], dtype=[("a", int), ("b", object)]),
    "default": by_value("def test(a=1, *, b=bad): pass", bad=BAD),
    "class attribute": by_value("class test: lock = bad", bad=BAD)(),
    "method": by_value("class test:\n def f(self, a=bad): pass", bad=BAD)(),
    "class method": by_value("class test:\n @classmethod\n def f(c, a=bad): pass", bad=BAD)(),
    "static": by_value("class test:\n @staticmethod\n def f(a=bad): pass", bad=BAD)(),
    "property": by_value("class test:\n @property\n def p(s, a=bad): pass", bad=BAD),
    "cached": by_value("import functools\n@functools.cache\ndef test(a=bad): pass", bad=BAD),
    "bound method": [BAD].append,
    "partial": functools.partial(print, 1, end=BAD),
    "slots": Slotted(1, BAD),
    "mapping proxy": types.MappingProxyType({"a": [BAD]}),
    "default factory": collections.defaultdict(functools.partial(print, BAD)),
    "enum": by_value("import enum\nclass test(enum.Enum): RED = 1; BLUE = bad", bad=BAD),
    "member": by_value("import enum\nclass test(enum.Enum): RED = 1; BLUE = bad", bad=BAD).BLUE,
    "another member": by_value("import enum\nclass test(enum.Enum): R = 1; B = [bad]", bad=BAD).R,
    "member's part": by_value("import enum\nclass test(enum.Enum): B = (1, bad)", bad=BAD).B,
}


@pytest.mark.parametrize("name", PASTED)
def test_the_path_is_what_one_would_write(name: str, notebook: dict[str, Any]) -> None:
    obj = PASTED[name]
    (failure,) = inspect(obj, {}, "obj").failures
    assert eval(failure.path, {**notebook, "obj": obj}) is BAD


# -- pickled, but not built again -----------------------------------------------------------------


class NeedsTwoError(Exception):
    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(f"{a} and {b}")


class BadState:
    def __init__(self) -> None:
        self.x = 1

    def __setstate__(self, state: Any) -> None:
        raise ValueError("not this state")


class BadNew:
    def __new__(cls, needed: Any) -> BadNew:
        return super().__new__(cls)


class BadReduce:
    def __reduce__(self) -> Any:
        return int, ("no number",)


class WritesInPlace:
    def __init__(self) -> None:
        self.array = np.ones(100)

    def __setstate__(self, state: Any) -> None:
        state["array"] *= 2


class OnlyHere:
    """Says that it is a name of the notebook's main module."""

    def __reduce__(self) -> str:
        return "OnlyHere"


class Fragile(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        raise KeyError(key)


def fragile() -> Fragile:
    made = Fragile()
    dict.__setitem__(made, "a", 1)
    return made


NOT_REBUILT: dict[str, tuple[Any, str, str]] = {
    "exception": (
        NeedsTwoError(1, 2),
        "missing 1 required positional argument",
        "NeedsTwoError.__init__",
    ),
    "state": (BadState(), "ValueError: not this state", "Correct `BadState.__setstate__`"),
    "new": (BadNew(1), "missing 1 required positional argument", "Give BadNew a `__reduce__`"),
    "reduce": (BadReduce(), "invalid literal for int()", "Correct `BadReduce.__reduce__`"),
    "writes": (WritesInPlace(), "read-only", "Correct `WritesInPlace.__setstate__`"),
    "items": (fragile(), "KeyError: 'a'", "Give Fragile a `__reduce__`"),
}
AROUND: dict[str, tuple[Callable[[Any], Any], str]] = {
    "itself": (lambda bad: bad, "obj"),
    "among others": (
        lambda bad: {"a": [np.ones(9), Holder(x=(2, bad)), Holder(y=bad)]}, "obj['a'][1].x[1]"
    ),
    "in a frame": (lambda bad: pd.DataFrame({"a": [1, 2], "b": ["x", bad]}), "obj['b'].iloc[1]"),
    "captured": (lambda bad: Holder(f=closing_over([bad])), "closure of obj.f → value[0]"),
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", NOT_REBUILT)
def test_what_cannot_be_built_again_is_said_to_be_so(name: str, around: str) -> None:
    bad, why, advice = NOT_REBUILT[name]
    put, path = AROUND[around]
    ok, (failure,) = inspect(put(bad), {}, "obj")
    assert not ok
    assert failure.path == path
    assert failure.type.endswith(type(bad).__name__)
    assert failure.why.startswith("can be pickled, but not built again: ")
    assert why in failure.why
    assert advice in failure.advice


def test_what_is_built_again_is_not_built_here(notebook: dict[str, Any]) -> None:
    """Side effects, and changes of the notebook's own classes, stay in the other process."""
    namespace: dict[str, Any] = {"__name__": "__main__", "print": print}
    exec("class Model:\n  n = 0\n  def __setstate__(self, s): Model.n += 1; print('x')", namespace)
    model = namespace["Model"]()
    model.x = 1
    namespace["Model"].n = 5
    assert inspect(model, {}, "obj") == (True, ())
    assert namespace["Model"].n == 5


def test_a_name_of_the_main_module_alone_is_not_there_elsewhere(
    notebook: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook["OnlyHere"] = only = OnlyHere()
    monkeypatch.setattr(OnlyHere, "__module__", "__main__")
    _, (failure,) = inspect([only], {}, "obj")
    assert (failure.path, "AttributeError" in failure.why) == ("obj[0]", True)
    assert "module that can be imported" in failure.advice


def test_what_is_too_large_to_be_built_again_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundtrip, "MOST_BYTES", 1000)
    found = inspect(Holder(x=np.ones(1000)), {}, "obj")
    assert found.ok
    assert "Whether it can be built again was not tried: it is too large for that." in str(found)
    assert "not tried" in found._repr_html_()
    assert "not tried" not in str(inspect([np.ones(1000)], {}, "obj"))  # it always can


def test_a_serializer_that_does_not_give_it_back() -> None:
    custom = Custom(Holder, lambda held: 1, _no_deserializer)
    _, (failure,) = inspect([Holder()], {Holder: custom}, "obj")
    assert failure.path == "obj[0]"
    assert failure.advice == "Correct its deserializer, or `deregister_serializer(Holder)`."


def test_of_more_than_is_read_again_no_part_is_blamed() -> None:
    custom = Custom(Holder, lambda held: 1, _no_deserializer)
    many = [[*range(200)] * 5001, Holder()]
    _, (failure,) = inspect(many, {Holder: custom}, "obj")
    assert (failure.path, failure.type) == ("obj", "list")
    assert failure.advice == "It is not known what in it: inspect a part of it."


def _no_deserializer(data: Any) -> Any:
    raise LookupError(data)


def test_a_function_with_a_cache_travels(notebook: dict[str, Any]) -> None:
    source = "import functools\n@functools.lru_cache(3)\ndef test(n): return n and test(n - 1) + 1"
    cached = by_value(source)
    assert inspect([cached], {}, "obj") == (True, ())
    assert inspect(functools.lru_cache(builtins.len), {}, "obj") == (True, ())


def test_of_a_coroutine_no_list_can_be_made() -> None:
    running = coroutine()
    (failure,) = inspect([running], {}, "obj").failures
    running.close()
    assert "await it and pass the result" in failure.advice


class Unbound:
    """As web frameworks' proxies are outside of a request: every look at them raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("working outside of a request")


def test_a_proxy_that_is_of_nothing_is_a_failure_like_others() -> None:
    for value in (Unbound(), Holder(x=[Unbound()])):
        _, (failure,) = inspect(value, {}, "obj")
        assert failure.type.endswith("Unbound")
        assert "outside of a request" in failure.why
    assert inspect(Unbound(), {}).failures[0].path == "Unbound"
    with pytest.raises(SerializationError, match="outside of a request"):
        explain([Unbound()], {})
