"""Any events from anybody, in any order: the session may hang up, and must stay sound.

What the wire's decoder refuses (negative sizes and the like) doesn't come this far.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.invariants import check
from tests.unit.core.peers import ABOUT
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, Measured, Tick, WorkerExited
from workbench.core.session import Session

CLIENTS = (1, 2, 3)
IDS = [c << ID_BITS | n for c in (1, 2, 3) for n in range(4)]

ids = st.sampled_from(IDS)
some = st.lists(ids, max_size=3).map(tuple)
small = st.integers(0, 3)


def value_of(id: int) -> st.SearchStrategy[ev.Value]:
    """It contains only lower ids: what contains itself lives for ever, and may."""
    return st.builds(
        ev.Value,
        header=st.sampled_from([b"P", b"!freed\n", b"P" * 3]),
        segment=st.sampled_from([0, *IDS]),
        offset=small,
        length=small,
        contains=st.lists(st.sampled_from([0, *[i for i in IDS if i < id]]), max_size=2).map(tuple),
        failed=st.booleans(),
    )


def sealed(id: int) -> st.SearchStrategy[ev.Sealed]:
    name = st.sampled_from(["", "a"])
    return st.builds(ev.Sealed, st.just(id), value_of(id), st.just(ABOUT), name)


def done(id: int) -> st.SearchStrategy[ev.Done]:
    values = st.lists(value_of(id), max_size=2).map(tuple)
    abouts = st.lists(st.just(ABOUT), max_size=2).map(tuple)
    return st.builds(ev.Done, st.just(id), values, st.just(0.0), abouts)


def yielded(id: int) -> st.SearchStrategy[ev.Yielded]:
    return st.builds(ev.Yielded, ids, st.just(id), value_of(id))


TERMS = st.sampled_from(
    [
        None, ev.TaskSpec(0), ev.TaskSpec(9000, 0.5),
        ev.TaskSpec(retry_on=b"x"), ev.TaskSpec(ahead=1),
        ev.TaskSpec(job="cell 1"), ev.TaskSpec(job="cell 2", binds=("a",), ahead=1),
    ]
)  # fmt: skip


def submitted(task: int) -> st.SearchStrategy[ev.Submit]:
    return st.builds(
        ev.Submit, st.just(task), ids, st.just(b""), some, some, small, st.just("f"), small, small,
        spec=TERMS,
    )  # fmt: skip


events = st.one_of(
    st.builds(
        ev.Hello,
        st.just(1),
        prefix=st.sampled_from(CLIENTS),
        worker=small,
        linger=st.sampled_from([0.0, 9.0]),
        admin=st.booleans(),
    ),
    st.builds(ev.Bye),
    st.builds(Left),
    st.builds(ev.Opened, ids, small),
    st.builds(ev.Reshare, small, ids),
    ids.flatmap(sealed),
    st.builds(ev.Want, some),
    st.builds(ev.Hold, some),
    st.builds(ev.Drop, some),
    st.builds(ev.View, ids, small),
    st.builds(ev.Unview, st.tuples(st.tuples(ids, small))),
    st.builds(ev.Free, some),
    st.builds(ev.Find, small, st.sampled_from("ab")),
    st.builds(ev.Bind, st.sampled_from("ab"), st.sampled_from([0, *IDS])),
    st.builds(ev.Noted, ids),
    st.builds(ev.Grow, small, small, st.booleans()),
    st.builds(ev.Trimmed, small, st.booleans()),
    ids.flatmap(submitted),
    st.builds(Measured, small, small, st.lists(st.tuples(small, small)).map(tuple)),
    ids.flatmap(done),
    st.builds(ev.Output, ids, st.just("stdout"), st.just(b"")),
    st.builds(ev.GaveBack, some, st.booleans()),
    st.builds(ev.Blocked, ids, small, some, small, small),
    st.builds(ev.Unblocked, small),
    st.builds(ev.Ask, small, st.sampled_from(["sync", "overview", "why", "names"]), ids),
    st.builds(ev.Register, ids, st.sampled_from([b"", b"s"])),
    st.builds(ev.Escape, ids, st.sampled_from("ab")),
    st.builds(ev.Pin, ids, st.sampled_from(["", "a"]), st.booleans()),
    st.builds(ev.Explained, small, st.just(())),
    st.builds(ev.EndSession, st.just("because")),
    ids.flatmap(yielded),
    st.builds(ev.Took, ids, small),
    st.builds(ev.Keep, st.sampled_from([0.0, 9.0])),
    st.builds(ev.Collect, small, ids, small),
    st.builds(ev.Loaded, some, st.lists(st.floats(0, 1), max_size=2).map(tuple)),
)

HELLOS = [ev.Hello(1, 1), ev.Hello(1, 2), ev.Hello(1, 3, worker=1)]


@settings(max_examples=3 * settings().max_examples)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(CLIENTS), events), max_size=5), min_size=1, max_size=20
    )
)
def test_nobody_can_bring_the_books_out_of_order(batches: list[list[tuple[int, ev.Event]]]) -> None:
    session = Session("test", 1, 8)
    session.handle([(0, Tick())], 0.0)
    session.handle(list(zip(CLIENTS, HELLOS, strict=True)), 0.0)
    for now, batch in enumerate(batches):
        while batch:
            out = session.handle(batch, float(now))
            check(session.state)
            batch = [(i.client, Left()) for i in out if isinstance(i, do.Hangup)]
            batch += [(0, WorkerExited(i.worker, -9)) for i in out if isinstance(i, do.Kill)]
    for name in list(session.state.catalog.names):
        session.state.catalog.bind(name, None)
    for entry in list(session.state.catalog.values()):
        if entry.escapes or entry.pinned:  # it would stay: somebody may come with those bytes
            session.state.catalog.free(entry)
    session.handle([(client, Left()) for client in CLIENTS], 99.0)
    for worker in range(1, 99):
        session.handle([(0, WorkerExited(worker, 1))], 99.0)
    for entry in list(session.state.catalog.values()):
        if entry.job:  # what it made is kept for somebody
            session.state.catalog.free(entry)
    check(session.state)
    assert not len(session.state.catalog)
    assert not session.state.budget.arenas
    assert not session.state.scheduler.tasks
