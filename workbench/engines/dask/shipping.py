"""What the workers of a Dask cluster have is compared with what is here, and Workbench sent if they
lack it: as a zip file that Dask puts on their paths, now and after a restart."""

from __future__ import annotations

import os
import platform
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workbench
from workbench.engines.probe import EXPRESSION, compare, found, here, python_refusal
from workbench.errors import SessionError


def prepare(client: Any) -> None:
    """See the module. SessionError if the workers can't have us; what may go wrong is warned of."""
    ours = here()
    _refuse_other_pythons(client, ours.python)
    name = f"workbench-{ours.workbench}.zip"
    look = _look(name)
    answers = [*client.run(look).values(), client.run_on_scheduler(look)]
    verdict = compare(ours, [found(what) for what, _ in answers])
    if verdict.refusal:
        raise SessionError(verdict.refusal)
    for each in verdict.warnings:
        warnings.warn(each, stacklevel=4)
    if any(what["workbench"] != ours.workbench and not has_file for what, has_file in answers):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, name)
            write_zip(path)
            client.upload_file(path)
        forget = _forget()
        client.run(forget)
        client.run_on_scheduler(forget)


def _refuse_other_pythons(client: Any, ours: str) -> None:
    """By what Dask itself knows: to ask with a function of ours would end their processes."""
    told = client.get_versions()
    asked = {"the scheduler's processes": told["scheduler"]}
    asked |= {f"the workers at {address}": each for address, each in told["workers"].items()}
    for who, each in asked.items():
        theirs = ".".join(each["host"]["python"].split(".")[:3])  # it goes on: .final.0
        if refusal := python_refusal(ours, theirs, who):
            raise SessionError(refusal)


def _look(name: str) -> Callable[[], Any]:
    """What runs there travels by value, as a function inside of one does: there may be no Workbench
    yet, or another."""
    code = EXPRESSION

    def look() -> Any:
        import sys

        return eval(code), any(path.endswith(name) for path in sys.path)

    return look


def _forget() -> Callable[[], None]:
    """See `_look`. What was imported of another Workbench is imported anew; but not here, where the
    scheduler of a cluster is that was made in this process (dask-jobqueue makes such)."""
    me = platform.node(), os.getpid()

    def forget() -> None:
        import os
        import platform
        import sys

        if (platform.node(), os.getpid()) == me:
            return
        for module in [m for m in sys.modules if m.partition(".")[0] == "workbench"]:
            del sys.modules[module]

    return forget


def write_zip(path: str) -> None:
    """The package as it is here."""
    package = Path(workbench.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
