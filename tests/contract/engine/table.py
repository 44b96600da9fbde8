"""What each engine can and can't, as the table of the docs. Facts: the engines' `can`. No tests.

    python -m tests.contract.engine.table

writes it into the page; that the page has it is a unit test, and that it is true the suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from tests.tables import tables
from workbench.client.client import Client
from workbench.engine.base import Abilities
from workbench.engines.cluster import abilities as cluster
from workbench.engines.dask import abilities as dask

ROOT = Path(__file__).parents[3]

PAGE = ROOT / "docs" / "howto" / "past-one-machine.md"

BEGIN, END = "<!-- table: tests/contract/engine/table.py -->", "<!-- end of table -->"

ROWS = dict(tables(__file__)[""])
"""By ability, in a person's words: table.txt."""

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
