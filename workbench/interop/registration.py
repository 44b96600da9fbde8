"""Makes the pool known to libraries that keep a list of backends, once they are imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

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
    elif not any(isinstance(each, _OnImport) for each in sys.meta_path):
        sys.meta_path.insert(0, _OnImport())


class _OnImport:
    """Of ``sys.meta_path``: finds joblib as the others do, and registers once its code has run."""

    _looks = False  # it asks the others

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != LIBRARY or self._looks:
            return None
        self._looks = True
        try:
            spec = find_spec(name)
        finally:
            self._looks = False
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            run = loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                run(module)
                with suppress(ImportError):  # one that is too old
                    register_joblib()

            loader.exec_module = run_and_register
        return spec
