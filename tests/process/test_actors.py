"""Actors: state that is kept, calls in order, handles that travel, what comes of deaths. By name:
one of each, whoever asks at the same time; namespaces; who is listed."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate, stopper
from workbench.engine.base import Engine
from workbench.engine.queries import Names
from workbench.errors import ActorDiedError, SerializationError, TaskCancelledError


def counter() -> Any:
    """The class, as a notebook's cell makes it."""

    @wb.remote
    class Counter:
        """Counts."""

        def __init__(self, n: int = 0, *, step: int = 1) -> None:
            self.n, self.step = n, step
            self.lock = threading.Lock()  # can't be pickled, and needn't be

        def add(self, k: int | None = None) -> int:
            with self.lock:
                self.n += self.step if k is None else k
            return self.n

        def pid(self) -> int:
            return os.getpid()

        def fail(self, text: str) -> None:
            raise LookupError(text)

        def two(self) -> tuple[int, int]:
            return self.n, -self.n

        def wait_at(self, path: str) -> str:
            return stopper(path)()

    return Counter


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda C: C(), TypeError, "`Counter.remote"),
    (lambda C: C.remote().add(1), TypeError, r"call `.add.remote"),
    (lambda C: types.new_class("Derived", (C,)), TypeError, "derive from the plain class"),
    (lambda C: C.size, AttributeError, "'Counter' has no attribute 'size'"),
    (lambda C: C.remote().n, AttributeError, "only methods reach it: add, fail"),
    (lambda C: wb.get_actor("nobody"), ValueError, "no actor named 'nobody'"),
    (lambda C: wb.kill(wb.put(1)), TypeError, "`cancel`"),
    (lambda C: wb.cancel(C.remote()), TypeError, "ObjectRef, not ActorHandle"),
    (lambda C: C.options(num_cpus=3).remote(), ValueError, r"num_cpus=3, and session .* has 2"),
    (lambda C: C.options(lifetime="detached").remote(), ValueError, "needs a `name`"),
    (lambda C: C.options(get_if_exists=True).remote(), ValueError, "needs a `name`"),
    (lambda C: C.options(name="a::b").remote(), ValueError, "must not have '::'"),
    (lambda C: C.options(name="b", namespace="a::").remote(), ValueError, "or have '::'"),
]


def test_wrong_uses_say_what_is_right(session: Engine) -> None:
    for use, error, text in WRONG:
        with pytest.raises(error, match=text):
            use(counter())


def test_an_actor_class_shows_what_the_class_has() -> None:
    shape = wb.remote(Shape)
    assert (shape.CORNERS, shape.corners(3)) == (4, 12)
    assert {"CORNERS", "remote"} <= set(dir(shape))
    assert not hasattr(shape, "_repr_html_")
    assert pickle.loads(pickle.dumps(shape)).CORNERS == 4


class Shape:
    CORNERS = 4

    @classmethod
    def corners(cls, pieces: int) -> int:
        return pieces * cls.CORNERS

    def _repr_html_(self) -> str:
        return "an instance's, not the class's"


def test_an_actor_that_cannot_be_made(session: Engine) -> None:
    @wb.remote
    class Impossible:
        def __init__(self, how: str) -> None:
            if how == "raise":
                raise RuntimeError("not like this")
            leave_at_once(4)

        def work(self) -> None: ...

    for how, text in (("raise", "could not be made: RuntimeError: not"), ("exit", "status 4")):
        actor = Impossible.remote(how)
        for _ in range(2):
            with pytest.raises(ActorDiedError, match=text):
                wb.get(actor.work.remote())
    with pytest.raises(SerializationError, match="how can't be serialized"):
        Impossible.remote(threading.Lock())


def test_threads_that_wait_are_cancelled_together(session: Engine, gate: Gate) -> None:
    @wb.remote(max_concurrency=4)
    class Waiter:
        def wait(self, refs: list[wb.ObjectRef]) -> Any:
            return wb.get(refs[0])

    never = wb.remote(gate.stop).remote()
    gate.next()
    actor = Waiter.remote()
    for _ in range(20):  # one of them reads what is said to the others
        waiting = [actor.wait.remote([never]) for _ in range(3)]
        assert wb.get(actor.wait.remote([wb.put("in")])) == "in"
        for ref in waiting:
            wb.cancel(ref)
        for ref in waiting:
            with pytest.raises(TaskCancelledError):
                wb.get(ref, timeout=TIMEOUT)


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_queued_calls_are_stopped(session: Engine, gate: Gate, kind: str, concurrency: int) -> None:
    @wb.remote
    class Room:
        async def wait_at(self, path: str) -> str:
            return await asyncio.to_thread(stopper(path))

        async def add(self) -> int:
            return 1

    actor = (Room if kind == "loop" else counter()).options(max_concurrency=concurrency).remote()
    running = [actor.wait_at.remote(gate.path) for _ in range(concurrency)]
    visitors = [gate.next() for _ in running]
    behind = [actor.add.remote() for _ in range(3)]
    session.snapshot()  # by now they were sent
    wb.cancel(behind[1])
    with pytest.raises(TaskCancelledError):
        wb.get(behind.pop(1), timeout=TIMEOUT)
    for visitor in visitors:
        visitor.let_on()
    wb.get([*running, *behind])


