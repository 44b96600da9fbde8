"""Who listens at an address is asked whether it is Ray; no cluster, only sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("ray")

from workbench import config
from workbench.engines.ray import backend
from workbench.errors import SessionError

Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that does something with whoever comes; its address."""
    ends: list[Callable[[], None]] = []

    def start(does: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))

        def accept() -> None:
            came, _ = listener.accept()
            with came:
                does(came)

        thread = threading.Thread(target=accept)
        thread.start()
        ends.extend((thread.join, listener.close))
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for end in ends:
        end()


def answers_as_ray(came: socket.socket) -> None:
    assert came.recv(24, socket.MSG_WAITALL) == backend.GREETING[:24]
    came.sendall(bytes((0, 0, 6, 4, 0, 0, 0, 0, 0)) + bytes(6))
    came.recv(100)


def is_silent(came: socket.socket) -> None:
    while came.recv(100):
        pass


def is_a_web_server(came: socket.socket) -> None:
    came.recv(100)
    came.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def hangs_up(came: socket.socket) -> None:
    came.recv(100)


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("does", [is_silent, is_a_web_server, hangs_up])
def test_who_isn_t_ray_is_found_out(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    does: Callable[[socket.socket], None],
) -> None:
    monkeypatch.setattr(backend, "PATIENCE", 0.2)
    address = scheme + serve(does)
    with pytest.raises(SessionError) as error:
        backend._join_at(address, {})
    assert f"No Ray cluster answers at {address}: who listens there isn't Ray. A head's" in str(
        error.value
    )


def test_who_answers_as_ray_does_is_taken_for_it(serve: Serve) -> None:
    backend._reach(serve(answers_as_ray))
    backend._reach("auto")


def test_with_encryption_ray_finds_out_itself(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    backend._reach("127.0.0.1:1")


def test_the_first_cause_is_told(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """Ray's own message says but that it failed."""

    def fail(**options: object) -> None:
        try:
            raise RuntimeError("InvalidAuthToken: the token is missing.\nMore of it.")
        except RuntimeError as error:
            raise ConnectionError("Failed to connect") from error

    monkeypatch.setattr(backend.ray, "init", fail)
    address = serve(answers_as_ray)
    with pytest.raises(SessionError) as error:
        backend._join_at(address, {})
    assert str(error.value) == (
        f"No Ray cluster answers at {address}: InvalidAuthToken: the token is missing."
    )


def test_what_the_workers_have_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[bool] = []

    def refuse() -> bool:
        raise SessionError("They run Python 3.9.")

    monkeypatch.setattr(backend.ray, "init", lambda **options: None)
    monkeypatch.setattr(backend.ray, "shutdown", lambda: left.append(True))
    monkeypatch.setattr(backend, "_lacks_us", refuse)
    with pytest.raises(SessionError, match=r"^They run Python 3.9.$"):
        backend._join_at("auto", {})
    assert left == [True]


def test_a_ray_that_does_not_start_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(backend.ray, "init", init)
    with pytest.raises(SessionError, match="trying again may help: The current node"):
        backend._join(config.load({"engine": "ray", "address": "local"}), ())


class Nodes:
    """A Ray whose list of nodes names one that has gone, for the first ``late`` looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: float, error: Exception) -> None:
        self.looks = 0
        self._late = late
        self._error = error
        monkeypatch.setattr(backend, "AGAIN", 0.0)
        monkeypatch.setattr(backend.ray, "nodes", self.nodes)
        monkeypatch.setattr(backend.ray, "remote", lambda function: self)
        monkeypatch.setattr(backend.ray, "get", self.get)

    def nodes(self) -> list[dict[str, object]]:
        self.looks += 1
        nodes = ["00" * 28, "11" * 28] if self.looks <= self._late else ["00" * 28]
        return [{"NodeID": node, "Alive": True} for node in nodes]

    def options(self, **options: object) -> Nodes:
        return self

    def remote(self, text: str) -> object:
        return eval(text)

    def get(self, asked: list[object], timeout: float) -> list[object]:
        if len(asked) > 1:
            raise self._error
        return asked


GONE = [
    backend.ray.exceptions.TaskUnschedulableError("The task is not schedulable."),
    backend.ray.exceptions.NodeDiedError("The node has died."),
]


@pytest.mark.parametrize("error", GONE)
def test_a_node_that_has_just_gone_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    nodes = Nodes(monkeypatch, 2, error)
    assert not backend._lacks_us()
    assert nodes.looks == 3


@pytest.mark.parametrize("error", GONE)
def test_one_that_ray_never_strikes_out_is_said(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    Nodes(monkeypatch, float("inf"), error)
    monkeypatch.setattr(backend, "PATIENCE", 0.0)
    with pytest.raises(SessionError, match=r"don't say what they have: .*(schedulable|died)"):
        backend._lacks_us()
