"""Custom serializers; why a value can't be serialized, and what it costs. Needs no session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.api.lifecycle import engine
from workbench.engine.queries import OwnReducers
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.serialization.costs import Cost
    from workbench.serialization.inspection import Inspection


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Set how instances of a class are stored.

    Registered once, in the notebook, it reaches all workers of the session, also later ones, before
    any task submitted after it. On Ray and Dask it is this process's alone, as Ray's own registry
    is. The deserializer is sent with each object. Plain pickle and cloudpickle in the same process
    don't change.

    Parameters
    ----------
    cls : type
        Exactly this class, not its subclasses. Registering again replaces at once.
    serializer : callable(instance) → data
        The data can be anything that can be stored; arrays in it are stored without a pickle.
    deserializer : callable(data) → instance
        Called in each process that gets the object.

    Raises
    ------
    TypeError
        If ``cls`` is not a class, or one that pickle takes apart by itself (``list``).
    SerializationError
        If one of the functions can't be sent to the workers.

    Examples
    --------
    >>> register_serializer(
    ...     Database, serializer=lambda db: db.path, deserializer=Database
    ... )  # doctest: +SKIP
    """
    if cls is ObjectRef:
        raise TypeError("An ObjectRef has its own serializer: what it refers to stays alive.")
    engine().register(cls, (serializer, deserializer))


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer`. Nothing happens if the class has none.

    Parameters
    ----------
    cls : type
        The class.
    """
    current_engine = context.get()
    if current_engine is not None:
        current_engine.register(cls, None)


def inspect_serializability(value: Any, name: str = "") -> Inspection:
    """Find all parts that keep a value from being serialized: where, why, and what to do.

    Nothing is stored, and no session is needed.

    Parameters
    ----------
    value : object
        Anything.
    name : str
        Beginning of the paths. Default: the value's own name, or its type's.

    Returns
    -------
    Inspection
        The pair (ok, failures): ``failures`` are frozen records with ``path``, ``type``, ``why``
        and ``advice``, for all of them, not just the first. Prints as text; shown in a notebook as
        a table.
    """
    from workbench.serialization.inspection import inspect

    return inspect(value, _reducers(), name)


def explain_cost(value: Any, name: str = "", *, whole: bool = False) -> Cost:
    """Measure where serializing a value spends bytes and time, and what would be cheaper.

    The value is really pickled, and the advice was really tried. Nothing is stored, and no session
    is needed. It takes at most two seconds of CPU time: large containers are sampled, and longer
    pickling is estimated; the answer says so.

    Parameters
    ----------
    value : object
        Anything that can be serialized. An ObjectRef means the object it refers to.
    name : str
        Beginning of the paths. Default: its type's name.
    whole : bool
        Measure the whole value, however long that takes.

    Returns
    -------
    Cost
        A tree of the value's parts. Prints as text; shown in a notebook as a table.

    Raises
    ------
    SerializationError
        If something in it can't be serialized.
    """
    from workbench.serialization.costs import FIRST, WHOLE, explain

    if isinstance(value, ObjectRef):
        (value,) = engine().get([value], None, False)
    return explain(value, _reducers(), name, spend=WHOLE if whole else FIRST)


def _reducers() -> Mapping[type, Callable[[Any], Any]]:
    found = context.get()
    reducers = {} if found is None else found.ask(OwnReducers())

    def reduce_ref(ref: ObjectRef) -> tuple[Any, ...]:
        """Pickle a ref as text: its `__reduce__` would count it as leaving the session."""
        if found is not None:
            reducers[ObjectRef](ref)  # raises if it is another session's
        return str, (ref.hex(),)

    return {**reducers, ObjectRef: reduce_ref}
