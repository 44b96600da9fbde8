"""Errors travel: all can be pickled, and a task's is an instance of what the task raised."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import cloudpickle
import pytest

from workbench import errors
from workbench.errors import TaskError, WorkbenchError, task_error
from workbench.host.tracebacks import MOST_FRAMES, describe_error

OURS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, WorkbenchError) and kind is not TaskError
]


@pytest.mark.parametrize("kind", OURS)
def test_ours_survive_pickling_and_show_their_notes(kind: type[WorkbenchError]) -> None:
    error = kind("What happened. What to do.")
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "What happened. What to do."
    assert again.__notes__ == ["a note"]
    assert again._render_traceback_() == [
        f"{kind.__name__}: What happened. What to do.",
        "a note",
    ]


class NeedsArgumentsError(Exception):
    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"{code} at {where}")


class SlottedError(ValueError):
    __slots__ = ("extra",)


class StrictError(Exception):
    def __new__(cls, one: int) -> StrictError:
        return super().__new__(cls, one)


class OddStringError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(make: Any) -> BaseException:
    try:
        raise make()
    except BaseException as error:
        return error


RAISED: list[tuple[Any, type[BaseException]]] = [
    (lambda: ValueError("bad"), ValueError),
    (lambda: KeyError("k"), LookupError),
    (lambda: OSError(2, "no such file", "x"), FileNotFoundError),
    (lambda: UnicodeDecodeError("utf8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
    (lambda: NeedsArgumentsError(3, where="here"), NeedsArgumentsError),
    (lambda: SlottedError("s"), SlottedError),
    (lambda: StrictError(1), StrictError),
    (lambda: OddStringError(), OddStringError),
    (lambda: ExceptionGroup("several", [ValueError(1)]), TaskError),
    (lambda: StopIteration(3), TaskError),
    (lambda: StopAsyncIteration(3), TaskError),
    (lambda: SystemExit(1), TaskError),
    (lambda: KeyboardInterrupt(), TaskError),
    (lambda: errors.StoreFullError("full"), MemoryError),
    (type("Local", (Exception,), {}), TaskError),  # nobody else can import it
]


@pytest.mark.parametrize(("make", "kind"), RAISED)
def test_a_task_error_is_also_what_was_raised(make: Any, kind: type[BaseException]) -> None:
    described = describe_error(raised(make), "the task")
    again = pickle.loads(cloudpickle.dumps(described))
    for error in (described, again):
        assert isinstance(error, TaskError)
        assert isinstance(error, kind)
        assert not isinstance(error, KeyboardInterrupt | SystemExit)
        assert not isinstance(error, StopIteration | StopAsyncIteration)
        assert error.task == "the task"
        assert error.frames[-1][2] == "raised"
        assert type(raised(make)).__name__ in error.cause_text
        assert "raise make()" in str(error)


def test_notes_and_causes_travel_as_text() -> None:
    def fails() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            failure = ValueError("no such column")
            failure.add_note("columns are: a, b")
            raise failure from error

    error = describe_error(raised(fails), "task")
    assert "columns are: a, b" in str(error)
    assert "Caused by: KeyError: 'missing'" in str(error)


def test_a_task_that_got_another_tasks_failure_names_both() -> None:
    inner = describe_error(raised(lambda: ValueError("first")), "inner")
    outer = describe_error(inner, "outer")
    assert isinstance(outer, ValueError)
    assert "It came from task 'inner'" in str(outer)
    assert outer.cause_text == "ValueError: first"


def test_a_deep_recursion_is_cut_in_the_middle() -> None:
    def down(n: int) -> None:
        if n == 0:
            raise ValueError("at the bottom")
        down(n - 1)

    try:
        down(500)
    except ValueError as error:
        frames = describe_error(error, "task").frames
    assert len(frames) == MOST_FRAMES + 1
    assert "frames left out" in frames[MOST_FRAMES // 2][2]


def test_a_type_that_refuses_is_still_a_task_error() -> None:
    assert type(task_error(bool, "task", "text")) is TaskError  # type: ignore[arg-type]
