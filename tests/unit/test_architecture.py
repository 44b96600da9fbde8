"""What ARCHITECTURE.md, docs/development, comments and docstrings name is there.

Rooms, components, files, classes. Whether a sentence about them is true, a reader must see.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.unit.sources import FILES, PACKAGE, tree

ROOT = PACKAGE.parent
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "development").glob("*.md"))]
PAGE = "\n".join(path.read_text() for path in PAGES)


def defined(tree: ast.Module) -> set[str]:
    """Names that a file defines, in whatever scope: functions, classes, variables, attributes."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                names.add(name)
            case ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()):
                names.add(name)
            case ast.arg(name) | ast.alias(name, None) | ast.alias(_, str(name)):
                names.add(name)
    return names


def place_of(file: Path) -> tuple[str, ...]:
    """Where a file is, such as ``("core", "session")``; a package is its folder."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


@cache
def names() -> dict[tuple[str, ...], set[str]]:
    """By place. Not above: whoever only collects the tests has no use for it."""
    return {place_of(file): defined(tree(file)) for file in FILES}


DOTTED = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`(?!`)")
FILE = re.compile(r"`((?:\w+/)+\w+(?:\.\w+)?)`")

OTHERS = ("distributed.", "joblib.", "ray.exceptions", "ray.util", "time.")
"""What begins so is another package's, though a module of ours has that name, too."""


@cache
def is_there(name: str) -> bool:
    """Whether a dotted name is one of ours: a module by the end of its place, what stands in one,
    or what a class of ours has. Of what begins with no name of ours, nothing is known: True."""
    if name.startswith(OTHERS) or name.endswith(".js"):
        return True
    parts = tuple(name.removeprefix("workbench.").split("."))
    homes = [
        (found, parts[count:])
        for place, found in names().items()
        for count in range(1, len(parts) + 1)
        if place[-count:] == parts[:count]
    ]
    if parts[0][0].isupper():
        homes += [(found, parts[1:]) for found in names().values() if parts[0] in found]
    return not homes or any(found.issuperset(rest) for found, rest in homes)


def absent(dotted: Iterable[str]) -> list[str]:
    return [name for name in dotted if not is_there(name)]


def prose(file: Path) -> str:
    """The comments and docstrings of a file."""
    nodes = (node for node in ast.walk(tree(file)) if isinstance(node, ast.Expr))
    texts = [str(node.value.value) for node in nodes if isinstance(node.value, ast.Constant)]
    return "\n".join([*texts, *re.findall(r"#.*", file.read_text())])


def test_a_name_that_is_gone_is_found() -> None:
    there = ["core.session", "tasks.Actor", "Session.handle", "os.path", "numpy.memmap"]
    gone = ["core.sessions", "records.Actor", "Session.handles", "engine.base.Motor"]
    assert absent(there + gone) == gone


def test_each_page_can_be_read_at_one_sitting() -> None:
    assert {path.name: size for path in PAGES if (size := path.stat().st_size) > 9_000} == {}


def test_what_the_pages_name_is_there() -> None:
    assert not absent(DOTTED.findall(PAGE))
    places = [(ROOT, ""), (ROOT, ".py"), (PACKAGE, ""), (PACKAGE, ".py")]
    for path in FILE.findall(PAGE):
        assert any((base / f"{path}{end}").exists() for base, end in places), path


def test_what_a_file_names_is_there() -> None:
    found = {str(file): absent(DOTTED.findall(prose(file))) for file in FILES}
    assert not {file: names for file, names in found.items() if names}


def test_the_page_has_a_row_for_each_room_and_lists_the_components_of_the_core() -> None:
    rooms = {place[0] for place in names() if place and (PACKAGE / place[0]).is_dir()}
    _, _, rows = PAGE.partition("## Rooms\n")
    rows = rows.partition("\n## ")[0]
    listed = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", rows, re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(listed))) == rooms
    core = (PACKAGE / "core").glob("*.py")
    components = {file.stem for file in core if file.read_text().startswith('"""Component: ')}
    _, _, routed = PAGE.partition("to the component that handles it: ")
    assert set(re.findall(r"`(\w+)`", routed.partition(".")[0])) == components
