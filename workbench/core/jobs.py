"""Background cells, found again by whoever comes after their submitter. A desk of the session's.

A *job* is a task that a person started and may ask for later. Its *audience* are the clients that
see what it shows: who submitted it, and who collected it since. While there are any, it is a task
like all others. Without one it goes on all the same, its results are kept for it (catalog: `job`),
and so is the last of what it shows, until somebody collects it or the session ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import JobRecord
from workbench.units import human_bytes

if TYPE_CHECKING:
    from workbench.core.schedule import Task
    from workbench.core.session import Client, Session

TEXT = ("stdout", "stderr")
"""Kinds of output that are prints."""

MOST_RECORDS = 100
"""Jobs remembered after their end, when all they made is with somebody."""

MOST_TEXT = 1_000_000
"""Bytes of a job's prints that are kept: the last ones."""

MOST_DISPLAYED = 8_000_000
"""Bytes of what it displayed that are kept: the last ones."""

PIECE = 1 << 14
"""Bytes from which on prints begin a new piece, so that many small ones don't cost much more."""


class Log:
    """The last of what one job has shown, in order. ``lines`` and ``displays`` count all of it."""

    __slots__ = ("_cut", "_pieces", "_sizes", "displays", "lines")

    def __init__(self) -> None:
        self._pieces: deque[tuple[str, bytearray]] = deque()
        self._reset()

    def _reset(self) -> None:
        self._pieces.clear()
        self._sizes = [0, 0]  # bytes kept: of displays, of text
        self._cut = [0, 0]  # displays, and bytes of text, that were too many
        self.lines = 0
        self.displays = 0

    def add(self, kind: str, data: bytes) -> None:
        """It shows something more."""
        pieces = self._pieces
        if pieces and pieces[-1][0] == "clear":  # what was before is off the screen from now on
            self._reset()
        is_text = kind in TEXT
        self.lines += data.count(b"\n") if is_text else 0
        self.displays += kind == "display"
        if is_text and pieces and pieces[-1][0] == kind and len(pieces[-1][1]) < PIECE:
            pieces[-1][1].extend(data)
        else:
            pieces.append((kind, bytearray(data)))
        self._sizes[is_text] += len(data)
        while self._sizes[is_text] > (MOST_TEXT if is_text else MOST_DISPLAYED):
            self._cut_first(is_text)

    def _cut_first(self, is_text: bool) -> None:
        """The first display goes whole; of prints what is too much, up to the end of a line."""
        for place, (kind, data) in enumerate(self._pieces):
            if (kind in TEXT) == is_text:
                excess = self._sizes[True] - MOST_TEXT
                size = data.find(b"\n", excess - 1) + 1 or excess if is_text else len(data)
                size = min(size, len(data))
                del data[:size]
                self._sizes[is_text] -= size
                self._cut[is_text] += size if is_text else 1
                if not data:
                    del self._pieces[place]
                return

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        displays, text = self._cut
        cut = [human_bytes(text)] if text else []
        cut += [f"{displays} display(s)"] if displays else []
        if cut:
            yield "stderr", f"[{' and '.join(cut)} before this, not kept]\n".encode()
        for kind, data in self._pieces:
            yield kind, bytes(data)

    def close(self) -> None:
        """Keep the counts alone."""
        self._pieces.clear()


class Job:
    """One background cell, until it has ended and somebody has what it made.

    Attributes
    ----------
    audience : dict of int → int
        Who sees what it shows, with the number that says where there.
    outcome : str
        How it ended; nothing while it hasn't.
    """

    __slots__ = ("audience", "began", "log", "number", "outcome", "seconds", "task")

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self.task = task
        self.audience = {task.owner: task.submit.origin}
        self.log = Log()
        self.outcome = ""
        self.began: float | None = None  # when it was last sent to a worker
        self.seconds = 0.0

    def record(self, now: float) -> JobRecord:
        """What a snapshot says of it."""
        worker = self.task.worker
        runs = worker is not None and next(iter(worker.sent.values())) is self.task
        return JobRecord(
            id=self.task.submit.task,
            number=self.number,
            name=self.task.terms.job,
            state=self.outcome or ("running" if runs else "queued"),
            seconds=now - self.began if runs and self.began is not None else self.seconds,
            lines=self.log.lines,
            displays=self.log.displays,
            binds=self.task.terms.binds,
            kept=not self.audience,
        )


