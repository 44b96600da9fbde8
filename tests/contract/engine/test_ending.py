"""Endings: nothing is left of a session that was left or whose notebook stopped it."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.engine.conftest import Book
from tests.kernel.gates import Gate
from tests.leaks import eventually


def test_nothing_is_left_of_a_session(alone: Callable[..., Book], gate: Gate) -> None:
    """No actor, data, process or file; whatever it was at."""
    book = alone()
    book.begin()
    book.ok("import workbench as wb\nimport numpy as np")
    book.ok("%put --name kept np.ones(200_000)")
    book.ok("""
        @wb.remote
        class Stays:
            def f(self): return 1
        stays = Stays.options(name="stays", lifetime="detached").remote()
        assert wb.get(stays.f.remote()) == 1
        refs = [wb.remote(lambda: np.ones(200_000)).remote() for _ in range(4)]
        wb.wait(refs, num_returns=4)
    """)
    cell = book.ok(f"%%remote\nprint('runs')\n{gate.wait}")
    book.until(cell.text)
    assert "over for this notebook" in book.ok("%workbench stop").text()
    assert eventually(lambda: not book.system.left()), book.system.left()


def test_one_session_after_the_other(alone: Callable[..., Book]) -> None:
    """By magics, and in Python as a block: the next one is as good as the first."""
    book = alone()
    book.begin()
    book.ok("import workbench as wb\nassert wb.get(wb.remote(abs).remote(-3)) == 3")
    book.ok("%workbench stop")
    options = book.system.options
    book.ok(f"with wb.init({options}):\n    assert wb.get(wb.remote(abs).remote(-3)) == 3")
    assert book.value("wb.is_initialized()") == "False"
    assert eventually(lambda: not book.system.left()), book.system.left()
