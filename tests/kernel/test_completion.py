"""Tab, as a front end asks a real kernel for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.conftest import Kernel
from tests.patience import TIMEOUT


def offered(kernel: Kernel, code: str, at: int | None = None) -> list[str]:
    """What the code may become, with the cursor at its end or ``at`` a place."""
    place = len(code) if at is None else at
    id = kernel.client.complete(code, place)
    reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
    while reply["parent_header"].get("msg_id") != id:
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
    content = reply["content"]
    start, end = content["cursor_start"], content["cursor_end"]
    return [code[:start] + match + code[end:place] for match in content["matches"]]


@pytest.fixture(params=["no jedi", pytest.param("jedi", marks=pytest.mark.extended)])
def desk(session: Kernel, request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A session with two variables, two names in the store, a ref and a job."""
    session.ok(f"get_ipython().Completer.use_jedi = {request.param == 'jedi'}")
    session.ok("table, other, _hidden = [1], 2, 3\n%put table\n%put --name stored 4")
    session.ok("ref = wb.put(5)")
    session.ok("%%remote -w\n1")
    with session.patient("workbench.ipython.completion"):
        yield session


def test_options_names_actions_and_jobs(desk: Kernel) -> None:
    assert offered(desk, "%put --") == ["%put --name", "%put --pin", "%put --replace"]
    assert offered(desk, "%get x --c") == ["%get x --copy", "%get x --cow"]
    assert offered(desk, "%%remote --w\ntable", at=12) == ["%%remote --wait"]
    assert offered(desk, "%workbench start --mem") == ["%workbench start --memory"]
    assert offered(desk, "%put ta") == ["%put table"]
    assert offered(desk, "%put table o") == ["%put table other"]
    assert offered(desk, "held = %put o") == ["held = %put other"]
    assert offered(desk, "x = 1\n%put ta") == ["x = 1\n%put table"]
    assert offered(desk, "%put --name s") == ["%put --name stored"]
    assert offered(desk, "%get st") == ["%get stored"]
    for magic in ("get", "why", "free", "pin", "unpin", "spill"):
        assert offered(desk, f"%{magic} ") == [f"%{magic} {n}" for n in ("ref", "stored", "table")]
    assert offered(desk, "%objects t") == ["%objects table"]
    assert offered(desk, "%objects --sort a") == ["%objects --sort age"]
    assert offered(desk, "%cost st") == ["%cost stored"]
    assert offered(desk, "%inspect _h") == ["%inspect _hidden"]
    begun = [f"%workbench {action}" for action in ("start", "status", "stop")]
    assert offered(desk, "%workbench st") == begun
    assert offered(desk, "%workbench da") == ["%workbench dashboard"]
    job = desk.value("wb.api.snapshot().jobs[-1].name").strip("'")
    assert f"%workbench jobs {job}" in offered(desk, "%workbench jobs ")
    assert f"%workbench job {job}" in offered(desk, "%workbench job ")
    assert f"%workbench jobs {job}" in offered(desk, f"%workbench jobs {job[:-1]}")


def test_python_is_left_to_python(desk: Kernel) -> None:
    assert "%%remote\ntable" in offered(desk, "%%remote\nta")
    assert "%%remote\nx = table" in offered(desk, "%%remote\nx = ta")
    if desk.value("get_ipython().Completer.use_jedi") == "True":  # the other one can't, from 9 on
        assert any(text.endswith("append") for text in offered(desk, "%put table.app"))
    assert "%put len(table" in offered(desk, "%put len(ta")
    assert "table" in offered(desk, "ta")
    assert not any("--wait" in text for text in offered(desk, "x = 1\n%%remote --w"))


def test_without_a_session_only_variables_are_known(fresh: Kernel) -> None:
    fresh.ok("table = [1]")
    assert "%get stored" not in offered(fresh, "%get st")
    assert offered(fresh, "%put ta") == ["%put table"]
    assert fresh.value("wb.is_initialized()") == "False"
    fresh.ok("%unload_ext workbench")
    assert fresh.value("get_ipython().Completer.custom_matchers") == "[]"
    assert not any("--name" in text for text in offered(fresh, "%put --"))
