"""`%debug` after a task's error: says where its frames were, and opens none of ours."""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from workbench.errors import TaskError, failure_of


def explained(debugger: Callable[..., None]) -> Callable[..., None]:
    """A shell's `debugger`, which `%debug` and `%pdb` open; after a task's error it explains."""

    @functools.wraps(debugger)
    def opened(*args: Any, **options: Any) -> None:
        error = getattr(sys, "last_value", None)
        if isinstance(error, TaskError):
            print(textwrap.fill(_why_not(error), 80))  # notebooks would break it in mid-word
        else:
            debugger(*args, **options)

    return opened


def _why_not(error: TaskError) -> str:
    failure = failure_of(error)
    where = f" in {failure.task}" if failure.task else ""
    kind = failure.text.partition(":")[0]
    again = (
        "run the cell again without its first line, `%%remote`,"
        if failure.task.startswith("cell ")
        else "call the function here, without `.remote`,"
    )
    return (
        f"There is nothing here to step through: {kind} was raised on a worker{where}, where its "
        f"variables are gone by now. To debug it, {again} and then `%debug`. `%tb` shows the "
        "traceback again."
    )
