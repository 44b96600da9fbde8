"""Actors found by name: one of each, whoever asks at the same time; namespaces; who is listed."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

import workbench as wb
from tests.process.endings import leave_at_once
from tests.process.test_actors import counter
from workbench.engine.base import Engine
from workbench.errors import ActorDiedError


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
