"""Many at once, from several threads, on one processor: nothing hangs, nothing is lost."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.patience import TIMEOUT
from workbench.engines.base import Engine


def test_thousands_of_tasks_at_once(session: Engine) -> None:
    square = wb.remote(lambda i: i * i)
    refs = [square.remote(i) for i in range(5_000)]
    ready, rest = wb.wait(refs, num_returns=2_500)
    assert (len(ready), len(rest)) == (2_500, 2_500)
    assert wb.get(refs) == [i * i for i in range(5_000)]
    add = wb.remote(lambda *numbers: sum(numbers))
    total = add.remote(*[add.remote(*refs[i : i + 100]) for i in range(0, 5_000, 100)])
    assert wb.get(total) == sum(i * i for i in range(5_000))


@pytest.mark.extended
def test_many_refs_of_another_process(session: Engine) -> None:
    """More than fit into one message, held, wanted and dropped."""

    @wb.remote
    def makes() -> list[wb.ObjectRef]:
        return [wb.put(i) for i in range(25_000)]

    refs = wb.get(makes.remote())
    assert wb.get(refs) == list(range(25_000))
    wb.free(refs)


def test_three_threads_at_once(session: Engine) -> None:
    """Each in turn reads for the others, and follows the one that reads."""
    add = wb.remote(lambda a, b: a + b)
    problems: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for i in range(50):
                array = np.full(5_000, i)
                refs = [add.remote(n, j) for j in range(5)]
                assert wb.get(add.remote(wb.put(array), n), timeout=TIMEOUT)[-1] == i + n
                assert wb.wait(refs, num_returns=3, timeout=TIMEOUT)[0]
                assert wb.get(refs, timeout=TIMEOUT) == [n + j for j in range(5)]
                assert add.remote(i, n).future().result(TIMEOUT) == i + n
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
