"""Background cells outlive who started them, killed at any moment; nothing else of theirs does."""

from __future__ import annotations

import signal
from collections.abc import Callable

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.scripts import Script
from workbench.core.events import Output
from workbench.engines.base import CollectedJob, Engine
from workbench.errors import TaskError

CELLS = """
    import numpy as np
    from workbench.engines.base import Call, Exported
    from workbench.options import CellOptions

    stop = stopper(sys.argv[1])
    engine = wb.init(session="desk", workers=1, linger="1h")

    def cell(number, lines, fails=False):
        print("before", number)
        print("line\\n" * lines, end="")
        stop()
        print("after", number)
        if fails:
            raise ValueError("of the cell")
        return None, np.arange(100_000)

    refs = [
        engine.submit(
            Exported(cell, "cell"),
            Call(
                (number, lines), {"fails": number == 3},
                CellOptions(num_returns=2, job=f"cell {number}", binds=("x",)),
            ),
        )
        for number, lines in ((1, 3), (2, 150_000), (3, 0))
    ]
    say("submitted")
    hear()
"""


class Screen:
    """What an engine was told to show, by origin."""

    def __init__(self, engine: Engine) -> None:
        self.text: dict[int, str] = {}
        self._engine = engine
        engine.output = self._show

    def _show(self, output: Output) -> None:
        self.text[output.origin] = self.text.get(output.origin, "") + output.data.decode()

    def collect(self, name: str, origin: int) -> CollectedJob:
        """The background cell of that name, to be shown under that number."""
        (record,) = [job for job in wb.snapshot().jobs if job.name == name]
        self._engine.origin = lambda: origin
        found = self._engine.collect(record.id)
        assert found is not None
        return found


@pytest.fixture
def orphaned(script: Callable[..., Script], gate: Gate) -> Screen:
    """Three background cells, the first one at the gate, whose notebook was killed."""
    driver = script(CELLS, gate.path)
    assert driver.line() == "submitted"
    first = gate.next()
    driver.signal(signal.SIGKILL)
    driver.wait()
    engine = wb.init(session="desk")
    assert engine.joined
    assert eventually(lambda: all(job.kept for job in wb.snapshot().jobs))
    first.let_on()
    return Screen(engine)


def states() -> dict[str, str]:
    return {job.name: job.state for job in wb.snapshot().jobs}


def test_cells_go_on_without_who_started_them(orphaned: Screen, gate: Gate) -> None:
    second = gate.next()  # the first one is done, and this one has begun only now
    assert states() == {"cell 1": "done", "cell 2": "running", "cell 3": "queued"}

    one = orphaned.collect("cell 1", origin=11)
    assert orphaned.text[11] == "before 1\nline\nline\nline\nafter 1\n"
    assert (one.job.lines, one.job.binds) == (5, ("x",))
    _, result = one.results
    assert result is not None
    assert (wb.get(result) == np.arange(100_000)).all()

    assert eventually(lambda: wb.snapshot().jobs[1].lines == 150_001)
    two = orphaned.collect("cell 2", origin=12)  # while it runs
    shown = orphaned.text[12]
    assert shown == "before 2\n" + "line\n" * 150_000
    second.let_on()
    _, result = two.results
    assert result is not None
    assert len(wb.get(result)) == 100_000
    assert orphaned.text[12].endswith("line\nafter 2\n")

    gate.next().let_on()
    assert eventually(lambda: states()["cell 3"] == "failed")
    done, _ = orphaned.collect("cell 3", origin=13).results
    assert done is not None
    with pytest.raises(TaskError, match="of the cell"):
        wb.get(done)
    assert orphaned.text[13] == "before 3\nafter 3\n"


def test_what_was_collected_lives_as_long_as_its_handles(orphaned: Screen, gate: Gate) -> None:
    for _ in range(2):
        gate.next().let_on()
    assert eventually(lambda: set(states().values()) == {"done", "failed"})
    assert "result of cell 1, not fetched" in str(wb.why(result_of("cell 1")))
    collected = orphaned.collect("cell 1", origin=1)
    (id,) = [ref.id for ref in collected.results[1:] if ref is not None]
    assert id in [record.id for record in wb.snapshot().objects]
    del collected
    assert eventually(lambda: id not in [record.id for record in wb.snapshot().objects])
    again = orphaned.collect("cell 1", origin=2)
    assert orphaned.text[2] == orphaned.text[1], "what it showed stays"
    assert again.results[1:] == [None]
    assert again.results[0] is not None
    assert wb.get(again.results[0]) is None, "and how it ended"


def result_of(name: str) -> wb.ObjectRef:
    """The second result of a cell that nobody has collected."""
    (job,) = [job for job in wb.snapshot().jobs if job.name == name]
    return wb.api.engine().borrow(job.id + 1)


def test_unnamed_objects_of_a_dead_driver_go_at_once(
    script: Callable[..., Script], processes: Processes
) -> None:
    engine = wb.init(session="desk", workers=1, memory="64MB", linger="1h")
    driver = script("""
        import numpy as np
        wb.init(session="desk", linger="1h")
        unnamed = [wb.put(np.ones(10**6)), wb.put("inline")]
        named = wb.put(np.ones(10**6), name="named")
        say("put")
        hear()
    """)
    assert driver.line() == "put"
    assert wb.snapshot().live > 16_000_000
    touched = processes.touched()
    driver.signal(signal.SIGKILL)
    driver.wait()
    assert eventually(lambda: wb.snapshot().live < 8_100_000)
    assert engine.names() == ["named"]
    assert eventually(lambda: processes.touched() <= touched - 8_000_000)


def test_how_long_it_is_kept_can_be_changed(
    script: Callable[..., Script], processes: Processes
) -> None:
    driver = script("""
        engine = wb.init(session="desk", workers=1)
        wb.put("it", name="kept")
        assert wb.snapshot().linger == 0
        engine.keep(3600.0)
        assert wb.snapshot().linger == 3600
        say("ready")
    """)
    assert driver.line() == "ready"
    assert driver.wait() == 0
    engine = wb.init(session="desk")
    assert engine.joined
    assert engine.names() == ["kept"]
    wb.shutdown()
    assert processes.gone()
