"""A notebook that was written for Ray, cell by cell, with ``import workbench as ray`` in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.conftest import Kernel

NOTEBOOK = Path(__file__).parent / "ray_serialization.ipynb"
"""About Ray's serialization. Its author marked the statements that fail: ``# fail!``."""


def cells() -> Iterator[str]:
    """Its cells, with our import, and a hundredth of the seconds that an actor stirs."""
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        text = "".join(cell["source"]).replace("import ray", "import workbench as ray")
        yield re.sub(r"(?<=sleep\()2\)", "0.02)", text)


def pieces(cell: str) -> Iterator[tuple[str, bool]]:
    """A cell's text up to a statement that fails, that statement, and so on; whether it fails."""
    for piece in re.split(r"(?m)^(.*# (?:still )?fail!)$", cell):
        if piece.strip():
            yield piece, piece.endswith("fail!")


def test_the_source_notebook_runs_to_its_end(kernel: Kernel) -> None:
    drinks, failed = [], 0
    for text in cells():
        for piece, fails in pieces(text):
            cell = kernel.run(piece)
            if fails:
                failed += 1
                assert cell.error == "SerializationError"
                assert "A.lock" in cell.failure
                kernel.ok("import sys\nassert issubclass(sys.last_type, TypeError)")  # as Ray's
            else:
                assert cell.error is None, cell.failure
            drinks += re.findall(r"is it good drink, (\w+)", cell.text())
    assert failed == 5
    assert drinks == 2 * ["False", "False", "True"] + 3 * ["False"]
    kernel.ok("assert isinstance(ray.get(ray.put(A_with_reduce(1))), A_with_reduce)")
    kernel.ok("ray.shutdown()")


def test_an_exit_in_a_namespace_s_cell_is_the_cell_s_error(session: Kernel) -> None:
    """In a method of an actor it ends the actor, as Ray's."""
    session.ok("%%remote --actor db --wait\nkept = 7")
    assert "SystemExit" in session.run("%%remote --actor db -w\nimport sys; sys.exit(1)").failure
    assert session.value("kept", after="%%remote --actor db --wait -o kept\npass") == "7"
