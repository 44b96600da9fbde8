"""Whether a session's state is sound: each part by itself, and the parts with each other."""

from __future__ import annotations

from collections import Counter

from workbench.core import job_manager
from workbench.core.budget import SERVER, Budget
from workbench.core.catalog import Catalog
from workbench.core.entry import FREED, PENDING, READY
from workbench.core.scheduler import Scheduler
from workbench.core.state import State
from workbench.core.task_states import DONE, LOST, QUEUED, SENT, STOPPING, WAITING
from workbench.core.tasks import Actor, ActorState, Task, Wait
from workbench.format import OWN
from workbench.system.sizes import round_up


def check(state: State) -> None:
    """Raise AssertionError unless it is. To be called between batches."""
    _check_catalog(state.catalog)
    _check_budget(state.budget)
    _check_scheduler(state.scheduler)
    _check_workers(state.scheduler)
    _check_pool(state)
    _check_jobs(state)
    _check_memory(state)
    _check_tasks(state)
    _check_clients(state)


def _check_memory(state: State) -> None:
    """Every extent belongs to exactly one object, and every object to where it says."""
    values = [e.value for e in state.catalog.values() if e.value is not None]
    values += [stale.value for stale in state.stale_copies.values()]
    extents = [(v.segment, v.offset, round_up(v.length)) for v in values if v.segment]
    extents += [(*move.target, move.nbytes) for move in state.moves.values()]
    assert len(set(extents)) == len(extents), "two objects share an extent"
    assert set(extents) == {
        (arena.segment, offset, length)
        for arena in state.budget.arenas.values()
        for offset, length in arena.lengths().items()
    }
    inline = [e.value for e in state.catalog.values() if e.state is READY]
    disk = {arena.segment for arena in state.budget.arenas.values() if arena.disk}
    granted = sum(arena.granted for arena in state.budget.arenas.values())
    assert state.budget.granted == granted + state.catalog.inline_bytes
    assert granted <= state.budget.capacity
    assert state.budget.live == sum(n for s, _, n in extents if s not in disk) + sum(
        len(v.header) for v in inline if v is not None and not v.segment
    )
    assert all((v.segment in disk) == bool(v.digest) for v in values)
    if state.budget.requests:
        budget = state.budget
        busy = budget.trimming or state.moves or state.stale_copies or budget.room is None
        lent = [state.catalog[id] for id in state.catalog.lent.keys() - state.sent_objects()]
        comes = any(entry.state is FREED and not entry.tasks for entry in lent)
        assert busy or comes or state.now < state.copies_at, (
            "somebody waits for memory, and nobody was asked for it"
        )


def _check_tasks(state: State) -> None:
    """Pins and waits are what the tasks that aren't done say they are."""
    entries = {e.id: e for e in state.catalog.values()}
    tasks = state.scheduler.tasks
    creations = [actor.creation_task for actor in state.scheduler.actors.values()]
    keeping = {*tasks.values(), *creations}  # those are kept for a restart
    pins = Counter(id for task in keeping for id in task.pins)
    arguments = sum(len(task.submit.args) for task in keeping)
    assert state.catalog.argument_bytes == arguments == sum(t.argument_bytes for t in keeping)
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
    kept = {id: j.name for j in state.jobs.values() if not j.audience for id in j.results}
    for entry in entries.values():
        assert entry.tasks == pins[entry.id]
        freed = entry.state is FREED
        assert entry.job in ("", "" if freed else kept.get(entry.id, "")), "kept, and for no job"
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
    for entry in state.catalog.values():
        assert {*entry.holds, *entry.waiting_clients} <= connected
        assert entry.viewers.keys() <= showing
    assert {a.owner for a in state.budget.arenas.values()} - {None} <= connected
    assert {request.client for request in state.budget.requests} <= {*connected, SERVER}
    for stale in state.stale_copies.values():
        assert stale.owed <= connected
        assert stale.viewers.keys() <= showing
    assert state.scheduler.by_client.keys() <= connected
    for caching in state.functions.values():
        assert caching <= connected
    assert not state.releases
    assert not state.out


