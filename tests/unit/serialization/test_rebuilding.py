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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serialization.samples import Holder, Slotted
from workbench.serialization import rebuilding
from workbench.serialization.arrays import Array, out_of_band
from workbench.serialization.expressions import short
from workbench.serialization.pickler import Pickler
from workbench.serialization.rebuilding import where


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


class ExplodedError(Exception):
    pass


def explode(*_: Any) -> None:
    raise ExplodedError("boom")


class Bad:
    def __reduce__(self) -> Any:
        return explode, ()

    def __call__(self) -> None: ...


BAD = Bad()


class SlotsAndDict(Slotted):
    pass


@dataclass
class Record:
    first: Any = 1
    second: Any = 2


class Point(NamedTuple):
    across: Any
    down: Any


class Keyed(tuple):  # type: ignore[type-arg]
    """Built with a keyword: NEWOBJ_EX."""

    def __new__(cls, /, **parts: Any) -> Keyed:
        return super().__new__(cls, parts.items())

    def __getnewargs_ex__(self) -> Any:
        return (), dict(self)


class Items(list):  # type: ignore[type-arg]
    """A list that pickle appends to from outside."""


class NoState:
    def __setstate__(self, state: Any) -> None:
        raise ExplodedError

    def __init__(self) -> None:
        self.fine = [1]


class NoNew:
    def __new__(cls, *needed: Any) -> NoNew:
        return super().__new__(cls) if needed else explode()  # type: ignore[return-value]


class OddState(Holder):
    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None: ...


def closing_over(value: Any) -> Any:
    return lambda: value


def by_value(source: str, name: str, **names: Any) -> Any:
    """A function or class as notebooks have them: of no module that anybody can import."""
    namespace = {"__name__": "__main__", **names}
    exec(source, namespace)
    return namespace[name]


class ByFunction:
    """What builds it comes with it, and is what breaks."""

    def __reduce__(self) -> Any:
        return by_value("def make(): return bad", "make", bad=BAD), ()


def recursive_list() -> Any:
    loop: list[Any] = [1]
    loop.extend([loop, [loop, BAD]])
    return loop


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


def nested(depth: int) -> Any:
    value: Any = BAD
    for _ in range(depth):
        value = [value]
    return value


RECORD = Record()
SHARED = [BAD]
FRAME = pd.DataFrame({"y": [1.0, 2.0], "x": ["a", BAD]})
CLASS = by_value("class C:\n  part = bad", "C", bad=BAD)
ENUM = by_value("import enum\nclass E(enum.Enum):\n  A = 1\n  def f(self): bad", "E", bad=BAD)
DERIVED = by_value("class D(base): pass", "D", base=CLASS)

