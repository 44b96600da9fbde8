"""An account in words: why one object is here, and for each reason what lets go of it."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.core.snapshot import Account, PinRecord
from workbench.report import reasons
from workbench.report.facts import plain_name, size_of, type_of
from workbench.report.format import human_bytes
from workbench.report.processes import Processes


def explained(account: Account, name: str) -> tuple[str, list[tuple[str, str]]]:
    """An account in words: the object in a few, and each reason with what lets go of it.

    Parameters
    ----------
    account : Account
        What the session found out.
    name : str
        Its name in the store, by which the person asked; nothing if it was a ref.
    """
    record, processes = account.object, Processes(account)
    names = "".join(f" {plain_name(each)!r}" for each in record.names)
    what = f"{type_of(record)}{names}, {human_bytes(size_of(record))}"
    if record.state == "freed":
        what += ", freed already: its bytes stay as long as arrays show them"
    lines = [line for pin in account.pins for line in _explained(pin, processes, name)]
    return what, lines


def _explained(pin: PinRecord, processes: Processes, name: str) -> Iterator[tuple[str, str]]:
    if pin.reason in ("ref", "view"):
        yield from _explained_hold(pin, processes, name)
        return
    what = pin.detail
    if pin.reason == "task":
        where = f" in {processes.name(pin.client)}" if pin.client else ", which has not begun"
        what = f"`{pin.detail}`{where}"
    elif pin.reason in ("name", "contained"):
        what = ", ".join(map(plain_name, pin.detail.split(", ")))
    yield reasons.phrase(pin.reason, what), reasons.let_go(pin, name)


def _explained_hold(pin: PinRecord, processes: Processes, name: str) -> Iterator[tuple[str, str]]:
    """By a process, at the places it found."""
    where, here = processes.name(pin.client), processes.is_here(pin.client)
    free = reasons.let_go(pin, name)
    for path, _ in pin.places:
        variable, comma, rest = path.partition(",")
        place = path if " " in variable else f"`{variable}`{comma}{rest}"
        text = reasons.phrase(pin.reason, f"{where}: {place}")
        yield text, _forgotten(path) if here else f"there, or {free}"
    if pin.places:
        return
    if not pin.complete:
        yield reasons.phrase(pin.reason, f"{where}, which was too busy to say where"), free
        return
    text = reasons.phrase(pin.reason, f"{where}, where no variable leads to it")
    more = "" if pin.reason == "view" else f", or {free}"
    yield text, f"`import gc; gc.collect()` there{more}"


def _forgotten(path: str) -> str:
    """What makes this process let go of what is at a path."""
    root = path.partition("[")[0].partition(".")[0]
    if "sys.last_value" in path:
        return "`sys.last_value = sys.last_traceback = None`, or the next error"
    if "which runs" in path:
        return "it ends with that function"
    if root == "Out" or (root.startswith("_") and root.strip("_0123456789") == ""):
        return "`%reset -f out`"
    variable = path.partition(",")[0]
    return f"`del {variable}`" if " " not in variable else "let go of that"
