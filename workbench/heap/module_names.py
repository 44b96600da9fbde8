"""Expressions for modules, as a person would type them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

_SHORT = {"matplotlib.pyplot": ("plt",), "numpy": ("np",), "pandas": ("pd",)}


def expression_for(name: str, module: Any, variables: Mapping[str, Any]) -> tuple[str, str]:
    """Return the expression for a module, and the import that it needs."""
    for variable in (name, name.rpartition(".")[2], *_SHORT.get(name, ())):
        if variable.isidentifier() and variables.get(variable) is module:
            return variable, ""
    top = name.partition(".")[0]
    free = variables.get(top, sys.modules.get(top)) is sys.modules.get(top)
    found: Any = sys.modules.get(top)
    for part in name.split(".")[1:]:
        found = getattr(found, "__dict__", {}).get(part)
    if free and found is module and all(map(str.isidentifier, name.split("."))):
        return name, f"import {name}; "
    return f"__import__('sys').modules[{name!r}]", ""
