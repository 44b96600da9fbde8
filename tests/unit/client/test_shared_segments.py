"""Segments that others share: asked for until they are mapped, or it is known why they can't be."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from workbench.client.shared_segments import SharedSegments
from workbench.core import instructions as do
from workbench.errors import LimitError, ObjectLostError
from workbench.system.spare_descriptors import SpareDescriptors
from workbench.wire.buffers import Parcel

SEGMENT = 7


class Views:
    """Where segments are mapped; ``error`` says why not."""

    def __init__(self) -> None:
        self.mapped: set[int] = set()
        self.error = 0

    def is_mapped(self, segment: int) -> bool:
        return segment in self.mapped

    def map(self, segment: int, fd: int, size: int) -> None:
        if self.error:
            raise OSError(self.error, "no")
        self.mapped.add(segment)


class Server:
    """Answers with what comes next: a segment's descriptor, none left, or nothing yet."""

    def __init__(self, *comes: list[int] | None, says: str = "") -> None:
        self.views = Views()
        self._comes = list(comes)
        self._says = says
        views: Any = self.views
        spares = SpareDescriptors(0)
        self.segments = SharedSegments(views, self._ask, self._wait, spares)

    def _ask(self, message: Callable[[int], Any]) -> do.Answer:
        assert message(1).segment == SEGMENT
        fds = self._comes.pop(0)
        if fds is not None:
            self.segments.shared(Parcel(do.Shared(SEGMENT, 4096), fds))
        return do.Answer(1, text=self._says)

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        return condition()


def test_one_that_its_maker_has_yet_to_send_is_asked_for_again() -> None:
    server = Server(None, None, [3])
    server.segments.need(SEGMENT)
    assert server.views.mapped == {SEGMENT}


def test_it_says_why_there_is_none() -> None:
    with pytest.raises(ObjectLostError, match="it has moved"):
        Server(None, says="it has moved").segments.need(SEGMENT)
    with pytest.raises(LimitError, match="can open no more files"):
        Server([]).segments.need(SEGMENT)  # it was lost on the way: there is no place for it
    server = Server([3])
    server.views.error = errno.ENOMEM
    with pytest.raises(OSError, match="can't be mapped here") as caught:
        server.segments.need(SEGMENT)
    assert caught.value.errno == errno.ENOMEM
