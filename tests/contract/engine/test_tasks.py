"""Tasks: what they are called with and give, errors, retries, tasks in tasks, waiting for them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import Cluster
from tests.kernel.gates import Gate
from tests.leaks import eventually


def test_arguments_and_results_of_all_kinds(book: Book) -> None:
    book.ok("""
        @wb.remote
        def f(a, b=2, *args, c=3, **kwargs): return a, b, args, c, kwargs
        one = wb.put(1)
        assert wb.get(f.remote(1, one, 5, c=one, self=6)) == (1, 1, (5,), 1, {"self": 6})
        assert wb.get(f.remote(f.remote(0)))[0][0] == 0
        nested = wb.get(wb.remote(lambda refs: [type(r).__name__ for r in refs]).remote([one]))
        assert nested == ["ObjectRef"]
        a, b = wb.remote(num_returns=2)(lambda: (1, [2])).remote()
        assert wb.get([b, a]) == [[2], 1]
        assert wb.remote(num_returns=0)(lambda: None).remote() is None
        x = np.random.default_rng(0).random(1_000_000)
        assert np.array_equal(wb.get(wb.remote(lambda a: a * 2).remote(x)), x * 2)
    """)
    book.fails("f.remote()", "TypeError", "'a'")
    book.fails("wb.get(wb.remote(num_returns=2)(lambda: (1, 2, 3)).remote())", "ValueError")


def test_each_call_runs_in_a_task_and_the_function_as_it_is_now(book: Book) -> None:
    book.ok("""
        n = 1
        @wb.remote
        def told(): return n
        assert wb.get(told.remote()) == 1
    """)
    book.ok("""
        @wb.remote
        def told(): return n + 10
        assert wb.get(told.remote()) == 11
        square = wb.remote(lambda n: n * n)
        assert wb.get([square.remote(n) for n in range(300)]) == [n * n for n in range(300)]
        assert list(wb.map(lambda n: n + 1, range(20))) == list(range(1, 21))
        refs = [square.remote(n) for n in range(6)]
        assert wb.gather(refs) == sorted(map(wb.get, wb.as_completed(refs)))
        def where(): return os.getpid(), wb.get_runtime_context().get_task_id()
        pid, task = wb.get(wb.remote(where).remote())
        assert pid != os.getpid() and task
    """)


def test_a_task_has_as_long_as_one_says(book: Book) -> None:
    book.ok("slow = wb.remote(timeout=0.2, max_retries=0)(lambda: pause()).remote()")
    book.fails("wb.get(slow)", "TaskTimeoutError", "longer than its timeout, 0.2 s")
    book.fails("%%remote -w --timeout 0.2\npause()", "longer than its timeout")
    jobs = book.ok("%workbench jobs").results()[0].splitlines()
    assert " failed " in jobs[-1]


def test_a_cell_takes_what_it_reads_and_brings_what_it_assigns_or_changes(book: Book) -> None:
    book.ok("n, data, model = 3, np.ones(200_000), {'steps': 0}\n%put data")
    (shown,) = book.ok("%%remote --dry-run\nx = data.sum() + n").results()
    assert "by reference" in shown
    assert "by value" in shown
    book.ok("%%remote -w\ntotal = float(data.sum()) + n\nmore = [total]\nmodel['steps'] += 1")
    assert book.value("(total, more, model)") == "(200003.0, [200003.0], {'steps': 1})"
    book.over(book.ok("%%remote\nlater = n * 2"))
    assert book.value("wb.get(later)") == "6"
    assert book.value("wb.get(get_ipython().run_line_magic('remote', 'sum(range(10))'))") == "45"
    book.ok(
        "%%remote -w\nimport workbench as wb\n"
        "found = wb.get([wb.remote(abs).remote(-n) for n in range(4)])"
    )
    assert book.value("found") == "[0, 1, 2, 3]"


def test_a_namespace_of_cells_stays(book: Book) -> None:
    book.ok("%%remote -w --actor side\nimport threading\nlock = threading.Lock()\ntotal = 3")
    book.ok("%%remote -w --actor side -o total\ntotal += 1")
    assert book.value("total") == "4"
    book.ok("wb.kill(wb.get_actor('side'))")


def test_an_error_is_what_it_was_for_whoever_takes_the_result(book: Book) -> None:
    book.ok("""
        class Odd(ValueError):
            def __init__(self, code): super().__init__(f"code {code}"); self.code = code
        @wb.remote(max_retries=0)
        def broken(code):
            error = Odd(code)
            error.add_note("a note")
            raise error
        bad = broken.remote(7)
        after = wb.remote(abs).remote(bad)
        try:
            wb.get(bad)
        except Odd as error:
            said = (error.code, str(error), error.__notes__, type(error.cause).__name__)
    """)
    assert book.value("said") == "(7, 'code 7', ['a note'], 'Odd')"
    book.fails("wb.get([wb.put(1), after])", "Odd")
    book.ok("import threading")
    book.fails("wb.get(wb.remote(max_retries=0)(threading.Lock).remote())", "lock")


def test_an_error_has_the_lines_of_its_cell(book: Book) -> None:
    failure = book.fails("%%remote -w\nzero = 0\n1 / zero  # here", "ZeroDivisionError")
    assert "1 / zero # here" in failure
    book.ok("@wb.remote(max_retries=0)\ndef f():\n    return 1 / 0  # in f")
    assert "1 / 0 # in f" in book.fails("wb.get(f.remote())", "ZeroDivisionError")
    cell = book.ok("%%remote\n1 / 0  # later")
    book.until(lambda: cell.failure)
    assert "1 / 0  # later" in cell.failure
    book.fails("%%remote -w\nexec('nobody_knows')", "NameError", "nobody_knows")


def test_a_task_that_ends_its_process(book: Book) -> None:
    book.ok("gone = wb.remote(max_retries=0)(lambda: os._exit(3)).remote()")
    book.fails("wb.get(gone)", "WorkerCrashedError", "`<lambda>`")
    book.ok("left = wb.remote(max_retries=0)(lambda: __import__('sys').exit(3)).remote()")
    assert book.run("wb.get(left)").failure
    assert book.value("wb.get(wb.remote(len).remote('abc'))") == "3"


def test_a_worker_ends_after_so_many_calls(book: Book) -> None:
    book.needs("max_calls")
    book.ok("""
        once = wb.remote(max_calls=1)(lambda: os.getpid())
        pids = [wb.get(once.remote()) for _ in range(3)]
        assert len(set(pids)) == 3, pids
    """)


def test_fewer_run_of_those_that_take_more(book: Book, gate: Gate, tmp_path: Path) -> None:
    book.needs("needs")
    most = book.system.workers // 2
    marks = tmp_path / "marks"
    marks.mkdir()
    book.ok(f"""
        def wide(n):
            open({str(marks)!r} + f"/{{n}}", "w").close()
            {gate.wait}
        refs = [wb.remote(num_cpus=2)(wide).remote(n) for n in range({most + 1})]
    """)
    assert eventually(lambda: len(os.listdir(marks)) == most)
    book.ok("wb.wait(refs, timeout=0.2)")
    assert len(os.listdir(marks)) == most
    gate.open(most + 1)
    book.ok("wb.get(refs)")


def test_what_crashed_is_tried_again_what_failed_if_asked(book: Book, tmp_path: Path) -> None:
    book.ok(f"""
        def comes_back(name, times, end):
            path = os.path.join({str(tmp_path)!r}, name)
            os.makedirs(path, exist_ok=True)
            tries = len(os.listdir(path))
            open(os.path.join(path, str(tries)), "w").close()
            if tries < times: end()
            return tries
        crash = lambda: os._exit(1)
        def raises(): raise OSError("again")
        again = wb.remote(comes_back)
        assert wb.get(again.options(max_retries=2).remote("a", 2, crash)) == 2
    """)
    book.fails("wb.get(again.options(max_retries=1).remote('b', 5, crash))", "WorkerCrashedError")
    assert len(os.listdir(tmp_path / "b")) == 2
    book.fails("wb.get(again.remote('c', 1, raises))", "OSError")
    book.ok("""
        retried = again.options(max_retries=2, retry_exceptions=[OSError])
        assert wb.get(retried.remote("d", 2, raises)) == 2
    """)
    book.fails("%%remote -w\ncomes_back('e', 1, crash)", "WorkerCrashedError")
    book.ok("%%remote -w --retries 1\nx = comes_back('f', 1, crash)")
    assert book.value("x") == "1"


def test_tasks_wait_for_tasks_deeper_than_there_are_workers(book: Book) -> None:
    """By refs, by futures, and by an executor that a task opens: who waits lends its slot."""
    book.ok(f"""
        import concurrent.futures
        @wb.remote
        def deep(n): return 0 if n == 0 else 1 + wb.get(deep.remote(n - 1))
        assert wb.get(deep.remote(8)) == 8
        def waits(n):
            futures = [wb.remote(pow).remote(n, 2).future() for n in range(n)]
            done, left = concurrent.futures.wait(futures)
            assert not left
            return sorted(future.result() for future in done)
        def opens(n):
            with wb.Executor() as pool:
                return [pool.submit(pow, n, 2).result(), *pool.map(abs, [-1, -2])]
        many = {book.system.workers} + 1
        refs = [wb.remote(waits).remote(3) for _ in range(many)]
        assert wb.get(refs) == [[0, 1, 4]] * many
        assert wb.get([wb.remote(opens).remote(3) for _ in range(many)]) == [[9, 1, 2]] * many
    """)


def test_refs_that_tasks_give_are_there_however_soon_they_come(book: Book) -> None:
    """What a task submits and its end take different ways."""
    book.ok("""
        f = wb.remote(abs)
        @wb.remote
        def gives(): return [f.remote(-n) for n in range(5)]
        for _ in range(20):
            assert wb.get(wb.get(gives.remote())) == [*range(5)]
    """)


def test_wait_gives_what_is_ready(book: Book, gate: Gate) -> None:
    book.ok(f"""
        quick = wb.remote(lambda: "quick").remote()
        slow = wb.remote(lambda: {gate.wait}).remote()
        ready, rest = wb.wait([slow, quick])
        assert (ready, rest) == ([quick], [slow])
        assert wb.wait([slow, quick], num_returns=2, timeout=0.05) == ([quick], [slow])
    """)
    gate.open()
    book.ok("assert wb.wait([slow, quick], num_returns=2)[0] == [slow, quick]")


def test_refs_are_awaited_and_have_futures_whatever_their_size(book: Book) -> None:
    book.ok("""
        import asyncio
        sizes = 10, 100_000, 3_000_000
        f = wb.remote(lambda n: b"x" * n)
        futures = [f.remote(n).future() for n in sizes]
        assert [len(each.result(60)) for each in futures] == list(sizes)
        assert list(map(len, await asyncio.gather(*(f.remote(n) for n in sizes)))) == list(sizes)
        assert len(await asyncio.wrap_future(f.remote(3).future())) == 3
        failed = wb.remote(max_retries=0)(lambda: 1 / 0).remote().future()
        assert isinstance(failed.exception(), ZeroDivisionError)
    """)


def test_tasks_that_wait_for_refs_that_came_later_let_others_run(
    book: Book, cluster: Cluster, gate: Gate, tmp_path: Path
) -> None:
    slots, began = book.system.workers, tmp_path / "began"
    began.mkdir()
    book.ok(f"""
        def waits(n):
            open(f"{began}/{{n}}", "w").close()
            {gate.wait}
            return wb.get("later")
        waiting = [wb.remote(waits).remote(n) for n in range({slots})]
    """)
    assert eventually(lambda: len(list(began.iterdir())) == slots)
    book.ok("""
        from workbench import context
        queued = wb.remote(lambda: "queued").remote()
        context.get().name(queued, "later")
    """)
    gate.open(slots)
    assert book.value("wb.get(waiting, timeout=60)") == repr(["queued"] * slots)


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
