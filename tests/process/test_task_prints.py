"""What tasks print reaches the driver's sink before their results."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.events import Output
from workbench.engines.base import Engine


class Sink:
    """An output callback that keeps what comes."""

    def __init__(self, session: Engine) -> None:
        self.received: list[Output] = []
        session.output = self.received.append

    def text(self, origin: int = 0, kind: str = "stdout") -> str:
        return b"".join(
            o.data for o in self.received if (o.origin, o.kind) == (origin, kind)
        ).decode()


def test_what_a_task_printed_is_there_before_its_result(session: Engine) -> None:
    @wb.remote
    def chatty(i: int) -> int:
        import sys

        print(i, "begins")
        print(i, "ü", file=sys.stderr)
        print(i, "ends", end="")
        return i

    sink = Sink(session)
    i = 0  # asked for more than once if a line is taken back meanwhile
    session.origin = lambda: i
    for i in range(1, 101):
        assert wb.get(chatty.remote(i)) == i
        assert sink.text(i) == f"{i} begins\n{i} ends"
        assert sink.text(i, "stderr") == f"{i} ü\n"
    refs = []
    for i in range(101, 601):
        refs.append(chatty.remote(i))
    while refs:
        ready, refs = wb.wait(refs, num_returns=min(7, len(refs)))
        for task in wb.get(ready):
            assert sink.text(task) == f"{task} begins\n{task} ends"
    assert [o.kind for o in sink.received if o.origin == 300] == [
        "stdout", "stderr", "stdout",
    ]  # fmt: skip


def test_threads_of_a_task_print_too(session: Engine) -> None:
    @wb.remote
    def threads() -> None:
        import threading

        def run(name: str) -> None:
            for i in range(500):
                print(f"{name}{i}\n", end="")

        running = [threading.Thread(target=run, args=(name,)) for name in "abc"]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    sink = Sink(session)
    wb.get(threads.remote())
    lines = sink.text().splitlines()
    for name in "abc":
        assert [x for x in lines if x.startswith(name)] == [f"{name}{i}" for i in range(500)]
    assert len(lines) == 1500


def test_a_tasks_own_tasks_print_where_it_does(session: Engine) -> None:
    @wb.remote
    def inner(i: int) -> None:
        print("inner", i)

    @wb.remote
    def outer() -> None:
        print("outer")
        wb.get([inner.remote(i) for i in range(3)])

    sink = Sink(session)
    session.origin = lambda: 7
    wb.get(outer.remote())
    assert sorted(sink.text(7).splitlines()) == ["inner 0", "inner 1", "inner 2", "outer"]


def test_much_and_odd_text(session: Engine) -> None:
    @wb.remote(max_retries=0)
    def prints(what: str, times: int) -> None:
        print(what * times, end="")

    sink = Sink(session)
    wb.get(prints.remote("äx\n", 200_000))
    assert sink.text().count("äx\n") == 200_000
    sink.received.clear()
    wb.get(prints.remote("\udcff|\x00", 1))
    assert sink.text() == "\\udcff|\x00"


def test_an_output_that_fits_no_frame_is_left_out(session: Engine) -> None:
    @wb.remote(max_retries=0)
    def shows() -> None:
        from workbench.host.display import send

        send("display", "x" * (100 << 20))

    sink = Sink(session)
    wb.get(shows.remote())
    assert "A display of 105 MB was left out" in sink.text(kind="stderr")


def test_a_sink_that_fails_harms_nobody(session: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(output: Output) -> None:
        raise RuntimeError("no room on the page")

    session.output = broken
    wb.get(wb.remote(lambda: print("x")).remote())
    assert wb.get(wb.put("goes on")) == "goes on"
    assert "no room on the page" in capfd.readouterr().err
