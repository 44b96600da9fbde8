"""Ctrl-C, wherever it comes: it is heard, nothing is lost by it, and the session goes on."""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import os
import pickle
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import THOROUGH, TIMEOUT
from tests.process.gates import Gate
from tests.process.processes import most_granted
from tests.process.scripts import Scripts
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, OwnReducers
from workbench.errors import SerializationError


@functools.cache
def places(code: CodeType) -> frozenset[int]:
    """Offsets at which an interruption of this code can show.

    CPython hears signals after calls, at a function's start and at backward jumps. An exception
    raised from a trace function seems to come from the instruction after that, so places where
    another handler would take it than really does are left out.
    """
    bytecode = dis.Bytecode(code)

    def handler(offset: int) -> object:
        return [e.target for e in bytecode.exception_entries if e.start <= offset < e.end]

    found = set()
    before = None
    for instruction in bytecode:
        heard = before is not None and re.match(r"CALL(?!_INTRINSIC)|RESUME", before.opname)
        if heard and handler(before.offset) == handler(instruction.offset):
            found.add(instruction.offset)
        if instruction.opname.startswith("JUMP_BACKWARD") and (
            sys.version_info >= (3, 13)  # before, it is heard only where the jump leads to
            or handler(instruction.offset) == handler(instruction.argval - 2)
        ):
            found.add(instruction.offset)
        if instruction.opname != "PRECALL":
            before = instruction
    return frozenset(found)


OURS = os.path.dirname(wb.__file__) + os.sep


class CtrlC:
    """Sends SIGINT once: at the first of these places in Workbench's code that runs inside and that
    isn't among the ``heard`` ones, to which it adds it.

    A place counts anew for each two calls that lead to it: theirs are the handlers that it meets.
    ``make slow`` counts each time that an operation gets there. Not in the standard library's: its
    locks are Python code, which Ctrl-C can leave locked.
    """

    def __init__(self, heard: set[object]) -> None:
        self.sent = False
        self._heard = heard
        self._places: dict[int, frozenset[int]] = {}  # by code, which hashes slowly
        self._times = 0

    def __enter__(self) -> CtrlC:
        frame = inspect.currentframe()
        assert frame is not None
        frame.f_trace_opcodes = True  # Python 3.12 looks only here whether anyone wants them
        sys.settrace(self._call)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        self._places.setdefault(id(code), places(code))
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and frame.f_lasti in self._places[id(frame.f_code)] and not self.sent:
            place = self._place(frame)
            if place not in self._heard:
                self._heard.add(place)
                self.sent = True
                signal.raise_signal(signal.SIGINT)
        return self._step

    def _place(self, frame: FrameType | None) -> object:
        if THOROUGH:
            self._times += 1
            return self._times
        path: list[int] = []
        while frame is not None and len(path) < 6:
            if frame.f_code.co_filename.startswith(OURS):
                path += id(frame.f_code), frame.f_lasti
            frame = frame.f_back
        return tuple(path)


def everywhere(
    operation: Callable[[], object], afterwards: Callable[[bool], None], heard: set[object]
) -> None:
    """Interrupt the operation at each place in turn that isn't among the ``heard`` ones.

    ``afterwards`` looks whether all is in order, thoroughly every tenth time.
    """
    if THOROUGH:
        heard.clear()
    while True:
        ctrl_c = CtrlC(heard)
        try:
            with ctrl_c:
                operation()
        except KeyboardInterrupt:
            pass
        else:
            assert not ctrl_c.sent, f"Ctrl-C at place {len(heard)} was swallowed"
            return
        afterwards(len(heard) % 10 == 0)


def at_random_moments(
    operation: Callable[[], object], afterwards: Callable[[bool], None], heard: set[object]
) -> None:
    """Interrupt the operation again and again, also in C and in the standard library's code."""
    chance = random.Random(len(heard))

    def interrupt() -> None:
        heard.add(len(heard))
        os.kill(os.getpid(), signal.SIGINT)

    def until_heard(before: int) -> None:  # apart: see `unit/test_interrupted_loops.py`
        while len(heard) == before:
            operation()

    for _ in range(150 if THOROUGH else 15):
        before = len(heard)
        try:
            threading.Timer(chance.uniform(1e-5, 4e-3), interrupt).start()
            until_heard(before)
            threading.Event().wait(TIMEOUT)  # it is on its way
            raise AssertionError("it was swallowed")
        except KeyboardInterrupt:
            pass
        except RuntimeError as error:  # CPython's own: Ctrl-C within `Condition.wait`
            is_that = isinstance(error.__context__, KeyboardInterrupt)
            if not is_that or "un-acquired lock" not in str(error):
                raise
        afterwards(len(heard) % 10 == 0)
    operation()


ARRAY = np.arange(100_000)


class Odd:
    """Can be stored only as long as there is a serializer for it."""

    def __reduce__(self) -> Any:
        return 1


class Unreadable:
    """Can be stored, not read."""

    def __reduce__(self) -> Any:
        return len, (3,)


