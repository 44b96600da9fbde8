"""Prints the tests that a change touches, for `make quick`: what differs from ``main`` decides.

For a file of the package these are the tests that have its name, or import it, the unit tests of
its room, and the few whole tests that lean on it most.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

ALWAYS = ["tests/unit/test_suite.py", "tests/unit/test_rooms.py", "tests/unit/test_architecture.py"]

_LINES = re.findall(r"^(\S+): (.*(?:\n .*)*)", Path(__file__).with_suffix(".txt").read_text(), re.M)
WHOLE = {beginning: tests.split() for beginning, tests in _LINES}
"""By a room or the beginning of a file's path: touched.txt."""


def touched_by(changed: str) -> list[str]:
    """Files and folders of tests that a changed file touches, if they exist or not."""
    parts = changed.split("/")
    if parts[0] == "notebooks":
        return ["tests/kernel/test_notebooks.py", "tests/kernel/test_course.py"]
    if parts[0] == "docs" or changed == "README.md":
        return ["tests/kernel/test_docs.py"]
    if parts[:2] == ["tests", "course"]:  # answers
        return ["tests/kernel/test_course.py"]
    if parts[0] == "tests":
        changed = re.sub(r"(/test_\w+)\.txt$", r"\1.py", changed)  # what the test reads
        is_test = parts[-1].startswith("test_")
        return [changed if is_test else "/".join(parts[:-1])] if len(parts) > 2 else []
    if parts[0] != "workbench" or len(parts) == 1:
        return []
    name = "/".join(parts[1:]) if len(parts) > 2 else f"client/{parts[1]}"
    room, stem = name.partition("/")[0], Path(changed).stem.lstrip("_")
    where = rf"\.{room}(\.\w+)*" if len(parts) > 2 else ""
    imports = re.compile(rf"\bworkbench{where}(\.| import .*\b){stem}\b")
    return [
        *(path for path in _tests() if path.endswith(f"/test_{stem}.py")),
        *(path for path, text in _tests().items() if imports.search(text)),
        f"tests/unit/{room}",
        *(f"tests/{each}" for key in WHOLE if name.startswith(key) for each in WHOLE[key]),
    ]


@cache
def _tests() -> dict[str, str]:
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def _changed() -> set[str]:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout

    base = git("merge-base", "main", "HEAD").strip() or "HEAD"
    new = git("ls-files", "--others", "--exclude-standard")
    return {*git("diff", "--name-only", base).splitlines(), *new.splitlines()}


if __name__ == "__main__":
    found = {test for changed in _changed() for test in touched_by(changed)}
    print(*ALWAYS, *sorted(each for each in found if (ROOT / each).exists()))
