"""`check` in a kernel: hints in steps, what is mistyped, progress that outlives the kernel."""

from __future__ import annotations

from tests.kernel.conftest import Kernel
from tests.patience import TIMEOUT

IMPORT = "from workbench.course import check"


def asked(kernel: Kernel, name: str = "put_again") -> list[str]:
    """What a check answers, line by line."""
    (text,) = kernel.ok(f"check.{name}()").results()
    return str(text).splitlines()


def test_hints_come_one_by_one_and_what_is_right_is_done_for_good(fresh: Kernel) -> None:
    """Progress is kept in the session: one for all of it."""
    course = fresh
    course.ok(f"%workbench start\n{IMPORT}")
    course.ok("plan = {'months': 12}\n%put plan\nplan['months'] = 24")
    for hints in (0, 1, 2, 3, 3):
        lines = asked(course)
        assert lines[:2] == [
            "put_again: Not yet.", "The store's `plan` has 12 months, and yours has 24."
        ]  # fmt: skip
        found = [line.partition(":")[0] for line in lines if line.startswith("hint")]
        assert found == [f"hint {number}" for number in range(1, hints + 1)]
        assert "read: Share data between notebooks" in lines
    course.ok("%put plan")
    lines = asked(course)
    assert lines[:2] == ["put_again: Right.", "The store's `plan` has 24 months, as yours."]
    assert lines[2:] == ["○○●○ Is it a copy?: 1 of 4 exercises done"]
    course.ok("plan['months'] = 36")
    assert not [line for line in asked(course) if line.startswith("hint")]
    # What is done stays done, and no list has it.
    course.ok("%free plan\ndel plan")
    assert asked(course)[0] == "put_again: Not yet."
    assert "○○●○ Is it a copy?: 1 of 4 exercises done" in asked(course)
    assert course.ok("%objects").results() == ["No objects. %put makes one."]
    (html,) = course.ok("check.one_copy()").results("text/html")
    assert '<a href="../docs/memory.md#where-an-object-lies">' in html
    assert '<span aria-hidden="true"' in html
    assert "1 of 4 exercises done" in html
    assert "<script" not in html
    # To ask while the cell runs is no try.
    course.ok("%%remote\nimport threading\nthreading.Event().wait()\nsteepest = 1")
    for _ in range(3):
        first, *more = asked(course, "repair")
        assert first == "repair: Wait.", more
        assert not [line for line in more if line.startswith("hint")]


def test_a_mistyped_exercise_is_named(fresh: Kernel) -> None:
    fresh.ok(IMPORT)
    assert asked(fresh)[:2] == [
        "put_again: Not begun.",
        "No session runs. Start one by `%workbench start`, and run the cells again.",
    ]
    assert fresh.value("wb.is_initialized()") == "False"
    failure = fresh.failure("check.put_agian()")
    assert "There is no exercise 'put_agian'. Did you mean 'put_again'?" in failure
    reply = fresh.client.complete("check.one_c", reply=True, timeout=TIMEOUT)
    assert "one_copy" in str(reply["content"]["matches"])
