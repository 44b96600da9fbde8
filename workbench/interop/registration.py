"""Makes the pool known to libraries that keep a list of backends, once they are imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from workbench.host.import_watch import ImportWatch

LIBRARY = "joblib"


def register_joblib() -> None:
    """Let joblib know the pool: ``joblib.parallel_config("workbench")``.

    `%load_ext workbench` does it too, as soon as joblib is imported. Again: nothing happens.

    Raises
    ------
    ImportError
        If joblib isn't installed.
    """
    from joblib import register_parallel_backend

    from workbench.interop.joblib import WorkbenchBackend

    register_parallel_backend("workbench", WorkbenchBackend)


def register_when_imported() -> None:
    """The same now, or when somebody imports joblib. Until then it costs nothing."""
    if LIBRARY in sys.modules:
        register_joblib()
    else:
        _WATCH.install()


@contextmanager
def _registering() -> Iterator[None]:
    """Around joblib's own code."""
    _WATCH.uninstall()
    yield
    with suppress(ImportError):  # one that is too old
        register_joblib()


_WATCH = ImportWatch(_registering, LIBRARY)
