"""Live part of background cells' lines: messages to a page and from it. No words.

A line stays in the notebook as HTML without scripts, in an element with a name; the script finds
these and updates them while there is a kernel. One model serves all lines of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import traitlets

from workbench.widgets.modules import LINES, script
from workbench.widgets.page_model import Message, PageModel


class LinePage(PageModel):
    """Model of the lines; see the module.

    ``heard`` is called with this and a page's message, in the kernel's main thread or a subshell's.
    ``key`` is the only line that it serves, where a front end runs a script only in a view.
    """

    _esm = script(LINES)
    key = traitlets.Unicode().tag(sync=True)

    def __init__(self, heard: Callable[[LinePage, Message], None], key: str = "") -> None:
        self._heard = heard
        super().__init__(key=key)

    def open(self) -> None:
        """Become a widget. Called by its maker, in any thread: a page may answer at once."""
        self.on_msg(lambda widget, message, buffers: self._heard(self, message))
        super().open()
