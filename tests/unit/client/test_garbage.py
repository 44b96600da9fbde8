"""A collection that the server asks for: whoever can have no thread more goes on without it."""

from __future__ import annotations

import threading

import pytest

from workbench.client.base import collect_garbage


def test_without_a_thread_there_is_no_collection_and_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def start(thread: threading.Thread) -> None:
        asked.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    collect_garbage()
    assert asked == ["workbench-garbage"]
