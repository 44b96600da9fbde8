"""A background cell as its notebook holds it: what it says of itself, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from itertools import count
from typing import Any, cast

import pytest

from workbench.core.events import Output
from workbench.core.snapshot import JobRecord
from workbench.engine.base import CollectedJob
from workbench.engine.queries import Outputs
from workbench.errors import SerializationError, TaskCancelledError, TaskError, TaskTimeoutError
from workbench.host.cell import Ran
from workbench.ipython import joblines
from workbench.ipython.job import Job, collected
from workbench.report.job_status import JobStatus
from workbench.report.markup import Rich
from workbench.serialization.inspection import Failure


class Ref:
    """A task's first result."""

    def __init__(self, id: int) -> None:
        self.id = id


class Engine:
    """As much of one as a job needs: futures of the tasks' first results."""

    session = "here~1a2b"

    def __init__(self) -> None:
        self.futures: dict[int, Future[Any]] = {}
        self.shown: tuple[Output, ...] = ()

    def future(self, ref: Ref) -> Future[Any]:
        return self.futures.setdefault(ref.id, Future())

    def arrivals(self, refs: Iterable[Ref]) -> None:
        """They are asked for."""

    def state(self, ref: Ref) -> str:
        future = self.future(ref)
        return "pending" if not future.done() else "failed" if future.exception() else "ready"

    def ask(self, query: Outputs) -> tuple[Output, ...]:
        return self.shown


def job_of(size: int = 1, engine: Engine | None = None) -> tuple[Job, list[Future[Any]]]:
    """A job that runs, and what ends its tasks."""
    engine = engine or Engine()
    job = Job(cast(Any, engine), "cell 5", size, 1)
    for id in range(1, size + 1):
        job.add_task(cast(Any, Ref(id)))
    job.follow()
    job.on_started(2)
    return job, [engine.futures[id] for id in range(1, size + 1)]


def html_of(shown: Rich) -> str:
    """On a page; in text it is the same as `str`."""
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == str(shown)
    return bundle["text/html"]


def record(state: str, seconds: float, worker: int = 3) -> JobRecord:
    return JobRecord(7, 1, "cell 5", state, seconds, 0, 0, (), True, worker=worker)


def test_a_collected_job_says_how_long_it_ran_and_not_how_long_ago_it_was_collected() -> None:
    engine = Engine()
    found = CollectedJob(record("done", 6.0), cast(Any, [Ref(7)]))
    job, _ = collected(cast(Any, engine), found, 1)
    job.follow()
    engine.futures[7].set_result(Ran(6.0, 0))
    assert repr(job) == "cell 5 · done in 6 s"
    assert job.worker == 3
    found = CollectedJob(record("running", 60.0), cast(Any, [Ref(7)]))
    job, _ = collected(cast(Any, Engine()), found, 1)
    assert repr(job) == "cell 5 · worker 3 · running 1 min 00 s"


@pytest.mark.parametrize("follows_first", [True, False])
@pytest.mark.parametrize("is_over", [True, False], ids=["its part is over", "its part runs"])
@pytest.mark.parametrize("rest", [2, 0])
def test_one_collected_half_submitted_ends(follows_first: bool, is_over: bool, rest: int) -> None:
    """``rest``: how many more tasks come than the one of three that is there."""
    engine, refs = Engine(), [Ref(7 + n) for n in range(1 + rest)]
    known = JobRecord(7, 1, "cell 5", "running", 1.0, 0, 0, (), False, size=3)
    job, _ = collected(cast(Any, engine), CollectedJob(known, cast(Any, refs[:1])), 1)
    if follows_first:
        job.follow()
    if is_over:
        engine.future(refs[0]).set_result(Ran(1.0, 0))
    assert not job.is_over
    job.add_remaining_tasks(1 + rest, {}, cast(Any, refs[1:]))
    if not follows_first:
        job.follow()
    for ref in refs[is_over:]:
        assert not job.is_over
        engine.future(ref).set_result(Ran(1.0, 0))
    assert (job.state, job.ended, job.size) == ("done", 1 + rest, 1 + rest)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (None, "done"),
        (TaskError("cell", "ValueError: x"), "failed"),
        (TaskCancelledError("`c` was stopped."), "stopped"),
        (TaskTimeoutError("It ran longer."), "failed"),
    ],
)
def test_how_it_ends(error: Exception | None, state: str) -> None:
    job, (future,) = job_of()
    assert not job.is_over
    future.set_exception(error) if error else future.set_result(Ran(1.0, 0))
    assert (job.state, job.over.is_set()) == (state, True)


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (JobStatus("cell 5", "queued", 4.9), "cell 5 · queued 4 s"),
        (JobStatus("cell 5", "running", 124, worker=2), "cell 5 · worker 2 · running 2 min 04 s"),
        (JobStatus("n", "running", 4060, worker=2, actor="s"), "n · in s · running 1 h 07 min"),
        (JobStatus("n", "running", 1, worker=2, share=0.25), "n · worker 2 · running 1 s · 25 %"),
        (JobStatus("n", "running", 1, 3, 1, worker=2), "n · running 1 s · 1 of 3"),
        (
            JobStatus("n", "running", 1, share=0.25, calls=(1200, 4800)),
            "n · worker 0 · running 1 s · 1 200 of 4 800 calls done",
        ),
        (JobStatus("n", "running", 1, worker=2, is_stopping=True), "n · worker 2 · stopping 1 s"),
        (JobStatus("n", "done", 4.2, peak=310_000_000), "n · done in 4.2 s · peak 310 MB"),
        (JobStatus("n", "failed", 1, 3, 3, 2, assigned=("x",)), "n · failed after 1 s · 1 of 3"),
        (JobStatus("n", "stopped", 2), "n · stopped after 2 s"),
        (JobStatus("n", "stopped", 0), "n · stopped"),  # it never began
    ],
)
def test_its_line(status: JobStatus, line: str) -> None:
    assert str(status) == line
    assert line in html_of(status)


