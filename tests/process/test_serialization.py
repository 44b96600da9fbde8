"""Serialization through a whole session: refs in values, what fails and where, what it costs;
custom serializers, registered in one process, known in all.

The classes are made by each test, as a notebook's cells make them: nobody can import them.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import itertools
import os
import pickle
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Scripts
from workbench import error_notes
from workbench.core.snapshot import ObjectRecord
from workbench.engine.base import Engine
from workbench.errors import (
    ObjectFreedError,
    SerializationError,
    StoreFullError,
    TaskError,
    WorkerCrashedError,
)

LARGE = np.arange(100_000.0)


class Breaks:
    def __reduce__(self) -> Any:
        raise ValueError("not today")


def record(id: int) -> ObjectRecord:
    return next(r for r in wb.snapshot().objects if r.id == id)


def line_of_caller() -> int:
    return inspect.stack()[1].lineno


class Endless:
    """Its pickle has no end, and no Python code runs while it grows."""

    def __reduce__(self) -> Any:
        return list, (), None, itertools.repeat(1 << 40)


def test_a_pickle_without_end_ends_at_the_stores_size(session: Engine) -> None:
    with pytest.raises(StoreFullError, match=r"given up after 64.* MB"):
        wb.put(Endless())
    assert eventually(lambda: not wb.snapshot().objects)


def test_ctrl_c_ends_a_pickle_without_end(runtime: str, script: Scripts) -> None:
    run = script("""
        import itertools, warnings
        class Endless:
            def __reduce__(self):
                say("pickling")
                return list, (), None, itertools.repeat(1 << 40)
        with warnings.catch_warnings(action="ignore"):  # it is larger than the machine's memory
            wb.init(workers=0, memory="64GB")
        for again in range(3):
            try:
                wb.put(Endless())
            except KeyboardInterrupt:
                say(len(wb.snapshot().objects), wb.get(wb.put("goes on")))
    """)
    for _ in range(3):
        assert run.line() == "pickling"
        run.signal(signal.SIGINT)
        assert run.line() == "0 goes on"


def test_what_breaks_is_named_and_nothing_half_written_stays(session: Engine) -> None:
    value = {"fine": LARGE, "bad": Breaks()}
    with pytest.raises(SerializationError, match=r"value\['bad'\] \("):
        wb.put(value)
    with pytest.raises(TypeError, match=r"model\['a'\] \("):
        wb.remote(sorted).remote([], model={"a": Breaks()})
    with pytest.raises(TypeError, match=r"lambda.*'?value"):
        wb.remote(lambda: value).remote()
    for broken in ([LARGE, Breaks()], {"a": b"x" * 10_000_000, "b": Breaks()}):
        for attempt in (wb.put, wb.remote(len).remote):
            with pytest.raises(SerializationError, match="not today"):
                attempt(broken)
    assert eventually(
        lambda: not [r for r in wb.snapshot().objects if "function" not in r.about.type]
    )
    wb.put(np.zeros(60_000_000, np.uint8))  # there is room for it


CODE = "class Thing: x = 2\nclass Odd(Exception): ...\ndef double(x): return 2 * x\n"


def test_no_class_there(session: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/unit/serialization/test_rebuilding.py` shows the paths."""
    take = wb.remote(lambda value: value)
    wb.get(take.remote(1))  # so that a worker is there
    (tmp_path / "only_here.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    things = wb.put({"a": [1, only_here.Thing()]})
    for ref, path in (
        (take.remote(value=things), r"value\['a'\]\[1\]"),
        (take.remote(only_here.Thing()), r"arguments"),
        (wb.remote(only_here.double).remote(1), r"double"),
    ):
        said = rf"(?s){path}.* can't be rebuilt on the worker: ModuleNotFoundError.*PYTHONPATH"
        with pytest.raises(TaskError, match=said):
            wb.get(ref)
    assert wb.get(things)["a"][1].x == 2  # here it can
    with pytest.raises(SerializationError, match="retry_exceptions"):
        wb.get(wb.remote(retry_exceptions=only_here.Odd)(lambda: 1).remote())


def test_a_ref_in_a_closure_an_attribute_a_list_keeps_its_object(session: Engine) -> None:
    def closing_over(ref: Any) -> Any:
        return lambda: wb.get(ref)

    for wrap, unwrap in (
        (lambda ref: [1, {"k": ref}], lambda value: wb.get(value[1]["k"])),
        (closing_over, lambda value: value()),
        (lambda ref: SimpleNamespace(ref=ref), lambda value: wb.get(value.ref)),
    ):
        inner = wb.put("inner")
        outer = wb.put(wrap(inner))
        wanted = inner.id
        del inner
        assert eventually(lambda: not record(wanted).holders)  # noqa: B023
        assert record(wanted).parents == 1
        assert unwrap(wb.get(outer)) == "inner"
        del outer
    assert eventually(lambda: not wb.snapshot().objects)


def test_a_ref_pickled_into_a_file_stays_good_until_free(session: Engine, tmp_path: Path) -> None:
    ref, path = wb.put({"answer": 42}), tmp_path / "ref.pkl"
    id = ref.id
    path.write_bytes(cloudpickle.dumps(ref))
    line = line_of_caller() - 1
    pickle.dumps(copy.deepcopy([copy.copy(ref)]))
    del ref
    assert wb.get(wb.put(1)) == 1
    assert eventually(lambda: not record(id).holders)
    assert record(id).escapes == (
        f"test_serialization.py:{line}", f"test_serialization.py:{line + 2}",
    )  # fmt: skip

    there = wb.remote(lambda: wb.get(pickle.loads(path.read_bytes()))).remote()
    again = pickle.loads(path.read_bytes())
    assert wb.get(there) == wb.get(again) == {"answer": 42}
    wb.free(again)
    with pytest.raises(ObjectFreedError):
        wb.get(again)
    del again
    assert eventually(lambda: id not in {r.id for r in wb.snapshot().objects})


def write_to(value: Any) -> None:
    value[0] = 1


WRITES: list[Callable[[Any], Any]] = [
    lambda array: write_to(array),
    lambda array: array.sort(),
    lambda array: np.add(array, 1, out=array),
    lambda array: write_to(array[5:][::2]),
]


def test_writing_to_a_stored_array_says_what_to_do(session: Engine) -> None:
    ref = wb.put(np.arange(100_000), name="data")
    for write in WRITES:

        @wb.remote
        def task(array: Any) -> None:
            write(array)  # noqa: B023

        with pytest.raises(ValueError, match="read-only") as caught:
            wb.get(task.remote(ref))
        (note,) = [n for n in caught.value.remote_notes if "what is stored" in n]
        assert "the stored object 'data' (ndarray int64" in note
        assert re.search(r"The way out in a task: `(array|value) = \1\.copy\(\)`\.", note)
        with pytest.raises(ValueError, match="read-only") as ours:
            write(wb.get(ref))
        error_notes.explain(ours.value)
        (note,) = ours.value.__notes__
        assert "`%get data --copy`" in note
        assert "`get(ref, copy=True)`" in note
        write(wb.get(ref, copy=True))
    wb.free(ref)


def test_the_note_is_for_stored_arrays_alone(session: Engine) -> None:
    @wb.remote
    def task(kept: Any) -> None:
        array = np.arange(3)
        array.flags.writeable = False
        array[0] = 1

    with pytest.raises(ValueError, match="read-only") as caught:
        wb.get(task.remote(wb.put(LARGE)))
    assert not any("stored" in note for note in caught.value.remote_notes)


def test_what_nobody_catches_is_explained_while_there_is_a_session(runtime: str) -> None:
    def uncaught(act: Callable[[], object]) -> str:
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            try:
                act()
            except Exception as error:
                sys.excepthook(type(error), error, error.__traceback__)
        return shown.getvalue()

    wb.init(workers=1)
    x = wb.get(wb.put({"a": LARGE}))
    assert "copy the array before you change it" in uncaught(lambda: write_to(x["a"]))
    model: Any = wb.put([1.0, 2.0])
    assert uncaught(lambda: model.coef_).splitlines()[-1] == (
        "`model` is a ref to a stored list: `wb.get(model)` returns the value."
    )
    assert "8 TB was asked for" in uncaught(lambda: np.ones(10**12))
    of_a_task = uncaught(lambda: wb.get(wb.remote(np.ones).remote(10**12)))
    assert "asked for" not in of_a_task
    wb.shutdown()
    assert not type(sys.excepthook).__module__.startswith("workbench")


def test_every_put_and_first_get_records_what_it_cost(session: Engine) -> None:
    ref = wb.put({"a": LARGE, "b": [1, 2]})
    about, line = record(ref.id).about, line_of_caller() - 1
    assert about is not None
    assert (about.type, about.outband, about.buffers) == ("dict (2)", LARGE.nbytes, 1)
    assert about.site == f"test_serialization.py:{line}"
    assert 50 < about.inband < 500
    assert min(about.pickle_seconds, about.copy_seconds) > 0
    assert record(ref.id).load_seconds == 0
    wb.get(ref)
    first = record(ref.id).load_seconds
    assert first > 0
    wb.get(ref)
    assert record(ref.id).load_seconds == first

    made = wb.remote(lambda: [LARGE * 2, "made"]).remote()
    wb.wait([made])
    about = record(made.id).about
    assert about is not None
    assert about.outband == LARGE.nbytes
    assert "result of" in about.site
    assert record(made.id).load_seconds == 0
    nothing = wb.remote(lambda value: None).remote(made)
    wb.get(nothing)
    assert eventually(lambda: record(made.id).load_seconds > 0)  # the worker's was the first
    assert record(nothing.id).load_seconds == 0  # it is None: nothing was built


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
