"""What stays of the views in a notebook: text, HTML and a picture of one frozen moment."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

GOLDEN = Path(__file__).parent / "golden"
REGENERATE = "WORKBENCH_GOLDEN"
"""Set it to have the golden files written anew. Then look at what `git diff` says."""


def _module(name: str) -> ModuleType:
    """A module beside this one, which isn't in a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module
