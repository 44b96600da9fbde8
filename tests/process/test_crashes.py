"""The crash table: at which step of a task what goes wrong, what the getter sees, what stays."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process import endings
from tests.process.gates import Gate
from tests.process.processes import Processes
from workbench import errors
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup

STEPS: dict[str, str] = {
    "argument unpickling": r"arguments\[0\]\[0\]\[0\] can't be rebuilt on the worker: ",
    "function unpickling": r"doomed.* can't be rebuilt on the worker: ",
    "running": "",
    "result pickling": r"the result of doomed\['model'\] \(.*OnPickling\): ",
    "result sealing": "",  # the result arrives: what is lost is a description of it
}
"""What is said of an error, before the error itself."""

ERRORS = {
    "exception": (LookupError, "LookupError: not here"),
    "unpicklable exception": (endings.LockedError, "LockedError: locked"),
}

DEATHS = {
    "os._exit": "exited with status 7",
    "SIGKILL": "was killed by SIGKILL, perhaps by Linux because memory ran out,",
    "SIGSEGV": "was killed by SIGSEGV",
}

LAST_WORDS = {
    "SIGSEGV": r"\nThe last it wrote to stderr:\nFatal Python error: Segmentation fault\n"
    r"(.*\n)*.*in string_at\n.*endings\.py"
}


def crash(way: str) -> str:
    death = DEATHS.get(way, "exited with status 6")
    return rf"Worker \d+ \(pid \d+\) {death} while it ran `doomed`"


def expected(step: str, way: str) -> tuple[type[BaseException] | None, str]:
    """What the getter sees: the error's type and text; None if the result is there."""
    if way in DEATHS:
        return errors.WorkerCrashedError, rf"^{crash(way)}\.{LAST_WORDS.get(way, '$')}"
    if way == "sys.exit":  # an error like others: the worker lives on
        return errors.TaskError, r"^SystemExit: 6$"
    if step == "result sealing":
        return None, ""
    kind, text = ERRORS[way]
    return kind if step == "running" else errors.SerializationError, STEPS[step] + text


def table(*quick: str) -> list[Any]:
    """For each step the ways: all of those that are always tried, and in `make test-all` others."""
    rest = [way for way in endings.WAYS if way not in quick]
    return [
        *((step, list(quick)) for step in STEPS if step != "running"),
        ("running", list(endings.WAYS)),
        *(pytest.param(s, rest, marks=pytest.mark.extended) for s in STEPS if s != "running"),
    ]


@pytest.fixture
def in_order(session: Engine) -> Callable[[], None]:
    """Whether the pool is whole, and nothing in the store but what was, and the ending had put."""
    before = {record.id for record in session.snapshot().objects}

    def whole() -> bool:
        now = session.snapshot()
        idle = [worker.state for worker in now.workers] == ["idle", "idle"]
        return idle and {record.id for record in now.objects} <= before

    def check() -> None:
        assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
        left = session.ask(Lookup("left"))
        assert left is not None
        assert (wb.get(left) == np.arange(endings.LARGE)).all()
        session.name(None, "left")
        del left
        gc.collect()  # a caught error's traceback holds refs, and is part of a cycle
        assert eventually(whole), session.snapshot()
        wb.put(np.zeros(63_500_000, np.uint8))  # all of the store: no extent was lost

    return check


def submit(step: str, ending: endings.Ending, **options: Any) -> Any:
    """A task called ``doomed`` that ends so at that step."""
    read = endings.OnUnpickling(ending)
    calls: dict[str, tuple[Any, ...]] = {
        "argument unpickling": (len, [read]),
        "function unpickling": (lambda: read,),
        "running": (lambda: ending(),),
        "result pickling": (lambda: {"model": endings.OnPickling(ending)},),
        "result sealing": (lambda: endings.OnSealing(ending),),
    }
    function, *args = calls[step]
    return wb.remote(function).options(name="doomed", **options).remote(*args)


def assert_ends(ref: wb.ObjectRef, kind: type[BaseException] | None, text: str) -> None:
    """Whoever gets it sees this; it is a TaskError too, unless the worker died."""
    if kind is None:
        assert (wb.get(ref).bytes == np.arange(endings.LARGE)).all()
        return
    with pytest.raises(kind) as caught:
        wb.get(ref)
    error = caught.value
    assert isinstance(error, errors.TaskError) == (kind is not errors.WorkerCrashedError)
    assert re.search(text, error.cause_text if isinstance(error, errors.TaskError) else str(error))


@pytest.mark.parametrize(("step", "ways"), table("exception", "os._exit"))
def test_what_goes_wrong_is_said_and_all_goes_on(in_order: Any, step: str, ways: list[str]) -> None:
    for way in ways:
        ref = submit(step, endings.Ending(way), max_retries=0)
        assert_ends(ref, *expected(step, way))
        del ref
        in_order()