def _check_catalog(catalog: Catalog) -> None:
    """Every entry has a reason, and the counts are true."""
    parents: Counter[int] = Counter()
    inline = 0
    for id, entry in catalog.items():
        assert entry.id == id
        assert entry.alive or entry.viewers or id in catalog.lent, "nothing keeps it"
        assert all(n > 0 for n in (*entry.holds.values(), *entry.viewers.values()))
        assert entry.tasks >= 0
        if entry.state is FREED:
            assert not entry.names, "a name of nothing"
            assert not entry.escapes
            assert not entry.pinned
            assert not entry.job
            read = entry.viewers or entry.tasks or id in catalog.lent
            assert entry.value is None or read, "bytes nobody reads"
        else:
            assert entry.alive
            assert (entry.value is None) == (entry.state is PENDING)
        for client in (*entry.holds, *entry.viewers, *entry.waiting_clients):
            assert client not in catalog._pinned_by or id in catalog._pinned_by[client]
        if entry.state is not PENDING:
            assert not entry.waiting_clients, "was to be told when it was ready"
            assert not entry.waiting_tasks
        if entry.state is READY and entry.value is not None:
            parents.update(entry.value.contains)
            inline += 0 if entry.value.segment else len(entry.value.header)
    assert all(n > 0 for n in catalog.lent.values())
    assert catalog.lent.keys() <= catalog.keys()
    assert inline == catalog.inline_bytes
    assert catalog.own == sum(bool(e.kind and e.kind[0].startswith(OWN)) for e in catalog.values())
    assert {id: e.parents for id, e in catalog.items() if e.parents} == parents
    named = [(name, id) for id, e in catalog.items() for name in catalog.names_of(e)]
    assert dict(named) == catalog.names
    assert len(named) == len(catalog.names)


def _check_budget(budget: Budget) -> None:
    """Each arena holds what it says, within what it was granted."""
    for segment, arena in budget.arenas.items():
        assert arena.segment == segment
        assert arena.live == sum(arena.lengths().values())
        for offset, length in arena.lengths().items():
            assert 0 <= offset < offset + length <= arena.size
        if arena.owner is None:
            assert arena.granted == (0 if arena.disk else arena.live), "memory nobody will use"
            assert arena.extents, "an empty arena without an owner"
        else:
            assert arena.live <= arena.granted
            assert budget.arena_of(arena.owner) is arena
    assert budget.spilled == sum(a.live for a in budget.arenas.values() if a.disk)
    assert all(budget.arena_of(client) for client in (*budget.trimming, *budget.late))
    assert budget.trimming.keys().isdisjoint(budget.late), "asked again before it answered"


def _check_scheduler(scheduler: Scheduler) -> None:
    """Each task is where its state says, and the sums are true."""
    queued = {*scheduler.queue, *(t for actor in scheduler.actors.values() for t in ready(actor))}
    sent = {t: worker for worker in scheduler.workers.values() for t in worker.sent.values()}
    tasks = set(scheduler.tasks.values())
    assert queued <= tasks
    assert sent.keys() <= tasks
    for id, task in scheduler.tasks.items():
        assert task.submit.task == id
        assert task.state is not DONE
        lost = task.line is not None and task.line.has_ended
        assert (task.state is LOST) == lost, "undecided"
        assert task.line is None or task.line.tasks[id] is task
        assert task.worker is sent.get(task)
        assert (task in sent) == (task.state in (SENT, STOPPING))
        assert lost or (task.final_value is not None) == (task.state is STOPPING)
        calls = () if task.actor is None else task.actor.waiting.get(task.owner, ())
        executor = scheduler.executors.executors.get(task.spec.executor)
        limited = executor is not None and task in executor.waiting
        waits = task in calls or limited or (task not in queued and task.pending_dependencies > 0)
        assert not (lost and waits)
        assert waits == (task.state is WAITING)
        assert (task in queued) == (task.state is QUEUED) or task.is_creation
    for id, executor in scheduler.executors.executors.items():
        active = [t for t in tasks if t.is_counted and t.spec.executor == id]
        assert 0 < len(active) == executor.active <= executor.most
        assert all(t.state in (QUEUED, SENT, STOPPING) for t in active)
        assert executor.active == executor.most or not executor.waiting
        assert all(t.state is WAITING for t in executor.waiting)
    for id, actor in scheduler.actors.items():
        assert actor.id == id
        _check_actor(actor)
    assert len(list(scheduler.queue)) == len(scheduler.queue)
    assert scheduler.tasks.owners == Counter(task.owner for task in scheduler.tasks.values())
    several = {id: t for t in scheduler.tasks.values() for id in t.results[1:]}
    assert scheduler.tasks.further == several
    children = [id for siblings in scheduler.tasks._children.values() for id in siblings]
    assert sorted(children) == sorted(i for i, t in scheduler.tasks.items() if t.parent_id)
    assert not scheduler.may_use_lines
    assert scheduler.limits.keys() <= {t for t in sent if t.spec.timeout}


