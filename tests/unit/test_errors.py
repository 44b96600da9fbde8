"""Errors travel: a task's is an instance of what it raised. Notes that Python's own errors get."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import dataclasses
import email.message
import errno
import gc
import inspect
import io
import json
import pickle
import re
import subprocess
import tarfile
import textwrap
import threading
import traceback
import urllib.error
import warnings
import weakref
from typing import Any, cast

import cloudpickle
import pytest

from workbench import errors
from workbench.error_notes.readonly import _written_at, arrays_in, named_at
from workbench.errors import TaskError, WorkbenchError, exception_state, task_error
from workbench.host.tracebacks import MOST_FRAMES, describe_error
from workbench.ref import ObjectRef

OURS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, WorkbenchError) and kind is not TaskError
]


def test_ours_survive_pickling_and_show_their_notes() -> None:
    for kind in OURS:
        error = kind("What happened. What to do.")
        error.add_note("a note")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == "What happened. What to do."
        assert again.__notes__ == ["a note"]
        assert shown(again) == f"{kind.__name__}: What happened. What to do.\na note"


class NeedsArgumentsError(Exception):
    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"{code} at {where}")


class OddStringError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(make: Any) -> BaseException:
    try:
        raise make()
    except BaseException as error:
        return error


def shown(error: WorkbenchError | TaskError) -> str:
    """By IPython."""
    return "\n".join(error._render_traceback_())


def travelled(error: BaseException) -> TaskError:
    """As whoever gets it sees it, and passes it on."""
    sent = pickle.loads(cloudpickle.dumps(describe_error(error, "the task")))
    found = pickle.loads(cloudpickle.dumps(sent))
    assert isinstance(found, TaskError)
    return found


class AnswerError(Exception):
    """One of a person's own, with all that can be odd about it."""

    def __init__(self, *, status: int) -> None:
        super().__init__()
        self.status = status

    def __str__(self) -> str:
        return f"it answered {self.status}"

    @property
    def task(self) -> str:
        return "its own"


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    code: int
    frames: str


class AbortError(BaseException):
    pass


class SlotsError(OSError):
    __slots__ = ("__hidden", "shown")

    def __init__(self) -> None:
        super().__init__(errno.EPERM, "no")
        self.shown, self.__hidden = 1, 2


class OwnGroup(ExceptionGroup[Exception]):
    def __new__(cls, text: str, several: list[Exception], more: int) -> OwnGroup:
        made = super().__new__(cls, text, several)
        made.more = more
        return made

    more: int


SAMPLES: list[BaseException] = [
    OSError(2, "no", "from", None, "to"),
    BlockingIOError(11, "later", 5),
    ModuleNotFoundError("no", name="numpyy", path="/p"),
    AttributeError("no", name="x", obj=[1]),
    TabError("bad", ("f.py", 3, 7, "x = ", 3, 8)),
    UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "bad"),
    UnicodeTranslateError("ä", 0, 1, "bad"),
    ExceptionGroup("two", [ValueError(1), ExceptionGroup("in", [KeyError("k")])]),
    BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError(1)]),
    subprocess.CalledProcessError(3, ["ls"], b"out", b"err"),
    json.JSONDecodeError("bad", "[1,", 3),
    urllib.error.HTTPError("http://x", 404, "no", email.message.Message(), io.BytesIO(b"page")),
    asyncio.CancelledError("x"),
    re.error("bad", "(", 0),
    tarfile.AbsolutePathError(tarfile.TarInfo("/x")),
    AnswerError(status=404),
    NeedsArgumentsError(3, where="here"),
    type("Local", (LookupError,), {})(),
    FrozenError(5, "mine"),
    AbortError("stop"),
    SlotsError(),
    OwnGroup("two", [ValueError(1)], 7),
    errors.StoreFullError("full"),
]


def builtin_exceptions() -> list[BaseException]:
    """One of each builtin type, but those that want particular arguments: they are above."""
    kinds = {kind for kind in vars(builtins).values() if isinstance(kind, type)}
    return [
        kind("some", 2)
        for kind in sorted(kinds, key=repr)
        if issubclass(kind, BaseException)
        and not issubclass(kind, UnicodeError | BaseExceptionGroup | SyntaxError)
    ]


