"""Errors travel: all can be pickled, and a task's is an instance of what the task raised."""

from __future__ import annotations

import argparse
import asyncio
import binascii
import builtins
import concurrent.futures.process
import configparser
import contextlib
import csv
import dataclasses
import decimal
import email.message
import errno
import gc
import getopt
import http.client
import inspect
import io
import json
import multiprocessing
import netrc
import optparse
import pickle
import queue
import re
import shutil
import signal
import smtplib
import socket
import sqlite3
import ssl
import struct
import subprocess
import tarfile
import threading
import tokenize
import traceback
import unittest
import urllib.error
import warnings
import weakref
import xml.parsers.expat
import xmlrpc.client
import zipfile
import zlib
import zoneinfo
from typing import Any

import cloudpickle
import pytest

from workbench import errors
from workbench.errors import TaskError, WorkbenchError, exception_state, task_error
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
    (lambda: ExceptionGroup("several", [ValueError(1)]), ExceptionGroup),
    (lambda: StopIteration(3), StopIteration),
    (lambda: StopAsyncIteration(3), StopAsyncIteration),
    (lambda: SystemExit(1), SystemExit),
    (lambda: KeyboardInterrupt(), KeyboardInterrupt),
    (lambda: errors.StoreFullError("full"), MemoryError),
    (type("Local", (LookupError,), {}), LookupError),
]


def travelled(error: BaseException) -> TaskError:
    """As whoever gets it sees it."""
    found = pickle.loads(cloudpickle.dumps(describe_error(error, "the task")))
    assert isinstance(found, TaskError)
    return found


@pytest.mark.parametrize(("make", "kind"), RAISED)
def test_a_task_error_is_also_what_was_raised(make: Any, kind: type[BaseException]) -> None:
    described = describe_error(raised(make), "the task")
    again = pickle.loads(cloudpickle.dumps(described))
    for error in (described, again):
        assert isinstance(error, TaskError)
        assert isinstance(error, kind)
        assert error.task == "the task"
        assert error.frames[-1][2] == "raised"
        assert type(raised(make)).__name__ in error.cause_text
        assert "raise make()" in "".join(error.remote_traceback())
        assert traceback.extract_tb(error.__traceback__)[-1].line == "raise make()"
        assert type(error.cause).__name__ == type(raised(make)).__name__


