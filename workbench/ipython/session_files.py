"""Saves the notebook's variables to a file, and opens such files: `%workbench save`, `open`."""

from __future__ import annotations

import threading
from pathlib import Path

from workbench.core.snapshot import KEPT_PREFIX
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Names
from workbench.errors import MagicError, SessionFileError
from workbench.format import printable
from workbench.ipython.notebook import Notebook
from workbench.report.session_file import opened_text, saved_text
from workbench.session_file.contents import CHECKED, LEVEL, SessionFile, save


def save_variables(notebook: Notebook, engine: Engine, path: str, compressed: bool) -> str:
    """Write the notebook's variables, and named objects that aren't among them; return a line.

    MagicError if the file can't be written: then the one that was there is as it was.
    """
    own = [name for name in notebook.own_names() if name[:2] != "__"]
    values = {name: notebook.variables[name] for name in own}
    named = [n for n in engine.ask(Names()) if n.isidentifier() and not n.startswith(KEPT_PREFIX)]
    found = {name: engine.ask(Lookup(name)) for name in named if name not in values}
    refs = {name: ref for name, ref in found.items() if ref is not None}
    values |= zip(refs, engine.get([*refs.values()], None, False), strict=True)
    level = LEVEL if compressed else 0
    target = Path(path).expanduser()
    try:
        if not target.name or target.is_dir():
            raise MagicError(f"{path} is a directory: name a file in it.")
        saved = save(target, values, notebook.variables, engine, level)
    except OSError as error:
        raise MagicError(f"{path} can't be written: {error.strerror or error}.") from None
    return printable(saved_text(path, saved))


def open_variables(notebook: Notebook, path: str, trusted: bool) -> str:
    """Bind variables of a file, and return lines on it: if ``trusted``, also what runs code.

    MagicError if the file can't be read, SessionFileError if it is damaged.
    """
    file = read(path)
    values, failed = file.open(notebook.variables, trusted)
    for name in notebook.shell.user_ns_hidden.keys() & values.keys():  # `get_ipython`, `Out`
        del values[name]
        failed[name] = "a name of IPython's"
    notebook.variables.update(values)
    if any(entry.nbytes > CHECKED for entry in file.entries if not entry.runs_code):
        threading.Thread(target=_check, args=(file,), name="checks a file", daemon=True).start()
    left = [entry for entry in file.entries if entry.runs_code and not trusted]
    return printable(opened_text(path, file.made, [*values], failed, left))


def read(path: str) -> SessionFile:
    """Return a file to look into. MagicError if it can't be read."""
    try:
        return SessionFile(Path(path).expanduser())
    except OSError as error:
        raise MagicError(f"{path} can't be read: {error.strerror or error}.") from None


def _check(file: SessionFile) -> None:
    """Compare the checksums of what is mapped, which would have taken too long before."""
    try:
        file.check()
    except SessionFileError as error:
        print(printable(f"What was opened can't be trusted: {error}"))
