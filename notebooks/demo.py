"""`make demo`: runs a notebook in a real kernel, keeps it with its output, says what it did.

It knows nothing of what a notebook is about: what the cells tagged `summary` print is the summary.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbformat import NotebookNode

from workbench.cli.execution import Execution, ExecutionResult

HERE = Path(__file__).resolve().parent
FIRST = HERE / "01-first-steps.ipynb"
OUTPUT = HERE.parent / "build" / "demo"

CELL_SECONDS = 300
"""A cell that takes longer has got stuck."""

# nbconvert's page without the scripts it would load from the network, and not wider than one reads.
PAGE = """
{%- extends "index.html.j2" -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block extra_css -%}<style>main { max-width: 62rem; margin: 0 auto; }</style>{%- endblock -%}
"""


def run(path: Path) -> tuple[NotebookNode, ExecutionResult]:
    """Execute a notebook in a kernel of its own, in the notebook's directory.

    Return it with its output, and how that ended; a surprise is a problem, too.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="workbench-demo-") as profile:
        environment = _environment(profile)
        done = Execution(notebook, path.parent, environment, limit=CELL_SECONDS).run()
    if done.state == "done":
        problem = "\n".join(_surprises(notebook))
    else:
        problem = done.problem or "Interrupted."
    return notebook, done._replace(problem=problem)


def _environment(profile: str) -> dict[str, str]:
    """For a run that is nobody's own: no IPython profile that changes it, no history that keeps
    it.
    """
    # Where joblib's processes were used, a kernel ends so slowly that it is killed. What cleans up
    # after it would say so here.
    quiet = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"]))
    return {**os.environ, "IPYTHONDIR": profile, "PYTHONWARNINGS": quiet}


def _surprises(notebook: NotebookNode) -> Iterator[str]:
    """Errors that a background cell showed without failing, and expected ones that didn't come."""
    for cell in _code(notebook):
        errors = [output for output in cell.outputs if output.output_type == "error"]
        expected = "raises-exception" in cell.metadata.get("tags", ())
        if errors and not expected:
            yield "\n".join([f"In cell [{cell.execution_count}]:", *errors[0].traceback])
        if expected and not errors:
            yield f"Cell [{cell.execution_count}] should have raised, and did not."


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def summary(notebook: NotebookNode) -> list[str]:
    """What the cells tagged ``summary`` printed, line by line."""
    return [
        line
        for cell in _code(notebook)
        if "summary" in cell.metadata.get("tags", ())
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
        for line in output.text.splitlines()
    ]


def save(notebook: NotebookNode, stem: Path) -> None:
    """Write ``stem.ipynb``, and ``stem.html`` that needs nothing else to be read."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, _file(stem, "ipynb"))
    # IPython's own lexer leaves a cell below a magic that it doesn't know without colours.
    colours = Highlight2HTML(pygments_lexer="python3")
    exporter = HTMLExporter(raw_template=PAGE, filters={"highlight_code": colours})
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": stem.name}})
    _file(stem, "html").write_text(page, encoding="utf-8")


def _file(stem: Path, kind: str) -> Path:
    """With an ending; a translation's ``.zh`` is none."""
    return stem.with_name(f"{stem.name}.{kind}")


def main() -> int:
    """Run, save, report."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("notebook", nargs="?", type=Path, default=FIRST)
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    options = parser.parse_args()

    if not options.notebook.is_file():
        parser.error(f"there is no file {options.notebook}")
    print(f"Running {_short(options.notebook)} ...", flush=True)
    notebook, done = run(options.notebook)
    stem = options.output / options.notebook.stem
    save(notebook, stem)
    page = _short(_file(stem, "html"))
    cells = _code(notebook)
    if done.problem:
        colourless = re.sub(r"\x1b\[[0-9;]*m", "", done.problem)
        reached = f"It came to code cell {done.reached} of {len(cells)}. The page so far: {page}"
        print(f"\n{colourless}\n\n{reached}", file=sys.stderr)
        return 1
    print(f"All {len(cells)} code cells ran, in {done.seconds:.1f} s:\n")
    print(*(f"    {line}" for line in summary(notebook)), sep="\n")
    print(f"\nThe page with its output:  {page}")
    print(f"The executed notebook:     {_short(_file(stem, 'ipynb'))}")
    print("To run it yourself:        make lab")
    return 0


def _short(path: Path) -> str:
    """The path as one would type it here."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