def fails(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        call()


class Actor:
    def ready(self) -> bool:
        return True


QUICK = ("put large", "submit and get")


def interrupt_calls(
    session: Engine, names: Sequence[str] = (), interrupt: Callable[..., None] = everywhere
) -> int:
    """All, or those called so; how often. Whatever one makes is gone when it returns, but for the
    object named ``container``."""
    one, actor = wb.remote(lambda *args: 1), wb.remote(Actor).remote()
    wb.put([wb.put(1), wb.put(ARRAY)], name="container")
    held = wb.put(ARRAY)
    pickled = pickle.dumps(held)
    found: list[Any] = []

    operations: dict[str, Callable[[], object]] = {
        "put large": lambda: wb.put(ARRAY),
        "get": lambda: wb.get(held),
        "find and get": lambda: (
            found.append(session.ask(Lookup("container"))),
            wb.get(wb.get(found[-1])),
        ),
        "borrow": lambda: pickle.loads(pickled),
        "submit and get": lambda: wb.get(one.remote(held, [held])),
        "wait": lambda: wb.wait([one.remote(), held], num_returns=2),
        "future": lambda: one.remote().future().result(TIMEOUT),
        "find and future": lambda: session.ask(Lookup("container")).future().result(TIMEOUT),  # type: ignore[union-attr]
        "call an actor": lambda: wb.get(actor.ready.remote()),
        "free": lambda: wb.free(wb.put(ARRAY)),
        "search": lambda: wb.objects(limit=1),
        "register": lambda: wb.register_serializer(Odd, serializer=id, deserializer=str),
        "use a serializer": lambda: wb.get(one.remote(Odd(), [Odd()])),
        "deregister": lambda: wb.deregister_serializer(Odd),
        "escape": lambda: pickle.dumps(held),
        "fail to put": lambda: fails(SerializationError, lambda: wb.put([ARRAY, Odd()])),
        "fail to read": lambda: fails(TypeError, lambda: wb.get(wb.put([ARRAY, Unreadable()]))),
        "register, for all": lambda: register(),
        "deregister, for all": lambda: (register(), wb.deregister_serializer(Kind)),
    }

    class Kind:
        """Of the test's own, so that it travels by value."""

    def custom(data: str) -> str:
        return "custom"

    def register() -> None:
        wb.register_serializer(Kind, serializer=str, deserializer=custom)

    make = wb.remote(lambda: Kind())

    def in_order(thorough: bool) -> None:
        assert wb.get(one.remote(), timeout=TIMEOUT) == 1
        if thorough or "register" in name:
            is_custom = Kind in session.ask(OwnReducers())
            assert (wb.get(make.remote(), timeout=TIMEOUT) == "custom") == is_custom
            wb.deregister_serializer(Kind)
            assert wb.get(make.remote(), timeout=TIMEOUT) != "custom"
        for ref in found:
            assert len(wb.get(ref, timeout=TIMEOUT)) == 2
        found.clear()
        if thorough:
            assert one.remote().future().result(TIMEOUT) == 1  # read by the connection's own thread
            assert (wb.get(wb.put(ARRAY)) == ARRAY).all()

    limit = sys.getrecursionlimit()
    heard: set[object] = set()
    for name in names or operations:
        operations[name]()
        in_order(False)
        interrupt(operations[name], in_order, heard)
        in_order(False)
    assert sys.getrecursionlimit() == limit
    wb.free(held)  # else its pickled ref keeps it
    return len(heard)


def assert_nothing_is_lost(session: Engine) -> None:
    session.name(None, "container")
    gc.collect()  # the calls' errors have tracebacks, with all that is here
    assert eventually(lambda: not session.snapshot().objects), session.snapshot().objects
    wb.put(np.zeros(63_000_000, np.uint8))  # all of the store: no extent and no grant is lost


@pytest.mark.own_process
@pytest.mark.parametrize(
    "names", [QUICK, pytest.param((), marks=[pytest.mark.extended, pytest.mark.thorough])]
)
def test_at_any_place_of_calls(session: Engine, names: Sequence[str]) -> None:
    """Calls are interrupted at every place where CPython would hear it. Then all is in order:
    every thread can still read and write, and what the call had taken has been given back."""
    assert interrupt_calls(session, names) > (400 if names else 1000) or THOROUGH
    assert_nothing_is_lost(session)


@pytest.mark.extended
@pytest.mark.thorough
@pytest.mark.own_process
def test_at_random_moments_of_calls(session: Engine) -> None:
    assert interrupt_calls(session, interrupt=at_random_moments) > 200
    assert_nothing_is_lost(session)


@pytest.mark.extended
@pytest.mark.thorough
@pytest.mark.own_process
def test_while_memory_is_asked_for(runtime: str) -> None:
    """The store has room for one of two arrays: each put takes back what the other left warm."""
    session = wb.init(workers=1, memory="4MB")
    array = np.ones(2_500_000, np.uint8)

    @wb.remote
    def elsewhere() -> int:
        wb.put(np.ones(2_500_000, np.uint8))
        return 1

    def in_order(thorough: bool = True) -> None:
        assert wb.get(elsewhere.remote(), timeout=TIMEOUT) == 1

    in_order()
    heard: set[object] = set()
    everywhere(lambda: wb.put(array), in_order, heard)
    assert len(heard) > 100
    assert session.snapshot().granted <= most_granted(session.snapshot().capacity)
    for _ in range(3):
        wb.put(np.zeros(3_900_000, np.uint8))
        in_order()


def test_an_interrupted_get_leaves_the_task_alone(script: Scripts, gate: Gate) -> None:
    driver = script(
        """
        engine = wb.init(workers=1)
        ref = wb.remote(stopper(sys.argv[1])).remote()
        for wait in (wb.get, lambda ref: wb.wait([ref]), lambda ref: ref.future().result()):
            try:
                say("waiting")
                wait(ref)
            except KeyboardInterrupt:
                say("interrupted")
        say(wb.get([wb.put("usable"), ref]))
        """,
        gate.path,
    )
    visitor = gate.next()
    for _ in range(3):
        assert driver.line() == "waiting"
        driver.signal(signal.SIGINT)
        assert driver.line() == "interrupted"
    visitor.let_on("finished")
    assert driver.line() == "['usable', 'finished']"
    assert driver.wait() == 0