def test_of_several_tasks_the_worst_counts() -> None:
    job, futures = job_of(3)
    futures[0].set_result(Ran(1.0, 5))
    assert (job.status.share, job.state) == (pytest.approx(1 / 3), "running")
    futures[1].set_exception(TaskCancelledError("it"))
    futures[2].set_exception(TaskError("cell", "ValueError: x"))
    assert job.state == "failed"
    assert job.peak == 5


def test_its_text_is_kept_by_the_session_and_tells_how_far_it_is() -> None:
    engine = Engine()
    prints = ("stdout", "a "), ("stderr", " 40%|████ | 2/5"), ("display", "{}"), ("stdout", "b\n")
    engine.shown = tuple(Output(1, kind, text.encode()) for kind, text in prints)
    job = Job(cast(Any, engine), "cell 5", 1, 1)
    for output in engine.shown:
        job.on_output(output)
    assert job.output() == "a  40%|████ | 2/5b\n"
    assert job.status.share == 0.4


def ended_with(causes: dict[str, list[BaseException | None]], size: int = 1) -> Job:
    """A job of so many tasks that did well; each output has a ref per cause."""
    engine, outputs, numbers = Engine(), {}, count(100)
    job, done = job_of(size, engine)
    for name, errors in causes.items():
        refs = [Ref(next(numbers)) for _ in errors]
        for ref, error in zip(refs, errors, strict=True):
            if error is None:
                engine.future(ref).set_result(1)
            else:
                engine.future(ref).set_exception(error)
        outputs[name] = refs if size > 1 else refs[0]
    job.set_outputs(cast(Any, outputs))
    job.kept = outputs  # type: ignore[attr-defined]  # a variable would
    for future in done:
        future.set_result(Ran(1.0, 0))
    return job


CONNECTION = SerializationError("no", [Failure("con", "sqlite3.Connection", "it can't", "don't")])


def test_a_result_that_is_not_good_is_on_the_line() -> None:
    job = ended_with({"df": [None], "con": [CONNECTION], "big": [TaskError("c", "Full: no\nmore")]})
    assert job.state == "done"
    several = ended_with({"con": [CONNECTION, None, CONNECTION]}, 3)
    assert "  con: 2 of 3 can't be stored (sqlite3.Connection)" in str(several.status)
    line, *lost = str(job.status).splitlines()
    assert line.endswith(" · df")
    assert lost == ["  con: can't be stored (sqlite3.Connection)", "  big: Full: no"]
    shown = html_of(job.status)
    assert "✓" not in shown
    assert "be stored (sqlite3.Connection)" in shown
    assert "✓" in html_of(ended_with({"df": [None]}).status)


def test_a_job_s_notes_stand_below_its_line_each_once() -> None:
    job, (end,) = job_of()
    job.note("df changed since %put: stored again, <8 ms>")
    job.note("df changed since %put: stored again, <8 ms>")
    end.set_result(Ran(0.0, 0))
    line, *notes = str(job.status).splitlines()
    assert line.startswith("cell 5 · done")
    assert notes == ["  df changed since %put: stored again, <8 ms>"]
    assert html_of(job.status).count("again, &lt;8 ms&gt;</div>") == 1


class Quiet:
    """A router under whose cells nothing shows."""

    def display_id(self, kind: str) -> str:
        return kind

    def display(self, *shown: object) -> None: ...


def test_the_line_of_a_cell_that_is_over_gets_no_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblines, "TICK", 0.0)
    job, (result,) = job_of()
    line = joblines.JobLine(job, cast(Any, Quiet()), [])
    assert line.wants_page
    result.set_result(None)
    line.end()
    assert not line.wants_page
