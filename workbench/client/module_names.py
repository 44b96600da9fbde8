"""Expressions for modules, as a person would type them."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

from workbench.client.reference_graph import Name
from workbench.client.references import is_own_module

_SHORT = {"matplotlib.pyplot": ("plt",), "numpy": ("np",), "pandas": ("pd",)}


def name_of(name: str, module: types.ModuleType, variables: Mapping[str, Any]) -> Name:
    """Return the name of a module's namespace."""
    path, before = expression_for(name, module, variables)
    is_persons = is_own_module(name, getattr(module, "__file__", None))
    return Name(path, "module", name, before, "attributes", not is_persons)


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
