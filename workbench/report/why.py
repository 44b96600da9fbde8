"""Why one object is here: the session's account in words, and how to end each reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from workbench.core.descriptions import Account, PinRecord, ValueAccount, ValueHolder
from workbench.core.events import Place
from workbench.core.snapshot import WorkerRecord
from workbench.format import UNKNOWN, count, human_bytes, human_count, human_seconds, listed
from workbench.report import facts, reasons
from workbench.report.markup import Rich, Table, page
from workbench.report.processes import Processes

FUNCTION = "function "
"""Prefix of the type of functions that were sent."""


@dataclass(frozen=True)
class ReasonText:
    """One reason. ``action`` says how to end it, ``code`` is the same to paste, if there is any;
    ``frees``: what that frees, if it is known, ``nbytes`` of it. ``reason``: a key of
    `reasons.REASONS`, or ``value``; ``remedy``: the code, or a magic; ``run_in``: the process for
    the code, if it isn't this one."""

    text: str
    action: str
    code: str = ""
    frees: str = ""
    reason: str = "value"
    remedy: str = ""
    run_in: str = ""
    nbytes: int | None = None


@dataclass(frozen=True, repr=False)
class Why(Rich):
    """All reasons why one object is here. Prints as text, shows as a table."""

    what: str  # the object in a few words
    reasons: tuple[ReasonText, ...]
    complete: bool = True  # all processes searched everywhere
    unknown: tuple[str, ...] = ()  # what the engine can't tell
    nbytes: int | None = None  # of the object
    together: int | None = None  # bytes that letting go of all of them frees

    def _text(self) -> str:
        known = " that is known here" if self.unknown else ""
        head = ". Why it is here:" if self.reasons else f": nothing{known} keeps it."
        lines = [
            f"  {r.text}\n    to let go: {r.action}" + (f"\n    frees {r.frees}" if r.frees else "")
            for r in self.reasons
        ]
        return "\n".join([f"{self.what}{head}", *lines, *self._notes("  ")])

    def _repr_html_(self) -> str:
        if not self.reasons:
            return page(str(self))
        width = 3 if any(reason.frees for reason in self.reasons) else 2
        heads = ("why it is here", "to let go", "frees")[:width]
        rows = tuple((each.text, each.action, each.frees)[:width] for each in self.reasons)
        return page(self.what, Table(heads, rows).html(), *self._notes())

    def _notes(self, indent: str = "") -> list[str]:
        told = [f"{indent}{UNKNOWN}: {each}" for each in self.unknown]
        all = self.together
        return told if all is None else [*told, f"All of them together free {human_bytes(all)}."]


class Asked(NamedTuple):
    """A person's words for the object: its name or id, or a ref; ``deep``: the command for a full
    search; ``id``: what magics take in any case."""

    name: str
    ref: str
    deep: str = ""
    id: str = ""


@dataclass(frozen=True, repr=False)
class Whys(Rich):
    """Answers for several objects, each with its label. There were ``others`` more."""

    each: tuple[tuple[str, Why], ...]
    others: int = 0

    def _text(self) -> str:
        told = [f"{label}: {why}" for label, why in self.each]
        return "\n\n".join([*told, self._more()] if self.others else told)

    def _repr_html_(self) -> str:
        told = "".join(f"{page(label)}{why._repr_html_()}" for label, why in self.each)
        return told + (page(self._more()) if self.others else "")

    def _more(self) -> str:
        return f"... and {count(self.others, 'object')} more: ask for them one by one."


def why(account: Account, name: str, ref: str = "ref", deep: str = "") -> Why:
    """Put an account into words.

    ``name``: the name that the person gave, '' for a ref; that is called ``ref``. ``deep``:
    the command for a full search, if not `%why`.
    """
    record, processes = account.object, Processes(account)
    names = "".join(f" {facts.plain_name(each)!r}" for each in record.names)
    what = f"{facts.type_of(record)}{names}, {human_bytes(facts.size_of(record))}"
    if record.state == "freed":
        stays = "its bytes stay as long as arrays show them"
        what += f", freed already: {stays if record.viewers else 'only refs to it are left'}"
    asked = Asked(name, ref, deep or f"%why {name or ref} --deep", facts.id_of(record.id))
    found = [
        reason
        for pin in _sorted(account.pins, processes)
        for reason in _reasons(pin, processes, asked)
    ]
    complete = all(pin.complete for pin in account.pins) and not account.unknown
    nbytes, told = facts.size_of(record), tuple(_each_code_once(found))
    return Why(what, told, complete, account.unknown, nbytes)


