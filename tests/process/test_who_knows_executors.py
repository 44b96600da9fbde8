"""Libraries that take an executor of `concurrent.futures`: dask, tqdm, asyncio. Proxies."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable
from concurrent.futures import as_completed
from typing import Any

import pytest

import workbench as wb
from tests.patience import TIMEOUT
from tests.process.scripts import Script
from workbench import Executor
from workbench.engines.base import Engine


def square(x: int) -> int:
    return x * x


def pid(_: object = None) -> int:
    return os.getpid()


# -- dask's threaded scheduler, on processes -------------------------------------------------------


def test_dask_computes_a_graph_on_it(session: Engine) -> None:
    dask, array = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    x = array.arange(10_000, chunks=2_500).reshape(100, 100)
    total = (x @ x.T).sum(axis=0)
    with Executor() as executor, dask.config.set(scheduler=executor):
        assert total.compute().tolist() == total.compute(scheduler="sync").tolist()
        ran = set(dask.compute(*[dask.delayed(pid)(n) for n in range(6)]))
        assert ran <= {worker.pid for worker in session.snapshot().workers}
        nested = dask.delayed(sum)([dask.delayed(square)(n) for n in range(5)])
        assert nested.compute() == 30
        with pytest.raises(ZeroDivisionError):
            dask.delayed(divmod)(1, dask.delayed(square)(0)).compute()


def test_dask_in_a_task(runtime: str) -> None:
    """It waits by a queue that callbacks fill."""
    pytest.importorskip("dask")
    wb.init(workers=1, memory="32MB")

    @wb.remote
    def computes(n: int) -> Any:
        import dask

        calls = [dask.delayed(square)(i) for i in range(n)]
        return dask.delayed(sum)(calls).compute(scheduler=Executor())

    assert wb.get([computes.remote(n) for n in (3, 5)], timeout=TIMEOUT) == [5, 30]
    wb.shutdown()


# -- tqdm ------------------------------------------------------------------------------------------


def test_a_bar_over_a_map(session: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `tqdm.contrib.concurrent.process_map` does with the executor that it makes."""
    from tqdm import tqdm

    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # no thread that outlives the test
    shown = io.StringIO()
    with Executor(max_workers=2) as executor:
        results = executor.map(square, range(50), chunksize=5)
        assert list(tqdm(results, total=50, file=shown)) == [n * n for n in range(50)]
        calls = [executor.submit(square, n) for n in range(5)]
        done = tqdm(as_completed(calls, TIMEOUT), total=5, file=shown)
        assert sorted(call.result() for call in done) == [0, 1, 4, 9, 16]
    assert "50/50" in shown.getvalue()


# -- asyncio ---------------------------------------------------------------------------------------


def test_a_loop_waits_for_calls(session: Engine) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with Executor() as executor:
            loop.run_in_executor(executor, square, 1).cancel()
            calls = [loop.run_in_executor(executor, square, n) for n in range(10)]
            assert await asyncio.gather(*calls) == [n * n for n in range(10)]
            wrapped = asyncio.wrap_future(executor.submit(square, 4))
            assert await asyncio.wait_for(wrapped, TIMEOUT) == 16
            with pytest.raises(ZeroDivisionError):
                await loop.run_in_executor(executor, divmod, 1, 0)
            first = asyncio.FIRST_COMPLETED
            done, _ = await asyncio.wait(
                [loop.run_in_executor(executor, pid, n) for n in range(3)], return_when=first
            )
            assert done

    asyncio.run(main())


def test_a_coroutine_that_is_cancelled_cancels_what_has_not_begun(session: Engine) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with Executor(max_workers=1) as executor:
            calls = [executor.submit(square, n) for n in range(200)]
            last = asyncio.wrap_future(calls[-1])
            last.cancel()
            await loop.run_in_executor(None, calls[0].result, TIMEOUT)
            assert last.cancelled()
            assert calls[-1].cancelled() or calls[-1].done()

    asyncio.run(main())


# -- multiprocessing's managers --------------------------------------------------------------------


def test_proxies_of_a_manager_go_everywhere(script: Callable[..., Script]) -> None:
    script_ = script("""
        import multiprocessing
        from joblib import Parallel, delayed, parallel_config

        def note(n, seen, lock, counts):
            with lock:
                seen.append(n)
                counts["all"] = counts.get("all", 0) + n

        def begin(queue, word):
            queue.put(word)

        with multiprocessing.get_context("spawn").Manager() as manager:
            seen, counts, queue = manager.list(), manager.dict(), manager.Queue()
            lock, event = manager.Lock(), manager.Event()
            wb.init(workers=2)
            with wb.Executor(initializer=begin, initargs=(queue, "begun")) as executor:
                for n in range(3):
                    executor.submit(note, n, seen, lock, counts).result()
                executor.submit(event.set).result()
            wb.register_joblib()
            with parallel_config("workbench", n_jobs=2):
                Parallel()(delayed(note)(n, seen, lock, counts) for n in range(3, 6))
            say(sorted(seen), dict(counts), queue.get(), event.is_set())
    """)
    assert script_.line() == "[0, 1, 2, 3, 4, 5] {'all': 15} begun True"
