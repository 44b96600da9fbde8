"""Background cells: what is kept of what they show, and how somebody else comes by it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core import jobs
from workbench.core.jobs import Log
from workbench.core.report import take_snapshot
from workbench.core.snapshot import JobRecord

Make = Callable[..., Stage]

NONE = ev.Value(b"N")
BOOM = ev.Value(b"boom", failed=True)


def shown(peer: Peer) -> list[tuple[str, bytes, int]]:
    """What the peer was told to show: (kind, data, origin)."""
    return [(m.kind, m.data, m.origin) for m in peer.inbox if isinstance(m, ev.Output)]


def collected(peer: Peer) -> do.Collected:
    (found,) = [m for m in peer.inbox if isinstance(m, do.Collected)]
    return found


def records(s: Stage) -> list[JobRecord]:
    return list(take_snapshot(s.session).jobs)


def cell(s: Stage, driver: Peer, name: str = "cell 7", returns: int = 1, origin: int = 7) -> int:
    terms = ev.Terms(job=name, binds=tuple("ab"[: returns - 1]))
    function = s.function(driver)
    return driver.submit(function, (), (), returns, origin=origin, terms=terms)[0]


def runner(s: Stage, task: int) -> Peer:
    """The worker that runs it."""
    return next(peer for peer in s.peers.values() if peer.runs and peer.runs[0].task == task)


# -- the log --------------------------------------------------------------------------------------

PRINTS = st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40))
SHOWS = st.tuples(st.sampled_from(["display", "update"]), st.binary(max_size=20))
CLEAR = st.just(("clear", b"{}"))


@given(st.lists(st.one_of(PRINTS, PRINTS, SHOWS, CLEAR), max_size=60))
@example([("display", b"1"), ("clear", b""), ("stdout", b"2")])
def test_a_log_is_the_end_of_what_was_shown(everything: list[tuple[str, bytes]]) -> None:
    """Against all of it, joined, cut at the last clear, with bounds a test can reach."""
    log = Log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "MOST_TEXT", 200)
        patch.setattr(jobs, "MOST_DISPLAYED", 50)
        patch.setattr(jobs, "PIECE", 30)
        for kind, data in everything:
            log.add(kind, data)
    clears = [i for i, (kind, _) in enumerate(everything[:-1]) if kind == "clear"]
    rest = everything[clears[-1] + 1 :] if clears else everything
    kept = list(log)
    notes = [data for kind, data in kept[:1] if kind == "stderr" and data.endswith(b"not kept]\n")]
    kept = kept[len(notes) :]

    def text(pieces: list[tuple[str, bytes]]) -> bytes:
        return b"".join(data for kind, data in pieces if kind in ("stdout", "stderr"))

    def others(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [piece for piece in pieces if piece[0] not in ("stdout", "stderr")]

    assert text(rest).endswith(text(kept))
    assert len(text(kept)) <= 200
    assert len(text(kept)) > 200 - 70 or text(kept) == text(rest)
    assert others(rest)[len(others(rest)) - len(others(kept)) :] == others(kept)
    assert sum(len(data) for _, data in others(kept)) <= 50
    assert bool(notes) == (len(text(kept)) < len(text(rest)) or others(kept) != others(rest))
    assert log.lines == text(rest).count(b"\n")
    assert log.displays == sum(kind == "display" for kind, _ in rest)
    if not notes:  # then it is all of it, in order
        assert joined(kept) == joined(rest)
    log.close()
    assert not [piece for piece in log if not piece[1].endswith(b"not kept]\n")]
    assert log.lines == text(rest).count(b"\n")


def joined(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Prints one after the other to the same stream as one; without those of nothing."""
    found = []
    for kind, group in groupby([p for p in pieces if p[1]], lambda piece: piece[0]):
        data = [data for _, data in group]
        found += [(kind, b"".join(data))] if kind.startswith("std") else [(kind, d) for d in data]
    return found


def test_the_note_says_what_was_cut() -> None:
    log = Log()
    for _ in range(200):
        log.add("stdout", b"x" * 9_999 + b"\n")
        log.add("display", b"y" * 100_000)
    (_, note), *kept = log
    assert note == b"[1 MB and 120 display(s) before this, not kept]\n"
    assert sum(len(data) for kind, data in kept if kind == "stdout") == jobs.MOST_TEXT
    assert [kind for kind, _ in kept][-4:] == ["stdout", "display"] * 2
    assert log.lines == 200


