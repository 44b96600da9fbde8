"""Running parsed Python in a namespace: awaiting at top level, showing the last expression."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from contextlib import closing
from types import CodeType
from typing import Any

Names = dict[str, Any]
Show = Callable[[Any], None]


def run_text(text: str, namespace: Names, show: Show) -> None:
    """Run Python that a magic passes, and show its last value."""
    with closing(asyncio.Runner()) as runner:  # `with` it alone would make a loop at once
        execute(ast.parse(text), "<cell>", namespace, runner, show)


def execute(
    tree: ast.Module,
    filename: str,
    namespace: Names,
    runner: asyncio.Runner,
    show: Show | None,
    in_loop: bool = False,
) -> None:
    """Run the tree (modifying it), and show the value of its last expression.

    If it awaits anything, or with ``in_loop``, all of it runs in the runner's event loop.
    """
    last: Any = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    codes = [compiled(tree, "exec", filename)] if tree.body else []
    if last is not None:
        codes.append(compiled(ast.Expression(last.value), "eval", filename))
    if in_loop or any(code.co_flags & inspect.CO_COROUTINE for code in codes):
        value = _awaited(_steps(codes, namespace), runner)
    else:
        value = None
        for code in codes:
            value = eval(code, namespace)
    if value is not None and show is not None:
        show(value)


def compiled(tree: ast.Module | ast.Expression, mode: str, filename: str) -> CodeType:
    """Return a cell's code."""
    # `dont_inherit`: else our own `from __future__ import annotations` would apply to the cell.
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(tree, filename, mode, flags, dont_inherit=True)
    return code


async def _steps(codes: list[CodeType], namespace: Names) -> tuple[Any, BaseException | None]:
    """Return (last value, error): returned, the error's traceback lacks the loop's frames."""
    value = None
    try:
        for code in codes:
            ran = eval(code, namespace)
            value = await ran if code.co_flags & inspect.CO_COROUTINE else ran
    except BaseException as error:
        return None, error
    return value, None


def _awaited(steps: Coroutine[Any, Any, tuple[Any, BaseException | None]], runner: Any) -> Any:
    """Run it to the end. Not by `Runner.run`, which leaves it there if a signal ends the wait."""
    loop = runner.get_loop()  # made now, if it is the first
    task = loop.create_task(steps, context=contextvars.copy_context())
    try:
        value, error = loop.run_until_complete(task)
    finally:
        if not task.done():
            task.cancel()
            loop.run_until_complete(task)
    try:
        if error is not None:
            raise error
        return value
    finally:
        del task, error  # a reference cycle: the error's traceback has this frame
