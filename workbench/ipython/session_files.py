"""Saves the notebook's variables to a file, and opens such files: `%workbench save`, `open`."""

from __future__ import annotations

import threading
from pathlib import Path

from workbench.engine.base import Engine
from workbench.errors import SessionFileError
from workbench.format import printable
from workbench.ipython.notebook import Notebook
from workbench.report.session_file import opened_text, saved_text
from workbench.session_file.contents import CHECKED, LEVEL, SessionFile, named_objects, save


def save_variables(notebook: Notebook, engine: Engine, path: str, compressed: bool) -> str:
    """Write the notebook's variables, and named objects that aren't among them; return a line.

    SessionFileError if the file can't be written: then the one that was there is as it was.
    """
    own = [name for name in notebook.own_names() if name[:2] != "__"]
    values = {name: notebook.variables[name] for name in own}
    values |= named_objects(engine, values)
    level = LEVEL if compressed else 0
    return printable(saved_text(path, save(Path(path), values, notebook.variables, engine, level)))


def open_variables(notebook: Notebook, path: str, trusted: bool) -> str:
    """Bind variables of a file, and return lines on it: if ``trusted``, also what runs code.

    SessionFileError if the file can't be read, or is damaged.
    """
    file = SessionFile(Path(path))
    values, failed = file.open(notebook.variables, trusted)
    for name in notebook.shell.user_ns_hidden.keys() & values.keys():  # `get_ipython`, `Out`
        del values[name]
        failed[name] = "a name of IPython's"
    notebook.variables.update(values)
    if any(entry.nbytes > CHECKED for entry in file.entries if not entry.runs_code):
        threading.Thread(target=_check, args=(file,), name="checks a file", daemon=True).start()
    left = [entry for entry in file.entries if entry.runs_code and not trusted]
    return printable(opened_text(path, file.made, [*values], failed, left))


def _check(file: SessionFile) -> None:
    """Compare the checksums of what is mapped, which would have taken too long before."""
    try:
        file.check()
    except SessionFileError as error:
        print(printable(f"What was opened can't be trusted: {error}"))
