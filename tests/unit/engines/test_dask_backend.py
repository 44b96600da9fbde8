"""Who has another Python is refused before any code is sent; no cluster, only a client's words."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from workbench.engines.dask.backend import check_versions
from workbench.errors import SessionError


class Client:
    """A client of Dask's: what it knows of versions. Code that it sends is an error."""

    def __init__(self, scheduler: str, *workers: str) -> None:
        self._versions = {
            "scheduler": self._told(scheduler),
            "workers": {f"tcp://10.0.0.{n}:80": self._told(each) for n, each in enumerate(workers)},
        }

    def _told(self, python: str) -> dict[str, Any]:
        return {"host": {"python": f"{python}.final.0"}, "packages": {}}

    def get_versions(self) -> dict[str, Any]:
        return self._versions

    def run(self, function: Any) -> Any:
        raise AssertionError("it was sent")


OURS = platform.python_version()


def test_only_those_with_the_same_python_get_code() -> None:
    with pytest.raises(SessionError) as error:
        check_versions(Client(OURS, OURS, "3.1.2"))
    said = str(error.value)
    assert f"Python {OURS}, and the workers at tcp://10.0.0.1:80 run Python 3.1.2:" in said
    with pytest.raises(SessionError, match=r"the scheduler's processes run Python 3\.1\.2"):
        check_versions(Client("3.1.2"))
    with pytest.raises(AssertionError, match="it was sent"):
        check_versions(Client(OURS, OURS))
