"""Actors and streams: what lives on, and what comes item by item."""

from __future__ import annotations

from pathlib import Path

from tests.contract.engine.conftest import Book
from tests.kernel.gates import Gate

COUNTER = """
@wb.remote
class Counter:
    def __init__(self, start=0): self.n = start
    def add(self, by=1): self.n += by; return self.n
    def fail(self): raise KeyError("n")
    def pid(self): return os.getpid()
    def die(self): os._exit(1)
"""


def test_an_actor_keeps_its_state_and_its_order_whoever_calls(book: Book) -> None:
    book.ok(COUNTER)
    book.ok("""
        counter = Counter.remote(10)
        refs = [counter.add.remote() for _ in range(20)]
        assert wb.get(refs) == list(range(11, 31))
        assert wb.get(counter.pid.remote()) == wb.get(counter.pid.remote()) != os.getpid()
    """)
    book.fails("wb.get(counter.fail.remote())", "KeyError")
    book.ok("""
        wb.get([wb.remote(lambda c: wb.get(c.add.remote())).remote(counter) for _ in range(5)])
        assert wb.get(counter.add.remote()) == 36
        @wb.remote
        class Bad:
            def __init__(self): 1 / 0
            def f(self): pass
        bad = Bad.remote()
    """)
    book.fails("wb.get(bad.f.remote())", "ZeroDivisionError")


def test_an_actor_is_found_by_its_name(book: Book) -> None:
    book.ok(COUNTER)
    book.ok("""
        counter = Counter.options(name="hits").remote()
        wb.get(counter.add.remote())
        assert wb.get(wb.get_actor("hits").add.remote()) == 2
        assert wb.get(wb.remote(lambda: wb.get(wb.get_actor("hits").add.remote())).remote()) == 3
        again = Counter.options(name="hits", get_if_exists=True).remote()
        assert wb.get(again.add.remote()) == 4
    """)
    book.fails("Counter.options(name='hits').remote()", "hits")
    book.ok("wb.kill(counter)")
    book.fails("wb.get_actor('hits')", "hits")


def test_a_killed_actor_says_so(book: Book) -> None:
    book.ok(COUNTER)
    book.ok("counter = Counter.remote()\nwb.get(counter.add.remote())\nwb.kill(counter)")
    book.fails("wb.get(counter.add.remote())", "ActorDiedError", "Counter was ended by kill()")
    book.ok("crashed = Counter.remote()\nwb.get(crashed.add.remote())")
    died = book.run("wb.get(crashed.die.remote())")
    assert "ActorDiedError" in died.failure
    assert "Counter.die" in died.failure
    assert "Unhandled" not in died.text("stderr")
    book.fails("wb.get(crashed.add.remote())", "ActorDiedError", "Counter")


def test_a_call_is_stopped_and_the_actor_stays(book: Book, gate: Gate) -> None:
    book.ok(f"""
        @wb.remote
        class Waits:
            def __init__(self): self.n = 0
            def wait(self):
                self.n = 1
                {gate.wait}
            def read(self): return self.n
        actor = Waits.remote()
        assert wb.get(actor.read.remote()) == 0
        waiting = actor.wait.remote()
    """)
    book.ok("wb.wait([waiting], timeout=0.1)\nwb.cancel(waiting)")
    book.fails("wb.get(waiting)", "TaskCancelledError")
    assert book.value("wb.get(actor.read.remote()) in (0, 1)") == "True"


def test_calls_wait_while_it_is_made_again(book: Book) -> None:
    book.needs("restarts")
    book.ok(COUNTER)
    book.ok("""
        counter = Counter.options(max_restarts=1).remote(5)
        assert wb.get(counter.add.remote()) == 6
        wb.wait([counter.die.remote()])
        assert wb.get([counter.add.remote() for _ in range(3)]) == [6, 7, 8]
    """)


def test_calls_side_by_side(book: Book) -> None:
    book.needs("concurrency")
    book.ok("""
        @wb.remote
        class Room:
            def __init__(self): self.there = __import__("threading").Barrier(3)
            def meet(self): return self.there.wait(60) >= 0
        room = Room.options(max_concurrency=3).remote()
        assert wb.get([room.meet.remote() for _ in range(3)]) == [True] * 3
        import asyncio
        @wb.remote
        class Async:
            def __init__(self): self.event = asyncio.Event()
            async def wait(self): await self.event.wait(); return "woken"
            async def wake(self): self.event.set()
        actor = Async.remote()
        waiting = actor.wait.remote()
        wb.get(actor.wake.remote())
        assert wb.get(waiting) == "woken"
    """)


def test_items_come_while_the_task_runs_and_an_error_is_the_last(book: Book, gate: Gate) -> None:
    book.needs("streams")
    book.ok(f"""
        @wb.remote(num_returns="streaming")
        def count(n):
            for i in range(n):
                yield i
                if i == 1: {gate.wait}
        stream = count.remote(4)
        assert [wb.get(next(stream)) for _ in range(2)] == [0, 1]
    """)
    gate.open()
    book.ok("assert [wb.get(ref) for ref in stream] == [2, 3]")
    book.ok("""
        @wb.remote(num_returns="streaming", max_retries=0)
        def breaks():
            yield np.ones(200_000)
            raise OSError("midway")
        stream = breaks.remote()
        assert wb.get(next(stream)).sum() == 200_000
        last = next(stream)
    """)
    book.fails("wb.get(last)", "OSError", "midway")


def test_a_stream_whose_process_dies_says_so(book: Book) -> None:
    """Of a task, and of an actor: its last item is an error that names it."""
    book.needs("streams")
    book.ok("""
        class Dies:
            def items_of_an_actor(self):
                yield 1
                os._exit(3)
        def items_of_a_task():
            yield 1
            os._exit(3)
        actor = wb.remote(Dies).remote()
        task = wb.remote(num_returns="streaming", max_retries=0)(items_of_a_task)
        def end(stream):
            try:
                return [wb.get(ref) for ref in stream]
            except wb.exceptions.RayError as error:
                return type(error).__name__, str(error)
    """)
    found = book.value("end(task.remote())")  # its item may be lost on its way
    assert "WorkerCrashedError" in found, found
    assert "items_of_a_task" in found
    stream = "actor.items_of_an_actor.options(num_returns='streaming').remote()"
    found = book.value(f"end({stream})")
    assert "ActorDiedError" in found, found
    assert "items_of_an_actor" in found


def test_a_stream_that_is_tried_again_gives_each_item_once(book: Book, tmp_path: Path) -> None:
    book.needs("streams")
    book.ok(f"""
        @wb.remote(num_returns="streaming", max_retries=1, max_ahead=1)
        def count(mark={str(tmp_path / "died")!r}):
            for i in range(4):
                if i == 2 and not os.path.exists(mark):
                    open(mark, "w").close()
                    os._exit(1)
                yield i
        assert [wb.get(ref) for ref in count.remote()] == [0, 1, 2, 3]
    """)
