"""Messages to a page about a session: typed records, in words where people read them.

The contract between the kernel and `widgets/static`; tests compare the page's test data with it. A
page gets the world once: a `PageSession` with the rows of its ``objects``, by id, and its
``timeline``. Then it gets differences: the fields that have changed, and ids that are ``gone``.
Figures that change with time, or by which tables are sorted, go as numbers: the page words them as
`format` does. A fact that the session's engine doesn't know is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from workbench.core.snapshot import HISTORY_SECONDS, JobRecord, ObjectRecord, Snapshot
from workbench.engine.base import Abilities
from workbench.report import facts, view_texts
from workbench.report.colors import AGES, STRENGTHS
from workbench.report.facts import Held, Place
from workbench.report.history import PageCheckpoint
from workbench.report.markup import unmarked
from workbench.report.processes import DISK, SERVER, Processes, client_name, is_this_process
from workbench.report.reasons import REASONS


class PageRecord(Struct, forbid_unknown_fields=True):
    """Base of all records that a page gets."""


class PagePin(PageRecord, omit_defaults=True):
    """One reason why an object is here, a key of `reasons.REASONS`, or ``n`` that are shown as one;
    ``here``: True if it is in this process."""

    reason: str
    text: str
    here: bool = False
    n: int = 1


class Row(PageRecord, kw_only=True, omit_defaults=True):
    """One object. Most have only some fields, so empty ones aren't sent.

    ``title`` is what people know it by, ``name`` its names in the store, ``held`` the variables of
    this process that have it. ``movable``: yes, no or freed, and why it ``stays``. It takes ``len``
    bytes from ``off`` on in the segment ``seg``, "" if it is in none; ``born`` in seconds since
    1970. ``owner`` is the process that wrote those bytes; without any, the process that made it.
    ``site`` is the line of code that made it, with the notebook's name if that isn't this one.
    ``breaks`` says who couldn't read it any more if it were freed. ``pickle``, ``copy`` and
    ``load`` are seconds, ``inband`` and ``outband`` bytes; ``repeats`` counts serializations.
    ``cold``: its bytes went into memory that had not been used before.
    """

    id: str
    title: str
    name: str
    held: str = ""
    kind: str | None
    detail: str
    size: int | None
    where: str | None
    state: str
    movable: str | None
    stays: str = ""
    seg: str
    off: int
    len: int
    born: float | None
    owner: str | None
    pins: list[PagePin] | None
    breaks: str = ""
    pickle: float | None
    copy: float | None
    load: float | None
    inband: int | None
    outband: int | None
    buffers: int | None
    repeats: int | None
    site: str
    cold: bool = False


class Segment(PageRecord):
    """See `core.snapshot.SegmentRecord`; ``owner`` is the owner's name."""

    id: str
    owner: str
    granted: int
    live: int
    disk: bool
    end: int


class Rest(PageRecord):
    """Objects of one type that have no row."""

    kind: str
    count: int
    bytes: int


class PageWorker(PageRecord):
    number: int
    pid: int
    state: str
    does: str
    bytes: int | None


class PageJob(PageRecord):
    """A background cell. ``started`` in seconds since 1970; ``share`` of its ended tasks."""

    id: str
    name: str
    state: str
    where: str
    text: str
    started: int | None
    seconds: float | None
    share: float | None


TimelinePoint = tuple[float, int, int | None, int, int, int | None]
"""Time (seconds since 1970), bytes in memory and on disk, counts of puts, frees and spills."""


class Words(PageRecord):
    """Words that the page uses for facts, so that it has none of its own.

    ``reasons``: names of one pin and of several; ``ages``: (seconds, label), the last without
    limit; ``none``: see `view_texts.nothing`; ``lessons``: see `view_texts`; ``can``: why a button
    doesn't work, '' if it does; ``cold``: why a copy took long; ``least``: bytes below which a copy
    has no speed.
    """

    reasons: dict[str, tuple[str, str]]
    where: dict[str, str]
    movable: dict[str, str]
    ages: list[tuple[float | None, str]]
    parts: dict[str, tuple[str, str]]
    none: dict[str, str]
    lessons: dict[str, tuple[str, ...]]
    can: dict[str, str]
    cold: str
    repeats: str
    least: int


