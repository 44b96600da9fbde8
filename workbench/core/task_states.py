"""The states of a task, and which can follow which. A task is in one at a time."""

from __future__ import annotations

from enum import IntEnum


class TaskState(IntEnum):
    """State of a task. An `IntEnum`, because its members hash fastest."""

    WAITING = 0  # for its dependencies, for an actor's earlier calls, or for its executor's others
    QUEUED = 1  # may be sent: in the scheduler's queue, in its actor's, or an actor's creation
    SENT = 2  # to a worker, which runs it or will
    STOPPING = 3  # sent, and the worker was told to stop it
    LOST = 4  # its worker died; the same batch of events retries or fails it
    DONE = 5  # finished, failed or dropped: no longer in the scheduler


WAITING, QUEUED, SENT, STOPPING, LOST, DONE = TaskState
"""Module-level names: looking up a member of the class costs more than comparing it."""

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    WAITING: frozenset({QUEUED, DONE}),
    QUEUED: frozenset({WAITING, SENT, DONE}),  # waiting again: calls that went by a line come first
    SENT: frozenset({QUEUED, STOPPING, LOST, DONE}),  # queued again: given back, or retried
    STOPPING: frozenset({LOST, DONE}),
    LOST: frozenset({QUEUED, DONE}),
    DONE: frozenset({QUEUED}),  # an actor's creation alone: the actor is restarted
}
