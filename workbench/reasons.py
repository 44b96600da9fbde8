"""Why an object is still here, in words, and for each reason the one thing that lets go.

Reads what the session found out (`core.snapshot.Account`); asks nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.core.snapshot import Account, ClientRecord, ObjectRecord, PinRecord
from workbench.markup import Rich, Table, page
from workbench.report.format import count, human_bytes


@dataclass(frozen=True)
class Reason:
    """One reason, and what to do if it shall not count any more."""

    text: str
    action: str


@dataclass(frozen=True)
class Why(Rich):
    """All reasons why one object is here. Prints as a text, shows as a table.

    Attributes
    ----------
    what : str
        The object in a few words.
    reasons : tuple of Reason
    """

    what: str
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.what}: nothing keeps it."
        lines = [f"  {r.text}\n    to let go: {r.action}" for r in self.reasons]
        return "\n".join([f"{self.what} is here because", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.reasons:
            return page(str(self))
        rows = tuple((reason.text, reason.action) for reason in self.reasons)
        return page(self.what, Table(("it is here because", "to let go"), rows).html())


def explain(account: Account, name: str) -> Why:
    """Put an account into words.

    Parameters
    ----------
    account : Account
        What the session found out.
    name : str
        Its name in the store, by which the person asked; nothing if it was a ref.
    """
    record = account.object
    kind = record.about.type if record.about else "a task's result"
    names = f" {', '.join(map(repr, record.names))}" if record.names else ""
    what = f"{kind}{names}, {human_bytes(record.size)}"
    if record.state == "freed":
        what += ", freed already, whose bytes stay as long as they are shown,"
    clients = {client.client: client for client in account.clients}
    reasons = (reason for pin in account.pins for reason in _reasons(pin, clients, name))
    return Why(what, tuple(reasons))


def _reasons(pin: PinRecord, clients: dict[int, ClientRecord], name: str) -> Iterator[Reason]:
    call = repr(name) if name else "ref"
    free = f"`free({call})`, whoever holds it"
    match pin.reason:
        case "name":
            yield Reason(f"it has the name `{pin.detail}`", f"`%free {pin.detail}`")
        case "user":
            action = f"`%unpin {name or 'ref'}`, `unpin({call})`"
            yield Reason(f"it was pinned at {pin.detail}", action)
        case "job":
            text = f"it was made by background {pin.detail}, which nobody has collected"
            yield Reason(text, f"`%workbench jobs {pin.detail}` collects it; or {free}")
        case "escaped":
            text = f"a ref to it was pickled at {pin.detail}, and whoever has that may come"
            yield Reason(text, f"{free}, when nobody will")
        case "contained":
            yield Reason(f"it is inside another object: {pin.detail}", "that one has to go first")
        case "task":
            where = f" in {_process(clients[pin.client])}" if pin.client in clients else ""
            yield Reason(
                f"`{pin.detail}` needs it{where or ', which has not begun'}",
                "wait for it, or `cancel` it",
            )
        case "ref" | "view":
            yield from _held(pin, clients.get(pin.client), free)


def _held(pin: PinRecord, client: ClientRecord | None, free: str) -> Iterator[Reason]:
    """By a process, at the places it found."""
    kind = "an ObjectRef" if pin.reason == "ref" else "arrays that show it"
    there = "a process that left" if client is None else _process(client)
    here = client is not None and client.pid == os.getpid()
    for path, _ in pin.places:
        variable, comma, rest = path.partition(",")
        place = f"`{variable}`{comma}{rest}" if " " not in variable else path
        yield Reason(f"{kind} in {there}: {place}", _let_go(path) if here else f"there, or {free}")
    if not pin.places and not pin.complete:
        yield Reason(f"{kind} in {there}, which was too busy to say where", free)
    elif not pin.places:
        yield Reason(
            f"{kind} in {there}, where no variable leads to it",
            "`import gc; gc.collect()` there" + ("" if pin.reason == "view" else f", or {free}"),
        )


def _let_go(path: str) -> str:
    root = path.partition("[")[0].partition(".")[0]
    if "sys.last_value" in path:
        return "`sys.last_value = sys.last_traceback = None`, or the next error"
    if "which runs" in path:
        return "it ends with that function"
    if root == "Out" or (root.startswith("_") and root.strip("_0123456789") == ""):
        return "`%reset -f out`"
    variable = path.partition(",")[0]
    return f"`del {variable}`" if " " not in variable else "let go of that"


def _process(client: ClientRecord) -> str:
    if client.pid == os.getpid():
        return "this process"
    if client.role == "worker":
        return f"a worker (pid {client.pid})"
    return f"{client.label or 'another process'} (pid {client.pid})"


def in_short(record: ObjectRecord, clients: Iterable[ClientRecord]) -> str:
    """What keeps an object, in one line: as much as its record says. `explain` says where.

    Parameters
    ----------
    record : ObjectRecord
    clients : iterable of ClientRecord
        Those that hold or show it.
    """
    by_number = {client.client: client for client in clients}
    keeps = [
        "its name" if len(record.names) == 1 else "its names" if record.names else "",
        f"a pin at {record.pinned}" if record.pinned else "",
        f"background {record.job}, not collected" if record.job else "",
        f"refs in {_processes(record.holders, by_number)}" if record.holders else "",
        count(record.tasks, "task") if record.tasks else "",
        f"{count(record.parents, 'object')} it is inside of" if record.parents else "",
        f"a ref pickled at {record.escapes[0]}" if record.escapes else "",
    ]
    kept = ", ".join(filter(None, keeps))
    if record.viewers:
        kept += f"; arrays in {_processes(record.viewers, by_number)} show it"
    return kept.removeprefix("; ")


def _processes(numbers: Iterable[int], clients: dict[int, ClientRecord]) -> str:
    """This process first, then other notebooks and scripts, then workers, counted."""
    found = [clients.get(number) for number in numbers]
    here = [client for client in found if client is not None and client.pid == os.getpid()]
    others = [client for client in found if client is not None and client.pid != os.getpid()]
    workers = sum(client.role == "worker" for client in others)
    named = ["this process"] if here else []
    named += [c.label or f"process {c.pid}" for c in others if c.role != "worker"]
    named += [count(workers, "worker")] if workers else []
    named += ["a process that left"] if None in found else []
    return " and ".join(named)
