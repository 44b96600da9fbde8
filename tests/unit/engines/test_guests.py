"""On clusters that belong to others only their public API is used: no name that begins with `_`.

An attribute with such a name is looked up on ``self``, ``cls``, or something in the same file that
has it; else it may be somebody else's. What is imported says so itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench.engines

ENGINES = Path(workbench.engines.__file__).parent

SYSTEMS = ("dask", "distributed", "ray")

STANDARD = ("_replace", "_exit")
"""Such names that the standard library gives to everybody."""

STILL = ("ray",)
"""Packages that may, for now."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """The private names that a file itself defines or sets on ``self``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def private_uses(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not of_self and node.attr not in (*own, *STANDARD):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in SYSTEMS:
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"{node.lineno}: {name}" for name in names if is_private(name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] in SYSTEMS and any(map(is_private, parts)):
                    yield f"{node.lineno}: {alias.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            name = node.args[1] if len(node.args) > 1 else None
            found = str(name.value) if isinstance(name, ast.Constant) else ""
            if is_private(found) and found not in own:
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and "import_module('ray._" in ast.unparse(node):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_such_uses_are_found() -> None:
    assert len([*private_uses("client._send(1)\nfrom dask import _x\nimport ray._private")]) == 3
    assert len([*private_uses("getattr(client, '_loop')\nfrom ray._private import worker")]) == 2
    assert not [*private_uses("class A:\n def f(self, other): self._x = 1; return other._x")]


@pytest.mark.parametrize("package", sorted({f.parent.name for f in ENGINES.glob("*/*.py")}))
def test_no_private_name_of_another_system_is_used(package: str) -> None:
    found = [
        f"{file.relative_to(ENGINES)}:{use}"
        for file in sorted((ENGINES / package).glob("*.py"))
        for use in private_uses(file.read_text())
    ]
    if package in STILL:
        assert found, f"{package} is as good as the others now: take it out of STILL"
        return
    assert not found, "\n".join(found)
