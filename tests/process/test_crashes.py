"""The crash table: at which step of a task what goes wrong, what the getter sees, what stays."""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.endings import (
    LARGE,
    WAYS,
    Ending,
    LockedError,
    OnPickling,
    OnSealing,
    OnUnpickling,
)
from tests.process.gates import Gate, Visitor
from tests.process.processes import Processes
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError, SerializationError, TaskError, WorkerCrashedError

pytestmark = pytest.mark.fresh_session


# -- the table -------------------------------------------------------------------------------------

Expected = tuple[type[BaseException] | None, str]

ARRIVES: Expected = None, ""  # the result is there all the same

DEATHS = {
    "os._exit": "exited with status 7",
    "SIGKILL": "was killed by SIGKILL, perhaps by Linux because memory ran out,",
    "SIGSEGV": "was killed by SIGSEGV",
}

DEATHS_OF_ACTORS = DEATHS | {"sys.exit": "exited with status 6"}

LAST_WORDS = {
    "SIGSEGV": r"\nThe last it wrote to stderr:\nFatal Python error: Segmentation fault\n"
    r"(.*\n)*.*in string_at\n.*endings\.py"
}

# At every step alike.
ENDS: dict[str, Expected] = {
    "sys.exit": (SystemExit, r"^SystemExit: 6$"),  # an error like others: the worker lives on
    **{
        way: (
            WorkerCrashedError,
            rf"^Worker \d+ \(pid \d+\) {death} while it ran `doomed`\.{LAST_WORDS.get(way, '$')}",
        )
        for way, death in DEATHS.items()
    },
}

TABLE: dict[str, dict[str, Expected]] = {
    "argument unpickling": {
        "exception": (
            SerializationError,
            r"arguments\[0\]\[0\]\[0\] can't be rebuilt on the worker: LookupError: not here",
        ),
        "unpicklable exception": (
            SerializationError,
            r"arguments\[0\]\[0\]\[0\] can't be rebuilt on the worker: LockedError: locked",
        ),
        **ENDS,
    },
    "function import": {
        "exception": (
            SerializationError,
            r"doomed can't be rebuilt on the worker: LookupError: not here",
        ),
        "unpicklable exception": (
            SerializationError,
            r"doomed can't be rebuilt on the worker: LockedError: locked",
        ),
        **ENDS,
    },
    "running": {
        "exception": (LookupError, r"^LookupError: not here$"),
        "unpicklable exception": (LockedError, r"LockedError: locked$"),
        **ENDS,
    },
    "result pickling": {
        "exception": (
            SerializationError,
            r"the result of doomed\['model'\] \(.*OnPickling\): LookupError: not here",
        ),
        "unpicklable exception": (
            SerializationError,
            r"the result of doomed\['model'\] \(.*OnPickling\): LockedError: locked",
        ),
        **ENDS,
    },
    "result sealing": {
        "exception": ARRIVES,  # what is lost is a description of it
        "unpicklable exception": ARRIVES,
        **ENDS,
    },
}


