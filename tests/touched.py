"""Prints the tests that a change touches, for `make quick`: what differs from ``main`` decides.

The room of a changed file names its unit tests, and the few whole tests that lean on it most.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]

ALWAYS = ["tests/test_style.py", "tests/unit/test_rooms.py", "tests/unit/test_architecture.py"]

WHOLE = {
    "api": ["process/test_objects.py", "process/test_tasks.py", "process/test_actors.py"],
    "cli": ["process/test_cli.py"],
    "client": ["process/test_objects.py", "process/test_tasks.py", "process/test_streams.py"],
    "core": ["process/test_tasks.py", "process/test_actors.py", "process/test_spill.py"],
    "course": ["kernel/test_course.py", "kernel/test_course_checks.py", "process/test_course.py"],
    "engines": ["process/test_sessions.py", "process/test_views.py", "unit/test_observed.py"],
    "errors": ["unit/test_errors.py", "process/test_crashes.py"],
    "error_notes": ["kernel/test_refs_as_values.py", "process/test_serialization.py"],
    "host": ["kernel/test_remote.py"],
    "interop": ["process/test_executor.py", "process/test_pool.py", "kernel/test_libraries.py"],
    "ipython": ["kernel"],
    "memory": ["process/test_memory.py", "contract"],
    "plots": ["process/test_plots.py"],
    "ray_api": ["process/test_ray_options.py", "process/test_ray_table.py"],
    "report": ["process/test_cards.py", "process/test_why.py", "kernel/test_displays.py"],
    "serialization": [
        "process/test_serialization.py",
        "process/test_custom_serializers.py",
        "process/test_identity.py",
    ],
    "server": ["process/test_sessions.py", "process/test_faults.py"],
    "system": ["unit/test_sizes.py", "unit/test_machine.py", "process/test_descriptors.py"],
    "util": ["process/test_ray_util.py"],
    "widgets": ["kernel/test_views.py", "process/test_views.py"],
    "wire": ["process/test_strangers.py"],
    "worker": ["process/test_output.py", "process/test_capture.py", "process/test_crashes.py"],
}
"""Under ``tests``, by room. Files at the top of the package count as the client's."""


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
        is_test = parts[-1].startswith("test_")
        return [changed if is_test else "/".join(parts[:-1])] if len(parts) > 2 else []
    if parts[0] != "workbench" or len(parts) == 1:
        return []
    room = parts[1] if len(parts) > 2 else "client"
    named = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob(f"test_{Path(changed).stem.lstrip('_')}.py")
    ]
    return [f"tests/unit/{room}", *(f"tests/{each}" for each in WHOLE.get(room, ())), *named]


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
