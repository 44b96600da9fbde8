"""Choosing an engine in a notebook, where neither Ray nor Dask is needed for the answer."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.kernel.conftest import Kernel

STAND_IN = """
import sys, types
class Client:
    def __init__(self): self.scheduler = types.SimpleNamespace(address="tcp://nowhere:1")
Client.__module__ = "distributed.client"
client = Client()
module = types.ModuleType("distributed")
module.Client = type("Client", (), {"current": staticmethod(lambda: client)})
sys.modules["distributed"] = module
"""
"""As much of distributed as a kernel that is connected has."""


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_what_is_not_installed_is_said_and_the_session_stays(
    session: Kernel, engine: str, package: str
) -> None:
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed here")
    name = session.value("wb.init(ignore_reinit_error=True).session")
    failure = session.run(f"%workbench start --engine {engine}").failure
    assert f"`pip install 'ipyworkbench[{engine}]'`" in failure
    assert session.value("wb.init(ignore_reinit_error=True).session") == name


def test_what_can_t_be_meant_is_said_and_the_session_stays(session: Kernel) -> None:
    name = session.value("wb.init(ignore_reinit_error=True).session")
    said = session.run("%workbench start --engine spark").failure
    assert "no engine 'spark'. There are: local, ray, dask" in said
    said = session.run("%workbench start --engine ray --address tcp://10.0.0.1:8786").failure
    assert "they differ: dask and ray" in said
    assert "neither an engine" in session.run("wb.init('somewhere')").failure
    assert session.value("wb.init(ignore_reinit_error=True).session") == name


def test_a_client_that_is_connected_is_offered_and_not_taken(kernel: Kernel) -> None:
    kernel.ok(STAND_IN)
    try:
        kernel.ok("%reload_ext workbench\n%unload_ext workbench")
        said = kernel.ok("%load_ext workbench").text().splitlines()
        assert said[0].startswith("Workbench started session")
        assert said[1:] == [
            "This notebook is connected to Dask: `%workbench start --engine dask` runs cells there "
            "(in Python, `wb.init(client)`)."
        ]
        assert "local" in kernel.value("__import__('workbench').snapshot().engine")
    finally:
        kernel.ok("%workbench stop\n%unload_ext workbench\ndel sys.modules['distributed']")


def test_this_machine_is_an_engine_too(session: Kernel) -> None:
    session.ok("%workbench start --engine local --workers 1")
    assert session.value("wb.snapshot().engine") == "'local'"
    session.ok("%workbench stop")
    session.ok("wb.init('local', workers=1)")
    assert "can't" not in session.ok("%workbench").text()
