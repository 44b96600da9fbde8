"""A page that shows a session, without a browser: what it would know of it, put together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import workbench as wb
from tests.patience import TIMEOUT
from workbench.report.page import key_of
from workbench.widgets.feed import Feed

Row = dict[str, Any]


class Page:
    """What a page knows: the world once, then differences."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._came = threading.Condition()
        self.told: list[Row] = []
        self.world = feed.world()

    def send_message(self, message: Row) -> None:
        with self._came:
            self.told.append(message)
            self._came.notify_all()
            if message["kind"] == "world":
                self.world = message
                return
            assert message["seq"] == self.world["seq"] + 1
            objects = {**self.world["objects"], **message.get("objects", {})}
            for key in message.get("gone", ()):
                del objects[key]
            rest = {k: v for k, v in message.items() if k not in ("objects", "gone", "timeline")}
            timeline = [*self.world["timeline"], *message.get("timeline", ())]
            self.world = {**self.world, **rest, "objects": objects, "timeline": timeline}

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait until it holds; what it asks for may not have been told yet."""

        def holds() -> Any:
            with suppress(KeyError):
                return condition()

        with self._came:
            assert self._came.wait_for(holds, TIMEOUT), self.world

    def rows(self, **facts: object) -> list[Row]:
        """The objects of which all this is true."""
        rows = self.world["objects"].values()
        return [row for row in rows if facts.items() <= row.items()]

    def row(self, ref: wb.ObjectRef) -> Row:
        return dict(self.world["objects"].get(key_of(ref.id), {}))
