"""Background cells outlive who started them. With notebooks: contract/engine/test_jobs."""

from __future__ import annotations

import signal

import numpy as np

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.scripts import Scripts
from workbench.core.events import Output
from workbench.engine.base import CellListener, CollectedJob, Engine


def collect(engine: Engine, origin: int) -> CollectedJob:
    """The background cell, which has shown all that it showed, under that number."""
    shown: list[Output] = []
    engine.listener = CellListener(shown.append, origin=lambda: origin)
    found = engine.collect(wb.snapshot().jobs[0].id)
    assert found is not None
    assert b"".join(each.data for each in shown if each.origin == origin) == b"before\nafter\n"
    return found


def test_what_was_collected_lives_as_long_as_its_handles(script: Scripts, gate: Gate) -> None:
    """Of a cell that ended when its notebook had been killed."""
    driver = script(
        """
        import numpy as np
        from workbench.engine.base import Call, Exported
        from workbench.options import CellOptions

        stop = stopper(sys.argv[1])
        engine = wb.init(session="desk", workers=1, linger="1h")

        def cell():
            print("before")
            stop()
            print("after")
            return None, np.arange(100_000)

        options = CellOptions(num_returns=2, job="cell 1", binds=("x",))
        refs = engine.submit(Exported(cell, "cell"), Call((), {}, options))
        say("submitted")
        hear()
        """,
        gate.path,
    )
    assert driver.line() == "submitted"
    visitor = gate.next()
    driver.signal(signal.SIGKILL)
    driver.wait()
    engine = wb.init(session="desk")
    assert eventually(lambda: wb.snapshot().jobs[0].kept)
    visitor.let_on()
    assert eventually(lambda: wb.snapshot().jobs[0].state == "done")
    collected = collect(engine, 1)
    assert (collected.job.lines, collected.job.binds) == (2, ("x",))
    ref = collected.results[1]
    assert ref is not None
    assert (wb.get(ref) == np.arange(100_000)).all()
    id = ref.id
    del collected, ref
    assert eventually(lambda: id not in [record.id for record in wb.snapshot().objects])
    end, value = collect(engine, 2).results
    assert value is None
    assert end is not None
    assert wb.get(end) is None, "how it ended stays"
