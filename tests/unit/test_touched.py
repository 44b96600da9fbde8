"""What `make quick` runs: its table names tests that exist, and misses no room."""

from __future__ import annotations

from tests.touched import ROOT, WHOLE, touched_by


def test_the_table_is_of_this_tree() -> None:
    rooms = {path.parent.name for path in (ROOT / "workbench").glob("*/__init__.py")}
    assert rooms <= set(WHOLE)
    for room, tests in WHOLE.items():
        for test in tests:
            assert (ROOT / "tests" / test).exists(), f"{room}: {test}"


def test_a_change_is_followed_to_its_tests() -> None:
    found = touched_by("workbench/core/referrers.py")
    assert {"tests/unit/core", "tests/unit/core/test_referrers.py"} < set(found)
    assert "tests/unit/test_config.py" in touched_by("workbench/config.py")
    assert touched_by("tests/process/gates.py") == ["tests/process"]
    assert touched_by("tests/unit/test_errors.py") == ["tests/unit/test_errors.py"]
    assert touched_by("README.md") == ["tests/kernel/test_docs.py"]
    assert touched_by("CHANGELOG.md") == []
    assert touched_by("tests/course/copies.py") == ["tests/kernel/test_course.py"]
