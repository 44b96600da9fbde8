"""Exceptions as values where somebody has imported distributed, which has tblib pickle them all."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from workbench.errors import SerializationError
from workbench.serialization import codec
from workbench.serialization.exceptions import pack
from workbench.serialization.inspection import inspect


def asked(error: Any, *, get_locals: Any = None) -> Any:
    """As tblib's, which are for each class that there is, subclasses too."""
    raise AssertionError("tblib was asked")


asked.__module__ = "tblib.pickling_support"


class OwnError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code

    def __reduce__(self) -> Any:
        return OwnError, (self.code,)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """What `tblib.pickling_support.install` does."""
    before = dict(copyreg.dispatch_table)
    for cls in (ValueError, OSError, OwnError, TracebackType):
        copyreg.pickle(cls, asked)  # type: ignore[arg-type]
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_exception_travels_as_it_does_without() -> None:
    """Without its traceback, which is of frames that are here."""
    for error in (ValueError("x", 2), OSError(2, "gone", "a.txt"), OwnError(7)):
        (came,) = codec.deserialize_inline(codec.serialize([raised(error)], {}).inline())
        assert (type(came), came.args, came.__traceback__) == (type(error), error.args, None)
        assert str(came) == str(error)
    data, left_out = pack(raised(OwnError(7)), lambda tb: (), {})  # as a task's
    assert left_out == []
    assert pickle.loads(data).code == 7


def test_a_traceback_can_t_be_stored_still() -> None:
    with pytest.raises(SerializationError, match="traceback"):
        codec.serialize({"tb": raised(ValueError()).__traceback__}, {})
    (failure,) = inspect({"tb": raised(ValueError()).__traceback__}, {}, "x").failures
    assert failure.path == "x['tb']"


def test_what_others_register_for_their_classes_is_asked() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    copyreg.pickle(Point, lambda point: (complex, (point.x, 1)))  # type: ignore[arg-type]
    assert codec.deserialize_inline(codec.serialize([Point(2)], {}).inline()) == [2 + 1j]
