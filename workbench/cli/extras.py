"""mcp, run: commands that need what an extra of the distribution brings, or say which it is."""

from __future__ import annotations

import sys
from argparse import Namespace

from workbench.errors import WorkbenchError

NEEDS = "`workbench {}` needs {}: `pip install 'ipyworkbench[{}]'`."


def mcp(kernel: int | None, reads_only: bool) -> int:
    try:
        from workbench.mcp_server.tools import serve
    except ImportError as error:
        raise WorkbenchError(NEEDS.format("mcp", error.name, "mcp")) from None
    return serve(kernel, reads_only)


def run(given: Namespace) -> int:
    try:
        from workbench.cli import run
    except ImportError as error:  # its status says that nothing was run
        print(f"workbench: {NEEDS.format('run', error.name, 'lab')}", file=sys.stderr)
        return 2
    return run.run(given)
