"""Which engine observes a session of another system."""

from __future__ import annotations

from types import ModuleType

from workbench.engines.dask import Dask, is_client
from workbench.engines.observed import Observer
from workbench.engines.ray import Ray


def observe(of: object) -> Observer:
    """The session of another system, to be observed.

    Parameters
    ----------
    of : distributed.Client or module
        A client of a Dask cluster, or the module ``ray`` after ``ray.init()``.

    Returns
    -------
    Observer

    Raises
    ------
    TypeError
        If it is something else.
    SessionError
        If there is no session behind it.
    """
    if isinstance(of, ModuleType) and of.__name__ == "ray":
        return Ray(of)
    is_theirs = any(cls.__module__.partition(".")[0] == "distributed" for cls in type(of).__mro__)
    if is_theirs and is_client(of):  # which imports theirs
        return Dask(of)
    raise TypeError(
        "Views are of the current session (give nothing), of a Dask cluster (give its "
        f"distributed.Client), or of Ray (give the module ray); not of {type(of).__name__}."
    )
