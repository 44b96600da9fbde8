"""Ray's supervisor and its drivers where the network fails; no cluster, only Ray's errors."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.patience import TIMEOUT
from workbench import errors
from workbench.core.events import About
from workbench.engines.cluster.backend import Message, StoredValue, TaskEnd
from workbench.engines.cluster.keeper import encode
from workbench.engines.cluster.kept_jobs import JobTask
from workbench.engines.ray.order import Sender
from workbench.errors import SessionError

ray = pytest.importorskip("ray")

AUDIENCE = 11
SENDER = Sender()


class Method:
    """A remote method: what it returns is called by `ray.get`."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self._does = does

    def options(self, **given: Any) -> Method:
        return self

    def remote(self, *args: Any) -> Callable[[], Any]:
        return lambda: self._does(*args)


class Network:
    """A supervisor behind a network that fails so many times."""

    def __init__(self, failures: int, error: Callable[[], Exception]) -> None:
        self.failures = failures
        self.error = error
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Method:
        def does(*args: Any) -> Any:
            self.asked.append((name, *args))
            if self.failures:
                self.failures -= 1
                raise self.error()
            if name == "poll":
                return encode([Message(1, "stdout", b"late", 0, AUDIENCE)])
            return 0

        return Method(does)


def unavailable() -> Exception:
    return ray.exceptions.ActorUnavailableError("the network", None)


