"""Many at once, from several threads, on one processor: nothing hangs, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.scripts import Script
from workbench.engines.base import Engine


def test_ten_thousand_tasks_at_once(session: Engine) -> None:
    def all_of_them() -> None:
        square = wb.remote(lambda i: i * i)
        refs = [square.remote(i) for i in range(10_000)]
        ready, rest = wb.wait(refs, num_returns=5_000)
        assert (len(ready), len(rest)) == (5_000, 5_000)
        assert wb.get(refs) == [i * i for i in range(10_000)]
        add = wb.remote(lambda *numbers: sum(numbers))
        total = add.remote(*[add.remote(*refs[i : i + 100]) for i in range(0, 10_000, 100)])
        assert wb.get(total) == sum(i * i for i in range(10_000))

    all_of_them()
    assert eventually(lambda: not session.snapshot().objects)


def test_many_refs_of_another_process(session: Engine) -> None:
    """More than fit into one message, held, wanted and dropped."""

    @wb.remote
    def makes() -> list[wb.ObjectRef]:
        return [wb.put(i) for i in range(25_000)]

    refs = wb.get(makes.remote())
    assert wb.get(refs) == list(range(25_000))
    wb.free(refs)
    del refs, makes
    assert eventually(lambda: not session.snapshot().objects)


def three_threads() -> list[BaseException]:
    """Run them to their end; returns what went wrong in any."""
    add = wb.remote(lambda a, b: a + b)
    problems: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for i in range(200):
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
    return problems


def test_three_threads_at_once(session: Engine) -> None:
    """Each in turn reads for the others, and follows the one that reads."""
    assert not three_threads()
    assert eventually(lambda: not session.snapshot().objects)


def test_two_drivers_take_turns(
    session: Engine, gate: Gate, script: Callable[..., Script], tmp_path: Path
) -> None:
    """Each task needs all processors, so that they run one by one, as the file says."""
    file = str(tmp_path / "order")
    stop = gate.stop
    busy = [wb.remote(stop).remote() for _ in range(2)]
    visitors = [gate.next() for _ in range(2)]

    @wb.remote(num_cpus=2)
    def note(word: str) -> None:
        with open(file, "a") as lines:
            lines.write(word)

    ours = [note.remote("a") for _ in range(6)]
    assert eventually(lambda: session.snapshot().queued == 6)
    other = script(
        """
        wb.init(session=sys.argv[1])

        @wb.remote(num_cpus=2)
        def note(file):
            with open(file, "a") as lines:
                lines.write("b")

        refs = [note.remote(sys.argv[2]) for _ in range(3)]
        say("submitted")
        wb.get(refs)
        say("done")
        """,
        session.session,
        file,
    )
    assert other.line() == "submitted"
    assert eventually(lambda: session.snapshot().queued == 9)
    for visitor in visitors:
        visitor.let_on()
    wb.get([*busy, *ours], timeout=TIMEOUT)
    assert other.line() == "done"
    assert other.wait() == 0
    assert Path(file).read_text() == "abababaaa"


def test_a_single_processor(script: Callable[..., Script]) -> None:
    driver = script("""
        import numpy as np
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        engine = wb.init(workers=2, memory="64MB")
        last = wb.remote(lambda a, i: int(a[-1]) + i)
        refs = []
        for i in range(2000):
            refs.append(last.remote(wb.put(np.full(4_000, i)), 1))
            if i % 10 == 0:
                assert wb.get(refs[-1]) == i + 1
        assert wb.get(refs) == list(range(1, 2001))
        down = wb.remote(lambda n: n if not n else 1 + wb.get(down.remote(n - 1)))
        assert wb.get(down.remote(6)) == 6
        wb.shutdown()
        say("done")
    """)
    assert driver.line() == "done"
    assert driver.wait() == 0