class Doom:
    """Submits tasks that end in some way at some step. To be made before the session.

    Its modules are harmless in this process. Tasks count themselves in a file.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "runs"
        self._file.touch()
        self._modules = {}
        for number, way in enumerate(WAYS):
            (directory / f"doomed_{number}.py").write_text(
                "import os\n"
                "from tests.process.endings import Ending\n"
                "def function(): return 'lived'\n"
                f"if os.getpid() != {os.getpid()}: Ending({way!r}, {str(self._file)!r})()\n"
            )
            self._modules[way] = importlib.import_module(f"doomed_{number}")

    def ending(self, way: str) -> Ending:
        return Ending(way, str(self._file))

    def submit(self, step: str, way: str, **options: Any) -> Any:
        """A task called ``doomed``."""
        ending = self.ending(way)
        calls: dict[str, tuple[Any, ...]] = {
            "argument unpickling": (len, [OnUnpickling(ending)]),
            "function import": (self._modules[way].function,),
            "running": (lambda: ending(),),
            "result pickling": (lambda: {"model": OnPickling(ending)},),
            "result sealing": (lambda: OnSealing(ending),),
        }
        function, *args = calls[step]
        return wb.remote(function).options(name="doomed", **options).remote(*args)

    def runs(self) -> int:
        """How often any of them got to its end."""
        return self._file.stat().st_size


@pytest.fixture
def doom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doom]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Doom(tmp_path)
    for name in [name for name in sys.modules if name.startswith("doomed_")]:
        del sys.modules[name]


def assert_fails(ref: wb.ObjectRef, kind: type[BaseException], text: str) -> None:
    """Whoever gets it sees this; it is a TaskError too, unless the worker died."""
    with pytest.raises(kind) as caught:
        wb.get(ref)
    error = caught.value
    assert isinstance(error, TaskError) == (kind is not WorkerCrashedError)
    assert re.search(text, error.cause_text if isinstance(error, TaskError) else str(error))


def assert_in_order(session: Engine) -> None:
    """The pool is whole, and nothing is in the store but what the ending had put."""
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
    left = session.find("left")
    assert left is not None
    assert (wb.get(left) == np.arange(LARGE)).all()
    session.unname("left")
    del left
    gc.collect()  # a caught error's traceback holds refs, and is part of a cycle

    def whole() -> bool:
        now = session.snapshot()
        return [w.state for w in now.workers] == ["idle", "idle"] and not now.objects

    assert eventually(whole), session.snapshot()
    assert session.snapshot().live == 0
    wb.put(np.zeros(63_900_000, np.uint8))  # all of the store: no extent was lost


@pytest.mark.parametrize("step", TABLE)
def test_what_goes_wrong_is_said_and_the_session_goes_on(
    doom: Doom, session: Engine, step: str
) -> None:
    assert sorted(TABLE[step]) == sorted(WAYS)
    for way, (kind, text) in TABLE[step].items():
        ref = doom.submit(step, way, max_retries=0)
        if kind is None:
            assert (wb.get(ref).bytes == np.arange(LARGE)).all()
        else:
            assert_fails(ref, kind, text)
        del ref
        assert_in_order(session)


# -- again, and what was queued --------------------------------------------------------------------


@pytest.mark.parametrize("step", TABLE)
def test_after_a_crash_it_is_run_again_as_often_as_it_may(
    doom: Doom, session: Engine, step: str
) -> None:
    with pytest.raises(WorkerCrashedError, match="exited with status 7 while it ran `doomed`"):
        wb.get(doom.submit(step, "os._exit", max_retries=2))
    assert doom.runs() == 3
    assert_in_order(session)


@pytest.mark.parametrize("way", ["exception", "sys.exit", "unpicklable exception"])
def test_after_an_error_it_is_not_run_again(doom: Doom, session: Engine, way: str) -> None:
    with pytest.raises(TaskError):
        wb.get(doom.submit("running", way, max_retries=2))
    assert doom.runs() == 1


def queued_behind(
    session: Engine, gate: Gate, short: Any, submit: Callable[[], list[wb.ObjectRef]], most: int
) -> tuple[list[wb.ObjectRef], Visitor]:
    """Tasks of which one stands at the gate, and others were sent to its worker behind it.

    A function is short if it was so often; where just those runs waited for a processor, it is
    tried again. ``most`` are those that may be with the worker without being enough.
    """
    for _ in range(100):
        wb.get([short.remote(-1) for _ in range(100)])
        refs = submit()
        visitor = gate.next()
        if len(session.snapshot().workers[0].tasks) > most:
            return refs, visitor
        visitor.let_on("once more")
        wb.get(refs)
    pytest.fail("nothing is sent ahead")


def test_what_was_queued_behind_a_crash_is_neither_charged_nor_lost(
    runtime: str, gate: Gate, tmp_path: Path
) -> None:
    session = wb.init(workers=1)
    stop, file = gate.stop, tmp_path / "runs"

    @wb.remote(max_retries=0, name="short")
    def short(number: int) -> int:
        import os

        if number < 0:
            return number
        with open(file, "a") as runs:
            runs.write(f"{number}\n")
        if number == 0 and stop() == "end":
            os._exit(3)
        return number

    def submit() -> list[wb.ObjectRef]:
        file.unlink(missing_ok=True)
        return [short.remote(number) for number in range(6)]

    refs, visitor = queued_behind(session, gate, short, submit, 1)
    visitor.let_on("end")
    with pytest.raises(WorkerCrashedError, match="status 3 while it ran `short`"):
        wb.get(refs[0])
    assert wb.get(refs[1:]) == list(range(1, 6))
    assert sorted(map(int, file.read_text().split())) == list(range(6))


# -- last words ------------------------------------------------------------------------------------


def test_the_place_of_a_fault_is_said_however_much_is_written(session: Engine) -> None:
    """The fault handler's report begins with what matters, and ends with every extension module."""

    @wb.remote(max_retries=0)
    def faults(depth: int) -> None:
        import ctypes
        import os

        import pandas  # noqa: F401

        if depth:
            faults._function(depth - 1)
        os.write(2, b"noise of a library\n" * 1000)
        ctypes.string_at(0)

    with pytest.raises(WorkerCrashedError, match="SIGSEGV") as caught:
        wb.get(faults.remote(80))
    words = str(caught.value).partition("The last it wrote to stderr:\n")[2]
    assert words.startswith("Fatal Python error: Segmentation fault")
    assert "in string_at" in words
    assert 5 < words.count("in faults") < 90
    assert "Extension modules" not in words
    with pytest.raises(WorkerCrashedError, match="SIGSEGV") as caught:
        wb.get(faults.remote(0))
    assert "in faults" in str(caught.value)
    assert "Extension modules" not in str(caught.value)


