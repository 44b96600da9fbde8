"""What holds for the tests themselves: few lines, a quick start, and the product from outside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {str(path.relative_to(TESTS)): path.read_text() for path in TESTS.rglob("*.py")}


def test_they_stay_short(texts: dict[str, str]) -> None:
    """One behaviour, one test: what is added takes the place of something."""
    assert sum(text.count("\n") for text in texts.values()) <= 51_100


@pytest.mark.parametrize(
    "library", ["dask", "matplotlib.figure", "nbclient", "nbconvert", "nbformat", "sklearn"]
)
def test_collecting_stays_light(texts: dict[str, str], library: str) -> None:
    """Each process of pytest would spend seconds on them: tests import them inside."""
    above = re.compile(rf"^(?:import|from) {library}\b", re.MULTILINE)
    assert [name for name, text in texts.items() if above.search(text)] == []


def test_few_reach_for_what_is_private_or_replace_it(texts: dict[str, str]) -> None:
    found = [(kind, f"{name}: {line}") for name in texts for kind, line in _inside(texts[name])]
    for kind, most in (("private", 60), ("replaced", 40)):
        lines = [line for each, line in found if each == kind]
        assert len(lines) <= most, "\n".join(lines)


def _inside(text: str) -> Iterator[tuple[str, str]]:
    """Names with one underscore in front, of anything but the object itself; calls of setattr."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name("self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name("super"))):
                pass
            case ast.Attribute(attr=name) if re.match("_[^_]", name):
                yield "private", f"{node.lineno} {ast.unparse(node)}"
            case ast.Call(func=ast.Name("setattr") | ast.Attribute(attr="setattr")):
                yield "replaced", f"{node.lineno} {ast.unparse(node)[:80]}"
