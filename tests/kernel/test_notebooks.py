"""The notebooks as `make demo` runs them: whole, in a process and a kernel of their own, each once.
The first one has what Binder gives: one processor, 2 GB, 64 MB of /dev/shm. And one that was
written for Ray, cell by cell, with ``import workbench as ray`` in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastjsonschema  # nbformat brings it
import pytest

from tests import notebooks
from tests.kernel.conftest import Kernel
from tests.leaks import nothing_left
from tests.tables import tables

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIRST = ROOT / "notebooks" / "01-first-steps.ipynb"
SEEN = ROOT / "notebooks" / "03-what-you-see.ipynb"

BINDER_MEMORY = 2 << 30
BINDER_SHM = 64 << 20


@dataclass
class Demo:
    """One run of the demo, and what it left to be read."""

    status: int
    out: str
    err: str
    output: Path
    stem: str

    @property
    def page(self) -> str:
        return (self.output / f"{self.stem}.html").read_text()

    @property
    def notebook(self) -> notebooks.Node:
        return notebooks.read(self.output / f"{self.stem}.ipynb")


def run_demo(
    path: Path,
    output: Path,
    *,
    before: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Demo:
    """Run it as a person does, with directories of its own; check that it leaves them empty.

    ``before`` is a command that runs the rest of the line.
    """
    runtime = tempfile.mkdtemp(prefix="wb-")  # short enough for sockets
    # Whatever anybody leaves in the file system, Jupyter and matplotlib included, is left here.
    directories = dict.fromkeys(["WORKBENCH_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"], runtime)
    beside = sorted(path.parent.iterdir())
    try:
        with nothing_left(runtime):
            done = subprocess.run(
                [*before, sys.executable, "notebooks/demo.py", str(path), "--output", str(output)],
                cwd=ROOT,
                env={**os.environ, **directories, **(environment or {})},
                capture_output=True,
                text=True,
            )
        assert sorted(os.listdir(runtime)) in (["workbench.lock"], [])
        assert sorted(path.parent.iterdir()) == beside
    finally:
        shutil.rmtree(runtime)
    return Demo(done.returncode, done.stdout, done.stderr, output, path.stem)


def text_of(cell: notebooks.Node) -> str:
    """All that stands under a cell, as text."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append("\n".join(output.traceback))
        else:
            parts += [f"<{mime}>" for mime in output.data] + [output.data.get("text/plain", "")]
    return re.sub(r"\n+", "\n", re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(parts)))


def test_views_are_committed_as_pages_without_a_kernel_show_them() -> None:
    code = [cell for cell in notebooks.read(SEEN).cells if cell.cell_type == "code"]
    shows = [cell for cell in code if re.search(r"wb\.widgets\.|dashboard", cell.source)]
    assert len(shows) == 5
    for cell in shows:
        (output,) = (output for output in cell.outputs if output.output_type == "display_data")
        assert output.data.keys() == {"text/plain", "text/html"}, cell.id
        assert "<script" not in output.data["text/html"]


@cache
def schema_check() -> Callable[[object], object]:
    """Return what raises for a notebook that nbformat's schema doesn't allow.

    nbformat isn't imported for it: jsonschema, which that needs, builds dozens of grammars then.
    """
    spec = find_spec("nbformat")
    assert spec is not None
    assert spec.origin is not None
    schema = Path(spec.origin).parent / "v4" / "nbformat.v4.5.schema.json"
    check: Callable[[object], object] = fastjsonschema.compile(json.loads(schema.read_text()))
    return check


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_committed_with_its_output_and_without_a_trace_of_a_machine(path: Path) -> None:
    """`make stills` writes it."""
    notebook = notebooks.read(path)
    schema_check()(json.loads(path.read_text()))
    assert notebook.metadata == notebooks.METADATA
    for cell in notebook.cells:
        assert cell.metadata.keys() <= {"tags", "jupyter"}, cell.id
        assert cell.metadata.get("jupyter", {}) in ({}, {"source_hidden": True}), cell.id
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    text = path.read_text()
    for trace in ("/home/", "/root/", "/tmp/", "ipykernel_launcher"):
        assert trace not in text
    expected = [cell.id for cell in code if "raises-exception" in cell.metadata.get("tags", ())]
    failed = [c.id for c in code if any(out.output_type == "error" for out in c.outputs)]
    assert failed == expected
    assert len(text) < 700_000