def why_value(account: ValueAccount, name: str) -> Why:
    """Put into words what keeps a value that isn't stored. ``name``: what the person calls it, or
    ''."""
    what = f"{account.what}, {human_bytes(account.nbytes)} of this process's own memory"
    looks_deep = f"%why {name} --deep" if name else "why(…, deep=True)"
    whole = {replace(each.place, kind="") for each in account.holders if not each.part}
    found = [
        ReasonText(
            _keeper(each.place) + (f", with {human_bytes(each.part)} of it" if each.part else ""),
            _ending(each.place, "this process") or f"`{each.place.cut}`",
            code := "" if each.place.keeper in ("local", "context") else each.place.cut,
            _frees(each, account, name),
            remedy=code,
            nbytes=each.frees,
        )
        for each in account.holders
        if not each.part or replace(each.place, kind="") not in whole
    ]
    if not account.complete:
        text = f"more not found among the first {human_count(account.seen)} objects"
        found.append(ReasonText(text, f"`{looks_deep}` looks at all"))
    elif not found:
        what += ", which only this question refers to"
    together = account.together if len(account.holders) > 1 else None
    told = tuple(_each_code_once(found))
    return Why(what, told, account.complete, nbytes=account.nbytes, together=together)


def _frees(holder: ValueHolder, account: ValueAccount, name: str) -> str:
    """Word what goes with one holder alone."""
    freed = human_bytes(holder.frees)
    if holder.goes:
        more = account.shared if not holder.part and holder.frees < account.nbytes else 0
        is_much = more > LITTLE * account.nbytes
        return f"{freed}; others have {human_bytes(more)} of it, too" if is_much else freed
    others = [
        _keeper(each.place)
        for each in account.holders
        if each is not holder and each.place.kind == holder.place.kind
    ]
    if holder.part and not all(each.part for each in account.holders):
        others.insert(0, f"`{name}`" if name else "the value itself")
    if not others and not account.complete:
        others = ["what was not found"]
    keep = f"also held {f'by {listed(others, MOST_OTHERS)}' if others else UNSHOWN}"
    is_little = holder.frees < LITTLE * account.nbytes
    return f"nothing alone: {keep}" if is_little else f"{freed} of other things alone: {keep}"


MOST_OTHERS = 3
"""Others that are named where one holder alone frees nothing."""

UNSHOWN = (
    "where Python doesn't show it: in C code (say, what `atexit` was given), or in an expression"
)

LITTLE = 0.01
"""Share of a value; what frees less than that frees nothing."""

LEAST_OWN = 1 << 16
"""Bytes of its own from which on a value that shows stored objects is explained besides them."""


def _each_code_once(found: Iterable[ReasonText]) -> Iterator[ReasonText]:
    """Leave out code that an earlier reason has: a second run would fail, or hit something else."""
    told: set[str] = set()
    for reason in found:
        again = reason.code and reason.code in told
        above = f"{reason.action}, as above"
        yield replaced(reason, action=above, code="", remedy="", run_in="") if again else reason
        told.add(reason.code)


def _sorted(pins: Iterable[PinRecord], processes: Processes) -> list[PinRecord]:
    """Sort this process's variables behind others: code for those may need a variable.

    The session's own places are last: they are the least important.
    For a function that was sent, the session keeps what it captured, in this process and in
    workers; the reason "inside function" covers that already.
    """
    is_inside = any(p.reason == "contained" and p.detail.startswith(FUNCTION) for p in pins)
    first: list[PinRecord] = []
    last: list[PinRecord] = []
    for pin in pins:
        own = tuple(place for place in pin.places if place.keeper == "own")
        if not own:
            first.append(pin)
            continue
        if len(own) < len(pin.places) or not pin.complete:
            others = tuple(place for place in pin.places if place.keeper != "own")
            first.append(replace(pin, places=others))
        if not is_inside:
            last.append(replace(pin, places=own, complete=True))
    first.sort(key=lambda pin: bool(pin.places) and processes.is_here(pin.client))
    return first + last


def _reasons(pin: PinRecord, processes: Processes, asked: Asked) -> Iterator[ReasonText]:
    if pin.reason in ("ref", "view"):
        yield from _places(pin, processes, asked)
        return
    what = pin.detail
    if pin.reason == "task":
        where = f" in {processes.name(pin.client)}" if pin.client else ", which has not begun"
        what = f"`{pin.detail}`{where}"
    elif pin.reason in ("name", "contained"):
        what = ", ".join(map(facts.plain_name, pin.detail.split(", ")))
    text, magic = reasons.phrase(pin.reason, what), reasons.magic(pin, asked.name or asked.id)
    yield ReasonText(text, reasons.let_go(pin, *asked[:2]), reason=pin.reason, remedy=magic)


# -- what one process has of it --------------------------------------------------------------------