class PageSession(PageRecord):
    """Everything about a session except its objects and its past.

    ``bins``: of objects without a row, the bytes in each of equal parts of a segment; ``speed``:
    bytes a second that this machine copies; ``span``: seconds of the past that are shown;
    ``workers_heading`` is their heading.
    ``hues``: numbers of the colours of types and owners; ``history``: cells whose variables are
    kept.
    """

    session: str
    scope: str
    here: str
    ended: str | None
    span: float
    count: int
    bars: list[view_texts.Bar]
    segments: list[Segment] | None
    bins: dict[str, list[int]]
    rest: list[Rest]
    workers: list[PageWorker] | None
    workers_heading: str
    jobs: list[PageJob] | None
    history: list[PageCheckpoint] | None
    speed: float | None
    hues: dict[str, dict[str, int]]
    words: Words


class Tree(PageRecord):
    name: str
    type: str
    bytes: int
    seconds: float | None
    share: float | None
    children: list[Tree]
    advice: list[str]


class PageAnswer(PageRecord, omit_defaults=True):
    """Answer to a request. ``html`` is the text for a page."""

    text: str
    ok: bool = True
    html: str = ""
    tree: Tree | None = None
    advice: list[str] = []


def key_of(id: int) -> str:
    """Return an id in a form for a page, whose numbers have 53 bits."""
    return f"{id:x}" if id else ""


BUTTONS = {
    "free": "free",
    "pin": "pin",
    "unpin": "pin",
    "spill": "spill",
    "why": "why",
    "cost": "get",
    "stop": "interrupt",
    "look": "keep",
    "checkout": "keep",
}
"""Actions of a page's buttons, and the ability of the engine that each needs."""


# -- objects ---------------------------------------------------------------------------------------

MOVABLE: dict[str | None, str] = {"resident": "no", "alive": "yes", "freed": "freed"}
"""Texts by `ObjectRecord.strength`."""


def row_of(
    record: ObjectRecord,
    processes: Processes,
    owners: Mapping[int, str],
    born: float | None,
    places: Sequence[Place] = (),
) -> Row:
    """Return the row of an object. ``owners``: `processes.owners_of`, empty if the engine doesn't
    tell; ``born`` in seconds since 1970; ``places``: the variables of this process that have it."""
    about, strength = record.about, record.strength
    kind, detail = facts.kind_of(record), facts.type_of(record)
    known = record.viewers is not None
    together = {"task": record.tasks, "contained": record.parents}
    pins = [
        PagePin(pin.reason, unmarked(pin.text), pin.here, together.get(pin.reason, 1))
        for pin in facts.pins_of(record, processes, places)
    ]
    held: Held = {record.id: places}
    title, whose = facts.title_of(record, held), processes.of_another(record.id)
    return Row(
        id=key_of(record.id),
        title=f"{kind}{whose}" if whose and title == facts.id_of(record.id) else title,
        name=facts.names_of(record),
        held=facts.variables_of(places),
        kind=None if about is None and record.type is None else kind,
        detail=detail.removeprefix(kind).lstrip() if about or record.type else "",
        size=facts.size_of(record),
        where=record.where or None,
        state=record.state,
        movable=MOVABLE.get(strength),
        stays=facts.moves_text(record).partition(": ")[2] if strength == "resident" else "",
        seg=key_of(record.segment),
        off=record.offset,
        len=record.size if record.segment else 0,
        born=None if born is None else round(born, 1),
        owner=_owner(record, processes, owners) if owners else None,
        pins=pins if pins or known else None,
        breaks=unmarked(facts.what_breaks(record, processes, places)),
        pickle=about.pickle_seconds if about else None,
        copy=about.copy_seconds if about else None,
        load=record.load_seconds or None,
        inband=about.inband if about else None,
        outband=about.outband if about else None,
        buffers=about.buffers if about else None,
        repeats=view_texts.repeats_of(record),
        site=facts.place_of(record, processes),
        cold=bool(about and about.cold),
    )


