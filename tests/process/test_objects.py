"""Objects through the real store: what is put is what is got, without a copy; names, refs, free;
and `get(copy_on_write=True)`: writable, and only the pages that are written are copied."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Callable
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
from tests.process.processes import (
    address,
    few_descriptors,
    mapping_of,
    place_of,
    private_memory,
    private_pages,
)
from tests.process.scripts import Scripts
from workbench import errors
from workbench.core.snapshot import ObjectRecord
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Names, ShownBy, StoredAs
from workbench.error_notes.readonly import note_of
from workbench.system.sizes import PAGE

READ_ONLY = "r--s /memfd:workbench"


def large() -> np.ndarray[Any, Any]:
    return np.arange(40_000.0)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"n": range(3000), "x": np.linspace(0, 1, 3000)})


KINDS: dict[str, tuple[Any, Callable[[Any], list[Any]]]] = {
    "strided": (large()[::3], lambda value: [value]),
    "nested": ({"a": [large(), (3,)], "b": large()[1:]}, lambda v: [v["a"][0], v["b"]]),
    "a frame": (frame(), lambda value: [value["n"].to_numpy(), value["x"].to_numpy()]),
}


def test_arrays_are_read_where_they_lie_and_cannot_be_changed(session: Engine) -> None:
    for kind, (value, arrays) in KINDS.items():
        ref = wb.put(value)
        for array in arrays(wb.get(ref)):
            assert mapping_of(array.__array_interface__["data"][0]) == READ_ONLY, kind
            assert not array.flags.writeable
            with pytest.raises(ValueError, match=r"cannot set|read-only"):
                array.flags.writeable = True
        copy = wb.get(ref, copy=True)
        assert all(map(np.array_equal, arrays(copy), arrays(value))), kind
        for array in arrays(copy):
            assert "memfd" not in mapping_of(array.__array_interface__["data"][0])
            if isinstance(copy, pd.DataFrame):  # pandas' own arrays are read-only from outside
                copy.loc[:, "x"] = 0
            else:
                array[...] = 0
        assert all(map(np.array_equal, arrays(wb.get(ref)), arrays(value))), kind


def test_the_original_and_small_arrays_are_not_shared_with_the_object(session: Engine) -> None:
    for original in (np.arange(5), large()):
        ref = wb.put(original)
        original[0] = 99
        wb.get(ref, copy=True)[0] = 98
        assert wb.get(ref)[0] == 0
        assert not wb.get(ref).flags.writeable
    ref = wb.put({"x": np.zeros(5)})
    array = wb.get(ref)["x"]
    ctypes.memset(array.ctypes.data, 1, array.nbytes)  # C code may, whatever the flag says
    assert not wb.get(ref)["x"].any()
    assert session.ask(ShownBy(array)) is not None  # it still shows the object


def test_what_numpy_writes_to_although_it_is_read_only_is_refused(session: Engine) -> None:
    """Here and in a task; `tests/unit/memory/test_ufunc_guard.py` shows which."""
    ref = wb.put(np.zeros(40_000), name="sums")
    shown = wb.get(ref)
    with pytest.raises(ValueError, match="read-only") as caught:
        np.add.at(shown, [0, 1, 1], 1.0)
    assert "the stored object 'sums'" in note_of(caught.value)
    assert "Two ways out" in note_of(caught.value)
    nameless = wb.get(wb.put(np.zeros(40_000)))
    with pytest.raises(ValueError, match="read-only") as caught:
        np.add.at(nameless, [0], 1.0)
    assert "change. The way out: `nameless = nameless.copy()`" in note_of(caught.value)
    kept = wb.put(np.zeros(40_000))
    nameless = wb.get(kept)
    with pytest.raises(ValueError, match="read-only") as caught:
        np.add.at(nameless, [0], 1.0)
    assert "or get a private copy: `get(kept, copy=True)`" in note_of(caught.value)
    with pytest.raises(ValueError, match="read-only"):
        wb.get(wb.remote(lambda into: np.add.at(into, 0, 1.0)).remote(ref))
    assert not shown.any()
    session.name(None, "sums")


def test_get_takes_refs_names_and_lists_of_them(session: Engine) -> None:
    refs = [wb.put(i) for i in range(3)]
    assert wb.get(refs) == [0, 1, 2]
    assert wb.get((refs[2], refs[0], refs[2])) == [2, 0, 2]
    assert wb.get([]) == []
    kept = wb.put([1], name="one"), wb.put([2], name="two")
    assert wb.get("one") == [1]
    assert wb.get(["two", kept[0]]) == [[2], [1]]
    with pytest.raises(errors.ObjectLostError, match="no object named 'three'"):
        wb.get(["one", "three"])
    for wrong in (3, [refs[0], 3], {refs[0]}):
        with pytest.raises(TypeError, match="ObjectRef"):
            wb.get(wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="ObjectRef"):
        wb.free([3])  # type: ignore[list-item]
    with pytest.raises(errors.SerializationError, match="ObjectRef already"):
        wb.put(refs[0])
    session.name(None, "one")
    session.name(None, "two")


def test_get_runs_out_of_time_and_the_object_comes_later(session: Engine, gate: Gate) -> None:
    slow, quick = wb.remote(gate.stop).remote(), wb.put(1)
    visitor = gate.next()
    for get, timeout in ((wb.get, 0), (wb.get, 0.01), (wb.gather, 0.01)):
        with pytest.raises(errors.GetTimeoutError, match=f"1 of 2 .* not ready after {timeout}"):
            get([quick, slow], timeout=timeout)
    visitor.let_on("late")
    for get, timeout in ((wb.get, TIMEOUT), (wb.gather, TIMEOUT), (wb.gather, 0)):
        assert get([slow, quick], timeout=timeout) == ["late", 1]
    wb.get(wb.remote(lambda: wb.put("there", name="it")).remote())
    ref = session.ask(Lookup("it"))
    assert wb.wait([ref], timeout=0) == ([ref], []), "it asks once"
    del ref
    assert wb.get(session.ask(Lookup("it")), timeout=0) == "there"


def test_get_of_several_raises_as_soon_as_one_has_failed(session: Engine, gate: Gate) -> None:
    runs = wb.remote(gate.stop).remote()
    visitor, freed = gate.next(), wb.put(2)
    wb.free(freed)
    failed = wb.remote(lambda: {}["not here"]).remote()
    for ref, error in ((failed, KeyError), (freed, errors.ObjectFreedError)):
        with pytest.raises(error):
            wb.get([wb.put(1), runs, ref])
    with pytest.raises(errors.GetTimeoutError):
        wb.get(runs, timeout=0)  # others' failures are none of its own
    visitor.let_on()
    assert wb.get(runs) == "go"


def test_wait_refuses_what_makes_no_sense(session: Engine) -> None:
    ref = wb.put(1)
    for refs, count, error, found in (
        ([ref, ref], 1, ValueError, "twice"),
        ([ref], 0, ValueError, "num_returns"),
        ([ref], 2, ValueError, "num_returns"),
        (ref, 1, TypeError, r"wait\(\[ref\]\)"),
        ([1], 1, TypeError, "an int"),
        ([ref, "r"], 1, TypeError, "a str"),
        (3, 1, TypeError, "an int"),
    ):
        with pytest.raises(error, match=found):
            wb.wait(refs, num_returns=count)  # type: ignore[arg-type]
    assert wb.wait([]) == ([], [])


def test_a_ref_to_what_is_gone(session: Engine) -> None:
    ref = wb.put(1)
    gone = ref.id
    del ref
    session.snapshot()
    stale = session.borrow(gone)
    with pytest.raises(errors.ObjectLostError, match="no such object"):
        wb.get(stale)
    with pytest.raises(errors.ObjectLostError):
        wb.get(wb.remote(lambda value: value).remote(stale))
    assert wb.get(wb.put("goes on")) == "goes on"


class Smuggled:
    """Pickled, it is what is read from these bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


