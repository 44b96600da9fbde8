"""Deliberate faults of the core and of lines' ends: what `test_line_machine` is there to find."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tests.unit.core import lease_faults as lent
from tests.unit.core.line_peers import Caller, Process, Wire, WorkerCaller
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core import lines
from workbench.core.actor_manager import ActorManager
from workbench.core.lines import LineManager
from workbench.core.state import State
from workbench.core.tasks import Actor, Task


def calls_overtake_those_of_a_dead_line(patch: pytest.MonkeyPatch) -> None:
    """The barrier after a worker's end: what went by its line comes first."""

    def advance(actor: Actor, owner: int) -> None:
        queue = actor.waiting.get(owner, deque())
        while queue and not queue[0].pending_dependencies:
            actor._enqueue(queue.popleft())
        if not queue:
            actor.waiting.pop(owner, None)

    patch.setattr(Actor, "_advance", advance)


def a_grant_counts_that_is_out_of_date(patch: pytest.MonkeyPatch) -> None:
    def granted(caller: Caller, line: int, last: int) -> None:
        for wire in caller.wires.values():
            wire.is_granted |= wire.number == line

    patch.setattr(Caller, "granted", granted)


def a_line_is_granted_beside_other_calls(patch: pytest.MonkeyPatch) -> None:
    """The barrier between both ways."""
    forget = Actor.forget

    def forgets(actor: Actor, task: Task) -> bool:
        forget(actor, task)
        return True

    def clear(lines: LineManager, actor: Actor, caller: int) -> None:
        line = actor.lines.get(caller)
        if line is not None and line.is_open and not line.has_ended:
            lines._state.send(caller, do.Grant(line.number, actor.last.get(caller, 0)))
        else:
            before(lines, actor, caller)

    before = LineManager._clear
    patch.setattr(Actor, "forget", forgets)
    patch.setattr(LineManager, "_clear", clear)


def a_worker_reads_the_server_first(patch: pytest.MonkeyPatch) -> None:
    read, drain = Process.read, Process.drain

    def reads(process: Process) -> None:
        patch.setattr(Process, "drain", lambda _: None)
        read(process)
        patch.setattr(Process, "drain", drain)

    patch.setattr(Process, "read", reads)


def a_hold_reported_late_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The caller's, of the result of a call that it says late."""
    came = LineManager.came

    def comes(lines: LineManager, task: Task) -> None:
        lines._state.catalog.get(task.submit.task).holds = {}  # type: ignore[union-attr]
        came(lines, task)

    patch.setattr(LineManager, "came", comes)


def nobody_is_asked_to_report(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "_report", lambda *_: None)


def a_late_result_is_taken_for_a_wrong_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "is_late", lambda *_: False)


def what_both_ends_tell_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    is_late = LineManager.is_late

    def counts(lines: LineManager, worker: Any, done: ev.Done) -> bool:
        late = is_late(lines, worker, done)
        if late:
            lines._state.budget.admits(worker.client, done.values)
        return late

    patch.setattr(LineManager, "is_late", counts)


def what_nobody_says_isnt_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "unheard", lambda *_: None)


def results_by_lines_arent_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "_admits", lambda *_: True)


def a_caller_that_dropped_a_result_hears_no_more_of_it(patch: pytest.MonkeyPatch) -> None:
    """So it takes its call for unanswered."""
    send = State.send

    def sends(state: State, client: int, message: Any) -> None:
        if type(message) is not do.Ready or not message.value.header.startswith(b"!unknown"):
            send(state, client, message)

    patch.setattr(State, "send", sends)


def a_killed_callers_calls_are_lost(patch: pytest.MonkeyPatch) -> None:
    detach = LineManager._detach

    def detaches(lines: LineManager, line: Any) -> None:
        line.worker.reported.update(line.tasks)
        detach(lines, line)

    patch.setattr(LineManager, "_detach", detaches)


def an_end_overtakes_calls(patch: pytest.MonkeyPatch) -> None:
    """Those that a worker made by lines, and whose results it returns."""
    patch.setattr(WorkerCaller, "owe", lambda caller, event: caller.peer.post(event))


def a_run_has_no_holder(patch: pytest.MonkeyPatch) -> None:
    """Of what a run of calls returned, as if its caller had dropped it."""
    ran = LineManager.ran

    def runs(lines: LineManager, client: Any, event: ev.SettledCalls) -> Any:
        line = ran(lines, client, event)
        for task in event.tasks[1:]:
            lines._state.catalog.drop(lines._state.catalog[task], client.number)
        return line

    patch.setattr(LineManager, "ran", runs)


