"""The verbose mode (``WORKBENCH_PICKLE_DEBUG=1``): a pickler in Python that shows where it was.

Slow: some thirty times the C pickler's time. A debugger can step through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.serialization.arrays import Reducer
from workbench.serialization.paths import path_text
from workbench.serialization.pickler import GlobalsRead, Writable
from workbench.serialization.tables import short
from workbench.serialization.tracing import TracingPickler

MOST_LEVELS = 40
"""Objects of the stack that are shown: the innermost ones."""


class DebugPickler(TracingPickler):
    """Pickles as `pickler.Pickler` does. Whatever ends it midway gets the stack as a note."""

    def __init__(
        self,
        file: Writable,
        reducers: Mapping[type, Reducer],
        buffer_callback: Callable[[Any], Any],
        name: str,
    ) -> None:
        super().__init__(reducers, name, file=file, buffer_callback=buffer_callback)
        self._shown = False

    @property
    def globals_read(self) -> list[GlobalsRead]:
        """As the C pickler's."""
        return self._cloud.globals_read

    def save_here(self, obj: Any) -> None:
        """As ever, and whatever ends it (Ctrl-C too) tells where that was."""
        try:
            super().save_here(obj)
        except BaseException as error:
            if not self._shown:
                self._shown = True
                error.add_note("\n".join(["While pickling, outermost first:", *self._stack()]))
            raise

    def _stack(self) -> list[str]:
        start = max(0, len(self.path) - MOST_LEVELS)
        lines = [f"  … {start} more"] if start else []
        for i in range(start, len(self.path)):
            obj = self.path[i].object
            lines.append(
                f"  {path_text(self.path[: i + 1])}: {type(obj).__qualname__} {short(obj)}"
            )
        return lines
