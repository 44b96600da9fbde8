"""What people ask about a session: its records, its objects, why one is here. Changes nothing."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.api.lifecycle import engine
from workbench.core.snapshot import Snapshot
from workbench.engine.base import Engine, Observed, acting_on
from workbench.engine.queries import Held, Matching, Reasons
from workbench.errors import ForeignRefError, ObjectLostError
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.report.text import ObjectTable
    from workbench.report.why import Why


def snapshot(of: Any = None) -> Snapshot:
    """The whole session at this moment, frozen.

    Parameters
    ----------
    of : distributed.Client or module, optional
        A session of another system: a client of a Dask cluster, or the module ``ray`` after
        ``ray.init()``. What those can't tell is None. Default: the current session; it is started
        if there is none.

    Returns
    -------
    Snapshot
        Plain frozen records. It has all objects, which come in parts: of a million that takes
        seconds, and a gigabyte of memory.

    Raises
    ------
    TypeError
        If it is something else.
    SessionError
        If there is no session, or it doesn't answer.
    """
    return observed(of).snapshot()


def objects(pattern: str = "", *, sort: str = "size", limit: int | None = None) -> ObjectTable:
    """What the store has, as a table: name, type, size, where, pins, age.

    Parameters
    ----------
    pattern : str
        Only objects of which a name or the type matches, like ``train*``.
    sort : str
        ``size`` or ``age``, the greatest first; ``name`` or ``type``.
    limit : int, optional
        How many to list; the rest are counted. Default: all, however many there are.

    Returns
    -------
    ObjectTable
        Printed, it is a table; iterated, it gives the records of the objects it lists.

    Raises
    ------
    ValueError
        If there is no such order, or ``limit`` is no number of objects.
    """
    from workbench.report import text

    if limit is not None and (type(limit) is not int or not 0 <= limit < 1 << 63):
        raise ValueError(f"limit={limit!r} must be a whole number, 0 or more, or None for all.")
    target = engine()
    held = target.ask(Held())
    if limit is None or sort not in text.ORDERS:
        return text.objects(target.snapshot().objects, pattern, sort, held)
    found = target.ask(Matching(pattern, sort, limit))
    more = found.others, found.others_size
    return text.objects(found.objects, pattern, sort, held, limit, *more, searched=True)


def why(what: ObjectRef | str, *, deep: bool = False) -> Why:
    """Why an object is still here: which variables, outputs, arrays, tasks, objects keep it.

    Every process that holds it is asked where, on Ray and Dask this one: the answer has paths one
    can type, and for each reason the one thing that lets go.

    Parameters
    ----------
    what : ObjectRef or str
        A ref, or a name or id in the store.
    deep : bool
        Have each process look at all it has, even if that takes longer than a second.

    Returns
    -------
    Why
        Printed, it is a text; shown in a notebook, a table.

    Raises
    ------
    ObjectLostError
        If the session has no such object.
    ForeignRefError
        If the ref is another session's.
    """
    from workbench.report import why as report

    target = acting_on(engine(), "why")
    account = target.ask(Reasons(asked_by(target, what), deep))
    if account is None:
        call = what if isinstance(what, str) else what.hex()
        raise ObjectLostError(f"This session has no object {call!r}: nothing keeps it.")
    return report.why(account, what if isinstance(what, str) else "")


def asked_by(target: Engine, what: ObjectRef | str) -> int | str:
    """By what `Reasons` has it; ForeignRefError if the ref is another session's."""
    if isinstance(what, str):
        return what
    if what.session != target.session:
        raise ForeignRefError.between(what.session, target.session)
    return what.id


def observed(of: Any = None) -> Observed:
    """What `snapshot` and the views ask; see there for ``of``. A new one for each call, but for the
    current session.
    """
    if of is None:
        return engine()
    if isinstance(of, ModuleType) and of.__name__ == "ray":
        from workbench.engines.ray.observed import Ray

        return Ray(of)
    if any(cls.__module__.partition(".")[0] == "distributed" for cls in type(of).__mro__):
        from workbench.engines.dask.observed import Dask, is_client

        if is_client(of):
            return Dask(of)
    raise TypeError(
        "Views are of the current session (give nothing), of a Dask cluster (give its "
        f"distributed.Client), or of Ray (give the module ray); not of {type(of).__name__}."
    )