def of_a_run_the_first_result_is_counted(patch: pytest.MonkeyPatch) -> None:
    admits = LineManager._admits
    ran = LineManager.ran

    def runs(lines: LineManager, client: Any, event: ev.SettledCalls) -> Any:
        first = event.values[0]
        nbytes = 0 if first.failed or len(first.header) <= 1 else len(first.header)
        patch.setattr(LineManager, "_admits", lambda self, line, _: admits(self, line, nbytes))
        line = ran(lines, client, event)
        patch.setattr(LineManager, "_admits", admits)
        return line

    patch.setattr(LineManager, "ran", runs)


def calls_that_could_not_be_sent_are_overtaken(patch: pytest.MonkeyPatch) -> None:
    """They go through the server, and those after them by the line."""
    withdraw = Caller.withdraw

    def withdraws(caller: Caller, wire: Any, records: list[Any]) -> None:
        withdraw(caller, wire, records)
        wire.is_granted = not wire.has_ended

    patch.setattr(Caller, "withdraw", withdraws)


def a_call_is_said_before_it_is_sent(patch: pytest.MonkeyPatch) -> None:
    """And then it can't be sent."""
    say, push = Caller.say, Caller.push

    def says(caller: Caller) -> None:
        patch.setattr(Caller, "push", lambda *_: None)
        say(caller)
        patch.setattr(Caller, "push", push)

    patch.setattr(Caller, "say", says)


def what_began_is_run_again(patch: pytest.MonkeyPatch) -> None:
    """Nothing counts as begun."""
    patch.setattr(lines, "_behind", lambda line, _: set(line.tasks.values()))


def an_object_goes_by_a_line_that_it_is_not_lent_to(patch: pytest.MonkeyPatch) -> None:
    granted = Caller.granted

    def grants(caller: Caller, line: int, last: int) -> None:
        granted(caller, line, last)
        wire = caller.all_wires[line]
        wire.objects = (*wire.objects, *(id for id, n in caller.peer.holds.items() if n))

    patch.setattr(Caller, "granted", grants)


def a_line_is_returned_while_calls_by_it_run(patch: pytest.MonkeyPatch) -> None:
    def give_back(process: Process, wire: Wire) -> None:
        if wire in process.closing - process.returned:
            process.returned.add(wire)
            process.caller.post(ev.Returned(wire.number))

    patch.setattr(Process, "give_back", give_back)


def a_caller_that_is_gone_has_its_objects_freed(patch: pytest.MonkeyPatch) -> None:
    """Though its calls run."""
    detach = LineManager._detach

    def detaches(lines: LineManager, line: Any) -> None:
        lines._unlend(line)
        detach(lines, line)

    patch.setattr(LineManager, "_detach", detaches)


def what_was_kept_silent_goes_with_the_line(patch: pytest.MonkeyPatch) -> None:
    """Of a worker that lives: the bytes of results that nobody has heard of."""
    read = Caller.read

    def reads(caller: Caller) -> None:
        message = caller.peer.inbox[0]
        if isinstance(message, do.LineEnded):
            for wire in caller.wires.values():
                wire.unheard = 0
        read(caller)

    patch.setattr(Caller, "read", reads)


def an_argument_that_is_gone_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    """With a call that was lost with its worker, and was said when that had been freed."""
    restarted = ActorManager._restarted

    def restarts(
        actors: ActorManager, actor: Actor, tasks: list[Task], *rest: Any, **more: Any
    ) -> None:
        for task in tasks:
            task.broken = None
        restarted(actors, actor, tasks, *rest, **more)

    patch.setattr(ActorManager, "_restarted", restarts)


FAULTS = [
    a_run_has_no_holder, of_a_run_the_first_result_is_counted,
    calls_that_could_not_be_sent_are_overtaken, a_call_is_said_before_it_is_sent,
    calls_overtake_those_of_a_dead_line, a_grant_counts_that_is_out_of_date,
    a_line_is_granted_beside_other_calls, a_worker_reads_the_server_first,
    a_hold_reported_late_is_forgotten, nobody_is_asked_to_report,
    a_late_result_is_taken_for_a_wrong_one, what_both_ends_tell_is_counted_twice,
    what_nobody_says_isnt_counted, results_by_lines_arent_counted,
    a_caller_that_dropped_a_result_hears_no_more_of_it, a_killed_callers_calls_are_lost,
    an_end_overtakes_calls, what_began_is_run_again,
    an_object_goes_by_a_line_that_it_is_not_lent_to,
    a_line_is_returned_while_calls_by_it_run, a_caller_that_is_gone_has_its_objects_freed,
    what_was_kept_silent_goes_with_the_line, an_argument_that_is_gone_is_sent_again,
    lent.what_is_lent_goes_when_it_is_dropped, lent.what_is_lent_moves,
    lent.what_is_lent_is_free_as_soon_as_it_is_asked_for,
    lent.a_worker_says_nothing_of_what_it_still_reads, lent.what_was_dropped_is_never_asked_for,
    lent.what_a_dead_worker_was_lent_stays, lent.an_array_that_outlives_its_task_is_never_heard_of,
]  # fmt: skip
