"""What people read in the app has no jargon that notebook 2 doesn't introduce."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "workbench"

ROOMS = ("report", "ipython", "errors", "error_notes", "cli", "widgets", "api", "course")

JARGON = re.compile(
    r"\b(in[- ]band|out[- ]of[- ]band|resident|warm|extents?|arenas?)\b"
    r"|\bby the kernel because|\bask the kernel for"  # Linux, and not the notebook's
)


def sentences(source: str) -> Iterator[str]:
    """Texts of at least four words, without docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (n.value if isinstance(n, ast.Constant) else "…" for n in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in docstrings and len(text.split()) > 3:
            yield text


@pytest.mark.parametrize("room", ROOMS)
def test_what_people_read_has_no_jargon(room: str) -> None:
    texts = [t for path in (PACKAGE / room).rglob("*.py") for t in sentences(path.read_text())]
    assert texts
    assert [text for text in texts if JARGON.search(text)] == []