def test_a_ref_of_another_session(runtime: str) -> None:
    wb.init(workers=1)
    ref = wb.put(1)
    escaped = pickle.dumps(ref)
    handle = pickle.dumps(wb.remote(type("Idle", (), {})).remote())
    wb.shutdown()
    with pytest.raises(errors.ForeignRefError, match=r"belongs to session .* no session.*only"):
        pickle.loads(escaped)
    wb.init(workers=1)
    with pytest.raises(errors.ForeignRefError, match="this process has session"):
        pickle.loads(escaped)
    uses: list[Callable[[], object]] = [
        lambda: wb.get(wb.put(Smuggled(escaped))),
        lambda: wb.get(ref),
        lambda: wb.put([ref]),
        lambda: wb.free(ref),
        lambda: wb.wait([ref]),
        lambda: wb.gather([ref]),
        lambda: list(wb.as_completed([ref])),
        lambda: wb.remote(len).remote(ref),
        lambda: wb.remote(len).remote([ref]),
    ]
    for use in uses:
        with pytest.raises(errors.ForeignRefError):
            use()
    with pytest.raises(ValueError, match="belongs to session"):
        pickle.loads(handle)
    assert "session over" in repr(ref)
    with pytest.raises(errors.SessionError):
        ref.future()
    assert wb.get(wb.put("goes on")) == "goes on"


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        *((lambda name=name: wb.put(1, name=name), TypeError) for name in (3, b"x", ["x"])),
        *((lambda n=n: wb.objects(limit=n), ValueError) for n in (-1, 2.5, "3", 1 << 70)),
        (lambda: wb.objects(sort="colour"), ValueError),  # type: ignore[arg-type]
    ],
)
def test_names_limits_and_orders_that_make_no_sense_are_refused(
    session: Engine, refused: Callable[[], object], error: type[Exception]
) -> None:
    told = r"name is text, not \w+\.|must be a whole number|sorted by size, age, name, type, not by"
    with pytest.raises(error, match=told):
        refused()
    assert wb.get(wb.put(1)) == 1, "nothing is lost by it"


