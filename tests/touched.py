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

WHOLE = {
    "api": [
        "process/test_objects.py",
        "process/test_tasks.py",
        "process/test_actors.py",
        "contract/engine",
    ],
    "api/gathering": ["process/test_gathering.py"],
    "checkpoints": ["process/test_checkpoints.py", "kernel/test_kept.py"],
    "cli": ["process/test_cli.py"],
    "client": [
        "process/test_objects.py",
        "process/test_tasks.py",
        "process/test_actors.py",
        "process/test_streams.py",
        "process/test_lines.py",
        "process/test_options.py",
        "contract/engine",
    ],
    "client/arena_writer": ["process/test_memory.py", "process/test_views.py"],
    "client/function_cache": ["process/test_function_data.py"],
    "client/objects": ["process/test_spill.py", "process/test_views.py"],
    "client/refer": ["process/test_why.py", "process/test_why_exam.py", "kernel/test_why.py"],
    "client/retained": ["process/test_why_exam.py", "unit/client/test_value_holders.py"],
    "client/search_budget": ["kernel/test_why.py", "process/test_why.py"],
    "client/value_holders": ["process/test_why_exam.py", "kernel/test_why.py"],
    "client/shared_segments": ["process/test_memory.py", "process/test_lines.py"],
    "core": [
        "process/test_tasks.py",
        "process/test_actors.py",
        "process/test_spill.py",
        "contract/engine",
    ],
    "course": ["kernel/test_course.py", "kernel/test_course_checks.py", "process/test_course.py"],
    "engine": ["unit/test_signatures.py"],
    "engines": ["process/test_sessions.py", "process/test_views.py", "unit/test_observed.py"],
    "error_notes": [
        "kernel/test_refs_as_values.py",
        "process/test_serialization.py",
        "process/test_objects.py",
    ],
    "error_notes/shortage": ["kernel/test_memory.py"],
    "errors": [
        "unit/test_errors.py",
        "process/test_crashes.py",
        "process/test_tasks.py",
        "kernel/test_remote_cells.py",
    ],
    "heap": ["kernel/test_memory.py", "kernel/test_why.py", "unit/client/test_value_holders.py"],
    "host": [
        "process/test_output.py",
        "process/test_capture.py",
        "kernel/test_remote.py",
        "contract/engine/test_output.py",
    ],
    "interop": ["process/test_executor.py", "kernel/test_libraries.py"],
    "ipython": ["kernel/test_remote.py", "kernel/test_magics.py", "kernel/test_sessions.py"],
    "ipython/bindings": ["kernel/test_storing.py", "kernel/test_write_back.py"],
    "host/captured": ["kernel/test_twins.py"],
    "surroundings": ["unit/surroundings", "kernel/test_clean_cells.py", "kernel/test_twins.py"],
    "ipython/capture": ["kernel/test_capturing.py", "kernel/test_twins.py"],
    "ipython/cells": ["kernel/test_remote_cells.py"],
    "ipython/error": ["kernel/test_refs_as_values.py"],
    "ipython/extension": ["kernel/test_refs_as_values.py", "kernel/test_storing.py"],
    "ipython/job": ["kernel/test_remote.py", "kernel/test_remote_cells.py"],
    "ipython/magics": ["kernel/test_storing.py", "kernel/test_remote_cells.py"],
    "ipython/missed": ["browser/test_jobs.py"],
    "ipython/modules": ["kernel/test_edited_modules.py"],
    "ipython/originals": ["kernel/test_twins.py"],
    "ipython/output": [
        "kernel/test_libraries.py",
        "kernel/test_remote_cells.py",
        "kernel/test_capturing.py",
    ],
    "ipython/put_replace": ["kernel/test_storing.py"],
    "ipython/worker_widgets": ["kernel/test_remote_cells.py"],
    "memory": ["process/test_memory.py", "contract/test_segments.py"],
    "plots": ["unit/widgets/test_plots.py"],
    "ray_api": ["process/test_ray_options.py"],
    "report": ["process/test_cards.py", "process/test_why.py", "kernel/test_libraries.py"],
    "serialization": ["process/test_serialization.py"],
    "serialization/mutations": ["kernel/test_twins.py", "kernel/test_write_back.py"],
    "serialization/packing": ["kernel/test_twins.py"],
    "serialization/shared_memory": ["kernel/test_twins.py"],
    "server": [
        "process/test_sessions.py",
        "process/test_crashes.py",
        "process/test_descriptors.py",
        "process/test_tasks.py",
        "process/test_lines.py",
    ],
    "system": ["unit/test_machine.py", "process/test_descriptors.py"],
    "util": ["process/test_ray_util.py"],
    "widgets": ["kernel/test_views.py", "process/test_views.py"],
    "wire": ["process/test_strangers.py"],
    "worker": [
        "process/test_output.py",
        "process/test_tasks.py",
        "process/test_actors.py",
        "process/test_capture.py",
        "process/test_crashes.py",
        "process/test_lines.py",
        "contract/engine",
    ],
}
"""Under ``tests``, by a room or the beginning of a file's path. Files at the top of the package
count as the client's."""


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