SHOWN = tables(__file__)


def ran(path: Path, output: Path, **how: Any) -> Demo:
    """Run it from within another notebook, and check all that stands in its page."""
    environment = {"JPY_SESSION_NAME": "other.ipynb", **how.pop("environment", {})}
    demo = run_demo(path, output, environment=environment, **how)
    assert (demo.status, demo.err) == (0, "")
    code = [cell for cell in demo.notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert f"All {len(code)} code cells ran" in demo.out
    assert len(demo.out.splitlines()) <= 12
    for kind in ("html", "ipynb"):
        assert str(demo.output / f"{demo.stem}.{kind}") in demo.out
    assert "data:image/png;base64," in demo.page
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\W?http[^>]*", demo.page)
    assert not re.findall(r"(?:import\W|@import|url\()\W*https?:[^\n]*", demo.page)
    shown = {cell.id: text_of(cell) for cell in code}
    for id, pattern in SHOWN.get(path.stem, ()):
        assert re.search(pattern, shown[id], re.MULTILINE), f"{id}: {shown[id]}"
    return demo


@pytest.mark.extended
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem)
        for path in NOTEBOOKS
        # The cells of translated ones are those of the others: see `test_course`.
        if path != FIRST and not path.suffixes[:-1]
    ],
)
def test_runs_to_its_end_and_shows_what_its_text_says(path: Path, tmp_path: Path) -> None:
    ran(path, tmp_path)


def test_the_first_one_runs_so_under_binders_limits(tmp_path: Path) -> None:
    """Processors and MEM_LIMIT always; /dev/shm where we may limit it."""
    small = f'mount -t tmpfs -o size={BINDER_SHM} tmpfs /dev/shm && exec "$@"'
    root = [] if os.getuid() == 0 else ["--map-root-user"]
    shm = ["unshare", "--mount", *root, "sh", "-c", small, "sh"]
    if subprocess.run([*shm, "true"], capture_output=True).returncode:
        shm = []
    limit = {"MEM_LIMIT": str(BINDER_MEMORY)}
    one_processor = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    demo = ran(FIRST, tmp_path, before=[*one_processor, *shm], environment=limit)
    assert "2 workers, store of 644 MB" in demo.out  # 30 % of MEM_LIMIT


BROKEN = {
    "a cell raises": (["x = 6", "x / 0", "x"], [], r"x / 0[\s\S]*ZeroDivisionError", 2),
    "an error is expected and doesn't come": (["6 * 7"], ["raises-exception"], "did not", 1),
    "the kernel dies": (["6 * 7", "import os; os._exit(1)"], [], "Kernel died", 2),
}


@pytest.mark.extended
@pytest.mark.parametrize("case", BROKEN)
def test_what_goes_wrong_is_said_and_the_rest_is_kept(case: str, tmp_path: Path) -> None:
    sources, tags, said, reached = BROKEN[case]
    path = tmp_path / "notebooks" / "broken.ipynb"
    path.parent.mkdir()
    notebooks.write(path, sources, tags)
    demo = run_demo(path, tmp_path / "out")
    assert demo.status == 1
    assert re.search(said, demo.err), demo.err
    assert "\x1b" not in demo.err
    assert f"code cell {reached} of {len(sources)}" in demo.err
    assert str(tmp_path / "out" / "broken.html") in demo.err
    assert demo.notebook.cells[0].execution_count == 1
    assert "<html" in demo.page


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
