"""What can't be rebuilt is found where it is, whatever it is in; and looking for it is harmless."""

from __future__ import annotations

import collections
import copyreg
import functools
import io
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serialization.samples import Holder, Pair, by_value, closing_over
from workbench.serialization.arrays import Array, out_of_band
from workbench.serialization.pickler import Pickler
from workbench.serialization.rebuilding import MOST_BYTES, MOST_STEPS, where


def taken_apart(value: Any) -> tuple[bytes, list[Array]]:
    file, buffers = io.BytesIO(), []
    Pickler(file, {}, lambda buffer: buffers.append(out_of_band(buffer))).dump(value)
    return file.getvalue(), buffers


def breaks_at(value: Any) -> str:
    """Where it breaks; that it does is checked."""
    stream, buffers = taken_apart(value)
    with pytest.raises((ExplodedError, ImportError)):
        pickle.loads(stream, buffers=buffers)
    return where(stream, buffers, "x")


class ExplodedError(Exception): ...


def explode(*_: Any) -> None:
    raise ExplodedError("boom")


class Bad:
    def __reduce__(self) -> Any:
        return explode, ()

    def __call__(self) -> None: ...


BAD = Bad()


class Keyed(tuple):  # type: ignore[type-arg]
    """Built with a keyword: NEWOBJ_EX."""

    def __new__(cls, /, **parts: Any) -> Keyed:
        return super().__new__(cls, parts.items())

    def __getnewargs_ex__(self) -> Any:
        return (), dict(self)


class NoState:
    def __setstate__(self, state: Any) -> None:
        raise ExplodedError

    def __init__(self) -> None:
        self.fine = [1]


class OddState(Holder):
    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None: ...


def recursive_tuple(*before: Any, last: Any = lambda one, inner: inner) -> Any:
    """Pickle meets the tuple again inside of it, throws its first try away, takes the second."""
    inner: list[Any] = []
    whole = (*before, last(1, inner))
    inner.extend([whole, BAD])
    return whole


def recursive_object() -> Any:
    one = Holder(name="one")
    one.self, one.part = [one], BAD
    return one


SHARED = [BAD, [Pair(1, 2)] * 2]
FRAME = pd.DataFrame({"y": [1.0, 2.0], "x": ["a", BAD]})
CLASS = by_value("class test:\n  part = bad", bad=BAD)
ENUM = by_value("import enum\nclass test(enum.Enum):\n  A = 1\n  def f(self): bad", bad=BAD)

BROKEN = [
    ({"jobs": [0, 1, Holder(model=BAD)]}, "x['jobs'][2].model"),
    ({1: 0, 2.5: BAD}, "x[2.5]"),
    ({"k" * 50: BAD}, f"x['{'k' * 28}…]"),
    ({(1, BAD): 1}, "x key (1, …)[1]"),
    ({i: BAD if i == 2500 else i for i in range(3000)}, "x[2500]"),
    ({BAD}, "x{…}"),
    (collections.OrderedDict(a=1, b=BAD), "x['b']"),
    (collections.deque([1, BAD]), "x[1]"),
    (Pair(1, [BAD]), "x argument 2 of Pair[0]"),
    (Keyed(self=1, name=[BAD]), "x argument 'name' of Keyed[0]"),
    (OddState(state=({}, {}, {"a": BAD})), "x.__getstate__()[2]['a']"),
    ([NoState()], "x[0]"),
    ({"a": [[SHARED]], "b": SHARED}, "x['a'][0][0][0]"),
    ([recursive_tuple(1, 2, 3, 4, 5)], "x[0][5][1]"),
    ([recursive_tuple(Holder(), last=Pair)], "x[0][1] argument 2 of Pair[1]"),
    (recursive_object(), "x.part"),
    (functools.partial(BAD), "x argument 1 of partial"),
    (Holder(callback=closing_over(BAD)), "x.callback.__closure__[0]"),
    ([ENUM.A], "x[0].__class__.f.__globals__['bad']"),
    ([CLASS()], "x[0].__class__.part"),
    ({"a": np.zeros((2, 3)).T, "b": Holder(c=(np.arange(5.0), BAD))}, "x['b'].c[1]"),
    (np.array([[1, 2, 3], [4, 5, BAD]], dtype=object, order="F"), "x[1, 2]"),
    (np.array(BAD, dtype=object), "x[()]"),
    (FRAME, "x._mgr argument 1 of BlockManager[1]"),
]


@pytest.mark.parametrize(("value", "path"), BROKEN, ids=[path[:40] for _, path in BROKEN])
def test_the_path_leads_to_what_breaks(value: Any, path: str) -> None:
    assert breaks_at(value) == path


