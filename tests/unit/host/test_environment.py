"""What has changed around a notebook, and a worker that takes it on. In this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from workbench.host.environment import Baseline, Environment, move, within


def test_only_what_has_changed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOES", "1")
    baseline = Baseline()
    assert baseline.difference() is None
    monkeypatch.setenv("COMES", "2")
    monkeypatch.delenv("GOES")
    assert baseline.difference() == Environment(environ=(("COMES", "2"), ("GOES", None)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/else"])
    found = baseline.difference()
    assert found is not None
    assert (found.directory, found.path) == (str(tmp_path), (str(tmp_path), "/else"))


def test_in_anothers_session_nobody_knows_where_the_workers_are() -> None:
    found = Baseline(shared=False).difference()
    assert found is not None
    assert found.directory == os.getcwd()
    assert found.path
    assert not found.environ


@pytest.mark.parametrize(
    ("theirs", "becomes"),
    [
        ("a b", "a b"),
        ("new a b", "new a b"),
        ("a b new", "a b new"),
        ("one a two b", "one a b two"),
        ("b", "a b"),  # what is there stays
        ("x y", "a b x y"),
    ],
)
def test_new_entries_of_the_path_keep_their_side(
    monkeypatch: pytest.MonkeyPatch, theirs: str, becomes: str
) -> None:
    monkeypatch.setattr(sys, "path", ["a", "b"])
    move(Environment(path=tuple(theirs.split())))
    assert sys.path == becomes.split()


def test_afterwards_all_but_the_path_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOES", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = os.getcwd()
    around = Environment(str(tmp_path), ("/new",), (("GOES", None), ("COMES", "2")))
    with within(around):
        assert os.getcwd() == str(tmp_path)
        assert (os.environ.get("GOES"), os.environ["COMES"]) == (None, "2")
    assert os.getcwd() == before
    assert (os.environ["GOES"], os.environ.get("COMES")) == ("1", None)
    assert "/new" in sys.path
    with pytest.raises(FileNotFoundError), within(Environment(str(tmp_path / "gone"))):
        pass
    assert os.getcwd() == before


def test_a_directory_that_is_removed_meanwhile_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STAYS", "1")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    with within(Environment(str(tmp_path), (), (("STAYS", "2"),))):
        home.rmdir()
    assert os.environ["STAYS"] == "1"


def test_interrupted_on_its_way_back_it_still_gets_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STAYS", "1")
    before, chdir = os.getcwd(), os.chdir
    presses = iter([None])

    def pressed(directory: str) -> None:
        for _ in presses:
            raise KeyboardInterrupt
        chdir(directory)

    with (
        pytest.raises(KeyboardInterrupt),
        within(Environment(str(tmp_path), (), (("STAYS", "2"),))),
    ):
        monkeypatch.setattr(os, "chdir", pressed)
    assert (os.getcwd(), os.environ["STAYS"]) == (before, "1")