def public(error: BaseException, names: list[str]) -> dict[str, str]:
    """Attributes that a person may look at: how they show themselves, wherever they lie."""
    found = {}
    for name in names:
        if name[:1] != "_":
            with contextlib.suppress(AttributeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = getattr(error, name)
                found[name] = "" if callable(value) else re.sub("0x[0-9a-f]+", "", repr(value))
    return found


@pytest.mark.parametrize(
    "error", [*SAMPLES, *builtin_exceptions()], ids=lambda error: type(error).__qualname__
)
def test_it_travels_whole(error: BaseException) -> None:
    """`except E as e` sees what it would see had the task run here."""
    kind = type(error)
    attributes = exception_state.attributes_of(error)
    attributes["mine"] = {"a": 1}
    exception_state.add_note(error, "a note")
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise error from first
    except BaseException as caught:
        found = travelled(caught)
    failure = errors.failure_of(found)
    is_plain = issubclass(kind, SystemExit | KeyboardInterrupt | GeneratorExit)
    with pytest.raises(TaskError if is_plain else kind) as e:
        raise found
    for each in (failure.cause if is_plain else e.value, failure.cause):
        assert isinstance(each, kind)
        assert repr(each.args) == repr(error.args)
        plain = str(each).replace(f"TaskError({kind.__name__})", kind.__name__)
        assert plain == str(error)
        assert public(each, ["mine"]) == {"mine": "{'a': 1}"}
        assert public(each, dir(error)) == public(error, dir(error))
        if kind is not BaseExceptionGroup:
            assert set(exception_state.attributes_of(each)) == set(attributes)
        assert exception_state.notes_of(each) == ["a note"]
        assert each.__suppress_context__
        assert repr(each.__cause__) == "KeyError('first')"
        *_, line = traceback.extract_tb(each.__cause__.__traceback__)
        assert line.line == 'raise KeyError("first")'
    assert type(failure.cause) is kind
    assert failure.task == "the task"
    assert kind.__qualname__ in failure.text
    assert kind.__name__ in shown(found)


def test_a_group_is_split_by_except_star() -> None:
    group = ExceptionGroup(
        "two", [ValueError(1), ExceptionGroup("in", [KeyError("k"), OSError(2, "no")])]
    )
    seen: list[Any] = []
    try:
        raise travelled(raised(lambda: group))
    except* KeyError as part:
        seen.append(part)
    except* (ValueError, OSError) as part:
        seen.append(part)
    keys, others = seen
    assert keys.exceptions[0].exceptions[0].args == ("k",)
    assert others.exceptions[1].exceptions[0].strerror == "no"
    assert "1 of 2: ValueError: 1" in shown(travelled(raised(lambda: group)))


class Unwilling:
    def __reduce__(self) -> Any:
        raise TypeError("not me")


def test_what_cannot_travel_is_left_out_piece_by_piece_and_named() -> None:
    made: Any = OSError(2, "no", "f.txt")
    made.lock, made.large, made.kept = threading.Lock(), b"x" * 2_000_000, [1]
    made.__cause__ = ValueError("first", Unwilling())
    error: Any = travelled(raised(lambda: made))
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.filename, error.kept) == (2, "f.txt", [1])
    assert not hasattr(error, "lock")
    assert error.__cause__.args[0] == "first"
    assert "Unwilling object" in error.__cause__.args[1]
    [note] = error.__notes__
    for part in ("`e.lock` (_thread.lock)", "`e.large` (bytes)", "`e.__cause__.args[1]`"):
        assert part in note
    assert shown(error).count(note.split(":")[0]) == 1


def test_a_class_that_cannot_travel_is_its_base() -> None:
    class LocalError(LookupError):  # it goes by value, and so does its lock
        lock = threading.Lock()

    made: Any = LocalError("mine")
    made.position = 3
    error: Any = travelled(raised(lambda: made))
    assert isinstance(error, LookupError)
    assert (error.args, error.position) == (("mine",), 3)
    assert "LocalError: mine" in error.cause_text
    assert "e's class" in error.__notes__[0]


def test_what_cannot_be_rebuilt_here_is_a_task_error_that_says_so() -> None:
    failure = errors.TaskFailure("the task", "GoneError: x", original=b"cgone\nGoneError\n.")
    error = task_error(failure)
    assert not isinstance(error, LookupError)
    assert str(error) == "GoneError: x"
    assert "can't be rebuilt" in error.remote_notes[0]


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit, asyncio.CancelledError]
)
def test_what_ends_a_process_or_a_loop_is_a_plain_error(kind: type[BaseException]) -> None:
    error = errors.for_future(travelled(raised(lambda: kind(3))))
    assert type(error) is TaskError
    assert str(error).startswith(kind.__name__) or "CancelledError" in str(error)
    assert isinstance(error.cause, kind)


