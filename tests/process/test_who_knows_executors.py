"""Libraries that take an executor of `concurrent.futures`: dask, asyncio. Proxies of managers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from tests.patience import TIMEOUT
from tests.process.scripts import Script
from workbench import Executor
from workbench.engines.base import Engine


def square(x: int) -> int:
    return x * x


def pid(_: object = None) -> int:
    return os.getpid()


# -- dask's threaded scheduler, on processes -------------------------------------------------------


@pytest.mark.extended
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


# -- multiprocessing's managers --------------------------------------------------------------------


def test_proxies_of_a_manager_go_everywhere(script: Callable[..., Script]) -> None:
    """Their manager asks for a key, which multiprocessing gives to children alone."""
    script_ = script("""
        import multiprocessing

        def note(n, seen, lock):
            with lock:
                seen.append(n)

        with multiprocessing.get_context("spawn").Manager() as manager:
            seen, lock, queue = manager.list(), manager.Lock(), manager.Queue()
            wb.init(workers=2)
            with wb.Executor(initializer=queue.put, initargs=("begun",)) as executor:
                for n in range(3):
                    executor.submit(note, n, seen, lock).result()
            with wb.Pool(2) as pool:
                pool.starmap(note, [(n, seen, lock) for n in range(3, 6)])
            say(sorted(seen), queue.get())
    """)
    assert script_.line() == "[0, 1, 2, 3, 4, 5] begun"
    assert script_.wait() == 0  # else the manager stays
