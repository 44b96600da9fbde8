"""Makes the pool known to libraries that keep a list of backends, if they are imported."""

from __future__ import annotations

import sys


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


def register_if_imported() -> None:
    """The same, for a person who has imported joblib; else nothing."""
    if "joblib.parallel" in sys.modules:
        register_joblib()
