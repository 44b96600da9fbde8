"""Actors found by name: one of each, whoever asks at the same time; namespaces; who is listed."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

import workbench as wb
from tests.process.endings import leave_at_once
from tests.process.processes import ends
from tests.process.test_actors import counter
from workbench.engines.base import Engine
from workbench.errors import ActorDiedError


def test_a_name_is_free_as_soon_as_the_last_handle_is_gone(session: Engine) -> None:
    Counter = counter()
    for _ in range(3):
        first = Counter.options(name="own").remote()
        assert wb.get(first.add.remote()) == 1
        del first
        with pytest.raises(ValueError, match="own"):
            wb.get_actor("own")


def test_threads_that_make_it_at_once_get_one_actor(session: Engine) -> None:
    """Or one hears that the other has made it, if that is what they want."""
    Counter, together = counter(), Barrier(8)

    def make(get_if_exists: bool) -> Any:
        together.wait()
        try:
            return Counter.options(name="only", get_if_exists=get_if_exists).remote()
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            first, *others = threads.map(make, [True] * 8)
            assert {first, *others} == {first}
            assert sorted(wb.get([h.add.remote() for h in (first, *others)])) == [*range(1, 9)]
            wb.kill(first)
            handle, *texts = sorted(threads.map(make, [False] * 8), key=lambda f: type(f) is str)
            assert all("named 'only' already" in text for text in texts)
            assert wb.get(handle.add.remote()) == 1
            wb.kill(handle)


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
    assert wb.list_named_actors(all_namespaces=True) == [
        {"name": "it", "namespace": ""},
        {"name": "it", "namespace": "there"},
    ]
    wb.kill(plain)
    wb.kill(there)
    assert wb.list_named_actors(all_namespaces=True) == []


def test_a_driver_s_namespace_is_that_of_its_tasks_and_actors() -> None:
    wb.init(namespace="mine", workers=1)
    Counter = counter()
    own = Counter.options(name="it").remote(1)
    other = Counter.options(name="it", namespace="theirs").remote(10)

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
        Counter.options(name="it").remote()
    assert {"name": "it", "namespace": "theirs"} in wb.list_named_actors(all_namespaces=True)
    del own, other
    wb.shutdown()


def test_names_that_cannot_be(session: Engine) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"lifetime": "detached"}, "needs a `name`"),
        ({"lifetime": "for ever"}, "'detached' or 'non_detached'"),
        ({"name": "a::b"}, "must not have '::'"),
        ({"name": "b", "namespace": "a::"}, "or have '::'"),
        ({"name": "b", "namespace": ""}, "must not be empty"),
        ({"get_if_exists": True}, "needs a `name`"),
    ]
    for given, complaint in wrong:
        with pytest.raises(ValueError, match=complaint):
            counter().options(**given).remote()


# -- methods that every actor has ------------------------------------------------------------------


def test_the_methods_that_rays_actors_have(session: Engine) -> None:
    actor = counter().remote(3)
    assert wb.get(actor.__ray_ready__.remote()) is True

    def plus(instance: Any, a: int, *, b: int) -> int:
        return int(instance.n) + a + b

    assert wb.get(actor.__ray_call__.remote(plus, 4, b=wb.put(5))) == 12
    pid = wb.get(actor.pid.remote())
    before, _ = actor.add.remote(), actor.__ray_terminate__.remote()
    assert wb.get(before) == 4  # what was called before is done
    with pytest.raises(ActorDiedError, match="left by"):
        wb.get(actor.add.remote())
    assert ends(pid)


# -- where code runs -------------------------------------------------------------------------------


def test_code_knows_where_it_runs(session: Engine) -> None:
    def here() -> Any:
        found = wb.get_runtime_context()
        assert found.node_id.hex() == os.uname().nodename
        texts = found.get_task_id(), found.get_actor_id()
        assert texts == tuple(
            id if id is None else id.hex() for id in (found.task_id, found.actor_id)
        )
        return (
            found.get_job_id(), found.get_node_id(), found.get_worker_id(), found.get_task_id(),
            found.get_task_name(), found.get_actor_id(), found.get_actor_name(), found.namespace,
            found.get_assigned_resources(), found.get(),
        )  # fmt: skip

    everywhere = session.session, os.uname().nodename
    place = {"job_id": everywhere[0], "node_id": everywhere[1], "namespace": ""}
    assert here() == (*everywhere, "0", None, None, None, None, "", {}, place)
    ref = wb.remote(num_cpus=0.5, name="half")(here).remote()
    job, node, worker, *rest = wb.get(ref)
    assert (job, node) == everywhere
    assert int(worker) > 0
    place["task_id"] = ref.task_id()
    assert rest == [ref.hex(), "half", None, None, "", {"CPU": 0.5}, place]

    @wb.remote(num_cpus=1, max_restarts=-1)
    class Here:
        def __init__(self) -> None:
            self.me = wb.get_runtime_context().current_actor

        async def handle(self) -> Any:
            return wb.get_runtime_context().current_actor, self.me

        def where(self) -> Any:
            return here()

        def die(self) -> None:
            leave_at_once(1)

        def again(self) -> bool:
            return wb.get_runtime_context().was_current_actor_reconstructed

    actor = Here.options(name="me", namespace="ours").remote()
    assert wb.get(actor.handle.remote()) == (actor, actor)
    ref = actor.where.remote()
    *_, task, name, id, own, namespace, cpus, found = wb.get(ref)
    assert ref.task_id() == ref.task_id().hex() == task == ref.hex()
    assert (name, own, namespace, cpus) == ("Here.where", "me", "", {"CPU": 1.0})
    assert found == {**place, "task_id": ref.task_id(), "actor_id": id}
    assert not wb.get(actor.again.remote())
    with pytest.raises(ActorDiedError, match="is made again") as caught:
        wb.get(actor.die.remote())
    assert caught.value.actor_id == id
    assert wb.get(actor.again.remote())
    wb.kill(actor)
    for name, error in (("current_actor", "no current"), ("was_current_actor_reconstructed", "no")):
        with pytest.raises(RuntimeError, match=f"{error}.* actor"):
            getattr(wb.get_runtime_context(), name)


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

        def id(self) -> Any:
            return wb.get_runtime_context().get_actor_id()

        def die(self) -> None:
            leave_at_once(1)

    killed, crashed, failed = (wb.remote(Dies).remote(fails) for fails in (False, False, True))
    ids = [*wb.get([killed.id.remote(), crashed.id.remote()]), None]
    wb.kill(killed)
    for actor, id in zip((killed, crashed, failed), ids, strict=True):
        found = set()
        for _ in range(2):
            with pytest.raises(ActorDiedError) as caught:
                wb.get(actor.die.remote())
            again = pickle.loads(pickle.dumps(caught.value))
            found |= {id or caught.value.actor_id, caught.value.actor_id, again.actor_id}
        assert len(found) == 1
        assert all(found)


def test_leaving_no_actor_is_refused(session: Engine) -> None:
    inside = wb.remote(wb.exit_actor)
    for leave in (wb.exit_actor, lambda: wb.get(inside.remote())):
        with pytest.raises(TypeError, match=r"runs in none\. `return` ends a task"):
            leave()
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
