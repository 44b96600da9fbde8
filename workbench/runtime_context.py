"""Where the calling code runs: in which session, process, task and actor. Ray's names for it."""

from __future__ import annotations

import platform

from workbench.api.actors import ActorHandle, Description, handle_of
from workbench.api.lifecycle import engine
from workbench.engine.base import Engine, Running
from workbench.engine.queries import Here
from workbench.ref import IdText


class RuntimeContext:
    """What code can know of the task and the actor that it is part of. See `get_runtime_context`.

    Ids are texts that tell things apart; what they look like may change. None: there is no such
    thing here.

    Parameters
    ----------
    engine : Engine
        The session.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get_job_id(self) -> str:
        """The session's unique name, the same in all its processes."""
        return self._engine.session

    def get_node_id(self) -> str:
        """The machine's name."""
        return platform.node()

    def get_worker_id(self) -> str:
        """The number of the worker process, as its output shows it; ``"0"`` in a notebook."""
        return str(self._engine.ask(Here()).worker)

    def get_task_id(self) -> str | None:
        """The running task: what the ``hex()`` of its (first) result's ref says."""
        task = self._engine.ask(Here()).task
        return f"{task:016x}" if task else None

    def get_task_name(self) -> str | None:
        """What the task is called in messages."""
        return self._engine.ask(Here()).name or None

    def get_actor_id(self) -> str | None:
        """The actor whose process this is."""
        actor = self._engine.ask(Here()).actor
        return f"{actor:016x}" if actor else None

    def get_actor_name(self) -> str | None:
        """The name that ``.options(name=...)`` gave this actor; ``""`` if it has none."""
        return self._description().name if self._engine.ask(Here()).actor else None

    @property
    def namespace(self) -> str:
        """That of the driver from which this code comes: of the names of actors it makes."""
        return self._engine.ask(Here()).namespace

    @property
    def current_actor(self) -> ActorHandle:
        """A handle of the actor whose process this is, to give to others.

        Raises
        ------
        RuntimeError
            If the code that asks is no actor's.
        """
        return handle_of(self._engine, self._engine.borrow(self._in_actor().actor))

    def _in_actor(self) -> Running:
        running = self._engine.ask(Here())
        if not running.actor:
            raise RuntimeError("There is no current actor: this code runs in none.")
        return running

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor was made again, after its process had died.

        Raises
        ------
        RuntimeError
            If the code that asks is no actor's.
        """
        return self._in_actor().restarted

    @property
    def job_id(self) -> IdText:
        """That of `get_job_id`, with ``hex()``; so are the others."""
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
        """All of that: ``job_id``, ``node_id``, ``namespace``, and what there is of ``task_id`` and
        ``actor_id``."""
        found = {
            "job_id": self.job_id,
            "node_id": self.node_id,
            "namespace": self.namespace,
            "task_id": self.task_id,
            "actor_id": self.actor_id,
        }
        return {name: id for name, id in found.items() if id is not None}

    def get_assigned_resources(self) -> dict[str, float]:
        """``{"CPU": n}``: the processors that the task or the actor has of the session's."""
        running = self._engine.ask(Here())
        cpus = self._description().actor.num_cpus if running.actor else running.cpus
        return {"CPU": cpus} if cpus else {}

    def _description(self) -> Description:
        return self.current_actor._description


def get_runtime_context() -> RuntimeContext:
    """Where the calling code runs: its session, worker, task and actor.

    Returns
    -------
    RuntimeContext
        It answers for the code that asks it, at that moment.
    """
    return RuntimeContext(engine())