@pytest.fixture
def backend_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Network], Any]:
    from workbench.engines.ray import system

    monkeypatch.setattr(system.ray, "get", lambda call, timeout=None: call())
    monkeypatch.setattr(system.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(system.ray, "kill", lambda actor: None)
    monkeypatch.setattr(system.RayBackend, "actor_names", lambda self: [])
    monkeypatch.setattr(system, "AGAIN", 0.0)
    return lambda network: system.RayBackend("s", network, None, False, False)


def test_who_cannot_be_reached_is_asked_again(backend_of: Callable[[Network], Any]) -> None:
    network = Network(2, unavailable)
    backend = backend_of(network)
    assert backend.ask("drivers") == 0
    assert backend.ended is None
    assert len(network.asked) == 3
    backend.close(False)


def test_the_channel_goes_on_after_a_failure(backend_of: Callable[[Network], Any]) -> None:
    """And asks for the same again: what was lost on the way is sent once more."""
    network = Network(2, unavailable)
    backend = backend_of(network)
    heard: list[Any] = []

    def sink(messages: Any) -> None:
        heard.extend(messages)
        backend._over = "enough"

    backend._audience = AUDIENCE
    backend._listen(sink)
    assert [message.data for message in heard] == [b"late"]
    assert network.asked == [("poll", AUDIENCE, 0)] * 3


def test_the_channel_does_not_end_in_silence(backend_of: Callable[[Network], Any]) -> None:
    backend = backend_of(Network(1, lambda: ValueError("broken")))
    backend._listen(list)
    assert "broken" in backend.ended


def test_leaving_does_the_local_part_of_a_lost_session(
    backend_of: Callable[[Network], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(ray, "shutdown", lambda: left.append(1))
    backend = backend_of(Network(1, ray.exceptions.ActorDiedError))
    backend.leaves_ray = True
    with pytest.raises(Exception, match="supervisor is gone"):
        backend.ask("drivers")
    backend.close(True)
    backend.close(True)
    assert left == [1]


class End:
    """A native of a task's end: called, it is the end, or raises. Ray's has either way to call
    back, its client's has but one."""

    def __init__(self, task: int, error: Exception | None = None, is_client: bool = False) -> None:
        self.found = error or msgspec.msgpack.encode(TaskEnd(task, "done", 0.0))
        if not is_client:
            self._on_ready = lambda callback: callback(None)

    def _on_completed(self, callback: Callable[[Any], None]) -> None:
        callback(self.found)


@pytest.mark.parametrize("is_client", [False, True])
@pytest.mark.parametrize("failing", [(), (3,), (0, 49)])
def test_ends_that_come_together_are_told_one_by_one(
    backend_of: Callable[[Network], Any],
    monkeypatch: pytest.MonkeyPatch,
    failing: tuple[int, ...],
    is_client: bool,
) -> None:
    """In one batch; the failure of one is no other's, and neither is that of who is told."""
    read: list[int] = []

    def get(ends: list[End], timeout: float | None = None) -> list[Any]:
        read.append(len(ends))
        for end in ends:
            if isinstance(end.found, Exception):
                raise end.found
        return [end.found for end in ends]

    backend = backend_of(Network(0, unavailable))
    monkeypatch.setattr(ray, "get", get)
    begin, told = threading.Event(), threading.Event()
    heard: dict[int, Any] = {}

    def tell(task: int, end: Any) -> None:
        heard[task] = end
        if len(heard) == 50:
            told.set()
        raise RuntimeError("of who is told")

    from workbench.engines.ray.ends import Came

    backend._reports._came.put(Came(None, None, lambda _: begin.wait(TIMEOUT)))
    for task in range(50):
        error = ray.exceptions.WorkerCrashedError() if task in failing else None
        backend.on_done(End(task, error, is_client), partial(tell, task))
    begin.set()
    assert told.wait(TIMEOUT)
    for task, end in heard.items():
        if task in failing:
            assert isinstance(end, errors.WorkerCrashedError)
        else:
            assert end.task == task
    assert max(read) > 1
    backend._over = "enough"
    backend.close(False)


@pytest.mark.parametrize(
    ("name", "ours", "words"),
    [
        ("OwnerDiedError", errors.ObjectLostError, "owned it has ended.*Make it again"),
        ("ObjectLostError", errors.ObjectLostError, "nodes.*have gone.*Run again"),
        ("ObjectFetchTimedOutError", errors.ObjectLostError, "in time.*Try again"),
        ("ObjectReconstructionFailedError", errors.ObjectLostError, "nodes.*have gone.*Run again"),
        ("ReferenceCountingAssertionError", errors.ObjectFreedError, "freed.*Put it again"),
        ("ObjectFreedError", errors.ObjectFreedError, "freed.*Put it again"),
    ],
)
def test_what_is_lost_is_told_in_our_words(
    name: str, ours: type[errors.WorkbenchError], words: str
) -> None:
    from workbench.engines.ray.failures import translated

    error = getattr(ray.exceptions, name)("ab" * 28, owner_address=b"", call_site="")
    found = translated(error)
    assert type(found) is ours
    assert re.search(words, str(found))
    assert "abab" not in str(found)
    assert "RAY_" not in str(found)


# -- the supervisor --------------------------------------------------------------------------------


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Any:
    from workbench.engines.ray import supervisor

    monkeypatch.setattr(supervisor.ray, "nodes", list)
    monkeypatch.setattr(supervisor, "POLL", 0.01)
    return supervisor.Supervisor("s")


def test_what_did_not_arrive_is_sent_again(supervisor: Any) -> None:
    async def polls() -> list[Any]:
        await supervisor.ask("join", (AUDIENCE, 1, ""), SENDER.last())
        await supervisor.push(encode([Message(1, "stdout", b"a", 0, AUDIENCE)]), SENDER.next())
        batches = [await supervisor.poll(AUDIENCE, number) for number in (0, 0, 1)]
        return [msgspec.msgpack.decode(batch) if batch else [] for batch in batches]

    first, again, next_one = asyncio.run(polls())
    assert first[0][2] == b"a"
    assert again == first
    assert next_one == []


def test_a_job_is_over_whose_last_words_were_lost(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker died after the end had come, and before it was told."""
    from workbench.engines.ray import supervisor as module

    monkeypatch.setattr(module, "PATIENCE", 0.0)

    async def runs() -> Any:
        native: asyncio.Future[bytes] = asyncio.Future()
        job = JobTask(100, 0, "cell 1", (), 1, AUDIENCE, 3)
        await supervisor.ask("job", (job,), SENDER.last())
        watch = asyncio.ensure_future(supervisor._watch(100, native))
        native.set_result(msgspec.msgpack.encode(TaskEnd(100, "done", 1.0)))
        await watch
        return await supervisor.ask("jobs", (), SENDER.last())

    (record,) = asyncio.run(runs())
    assert record.state == "done"


# -- connecting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [(ConnectionError("nobody"), "No Ray cluster answers"),
     (RuntimeError("Version mismatch"), "refused the connection: Version mismatch")],
)  # fmt: skip
def test_who_refuses_does_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    from workbench.engines.ray import backend

    def init(**options: Any) -> None:
        raise error

    monkeypatch.setattr(backend.ray, "init", init)
    with pytest.raises(SessionError, match=said):
        backend._join_at("auto", {})


def test_small_values_travel_as_bytes_and_come_back_whole() -> None:
    from workbench.engines.ray.slim import MOST, slim, whole

    about = About("int", 5, 0, 0, 0.0, 0.0, "result of f")
    small = StoredValue(b"P\x80", inside=(), about=about, failed=True)
    assert isinstance(slim(small), bytes)
    assert whole(slim(small)) == small
    for other in (
        StoredValue(b"", (b"buffer",)),
        StoredValue(b"", inside=(7,), natives=(object(),)),  # a ref, which Ray has to see
        StoredValue(bytes(MOST + 1)),
    ):
        assert whole(slim(other)) is other
