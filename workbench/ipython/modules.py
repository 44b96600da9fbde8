"""Tracks how a person changes modules, so that workers follow or a note says so. Loads nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from workbench.host.reloading import is_persons


class ReloadWatch:
    """Import finder that finds nothing, but sees each module before it is loaded.

    Calls ``loads`` with the module's name and True if it is loaded again (`importlib.reload`), in
    the importing thread.
    """

    def __init__(self, loads: Callable[[str, bool], None]) -> None:
        self._loads = loads

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Find nothing; interface of ``sys.meta_path``. ``target`` is the existing module."""
        self._loads(name, target is not None)

    def attach(self) -> None:
        """Begin to watch imports."""
        sys.meta_path.insert(0, self)

    def detach(self) -> None:
        """Stop watching imports."""
        sys.meta_path.remove(self)


class SetAttributes:
    """Notes which attributes of modules, and of their classes, cells set (`settings.rate = 2`):
    workers import the modules themselves. One of the shell's ``ast_transformers``, which
    changes nothing."""

    def __init__(self) -> None:
        self._set: list[tuple[list[str], str]] = []
        self._told: set[str] = set()

    def visit(self, tree: ast.AST) -> ast.AST:
        """Note the attributes that a tree sets, except in functions, which may run in a task."""
        nodes = [tree]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                *path, name = ast.unparse(node).split(".")
                self._set.append((path, name))
            nodes += ast.iter_child_nodes(node)
        return tree

    def take_new(self, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield newly set attributes of a person's modules: the module, and the attribute."""
        noted, self._set = self._set, []
        for path, name in noted:
            value: Any = variables.get(path[0])
            for each in path[1:]:
                value = vars(value).get(each) if isinstance(value, ModuleType | type) else None
            if isinstance(value, ModuleType):
                module = owner = value.__name__
            elif isinstance(value, type):
                module, owner = value.__module__, f"{value.__module__}.{value.__qualname__}"
            else:
                continue
            told = f"{owner}.{name}"
            if module != "__main__" and is_persons(module) and told not in self._told:
                self._told.add(told)
                yield module, told
