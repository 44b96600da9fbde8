"""Other libraries' ways to have work done, on each engine: `concurrent.futures`, `multiprocessing`,
joblib, asyncio."""

from __future__ import annotations

from tests.contract.engine.conftest import Book


def test_an_executor(book: Book) -> None:
    book.ok("""
        import concurrent.futures as cf
        with wb.Executor() as executor:
            assert list(executor.map(pow, [1, 2, 3], [2, 2, 2])) == [1, 4, 9]
            futures = [executor.submit(divmod, 7, n) for n in (2, 0)]
            assert {f.exception() is None for f in cf.wait(futures, 60).done} == {True, False}
            assert futures[0].result() == (3, 1)
    """)
    book.fails("futures[1].result()", "ZeroDivisionError")


def test_a_pool(book: Book) -> None:
    book.ok("""
        with wb.Pool(2) as pool:
            assert pool.map(abs, range(-40, 0)) == list(range(40, 0, -1))
            assert pool.apply(max, (1, 2)) == 2
            assert sorted(pool.imap_unordered(abs, [-1, -2])) == [1, 2]
            assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
    """)


def test_joblib(book: Book) -> None:
    """Its large arguments are stored once."""
    book.ok("""
        import joblib
        shared = np.arange(300_000.0)
        def part(array, n): return float(array[n::3].sum()), array.flags.writeable
        with joblib.parallel_config("workbench"):
            found = joblib.Parallel()(joblib.delayed(part)(shared, n) for n in range(3))
        assert sum(total for total, _ in found) == shared.sum()
        assert not any(writeable for _, writeable in found)
    """)


def test_awaited(book: Book) -> None:
    book.ok("import asyncio\nadd = wb.remote(lambda a, b: a + b)")
    book.ok("assert await asyncio.gather(*[add.remote(n, 1) for n in range(4)]) == [1, 2, 3, 4]")
    book.ok("assert await asyncio.wrap_future(add.remote(1, 1).future()) == 2")