def test_prints_are_cut_at_the_end_of_a_line() -> None:
    log = Log()
    for n in range(200_000):
        log.add("stdout", b"%06d\n" % n)
    text = b"".join(data for _, data in list(log)[1:])
    assert text == b"".join(b"%06d\n" % n for n in range(200_000 - jobs.MOST_TEXT // 7, 200_000))


# -- who comes back -------------------------------------------------------------------------------


def test_a_cell_goes_on_without_its_notebook_and_is_collected(stage: Make) -> None:
    s = stage()
    before, worker = s.driver(60.0), s.worker()
    task = cell(s, before, returns=2)
    s.all_read()
    worker.post(ev.Output(task, "stdout", b"before\n"))
    s.turn()
    assert shown(before) == [("stdout", b"before\n", 7)]
    s.leave(before)
    s.turn(after=3.0)
    (record,) = records(s)
    assert record == JobRecord(task, 1, "cell 7", "running", 3.0, 1, 0, ("a",), True)
    worker.post(ev.Output(task, "stdout", b"between\n"))
    after = s.driver(60.0)
    after.post(ev.Collect(1, task, origin=3))
    s.turn()
    assert shown(after) == [("stdout", b"before\nbetween\n", 3)]
    assert collected(after).results == (task, task + 1)
    after.inbox.clear()
    after.holds.update((task, task + 1))
    worker.post(ev.Output(task, "stdout", b"after\n"))
    worker.finish((NONE, ev.Value(b"the result")), 1.0)
    after.post(ev.Want((task + 1,)))
    s.turn()
    assert shown(after) == [("stdout", b"after\n", 3)]
    assert do.Ready(task + 1, ev.Value(b"the result")) in after.inbox
    (record,) = records(s)
    assert (record.state, record.lines, record.kept) == ("done", 3, False)
    after.drop(task + 1)
    s.turn()
    assert s.session.catalog.get(task + 1) is None, "nobody keeps it any more"


def test_one_that_has_not_begun_will(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(60.0), s.worker()
    first, second = cell(s, driver, "cell 1"), cell(s, driver, "cell 2")
    s.all_read()
    assert [(r.name, r.state) for r in records(s)] == [("cell 1", "running"), ("cell 2", "queued")]
    s.leave(driver)
    for task in (first, second):
        s.all_read()
        assert worker.runs[0].task == task
        worker.finish((NONE,), 1.0)
    s.all_read()
    assert [(r.state, r.kept) for r in records(s)] == [("done", True)] * 2
    assert s.session.deadline() == s.now + 60.0, "a cell that runs doesn't prolong the session"


def test_one_that_waits_behind_another_is_queued(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(60.0), s.worker()
    function = s.function(driver, seconds=0.0)
    for name in ("cell 1", "cell 2"):
        driver.submit(function, (), (), terms=ev.Terms(job=name))
    s.all_read()
    assert len(worker.runs) == 2
    assert [record.state for record in records(s)] == ["running", "queued"]


def test_one_whose_results_nobody_wants_runs_for_what_it_shows(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(60.0), s.worker()
    _, second = cell(s, driver), cell(s, driver)
    s.all_read()
    driver.drop(second)
    s.leave(driver)
    s.all_read()
    worker.finish((NONE,), 1.0)
    s.all_read()
    assert worker.runs[0].task == second
    after = s.driver(60.0)
    after.post(ev.Collect(1, second))
    s.turn()
    assert collected(after).results == (0,)


def test_what_it_gave_to_others_to_do_is_shown_with_it(stage: Make) -> None:
    s = stage(workers=2)
    driver, _, _ = s.driver(60.0), s.worker(), s.worker()
    task = cell(s, driver)
    s.all_read()
    parent = runner(s, task)
    (child,) = parent.submit(parent.put(ev.Value(b"f")), (), (), origin=7)
    s.all_read()
    s.leave(driver)
    runner(s, child).post(ev.Output(child, "stdout", b"kept\n"))
    after = s.driver(60.0)
    after.post(ev.Collect(1, task, origin=4))
    runner(s, child).post(ev.Output(child, "stdout", b"live\n"))
    s.turn()
    assert shown(after) == [("stdout", b"kept\n", 4), ("stdout", b"live\n", 4)]
    parent.finish((NONE,), 1.0)
    runner(s, child).post(ev.Output(child, "stdout", b"late\n"))
    s.turn()
    assert shown(after)[2:] == [("stdout", b"late\n", 4)]
    job = s.session.schedule.tasks[child].job
    assert job is not None
    assert not list(job.log), "kept for nobody"


def test_several_may_look_on(stage: Make) -> None:
    s = stage()
    first, second, worker = s.driver(60.0), s.driver(60.0), s.worker()
    task = cell(s, first)
    s.all_read()
    second.post(ev.Collect(1, task, origin=5))
    first.post(ev.Collect(1, task, origin=8))  # from another of its cells
    worker.post(ev.Output(task, "stdout", b"x"))
    s.turn()
    assert (shown(first), shown(second)) == ([("stdout", b"x", 8)], [("stdout", b"x", 5)])
    s.leave(first)
    assert not records(s)[0].kept
    s.leave(second)
    assert records(s)[0].kept


def test_how_it_ended(stage: Make) -> None:
    s = stage(workers=2)
    driver, _, _ = s.driver(60.0), s.worker(), s.worker()
    good, bad, stopped, never = (cell(s, driver, f"cell {n}") for n in range(4))
    s.all_read()
    driver.post(ev.Cancel(never))
    runner(s, good).finish((NONE,), 1.0)
    runner(s, bad).finish((BOOM,), 1.0)
    s.all_read()
    driver.post(ev.Cancel(stopped))
    runner(s, stopped).finish((ev.refusal("cancelled", "it heard"),), 1.0)
    s.turn()
    states = {record.id: record.state for record in records(s)}
    assert states == {good: "done", bad: "failed", stopped: "cancelled", never: "cancelled"}


def test_one_whose_time_was_up_failed(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(60.0), s.worker()
    driver.submit(s.function(driver), (), (), terms=ev.Terms(timeout=1.0, job="cell 7"))
    s.all_read()
    s.turn(after=1.0)
    worker.finish((ev.refusal("cancelled", "it heard"),), 1.0)
    s.turn()
    assert [record.state for record in records(s)] == ["failed"]


def test_when_its_worker_dies_that_is_what_is_collected(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(60.0), s.worker()
    task = cell(s, driver)
    s.all_read()
    s.leave(driver)
    s.crash(worker)
    after = s.driver(60.0)
    after.post(ev.Collect(1, task))
    after.post(ev.Want((task,)))
    s.turn()
    (answer,) = [m.value for m in after.inbox if isinstance(m, do.Ready)]
    assert answer.header.startswith(b"!crashed")
    assert records(s)[0].state == "failed"


def test_results_are_kept_for_a_reason_and_can_be_freed(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(60.0), s.worker()
    task = cell(s, driver, returns=2)
    s.all_read()
    s.leave(driver)
    worker.finish((NONE, ev.Value(b"the result")), 1.0)
    after = s.driver(60.0)
    after.post(ev.Ask(1, "why", task + 1))
    s.turn()
    (answer,) = [m for m in after.inbox if isinstance(m, do.Answer)]
    assert answer.account is not None
    assert [(pin.reason, pin.detail) for pin in answer.account.pins] == [("job", "cell 7")]
    after.post(ev.Free((task + 1,)))
    after.post(ev.Collect(1, task))
    s.turn()
    assert collected(after).results == (task, 0)


def test_what_was_somebodys_leaves_a_record_and_of_many_the_last(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(60.0), s.worker()
    tasks = []
    for n in range(jobs.MOST_RECORDS + 5):
        tasks.append(cell(s, driver, f"cell {n}"))
        s.all_read()
        worker.finish((NONE,), 1.0)
        s.all_read()
    assert [record.id for record in records(s)] == tasks[5:]
    other = s.driver(60.0)
    other.post(ev.Collect(1, tasks[-1]))
    other.post(ev.Collect(2, tasks[0]))
    s.turn()
    known, unknown = (m for m in other.inbox if isinstance(m, do.Collected))
    assert (known.job, known.results) == (records(s)[-1], ())
    assert (unknown.job, unknown.results) == (None, ())


@pytest.mark.parametrize("what", ["of a worker", "of an actor", "without a result"])
def test_what_only_says_that_it_is_a_job(stage: Make, what: str) -> None:
    s = stage()
    driver, worker = s.driver(60.0), s.worker()
    sender = worker if what == "of a worker" else driver
    sender.submit(
        s.function(driver), (), (), 0 if what == "without a result" else 1,
        terms=ev.Terms(job="cell 7"), actor=99 if what == "of an actor" else 0,
    )  # fmt: skip
    s.all_read()
    assert not records(s)


def test_a_session_is_kept_for_the_longest_time_asked_for(stage: Make) -> None:
    s = stage()
    notebook, script = s.driver(60.0), s.driver(0.0)
    s.leave(notebook)
    s.leave(script)
    assert s.session.deadline() == s.now + 60.0
    again = s.driver(0.0)
    again.post(ev.Keep(8.0))
    s.leave(again)
    assert s.session.deadline() == s.now + 8.0
    assert take_snapshot(s.session).linger == 8.0


def test_an_id_that_its_maker_uses_again(stage: Make) -> None:
    s = stage()
    driver = s.driver()
    for _ in range(2):
        driver.post(ev.Submit(driver.number << 32 | 99, 1, b"", terms=ev.Terms(job="cell 7")))
        driver.post(ev.Drop((driver.number << 32 | 99,)))
        s.turn()
    assert [(record.number, record.state) for record in records(s)] == [(2, "failed")]
