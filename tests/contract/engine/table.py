"""What each engine can and can't, as the table of the docs. Facts: the engines' `can`. No tests.

    python -m tests.contract.engine.table

writes it into the page; that the page has it is a unit test, and that it is true the suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from workbench.client.client import Client
from workbench.engine.base import Abilities
from workbench.engines.cluster import abilities as cluster
from workbench.engines.dask import abilities as dask

ROOT = Path(__file__).parents[3]

PAGE = ROOT / "docs" / "howto" / "past-one-machine.md"

BEGIN, END = "<!-- table: tests/contract/engine/table.py -->", "<!-- end of table -->"

ROWS = {
    "get": "bring objects to the notebook, say what they cost",
    "free": "`%free`: delete an object though something refers to it",
    "pin": "`%pin`: keep an object, whoever lets go of it",
    "resident": "keep a pinned object in memory",
    "spill": "move an object to disk when asked",
    "why": "`%why`: say what keeps an object",
    "holders": "`%why`: name other processes that have it",
    "interrupt": "stop what runs",
    "copy_on_write": "`get(copy_on_write=True)`",
    "streams": 'streams: `num_returns="streaming"`',
    "restarts": "make an actor again after a crash: `max_restarts`",
    "concurrency": "an actor's calls side by side: `max_concurrency`, async methods",
    "timeout": "a time limit for tasks: `timeout`, `--timeout`",
    "edited": "take up edited modules",
    "keep": "keep a session after its last notebook: `--keep`",
    "recursive": "stop a task without what it has submitted: `cancel(recursive=False)`",
    "serializers": "use a custom serializer in all processes",
    "huge_pages": "ask for huge pages",
    "max_calls": "end a worker after so many calls of a function: `max_calls`",
    "needs": "count what a task takes: `num_cpus`, `memory`",
    "elsewhere": "make an actor again whatever ended it, a node's death too",
    "cache": "find a cell's result on disk: `--cache`",
    "once": "run a task with `max_retries=0` once, whatever dies",
}
"""By ability, in a person's words."""

ALL = "values, names, tasks, errors, retries, output, stop, actors, background cells, lists"
"""What each of them can: the suite's other tests."""

TITLES = {"local": "one machine", "ray": "Ray", "dask": "Dask"}


def abilities() -> dict[str, Abilities]:
    """Of each engine that runs code."""
    return {"local": Client.can, "ray": cluster.CAN, "dask": dask.CAN}


def of(engines: Mapping[str, Abilities]) -> str:
    """The table, and below it why something can't be, and what to do instead."""
    assert set(ROWS) == {each.name for each in fields(Abilities)}
    titles = [TITLES[name] for name in engines]
    lines = [
        f"| what | {' | '.join(titles)} |",
        f"| --- {'| --- ' * len(titles)}|",
        f"| {ALL} {'| yes ' * len(titles)}|",
    ]
    for ability, words in ROWS.items():
        cells = ["no" if getattr(can, ability) else "yes" for can in engines.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    for name, can in engines.items():
        lacking = can.lacking()
        if lacking:
            lines += ["", f"What {TITLES[name]} can't:", ""]
        lines += [f"- {lack}" for lack in lacking.values()]
    return "\n".join(lines)


def of_engines() -> str:
    """Of all there are."""
    return of(abilities())


def page_with(table: str, page: str) -> str:
    """The page with this table in the place of its own."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(of_engines(), PAGE.read_text()))
