"""open: lists what a session file has, and runs none of its code."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.errors import SessionFileError
from workbench.report.session_file import file_table
from workbench.session_file.contents import SessionFile


def show(path: str, as_json: bool) -> int:
    try:
        file = SessionFile(Path(path))
    except OSError as error:
        raise SessionFileError(f"{path} can't be read: {error.strerror or error}.") from None
    table = file_table(path, file.made, file.entries)
    print(json.dumps(table.document()) if as_json else table)
    return 0
