"""What the buttons do: each asks the engine for one thing, and says what came of it.

Some take a while (a copy to disk, a look into every process), so `perform` runs in a thread of its
own, and the kernel goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import api, reasons
from workbench.engines.base import Engine, Observed, acting_on
from workbench.errors import ObjectLostError, WorkbenchError
from workbench.serialization.costs import Cost
from workbench.widgets.rows import Row

MOST_ID = 1 << 63
"""Another could not be sent, nor anything behind it."""

READ = 10.0
"""Seconds within which an object must be there, to be explained: its task may not be done."""

STOPPED = 10.0
"""Seconds that a background cell has to end before that is all there is to say."""


def perform(observed: Observed, request: Row) -> Row:
    """Do what a page asks for; the answer, without its number. Never raises.

    Parameters
    ----------
    observed : Observed
    request : dict
        ``do``: one of `ACTIONS`; ``id``: of the object or job, in hexadecimal.
    """
    try:
        action, id = ACTIONS[request["do"]], int(request["id"], 16)
        if not 0 < id < MOST_ID:
            raise ValueError(f"{request['id']} is no object's id")
        engine = acting_on(observed, NEEDS[request["do"]])
        return {"ok": True, **action(engine, id, request)}
    except WorkbenchError as error:
        return {"ok": False, "text": str(error)}
    except Exception as error:  # of the object's class, or of a page that isn't ours
        return {"ok": False, "text": f"{type(error).__name__}: {error}"}


def _free(engine: Engine, id: int, request: Row) -> Row:
    engine.free([engine.borrow(id)])
    return {"text": "Freed."}


def _pin(engine: Engine, id: int, request: Row) -> Row:
    engine.pin(engine.borrow(id), True, "a live view's button")
    return {"text": "Pinned: it stays, in memory, until it is unpinned."}


def _unpin(engine: Engine, id: int, request: Row) -> Row:
    engine.pin(engine.borrow(id), False)
    return {"text": "Unpinned."}


def _spill(engine: Engine, id: int, request: Row) -> Row:
    obstacle = engine.spill(engine.borrow(id))
    if obstacle:
        return {"ok": False, "text": f"It can't be moved to disk: {obstacle}."}
    return {"text": "It is on disk now, and is read from there without a copy."}


def _why(engine: Engine, id: int, request: Row) -> Row:
    account = engine.why(id)
    if account is None:
        raise ObjectLostError("It is gone: nothing keeps it any more.")
    why = reasons.explain(account, ", ".join(account.object.names[:1]))
    return {"text": str(why), "html": why._repr_html_()}


def _cost(engine: Engine, id: int, request: Row) -> Row:
    ref = engine.borrow(id)
    (value,) = engine.get([ref], READ, False)
    cost = api.explain_cost(value, request.get("name") or "object")
    return {"text": str(cost), "tree": _tree(cost), "advice": list(cost.all_advice())}


def _tree(cost: Cost) -> Row:
    return {
        "name": cost.label,
        "path": cost.path,
        "type": cost.type,
        "bytes": cost.inband + cost.outband,
        "inband": cost.inband,
        "seconds": cost.seconds,
        "share": cost.share,
        "children": [_tree(child) for child in cost.children],
        "advice": list(cost.advice),
    }


def _stop(engine: Engine, id: int, request: Row) -> Row:
    over = engine.interrupt(NOBODY, [id], bool(request.get("force")), STOPPED)
    return {"ok": over, "text": "Stopped." if over else "It was told to stop, and goes on so far."}


NOBODY = -1
"""No cell has this number: only what is named is stopped."""

ACTIONS: dict[str, Callable[[Engine, int, Row], dict[str, Any]]] = {
    "free": _free,
    "pin": _pin,
    "unpin": _unpin,
    "spill": _spill,
    "why": _why,
    "cost": _cost,
    "stop": _stop,
}

NEEDS = {
    "free": "free",
    "pin": "pin",
    "unpin": "pin",
    "spill": "spill",
    "why": "why",
    "cost": "get",
    "stop": "interrupt",
}
"""Of the engine's abilities (`engines.base.Abilities`), by action."""