class Jobs:
    """See the module. Methods named like an event handle it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[int, Job] = {}  # by task
        self._over: dict[int, JobRecord] = {}  # by task: those that are nobody's concern any more
        self._count = 0

    def __contains__(self, task: Task) -> bool:
        return task.submit.task in self._open

    def enter(self, task: Task) -> None:
        """A new task that is a job: if it is the pool's, and has a result that tells its end."""
        if task.submit.actor or not task.submit.returns:
            return
        self._over.pop(task.submit.task, None)  # its maker may use an id again that nobody has
        self._count += 1
        task.job = self._open[task.submit.task] = Job(self._count, task)

    def began(self, task: Task) -> None:
        """It was sent to a worker, perhaps once more."""
        job = self._open.get(task.submit.task)
        if job is not None:
            job.began = self._session.now

    def output(self, job: Job, event: ev.Output) -> None:
        """It shows something, or a task of its own does."""
        if job.task in self:
            job.log.add(event.kind, event.data)
        for number, origin in job.audience.items():
            self._session.send(number, ev.Output(event.task, event.kind, event.data, origin))

    def ended(self, task: Task, value: ev.Value) -> None:
        """It is over, with this as its first result."""
        job = self._open.get(task.submit.task)
        if job is None:
            return
        if value.header.startswith(b"!cancelled"):
            value = task.verdict or value  # it stopped because it was told to: this is why
        cancelled = value.header.startswith(b"!cancelled")
        job.outcome = "cancelled" if cancelled else "failed" if value.failed else "done"
        if job.began is not None:
            job.seconds = self._session.now - job.began
        if job.audience:
            self._close(job)

    def left(self, number: int) -> None:
        """Somebody is gone. Before its holds are: what only they kept is kept from now on."""
        for job in self._open.values():
            if job.audience.pop(number, None) is not None and not job.audience:
                self._keep_results(job, job.task.terms.job)

    def collect(self, client: Client, event: ev.Collect) -> None:
        """Show it all that was kept, from now on all that comes, and give it the results."""
        session, job = self._session, self._open.get(event.job)
        if job is None:
            record = self._over.get(event.job)
            return session.send(client.number, do.Collected(event.request, record))
        record = job.record(session.now)
        job.audience[client.number] = event.origin
        for kind, data in job.log:
            session.send(client.number, ev.Output(event.job, kind, data, event.origin))
        results = []
        for id in job.task.results:
            entry = session.catalog.get(id)
            results.append(0 if entry is None else id)
            if entry is not None:
                session.catalog.hold(entry, client.number)
        self._keep_results(job, "")
        session.send(client.number, do.Collected(event.request, record, tuple(results)))
        if job.outcome:
            self._close(job)
        return None

    def records(self) -> tuple[JobRecord, ...]:
        """All of them, in the order in which they were submitted."""
        now = self._session.now
        records = [*self._over.values(), *(job.record(now) for job in self._open.values())]
        return tuple(sorted(records, key=lambda record: record.number))

    def kept(self) -> Iterator[tuple[int, str]]:
        """(id, name of the job) for the results that are kept, or were until somebody freed one."""
        for job in self._open.values():
            if not job.audience:
                yield from ((id, job.task.terms.job) for id in job.task.results)

    def _keep_results(self, job: Job, name: str) -> None:
        for id in job.task.results:
            entry = self._session.catalog.get(id)
            if entry is not None:
                self._session.catalog.keep_for(entry, name)

    def _close(self, job: Job) -> None:
        task = job.task.submit.task
        del self._open[task]
        job.log.close()
        self._over[task] = job.record(self._session.now)
        if len(self._over) > MOST_RECORDS:
            del self._over[next(iter(self._over))]

    def check(self) -> None:
        """Raise AssertionError unless each is with somebody, or kept; and not done, or kept."""
        session = self._session
        for id, job in self._open.items():
            assert job.task.submit.task == id
            assert job.audience.keys() <= session.clients.keys()
            assert bool(job.outcome) != (job.task in session.schedule)
            assert not (job.outcome and job.audience), "over, and somebody has it all"
        assert len(self._over) <= MOST_RECORDS
        assert not self._over.keys() & self._open.keys()
