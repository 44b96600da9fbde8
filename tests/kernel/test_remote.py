"""%%remote in a real kernel: its options, the line under a cell, interrupts, jobs as people use
them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kernel.conftest import Cell, Kernel
from tests.kernel.gates import Gate
from tests.leaks import eventually

FOREVER = "__import__('threading').Event().wait(3600)"


def over(kernel: Kernel, cell: Cell) -> str:
    """The line that stays."""
    kernel.until(lambda: re.search("done|failed|stopped", cell.line))
    return cell.line


# -- options ---------------------------------------------------------------------------------------


def test_what_comes_back_by_default_and_on_demand(session: Kernel) -> None:
    body = "import os\ndef f(): return 1\n_private = 2\nx = 3\ny = 4"
    session.ok(f"%%remote -w\n{body}")
    assert session.value("(x, y, 'f' in dir(), '_private' in dir())") == "(3, 4, False, False)"
    session.ok("del x, y")
    session.ok(f"%%remote -w -o f _private\n{body}")
    assert session.value("(f(), _private, 'x' in dir())") == "(1, 2, False)"
    session.ok(f"%%remote -w -o x,f\n{body}")
    failure = session.run(f"%%remote -w -o z\n{body}").failure
    assert "--out z: the cell assigns no such name. It assigns os, f, _private, x, y." in failure


def test_a_cell_that_fails_leaves_the_variables_as_they_were(session: Kernel) -> None:
    session.ok("x = 'kept'")
    body = "x = x + '!'\n1 / 0"
    assert "ZeroDivisionError" in session.run(f"%%remote -w\n{body}").failure
    assert session.value("x") == "'kept'"
    cell = session.ok(f"%%remote --name fails\n{body}")
    session.until(lambda: cell.failure)
    assert session.value("x") == "'kept'"
    session.ok("%%remote --name comes\nx = x + '!'")
    assert session.value("wb.get(x)") == "'kept!'"


def test_a_name_in_a_branch_that_did_not_run_is_left_alone(session: Kernel) -> None:
    session.ok("never = False\nx = 'kept'")
    body = "if never:\n    x, new = 1, 2\ny = 3"
    session.ok(f"%%remote -w\n{body}")
    assert session.value("(x, y, 'new' in dir())") == "('kept', 3, False)"
    assert "without giving 'new' a value" in session.run(f"%%remote -w -o new\n{body}").failure
    session.ok("del y")
    over(session, session.ok(f"%%remote --name branches\n{body}"))
    session.ok("job = %workbench job branches")
    assert session.value("(x, job.result())") == "('kept', {'y': 3})"
    assert session.ok("%get --jobs").text() == "branches: y\n"


def test_a_name_only_code_in_a_string_reads(session: Kernel) -> None:
    session.ok("secret = 42")
    session.ok("%%remote -w -i secret\nfound = eval('secret')")
    assert session.value("found") == "42"
    assert "'nowhere' is not defined" in session.run("%%remote -i nowhere\n1").failure


def test_a_name_of_its_own(session: Kernel, gate: Gate) -> None:
    cell = session.ok(f"%%remote --name training\n{gate.wait}\nmodel = 'trained'")
    session.until(lambda: session.says(r"training · worker \d+ · running \d+ s$"))
    job = session.ok("job = %workbench job training\nprint(job.state)")
    assert job.text() == "running\n"
    gate.open()
    assert session.value("job.result()") == "{'model': 'trained'}"
    assert re.fullmatch(r"training · done in .*s( · peak .*B)? · model", over(session, cell))


def test_what_all_items_read_is_stored_once(session: Kernel, gate: Gate) -> None:
    session.ok("import numpy as np\nbig = np.ones(1_000_000)\nparts = [np.ones(500_000)] * 2")
    shown = session.ok("%%remote --map part=parts --dry-run\nbig.sum() + part.sum()").results()[0]
    assert re.search(r"part, an item each +ndarray, 2 items +\S+ MB +by value", shown)
    session.ok("%%remote -w --map part=parts\ntotal = float(big.sum() + part.sum())")
    assert session.value("total") == "[1500000.0, 1500000.0]"
    session.ok(f"%%remote -n 8\n{gate.wait}\nsize = big.nbytes")
    large = "[o.size > 8_000_000 for o in wb.snapshot().objects].count(True)"
    assert eventually(lambda: session.value(large) == "1")  # the first cell's is going
    gate.open(8)
    assert session.value("wb.get(size) == [8_000_000] * 8") == "True"


def test_a_name_with_spaces(session: Kernel) -> None:
    over(session, session.ok("%%remote --name 'second try'\nx = 1"))
    for name in ("second try", "'second try'"):
        (shown,) = session.ok(f"%workbench job {name}").results()
        assert shown.startswith("second try · done in")


def test_lines_say_whose_they_are_from_the_first_one_on(session: Kernel) -> None:
    """Also those of tasks that are over before the last one is submitted."""
    session.ok("%%remote -w --map part=range(8)\nimport time")  # there are workers
    cell = session.ok("%%remote --wait --map part=range(500)\nprint('part', part)")
    assert sorted(cell.printed) == sorted(f"[{i}] part {i}" for i in range(500))


def test_once_for_each_item(session: Kernel) -> None:
    session.ok("files = ['a', 'b', 'c']")
    cell = session.ok("%%remote --map files\nprint('reading', item)\nsize = (index, item * 2)")
    session.ok("%get size --as sizes")
    assert session.value("sizes") == "[(0, 'aa'), (1, 'bb'), (2, 'cc')]"
    line = over(session, cell)
    assert re.fullmatch(r"cell \d+ · done in .*s · 3 of 3( · peak .*)? · size", line)
    assert cell.printed == ["[0] reading a", "[1] reading b", "[2] reading c"]
    session.ok("paths = (name + '.txt' for name in files)")
    session.ok("%%remote -w --map path=paths\nname = path.upper()")
    assert session.value("name") == "['A.TXT', 'B.TXT', 'C.TXT']"
    session.ok('%%remote -w --map "n=range(2, 4)"\ndouble = 2 * n')
    assert session.value("double") == "[4, 6]"
    session.ok("%%remote -w -n 4\nsquare = index ** 2")
    assert session.value("square") == "[0, 1, 4, 9]"
    session.ok("%%remote -n 1\nsingle = index")
    assert session.value("(type(single).__name__, wb.get(single))") == "('list', [0])"


def test_what_all_items_need_is_sent_once_and_whole(session: Kernel) -> None:
    session.ok("import numpy as np\ntable = np.ones(10**6)\nparts = [table]\ndef f(): return 1")
    before = session.value("wb.snapshot().live")
    session.ok("%%remote -n 20\nsame = (parts[0] is table, int(table.sum()) + f())")
    session.ok("%get same")
    assert session.value("set(same)") == "{(True, 1000001)}"
    assert session.value(f"wb.snapshot().live - {before} < 2 * table.nbytes") == "True"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-n 0", "--each 0: it can run for 1 to 100,000 items, not 0."),
        ("-n 2 --map files", "-n and --map are two ways to say how often"),
        ("--map nowhere", "'nowhere' is not defined in the notebook."),
        ("--map 7", "--map 7: 'int' object is not iterable."),
        ("--map a.b=files", "'a.b' can't be a variable."),
        ("-n 2 --actor side", "The cells of a namespace run one after the other"),
        ("--retries -1", "--retries -1: it must be 0 or more."),
        ("--timeout 0", "--timeout 0: it must be above 0"),
        ("--timeout soon", "argument --timeout: invalid float value: 'soon'. Usage:"),
    ],
)
def test_options_that_cannot_be(session: Kernel, options: str, message: str) -> None:
    session.ok("files = ['a']")
    cell = session.run(f"%%remote {options}\nx = 1")
    assert message in cell.failure
    assert session.value("'x' in dir()") == "False"


def test_some_of_many_fail(session: Kernel) -> None:
    cell = session.ok("%%remote -n 4\nif index % 2: raise ValueError(index)\nx = index")
    session.until(lambda: "more of them failed" in cell.text("stderr"))
    assert "ValueError" in cell.failure
    assert re.match(r"cell \d+ · failed after .*s · 2 of 4", over(session, cell))
    assert session.value("(wb.get(x[0]), wb.get(x[2]))") == "(0, 2)"
    cell = session.run("%%remote -w -n 2\nif index: raise ValueError\nx = 7")
    assert "ValueError" in cell.failure
    assert session.value("wb.get(x[0])") == "7"


def test_a_time_limit(session: Kernel) -> None:
    cell = session.ok("%%remote --timeout 0.2\nimport threading\nthreading.Event().wait(60)")
    session.until(lambda: cell.failure)
    assert "ran longer than its timeout, 0.2 s" in cell.failure
    assert "failed" in over(session, cell)


def test_it_is_run_again_only_if_that_is_wanted(session: Kernel, tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    body = f"import os\nif not os.path.exists({str(mark)!r}):\n    os.mkdir({str(mark)!r})\n"
    body += "    os._exit(1)\nx = 'second time'"
    assert "WorkerCrashedError" in session.run(f"%%remote -w\n{body}").failure
    mark.rmdir()
    session.ok(f"%%remote -w --retries 1\n{body}")
    assert session.value("x") == "'second time'"


def test_quiet(session: Kernel) -> None:
    cell = session.ok("%%remote -q\nprint('heard')\nx = 1")
    session.ok("%get x")
    session.until(cell.text)
    assert not cell.lines


def test_a_namespace_that_stays(session: Kernel) -> None:
    session.ok("n = 3")
    body = "import threading\nlock = threading.Lock()\ntotal = n"
    first = session.ok(f"%%remote --actor side\n{body}")
    session.ok("%%remote --actor side\ntotal += 1")
    session.ok("%%remote -w --actor side -o total, kind\nkind = type(lock).__name__")
    assert session.value("(total, kind, 'lock' in dir())") == "(4, 'lock', False)"
    assert re.match(r"cell \d+ · done", over(session, first))
    session.ok("n = 100")
    session.ok("%%remote --actor side -w -i n -o n\nn += total")
    assert session.value("n") == "104"
    missing = session.run("%%remote -w --actor side\nnever_heard_of")
    assert "NameError" in missing.failure
    session.ok("@wb.remote\nclass Other: pass\nother = Other.options(name='taken').remote()")
    assert "no namespace for cells" in session.run("%%remote --actor taken\n1").failure


def test_what_a_cell_of_a_namespace_did_not_come_to_assign_is_sent(session: Kernel) -> None:
    session.ok("x = 'the notebook has it'")
    session.run("%%remote -w --actor side\n1 / 0\nx = 'never'")
    session.ok("%%remote -w --actor side -o y\ny = x")
    assert session.value("y") == "'the notebook has it'"
    session.ok("%%remote -w --actor side\nx = 'its own'")
    session.ok("%%remote -w --actor side -o y\ny = x")
    assert session.value("y") == "'its own'"


def test_what_a_cell_made_goes_with_its_variable(session: Kernel) -> None:
    sizes = "sorted(r.size // 100_000 for r in wb.snapshot().objects if r.size > 10**6)"
    session.ok("import numpy as np\n%put --name kept np.ones(200_000)")
    cell = session.ok("%%remote\nimport numpy as np\nx, y = np.ones(300_000), np.ones(400_000)")
    over(session, cell)
    session.ok("%%remote -w -n 2\nimport numpy as np\nz = np.ones(500_000)")
    assert session.value(sizes) == "[16, 24, 32, 40, 40]"
    session.ok("del x, z")
    assert eventually(lambda: session.value(sizes) == "[16, 32]")
    session.ok(f"job = %workbench job cell {cell.number}")
    assert session.value("list(job.result())") == "['y']"
    session.ok("y = None")
    assert eventually(lambda: session.value(sizes) == "[16]")


def test_a_dry_run_makes_no_namespace(session: Kernel) -> None:
    session.ok("x = 1")
    assert "x" in session.ok("%%remote --dry-run --actor dry\ny = x").results()[0]
    assert session.value("wb.snapshot().actors") == "()"


def test_cells_of_a_namespace_wait_for_each_other(session: Kernel, gate: Gate) -> None:
    session.ok(f"%%remote --actor side\nseen = []\n{gate.wait}\nseen.append(1)")
    session.until(lambda: session.says(" · in side · running"))
    second = session.ok("%%remote --actor side -o seen\nseen.append(2)")
    assert "queued" in second.line
    gate.open()
    assert session.value("wb.get(seen)") == "[1, 2]"


def test_an_expression(session: Kernel) -> None:
    session.ok("import numpy as np\nx = np.arange(10)\n%put x\nk = 2")
    session.ok("ref = %remote (x * k).sum()")
    assert session.value("(type(ref).__name__, int(wb.get(ref)))") == "('ObjectRef', 90)"
    assert "'nowhere' is not defined" in session.run("%remote nowhere + 1").failure
    assert "SyntaxError" in session.run("%remote 1 +").failure


# -- the line under a cell -------------------------------------------------------------------------


def test_the_line_says_what_it_is_doing_and_then_what_came_of_it(
    session: Kernel, gate: Gate
) -> None:
    cell = session.ok(f"%%remote\nprint('there')\n{gate.wait}\na, b = 1, 2")
    session.until(lambda: session.says(rf"cell {cell.number} · worker \d+ · running \d+ s$"))
    gate.open()
    assert re.fullmatch(r"cell \d+ · done in .*s( · peak .*B)? · a, b", over(session, cell))
    last = cell.lines[-1]
    assert set(last) == {"text/plain", "text/html"}, "no widget is left in what is saved"
    assert "<script" not in last["text/html"]
    assert cell.text() == "there\n"


def test_the_line_has_the_progress_of_a_bar(session: Kernel, gate: Gate) -> None:
    session.ok(
        "%%remote\nfrom tqdm import tqdm\nbar = tqdm(total=4, mininterval=0)\n"
        f"bar.update(3)\n{gate.wait}\nbar.close()"
    )
    session.until(lambda: session.says(r"running \d+ s · 75 %"))
    gate.open()


def test_a_cell_that_is_waited_for_and_quick_has_no_line(session: Kernel) -> None:
    with session.patient("workbench.ipython.magics.remote"):
        cell = session.ok("%%remote -w\nx = 1")
        session.ok("pass")
    assert not cell.lines


def test_the_line_survives_when_the_cell_clears_its_output(session: Kernel, gate: Gate) -> None:
    cell = session.ok(
        "%%remote\nfrom IPython.display import clear_output\nprint('before')\n"
        f"clear_output(wait=True)\nprint('after')\n{gate.wait}"
    )
    session.until(lambda: cell.clears and "after" in cell.text())
    shown_again = len(cell.lines)
    gate.open()
    assert shown_again >= 2
    assert "done" in over(session, cell)


def test_a_failure_has_its_line_and_its_traceback(session: Kernel) -> None:
    cell = session.ok("%%remote\nx = 1\nraise ValueError('of the cell')")
    session.until(lambda: cell.failure)
    assert re.match(r"cell \d+ · failed after", over(session, cell))
    assert re.search(rf"Cell In\s?\[{cell.number}\], line 3", cell.failure)


def test_output_of_several_workers_is_labelled(session: Kernel) -> None:
    cell = session.ok(
        "%%remote -w\nimport workbench\n"
        "@workbench.remote\ndef say(n):\n    print('task', n)\n    return n\n"
        "print('alone')\nworkbench.get([say.remote(n) for n in range(2)])\nprint('again')"
    )
    assert cell.text().startswith("alone\n")
    labelled = [re.sub(r"worker \d+", "worker", line) for line in cell.printed]
    assert sorted(labelled) == ["(worker) again", "(worker) task 0", "(worker) task 1", "alone"]


# -- stopping --------------------------------------------------------------------------------------


def test_one_interrupt_stops_what_is_waited_for_and_nothing_else(
    session: Kernel, gate: Gate
) -> None:
    session.ok("kept = wb.put('kept')")
    other = session.ok(f"%%remote --name other\n{gate.wait}\nx = 'the end'")
    cell = session.start(f"%%remote -w\nprint('there')\n{FOREVER}")
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "KeyboardInterrupt" in cell.failure
    states = session.value("[job.state for job in wb.snapshot().jobs][-2:]")
    assert states == "['running', 'stopped']"
    gate.open()
    assert session.value("wb.get([kept, x])") == "['kept', 'the end']"
    assert "done" in over(session, other)


@pytest.mark.parametrize(
    "waits", ["wb.get(refs)", "wb.wait(refs)", "wb.gather(refs)", "for ref in refs: wb.get(ref)"]
)
def test_an_interrupt_stops_the_tasks_that_the_cell_has_submitted(
    session: Kernel, waits: str
) -> None:
    session.ok(f"@wb.remote\ndef long(n):\n    print('there')\n    {FOREVER}")
    cell = session.start(f"refs = [long.remote(n) for n in range(5)]\n{waits}")
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "KeyboardInterrupt" in cell.failure
    assert "workbench" not in cell.failure, "frames of ours"
    assert session.value("(wb.snapshot().running, wb.snapshot().queued)") == "(0, 0)"


def test_what_waits_behind_a_call_that_is_stopped_does_not_begin(session: Kernel) -> None:
    session.ok(
        "@wb.remote\nclass Counter:\n    began = 0\n    def slow(self):\n        self.began += 1\n"
        f"        print('there')\n        {FOREVER}\n    def count(self):\n"
        "        return self.began"
    )
    session.ok("counter = Counter.remote()\nwb.get(counter.count.remote())")
    cell = session.start("wb.get([counter.slow.remote() for _ in range(50)])")
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: cell.idle)
    assert session.value("wb.get(counter.count.remote())") == "1"


def test_an_interrupt_of_a_cell_that_awaits(session: Kernel) -> None:
    session.ok(f"@wb.remote\ndef long():\n    print('there')\n    {FOREVER}")
    cell = session.start("await long.remote()")
    session.until(cell.text)
    session.interrupt()
    session.client.kernel_info()  # its idle loop hears a signal only when something else comes
    session.until(lambda: cell.idle)
    assert "CancelledError" in cell.failure
    assert session.value("(wb.snapshot().running, wb.snapshot().queued)") == "(0, 0)"


DEAF = (
    "%%remote -w\nimport os, signal, threading\nsignal.pthread_sigmask(signal.SIG_BLOCK, "
    "[signal.SIGINT])\nprint(os.getpid())\nthreading.Event().wait(3600)"
)


def test_interrupted_again_it_ends_the_worker(session: Kernel) -> None:
    cell = session.start(DEAF)
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: "interrupt again to kill it" in cell.text("stderr"))
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "its worker was killed" in cell.text("stderr")
    assert session.value(f"__import__('os').path.exists('/proc/{int(cell.text())}')") == "False"
    session.ok("%%remote -w\nx = 'the pool is whole'")


def test_who_does_not_hear_an_interrupt_is_ended_after_a_while(session: Kernel) -> None:
    cell = session.start(DEAF)
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "its worker was killed" in cell.text("stderr")
    assert session.value("wb.snapshot().running") == "0"


def test_a_namespace_is_not_ended_with_a_cell_that_does_not_listen(session: Kernel) -> None:
    cell = session.start(DEAF.replace("-w", "-w --actor deaf"))
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: "interrupt again to kill it" in cell.text("stderr"))
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "`workbench.kill` of that actor ends it" in cell.text("stderr")
    session.ok("wb.kill(wb.get_actor('deaf'))")


def test_a_job_is_stopped_by_its_name(session: Kernel, gate: Gate) -> None:
    cell = session.ok(f"%%remote --name endless\nprint('there')\n{gate.wait}")
    session.until(cell.text)
    session.ok("job = %workbench job endless\njob.cancel()")
    assert re.match(r"endless · stopped after", over(session, cell))
    assert not cell.failure, "who stops something needs no traceback"
    assert "was stopped" in session.run("job.result()").failure


def test_a_job_is_awaited_and_read(session: Kernel) -> None:
    session.ok("%%remote --name job\nprint('one')\nprint('two')\nx = 3")
    session.ok("job = %workbench job job\nvalues = await job")
    shown = session.ok("job")
    assert re.match(r"job · done in .* · x$", shown.results()[0])
    assert "job · done in" in shown.results("text/html")[0]
    assert session.value("(values, job.output())") == "({'x': 3}, 'one\\ntwo\\n')"
    assert "Name one" in session.run("%workbench job").failure
    missing = session.run("%workbench job nothing")
    assert "There is no background cell 'nothing'." in missing.failure


def test_all_that_background_cells_made_at_once(session: Kernel, gate: Gate) -> None:
    cells = [
        session.ok("%%remote --name one\na, b = 1, 2"),
        session.ok("%%remote --name items -n 3\nc = index"),
        session.ok("%%remote --name bad\nd = 1 / 0"),
        session.ok("%%remote --name other\ne = 5"),
    ]
    for cell in cells:
        over(session, cell)
    slow = session.ok(f"%%remote --name slow\n{gate.wait}\nf = 6")
    session.ok("e = 'mine by now'")
    said = session.ok("%get --jobs").text()
    assert said == "one: a, b\nitems: c\nslow is running.\n"
    assert session.value("(a, b, c, e, type(f).__name__)") == (
        "(1, 2, [0, 1, 2], 'mine by now', 'ObjectRef')"
    )
    gate.open()
    over(session, slow)
    assert session.ok("%get --jobs").text() == "slow: f\n"
    assert session.value("f") == "6"
    assert "takes no names" in session.run("%get --jobs f").failure


def test_a_restarted_kernel_goes_on_with_a_cell_that_runs(runtime_dir: str, gate: Gate) -> None:
    environment = {"JPY_SESSION_NAME": "again.ipynb", "WORKBENCH_WORKERS": "2"}
    kernel = Kernel({"WORKBENCH_RUNTIME_DIR": runtime_dir, **environment})
    try:
        kernel.ok("%load_ext workbench")
        cell = kernel.ok(f"%%remote -n 2 --name pair\nprint('before')\n{gate.wait}\nx = index")
        kernel.until(lambda: cell.text().count("before") == 2)
        kernel.restart(now=True)
        kernel.ok("%load_ext workbench")
        again = kernel.ok("%workbench jobs pair")
        kernel.until(lambda: again.printed == ["[0] before", "[1] before"])
        assert "running" in again.lines[0]["text/plain"]
        gate.open(2)
        assert kernel.value("__import__('workbench').get(x)") == "[0, 1]"
        assert re.match(r"pair · done in .*s · 2 of 2.* · x", over(kernel, again))
        kernel.ok("%workbench stop")
    finally:
        kernel.stop()
