"""Which engine a person means, what a cluster's workers may have, and what is said of both."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from workbench import config
from workbench.engines import choice, probe
from workbench.engines.choice import Choice, read
from workbench.engines.probe import NodeVersions
from workbench.errors import ConfigError, SessionError
from workbench.report import sessions

Client = type("Client", (), {"__module__": "distributed.client"})
"""As distributed's is told from others: it isn't imported for that."""


def ray_module(connected: bool = True) -> ModuleType:
    """As the module ray looks."""
    module = ModuleType("ray")
    module.is_initialized = lambda: connected  # type: ignore[attr-defined]
    return module


@pytest.fixture(autouse=True)
def nothing_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "distributed"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize(
    ("where", "engine", "address", "meant"),
    [
        (None, None, None, Choice()),
        (None, "dask", None, Choice("dask", "")),
        (None, "ray", "auto", Choice("ray", "auto")),
        ("ray://head:10001", None, None, Choice("ray", "ray://head:10001")),
        ("tcp://s:8786", None, None, Choice("dask", "tcp://s:8786")),
        (None, None, "tls://s:8786", Choice("dask", "tls://s:8786")),
        ("local", None, None, Choice("local", "")),
    ],
)
def test_what_is_meant(where: Any, engine: Any, address: Any, meant: Choice) -> None:
    assert read(where, engine, address) == meant


def test_a_client_and_the_module_ray_are_taken_as_they_are() -> None:
    client, ray = Client(), ray_module()
    assert read(client, None, None) == Choice("dask", None, client)
    assert read(ray, None, None) == Choice("ray", None, ray)
    assert read(type("Mine", (Client,), {})(), "dask", None).engine == "dask"
    with pytest.raises(SessionError, match=r"ray\.init"):
        read(ray_module(connected=False), None, None)


@pytest.mark.parametrize(
    ("where", "engine", "address", "error", "text"),
    [
        ("spark", None, None, ConfigError, r"neither an engine \(local, ray, dask\) nor an addr"),
        ("auto", None, None, ConfigError, r'engine="ray", address=\'auto\''),
        (None, "spark", None, ConfigError, "no engine 'spark'"),
        ("ray", "dask", None, ConfigError, "in two ways, and they differ: dask and ray"),
        ("tcp://s:1", None, "tcp://s:2", ConfigError, "Say one"),
        (sys, None, None, TypeError, "not module"),
        (None, "ray", 7, TypeError, "address= is text"),
    ],
)
def test_no_sense(where: Any, engine: Any, address: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read(where, engine, address)


def test_a_connection_is_taken_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is no default: nothing is imported to find it."""
    assert choice.live() == {}
    client = Client()
    distributed = ModuleType("distributed")
    distributed.Client = type("Client", (), {"current": lambda: client})  # type: ignore[attr-defined]
    ray = ray_module()
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert choice.live() == {"ray": ray, "dask": client}
    assert read(None, None, None) == Choice()
    assert read("dask", None, None) == Choice("dask", "", client)
    assert read(None, "ray", None) == Choice("ray", "", ray)
    assert read(None, "ray", "auto") == Choice("ray", "auto")
    assert choice.offered({"_": client, "cluster": client}) == {"ray": "'ray'", "dask": "cluster"}
    said = sessions.offers_text(choice.offered({"cluster": client}))
    assert "`%workbench start --engine dask`" in said
    assert "`wb.init(cluster)`" in said
    monkeypatch.setitem(sys.modules, "distributed", ModuleType("distributed"))  # half imported
    monkeypatch.setitem(sys.modules, "ray", ray_module(connected=False))
    assert choice.live() == {}
    assert sessions.offers_text(choice.offered({})) == ""


def test_what_is_not_installed_is_said_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, module in (("ray", "ray"), ("dask", "distributed")):
        monkeypatch.setitem(sys.modules, module, None)
        for check in (choice.require, choice.connect):
            with pytest.raises(SessionError, match=rf"pip install 'ipyworkbench\[{engine}\]'"):
                check(Choice(engine), config.load({"engine": engine}))
    choice.require(Choice("local"), config.load({"engine": "local"}))


def test_settings_may_name_the_engine_and_the_call_comes_first() -> None:
    environ = {"WORKBENCH_ENGINE": "ray", "WORKBENCH_ADDRESS": "auto"}
    asked = read("dask", None, None)
    for given, engine, address in (
        ({}, "ray", "auto"),
        ({"engine": asked.engine, "address": asked.address}, "dask", ""),
    ):
        found = config.load(given, environ=environ)
        assert (found.engine, found.address) == (engine, address)
    with pytest.raises(ConfigError, match="there are local, ray, dask"):
        config.load({}, environ={"WORKBENCH_ENGINE": "spark"})
    with pytest.raises(ConfigError, match="ray://host:10001"):
        config.load({"address": "two words"})


def test_an_address_is_tried_for_a_while() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", f"tcp://127.0.0.1:{port}"):
            said = f"Nobody answers at {address}; it was tried for 0.1 s (Connection"
            with pytest.raises(SessionError, match=re.escape(said)):
                choice.wait_for_answer(address, 0.1)
        with pytest.raises(SessionError, match="tried for 0 s"):  # once, and not again for long
            choice.wait_for_answer(address, 3600.0)
        server.listen()
        choice.wait_for_answer(f"tls://127.0.0.1:{port}")
    for address in ("", "auto", "local", "inproc://192.0.2.1/7/1"):
        choice.wait_for_answer(address)


OURS = NodeVersions("3.12.4", "laptop", "0.2.0", {"numpy": "2.1.0", "cloudpickle": "3.1"})


def theirs(**other: Any) -> NodeVersions:
    packages = OURS.packages | other.pop("packages", {})
    return OURS._replace(node="node7", packages=packages, **other)


def test_the_same_is_fine_and_so_are_small_differences() -> None:
    for others in ([], [theirs()], [theirs(python="3.12.9", packages={"numpy": "2.4.0"})]):
        probe.check(OURS, others)  # a warning is an error here


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"python": "3.11.9"}, ["3.12.4", "3.11.9", "node7"]),
        ({"workbench": "0.1.9"}, ["node7 have Workbench 0.1.9", "ipyworkbench==0.2.0`"]),
        ({"workbench": ""}, ["node7 have no Workbench", "`pip install"]),
    ],
)
def test_what_cannot_work_is_refused(other: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SessionError) as error:
        probe.check(OURS, [theirs(), theirs(**other)])
    assert not [word for word in words if word not in str(error.value)]


def test_another_numpy_is_said_once() -> None:
    other = theirs(packages={"numpy": "1.26.4"})
    with pytest.warns(UserWarning, match=r"numpy 2\.1\.0.*1\.26\.4") as said:
        probe.check(OURS, [other, other])
    assert len(said) == 1


def test_the_probe_needs_nothing_but_python() -> None:
    """Evaluated in a Python that has no packages, it says so."""
    code = f"import json; print(json.dumps({probe.EXPRESSION}))"
    said = subprocess.check_output([sys.executable, "-I", "-S", "-c", code])
    found = NodeVersions(**json.loads(said))
    assert found.workbench == ""
    assert set(found.packages.values()) == {""}
    here = probe.here()
    assert (here.python, here.node) == (found.python, found.node)
    assert here.workbench
    assert all(here.packages.values())