def test_two_drivers_share_names_and_objects(script: Scripts) -> None:
    other = script("""
        import numpy as np
        from workbench.engine.queries import Lookup
        engine = wb.init(session="shared", workers=1)
        wb.put("from the other", name="theirs")
        ref = wb.put(np.ones(100_000))
        shown = wb.get(ref)
        say(wb.snapshot().live > 0)
        while name := hear():
            say(engine.ask(Lookup(name)) is not None)
        del ref
        hear()
        del shown
        hear()
    """)
    assert other.line() == "True"
    session = wb.init(session="shared")
    assert session.facts.joined
    assert wb.get(session.ask(Lookup("theirs"))) == "from the other"
    kept = wb.put(large(), name="ours")
    for number in range(1, 16):
        refs = [wb.put(i) for i in range(200)]
        for ref, is_there in ((refs[0], True), (None, False)):
            session.name(ref, f"{number}")
            other.tell(f"{number}")  # who is told of a name at once finds it
            assert other.line() == str(is_there)
    del refs

    def theirs() -> list[ObjectRecord]:
        return [record for record in session.snapshot().objects if not record.names]

    # What an idle driver drops is gone for all.
    (held,) = theirs()
    assert held.holders == held.viewers
    other.tell()
    assert eventually(lambda: not theirs()[0].holders)
    other.tell()
    assert eventually(lambda: not theirs())
    other.tell()
    assert other.wait() == 0  # it started the session, and leaves first
    assert wb.get(wb.remote(len).remote(kept)) == len(large())
    assert sorted(session.ask(Names())) == ["ours", "theirs"]


PRIVATE = "rw-p /memfd:workbench"
N = 2_000_000  # 16 MB of floats


def get(ref: wb.ObjectRef) -> Any:
    return wb.get(ref, copy_on_write=True)


