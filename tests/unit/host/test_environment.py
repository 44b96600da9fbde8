"""What has changed around a notebook, and a worker that takes it on. In this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.host.environment import Baseline, Environment, move


@pytest.fixture(autouse=True)
def _path() -> Iterator[None]:
    before = sys.path[:]
    yield
    sys.path[:] = before


def test_only_what_has_changed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOES", "1")
    baseline = Baseline()
    assert baseline.difference() is None
    monkeypatch.setenv("COMES", "2")
    monkeypatch.delenv("GOES")
    assert baseline.difference() == Environment(environ=(("COMES", "2"), ("GOES", None)))
    monkeypatch.chdir(tmp_path)
    sys.path[:] = ["", "/else"]
    found = baseline.difference()
    assert found is not None
    assert (found.directory, found.path) == (str(tmp_path), (str(tmp_path), "/else"))


def test_in_anothers_session_nobody_knows_where_the_workers_are() -> None:
    found = Baseline(shared=False).difference()
    assert found is not None
    assert found.directory == os.getcwd()
    assert found.path
    assert not found.environ


def test_new_entries_of_the_path_keep_their_side() -> None:
    for theirs, becomes in (
        ("one a two b", "one a b two"),
        ("b", "a b"),  # what is there stays
        ("x y", "a b x y"),
    ):
        sys.path[:] = ["a", "b"]
        move(Environment(path=tuple(theirs.split())))
        assert sys.path == becomes.split()


def test_variables_come_and_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOES", "1")
    monkeypatch.setenv("COMES", "1")
    monkeypatch.chdir(os.getcwd())
    move(Environment(str(tmp_path), (), (("GOES", None), ("COMES", "2"), ("NEVER", None))))
    assert os.getcwd() == str(tmp_path)
    assert (os.environ.get("GOES"), os.environ["COMES"]) == (None, "2")


def test_a_directory_that_is_not_there_is_said_once_a_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker may be on another machine: it stays where it is."""
    monkeypatch.chdir(tmp_path)
    gone = str(tmp_path / "gone")
    for cell in ("one", "one", "two"):
        move(Environment(gone), f"{tmp_path} cell {cell}")
    assert os.getcwd() == str(tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert f"The notebook is in {gone}, and this worker, on " in said[0]
    assert f"the cell runs in {tmp_path}" in said[0]
