"""Sentences on where an undefined name could have come from; for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

DID = {"import": "imported", "definition": "defined", "variable": "assigned"}
"""What a cell did to give a name its value, by the kind from `ipython.cells`."""


def undefined_text(names: Sequence[str], where: str, hint: str, outcome: str) -> str:
    """Word that names are undefined; ``outcome`` is what therefore didn't happen, or empty."""
    listed = " and ".join(map(repr, names))
    verb = "is" if len(names) == 1 else "are"
    return f"{listed} {verb} not defined in {where}.{hint} {outcome}".rstrip()


def stayed_text(name: str, job: str, kind: str, actor: str, asked: bool) -> str:
    """Word that a remote cell's name didn't come back: where it is, and what to do.

    ``actor``: the namespace where it is; ``asked``: True if a person named what comes back.
    """
    cell = f"remote {job}" if job.startswith("cell ") else f"job {job!r}"
    if actor:
        return (
            f"`{name}` was {DID[kind]} in {cell} and is in its namespace: a cell with "
            f"`--actor {actor}` has it."
        )
    stayed = f"`{name}` was {DID[kind]} in {cell} and stayed there"
    if kind == "import":
        return f"{stayed}: import it in the notebook too, or run such cells with `--actor`."
    if kind == "definition":
        return (
            f"{stayed}: define it in the notebook, have it brought back with `--out {name}`, "
            "or run such cells with `--actor`."
        )
    if asked:
        return f"{stayed}, because `--out` names others only: add it there."
    why = ", as names that begin with _ do" if name.startswith("_") else ""
    return f"{stayed}{why}: `--out {name}` brings it back."


def unseen_text(name: str) -> str:
    return (
        f"The notebook has a variable {name!r}, but it wasn't sent: nothing in the cell's "
        f"code reads it (code in a string doesn't count). `%%remote -i {name}` sends it."
    )


def not_given_text(name: str) -> str:
    return f"The notebook has a variable {name!r}: give it to the function as an argument."


def nowhere_text(name: str, hint: str) -> str:
    return f"Neither the notebook nor the store has anything of the name {name!r}.{hint}"


def module_text(name: str, where: str) -> str:
    return (
        f"The notebook finds {name!r} at {where}. Was `sys.path` changed there? Remote cells get "
        "its changes, other tasks the `sys.path` with which the session began."
    )


def not_here_text(kind: str, task: str) -> str:
    """Word that there is nothing to debug in this process: the error was raised in a task."""
    where = f" in {task}" if task else ""
    again = (
        "run the cell again without its first line, `%%remote`,"
        if task.startswith("cell ")
        else "call the function here, without `.remote`,"
    )
    return (
        f"There is nothing here to step through: {kind} was raised on a worker{where}, where its "
        f"variables are gone by now. To debug it, {again} and then `%debug`. `%tb` shows the "
        "traceback again."
    )
