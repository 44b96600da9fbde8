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
    """Say how instances of a class are to be stored.

    Registered once, in the notebook, it reaches all workers of the session, those still to come
    too, before any task submitted after it; on Ray and Dask it is this process's alone, as Ray's
    own registry is. The deserializer travels with each object. Plain pickle and cloudpickle in the
    same process are not changed.

    Parameters
    ----------
    cls : type
        Exactly this class, not its subclasses. Registering again replaces at once.
    serializer : callable(instance) → data
        The data can be anything that can be stored; arrays in it are stored without a pickle.
    deserializer : callable(data) → instance
        Called by whoever gets the object.

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
    """Find all that keeps a value from being serialized: where it is, why, what to do about it.

    Nothing is stored, and no session is needed.

    Parameters
    ----------
    value : object
        Anything.
    name : str
        What the paths begin with. Default: the value's own name, or its type's.

    Returns
    -------
    Inspection
        The pair (ok, failures): ``failures`` are frozen records with ``path``, ``type``, ``why``
        and ``advice``, all of them and not just the first. Printed, it is a text; shown in a
        notebook, a table.
    """
    from workbench.serialization.inspection import inspect

    return inspect(value, _reducers(), name)


def explain_cost(value: Any, name: str = "", *, whole: bool = False) -> Cost:
    """Where serializing a value spends its bytes and its time, and what would be cheaper.

    The value is really pickled, and what is advised was really tried. Nothing is stored, and no
    session is needed. The answer comes within two seconds of a processor: of large containers a
    sample is looked at, and what takes longer to pickle is estimated; the answer says so.

    Parameters
    ----------
    value : object
        Anything that can be serialized. An ObjectRef means the object it refers to.
    name : str
        What the paths begin with. Default: its type's name.
    whole : bool
        Measure what all of it takes, however long that is.

    Returns
    -------
    Cost
        A tree of the value's parts. Printed, it is a text; shown in a notebook, a table.

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
        """As if it were a text: `__reduce__` would take it for one that leaves the session."""
        if found is not None:
            reducers[ObjectRef](ref)  # raises if it is of another session
        return str, (ref.hex(),)

    return {**reducers, ObjectRef: reduce_ref}
