"""Processes that are out of file descriptors: they go on, and nobody else notices."""

from __future__ import annotations

import resource
from collections.abc import Callable

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process import limits
from tests.process.processes import Processes
from tests.process.scripts import Script

READS_AND_PUTS = """
    import numpy as np
    from workbench.errors import OutOfDescriptorsError
    engine = wb.init(session="two")
    wb.get(wb.put("all is imported"))
    say("in")

    def does(what):
        try:
            return what()
        except OutOfDescriptorsError as error:
            return error

    for name in iter(hear, ""):
        if name.startswith("put "):
            say(does(lambda: wb.put(np.ones(100_000), name=name[4:])))
        elif name == "small":
            say(does(lambda: wb.get(wb.put("goes on"))))
        else:
            say(does(lambda: wb.get(engine.find(name)).sum()))
    wb.shutdown()
"""


def test_a_driver_without_descriptors_stays_in_its_session(
    script: Callable[..., Script], runtime: str
) -> None:
    session = wb.init(session="two", workers=2)

    @wb.remote
    class Maker:
        def make(self, name: str) -> None:
            wb.put(np.ones(100_000), name=name)

    makers = [Maker.remote() for _ in range(5)]
    wb.get([maker.make.remote(f"x{i}") for i, maker in enumerate(makers)])
    driver, other = script(READS_AND_PUTS), script(READS_AND_PUTS)
    assert driver.line() == other.line() == "in"
    with limits.descriptors(other.pid):  # a first put takes those that are kept for it
        other.tell("put another")
        assert "ObjectRef" in other.line()
    other.tell()

    def asks(what: str) -> str:
        driver.tell(what)
        return driver.line()

    with limits.descriptors(driver.pid):
        assert [asks(f"x{i}") for i in range(3)] == ["100000.0"] * 3  # with those it had spared
        answers = [asks("put it"), *(asks(f"x{i}") for i in range(5))]
        assert "can open no more files" in answers[0]
        assert answers[1:4] == ["100000.0"] * 3
        assert "can open no more files" in answers[5]
        assert asks("small") == "goes on"
    assert [asks(f"x{i}") for i in range(5)] == ["100000.0"] * 5
    assert "ObjectRef" in asks("put it")
    assert (wb.get(session.find("it")) == 1).all()
    driver.tell()
    assert driver.wait() == other.wait() == 0
    wb.shutdown()


@pytest.mark.extended
def test_a_server_without_descriptors_hangs_up_on_nobody(
    script: Callable[..., Script], processes: Processes, runtime: str
) -> None:
    """It asks again for an actor's segment, has newcomers wait, and tells them at last."""
    session = wb.init(session="two", workers=1)

    @wb.remote
    class Maker:
        made = 0

        def make(self) -> np.ndarray:
            self.made += 1
            return np.full(100_000, self.made)

        def count(self) -> int:
            return self.made

    first, second = Maker.remote(), Maker.remote()
    assert wb.get([first.count.remote(), second.count.remote()]) == [0, 0]
    assert eventually(lambda: len(processes.workers()) == 3)
    session.snapshot()
    server = psutil.Process(processes.server().pid)
    with limits.descriptors(server.pid):
        assert (wb.get(first.make.remote()) == 1).all()
        assert (wb.get(second.make.remote()) == 1).all()
        awaited = second.make.remote()
        third = Maker.remote()
        counted = third.count.remote()
        before = sum(server.cpu_times()[:2])
        driver = script(
            """
            from workbench.errors import SessionError
            try:
                wb.init(session="two").put(1)
            except SessionError as error:
                say(error)
            """
        )
        assert "can open no more connections" in driver.line()
        assert sum(server.cpu_times()[:2]) - before < 0.5, "it does nothing else than that"
        assert (wb.get(awaited) == 2).all()
        assert wb.wait([counted], timeout=0)[1]
    assert wb.get(counted) == 0
    assert wb.get([first.count.remote(), second.count.remote()]) == [1, 2]
    del first, second, third, awaited, counted
    wb.shutdown()


def test_the_server_may_open_as_many_files_as_it_can_and_workers_as_many_as_the_driver(
    processes: Processes,
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
    try:
        wb.init(workers=1)
        soft, hard = wb.get(wb.remote(resource.getrlimit).remote(resource.RLIMIT_NOFILE))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert soft == 500
    assert resource.prlimit(processes.server().pid, resource.RLIMIT_NOFILE) == (hard, hard)
    wb.shutdown()
