"""Loads and unloads the extension: `%load_ext workbench` and `%unload_ext workbench`.

The session is started first: its processes start while this one imports numpy and the magics.
"""

from __future__ import annotations

import re
from typing import Any

from workbench.api import lifecycle
from workbench.engines.choice import offered
from workbench.errors import WorkbenchError

_STARTS = re.compile(r"^\s*%workbench\s+start\b", re.MULTILINE)


def load(shell: Any) -> None:
    """Start the session, unless the cell starts one itself, and register the magics; print one line
    about what was started."""
    started = failed = None
    cell = shell.history_manager.input_hist_raw[-1]
    if not (lifecycle.is_initialized() or _STARTS.search(cell)):
        try:
            started = lifecycle.init()
        except WorkbenchError as error:
            failed = error
    # Late: see the module.
    from workbench.interop.registration import register_when_imported
    from workbench.ipython.extension import Extension
    from workbench.report.sessions import offers_text
    from workbench.report.text import started_line

    extension = Extension(shell)
    extension.attach()
    shell.workbench = extension  # for `unload`; and it keeps the hooks alive
    register_when_imported()
    if failed is not None:
        print(f"{type(failed).__name__}: {failed}\n`%workbench start` tries again.")
    elif started is not None:
        print(started_line(started, None))
        extension.bring_back(started)
        if started.facts.system == "local" and (offers := offers_text(offered(shell.user_ns))):
            print(offers)


def unload(shell: Any) -> None:
    """End the session, and undo what `load` did."""
    extension = getattr(shell, "workbench", None)
    if extension is not None:
        shell.workbench_kept = extension.detach()  # `%reload_ext` goes on with it
        del shell.workbench
    lifecycle.shutdown()
