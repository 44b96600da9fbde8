"""Whether a session's books agree with each other. Reads only; tests ask after every batch.

What one book can tell by itself is in its own ``check``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from workbench.core.budget import SERVER
from workbench.core.catalog import State
from workbench.units import round_up

if TYPE_CHECKING:
    from workbench.core.session import Session


def check(session: Session) -> None:
    """Raise AssertionError unless the books agree. To be called between batches."""
    session.catalog.check()
    session.budget.check()
    session.scheduler.check()
    session.pool.check()
    session.jobs.check()
    _check_memory(session)
    _check_tasks(session)
    _check_clients(session)


def _check_memory(session: Session) -> None:
    """Every extent belongs to exactly one object, and every object to where it says."""
    values = [e.value for e in session.catalog.entries() if e.value is not None]
    values += [stale.value for stale in session.catalog.stale_copies.values()]
    extents = [(v.segment, v.offset, round_up(v.length)) for v in values if v.segment]
    extents += [(*move.target, move.nbytes) for move in session.spilling.moves.values()]
    assert len(set(extents)) == len(extents), "two objects share an extent"
    assert set(extents) == {
        (arena.segment, offset, length)
        for arena in session.budget.arenas.values()
        for offset, length in arena.lengths().items()
    }
    inline = [e.value for e in session.catalog.entries() if e.state is State.READY]
    disk = {arena.segment for arena in session.budget.arenas.values() if arena.disk}
    assert session.budget.live == sum(n for s, _, n in extents if s not in disk) + sum(
        len(v.header) for v in inline if v is not None and not v.segment
    )
    assert all((v.segment in disk) == bool(v.digest) for v in values)
    if session.budget.is_asked:
        busy = session.budget._trimming or session.spilling.moves or session.catalog.stale_copies
        assert busy, "somebody waits for memory, and nobody was asked for it"


def _check_tasks(session: Session) -> None:
    """Pins and waits are what the tasks that aren't done say they are."""
    entries = {e.id: e for e in session.catalog.entries()}
    tasks = session.scheduler.tasks
    births = [
        actor.creation_task for actor in session.scheduler.actors.values()
    ]  # kept for a restart
    keeping = [*(task for task in tasks.values() if task not in births), *births]
    pins = Counter(id for task in keeping for id in task.pins)
    made = {id for task in tasks.values() for id in task.results}
    waits = Counter(
        task.submit.task
        for e in entries.values()
        for task in e.waiting or ()
        if task in session.scheduler
    )
    for task in tasks.values():
        assert task.pending_dependencies == waits[task.submit.task], (
            "waits for more or less than its arguments"
        )
    kept = dict(session.jobs.kept())
    for entry in entries.values():
        assert entry.tasks == pins[entry.id]
        freed = entry.state is State.FREED
        assert entry.job == ("" if freed else kept.get(entry.id, "")), "kept, and for no job"
        if entry.state is State.PENDING:
            assert entry.id in made, "pending, and no task will ever make it"
    assert pins.keys() <= entries.keys()
    assert not session.task_manager.failing
    assert session.task_manager.functions.keys() <= entries.keys(), (
        "a dead function counts as cached"
    )
    scheduler = session.scheduler
    if scheduler.queue and scheduler.has_room:
        assert not scheduler.idle, "an idle worker beside a queue"


def _check_clients(session: Session) -> None:
    """Whoever is named anywhere is connected."""
    connected = session.clients.keys()
    showing = connected | session._showing
    assert not connected & session._showing
    for entry in session.catalog.entries():
        assert {*entry.holds, *entry.watchers} <= connected
        assert entry.viewers.keys() <= showing
    assert {a.owner for a in session.budget.arenas.values()} - {None} <= connected
    assert {request.client for request in session.budget._queue} <= {*connected, SERVER}
    for stale in session.catalog.stale_copies.values():
        assert stale.owed <= connected
        assert stale.viewers.keys() <= showing
    assert session.scheduler.by_client.keys() <= connected
    for caching in session.task_manager.functions.values():
        assert caching <= connected
    assert not session._releases
    assert not session._out