BROKEN = [
    (BAD, "x"),
    ([1, BAD], "x[1]"),
    ([BAD], "x[0]"),
    ((BAD,), "x[0]"),
    ((1, (2, 3, BAD)), "x[1][2]"),
    ((1, 2, 3, BAD), "x[3]"),
    ({"jobs": [0, 1, Holder(model=BAD)]}, "x['jobs'][2].model"),
    ({1: 0, 2.5: BAD}, "x[2.5]"),
    ({(1, "a"): BAD}, "x[(1, 'a')]"),
    ({Point(1, 2): BAD}, "x[…]"),
    ({"k" * 50: BAD}, f"x['{'k' * 28}…]"),
    ({BAD: 1}, "x key …"),
    ({(1, BAD): 1}, "x key (1, …)[1]"),
    ({i: BAD if i == 2500 else i for i in range(3000)}, "x[2500]"),
    ([*range(2500), BAD, *range(3000)], "x[2500]"),
    (Items([*range(2500), BAD]), "x[2500]"),
    (Items([BAD]), "x[0]"),
    ({BAD}, "x{…}"),
    (frozenset([BAD]), "x{…}"),
    (collections.deque([1, BAD]), "x[1]"),
    (collections.OrderedDict(a=1, b=BAD), "x['b']"),
    (collections.OrderedDict(b=BAD), "x['b']"),
    (collections.OrderedDict([(BAD, 1)]), "x key …"),
    (Record(1, [BAD]), "x.second[0]"),
    (Holder(settings=BAD), "x.settings"),
    (Slotted(1, [0, BAD]), "x.b[1]"),
    (SlotsAndDict(BAD, 1), "x.a"),
    (Point(1, [BAD]), "x argument 2 of Point[0]"),
    (Keyed(self=1, name=[BAD]), "x argument 'name' of Keyed[0]"),
    (OddState(state=["odd", BAD]), "x.__getstate__()[1]"),
    (OddState(state=({}, {}, {"a": BAD})), "x.__getstate__()[2]['a']"),
    (OddState(state=({}, BAD)), "x.__getstate__()[1]"),
    ([NoState()], "x[0]"),
    ([NoNew(1)], "x[0]"),
    ([SHARED, 1, SHARED], "x[0][0]"),
    ([RECORD, Point(RECORD, [BAD])], "x[1] argument 2 of Point[0]"),
    ({"a": [[SHARED]], "b": SHARED}, "x['a'][0][0][0]"),
    (recursive_list(), "x[2][1]"),
    ([recursive_tuple()], "x[0][0][1]"),
    ([recursive_tuple(1, 2)], "x[0][2][1]"),
    ([recursive_tuple(1, 2, 3, 4, 5)], "x[0][5][1]"),
    ([recursive_tuple(Record(), Record())], "x[0][2][1]"),
    ([recursive_tuple(Record(), last=Point)], "x[0][1] argument 2 of Point[1]"),
    (recursive_object(), "x.part"),
    (nested(200), "x" + 200 * "[0]"),
    (functools.partial(BAD), "x argument 1 of partial"),
    ([BAD].append, "x argument 1 of getattr[0]"),
    (Holder(callback=closing_over(BAD)), "x.callback.__closure__[0]"),
    (by_value("def f(): return bad", "f", bad=BAD), "x.__globals__['bad']"),
    (by_value("def f(a=bad): pass", "f", bad=BAD), "x.__defaults__[0]"),
    ([ByFunction()], "x[0].__class__.__globals__['bad']"),
    ([ENUM.A], "x[0].__class__.f.__globals__['bad']"),
    ([CLASS], "x[0].part"),
    ([CLASS()], "x[0].__class__.part"),
    ([DERIVED], "x[0]"),  # how a class is made is cloudpickle's own
    ([np.arange(4), BAD], "x[1]"),
    ({"a": np.zeros((2, 3)).T, "b": Holder(c=(np.arange(5.0), BAD))}, "x['b'].c[1]"),
    (np.array([1, BAD], dtype=object), "x[1]"),
    (np.array([[1, 2, 3], [4, BAD, 6]], dtype=object), "x[1, 1]"),
    (np.array([[1, 2, 3], [4, 5, BAD]], dtype=object, order="F"), "x[1, 2]"),
    (np.array(BAD, dtype=object), "x[()]"),
    (FRAME, "x._mgr argument 1 of BlockManager[1]"),
    (FRAME["x"], "x._mgr.__getstate__()[1][0][1]"),
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


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that is where the pickle is made, and perhaps not where it is loaded."""
    module = types.ModuleType("elsewhere")
    exec(ELSEWHERE, module.__dict__)
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    return module


IMPORTED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: m.Model(), "x"),
    (lambda m: m.Model, "x"),
    (lambda m: [1, m.make], "x[1]"),
    (lambda m: {"a": [1, m.Model()]}, "x['a'][1]"),
    (lambda m: [{"a": [m.Model()]}, m.Model()], "x[0]['a'][0]"),
    (lambda m: Holder(model=[m.Model, m.Model()]), "x.model[0]"),
    (lambda m: (1, m.Pair(1, 2)), "x[1]"),
    (lambda m: {m.Pair(1, 2): 3}, "x key …"),
    (lambda m: [m.Made()], "x[0]"),
    (lambda m: Holder(f=by_value("def f(): return M", "f", M=m.Model)), "x.f.__globals__['M']"),
    (lambda m: [by_value("class C(M): pass", "C", M=m.Model)()], "x[0].__class__"),
]


@pytest.mark.parametrize("missing", ["module", "name"])
@pytest.mark.parametrize(("make", "path"), IMPORTED)
def test_what_cannot_be_imported(
    make: Callable[[Any], Any], path: str, missing: str, elsewhere: types.ModuleType
) -> None:
    stream, buffers = taken_apart(make(elsewhere))
    if missing == "module":
        del sys.modules["elsewhere"]
    else:
        sys.modules["elsewhere"] = types.ModuleType("elsewhere")
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


# -- anywhere -------------------------------------------------------------------------------------

FINE = st.lists(st.one_of(st.none(), st.integers(), st.builds(Record)), max_size=3)
KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.booleans(), st.text()))


@st.composite
def wholes(draw: st.DrawFn) -> tuple[Any, str]:
    """A nested structure with one bad part, and the path to it."""
    value: Any = BAD
    path = ""
    for kind in draw(st.lists(st.sampled_from(["list", "tuple", "dict", "record", "slots"]))):
        before, after = draw(FINE), draw(FINE)
        if draw(st.booleans()):  # the same things on both sides: references
            after += before
        match kind:
            case "list":
                value, step = [*before, value, *after], f"[{len(before)}]"
            case "tuple":
                value, step = (*before, value, *after), f"[{len(before)}]"
            case "dict":
                key = draw(KEYS)
                others = [{i + 0.5: one for i, one in enumerate(some)} for some in (before, after)]
                value, step = {**others[0], key: value, **others[1]}, f"[{short(key)}]"
            case "record":
                value, step = Record(before, value), ".second"
            case _:
                value, step = Slotted(value, after), ".a"
        path = step + path
    return value, path


@given(wholes())
def test_anywhere(case: tuple[Any, str]) -> None:
    value, path = case
    assert breaks_at(value) == "x" + path


# -- what it must not do --------------------------------------------------------------------------


def test_what_does_not_break_has_no_path() -> None:
    for value in ([1], {"a": np.zeros(3)}, FRAME.drop(columns="x"), recursive_tuple):
        assert where(*taken_apart(value), "x") == "x"


@given(st.binary(max_size=50))
def test_junk_is_nowhere(junk: bytes) -> None:
    for stream in (junk, b"\x80\x05" + junk + b"."):
        assert where(stream, ()).startswith("the object")


def test_a_broken_stream_is_nowhere() -> None:
    stream, buffers = taken_apart([1, {"a": Holder(b=[np.zeros(3), BAD])}])
    for length in range(len(stream)):
        assert where(stream[:length], buffers, "x") == "x"


def test_very_deep_and_very_long_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = pickle.dumps(BAD, 2)[2:-1]
    stream = b"\x80\x05" + 50_000 * b"]" + bad + 50_000 * b"a" + b"."
    assert where(stream, (), "x") == "x" + 50_000 * "[0]"
    monkeypatch.setattr(rebuilding, "MOST_STEPS", 100_000)
    assert where(stream, (), "x") == "x"
    stream = pickle.dumps(["a" * 1000, BAD], 5)
    assert where(stream, (), "x") == "x[1]"
    monkeypatch.setattr(rebuilding, "MOST_BYTES", 1000)
    assert where(stream, (), "x") == "x"


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
