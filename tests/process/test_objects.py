"""Objects through the real store: what is put is what is got, without a copy; names, refs, free."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import mapping_of
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.error_notes.readonly import note_of
from workbench.errors import (
    ForeignRefError,
    GetTimeoutError,
    ObjectFreedError,
    ObjectLostError,
    SerializationError,
    SessionError,
    TaskError,
)
from workbench.report.text import put_line

READ_ONLY = "r--s /memfd:workbench"


@dataclass
class Point:
    """A class of the test's own: it travels by reference, as a library's does."""

    x: int
    field: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.x == other.x and same(self.field, other.field)


def large() -> np.ndarray[Any, Any]:
    return np.arange(40_000.0)


KINDS: dict[str, Any] = {
    "nothing": None,
    "a dict": {"a": 1, "b": [2.5, "drei", None, True]},
    "long bytes": b"x" * 300_000,
    "a long text": "ü" * 100_000,
    "a set": {1, 2, 3},
    "a dataclass": Point(3, {"weights": large()}),
    "a scalar": np.float32(1.5),
    "a small array": np.arange(5),
    "a large array": large(),
    "0-d": np.array(7.0),
    "empty": np.empty((0, 3)),
    "Fortran": np.asfortranarray(large().reshape(200, 200)),
    "small Fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": large()[::3],
    "turned": large().reshape(20, 40, 50).transpose(2, 0, 1),
    "backwards": large()[::-1],
    "structured": np.zeros(3000, [("id", "i4"), ("place", "f8", (3,)), ("name", "U5")]),
    "big-endian": np.arange(5000, dtype=">i8"),
    "dates": np.arange("2020-01", "2220-01", dtype="datetime64[M]"),
    "objects": np.array([1, "two", None], dtype=object),
    "masked": np.ma.masked_less(large(), 10),
    "nested": {"a": [large(), (np.arange(3), {"deep": large()[:9]})], "b": large()[1:]},
    "a frame": pd.DataFrame({"n": range(3000), "x": np.linspace(0, 1, 3000), "s": ["t"] * 3000}),
    "a series": pd.Series(pd.Categorical(["a", "b"] * 2000)),
}


def same(a: Any, b: Any) -> bool:
    """Equal in type, layout and content."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ma.MaskedArray):
        return same(a.data, b.data) and same(a.mask, b.mask)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b) and a.flags.fnc == b.flags.fnc
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, pd.DataFrame | pd.Series):
        return a.equals(b) and (a.index == b.index).all()
    return bool(a == b)


def arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Those in it that could have gone out of band."""
    if isinstance(value, Point):
        value = value.field
    if isinstance(value, pd.DataFrame):
        value = [value["n"].to_numpy(), value["x"].to_numpy()]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from arrays(each)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield value


def test_every_kind_of_value_comes_back(session: Engine) -> None:
    @wb.remote
    def echo(value: Any, *, refs: list[wb.ObjectRef]) -> tuple[Any, Any]:
        return value, wb.get(refs[0])

    for kind, value in KINDS.items():
        ref = wb.put(value)
        assert same(value, wb.get(ref)), kind
        assert same(value, wb.get(ref, copy=True)), f"{kind}, copied"
        by_value, inside = wb.get(echo.remote(value, refs=[ref]))
        assert same(value, by_value), f"{kind}, through a worker"
        assert same(value, inside), f"{kind}, got in a worker"
        by_ref, _ = wb.get(echo.remote(ref, refs=[ref]))
        assert same(value, by_ref), f"{kind}, as a task's argument"


@pytest.mark.parametrize(
    "kind", ["a large array", "Fortran", "strided", "nested", "a dataclass", "a frame"]
)
def test_arrays_are_read_where_they_lie_and_cannot_be_changed(session: Engine, kind: str) -> None:
    value = KINDS[kind]
    ref = wb.put(value)
    found = list(arrays(wb.get(ref)))
    assert found
    for array in found:
        assert mapping_of(array.__array_interface__["data"][0]) == READ_ONLY
        assert not array.flags.writeable
        with pytest.raises(ValueError, match=r"cannot set|read-only"):
            array.flags.writeable = True
    copy = wb.get(ref, copy=True)
    for array in arrays(copy):
        assert "memfd" not in mapping_of(array.__array_interface__["data"][0])
        if isinstance(copy, pd.DataFrame):  # pandas' own arrays are read-only from outside
            copy.loc[:, "x"] = 0
        else:
            array[...] = 0
    assert same(value, wb.get(ref))


def test_the_original_and_small_arrays_are_not_shared_with_the_object(session: Engine) -> None:
    for original in (np.arange(5), large()):
        ref = wb.put(original)
        original[0] = 99
        assert wb.get(ref)[0] == 0
        assert not wb.get(ref).flags.writeable
        copy = wb.get(ref, copy=True)
        copy[0] = 98
        assert wb.get(ref)[0] == 0


@pytest.mark.parametrize("length", [5, 40_000])
def test_what_numpy_writes_to_although_it_is_read_only_is_refused(
    session: Engine, length: int
) -> None:
    ref = wb.put(np.zeros(length), name="sums")
    shown = wb.get(ref)
    with pytest.raises(ValueError, match="read-only") as caught:
        np.add.at(shown, [0, 1, 1], 1.0)
    assert "the stored object 'sums'" in note_of(caught.value)
    assert not shown.any()
    assert not wb.get(ref).any()

    @wb.remote
    def count(into: Any) -> None:
        np.add.at(into, 0, 1.0)

    with pytest.raises(ValueError, match="read-only"):
        wb.get(count.remote(ref))


@pytest.mark.parametrize("length", [5, 40_000])
def test_a_tensor_of_pyarrows_may_be_written_to_and_the_object_stays(
    session: Engine, length: int
) -> None:
    original = np.arange(float(length)).reshape(-1, 5)
    ref = wb.put(pa.Tensor.from_numpy(original, dim_names=["row", "column"]))
    tensor = wb.get(ref)
    assert tensor.dim_names == ["row", "column"]
    shown = tensor.to_numpy()
    if length > 5:
        assert "memfd:workbench" in mapping_of(shown.__array_interface__["data"][0])
    shown.flags.writeable = True
    shown[0] = -1
    assert (tensor.to_numpy()[0] == -1).all()
    assert same(wb.get(ref).to_numpy(), original)
    assert same(wb.get(wb.put(tensor)).to_numpy(), shown)


def test_bytes_of_a_small_object_are_each_readers_own(session: Engine) -> None:
    """C code may write to them, whatever the flag says."""
    ref = wb.put({"x": np.zeros(5)})
    array = wb.get(ref)["x"]
    ctypes.memset(array.ctypes.data, 1, array.nbytes)
    assert array.all()
    assert not wb.get(ref)["x"].any()
    assert session.shown(array) is not None  # it still shows the object


def test_get_takes_one_ref_or_a_list(session: Engine) -> None:
    refs = [wb.put(i) for i in range(3)]
    assert wb.get(refs) == [0, 1, 2]
    assert wb.get((refs[2], refs[0], refs[2])) == [2, 0, 2]
    assert wb.get([]) == []
    for wrong in (3, [refs[0], 3], {refs[0]}):
        with pytest.raises(TypeError, match="ObjectRef"):
            wb.get(wrong)  # type: ignore[call-overload]
    with pytest.raises(SerializationError, match="ObjectRef already"):
        wb.put(refs[0])


def test_get_runs_out_of_time_and_the_object_comes_later(session: Engine, gate: Gate) -> None:
    slow = wb.remote(gate.stop).remote()
    quick = wb.put(1)
    visitor = gate.next()
    for timeout in (0, 0.01):
        with pytest.raises(GetTimeoutError, match="1 of 2"):
            wb.get([quick, slow], timeout=timeout)
    assert wb.get(quick, timeout=0) == 1
    visitor.let_on("late")
    assert wb.get([slow, quick], timeout=TIMEOUT) == ["late", 1]


def test_get_of_several_raises_as_soon_as_one_has_failed(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote
    def waits() -> None:
        if stop() == "fail":
            raise LookupError("not here")

    refs = [waits.remote(), waits.remote()]
    visitors = [gate.next(), gate.next()]
    failing = threading.Thread(target=visitors[1].let_on, args=["fail"])
    failing.start()  # one of the two; the other goes on
    with pytest.raises(LookupError, match="not here"):
        wb.get([wb.put(1), *refs])
    with pytest.raises(LookupError, match="not here"):
        wb.get(refs)  # that one has failed already
    freed = wb.put(2)
    wb.free(freed)
    pending = [ref for ref in refs if session.state(ref) == "pending"]
    with pytest.raises(ObjectFreedError):
        wb.get([*pending, freed])
    with pytest.raises(GetTimeoutError):
        wb.get(pending, timeout=0)  # others' failures are none of its own
    visitors[0].let_on()
    assert wb.get(pending) == [None]
    failing.join()


def test_a_timeout_of_zero_asks_once(session: Engine) -> None:
    @wb.remote
    def elsewhere() -> None:
        wb.put("there", name="it")

    wb.get(elsewhere.remote())
    ref = session.find("it")
    assert ref is not None
    assert wb.wait([ref], timeout=0) == ([ref], [])
    del ref
    again = session.find("it")
    assert wb.get(again, timeout=0) == "there"


def test_wait_gives_what_is_ready_in_the_order_given(session: Engine, gate: Gate) -> None:
    @wb.remote(max_retries=0)
    def fails() -> None:
        raise ValueError

    first, second = wb.put(1), fails.remote()
    pending = wb.remote(gate.stop).remote()
    assert wb.wait([pending, second, first], num_returns=2) == ([second, first], [pending])
    assert wb.wait([pending, second, first]) == ([second], [pending, first])  # one, if one will do
    assert wb.wait([first, pending], num_returns=2, timeout=0.01) == ([first], [pending])
    assert wb.wait([pending], timeout=0) == ([], [pending])
    gate.next().let_on()
    assert wb.wait([first, pending], num_returns=2) == ([first, pending], [])
    wb.free(first)
    assert wb.wait([first]) == ([first], [])  # there is something to know of it


def test_wait_refuses_what_makes_no_sense(session: Engine) -> None:
    ref = wb.put(1)
    with pytest.raises(ValueError, match="twice"):
        wb.wait([ref, ref])
    for count in (0, 2):
        with pytest.raises(ValueError, match="num_returns"):
            wb.wait([ref], num_returns=count)
    with pytest.raises(TypeError, match=r"wait\(\[ref\]\)"):
        wb.wait(ref)  # type: ignore[arg-type]
    for wrong, found in (([1], "an int"), ([ref, "r"], "a str"), (3, "an int")):
        with pytest.raises(TypeError, match=found):
            wb.wait(wrong)  # type: ignore[arg-type]
    assert wb.wait([]) == ([], [])


# -- how long objects live ------------------------------------------------------------------------


def live(session: Engine) -> int:
    return session.snapshot().live


def test_an_object_dies_with_its_last_ref(session: Engine) -> None:
    ref = wb.put(large())
    other = ref
    del ref
    view = wb.get(other)
    assert live(session) >= large().nbytes
    del other
    wb.put(large() + 1)  # not there: a view of the first one lives
    assert same(view, large())
    del view
    assert live(session) == 0


def test_refs_inside_an_object_keep_theirs_alive(session: Engine) -> None:
    @wb.remote
    def inside() -> dict[str, Any]:
        return {"list": [wb.put("made by a worker"), wb.put(large())]}

    outer = wb.put({"list": [wb.put("put here"), wb.put(large())]})
    for container in (outer, inside.remote()):
        text, array = wb.get(container)["list"]
        assert wb.get(text) in ("put here", "made by a worker")
        assert same(wb.get(array), large())
    chain = wb.put("end")
    for _ in range(30):
        chain = wb.put([chain])
    for _ in range(30):
        [chain] = wb.get(chain)
    assert wb.get(chain) == "end"
    del outer, container, text, array, chain, inside
    assert eventually(lambda: live(session) == 0)  # workers drop their refs a moment later


def test_free_reaches_everybody_who_holds_the_object(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote
    def late(refs: list[wb.ObjectRef]) -> None:
        before = wb.get(refs[0])
        stop()
        for _ in range(3000):  # until the word has got here
            threading.Event().wait(0.01)
            assert (wb.get(refs[0]) == 1).all()
            assert (before == 1).all()  # an array that shows it stays as it is

    ref = wb.put(np.ones(10_000))
    here = wb.get(ref)
    result = late.remote([ref])
    visitor = gate.next()
    wb.free(ref)
    with pytest.raises(ObjectFreedError, match="freed"):
        wb.get(ref)
    filler = wb.put(np.zeros(10_000))  # may lie anywhere but there
    visitor.let_on()
    with pytest.raises(ObjectFreedError, match="freed") as caught:
        wb.get(result)
    assert isinstance(caught.value, TaskError)
    assert (here == 1).all()
    wb.free([ref, filler])  # twice is once
    with pytest.raises(TypeError):
        wb.free([3])  # type: ignore[list-item]


def test_free_of_what_is_still_to_be_made(session: Engine, gate: Gate) -> None:
    pending = wb.remote(gate.stop).remote()
    waits = wb.remote(lambda value: value).remote(pending)
    visitor = gate.next()
    wb.free(pending)
    with pytest.raises(ObjectFreedError):
        wb.get(pending)
    with pytest.raises(ObjectFreedError):
        wb.get(waits)
    visitor.let_on()


# -- refs that lead nowhere -----------------------------------------------------------------------


def test_a_ref_to_what_is_gone(session: Engine) -> None:
    ref = wb.put(1)
    gone = ref.id
    del ref
    session.snapshot()
    stale = session.borrow(gone)
    with pytest.raises(ObjectLostError, match="no such object"):
        wb.get(stale)
    with pytest.raises(ObjectLostError):
        wb.get(wb.remote(lambda value: value).remote(stale))
    assert wb.get(wb.put("goes on")) == "goes on"


def test_a_ref_of_another_session(runtime: str) -> None:
    wb.init(workers=1)
    ref = wb.put(1)
    escaped = pickle.dumps(ref)
    wb.shutdown()
    with pytest.raises(ForeignRefError, match="no session"):
        pickle.loads(escaped)
    wb.init(workers=1)
    with pytest.raises(ForeignRefError, match="session"):
        pickle.loads(escaped)
    uses: list[Callable[[], object]] = [
        lambda: wb.get(ref),
        lambda: wb.put([ref]),
        lambda: wb.free(ref),
        lambda: wb.wait([ref]),
        lambda: wb.remote(len).remote(ref),
        lambda: wb.remote(len).remote([ref]),
    ]
    for use in uses:
        with pytest.raises(ForeignRefError):
            use()
    assert "session over" in repr(ref)
    with pytest.raises(SessionError):
        ref.future()
    assert wb.get(wb.put("goes on")) == "goes on"
    wb.shutdown()


# -- names ----------------------------------------------------------------------------------------


def test_a_name_keeps_an_object_and_finds_it(session: Engine) -> None:
    wb.put("one", name="a")
    found = session.find("a")
    assert wb.get(found) == "one"
    assert session.find("b") is None
    wb.put("two", name="a")
    assert wb.get(session.find("a")) == "two"
    assert wb.get(found) == "one"  # it has lost its name, not its ref
    wb.put("three", name="c")
    assert session.names() == ["a", "c"]
    session.unname("a")
    assert session.names() == ["c"]
    assert session.find("a") is None


def test_get_takes_names_and_ids(session: Engine) -> None:
    kept = wb.put([1], name="one"), wb.put([2], name="two")
    assert wb.get("one") == [1]
    assert wb.get(["two", kept[0]]) == [[2], [1]]
    with pytest.raises(ObjectLostError, match="no object named 'three'"):
        wb.get(["one", "three"])
    session.unname("one")
    session.unname("two")


@pytest.mark.parametrize("name", [3, b"x", ["x"], object()])
def test_a_name_that_is_no_text_is_refused_and_nothing_is_lost(session: Engine, name: Any) -> None:
    with pytest.raises(TypeError, match=r"name is text, not \w+\."):
        wb.put(1, name=name)
    assert wb.get(wb.put(1)) == 1


@pytest.mark.parametrize("limit", [-1, 2.5, "3", 1 << 70])
def test_a_limit_that_is_no_number_is_refused_and_nothing_is_lost(
    session: Engine, limit: Any
) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        wb.objects(limit=limit)
    assert wb.get(wb.put(1)) == 1


def test_a_name_may_be_the_path_of_a_file_that_is_no_unicode(session: Engine) -> None:
    """As `os.fsdecode` gives it. It poisoned the connection: every later call raised."""
    name = os.fsdecode(b"data\xff.csv")
    ref = wb.put([1, 2], name=name)
    found = session.find(name)
    assert found is not None
    assert wb.get(found) == [1, 2]
    assert session.names() == [r"data\udcff.csv"]
    assert wb.get(wb.put("and all else goes on")) == "and all else goes on"
    del ref
    wb.free(found)


def test_a_script_in_a_directory_that_is_no_unicode(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/d\xff"
    os.mkdir(directory)
    (Path(os.fsdecode(directory)) / "script.py").write_text(
        "import workbench as wb, os\n"
        "wb.init(workers=1)\n"
        "print(wb.get(wb.remote(os.getcwd).remote()) == os.getcwd())\n"
        "wb.shutdown()\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=directory, capture_output=True, timeout=TIMEOUT
    )
    assert (done.stdout, done.stderr) == (b"True\n", b"")


def test_whoever_is_told_of_a_name_at_once_finds_it(script: Callable[..., Script]) -> None:
    """Puts precede it, so the server has much to read from us when the other one asks."""
    wb.init(workers=1, memory="32MB", session="names", linger="1h")
    other = script(
        """
        engine = wb.init(session="names")
        say("joined")
        while number := hear():
            say(engine.find(f"name {number}") is not None, engine.find(f"also {number}") is None)
        """
    )
    assert other.line() == "joined"
    engine = wb.init(ignore_reinit_error=True)
    for number in range(100):
        refs = [wb.put(i) for i in range(200)]
        if number % 2:
            wb.put("named", name=f"name {number}")
        else:
            engine.name(refs[0], f"name {number}")
        other.tell(f"{number}")
        assert other.line() == "True True"
        engine.name(refs[0], f"also {number + 1}")
        refs += [wb.put(i) for i in range(200)]
        engine.unname(f"also {number + 1}")
    other.tell()
    assert other.wait() == 0
    wb.shutdown()


def test_two_drivers_share_names(script: Callable[..., Script]) -> None:
    other = script("""
        engine = wb.init(session="shared", workers=1)
        wb.put("from the other", name="theirs")
        say("ready")
        hear()
        say(wb.get(engine.find("ours")).sum())
        hear()
    """)
    assert other.line() == "ready"
    session = wb.init(session="shared")
    assert session.joined
    assert wb.get(session.find("theirs")) == "from the other"
    wb.put(large(), name="ours")
    other.tell()
    assert other.line() == str(large().sum())
    other.tell()
    assert other.wait() == 0  # it started the session, and leaves first
    assert wb.get(wb.remote(len).remote(session.find("ours"))) == len(large())
    assert session.names() == ["ours", "theirs"]
    wb.shutdown()


def test_what_an_idle_driver_drops_is_gone_for_all(script: Callable[..., Script]) -> None:
    idle = script("""
        import numpy as np
        engine = wb.init(session="shared", workers=1)
        ref = wb.put(np.ones(100_000))
        shown = wb.get(ref)
        say(wb.snapshot().live > 0)
        hear()
        del ref
        hear()
        del shown
        signal.pause()
    """)
    assert idle.line() == "True"
    session = wb.init(session="shared")
    [held] = session.snapshot().objects
    assert held.holders == held.viewers
    idle.tell()
    assert eventually(lambda: not session.snapshot().objects[0].holders)
    idle.tell()
    assert eventually(lambda: not session.snapshot().objects)
    wb.shutdown()


# -- without blocking -----------------------------------------------------------------------------


def test_await_and_futures(session: Engine, gate: Gate) -> None:
    @wb.remote
    def fails() -> None:
        raise KeyError("k")

    stop = wb.remote(gate.stop)

    async def main() -> None:
        pending = stop.remote()
        both = asyncio.gather(pending, wb.put("put"), fails.remote(), return_exceptions=True)
        visitor = await asyncio.to_thread(gate.next)
        visitor.let_on("awaited")
        assert await pending == "awaited"
        first, second, third = await both
        assert (first, second) == ("awaited", "put")
        assert isinstance(third, KeyError)

    asyncio.run(main())
    pending = stop.remote()
    futures = [pending.future(), pending.future()]
    assert not futures[0].done()
    assert not futures[0].cancel()
    gate.next().let_on("later")
    assert [future.result(TIMEOUT) for future in futures] == ["later", "later"]
    assert wb.put(3).future().result(TIMEOUT) == 3
    assert isinstance(fails.remote().future().exception(30), KeyError)


@pytest.mark.fresh_session
def test_a_put_tells_whether_it_was_the_first_use_of_its_memory(session: Engine) -> None:
    first, about = session.put(np.ones(1 << 18))
    assert about.cold
    assert " in new memory; " in put_line("x", about)
    (record,) = wb.snapshot().objects
    assert record.about is not None
    assert record.about.cold
    del first
    assert eventually(lambda: not wb.snapshot().objects)
    again, about = session.put(np.ones(1 << 18))
    assert not about.cold
    assert "new memory" not in put_line("x", about)
    assert again.id
