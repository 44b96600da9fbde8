"""`%debug` after a task's error: says where its frames were, and opens none of ours."""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from workbench.errors import TaskError, failure_of
from workbench.report.format import printable
from workbench.report.names import not_here_text


def explained(debugger: Callable[..., None]) -> Callable[..., None]:
    """A shell's `debugger`, which `%debug` and `%pdb` open; after a task's error it explains."""

    @functools.wraps(debugger)
    def opened(*args: Any, **options: Any) -> None:
        error = getattr(sys, "last_value", None)
        if isinstance(error, TaskError):
            failure = failure_of(error)
            said = not_here_text(failure.text.partition(":")[0], failure.task)
            print(printable(textwrap.fill(said, 80)))  # notebooks would break it in mid-word
        else:
            debugger(*args, **options)

    return opened
