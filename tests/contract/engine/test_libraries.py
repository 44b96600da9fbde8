"""Other libraries' ways to have work done, on each engine: `concurrent.futures`, `multiprocessing`,
joblib."""

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
    book.ok("""
        def inverse(n): return 1 / n
        with wb.Executor() as pool:
            assert list(pool.map(inverse, [1, 2, 4] * 5, chunksize=4)) == [1, 0.5, 0.25] * 5
            assert list(pool.map(inverse, [])) == []
            found = pool.map(inverse, [2, 0, 4])
            assert next(found) == 0.5
            try: next(found)
            except ZeroDivisionError: told = True
        assert told
    """)


def test_a_pool(book: Book) -> None:
    book.ok("""
        with wb.Pool(2) as pool:
            assert pool.map(abs, range(-40, 0)) == list(range(40, 0, -1))
            assert pool.apply(max, (1, 2)) == 2
            assert sorted(pool.imap_unordered(abs, [-1, -2])) == [1, 2]
            assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
    """)


def test_joblib_stores_large_arguments_once_and_says_what_failed(book: Book) -> None:
    book.ok("""
        import joblib
        wb.register_joblib()
        large = np.ones(300_000)
        def scaled(array, n):
            if n < 0: raise ValueError(n)
            assert not array.flags.writeable
            return float(array.sum()) * n
        with joblib.parallel_config("workbench", n_jobs=2):
            run = joblib.Parallel(batch_size=3)
            assert run(joblib.delayed(scaled)(large, n) for n in range(10)) == [
                300_000.0 * n for n in range(10)]
            try: joblib.Parallel()(joblib.delayed(scaled)(large, n) for n in (1, -1))
            except ValueError as error: told = str(error)
        assert told == "-1"
    """)