# -- all of the standard library ------------------------------------------------------------------


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
    ImportError("no", name="numpyy", path="/p"),
    ModuleNotFoundError("no", name="numpyy"),
    NameError("no", name="x"),
    UnboundLocalError("no", name="x"),
    AttributeError("no", name="x", obj=[1]),
    KeyError("k"),
    StopIteration(3),
    SystemExit(4),
    SyntaxError("bad", ("f.py", 3, 7, "x = ", 3, 8)),
    IndentationError("bad", ("f.py", 3, 7, "x = ", 3, 8)),
    TabError("bad", ("f.py", 3, 7, "x = ", 3, 8)),
    UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "bad"),
    UnicodeEncodeError("ascii", "ä", 0, 1, "bad"),
    UnicodeTranslateError("ä", 0, 1, "bad"),
    ExceptionGroup("two", [ValueError(1), ExceptionGroup("in", [KeyError("k")])]),
    BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError(1)]),
    subprocess.CalledProcessError(3, ["ls"], b"out", b"err"),
    subprocess.TimeoutExpired("ls", 2.5, b"out"),
    json.JSONDecodeError("bad", "[1,", 3),
    urllib.error.HTTPError("http://x", 404, "no", email.message.Message(), io.BytesIO(b"page")),
    urllib.error.URLError("gone", "x"),
    urllib.error.ContentTooShortError("short", b"x"),
    http.client.IncompleteRead(b"x", 3),
    http.client.BadStatusLine("x"),
    asyncio.IncompleteReadError(b"x", 3),
    asyncio.LimitOverrunError("x", 3),
    asyncio.CancelledError("x"),
    xml.parsers.expat.ExpatError("x"),
    zipfile.BadZipFile("x"),
    configparser.ParsingError("x"),
    configparser.NoOptionError("o", "s"),
    configparser.MissingSectionHeaderError("f", 3, "x"),
    re.error("bad", "(", 0),
    smtplib.SMTPResponseException(550, b"no"),
    smtplib.SMTPRecipientsRefused({"a": (550, b"no")}),
    smtplib.SMTPSenderRefused(550, b"no", "a"),
    netrc.NetrcParseError("bad", "f", 3),
    shutil.Error([("a", "b", "no")]),
    signal.ItimerError("x"),
    socket.gaierror(-2, "x"),
    sqlite3.OperationalError("x"),
    ssl.SSLError(1, "x"),
    struct.error("x"),
    tarfile.ReadError("x"),
    tarfile.AbsolutePathError(tarfile.TarInfo("/x")),
    unittest.SkipTest("x"),
    xmlrpc.client.Fault(3, "x"),
    xmlrpc.client.ProtocolError("u", 500, "x", {}),
    zlib.error("x"),
    concurrent.futures.TimeoutError(),
    concurrent.futures.process.BrokenProcessPool("x"),
    multiprocessing.ProcessError("x"),
    decimal.DivisionByZero(),
    binascii.Error("x"),
    csv.Error("x"),
    getopt.GetoptError("bad", "o"),
    argparse.ArgumentError(None, "x"),
    argparse.ArgumentTypeError("x"),
    optparse.OptionConflictError("x", "y"),
    pickle.PicklingError("x"),
    queue.Empty(),
    tokenize.TokenError("x", (1, 2)),
    zoneinfo.ZoneInfoNotFoundError("x"),
    AnswerError(status=404),
    FrozenError(5, "mine"),
    AbortError("stop"),
    ValueError("\x1b[31mred\x1b[0m"),
    SlotsError(),
    OwnGroup("two", [ValueError(1)], 7),
    errors.StoreFullError("full"),
    errors.TaskCancelledError("stopped"),
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


def public(error: BaseException, names: list[str]) -> dict[str, Any]:
    """Attributes that a person may look at."""
    found = {}
    for name in names:
        if name[:1] != "_":
            with contextlib.suppress(AttributeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = getattr(error, name)
                found[name] = value if not callable(value) else "a method"
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
    with pytest.raises(kind) as e:
        raise found
    failure = errors.failure_of(found)
    for each in (e.value, failure.cause):
        assert isinstance(each, kind)
        assert repr(each.args) == repr(error.args)
        plain = str(each).replace(f"TaskError({kind.__name__})", kind.__name__)
        assert plain == str(error)
        assert public(each, ["mine"]) == {"mine": {"a": 1}}
        assert repr(public(each, dir(error))) == alike(public(error, dir(error)))
        if kind is not BaseExceptionGroup:
            assert set(exception_state.attributes_of(each)) == set(attributes)
        assert exception_state.notes_of(each) == ["a note"]
        assert type(each.__cause__) is KeyError
        assert each.__suppress_context__
        assert each.__cause__.args == ("first",)
        assert (
            traceback.extract_tb(each.__cause__.__traceback__)[-1].line == 'raise KeyError("first")'
        )
    assert type(failure.cause) is kind
    assert failure.task == "the task"
    assert kind.__qualname__ in failure.text
    assert any(kind.__name__ in line for line in found._render_traceback_())


def alike(shown: dict[str, Any]) -> Any:
    """Equal to the text of what is equal but for where it lies in memory."""

    class Alike:
        def __eq__(self, other: object) -> bool:
            address = r"0x[0-9a-f]+"
            return re.sub(address, "", str(other)) == re.sub(address, "", repr(shown))

        def __repr__(self) -> str:
            return repr(shown)

    return Alike()


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
    assert others.exceptions[0].args == (1,)
    assert others.exceptions[1].exceptions[0].strerror == "no"
    shown = "\n".join(travelled(raised(lambda: group))._render_traceback_())
    assert "1 of 2: ValueError: 1" in shown


class Unwilling:
    def __reduce__(self) -> Any:
        raise TypeError("not me")


def test_what_cannot_travel_is_left_out_piece_by_piece_and_named() -> None:
    lock = threading.Lock()

    def fails() -> BaseException:
        error = OSError(2, "no", "f.txt")
        error.lock, error.kept = lock, [1]  # type: ignore[attr-defined]
        error.large = b"x" * 2_000_000  # type: ignore[attr-defined]
        error.__cause__ = ValueError("first", Unwilling())
        return error

    error: Any = travelled(raised(fails))
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.filename, error.kept) == (2, "f.txt", [1])
    assert not hasattr(error, "lock")
    assert error.__cause__.args[0] == "first"
    assert "Unwilling object" in error.__cause__.args[1]
    [note] = error.__notes__
    for part in ("`e.lock` (_thread.lock)", "`e.large` (bytes)", "`e.__cause__.args[1]`"):
        assert part in note
    assert "\n".join(error._render_traceback_()).count(note.split(":")[0]) == 1