def test_a_call_that_came_while_the_loop_was_busy_is_cancelled(session: Engine, gate: Gate) -> None:
    @wb.remote
    class Busy:
        def keep(self, refs: list[wb.ObjectRef]) -> None:
            self.refs = refs

        def block(self, path: str) -> str:
            return stopper(path)()

        async def forever(self) -> None:
            await asyncio.Event().wait()

    actor, kept = Busy.remote(), wb.put("kept")
    wb.get(actor.keep.remote([kept]))
    blocking = actor.block.remote(gate.path)
    visitor = gate.next()
    ref = actor.forever.remote()
    session.snapshot()  # by now it was sent
    wb.cancel(ref)
    wb.free(kept)  # and when the worker has answered that, it has read all this
    assert eventually(lambda: not any(o.viewers for o in session.snapshot().objects))
    visitor.let_on()
    with pytest.raises(TaskCancelledError):
        wb.get(ref, timeout=TIMEOUT)
    assert wb.get(blocking) == "go"


def test_namespaces_are_apart(session: Engine) -> None:
    Counter = counter()
    plain = Counter.options(name="it").remote(0)
    there = Counter.options(name="it", namespace="there", lifetime="detached").remote(10)
    assert wb.get([wb.get_actor("it").add.remote(), plain.add.remote()]) == [1, 2]
    assert wb.get(wb.get_actor("it", "there").add.remote()) == 11
    assert Counter.options(name="it", namespace="there", get_if_exists=True).remote() == there
    with pytest.raises(ValueError, match=r"get_actor\('it', 'there'\)"):
        Counter.options(name="it", namespace="there").remote()
    with pytest.raises(ValueError, match="in namespace 'nowhere'"):
        wb.get_actor("it", "nowhere")
    assert wb.list_named_actors() == ["it"]
    assert session.ask(Names()) == []
    wb.kill(plain)
    assert wb.list_named_actors(all_namespaces=True) == [{"name": "it", "namespace": "there"}]
    wb.kill(there)
    assert wb.list_named_actors(all_namespaces=True) == []


def test_a_driver_s_namespace_is_that_of_its_tasks_and_actors() -> None:
    wb.init(namespace="mine", workers=1)
    own = counter().options(name="it").remote(1)

    @wb.remote
    def looks() -> Any:
        here = wb.get_runtime_context().namespace
        return here, wb.list_named_actors(), wb.get(wb.get_actor("it").add.remote())

    @wb.remote
    class Looks:
        def look(self) -> Any:
            return wb.get(looks.remote())

    assert wb.get(looks.remote()) == ("mine", ["it"], 2)
    assert wb.get(Looks.remote().look.remote()) == ("mine", ["it"], 3)
    del own


def test_code_knows_where_it_runs(session: Engine) -> None:
    """`ray_rows` has one more row for each of these."""

    def here() -> Any:
        found = wb.get_runtime_context()
        names = found.get_task_name(), found.get_actor_name(), found.get_assigned_resources()
        return found.get(), found.get_worker_id(), names

    place = {"job_id": session.session, "node_id": os.uname().nodename, "namespace": ""}
    assert here() == (place, "0", (None, None, {}))
    ref = wb.remote(num_cpus=0.5, name="half")(here).remote()
    found, worker, names = wb.get(ref)
    assert int(worker) > 0
    assert (found, names) == ({**place, "task_id": ref.hex()}, ("half", None, {"CPU": 0.5}))

    @wb.remote(num_cpus=1, max_restarts=-1)
    class Here:
        def __init__(self) -> None:
            self.me = wb.get_runtime_context().current_actor

        async def look(self) -> Any:
            context = wb.get_runtime_context()
            return {context.current_actor, self.me}, context.was_current_actor_reconstructed

        def where(self) -> Any:
            return here()

        def die(self) -> None:
            leave_at_once(1)

    actor = Here.options(name="me", namespace="ours").remote()
    assert wb.get(actor.look.remote()) == ({actor}, False)
    ref = actor.where.remote()
    found, _, names = wb.get(ref)
    assert names == ("Here.where", "me", {"CPU": 1.0})
    assert found == {**place, "task_id": ref.task_id(), "actor_id": found["actor_id"]}
    with pytest.raises(ActorDiedError, match="is made again") as caught:
        wb.get(actor.die.remote())
    assert caught.value.actor_id == found["actor_id"]
    assert wb.get(actor.look.remote()) == ({actor}, True)
    wb.kill(actor)
    for name in ("current_actor", "was_current_actor_reconstructed", "is_canceled"):
        with pytest.raises(RuntimeError, match=r"There is no current (actor|task)"):
            getattr(wb.get_runtime_context(), name)()


def test_every_result_knows_its_task(session: Engine) -> None:
    def own() -> Any:
        return wb.get_runtime_context().get_task_id()

    def items() -> Any:
        yield own()
        yield own()

    for refs in (wb.remote(num_returns=2)(items).remote(), wb.remote(items).remote()):
        first, second = refs
        assert first != second
        assert first.task_id() == second.task_id() == wb.get(first) == wb.get(second)


def test_the_error_of_a_dead_actor_says_which(session: Engine) -> None:
    class Dies:
        def __init__(self, fails: bool) -> None:
            assert not fails

        def id(self) -> Any:
            return wb.get_runtime_context().get_actor_id()

    killed, failed = (wb.remote(Dies).remote(fails) for fails in (False, True))
    id = wb.get(killed.id.remote())
    wb.kill(killed)
    for actor in (killed, failed):
        with pytest.raises(ActorDiedError) as caught:
            wb.get(actor.id.remote())
        assert caught.value.actor_id
        assert (caught.value.actor_id == id) is (actor is killed)
        assert pickle.loads(pickle.dumps(caught.value)).actor_id == caught.value.actor_id


def test_leaving_no_actor_is_refused(session: Engine) -> None:
    inside = wb.remote(wb.exit_actor)
    for leave in (wb.exit_actor, lambda: wb.get(inside.remote())):
        with pytest.raises(TypeError, match=r"runs in none\. `return` ends a task"):
            leave()
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
