"""Whether the parts of a session's state agree with each other. Reads only; for tests.

What one part can tell by itself is in its own ``check``.
"""

from __future__ import annotations

from collections import Counter

from workbench.core.budget import SERVER
from workbench.core.entry import FREED, PENDING, READY
from workbench.core.job_manager import kept_results
from workbench.core.state import State
from workbench.units import round_up


def check(state: State) -> None:
    """Raise AssertionError unless they agree. To be called between batches."""
    state.catalog.check()
    state.budget.check()
    state.scheduler.check()
    state.pool.check()
    _check_memory(state)
    _check_tasks(state)
    _check_clients(state)


def _check_memory(state: State) -> None:
    """Every extent belongs to exactly one object, and every object to where it says."""
    values = [e.value for e in state.catalog.entries() if e.value is not None]
    values += [stale.value for stale in state.stale_copies.values()]
    extents = [(v.segment, v.offset, round_up(v.length)) for v in values if v.segment]
    extents += [(*move.target, move.nbytes) for move in state.moves.values()]
    assert len(set(extents)) == len(extents), "two objects share an extent"
    assert set(extents) == {
        (arena.segment, offset, length)
        for arena in state.budget.arenas.values()
        for offset, length in arena.lengths().items()
    }
    inline = [e.value for e in state.catalog.entries() if e.state is READY]
    disk = {arena.segment for arena in state.budget.arenas.values() if arena.disk}
    assert state.budget.live == sum(n for s, _, n in extents if s not in disk) + sum(
        len(v.header) for v in inline if v is not None and not v.segment
    )
    assert all((v.segment in disk) == bool(v.digest) for v in values)
    if state.budget.is_asked:
        busy = state.budget._trimming or state.moves or state.stale_copies
        assert busy, "somebody waits for memory, and nobody was asked for it"


def _check_tasks(state: State) -> None:
    """Pins and waits are what the tasks that aren't done say they are."""
    entries = {e.id: e for e in state.catalog.entries()}
    tasks = state.scheduler.tasks
    creations = [actor.creation_task for actor in state.scheduler.actors.values()]
    keeping = {*tasks.values(), *creations}  # those are kept for a restart
    pins = Counter(id for task in keeping for id in task.pins)
    made = {id for task in tasks.values() for id in task.results}
    waits = Counter(
        task.submit.task
        for e in entries.values()
        for task in e.waiting_tasks or ()
        if not task.is_over
    )
    for task in tasks.values():
        assert task.pending_dependencies == waits[task.submit.task], (
            "waits for more or less than its arguments"
        )
    kept = dict(kept_results(state))
    for entry in entries.values():
        assert entry.tasks == pins[entry.id]
        freed = entry.state is FREED
        assert entry.job == ("" if freed else kept.get(entry.id, "")), "kept, and for no job"
        if entry.state is PENDING:
            assert entry.id in made, "pending, and no task will ever make it"
    assert pins.keys() <= entries.keys()
    assert not state.failing
    assert state.functions.keys() <= entries.keys(), "a dead function counts as cached"
    scheduler = state.scheduler
    if scheduler.queue and scheduler.has_room:
        assert not scheduler.idle, "an idle worker beside a queue"


def _check_clients(state: State) -> None:
    """Whoever is named anywhere is connected."""
    connected = state.clients.keys()
    showing = connected | state.showing
    assert not connected & state.showing
    for entry in state.catalog.entries():
        assert {*entry.holds, *entry.waiting_clients} <= connected
        assert entry.viewers.keys() <= showing
    assert {a.owner for a in state.budget.arenas.values()} - {None} <= connected
    assert {request.client for request in state.budget._queue} <= {*connected, SERVER}
    for stale in state.stale_copies.values():
        assert stale.owed <= connected
        assert stale.viewers.keys() <= showing
    assert state.scheduler.by_client.keys() <= connected
    for caching in state.functions.values():
        assert caching <= connected
    assert not state.releases
    assert not state.out
