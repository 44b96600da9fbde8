"""What becomes of actors: made, lost, made again, ended. A desk of the session's.

Which call of an actor is next, `actors` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.actors import Actor, Life
from workbench.core.catalog import State
from workbench.core.scheduler import Task

if TYPE_CHECKING:
    from workbench.core.session import Client, Session
    from workbench.core.task_manager import TaskManager


class ActorManager:
    """See the module. Methods named like an event handle it."""

    def __init__(self, session: Session, work: TaskManager) -> None:
        self._session = session
        self._work = work
        self.catalog = session.catalog
        self.scheduler = session.scheduler
        self.pool = session.pool

    def create(self, client: Client, event: ev.Create) -> None:
        """A new actor: its object is there, its process is to be."""
        submit = event.creation
        entry = self.catalog.get(submit.actor)
        if (
            submit.task != submit.actor
            or submit.returns
            or not self._session.owns(client, submit.actor)
        ):
            return self._session.hang_up(client.number, "an actor that is not its own")
        if entry is None or submit.task in self.scheduler.actors:
            return self._session.hang_up(client.number, "an actor without an object, or made twice")
        creation_task = Task(
            submit, client.number, self._work.audience(client), self._work.running_in(client)
        )
        actor = creation_task.actor = self.scheduler.actors[submit.actor] = Actor(
            event, creation_task
        )
        why = self._work.pin_arguments(creation_task)
        if event.name and self.catalog.named(event.name) is not None:
            why = ev.error_value("actor", f"There is another actor of the name of {actor.name}.")
        elif event.name:
            self.catalog.bind(event.name, entry)
        self.scheduler.add(creation_task)
        if why is not None:
            self.dies(actor, why)
        else:
            self._hire(actor)
        return None

    def _hire(self, actor: Actor) -> None:
        """Have a worker of its own made for it."""
        if self.pool.broken or len(self.scheduler.workers) >= self.pool.most:
            why = self.pool.last_words or f"there are {self.pool.most} workers already"
            text = f"No worker could be started for {actor.name}: {why}."
            self.dies(actor, ev.error_value("actor", text))
        else:
            self._session.instruct(do.Fork(self.pool.spawn(actor)))

    def pin(self, task: Task) -> ev.Value | None:
        """A call keeps its actor alive; the value it fails with if that is dead."""
        actor = self.scheduler.actors.get(task.submit.actor)
        entry = self.catalog.get(task.submit.actor)
        if actor is None or entry is None or entry.state is State.FREED:
            return ev.error_value("actor", "There is no such actor: its last handle was gone.")
        self._work.pin(task, entry)
        return actor.why

    def refuse(self, task: Task, why: ev.Value | None) -> None:
        """A call of an actor nobody knows."""
        assert why is not None
        self._work.unpin(task)
        for id in task.results:
            self._work.result(id, why)

    def born(self, actor: Actor, value: ev.Value) -> None:
        """Its instance was made, or not."""
        if value.failed:
            self.dies(actor, value)
            self.release(actor)
        elif actor.life is Life.BEING_MADE:
            actor.life = Life.ALIVE
            self.scheduler.notify(actor)

    def lost(self, actor: Actor, tasks: list[Task], crash: str, event: ev.WorkerExited) -> None:
        """Its worker is gone: make it again, or let it be dead."""
        words, last = last_words(event), place_of(event.running, tasks)
        if actor.life is Life.DEAD:
            assert actor.why is not None
            for task in tasks:
                self._work.fail(task, actor.why)
            return
        if not actor.restarts:
            while_it = f" while it ran `{tasks[last].submit.name}`" if tasks else ""
            text = f"{actor.name} died: {crash}{while_it}.{words}"
            self.dies(actor, ev.error_value("actor", text), tasks)
            return
        actor.restarts -= actor.restarts > 0
        actor.life = Life.BEING_MADE
        again, over = actor.lost(tasks, last)
        for task in over:
            text = f"{crash} while it ran `{task.submit.name}`; {actor.name} is made again.{words}"
            self._work.fail(task, ev.error_value("actor", text))
        if self.scheduler.actors.get(actor.id) is actor:  # else those were its last calls
            actor.put_back(again)
            self._work.stop_stopped(again)
            if actor.creation_task not in self.scheduler:
                self.scheduler.enter(actor.creation_task)
            self._hire(actor)

    def kill_actor(self, client: Client, event: ev.KillActor) -> None:
        """Somebody ends it from outside."""
        actor = self.scheduler.actors.get(event.actor)
        if actor is None or actor.life is Life.DEAD:
            return
        worker = actor.worker
        if not (event.restart and actor.restarts):
            text = f"{actor.name} was ended by kill()."
            self.dies(actor, ev.error_value("actor", text))
        if worker is not None:
            self._session.instruct(do.Kill(worker.number))

    def leave(self, client: Client, event: ev.Leave) -> None:
        """It ends itself."""
        worker = self.scheduler.by_client.get(client.number)
        if worker is not None and worker.actor is not None:
            text = f"{worker.actor.name} left by exit_actor()."
            self.dies(worker.actor, ev.error_value("actor", text))

    def dies(self, actor: Actor, why: ev.Value, tasks: Iterable[Task] = ()) -> None:
        """It will never run a call again."""
        if actor.life is Life.DEAD:
            return
        actor.life, actor.why = Life.DEAD, why
        worker = actor.worker
        calls = [*tasks, *(worker.sent.values() if worker is not None else ()), *actor.calls]
        if actor.creation_task in self.scheduler:
            self.scheduler.finish(actor.creation_task)
        self._work.unpin(actor.creation_task)
        actor.creation_task.pins.clear()
        entry = self.catalog.get(actor.id)
        for name in entry.names if entry is not None else ():
            self.catalog.bind(name, None)
        for task in calls:  # with the last of them the actor itself may be forgotten
            if task in self.scheduler and task is not actor.creation_task:
                self._work.fail(task, why)

    def retire(self, actor: Actor) -> None:
        """No handle is left, and no call."""
        del self.scheduler.actors[actor.id]
        self.dies(actor, ev.error_value("actor", "Its last handle is gone."))
        self.release(actor)

    def release(self, actor: Actor) -> None:
        """Its process has no more use."""
        worker = actor.worker
        if worker is not None and worker.client is not None:
            self._session.hang_up(worker.client, "its actor has ended")
        elif worker is not None:
            self._session.instruct(do.Kill(worker.number))


def place_of(running: int, tasks: list[Task]) -> int:
    """Which of the tasks sent to a worker, in that order, it ran; the first if nobody knows."""
    return next((n for n, task in enumerate(tasks) if task.submit.task == running), 0)


def last_words(event: ev.WorkerExited) -> str:
    """A clause with the end of what it wrote to stderr, if it wrote anything."""
    return f"\nThe last it wrote to stderr:\n{event.stderr}" if event.stderr else ""
