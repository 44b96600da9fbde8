"""Ctrl-C at random moments of a mix of all calls: the next call works, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.patience import THOROUGH
from tests.process.scripts import Scripts

CALLS = """
    import gc, random
    import numpy as np
    from tests.leaks import Resources, eventually

    directory = os.environ["WORKBENCH_RUNTIME_DIR"]
    before = Resources.now(directory)
    engine = wb.init(workers=2, memory="64MB")
    heard = calls = 0

    def alarm(*_):
        global heard
        heard += 1
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGALRM, alarm)
    chance = random.Random(int(sys.argv[1]))
    array = np.arange(100_000)

    @wb.remote
    class Counter:
        def __init__(self):
            self.n = 0

        def add(self):
            self.n += 1
            return self.n

    add = wb.remote(lambda a, b: a + b)
    held, actor = wb.put(array), Counter.remote()

    def put_and_get():
        assert (wb.get(wb.put(array))[-3:] == array[-3:]).all()

    def submit_and_get():
        assert wb.get(add.remote(held, array))[-1] == 2 * array[-1]
        assert wb.get([add.remote(n, 1) for n in range(20)]) == list(range(1, 21))

    def wait():
        refs = [add.remote(n, 1) for n in range(10)]
        while refs:
            ready, refs = wb.wait(refs, num_returns=min(3, len(refs)))
            assert ready

    def call():
        global calls
        first, second = wb.get([actor.add.remote(), actor.add.remote()])
        assert second > first > calls
        calls = second

    def until_heard(call, before):  # apart: see `unit/test_interrupted_loops.py`
        while heard == before:
            call()

    every = [
        put_and_get, submit_and_get, wait, call,
        lambda: wb.free(wb.put(array)),
        lambda: (wb.put(array, name="named"), engine.unname("named")),
        lambda: add.remote(1, 2).future().result(60),
        lambda: wb.get(Counter.remote().add.remote()),
    ]
    for each in every:
        each()
    for _ in range(int(sys.argv[2])):
        each, before_it = chance.choice(every), heard
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 4e-3))
            until_heard(each, before_it)
            raise AssertionError("it was swallowed")
        except KeyboardInterrupt:
            pass
        except RuntimeError as error:  # CPython's own: Ctrl-C within `Condition.wait`
            if "un-acquired lock" not in str(error):
                raise
            assert isinstance(error.__context__, KeyboardInterrupt)
        chance.choice(every)()  # the next call works, whichever it is
    for each in every:
        each()
    engine.unname("named")  # should Ctrl-C have come between the two
    del held, actor, add, Counter
    gc.collect()
    assert eventually(lambda: not wb.snapshot().objects), wb.snapshot()
    assert eventually(lambda: [w.state for w in wb.snapshot().workers] == ["idle"] * 2)
    wb.put(np.zeros(63_000_000, np.uint8))  # all of the store: no extent and no grant is lost
    wb.shutdown()
    gc.collect()
    assert eventually(lambda: not Resources.now(directory).beyond(before))
    say("in order")
"""


@pytest.mark.extended
@pytest.mark.thorough
def test_hundreds_of_interrupts(script: Scripts) -> None:
    driver = script(CALLS, "20", "3000" if THOROUGH else "300")
    assert driver.line() == "in order"
    assert driver.wait() == 0
