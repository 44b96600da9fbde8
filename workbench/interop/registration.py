"""Registers the pool with libraries that keep a list of backends, once they are imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from workbench.surroundings.import_watch import ImportWatch

LIBRARY = "joblib"


def register_joblib() -> None:
    """Register the pool with joblib: ``joblib.parallel_config("workbench")``.

    `%load_ext workbench` also does it, as soon as joblib is imported. A second call does nothing.

    Raises
    ------
    ImportError
        If joblib isn't installed.
    """
    from joblib import register_parallel_backend

    from workbench.interop.joblib import WorkbenchBackend

    register_parallel_backend("workbench", WorkbenchBackend)


def register_when_imported() -> None:
    """Register now if joblib is imported, else when it is. Until then it costs nothing."""
    if LIBRARY in sys.modules:
        register_joblib()
    else:
        _WATCH.install()


@contextmanager
def _registering() -> Iterator[None]:
    """Register after joblib's own code has run."""
    _WATCH.uninstall()
    yield
    with suppress(ImportError):  # a joblib that is too old
        register_joblib()


_WATCH = ImportWatch(_registering, LIBRARY)
