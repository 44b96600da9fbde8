"""The notebooks as `make demo` runs them: whole, in a process and a kernel of their own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests import notebooks
from tests.leaks import nothing_left

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIRST = ROOT / "notebooks" / "01-first-steps.ipynb"
SEEN = ROOT / "notebooks" / "03-what-you-see.ipynb"
LIBRARIES = ROOT / "notebooks" / "08-your-libraries.ipynb"

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
    peak_pss: int = 0
    """Bytes: the most that the processes below it had at once, as often as we looked."""

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
    before: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    look: Callable[[psutil.Process], int] | None = None,
) -> Demo:
    """Run it as a person does, with directories of its own; check that it leaves them empty.

    Parameters
    ----------
    path, output
        The notebook, and where the executed one shall go.
    before
        A command that runs the rest of the line.
    look
        Asked again and again how much memory the run takes.
    """
    runtime = tempfile.mkdtemp(prefix="wb-")  # short enough for sockets
    # Whatever anybody leaves in the file system, Jupyter and matplotlib included, is left here.
    directories = dict.fromkeys(["WORKBENCH_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"], runtime)
    beside = sorted(path.parent.iterdir())
    peak = 0
    try:
        with nothing_left(runtime):
            process = subprocess.Popen(
                [*before, sys.executable, "notebooks/demo.py", str(path), "--output", str(output)],
                cwd=ROOT,
                env={**os.environ, **directories, **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            while True:
                try:
                    out, err = process.communicate(timeout=0.1 if look else None)
                    break
                except subprocess.TimeoutExpired:
                    assert look is not None
                    peak = max(peak, look(psutil.Process(process.pid)))
        assert sorted(os.listdir(runtime)) in (["workbench.lock"], [])
        assert sorted(path.parent.iterdir()) == beside
    finally:
        shutil.rmtree(runtime)
    return Demo(process.returncode, out, err, output, path.stem, peak)


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


# -- as committed ----------------------------------------------------------------------------------


def test_views_are_committed_as_pages_without_a_kernel_show_them() -> None:
    code = [cell for cell in notebooks.read(SEEN).cells if cell.cell_type == "code"]
    shows = [cell for cell in code if re.search(r"wb\.widgets\.|dashboard", cell.source)]
    assert len(shows) == 5
    for cell in shows:
        (output,) = (output for output in cell.outputs if output.output_type == "display_data")
        assert output.data.keys() == {"text/plain", "text/html", "image/png"}, cell.id
        assert "<script" not in output.data["text/html"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_committed_with_its_output_and_without_a_trace_of_a_machine(path: Path) -> None:
    """`make stills` writes it."""
    import nbformat  # not above: see tests/notebooks.py

    notebook = notebooks.read(path)
    nbformat.validate(notebook)
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


# -- as run ----------------------------------------------------------------------------------------


TRANSLATED = [path for path in NOTEBOOKS if path.suffixes[:-1]]
"""Their cells are those of the others: see `test_course`."""


@pytest.fixture(
    scope="module",
    params=[path for path in NOTEBOOKS if path not in TRANSLATED],
    ids=lambda path: path.stem,
)
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Each notebook, run once for the tests that look at it; from within another notebook."""
    environment = {"JPY_SESSION_NAME": "other.ipynb"}
    return run_demo(request.param, tmp_path_factory.mktemp("demo"), environment=environment)


