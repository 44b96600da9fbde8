"""What a session says of itself in a line, and its background cells in a table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace

from workbench.core.snapshot import (
    ACTOR_PREFIX,
    ActorRecord,
    ClientRecord,
    JobRecord,
    ObjectRecord,
    Snapshot,
)
from workbench.engine.base import Abilities, SessionFacts
from workbench.engine.queries import Capacity, Summary
from workbench.errors import MagicError
from workbench.ipython.meant import job_meant
from workbench.report.text import JobTable, started_line


def job(
    number: int, name: str, state: str, lines: int = 0, displays: int = 0, kept: bool = False,
    binds: tuple[str, ...] = (),
) -> JobRecord:  # fmt: skip
    return JobRecord(number, number, name, state, 1.5 * number, lines, displays, binds, kept)


JOBS = (
    job(1, "cell 7", "running", 1, kept=True),
    job(2, "cell 5", "done", 3, kept=True, binds=("df", "model")),
    job(3, "cell 9", "failed", 1, 2, kept=True),
    job(4, "cell 2", "done", 5),
    job(5, "cell 7", "stopped"),
    job(6, "cell 3", "queued"),
)


def snapshot(names: list[str], jobs: tuple[JobRecord, ...] = (), actors: str = "") -> Snapshot:
    objects = tuple(
        ObjectRecord(n, "ready", (name,), 8, "inline", None, (), (), 0, 0)
        for n, name in enumerate(names)
    )
    return Snapshot(
        "lab~1a2b", 10**9, 0, 0, 0, 0, objects, (), (ClientRecord(0, 0, "driver", ""),), jobs=jobs,
        names=len(names), actors=tuple(
            ActorRecord(n, "Counter", (f"{ACTOR_PREFIX}{name}",), "alive", n, 0, 0)
            for n, name in enumerate(actors)
        ),
    )  # fmt: skip


@dataclass
class Engine:
    """As much of an engine as the line needs."""

    there: Snapshot | None
    session: str = "lab~1a2b"
    workers: int = 2
    can: Abilities = field(default_factory=Abilities)

    @property
    def facts(self) -> SessionFacts:
        return SessionFacts("local", joined=self.there is not None)

    def ask(self, query: Capacity | Summary) -> Any:
        assert self.there is not None or isinstance(query, Capacity)
        return 10**9 if isinstance(query, Capacity) else self.there


HEAD = "Workbench joined session lab: 2 workers, store of 1 GB."


@pytest.mark.parametrize(
    ("there", "line"),
    [
        (None, HEAD.replace("joined", "started")),
        (snapshot([]), HEAD),
        (snapshot(["df"], actors="ba"), f"{HEAD} It has df, actor a, actor b."),
        (
            snapshot(["model", "df"], JOBS),
            f"{HEAD} It has df, model. Background: cell 7 running, cell 5 done (3 lines of "
            "output), cell 9 failed (1 line and 2 displays of output), cell 3 queued; "
            "%workbench jobs shows more.",
        ),
    ],
)
def test_the_line_says_what_is_there_and_nothing_else(there: Snapshot | None, line: str) -> None:
    assert started_line(cast(Any, Engine(there))) == line


def test_all_cells_have_a_row() -> None:
    head, *rows = str(JobTable(JOBS)).splitlines()
    assert head.split() == ["job", "name", "state", "where", "time", "done", "output", "assigns"]
    assert [row.split()[0] for row in rows] == [f"#{n}" for n in range(1, 7)]
    told = ["#2", "cell 5", "done, not fetched", "3 s", "3 lines", "df, model"]
    assert re.split(" {2,}", rows[1]) == told
    assert len({row.index("cell") for row in rows}) == 1
    cut, gone = replace(JOBS[3], shown_in_part=True), replace(JOBS[3], dropped=True)
    assert "at least 5 lines" in str(JobTable([cut]))
    assert "done, results gone" in str(JobTable([gone]))


@pytest.mark.parametrize(
    ("wanted", "number"), [("cell 5", 2), ("5", 2), ("#5", 5), ("7", 1), ("3", 6)]
)
def test_which_cell_is_meant(wanted: str, number: int) -> None:
    assert job_meant(JOBS, wanted).number == number


def test_of_several_of_a_name_the_one_to_collect_else_the_last() -> None:
    jobs = [job(n, "cell 1", state) for n, state in enumerate(("done", "running", "done"))]
    assert job_meant(jobs, "1").number == 1
    assert job_meant([jobs[0], jobs[2]], "1").number == 2
    assert job_meant([*jobs, job(9, "cell 1", "done", kept=True)], "1").number == 9
    with pytest.raises(MagicError, match=r"no background cell 'cell 4'\. .*There are: cell 7, c"):
        job_meant(JOBS, "cell 4")
