"""What `make` runs: the table of `make quick` names tests that exist, and misses no room; ARGS can
say which file.
"""

from __future__ import annotations

import subprocess

from tests.touched import ROOT, WHOLE, touched_by


def test_the_table_is_of_this_tree() -> None:
    rooms = {path.parent.name for path in (ROOT / "workbench").glob("*/__init__.py")}
    assert rooms <= set(WHOLE)
    for beginning, tests in WHOLE.items():
        assert list((ROOT / "workbench").glob(f"{beginning}*")), beginning
        for test in tests:
            assert (ROOT / "tests" / test).exists(), f"{beginning}: {test}"


def test_a_change_is_followed_to_its_tests() -> None:
    found = touched_by("workbench/core/referrers.py")
    assert {"tests/unit/core", "tests/unit/core/test_referrers.py"} < set(found)
    assert "tests/process/test_gathering.py" in touched_by("workbench/api/gathering.py")
    assert "tests/unit/test_config.py" in touched_by("workbench/config.py")
    assert touched_by("tests/process/gates.py") == ["tests/process"]
    for kind in ("py", "txt"):
        assert touched_by(f"tests/unit/test_config.{kind}") == ["tests/unit/test_config.py"]
    assert touched_by("README.md") == ["tests/kernel/test_docs.py"]
    assert touched_by("CHANGELOG.md") == []
    assert touched_by("tests/course/copies.py") == ["tests/kernel/test_course.py"]


def test_clusters_runs_the_file_that_is_named_alone() -> None:
    ray = "tests/contract/engine/test_ray.py"
    for args, ran in (
        (f"{ray} -x", [ray]),
        ("-x", ["tests/contract/engine", "tests/unit/engines"]),
    ):
        make = ["make", "--dry-run", "clusters", f"ARGS={args}"]
        printed = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        words = printed.rpartition(" -m pytest ")[2].split()
        assert [word for word in words if word.startswith("tests/")] == ran