def _owner(record: ObjectRecord, processes: Processes, owners: Mapping[int, str]) -> str:
    wrote = owners.get(record.segment, SERVER)
    return processes.maker(record.id) if wrote in (SERVER, DISK) else wrote


# -- the session except its objects ----------------------------------------------------------------


def session_of(
    session: Snapshot,
    processes: Processes,
    owners: Mapping[int, str],
    can: Abilities,
    *,
    ended: str | None = None,
    speed: float | None = None,
    process: view_texts.Bar | None = None,
    history: list[PageCheckpoint] | None = None,
    bins: dict[str, list[int]],
    rest: list[Rest],
    hues: dict[str, dict[str, int]],
) -> PageSession:
    """Return everything about a session except its objects and its past. ``can``: abilities of its
    engine; the other parameters are what the snapshot lacks: see `PageSession`."""
    here = [client for client in session.clients if is_this_process(client)]
    is_ours = not session.is_observed  # in an observed cluster, no record may mean unknown
    workers = [
        PageWorker(
            worker.number,
            worker.pid,
            worker.state,
            view_texts.runs_text(worker, processes),
            view_texts.worker_memory(worker, session),
        )
        for worker in session.workers
    ]
    segments = [
        Segment(key_of(s.id), owners[s.id], s.granted, s.live, s.disk, s.end)
        for s in session.segments or ()
    ]
    bars = [view_texts.store_bar(session), view_texts.machine_bar(session)]
    return PageSession(
        session=facts.session_name(session),
        scope=session.scope,
        here=client_name(here[0]) if here else "",
        ended=ended,
        span=HISTORY_SECONDS,
        count=session.count,
        bars=[*bars, process] if process is not None else bars,
        segments=None if session.segments is None else segments,
        bins=bins,
        rest=rest,
        workers=workers if workers or is_ours else None,
        workers_heading=facts.workers_heading(session),
        jobs=[job_of(job, session.taken) for job in view_texts.jobs_in_order(session.jobs)]
        if is_ours
        else None,
        history=history,
        speed=speed,
        hues=hues,
        words=words_of(session, can),
    )


def words_of(session: Snapshot, can: Abilities) -> Words:
    """Return the words for this session, given its engine's abilities."""
    return Words(
        reasons={code: (reason.chip, reason.chips) for code, reason in REASONS.items()},
        where=dict(facts.WHERE),
        movable={word: STRENGTHS[strength][1] for strength, word in MOVABLE.items()},
        ages=[(limit, label) for limit, _, label in AGES],
        parts={part: (each.label, each.meaning) for part, each in view_texts.BAR_PARTS.items()},
        none=view_texts.nothing(session),
        lessons=view_texts.lessons(can),
        can={action: str(getattr(can, needs)) for action, needs in BUTTONS.items()},
        cold=view_texts.COLD,
        repeats=view_texts.REPEATED,
        least=view_texts.LEAST_COPY,
    )


def job_of(job: JobRecord, now: float) -> PageJob:
    """Return a background cell's record. ``now``: time of the snapshot, in seconds since 1970."""
    said = (facts.job_items(job), facts.job_output(job), facts.unfetched(job))
    return PageJob(
        id=key_of(job.id),
        name=job.name,
        state=job.state,
        where=view_texts.job_where(job),
        text=" · ".join(filter(None, said)),
        started=round(now - job.seconds) if job.state == "running" else None,
        seconds=job.seconds if job.is_over else None,
        share=job.ended / job.size if job.size > 1 else None,
    )


def changed(before: PageSession | None, now: PageSession) -> dict[str, Any]:
    """Return the fields that have changed, in the form that a page gets."""
    return {
        each: to_builtins(getattr(now, each))
        for each in now.__struct_fields__
        if before is None or getattr(before, each) != getattr(now, each)
    }
