"""The package's source files, each read and parsed once for all tests that look at its code. Those
run in one process: see `tests/conftest.py`.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import workbench

PACKAGE = Path(workbench.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())
