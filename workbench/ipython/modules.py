"""What a person does to modules, so that workers do too, or it is said. Loads nothing itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from workbench.host.reloading import is_persons


class ReloadWatch:
    """A finder that finds nothing: it is asked first, and for which module, when one is loaded.

    ``loads`` is called before it is, with its name and whether it is loaded again
    (`importlib.reload`), in whichever thread does it.
    """

    def __init__(self, loads: Callable[[str, bool], None]) -> None:
        self._loads = loads

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """As of ``sys.meta_path``; ``target`` is what is there already."""
        self._loads(name, target is not None)

    def attach(self) -> None:
        """From now on."""
        sys.meta_path.insert(0, self)

    def detach(self) -> None:
        """Leave the imports as they were."""
        sys.meta_path.remove(self)


class SetAttributes:
    """Notes which attributes of modules, and of their classes, cells set (`settings.rate = 2`):
    workers import the modules themselves. It is one of the shell's ``ast_transformers``, and
    changes nothing.
    """

    def __init__(self) -> None:
        self._set: list[tuple[list[str], str]] = []
        self._told: set[str] = set()

    def visit(self, tree: ast.AST) -> ast.AST:
        """As of ``ast_transformers``. What a function sets may be set in a task."""
        nodes = [tree]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                *path, name = ast.unparse(node).split(".")
                self._set.append((path, name))
            nodes += ast.iter_child_nodes(node)
        return tree

    def news(self, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Those of a person's modules that weren't named before: the module, and what is set."""
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
