"""Actors found by name: one of each, whoever asks at the same time; namespaces; who is listed."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError


def tally() -> Any:
    @wb.remote
    class CallTally:
        def __init__(self, n: int = 0) -> None:
            self.n = n

        def add(self) -> int:
            self.n += 1
            return self.n

        def pid(self) -> int:
            return os.getpid()

    return CallTally


def test_a_name_is_free_as_soon_as_the_last_handle_is_gone(session: Engine) -> None:
    CallTally = tally()
    for _ in range(5):
        first = CallTally.options(name="own").remote()
        assert wb.get(first.add.remote()) == 1
        del first
        with pytest.raises(ValueError, match="own"):
            wb.get_actor("own")


def test_threads_that_make_it_at_once_get_one_actor(session: Engine) -> None:
    CallTally, together = tally(), Barrier(8)

    def make(name: str) -> Any:
        together.wait()
        return CallTally.options(name=name, get_if_exists=True).remote()

    with ThreadPoolExecutor(8) as threads:
        for name in map(str, range(5)):
            first, *others = threads.map(make, [name] * 8)
            assert {first, *others} == {first}
            assert sorted(wb.get([h.add.remote() for h in (first, *others)])) == [*range(1, 9)]
            wb.kill(first)


def test_tasks_that_make_it_at_once_get_one_actor(session: Engine) -> None:
    CallTally = tally()

    @wb.remote
    def make() -> Any:
        handle = CallTally.options(name="shared", get_if_exists=True).remote()
        return handle, wb.get(handle.add.remote())

    found = wb.get([make.remote() for _ in range(12)])
    assert len({handle for handle, _ in found}) == 1
    assert sorted(number for _, number in found) == [*range(1, 13)]
    wb.kill(found[0][0])


def test_of_two_that_make_it_at_once_one_hears_that_there_is_one(session: Engine) -> None:
    CallTally, together = tally(), Barrier(2)

    def make(_: int) -> Any:
        together.wait()
        try:
            return CallTally.options(name="only").remote()
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            text, handle = sorted(threads.map(make, range(2)), key=lambda f: not isinstance(f, str))
            assert "named 'only' already" in text
            assert wb.get(handle.add.remote()) == 1
            wb.kill(handle)


def test_namespaces_are_apart(session: Engine) -> None:
    CallTally = tally()
    plain = CallTally.options(name="it").remote(0)
    there = CallTally.options(name="it", namespace="there", lifetime="detached").remote(10)
    assert wb.get([wb.get_actor("it").add.remote(), plain.add.remote()]) == [1, 2]
    assert wb.get(wb.get_actor("it", "there").add.remote()) == 11
    assert CallTally.options(name="it", namespace="there", get_if_exists=True).remote() == there
    with pytest.raises(ValueError, match=r"get_actor\('it', 'there'\)"):
        CallTally.options(name="it", namespace="there").remote()
    with pytest.raises(ValueError, match="in namespace 'nowhere'"):
        wb.get_actor("it", "nowhere")
    assert wb.list_named_actors() == ["it"]
    assert wb.list_named_actors(all_namespaces=True) == [
        {"name": "it", "namespace": ""},
        {"name": "it", "namespace": "there"},
    ]
    wb.kill(plain)
    wb.kill(there)
    assert wb.list_named_actors(all_namespaces=True) == []


@pytest.mark.fresh_session
def test_a_driver_s_namespace_is_that_of_its_tasks_and_actors() -> None:
    wb.init(namespace="mine", workers=1)
    CallTally = tally()
    own = CallTally.options(name="it").remote(1)
    other = CallTally.options(name="it", namespace="theirs").remote(10)

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
    assert wb.get(wb.get_actor("it", "theirs").add.remote()) == 11
    with pytest.raises(ValueError, match=r"get_actor\('it', 'mine'\)"):
        CallTally.options(name="it").remote()
    assert {"name": "it", "namespace": "theirs"} in wb.list_named_actors(all_namespaces=True)
    del own, other
    wb.shutdown()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"lifetime": "detached"}, "needs a `name`"),
        ({"lifetime": "for ever"}, "'detached' or 'non_detached'"),
        ({"name": "a::b"}, "must not have '::'"),
        ({"name": "b", "namespace": "a::"}, "or have '::'"),
        ({"name": "b", "namespace": ""}, "must not be empty"),
        ({"get_if_exists": True}, "needs a `name`"),
    ],
)
def test_names_that_cannot_be(session: Engine, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tally().options(**given).remote()


# -- methods that every actor has ------------------------------------------------------------------


def test_the_methods_that_rays_actors_have(session: Engine) -> None:
    actor = tally().remote(3)
    assert wb.get(actor.__ray_ready__.remote()) is True

    def plus(instance: Any, a: int, *, b: int) -> int:
        return int(instance.n) + a + b

    assert wb.get(actor.__ray_call__.remote(plus, 4, b=wb.put(5))) == 12
    pid = wb.get(actor.pid.remote())
    before, _ = actor.add.remote(), actor.__ray_terminate__.remote()
    assert wb.get(before) == 4  # what was called before is done
    with pytest.raises(ActorDiedError, match="left by"):
        wb.get(actor.add.remote())
    assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))


# -- where code runs -------------------------------------------------------------------------------


def test_code_knows_where_it_runs(session: Engine) -> None:
    def here() -> Any:
        found = wb.get_runtime_context()
        return (
            found.get_job_id(), found.get_node_id(), found.get_worker_id(), found.get_task_id(),
            found.get_task_name(), found.get_actor_id(), found.get_actor_name(), found.namespace,
            found.get_assigned_resources(),
        )  # fmt: skip

    everywhere = session.session, os.uname().nodename
    assert here() == (*everywhere, "0", None, None, None, None, "", {})
    ref = wb.remote(num_cpus=0.5, name="half")(here).remote()
    *place, worker, task, name, a, b, c, cpus = wb.get(ref)
    assert (tuple(place), task, name) == (everywhere, ref.hex(), "half")
    assert int(worker) > 0
    assert (a, b, c, cpus) == (None, None, "", {"CPU": 0.5})

    @wb.remote(num_cpus=1)
    class Here:
        def __init__(self) -> None:
            self.me = wb.get_runtime_context().current_actor

        async def handle(self) -> Any:
            return wb.get_runtime_context().current_actor, self.me

        def where(self) -> Any:
            return here()

    actor = Here.options(name="me", namespace="ours").remote()
    assert wb.get(actor.handle.remote()) == (actor, actor)
    ref = actor.where.remote()
    *_, task, name, id, own, namespace, cpus = wb.get(ref)
    assert (task, name, id) == (ref.hex(), "Here.where", actor._ref.hex())
    assert ref.task_id() == ref.task_id().hex() == task
    assert (own, namespace, cpus) == ("me", "", {"CPU": 1.0})
    wb.kill(actor)
    with pytest.raises(RuntimeError, match="no current actor"):
        wb.get_runtime_context().current_actor  # noqa: B018 - it is a property


def test_rays_older_names_of_where_code_runs(session: Engine) -> None:
    def here() -> Any:
        found = wb.get_runtime_context()
        assert found.node_id.hex() == os.uname().nodename
        return found.get(), found.task_id, found.actor_id

    place = {"job_id": session.session, "node_id": os.uname().nodename, "namespace": ""}
    assert here() == (place, None, None)
    ref = wb.remote(here).remote()
    assert wb.get(ref) == ({**place, "task_id": ref.task_id()}, ref.task_id().hex(), None)
    with pytest.raises(RuntimeError, match="no current actor"):
        wb.get_runtime_context().was_current_actor_reconstructed  # noqa: B018 - a property

    @wb.remote(max_restarts=-1)
    class Here:
        def where(self) -> Any:
            return here()

        def die(self) -> None:
            os._exit(1)

        def again(self) -> bool:
            return wb.get_runtime_context().was_current_actor_reconstructed

    actor = Here.remote()
    ref = actor.where.remote()
    assert wb.get(ref)[0] == {**place, "task_id": ref.task_id(), "actor_id": actor._ref.hex()}
    assert not wb.get(actor.again.remote())
    with pytest.raises(ActorDiedError, match="is made again"):
        wb.get(actor.die.remote())
    assert wb.get(actor.again.remote())


def test_every_result_knows_its_task(session: Engine) -> None:
    def own() -> Any:
        return wb.get_runtime_context().get_task_id()

    def items() -> Any:
        yield own()
        yield own()

    for refs in (
        wb.remote(num_returns=2)(lambda: [own()] * 2).remote(),
        list(wb.remote(items).remote()),
    ):
        first, second = refs
        assert first != second
        assert first.task_id() == second.task_id() == wb.get(first) == wb.get(second)


def test_the_error_of_a_dead_actor_says_which(session: Engine) -> None:
    class Dies:
        def __init__(self, fails: bool) -> None:
            assert not fails

        def die(self) -> None:
            os._exit(1)

    killed, crashed, failed = (wb.remote(Dies).remote(fails) for fails in (False, False, True))
    wb.kill(killed)
    for actor in (killed, crashed, failed):
        for _ in range(2):
            with pytest.raises(ActorDiedError) as caught:
                wb.get(actor.die.remote())
            assert caught.value.actor_id == actor._ref.hex()
            assert pickle.loads(pickle.dumps(caught.value)).actor_id == actor._ref.hex()


def test_leaving_no_actor_is_refused(session: Engine) -> None:
    inside = wb.remote(wb.exit_actor)
    for leave in (wb.exit_actor, lambda: wb.get(inside.remote())):
        with pytest.raises(TypeError, match=r"runs in none\. `return` ends a task"):
            leave()
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