def test_only_the_pages_that_are_written_are_copied(session: Engine) -> None:
    ref = wb.put(np.ones(N))
    shown = wb.get(ref)
    before = private_memory()
    own = get(ref)
    assert own.sum() == N  # to read copies nothing
    assert own.flags.writeable
    assert mapping_of(address(own)) == PRIVATE
    assert address(own) != address(shown)
    assert place_of(address(own)) == place_of(address(shown))
    assert private_pages(address(own)) == 0
    own[0] = own[1] = own[N // 2] = 7
    assert private_pages(address(own)) == 2 * PAGE
    assert private_memory() - before < own.nbytes / 8
    assert (shown == 1).all()
    own[:] = 3
    assert private_pages(address(own)) >= own.nbytes
    assert private_memory() - before >= own.nbytes


def test_nobody_else_sees_it(session: Engine) -> None:
    ref = wb.put(np.zeros(N))
    one, other = get(ref), get(ref)
    one[:] = 1
    other[3] = 2

    @wb.remote
    def total(array: Any, again: list[wb.ObjectRef]) -> tuple[float, float]:
        own = wb.get(again[0], copy_on_write=True)
        own += 1
        return array.sum(), own.sum()

    assert wb.get(total.remote(ref, [ref])) == (0, N)
    assert (wb.get(ref).sum(), one.sum(), other.sum()) == (0, N, 2)
    # What is passed on is what is there now, not what is stored.
    assert wb.get(total.remote(one, [ref]))[0] == wb.get(wb.put(one)).sum() == N


def test_what_has_arrays_inside(session: Engine) -> None:
    x = np.arange(float(N))
    frame = pd.DataFrame({"x": x, "s": pd.array(["a"] * N, "string[pyarrow]")})

    def write_frame(value: Any) -> Any:
        value["a"][0].loc[3, "x"] = -1
        return value["a"][0]["x"].to_numpy()

    def write_table(table: Any) -> Any:
        column = np.frombuffer(table["x"].chunk(0).buffers()[1])
        column[3] = -1
        return column

    for value, write in (({"a": [frame, 1]}, write_frame), (pa.table({"x": x}), write_table)):
        ref = wb.put(value)
        written = write(get(ref))
        assert written[:5].tolist() == [0, 1, 2, -1, 4]
        assert mapping_of(address(written)) == PRIVATE
        assert private_pages(address(written)) <= 8 * PAGE
        assert write(wb.get(ref, copy=True))[4] == 4


def test_what_is_small_or_finds_no_descriptor_is_copied(session: Engine) -> None:
    """Inline, or in an extent: a mapping would take longer."""
    for length in (0, 3, 3000, 30_000):
        ref = wb.put([np.zeros(length), {"n": length}])
        own, rest = get(ref)
        own[:] = 1
        assert rest == {"n": length}
        assert "memfd" not in mapping_of(address(own))
        assert not wb.get(ref)[0].any()
    ref = wb.put(np.zeros(N))
    wb.get(ref)
    with few_descriptors(os.getpid()):
        own = get(ref)
        own[:] = 1
    assert (own.sum(), wb.get(ref).sum()) == (N, 0)
    with pytest.raises(ValueError, match="Say one"):
        wb.get(ref, copy=True, copy_on_write=True)


def test_it_keeps_the_bytes_and_dies_with_the_last_view(session: Engine) -> None:
    ref = wb.put(np.arange(float(N)))
    own = get(ref)
    assert "`own`" in str(wb.why(ref, deep=True))
    part = own[10:20]
    del own
    wb.free(ref)
    assert wb.snapshot().live >= 8 * N  # `part` needs them
    again = wb.put(np.zeros(N))
    assert part.tolist() == [*range(10, 20)]
    part[0] = 5
    del part
    wb.free(again)
    assert eventually(lambda: wb.snapshot().live < 8 * N)


def test_several_refs_have_a_mapping_each_and_small_arrays_none(session: Engine) -> None:
    refs = [wb.put(np.full(N // 8, i)) for i in range(3)]
    refs.append(wb.put([np.zeros(N // 8)] + [np.zeros(40) for _ in range(500)]))
    wb.get(refs)  # their segment is mapped
    before = len(os.listdir("/proc/self/fd"))
    *owns, mixed = wb.get(refs, copy_on_write=True)
    assert len(os.listdir("/proc/self/fd")) - before == 4
    for own in [*owns, mixed[500]]:
        own += 1
    assert [int(own[0]) for own in owns] == [1, 2, 3]
    assert [int(each[0]) for each in wb.get(refs[:3])] == [0, 1, 2]


def test_on_disk_and_after_the_session(tmp_path: Path) -> None:
    engine = wb.init(workers=0, memory="64MB", spill_dir=str(tmp_path))
    ref = wb.put(np.zeros(N))
    wb.spill(ref)
    own = get(ref)
    own[5] = 1
    assert own.sum() == 1
    assert private_pages(address(own)) == PAGE
    shown = wb.get(ref)
    assert shown.sum() == 0
    assert engine.ask(StoredAs(shown)) is ref
    later = get(wb.put(np.zeros(N)))
    later[0] = 1
    wb.shutdown()
    later[N // 2] = 1
    assert later.sum() == 2
    assert engine.ask(StoredAs(shown)) is None
