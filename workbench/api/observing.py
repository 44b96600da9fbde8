"""Questions about a session: its records, its objects, why one is kept. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.api.lifecycle import engine
from workbench.core.snapshot import Snapshot
from workbench.engine.base import Engine, Observed, acting_on
from workbench.engine.queries import Held, Keepers, Matching, Reasons, StoredAs, Summary
from workbench.engines.choice import system_of
from workbench.errors import ForeignRefError, ObjectLostError
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.report.text import ObjectTable
    from workbench.report.why import Why, Whys


def snapshot(of: Any = None) -> Snapshot:
    """Return the whole session at this moment, frozen.

    Parameters
    ----------
    of : distributed.Client or module, optional
        A session of another system: a client of a Dask cluster, or the module ``ray`` after
        ``ray.init()``. Fields that these don't provide are None. Default: the current session; it
        is started if there is none.

    Returns
    -------
    Snapshot
        Plain frozen records, of all objects: a million of them take seconds and a gigabyte of
        memory.

    Raises
    ------
    TypeError
        If it is something else.
    SessionError
        If there is no session, or it doesn't answer.
    """
    return observed(of).snapshot()


def objects(pattern: str = "", *, sort: str = "size", limit: int | None = None) -> ObjectTable:
    """Return the stored objects as a table: name, type, size, where, pins, age.

    Parameters
    ----------
    pattern : str
        Only objects of which a name or the type matches, like ``train*``.
    sort : str
        ``size`` or ``age``, largest first; ``name`` or ``type``.
    limit : int, optional
        How many to list; the rest are counted. Default: all.

    Returns
    -------
    ObjectTable
        Prints as a table; iterating yields the records of the listed objects.

    Raises
    ------
    ValueError
        If there is no such order, or ``limit`` isn't a number of objects.
    """
    from workbench.report import text
    from workbench.report.processes import Processes

    if limit is not None and (type(limit) is not int or not 0 <= limit < 1 << 63):
        raise ValueError(f"limit={limit!r} must be a whole number, 0 or more, or None for all.")
    target = engine()
    held = target.ask(Held())
    if limit is None or sort not in text.ORDERS:
        seen = target.snapshot()
        return text.objects(seen.objects, pattern, sort, held, processes=Processes(seen))
    found, processes = target.ask(Matching(pattern, sort, limit)), Processes(target.ask(Summary()))
    more = found.others, found.others_size, True, processes
    return text.objects(found.objects, pattern, sort, held, limit, *more)


def why(what: Any, *, deep: bool = False) -> Why | Whys:
    """Explain why an object is kept: by which variables, outputs, arrays, tasks, objects.

    Every process that holds it is asked where, on Ray and Dask only this one: the answer has
    expressions that you can type, and for each reason the code that lets go. Of a value that isn't
    stored, the answer also says how many bytes each reason would free.

    Parameters
    ----------
    what : ObjectRef, str or any other value
        A ref, or a name or id in the store; or a value of this process's own.
    deep : bool
        Let each process search all its objects, however many those are.

    Returns
    -------
    Why or Whys
        Prints as text; shown in a notebook as a table. Several answers if a value has parts in the
        store.

    Raises
    ------
    ObjectLostError
        If the session has no such object.
    ForeignRefError
        If the ref is another session's.
    """
    from workbench.report import why as report

    target = acting_on(engine(), "why")
    if not isinstance(what, str | ObjectRef):
        stored, box = target.ask(Held("value", what)), [what]
        if (copy := target.ask(StoredAs(what, changed=True))) is not None:
            stored = {copy.id: (("its copy in the store", ""),), **stored}
        del what, copy  # references are counted
        own = target.ask(Keepers(box, deep))
        told = [(each[0][0], _why(target, f"{id:016x}", deep)) for id, each in stored.items()]
        if not told or own.nbytes >= report.LEAST_OWN:
            told.insert(0, ("value", report.why_value(own, "")))
        return told[0][1] if len(told) == 1 else report.Whys(tuple(told))
    return _why(target, what, deep)


def _why(target: Engine, what: ObjectRef | str, deep: bool) -> Why:
    from workbench.report import why as report

    account = target.ask(Reasons(asked_by(target, what), deep))
    if account is None:
        call = what if isinstance(what, str) else what.hex()
        raise ObjectLostError(f"This session has no object {call!r}: nothing keeps it.")
    return report.why(account, what if isinstance(what, str) else "")


def asked_by(target: Engine, what: ObjectRef | str) -> int | str:
    """Return the name or id for `Reasons`; ForeignRefError if the ref is another session's."""
    if isinstance(what, str):
        return what
    if what.session != target.session:
        raise ForeignRefError.between(what.session, target.session)
    return what.id


def observed(of: Any = None) -> Observed:
    """Return what `snapshot` and the views read; for ``of`` see `snapshot`. A new object for each
    call, except for the current session.
    """
    if of is None:
        return engine()
    system = system_of(of)
    if system == "ray":
        from workbench.engines.ray.observed import Ray

        return Ray(of)
    if system == "dask":
        from workbench.engines.dask.observed import Dask

        return Dask(of)
    raise TypeError(
        "Views are of the current session (give nothing), of a Dask cluster (give its "
        f"distributed.Client), or of Ray (give the module ray); not of {type(of).__name__}."
    )
