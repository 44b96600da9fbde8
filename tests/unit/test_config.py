"""Where a session's settings come from, on machines and in containers made of files."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

import workbench
from tests.tables import tables
from tests.unit.kernels import kernel_files
from workbench import config
from workbench.errors import ConfigError

GIB = 1 << 30
NOWHERE = Path("nowhere.toml")


def test_the_store_takes_its_share(tmp_path: Path) -> None:
    got = config.load(environ={}, root=kernel_files(tmp_path, {}), file=NOWHERE)
    assert got.memory == int(16 * GIB * config.SHARE_OF_MEMORY)
    assert got.workers == got.cpus
    assert got.linger == 0.0
    assert got.session == ""


def test_who_speaks_last_is_heard(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('workers = 3\nmemory = "1GB"\nlinger = "10m"\n')
    environ = {"WORKBENCH_WORKERS": "4", "WORKBENCH_MEMORY": "2GB", "WORKBENCH_SESSION": ""}
    given = {"workers": 5, "memory": None}
    got = config.load(given, environ=environ, root=tmp_path, file=file)
    assert (got.workers, got.memory, got.linger, got.session) == (5, 2 * 10**9, 600.0, "")


@pytest.mark.parametrize(("says", "given"), tables(__file__)[""])
def test_a_bad_setting_says_which_and_what_would_do(says: str, given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(eval(f"dict({given})"), environ={}, file=NOWHERE)
    assert says in str(caught.value)


def test_a_bad_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="from the environment"):
        config.load(environ={"WORKBENCH_WORKERS": "many"}, file=NOWHERE)
    file = tmp_path / "config.toml"
    file.write_text("workers = -1")
    with pytest.raises(ConfigError, match=r"workers=-1 \(from .*config.toml"):
        config.load(environ={}, file=file)


@pytest.mark.parametrize(
    "text",
    [
        *(b"workers = = 3", b"\xff\xfe", b"workers = " + b"[" * 30_000),
        *(b"workers = " + b"9" * 5000, b"#" * 2**21),
    ],
    ids=["no TOML", "no text", "deep", "a long number", "large"],
)
def test_a_config_file_that_cannot_be_read_says_so(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"config.toml is not valid TOML"):
        config.load(environ={}, file=file)


def test_a_pipe_in_the_config_files_place_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is a pipe"):
        config.load(environ={}, file=file)


def test_a_store_larger_than_the_container_is_told(tmp_path: Path) -> None:
    root = kernel_files(tmp_path, {})
    there = 16 * GIB
    found = config.load({"memory": there}, environ={}, root=root, file=NOWHERE)
    assert config.too_large(found, {}, root) == ""
    assert "and there are 1 GB of memory" in config.too_large(found, {"MEM_LIMIT": "1GB"}, root)
    assert "(`memory='300MB'`)" in config.too_large(found, {"MEM_LIMIT": "1GB"}, root)


def test_a_config_file_that_is_none_does_not_count(tmp_path: Path) -> None:
    given = {"workers": 2, "memory": 1 << 30}
    for file in (tmp_path, tmp_path / "missing.toml", tmp_path / "missing" / "config.toml"):
        assert config.load(given, environ={}, file=file).workers == 2


def test_a_notebook_keeps_its_session_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that it starts inherits the environment, and has no cells."""
    environ = {"JPY_SESSION_NAME": "a.ipynb"}
    found = config.load(environ=environ, file=NOWHERE)
    assert (config.notebook_session(environ), found.session, found.linger) == ("", "", 0.0)
    shell = SimpleNamespace(get_ipython=object)
    monkeypatch.setitem(sys.modules, "IPython", cast(ModuleType, shell))
    one = config.notebook_session({"JPY_SESSION_NAME": "work/My analysis (2).ipynb"})
    assert one == config.notebook_session({"JPY_SESSION_NAME": "work/My analysis (2).ipynb"})
    assert one.startswith("My-analysis-2-")
    assert one != config.notebook_session({"JPY_SESSION_NAME": "play/My analysis (2).ipynb"})
    assert config.load(environ=environ, file=NOWHERE).linger == 120.0
    assert config.notebook_session({}) == ""


def test_the_page_says_where_each_is_set() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    said = dict(re.findall(r"(?m)^\| `(\w+)` \| (?:`(\w+)=` )?\|", page.read_text()))
    taken = inspect.signature(workbench.init).parameters
    assert said == {name: name if name in taken else "" for name in said}


def test_threads_are_shared_out_among_the_workers() -> None:
    assert config.Config(workers=2, cpus=8).threads == 4
    assert config.Config(workers=8, cpus=2).threads == 1
