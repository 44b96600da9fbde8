"""Answers about a notebook, for programs: documents as of `report.json`. No object of a person's
makes them raise an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from IPython.core.getipython import get_ipython

from workbench.expressions import SIZED, error_line, type_of
from workbench.heap import survey
from workbench.ipython.notebook import Notebook
from workbench.report.json import Document, JsonAnswer, document
from workbench.report.previews import in_short

BUDGET, LEAST = 8000, 60  # bytes of JSON about all variables; that one takes at least
MOST_LOOKED_AT = 100_000  # objects, for the sizes of variables: a fraction of a second

LIBRARIES = frozenset(("numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "xarray"))
"""Packages whose classes are asked for a shape; others may run anything."""

MAGICS = {name: name for name in ("why", "inspect", "cost", "objects")}
MAGICS |= {name: f"workbench {name}" for name in ("memory", "jobs")}
"""By question, the magic that answers it."""

ODD = (Exception, SystemExit)  # what methods of a person's classes may raise


def state(
    notebook: Notebook,
    names: Sequence[str] | None = None,
    budget: int = BUDGET,
    values: bool = False,
    since: int | None = None,
) -> Document:
    """Return the notebook's variables, the last changed ones first, or those of these ``names``: as
    many as ``budget`` bytes of JSON have room for.

    ``values``: each with a short text, for which its class's ``__repr__`` is called. ``since``: the
    number of a cell; of each variable it is told whether it has changed since that ended.
    """
    line, made, there = notebook.keeping.line, _made(notebook), notebook.variables
    ages = {each.cell: age for age, each in reversed([*enumerate(line)])}
    age = {name: ages.get(cell, len(ages)) for name, cell in made.items()}
    if names is None:
        names = sorted(notebook.own_names(), key=lambda name: age.get(name, len(ages)))
    wanted = [name for name in dict.fromkeys(names) if name in there]
    absent = [name for name in names if name not in there]
    told = document("state", kept=bool(line), variables=[], missing=absent, left_out=len(wanted))
    left = budget - len(json.dumps(told))
    new = {name for name in made if since in ages and age[name] < ages[since]}
    old = made.keys() - new - line[0].not_compared.keys() if since in ages else ()
    for each in _described(notebook, wanted[: budget // LEAST], values):
        if since is not None:
            each["changed"] = each["name"] in new or (False if each["name"] in old else None)
        left -= len(json.dumps(each)) + 2
        if left < 0:
            break
        told["variables"].append(each)
        told["left_out"] -= 1
    return told


def changed(notebook: Notebook) -> Document:
    """Return what the last finished cell changed; that isn't known if no variables are ``kept``."""
    line = notebook.keeping.line[:1]
    names = [name for each in line for name in each.changed if name in notebook.variables]
    return document(
        "changed",
        kept=bool(line),
        cell=line[0].cell if line else None,
        variables=_described(notebook, names),
        deleted=[name for each in line for name in each.deleted],
        not_compared=[name for each in line for name in each.not_compared],
    )


def _made(notebook: Notebook) -> dict[str, int]:
    """Return the cell that made or last changed each variable, as far as they are kept."""
    line = notebook.keeping.line
    made = {name: each.cell for each in reversed(line) for name in each.changed}
    return {name: lost.cell for each in line[:1] for name, lost in each.lost.items()} | made


def _described(notebook: Notebook, names: Iterable[str], values: bool = False) -> list[Document]:
    """Return a record for each variable."""
    made, there = _made(notebook), {name: notebook.variables[name] for name in names}
    types = {name: _tried(type_of, value) for name, value in there.items()}
    sizes = _tried(_sizes, {name: there[name] for name, known in types.items() if known}) or {}
    return [
        {
            "name": name,
            "type": types[name],
            "shape": _tried(_shape, value),
            "bytes": sizes.get(name),
            "cell": made.get(name),
            **({"value": _tried(in_short, value)} if values else {}),
        }
        for name, value in there.items()
    ]


def _tried(function: Callable[[Any], Any], value: Any) -> Any:
    """Return what a function returns, None if a person's class makes it raise."""
    with suppress(*ODD):
        return function(value)
    return None


def _shape(value: Any) -> list[int] | None:
    """Return the lengths of a value along its axes, without running a person's code."""
    if type(value) in SIZED:
        return [len(value)]
    base = next((base for base in type(value).__mro__ if "shape" in vars(base)), object)
    if base.__module__.partition(".")[0] not in LIBRARIES:
        return None
    return [int(length) for length in vars(base)["shape"].__get__(value)]


def _sizes(values: dict[str, Any]) -> dict[str, int]:
    """Return about how many bytes each has; what two share counts for the first."""
    begins = [survey.HeapRoot("variables", name, value) for name, value in values.items()]
    found = survey.survey(begins, most=MOST_LOOKED_AT).holders
    return {root.name: each.total for each in found for root in each.roots}


def explain(notebook: Notebook, what: str, name: str = "") -> Document:
    """Return what one of the `MAGICS` answers, with a ``name`` behind it; or document ``error``."""
    try:
        magic, _, action = MAGICS[what].partition(" ")
        answer: JsonAnswer = notebook.shell.run_line_magic(magic, f"{action} {name} --json")
        return answer.document
    except ODD as error:
        return document("error", text=error_line(error))


def ask(question: str, arguments: dict[str, Any]) -> str:
    """Return one of these answers on this kernel's notebook, as text: for a program that has the
    kernel evaluate it."""
    shell: Any = get_ipython()
    answers: dict[str, Any] = {"state": state, "changed": changed, "explain": explain}
    notebook = shell.magics_manager.registry["KeepingMagics"]._notebook
    return json.dumps(answers[question](notebook, **arguments))