def test_the_last_words_of_a_flood(session: Engine) -> None:
    @wb.remote(max_retries=0)
    def complains() -> None:
        import os

        os.write(2, b"first\n" + b"noise\n" * 50_000 + b"out of luck \xff")
        os._exit(1)

    with pytest.raises(WorkerCrashedError) as caught:
        wb.get(complains.remote())
    assert str(caught.value).endswith("noise\nout of luck \\xff")
    assert len(str(caught.value)) < 2500


def test_the_task_that_ran_is_blamed_not_one_whose_result_was_still_on_its_way(
    runtime: str, gate: Gate, tmp_path: Path
) -> None:
    """Results of short tasks wait for each other: at a crash, some of those before it are lost."""
    session = wb.init(workers=1)
    stop, file = gate.stop, tmp_path / "runs"

    @wb.remote(name="short")
    def short(number: int) -> int:
        import os

        if number < 0:
            return number
        with open(file, "a") as runs:
            runs.write(f"{number}\n")
        if number == 0:
            builtins.word = stop()  # type: ignore[attr-defined]
        if number == 3 and builtins.word == "go":  # type: ignore[attr-defined]
            os._exit(3)
        return number

    at_most_once = short.options(max_retries=0, name="at most once")

    def submit() -> list[wb.ObjectRef]:
        file.unlink(missing_ok=True)
        refs = [short.remote(0), short.remote(1), at_most_once.remote(2), at_most_once.remote(3)]
        return [*refs, at_most_once.remote(4), short.remote(5)]

    refs, visitor = queued_behind(session, gate, short, submit, 3)
    visitor.let_on("go")
    with pytest.raises(WorkerCrashedError, match=r"status 3 while it ran `at most once`\.$"):
        wb.get(refs[3])
    assert [wb.get(refs[i]) for i in (0, 1, 2, 4, 5)] == [0, 1, 2, 4, 5]
    runs = file.read_text().split()
    assert [runs.count(str(i)) for i in (2, 3, 4, 5)] == [1, 1, 1, 1]


# -- several results -------------------------------------------------------------------------------