def _places(pin: PinRecord, processes: Processes, asked: Asked) -> Iterator[ReasonText]:
    """Yield a holding process's reasons: one per place, and one on what it didn't search."""
    where, here = processes.name(pin.client), processes.is_here(pin.client)
    magic = reasons.magic(pin, asked.name or asked.id)
    of_pin = partial(ReasonText, reason=pin.reason, remedy=magic)
    for place in pin.places:
        told = _keeper(place)
        if place.by == "copy":
            told = f"joblib's copy of {told}, kept while that lives"
        text = reasons.phrase(pin.reason, f"{where}: {told}")
        action = _action(place, pin, processes, asked)
        worker = processes.pool_worker(pin.client)
        code = "" if place.keeper in ("local", "context") else place.cut
        if worker is not None and place.cut:
            code = "" if worker.host else _code_to_end(worker)
        run_in = "" if here or worker is not None or not code else where
        yield of_pin(text, action, code, remedy=code or magic, run_in=run_in)
    free = reasons.let_go(pin, *asked[:2])
    if not pin.answered:
        so_far = f"has looked at {human_count(pin.seen)} objects so far, and found nothing yet"
        silent = "says nothing: it is stopped, or busy in code that lets no other thread run"
        text = reasons.phrase(pin.reason, f"{where}, which {so_far if pin.seen else silent}")
        yield of_pin(text, "; or ".join(filter(None, ("ask again", free))))
    elif not pin.complete:
        more = " more" if pin.places else ""
        text = f"{where}:{more} not found among the first {human_count(pin.seen)} objects"
        yield of_pin(reasons.phrase(pin.reason, text), f"`{asked.deep}` looks at all")
    elif not pin.places:
        text = reasons.phrase(pin.reason, f"{where}, where nothing had it any more by then")
        yield of_pin(text, "ask again")


def _keeper(place: Place) -> str:
    """Word what has the object."""
    paths, where = place.path.split("\n"), place.where
    path = ", ".join(f"`{each}`" for each in paths)
    many = f", {place.count} in all" if place.count > len(paths) else ""
    match place.keeper:
        case "stored":
            return f"{path}{where}"  # worded by `report.freshness`
        case "runs":
            return f"{path}{many} in {where}, which runs"
        case "cell":
            return f"{path}{many} in a cell that runs"
        case "error":
            return f"{path}{many} in {where}, kept by `{place.by}`"
        case "suspended":
            return f"{path}{many} in {where}, which waits to go on: `{place.by}`"
        case "thread":
            return f"the thread {place.path!r}, which runs"
        case "call":
            due = f"due in {human_seconds(float(where))}" if where else ""
            call = f"a timer of the event loop, {due}" if due else "the event loop's next call"
            return f"{call}: {path}" if place.path else call
        case "loaded":
            return f"`sys.modules`, where {path} is"
        case "small":
            return "all that use this value, which Python may share: it is small"
        case "local":
            return f"{path}{many}, which belongs to one thread"
        case "task":
            return f"asyncio's task {place.path!r}, which runs {where}()"
        case "context":
            return f"the context variable {path}"
        case "figure":
            return f"pyplot's figure {place.path}"
        case "widget":
            return f"the widget {path}"
        case "cycle":
            return "objects that refer to each other, and to which nothing else does"
        case "own":
            return "what IPython or Workbench is doing just now"
        case "outside":
            of = f"{place.path} objects, which are" if place.path else "what is"
            return f"{of} held {UNSHOWN}"
    return f"{path}{many}"


def _action(place: Place, pin: PinRecord, processes: Processes, asked: Asked) -> str:
    here, name = processes.is_here(pin.client), processes.name(pin.client)
    free = reasons.let_go(pin, asked.name, asked.ref)  # '' if arrays keep the bytes in any case
    other = f"; or {free}" if free and not here else ""
    if ending := _ending(place, "this process" if here else name, free, other):
        return ending
    if here:
        return f"`{place.cut}`"
    if namespace := processes.namespace(pin.client):
        return f"`{place.cut}` in a cell of `%%remote --actor {namespace}`{other}"
    if worker := processes.pool_worker(pin.client):  # no cell can be sent to a particular worker
        if worker.host:  # its pid is another machine's, or the cluster manages it
            return f"end {name}, process {worker.pid} on {worker.host}{other}"
        return f"`{_code_to_end(worker)}` ends {name}, and another takes its place{other}"
    return f"in {name}: `{place.cut}`{other}"


def _ending(place: Place, process: str, free: str = "", other: str = "") -> str:
    """Word what ends a reason, if that isn't just to run its code; else return ''."""
    match place.keeper:
        case "local" | "context" if place.cut:
            return f"`{place.cut}` in the thread or task that set it{other}"
        case "call" if not place.cut:
            return "it ends then; or call `cancel()` of what `call_later` returned, if you kept it"
        case "runs" | "cell" | "thread" | "task" if not place.cut:
            what = "function" if place.keeper == "runs" else place.keeper
            return f"it ends with that {what}{other}"
        case "loaded":
            return f"a module stays until the end of {process}: ask for what is in it"
        case "small":
            return "not worth it"
        case "own":
            return f"ask again in another cell{other}"
        case "outside":
            return free or f"end what uses it, or restart {process}"
    if not place.cut:
        return free or f"set {_keeper(place)} to something else, or end what uses it"
    return ""


def _code_to_end(worker: WorkerRecord) -> str:
    return f"import os; os.kill({worker.pid}, 15)"