def test_runs_to_its_end_and_says_so(demo: Demo) -> None:
    assert demo.status == 0, demo.err
    assert demo.err == ""
    code = [cell for cell in demo.notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert f"All {len(code)} code cells ran" in demo.out
    assert len(demo.out.splitlines()) <= 12
    for kind in ("html", "ipynb"):
        assert str(demo.output / f"{demo.stem}.{kind}") in demo.out


def test_its_page_has_the_output_and_loads_nothing(demo: Demo) -> None:
    assert "data:image/png;base64," in demo.page
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\W?http[^>]*", demo.page)
    assert not re.findall(r"(?:import\W|@import|url\()\W*https?:[^\n]*", demo.page)


@pytest.mark.parametrize("demo", [SEEN], indirect=True, ids=["03-what-you-see"])
def test_what_you_see_shows_what_the_text_says(demo: Demo) -> None:
    """Each view as it was when its cell ran, though a program runs them without a pause."""
    shown = {cell.id: text_of(cell) for cell in demo.notebook.cells if cell.cell_type == "code"}
    assert "reusable" in shown["occupancy"]
    assert re.search(
        r"darker\[0\][\s\S]*named `table`|named `table`[\s\S]*darker\[0\]", shown["pins"]
    )
    assert "serialized 3 ×: put it once" in shown["costs"]
    assert re.search(r"#1 +brightest +(running|done)", shown["jobs"])
    for view in ("Occupancy", "Pins", "Costs", "Jobs"):
        assert view in shown["dashboard"]
    # What was let go of between two views is not in the second one.
    assert "darker[7]" in shown["pins"]
    assert "darker[7]" not in shown["dashboard"]


SHOWN = {
    "start": r"^Workbench started session \d+-\w+: 2 workers, store of",  # a name of its own
    "data": r"^land: ndarray float32 \(344, 403\), 555 kB in .*; 555 kB copied directly in 1",
    "draw": r"done in [\s\S]*drawn_by, figure, axes, view[\s\S]*drawing \.\.\.[\s\S]*<image/png>",
    "meanwhile": r"highest point: 1076\.0 m\nlowest point:  236\.0 m",
    "reveal-drawer": r"^Make a guess first\.$",
    "check-in_background": r"your kernel did\.[\s\S]*○○○○ First steps: 0 of 4 exercises done",
    "plot": r"<image/png>",
    "curve": r"<image/png>",
    "tasks-get": r"^most land is in the sun at hour 11\.75",
    "repair": r"In\[\d+\], line 3\n[\s\S]*-> 3 steepest = [\s\S]*ValueError: operands could not",
    "status": r"2 workers[\s\S]*  land +ndarray float32.* 55\d kB",
}
"""What the reader of the first notebook sees under each cell that the text speaks of."""


@pytest.mark.parametrize("demo", [FIRST], indirect=True, ids=["01-first-steps"])
@pytest.mark.parametrize("cell", SHOWN)
def test_the_first_steps_show_what_the_text_says(demo: Demo, cell: str) -> None:
    (found,) = (c for c in demo.notebook.cells if c.id == cell)
    assert re.search(SHOWN[cell], text_of(found), re.MULTILINE), text_of(found)


MEASURED = {
    "data": r"^161,730 pictures, 41 MB",
    "loky": r"^ 4 components: \d+\.\d%\n(.*\n){4}32 components: ",
    # Where the machine is busy, a line about progress may come between any two of these.
    "workbench": r"store of [\s\S]*^X: ndarray float32 .*read-only view of it now, 41\.\d MB freed"
    r"[\s\S]*^the same scores: True",
    "plot": r"<image/png>",
    "on_the_pool": r"^The digit with most ink is \d$",
    "grid": r"^workbench: best \d+\.\d%; .* s a search|^\d+ MB are left here",
    "given_back": r"^X +ndarray .* 41\.\d MB",
}
"""What stands under each cell of the one about libraries, whatever it measured."""


@pytest.mark.parametrize("demo", [LIBRARIES], indirect=True, ids=["08-your-libraries"])
@pytest.mark.parametrize("cell", MEASURED)
def test_the_one_about_libraries_shows_what_the_text_says(demo: Demo, cell: str) -> None:
    (found,) = (c for c in demo.notebook.cells if c.id == cell)
    assert re.search(MEASURED[cell], text_of(found), re.MULTILINE), text_of(found)


BROKEN = {
    "a cell raises": (["x = 6", "x / 0", "x"], [], r"x / 0[\s\S]*ZeroDivisionError", 2),
    "a background cell raises": (
        ["%load_ext workbench", "%%remote\n1 / 0", "6 * 7"],
        [],
        r"cell \[2\][\s\S]*ZeroDivisionError",
        2,
    ),
    "an error is expected and doesn't come": (["6 * 7"], ["raises-exception"], "did not", 1),
    "the kernel dies": (["6 * 7", "import os; os._exit(1)"], [], "Kernel died", 2),
}


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


# -- as on Binder: one processor, 2 GB, 64 MB of /dev/shm ------------------------------------------


@dataclass
class Confined:
    """A run of the first notebook under what of Binder's limits this machine lets us set."""

    demo: Demo
    limits: list[str] = field(default_factory=list)
    cgroup_peak: int = 0


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Confined]:
    """Run it once. Processors and MEM_LIMIT always; memory itself and /dev/shm where we may."""
    limits = ["processors"]
    before: list[str] = []
    with contextlib.ExitStack() as stack:
        cgroup = stack.enter_context(memory_cgroup())
        if cgroup is not None:
            limits.append("memory")
            before += ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(cgroup / "cgroup.procs")]
        small = f'mount -t tmpfs -o size={BINDER_SHM} tmpfs /dev/shm && exec "$@"'
        root = [] if os.getuid() == 0 else ["--map-root-user"]
        shm = ["unshare", "--mount", *root, "sh", "-c", small, "sh"]
        if subprocess.run([*shm, "true"], capture_output=True).returncode == 0:
            limits.append("/dev/shm")
            before += shm
        stack.enter_context(one_processor())
        demo = run_demo(
            FIRST,
            tmp_path_factory.mktemp("binder"),
            before=tuple(before),
            environment={"MEM_LIMIT": str(BINDER_MEMORY)},
            look=memory_below,
        )
        peak = 0
        if cgroup is not None:
            peak = max(number(cgroup / "memory.max_usage_in_bytes"), number(cgroup / "memory.peak"))
        yield Confined(demo, limits, peak)


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    """What this thread starts inside has one processor."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def memory_cgroup() -> Iterator[Path | None]:
    """A new cgroup (v1 or v2) in which 2 GB are all there is; None if we may not make one."""
    cgroup = _new_cgroup()
    try:
        yield cgroup
    finally:
        if cgroup is not None:
            cgroup.rmdir()


def _new_cgroup() -> Path | None:
    for parent, limit in (("memory", "memory.limit_in_bytes"), (".", "memory.max")):
        cgroup = Path("/sys/fs/cgroup", parent, f"workbench-test-{os.getpid()}")
        with contextlib.suppress(OSError):
            cgroup.mkdir()
            try:
                (cgroup / limit).write_text(str(BINDER_MEMORY))
            except OSError:  # a directory in which no limit can be set
                cgroup.rmdir()
            else:
                return cgroup
    return None


def number(file: Path) -> int:
    """What a kernel file says; 0 if it isn't there."""
    return int(file.read_text()) if file.exists() else 0


def memory_below(process: psutil.Process) -> int:
    """PSS of all that runs below a process: kernel, server, workers. Shared pages count once."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += child.memory_full_info().pss
    return total


@pytest.mark.parametrize("limit", ["processors", "memory", "/dev/shm"])
def test_runs_under_binders_limits(confined: Confined, limit: str) -> None:
    if limit not in confined.limits:
        pytest.skip(f"we may not limit {limit} here, so the run had all there is")
    assert confined.demo.status == 0, confined.demo.err
    assert "2 workers, store of 644 MB" in confined.demo.out  # 30 % of MEM_LIMIT


def test_takes_less_memory_than_binder_gives(confined: Confined) -> None:
    assert 100e6 < confined.demo.peak_pss < BINDER_MEMORY  # the least shows that we did look
    assert confined.cgroup_peak < BINDER_MEMORY