def test_a_result_already_written_when_the_next_one_fails(doom: Doom, session: Engine) -> None:
    for way, (kind, text) in TABLE["result pickling"].items():
        ending = doom.ending(way)

        @wb.remote(num_returns=2, max_retries=0, name="doomed")
        def two(ending: Ending) -> Any:
            return np.arange(LARGE), {"model": OnPickling(ending)}

        assert kind is not None
        first, second = two.remote(ending)
        assert_fails(second, kind, text)
        if kind is SerializationError:  # the failure of one result alone
            assert (wb.get(first) == np.arange(LARGE)).all()
        else:
            assert_fails(first, kind, text)
        del first, second, two
        assert_in_order(session)


# -- an actor's calls ------------------------------------------------------------------------------


class Patient:
    """Counts its calls. Defined here, so that its worker imports it."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, argument: Any = None, make: Callable[[], Any] | None = None) -> Any:
        self.calls += 1
        return self.calls if make is None else make()


def patients_arguments(ending: Ending) -> dict[str, tuple[Any, ...]]:
    return {
        "argument unpickling": ([OnUnpickling(ending)],),
        "running": (None, ending),
        "result pickling": (None, lambda: {"model": OnPickling(ending)}),
        "result sealing": (None, lambda: OnSealing(ending)),
    }


@pytest.mark.parametrize("step", [step for step in TABLE if step != "function import"])
def test_a_call_that_goes_wrong(doom: Doom, session: Engine, step: str) -> None:
    """An error is the call's alone. A death is the actor's, which is made again if it may be."""
    for way, (kind, text) in TABLE[step].items():
        arguments = patients_arguments(doom.ending(way))
        patient = wb.remote(Patient).options(max_restarts=1).remote()
        call = patient.call.options(name="doomed")
        assert wb.get(call.remote()) == 1
        ref = call.remote(*arguments[step])
        if way not in DEATHS_OF_ACTORS:
            if kind is None:
                assert (wb.get(ref).bytes == np.arange(LARGE)).all()
            else:
                assert_fails(ref, kind, text)
            assert wb.get(call.remote()) == (2 if step == "argument unpickling" else 3)
        else:
            crash = rf"Worker \d+ \(pid \d+\) {DEATHS_OF_ACTORS[way]} while it ran `doomed`"
            words = LAST_WORDS.get(way, "$")
            with pytest.raises(ActorDiedError, match=rf"^{crash}; Patient is made again\.{words}"):
                wb.get(ref)
            assert wb.get(call.remote()) == 1  # its state began anew
            for ref in (call.remote(*arguments[step]), call.remote()):
                with pytest.raises(ActorDiedError, match=rf"^Patient died: {crash}\.{words}"):
                    wb.get(ref)
        del patient, call, ref
        assert_in_order(session)


class Failing:
    """Its first calls go through the server: it has no line yet."""

    def fail(self) -> None:
        """With what nobody has to have leave for."""
        raise ValueError(5000 * "x")

    def end(self) -> None:
        """When all of that is said."""
        connection = importlib.import_module("workbench.api").engine()._base.connection
        assert eventually(lambda: not connection._outbox)
        os.kill(os.getpid(), signal.SIGKILL)

    def stop(self, stop: Callable[[], str]) -> None:
        stop()


def test_all_that_a_worker_had_said_counts_though_its_end_is_heard_at_the_same_time(
    session: Engine, gate: Gate, processes: Processes
) -> None:
    """More than the server reads at once; it wakes when the worker is gone already."""
    actor = wb.remote(Failing).remote()
    stopped = actor.stop.remote(gate.stop)
    failed, end = [actor.fail.remote() for _ in range(13)], actor.end.remote()
    visitor, server = gate.next(), processes.server()
    session.snapshot()  # so all of them have been sent
    server.suspend()
    try:
        visitor.let_on()
        assert eventually(lambda: not psutil.pid_exists(visitor.pid))
    finally:
        server.resume()
    assert wb.get(stopped, timeout=TIMEOUT) is None
    for ref in failed:
        with pytest.raises(ValueError, match="xxx"):
            wb.get(ref, timeout=TIMEOUT)
    with pytest.raises(ActorDiedError):
        wb.get(end, timeout=TIMEOUT)
