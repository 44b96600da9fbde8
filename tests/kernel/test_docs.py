"""The documentation: the Python blocks of each page run as cells, and the pages can be built."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import Kernel
from tests.patience import TEST_TIMEOUT

ROOT = Path(__file__).parents[2]

BLOCK = re.compile(r"^( *)```python(?: raises=(\w+))?\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
"""A block, how far it is indented, and what it raises."""


def cells(page: Path) -> Iterator[tuple[str, str | None]]:
    """What a page has its reader type, and the error that it shows."""
    for indent, raises, text in BLOCK.findall(page.read_text()):
        yield re.sub(rf"(?m)^{indent}", "", text), raises or None


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.parts[-2] != "notebooks" and any(cells(page))
]


def _with_marks(page: Path) -> Any:
    """torch is there only for `make slow`."""
    uses_torch = "import torch" in page.read_text()
    return pytest.param(page, marks=pytest.mark.slow if uses_torch else (), id=page.stem)


@pytest.mark.parametrize("page", [_with_marks(page) for page in PAGES])
def test_what_a_page_shows_runs(session: Kernel, page: Path) -> None:
    for text, raises in cells(page):
        cell = session.run(text)
        assert cell.error == raises, cell.failure or text


def test_pages_with_code_are_found() -> None:
    assert {"README", "what-cant-be-pickled", "coming-from-others"} <= {p.stem for p in PAGES}


@pytest.mark.extended
@pytest.mark.timeout(5 * TEST_TIMEOUT)
def test_the_pages_can_be_built(tmp_path: Path) -> None:
    """A broken link, a picture that isn't there, a bad docstring: warnings, so errors."""
    build = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "--keep-going", "-E"]
    built = subprocess.run(
        [*build, "-b", "html", "-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "html"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    magics = (tmp_path / "html/reference/magics.html").read_text()
    assert "what comes back; default: what the cell assigns" in magics  # from the parser
    shell = (tmp_path / "html/reference/shell.html").read_text()
    assert "the id that" in shell


def test_the_first_page_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size < 8_000
