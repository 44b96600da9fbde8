"""Actions of the buttons: each asks the engine for one thing, and reports the result.

Some take a while (a copy to disk, a search of every process), so `perform` runs in a thread of its
own, and the kernel goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from workbench import api
from workbench.engine.base import Engine, Observed, acting_on
from workbench.engine.queries import Reasons
from workbench.errors import ObjectLostError, WorkbenchError
from workbench.report import why as why_text
from workbench.report.facts import lacks_text
from workbench.report.history import look
from workbench.report.markup import unmarked
from workbench.report.page import BUTTONS, PageAnswer, Tree
from workbench.serialization.costs import Cost
from workbench.widgets.kept import kept_in

Request = dict[str, Any]

MOST_ID = 1 << 63
"""Ids from here on don't fit into messages."""

READ = 10.0
"""Seconds to wait for an object to be explained: its task may not be done."""

STOPPED = 10.0
"""Seconds to wait for a background cell to end."""


def perform(observed: Observed, request: Request) -> dict[str, Any]:
    """Do what a page asks for; return its `PageAnswer` without the number. Never raises."""
    try:
        needs, action = BUTTONS[request["do"]], ACTIONS[request["do"]]
        id = int(request["id"], 16)
        if not 0 < id < MOST_ID:
            raise ValueError(f"{request['id']} is no object's id")
        answer = action(acting_on(observed, needs), id, request)
    except WorkbenchError as error:
        answer = PageAnswer(str(error), ok=False)
    except Exception as error:  # from the object's class, or a page that isn't ours
        answer = PageAnswer(f"{type(error).__name__}: {error}", ok=False)
    return {"ok": answer.ok, **to_builtins(answer)}


def _free(engine: Engine, id: int, request: Request) -> PageAnswer:
    engine.free([engine.borrow(id)])
    return PageAnswer("Freed.")


def _pin(engine: Engine, id: int, request: Request) -> PageAnswer:
    engine.pin(engine.borrow(id), True, "a live view's button")
    if lack := engine.can.resident:
        return PageAnswer(f"Pinned until it is unpinned. {lacks_text([lack])}")
    return PageAnswer("Pinned: it stays, in memory, until it is unpinned.")


def _unpin(engine: Engine, id: int, request: Request) -> PageAnswer:
    engine.pin(engine.borrow(id), False)
    return PageAnswer("Unpinned.")


def _spill(engine: Engine, id: int, request: Request) -> PageAnswer:
    obstacle = engine.spill(engine.borrow(id))
    if obstacle:
        return PageAnswer(f"It can't be moved to disk: {obstacle}.", ok=False)
    return PageAnswer("It is on disk now, and is read from there without a copy.")


def _why(engine: Engine, id: int, request: Request) -> PageAnswer:
    account = engine.ask(Reasons(id))
    if account is None:
        raise ObjectLostError("It is gone: nothing keeps it any more.")
    why = why_text.why(account, ", ".join(account.object.names[:1]))
    return PageAnswer(str(why), html=str(why._repr_html_()))


def _cost(engine: Engine, id: int, request: Request) -> PageAnswer:
    ref = engine.borrow(id)
    (value,) = engine.get([ref], READ, False)
    cost = api.explain_cost(value, request.get("name") or "object")
    return PageAnswer(str(cost), tree=_tree(cost), advice=list(cost.all_advice()))


def _tree(cost: Cost) -> Tree:
    return Tree(
        cost.label,
        cost.type,
        cost.inband + cost.outband,
        cost.seconds,
        cost.share,
        [_tree(child) for child in cost.children],
        list(cost.advice),
    )


def _stop(engine: Engine, id: int, request: Request) -> PageAnswer:
    over = engine.interrupt(NOBODY, [id], bool(request.get("force")), STOPPED)
    if not over:
        return PageAnswer("It was told to stop, but it is still running.", ok=False)
    return PageAnswer("Killed." if request.get("force") else "Stopped.")


def _look(engine: Engine, id: int, request: Request) -> PageAnswer:
    cells = kept_in(engine).timeline or ()
    return PageAnswer("", html="".join(look(cell) for cell in cells if cell.number == id))


def _check_out(engine: Engine, id: int, request: Request) -> PageAnswer:
    return PageAnswer(unmarked(kept_in(engine).check_out(id, int(request["present"], 16))))


NOBODY = -1
"""A number that no cell has: only the named jobs are stopped."""

ACTIONS: dict[str, Callable[[Engine, int, Request], PageAnswer]] = {
    "free": _free,
    "pin": _pin,
    "unpin": _unpin,
    "spill": _spill,
    "why": _why,
    "cost": _cost,
    "stop": _stop,
    "look": _look,
    "checkout": _check_out,
}
"""The ability that each needs is in `page.BUTTONS`."""
