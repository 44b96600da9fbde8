"""What the workers of a Dask cluster have is compared with what is here; and Workbench is sent, if
they have none: as a zip file that Dask puts on their paths, now and after a restart."""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import workbench
from workbench.engines.probe import EXPRESSION, compare, found, here, python_refusal
from workbench.errors import SessionError


def prepare(client: Any) -> None:
    """See the module. SessionError if the workers can't have us; what may go wrong is warned of."""
    ours, code = here(), EXPRESSION
    # By what Dask itself knows: another Python might end over a function of ours.
    told = client.get_versions()
    asked = {f"the workers at {address}": each for address, each in told["workers"].items()}
    for who, each in {"the scheduler's processes": told["scheduler"], **asked}.items():
        theirs = ".".join(each["host"]["python"].split(".")[:3])  # it goes on: .final.0
        if refusal := python_refusal(ours.python, theirs, who):
            raise SessionError(refusal)

    digest, name = ours.workbench, f"workbench-{ours.workbench}.zip"

    def look() -> Any:  # it travels by value: there may be no Workbench
        import sys

        was_sent = any(path.endswith(name) for path in sys.path)
        return {**eval(code), **({"workbench": digest} if was_sent else {})}

    answers = [found(each) for each in (*client.run(look).values(), client.run_on_scheduler(look))]
    verdict = compare(ours, answers)
    if verdict.refusal:
        raise SessionError(verdict.refusal)
    for warning in verdict.warnings:
        warnings.warn(warning, stacklevel=4)
    if other := [each.node for each in answers if each.workbench not in ("", ours.workbench)]:
        raise SessionError(f"Another Workbench is installed on {other[0]}: install this one there.")
    if any(not each.workbench for each in answers):
        with tempfile.TemporaryDirectory() as directory:
            path, package = os.path.join(directory, name), Path(workbench.__file__).parent
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in package.rglob("*"):
                    if file.is_file() and "__pycache__" not in file.parts:
                        archive.write(file, file.relative_to(package.parent))
            client.upload_file(path)