ELSEWHERE = """
from collections import namedtuple
class Model: pass
class Extended(Model): pass
Pair = namedtuple("Pair", "a b")
def make(): pass
class Made:
    def __reduce__(self): return make, ()
"""


IMPORTED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: [1, m.make], "x[1]"),
    (lambda m: [{"a": [m.Model()]}, m.Model()], "x[0]['a'][0]"),
    (lambda m: {m.Pair(1, 2): 3}, "x key …"),
    (lambda m: [m.Made()], "x[0]"),
    (lambda m: Holder(f=by_value("def test(): return M", M=m.Model)), "x.f.__globals__['M']"),
    (lambda m: [by_value("class test(M): pass", M=m.Model)()], "x[0].__class__"),
]


@pytest.mark.parametrize(("make", "path"), IMPORTED)
def test_no_import(make: Callable[[Any], Any], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither if there is no such module, nor if that hasn't the name."""
    module = types.ModuleType("elsewhere")
    exec(ELSEWHERE, module.__dict__)
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    stream, buffers = taken_apart(make(module))
    for other in (None, types.ModuleType("elsewhere")):
        monkeypatch.setitem(sys.modules, "elsewhere", other)
        with pytest.raises((ImportError, AttributeError), match="elsewhere"):
            pickle.loads(stream, buffers=buffers)
        assert where(stream, buffers, "x") == path


def test_a_buffer_that_is_missing() -> None:
    read_only = np.arange(3)
    read_only.flags.writeable = False
    for array in (np.arange(3), read_only):
        stream, buffers = taken_apart({"a": np.zeros(3), "b": [array]})
        assert len(buffers) == 2
        assert where(stream, buffers[:1], "x") == "x['b'][0] argument 3 of ndarray"
        assert where(stream, [buffers[0], b"short"], "x") == "x['b'][0]"


def test_any_protocol_in_any_bytes() -> None:
    value = {"jobs": [1, Holder(model=(1, BAD))]}
    for protocol in range(6):
        stream = pickle.dumps(value, protocol)
        for given_as in (stream, bytearray(stream), np.frombuffer(stream, np.uint8)):
            assert where(given_as, (), "x") == "x['jobs'][1].model[1]"


@given(st.binary(max_size=50))
def test_junk_is_nowhere(junk: bytes) -> None:
    for stream in (junk, b"\x80\x05" + junk + b"."):
        assert where(stream, ()).startswith("the object")


def test_what_does_not_break_and_a_broken_stream_are_nowhere() -> None:
    for value in ([1], {"a": np.zeros(3)}, FRAME.drop(columns="x"), recursive_tuple):
        assert where(*taken_apart(value), "x") == "x"
    stream, buffers = taken_apart([1, {"a": Holder(b=[np.zeros(3), BAD])}])
    for length in range(len(stream)):
        assert where(stream[:length], buffers, "x") == "x"


def test_very_deep_and_very_long_streams() -> None:
    bad = pickle.dumps(BAD, 2)[2:-1]
    deep = b"\x80\x05" + 5000 * b"]" + bad + 5000 * b"a" + b"."
    assert where(deep, (), "x") == "x" + 5000 * "[0]"
    for pairs, path in ((100, "x[0]"), (MOST_STEPS // 2, "x")):
        assert where(b"\x80\x05]" + pairs * b"N0" + bad + b"a.", (), "x") == path
    for length, path in ((1000, "x[1]"), (MOST_BYTES, "x")):
        assert where(pickle.dumps(["a" * length, BAD], 5), (), "x") == path


def test_nothing_is_run_but_the_rebuilding_itself() -> None:
    """What comes behind the break, and perhaps never ran, doesn't run now."""
    stream, buffers = taken_apart([Counted(), BAD, Counted()])
    Counted.built = 0
    assert where(stream, buffers, "x") == "x[1]"
    assert Counted.built == 1


class Counted:
    built = 0

    def __reduce__(self) -> Any:
        return Counted.build, ()

    @staticmethod
    def build() -> None:
        Counted.built += 1


def test_the_cache_of_extensions_stays_as_it_is() -> None:
    copyreg.add_extension("collections", "Counter", 0xABC)
    try:
        stream = pickle.dumps([BAD, collections.Counter], 2)
        assert where(stream, (), "x") == "x[0]"
        assert pickle.loads(pickle.dumps(collections.Counter, 2)) is collections.Counter
    finally:
        copyreg.remove_extension("collections", "Counter", 0xABC)