def test_a_class_that_cannot_travel_is_its_base() -> None:
    class LocalError(LookupError):  # it goes by value, and so does its lock
        lock = threading.Lock()

    def fails() -> BaseException:
        error = LocalError("mine")
        error.position = 3  # type: ignore[attr-defined]
        return error

    error: Any = travelled(raised(fails))
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
def test_a_future_gets_no_orders(kind: type[BaseException]) -> None:
    error = errors.for_future(travelled(raised(lambda: kind(3))))
    assert type(error) is TaskError
    assert str(error).startswith(kind.__name__) or "CancelledError" in str(error)
    assert isinstance(error.as_instanceof_cause(), kind)
    assert isinstance(errors.for_future(travelled(raised(lambda: AbortError(3)))), AbortError)


def test_it_is_pickled_again_as_it_is() -> None:
    error = travelled(raised(lambda: subprocess.CalledProcessError(3, "ls")))
    error.add_note("seen here")
    again: Any = pickle.loads(pickle.dumps(error))
    assert again.returncode == 3
    assert again.__notes__ == ["seen here"]
    assert again.as_instanceof_cause() is again


def test_python_shows_where_it_was_raised() -> None:
    def fails() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("no such column") from error

    try:
        raise travelled(raised(fails))
    except ValueError:
        shown = traceback.format_exc()
    places = re.findall(r"line \d+, in (\w+)", shown)
    assert places[:2] == ["raised", "fails"] or "fails" in places
    assert "KeyError: 'missing'" in shown
    assert "direct cause" in shown
    assert shown.rstrip().endswith("TaskError(ValueError): no such column")


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


def test_notes_and_causes_are_shown() -> None:
    def fails() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            failure = ValueError("no such column")
            failure.add_note("columns are: a, b")
            raise failure from error

    shown = "\n".join(travelled(raised(fails))._render_traceback_())
    assert shown.count("columns are: a, b") == 1
    assert "Caused by: KeyError: 'missing'" in shown


def test_a_task_that_got_another_tasks_failure_names_both() -> None:
    inner = describe_error(raised(lambda: ValueError("first")), "inner")

    def outer_code() -> None:
        raise inner

    outer = describe_error(raised(outer_code), "outer")
    assert isinstance(outer, ValueError)
    assert outer.args == ("first",)
    assert type(outer.cause) is ValueError
    assert vars(outer.cause) == {}
    shown = "\n".join(outer._render_traceback_())
    assert "It came from task 'inner'" in shown
    assert outer.cause_text == "ValueError: first"
    functions = [function for _, _, function, _ in outer.frames]
    assert functions == ["raised", "outer_code", "raised"]  # where it got it, and where it began


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
    class FinalError(Exception):
        def __init_subclass__(cls) -> None:
            raise TypeError("final")

    error = task_error(errors.TaskFailure("task", "FinalError: x", cause=FinalError("x")))
    assert type(error) is TaskError
    assert type(error.cause) is FinalError