def test_the_place_of_a_fault_is_said_however_much_is_written(session: Engine) -> None:
    """The fault handler's report begins with what matters, and ends with every extension module."""

    def deeper(depth: int) -> None:
        if depth:
            deeper(depth - 1)
        os.write(2, b"noise of a library\n" * 1000)
        ctypes.string_at(0)

    with pytest.raises(errors.WorkerCrashedError, match="SIGSEGV") as caught:
        wb.get(wb.remote(deeper).options(max_retries=0).remote(80))
    words = str(caught.value).partition("The last it wrote to stderr:\n")[2]
    assert words.startswith("Fatal Python error: Segmentation fault")
    assert "in string_at" in words
    assert 5 < words.count("in deeper") < 90
    assert "Extension modules" not in words


def test_last_words_are_the_end_of_what_the_task_that_crashed_wrote(session: Engine) -> None:
    @wb.remote(max_retries=0)
    def writes(text: bytes, dies: bool) -> None:
        os.write(2, text)
        if dies:
            endings.leave_at_once(1)

    wb.get([writes.remote(b"a warning of another task\n", False) for _ in range(4)])
    flood = b"first\n" + b"noise\n" * 50_000 + b"out of luck \xff"
    for text, said in ((b"bad", r"to stderr:\nbad$"), (flood, r"noise\nout of luck \\xff$")):
        with pytest.raises(errors.WorkerCrashedError, match=said) as caught:
            wb.get(writes.remote(text, True))
        assert len(str(caught.value)) < 2500


@pytest.mark.parametrize("way", ["exception", "os._exit"])
def test_a_result_already_written_when_the_next_one_fails(in_order: Any, way: str) -> None:
    @wb.remote(num_returns=2, max_retries=0, name="doomed")
    def two(ending: endings.Ending) -> Any:
        return np.arange(endings.LARGE), {"model": endings.OnPickling(ending)}

    kind, text = expected("result pickling", way)
    first, second = two.remote(endings.Ending(way))
    assert_ends(second, kind, text)
    if kind is errors.SerializationError:  # the failure of one result alone
        assert (wb.get(first) == np.arange(endings.LARGE)).all()
    else:
        assert_ends(first, kind, text)
    del first, second, two
    in_order()


class Patient:
    """Counts its calls. Defined here, so that its worker imports it."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, argument: Any = None, make: Callable[[], Any] | None = None) -> Any:
        self.calls += 1
        return self.calls if make is None else make()


def patients_arguments(step: str, ending: endings.Ending) -> tuple[Any, ...]:
    arguments: dict[str, tuple[Any, ...]] = {
        "argument unpickling": ([endings.OnUnpickling(ending)],),
        "running": (None, ending),
        "result pickling": (None, lambda: {"model": endings.OnPickling(ending)}),
        "result sealing": (None, lambda: endings.OnSealing(ending)),
    }
    return arguments[step]


CALLS = [
    ("running", ["exception", "sys.exit"]),
    ("argument unpickling", ["exception"]),
    ("result pickling", ["os._exit"]),
]
EVERY_CALL = [(step, list(endings.WAYS)) for step in STEPS if step != "function unpickling"]


@pytest.mark.parametrize(
    ("step", "ways"),
    [*CALLS, *(pytest.param(*call, marks=pytest.mark.extended) for call in EVERY_CALL)],
)
def test_a_call_that_goes_wrong(in_order: Any, step: str, ways: list[str]) -> None:
    """An error is the call's alone. A death is the actor's, which is made again if it may be."""
    for way in ways:
        arguments = patients_arguments(step, endings.Ending(way))
        patient = wb.remote(Patient).options(max_restarts=1).remote()
        call = patient.call.options(name="doomed")
        assert wb.get(call.remote()) == 1
        ref = call.remote(*arguments)
        if way in ERRORS:
            assert_ends(ref, *expected(step, way))
            assert wb.get(call.remote()) == (2 if step == "argument unpickling" else 3)
        else:
            words = LAST_WORDS.get(way, "$")
            again = rf"^{crash(way)}; Patient is made again\.{words}"
            with pytest.raises(errors.ActorDiedError, match=again):
                wb.get(ref)
            assert wb.get(call.remote()) == 1  # its state began anew
            for ref in (call.remote(*arguments), call.remote()):
                died = rf"^Patient died: {crash(way)}\.{words}"
                with pytest.raises(errors.ActorDiedError, match=died):
                    wb.get(ref)
        del patient, call, ref
        in_order()


def test_everything_ends_with_the_server(session: Engine, gate: Gate, processes: Processes) -> None:
    value = wb.put(np.arange(100_000))
    shown = wb.get(value)
    pending = wb.remote(gate.stop).remote()
    future = pending.future()
    gate.next()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wb.get, pending)
        processes.server().kill()
        assert "server hung up" in str(waiting.exception(TIMEOUT))
    assert isinstance(future.exception(TIMEOUT), errors.SessionError)

    async def awaits() -> None:
        await pending

    assert not wb.is_initialized()
    uses: list[Callable[[], object]] = [
        lambda: wb.put(1),
        lambda: wb.get(pending),
        lambda: wb.wait([pending]),
        lambda: wb.free(value),
        lambda: wb.remote(len).remote([]),
        wb.snapshot,
        pending.future,
        lambda: asyncio.run(awaits()),
    ]
    for use in uses:
        with pytest.raises(errors.SessionError, match=r"`init\(\)`"):
            use()
    assert "session over" in repr(pending)
    assert (shown == np.arange(100_000)).all()
    assert processes.gone()
    wb.shutdown()