def _check_workers(scheduler: Scheduler) -> None:
    for number, worker in scheduler.workers.items():
        assert worker.number == number
        lends = bool(worker.waits) and not any(wait.is_over for wait in worker.waits.values())
        assert worker.blocked == (worker.leaving or lends)
        assert worker.waits_over == sum(wait.is_over for wait in worker.waits.values())
        assert not worker.waits or ((worker.sent or worker.lease) and worker.actor is None)
        lease = worker.lease
        assert lease is None or not lease.is_returned or not lease.lent, "lent to nobody"
        assert abs(worker.load - sum(t.seconds for t in worker.sent.values())) < 1e-6
        assert not worker.sent or worker.client is not None
    pooled = [worker for worker in scheduler.workers.values() if worker.actor is None]
    assert scheduler.pooled == len(pooled)
    assert scheduler.working == sum(1 for worker in pooled if not worker.blocked)
    assert scheduler.idle == {c: w for c, w in scheduler.pool.items() if w.idle and w.lease is None}
    assert scheduler.ahead == {
        c: w for c, w in scheduler.pool.items() if len(w.sent) > 1 and not w.lease
    }
    assert scheduler._accepting.keys() <= {c for c, w in scheduler.pool.items() if not w.blocked}
    awaited: dict[int, set[Wait]] = {}
    for wait in [w for worker in scheduler.workers.values() for w in worker.waits.values()]:
        assert not (wait.is_over and wait.missing)
        for id in wait.missing:
            awaited.setdefault(id, set()).add(wait)
    assert {id: set(waits) for id, waits in scheduler.waits.by_object.items()} == awaited
    actors = [w.actor for w in scheduler.workers.values() if w.actor is not None]
    assert scheduler.actor_cpus == sum(actor.cpus for actor in actors) <= scheduler.cpus
    busy = sum(w.cpus for w in pooled if (w.sent or w.lease) and not w.blocked)
    assert scheduler.used == scheduler.actor_cpus + busy
    for client, worker in scheduler.by_client.items():
        assert worker.client == client
        assert scheduler.workers[worker.number] is worker


def _check_actor(actor: Actor) -> None:
    """Its calls are where they belong."""
    assert all(not task.pending_dependencies for task in ready(actor))
    held = {caller for caller, line in actor.lines.items() if line.has_ended}
    assert all(q and (c in held or q[0].pending_dependencies) for c, q in actor.waiting.items())
    assert +actor.unfinished == actor.unfinished
    assert actor.worker is None or actor.worker.actor is actor
    if actor.state is ActorState.DEAD:
        assert actor.why is not None
        assert not actor.calls, "calls of a dead actor fail at once"


def _check_pool(state: State) -> None:
    """There are as many workers as there is use for."""
    pool, scheduler = state.pool, state.scheduler
    assert len(scheduler.workers) <= pool.most
    assert not pool.steady or scheduler.working == pool.target
    assert not pool.resting or not scheduler.queue.size
    all_came = all(worker.client is not None for worker in scheduler.workers.values())
    may_grow = pool.retry_at is None and len(scheduler.workers) < pool.most
    may_grow = may_grow and (all_came or not pool.broken) and not pool.resting
    may_grow = may_grow and (scheduler.queue.size > 0 or not pool.memory_is_short)
    if scheduler.working < pool.target and may_grow:
        assert scheduler.pooled >= pool.target
        assert not scheduler.queue, "tasks wait, and a slot is not filled"


def _check_jobs(state: State) -> None:
    """What is kept of them has its bounds, and what is kept for one has that as its reason."""
    kept_for: dict[int, set[int]] = {}
    kept = {id: entry.job for id, entry in state.catalog.items() if entry.job}
    for id, job in state.jobs.items():
        assert job.id == id == job.results[0]
        assert job.audience.keys() <= state.clients.keys()
        assert not (job.unseen and job.audience), "somebody sees it"
        assert job.ends.keys() <= set(job.results)
        if job.is_over:
            assert not job.tasks
        else:
            unfinished = sum(not task.is_over for task in job.tasks)
            assert unfinished + job.outcomes.total() == len(job.tasks) <= job.size
        kept_for[id] = its_own = {id for id in job.results if kept.get(id) == job.name}
        assert not (its_own and job.audience), "kept for nobody, and somebody has it"
        kept = {id: name for id, name in kept.items() if id not in its_own}
    assert not kept, "kept for a job that nobody knows"
    over = [job for job in state.jobs.values() if job.is_over]
    assert sum(job.log.nbytes for job in over) <= job_manager.MOST_LOGGED
    assert sum(not kept_for.get(job.id) for job in over) <= job_manager.MOST_JOBS


def ready(actor: Actor) -> list[Task]:
    """Its calls that may be sent."""
    return [task for queue in actor.ready.values() for task in queue]
