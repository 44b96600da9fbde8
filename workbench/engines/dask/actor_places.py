"""Where the actors of all sessions live, and what their workers are told of them. At Dask's
scheduler, on its event loop alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.engines.dask.kept_session import ClusterSession


class ActorPlaces:
    """See the module. ``nodes`` are the workers that have our plugin, by address."""

    def __init__(
        self, scheduler: Any, sessions: Mapping[str, ClusterSession], nodes: Mapping[str, Any]
    ) -> None:
        self._scheduler = scheduler
        self._sessions = sessions
        self._nodes = nodes

    # -- questions ---------------------------------------------------------------------------------

    def place(
        self, session: str, actor: int, name: str, key: str, described: str, detached: bool
    ) -> str:
        """Where a new actor goes: the worker with the fewest. '' if another has its name.

        LookupError if there is no worker.
        """
        found = self._sessions[session]
        if name and any(each[0] == name for each in found.actors.values()):
            return ""
        counts = {address: 0 for address in self._nodes if address in self._scheduler.workers}
        if not counts:
            raise LookupError("the cluster has no workers")
        for each in self._sessions.values():
            for _, _, address, _ in each.actors.values():
                counts[address] = counts.get(address, 0) + 1
        address = min(counts, key=lambda address: (counts[address], address))
        found.actors[actor] = name, key, address, described
        if detached:
            found.detached[actor] = found.keep(described)
        return address

    def actors(self, session: str) -> list[Any]:
        """(id, full name, key, address, description's key) of each actor that lives."""
        return [[id, *each] for id, each in self._sessions[session].actors.items()]

    # -- messages ----------------------------------------------------------------------------------

    def skip(self, actor: int, address: str, submitter: int, number: int, **_: Any) -> None:
        """That call of an actor won't come."""
        message = {
            "op": "workbench_skip", "actor": actor, "submitter": submitter, "number": number
        }  # fmt: skip
        if address in self._scheduler.workers:
            self._scheduler.worker_send(address, message)

    def kill(self, session: str, actor: int, restart: bool, **_: Any) -> None:
        """End its process; without ``restart`` for good."""
        found = self._sessions.get(session)
        entry = None if found is None else found.actors.get(actor)
        if found is None or entry is None:
            return
        if not restart:
            del found.actors[actor]
            found.detached.pop(actor, None)
        self._kill_at(entry[2], actor, restart)

    def _kill_at(self, address: str, actor: int, restart: bool) -> None:
        message = {"op": "workbench_kill_actor", "actor": actor, "restart": restart}
        self._scheduler.worker_send(address, message)

    # -- what becomes of them ----------------------------------------------------------------------

    def will_not_be_made(self, key: str) -> None:
        """The task that would have made it was dropped."""
        for session in self._sessions.values():
            for actor in [id for id, each in session.actors.items() if each[1] == key]:
                self.kill(session.name, actor, False)

    def forgotten(self, key: str) -> None:
        """A key is gone: if it described an actor, nobody has a handle of that any more. Called
        amid a transition."""
        for session in self._sessions.values():
            for actor, each in session.actors.items():
                if each[3] == key:
                    self._scheduler.loop.add_callback(self.kill, session.name, actor, False)

    def worker_gone(self, worker: str) -> None:
        """Its actors are gone with it."""
        for session in self._sessions.values():
            gone = [id for id, each in session.actors.items() if each[2] == worker]
            for actor in gone:
                key = session.actors.pop(actor)[1]
                session.detached.pop(actor, None)
                session.tell_all(["actor", key])

    def departed(self, session: ClusterSession, submitter: int) -> None:
        """They wait no longer for calls of a process that is gone."""
        for address in {each[2] for each in session.actors.values()}:
            if address in self._scheduler.stream_comms:
                message = {"op": "workbench_departed", "submitter": submitter}
                self._scheduler.worker_send(address, message)

    def end(self, session: ClusterSession) -> None:
        """All of a session that is over."""
        for actor, (_, _, address, _) in session.actors.items():
            self._kill_at(address, actor, False)