def test_where_it_was_raised_and_why_is_shown() -> None:
    def fails() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            failure = ValueError("no such column")
            failure.add_note("columns are: a, b")
            raise failure from error

    error = travelled(raised(fails))
    assert shown(error).count("columns are: a, b") == 1
    assert "Caused by: KeyError: 'missing'" in shown(error)
    try:
        raise error
    except ValueError:
        by_python = traceback.format_exc()
    assert "fails" in re.findall(r"line \d+, in (\w+)", by_python)
    assert "KeyError: 'missing'" in by_python
    assert "direct cause" in by_python
    assert "TaskError(ValueError): no such column" in by_python


def test_its_traceback_keeps_nobodys_frames() -> None:
    class Here:
        pass

    def builds() -> tuple[TaskError, weakref.ref[Here]]:
        here = Here()
        return travelled(raised(lambda: ValueError("no"))), weakref.ref(here)

    gc.disable()
    try:
        error, here = builds()
        assert error.__traceback__ is not None
        assert here() is None
    finally:
        gc.enable()


def test_a_task_that_got_another_tasks_failure_names_both() -> None:
    inner = describe_error(raised(lambda: ValueError("first")), "inner")

    def outer_code() -> None:
        raise inner

    outer = describe_error(raised(outer_code), "outer")
    assert isinstance(outer, ValueError)
    assert type(outer.cause) is ValueError
    assert vars(outer.cause) == {}
    assert "It came from task 'inner'" in shown(outer)
    assert outer.cause_text == "ValueError: first"
    functions = [function for _, _, function, _ in outer.frames]
    assert functions == ["raised", "outer_code", "raised"]  # where it got it, and where it began


def test_a_deep_recursion_is_cut_in_the_middle() -> None:
    def down(n: int) -> int:
        return down(n - 1) if n else 1 // 0

    frames = describe_error(raised(lambda: down(500)), "task").frames
    assert len(frames) == MOST_FRAMES + 1
    assert "frames left out" in frames[MOST_FRAMES // 2][2]


def test_one_that_has_no_text_is_told_by_its_type() -> None:
    error = travelled(raised(OddStringError))
    assert isinstance(error, OddStringError)
    assert "OddStringError" in error.cause_text
    assert "raise make()" in "".join(error.remote_traceback())
    assert traceback.extract_tb(error.__traceback__)[-1].line == "raise make()"


def test_a_type_that_refuses_is_still_a_task_error() -> None:
    class FinalError(Exception):
        def __init_subclass__(cls) -> None:
            raise TypeError("final")

    error = task_error(errors.TaskFailure("task", "FinalError: x", cause=FinalError("x")))
    assert type(error) is TaskError
    assert type(error.cause) is FinalError


def test_a_ref_holds_no_array() -> None:
    """Its session may: whoever has any ref would have all of that session's arrays."""
    np = pytest.importorskip("numpy")
    array = np.zeros(3)
    engine = cast("Any", {"of another object": array})
    assert list(arrays_in([ObjectRef(1, engine)])) == []
    found = list(arrays_in([ObjectRef(1, engine), array]))
    assert len(found) == 1
    assert found[0] is array


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("x[0] = y", ["x"]),
        ("x[0] = y[0]", ["x"]),
        ("z = y; x[0] = z", ["x"]),
        ("for z in [y]:\n    x[0] = z", ["x"]),
        ("z = x\nz[0] = y", ["z"]),
        ("x += y", ["x", "y"]),
        ("print(y, z, x.sort())", ["x"]),
        ("np.add(y, z, out=x)", ["x", "np", "y", "z", "x"]),
        ("np.add(y, z, x)", ["np", "y", "z", "x"]),
        ("with np.errstate() as z:\n    x[0] = y", ["x"]),
        ("y[0], x[0] = 1, 2", ["x"]),
    ],
)
def test_what_was_written_to(code: str, written: list[str]) -> None:
    """Also where one bytecode stands for two, as from Python 3.13 on."""
    np = pytest.importorskip("numpy")
    x, y, z = np.arange(3.0), np.arange(3), np.arange(3)
    x.flags.writeable = False
    variables: dict[str, Any] = {"np": np}
    exec(f"def run(x, y, z):\n{textwrap.indent(code, '    ')}", variables)
    with pytest.raises(ValueError, match="read-only") as error:
        variables["run"](x, y, z)
    assert error.tb is not None
    tb = error.tb.tb_next
    assert tb is not None
    found = [name for name, _ in _written_at(tb.tb_frame, tb.tb_lasti)]
    assert found == written
    assert {*written} <= {name for name, _ in named_at(tb.tb_frame, tb.tb_lineno)}
