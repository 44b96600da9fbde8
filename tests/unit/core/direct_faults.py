"""Deliberate faults of the core and of the peers around it: what the machines of lines and of
leases are there to find.

Each is a function in place of a method, called with that and the method's own arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.core.lease_peers import Driver
from tests.unit.core.line_peers import Caller, Process, WorkerCaller
from workbench.core import lines
from workbench.core.blocking import Blocking
from workbench.core.leases import LeaseManager
from workbench.core.lines import LineManager
from workbench.core.state import State
from workbench.core.task_manager import TaskManager

Method = Callable[..., Any]
Fault = Callable[[pytest.MonkeyPatch], None]

FAULTS: dict[str, list[Any]] = {"lines": [], "leases": []}
"""By machine."""


def into(patch: pytest.MonkeyPatch, owner: Any, method: str, instead: Method) -> None:
    before = getattr(owner, method)
    patch.setattr(owner, method, lambda *args, **more: instead(before, *args, **more))


def add(machines: str, name: str, owner: Any, method: str, instead: Method) -> None:
    def fault(patch: pytest.MonkeyPatch) -> None:
        into(patch, owner, method, instead)

    for machine in machines.split():
        FAULTS[machine].append(pytest.param(fault, id=name))


def nothing(*_: object) -> None:
    """It isn't done."""


def without(owner: Any, method: str) -> Method:
    """That isn't done meanwhile."""

    def instead(before: Method, *args: Any, **more: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            into(patch, owner, method, nothing)
            return before(*args, **more)

    return instead


BOTH = "lines leases"

for machines, name, owner, method, instead in [
    (BOTH, "nobody_is_asked_to_report", LineManager, "_report", nothing),
    (BOTH, "what_was_dropped_is_never_asked_for", LeaseManager, "_object_wanted", nothing),
    (BOTH, "what_a_dead_worker_was_lent_stays", LineManager, "on_worker_lost",
     without(LineManager, "_all_unlent")),
    ("lines", "a_worker_reads_the_server_first", Process, "read", without(Process, "drain")),
    ("lines", "a_call_is_said_before_it_is_sent", Caller, "say", without(Caller, "push")),
    ("lines", "what_nobody_says_isnt_counted", LineManager, "unheard", nothing),
    ("lines", "results_by_lines_arent_counted", LineManager, "_admits", lambda *_: True),
    ("lines", "a_late_result_is_taken_for_a_wrong_one", LineManager, "is_already_reported",
     lambda *_: False),
    ("lines", "what_began_is_run_again", lines, "_behind",
     lambda _, line, first: set(line.tasks.values())),
    ("lines", "an_end_overtakes_calls", WorkerCaller, "owe",  # whose results it returns
     lambda _, caller, event: caller.peer.post(event)),
    ("lines", "of_a_run_the_first_result_is_counted", LineManager, "_admits",
     lambda before, lines, line, nbytes: before(lines, line, min(nbytes, 40))),
    ("lines", "what_both_ends_tell_is_counted_twice", LineManager, "_admits",
     lambda before, lines, line, nbytes: before(
         lines, line, nbytes * (1 + bool(line.worker.reported))
     )),
    (BOTH, "a_worker_says_nothing_of_what_it_still_reads", LineManager, "returned",
     lambda before, lines, client, event: before(lines, client, replace(event, kept=()))),
    (BOTH, "an_array_that_outlives_its_task_is_never_heard_of", Process, "keeps",
     lambda _, process, *view: process.shows.append(view)),
    ("leases", "nobody_gets_a_lent_worker_back", LeaseManager, "_wanted", nothing),
    ("leases", "what_a_dead_worker_had_is_forgotten", TaskManager, "_lease_closed", nothing),
    ("leases", "a_task_whose_driver_is_gone_lends_no_slot", LineManager, "is_in_use",
     lambda *_: True),
    ("leases", "a_task_that_is_not_known_yet_lends_no_slot", Blocking, "_may_run",
     lambda _, blocking, worker, task: worker.running and worker.running.submit.task == task),
    ("leases", "a_worker_reads_memory_that_it_was_not_sent", LineManager, "lend",
     without(State, "share")),
    ("leases", "a_driver_gives_what_it_was_not_lent", Driver, "lease_for",
     lambda before, driver, function, deps=(): before(driver, function)),
]:  # fmt: skip
    add(machines, name, owner, method, instead)
