"""What Binder would install, and what its last step leaves. No docker, no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.patience import TEST_TIMEOUT

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
LINES = [
    line
    for line in (BINDER / "requirements.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PINS = {canonicalize_name(line.partition("==")[0]): line for line in LINES}


def test_every_line_is_an_exact_pin_of_what_the_project_asks_for() -> None:
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9][\w.-]*==[0-9][\w.+]*", line), line
    assert len(PINS) == len(LINES), "something is pinned twice"
    wanted = PROJECT["dependencies"], PROJECT["optional-dependencies"]["lab"], BUILD["requires"]
    for requirement in map(Requirement, chain.from_iterable(wanted)):
        (exactly,) = Requirement(PINS[canonicalize_name(requirement.name)]).specifier
        assert requirement.specifier.contains(exactly.version), requirement


def test_a_container_starts_what_it_is_told_with_its_settings() -> None:
    told = subprocess.run([BINDER / "start", "printenv", "WORKBENCH_IDLE"], capture_output=True)
    assert told.stdout == b"30s\n"


@pytest.mark.extended
@pytest.mark.timeout(5 * TEST_TIMEOUT)
def test_the_last_step_makes_every_server_open_a_notebook_that_is_there(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"  # an environment to write into, with all that this one has
    venv.create(prefix, symlinks=True)
    (library,) = prefix.glob("lib/python3*/site-packages")
    (library / "ours.pth").write_text("\n".join(p for p in sys.path if p.endswith("-packages")))
    environment = {
        "PATH": os.pathsep.join([str(prefix / "bin"), sysconfig.get_path("scripts"), os.defpath]),
        "HOME": str(tmp_path),
    }
    subprocess.run([BINDER / "postBuild"], cwd=ROOT, env=environment, check=True)
    assert list(library.glob("ipyworkbench-*.dist-info"))
    config = json.loads((prefix / "etc/jupyter/jupyter_server_config.json").read_text())
    assert config.keys() == {"ServerApp", "LabApp", "JupyterNotebookApp"}
    for server in config.values():
        assert (ROOT / server["default_url"].removeprefix("/lab/tree/")).is_file()
    assert list(tmp_path.glob(".local/share/jupyter/nbsignatures.db"))
    assert list(tmp_path.glob(".cache/matplotlib/fontlist-*.json"))
