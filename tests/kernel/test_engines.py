"""Choosing an engine in a notebook, where neither Ray nor Dask is needed for the answer."""

from __future__ import annotations

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
