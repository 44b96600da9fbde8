"""Tells where the calling code runs: session, process, task and actor. Ray's names for it."""

from __future__ import annotations

import platform
from typing import NoReturn

from workbench.api.actors import ActorHandle, Description, handle_of
from workbench.api.lifecycle import engine
from workbench.engine.base import Engine, Running
from workbench.engine.queries import Here
from workbench.ray_api import IN_CONTEXT, missing
from workbench.ref import IdText


class RuntimeContext:
    """Information about the task and the actor that code is part of. See `get_runtime_context`.

    Ids are texts that identify things; their form may change. None: there is no such
    thing here.

    Parameters
    ----------
    engine : Engine
        The session.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get_job_id(self) -> str:
        """Return the session's unique name, the same in all its processes."""
        return self._engine.session

    def get_node_id(self) -> str:
        """Return the machine's name."""
        return platform.node()

    def get_worker_id(self) -> str:
        """Return the worker process's number, as shown in its output; ``"0"`` in a notebook."""
        return str(self._engine.ask(Here()).worker)

    def get_task_id(self) -> str | None:
        """Return the running task's id: the ``hex()`` of its (first) result's ref."""
        task = self._engine.ask(Here()).task
        return f"{task:016x}" if task else None

    def get_task_name(self) -> str | None:
        """Return the task's name in messages."""
        return self._engine.ask(Here()).name or None

    def is_canceled(self) -> bool:
        """Return True if the task is being stopped: it has had a KeyboardInterrupt, or gets one.

        Raises
        ------
        RuntimeError
            If the calling code isn't a task's.
        """
        running = self._engine.ask(Here())
        if not running.task:
            raise RuntimeError("There is no current task: this code runs in none.")
        return running.cancelled

    def get_actor_id(self) -> str | None:
        """Return the id of the actor whose process this is."""
        actor = self._engine.ask(Here()).actor
        return f"{actor:016x}" if actor else None

    def get_actor_name(self) -> str | None:
        """Return the name that ``.options(name=...)`` gave this actor; ``""`` if it has none."""
        return self._description().name if self._engine.ask(Here()).actor else None

    @property
    def namespace(self) -> str:
        """Namespace of the driver that this code comes from, for names of actors that it makes."""
        return self._engine.ask(Here()).namespace

    @property
    def current_actor(self) -> ActorHandle:
        """A handle of the actor whose process this is, to give to others. It keeps the actor.

        Raises
        ------
        RuntimeError
            If the calling code isn't an actor's.
        """
        return handle_of(self._engine, self._engine.borrow(self._in_actor().actor))

    def _in_actor(self) -> Running:
        running = self._engine.ask(Here())
        if not running.actor:
            raise RuntimeError("There is no current actor: this code runs in none.")
        return running

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """True if this actor was restarted after its process had died.

        Raises
        ------
        RuntimeError
            If the calling code isn't an actor's.
        """
        return self._in_actor().restarted

    @property
    def job_id(self) -> IdText:
        """Result of `get_job_id`, with ``hex()``; the others are alike."""
        return IdText(self.get_job_id())

    @property
    def node_id(self) -> IdText:
        """See `get_node_id`."""
        return IdText(self.get_node_id())

    @property
    def task_id(self) -> IdText | None:
        """See `get_task_id`."""
        task = self.get_task_id()
        return IdText(task) if task else None

    @property
    def actor_id(self) -> IdText | None:
        """See `get_actor_id`."""
        actor = self.get_actor_id()
        return IdText(actor) if actor else None

    def get(self) -> dict[str, str]:
        """Return ``job_id``, ``node_id``, ``namespace``, and ``task_id`` and ``actor_id`` if there
        are such."""
        found = {
            "job_id": self.job_id,
            "node_id": self.node_id,
            "namespace": self.namespace,
            "task_id": self.task_id,
            "actor_id": self.actor_id,
        }
        return {name: id for name, id in found.items() if id is not None}

    def get_assigned_resources(self) -> dict[str, float]:
        """Return ``{"CPU": n}``: the session's processors that the task or the actor has."""
        running = self._engine.ask(Here())
        cpus = self._description().actor.num_cpus if running.actor else running.cpus
        return {"CPU": cpus} if cpus else {}

    def _description(self) -> Description:
        return self.current_actor._description

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("'RuntimeContext' object", name, IN_CONTEXT)


def get_runtime_context() -> RuntimeContext:
    """Return where the calling code runs: its session, worker, task and actor.

    Returns
    -------
    RuntimeContext
        It answers for the calling code, at that moment.
    """
    return RuntimeContext(engine())
