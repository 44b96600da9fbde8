"""joblib on each engine. `test_tasks.py` has executors."""

from __future__ import annotations

from tests.contract.engine.conftest import Book


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
