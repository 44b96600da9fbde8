"""%%remote in a real kernel: its options, the line under a cell, interrupts, jobs as people use
them; background cells after their end, for whom they stay, and what their line says."""

from __future__ import annotations

import re

import pytest

from tests.kernel.conftest import Gates, Kernel, Opens
from tests.kernel.gates import Gate
from tests.leaks import eventually

FOREVER = "__import__('threading').Event().wait(3600)"


def test_what_comes_back_by_default_and_on_demand(session: Kernel) -> None:
    body = "import os\ndef f(): return 1\n_private = 2\nx = 3\ny = 4"
    session.ok(f"%%remote -w\n{body}")
    assert session.value("(x, y, f(), _private, os.sep)") == "(3, 4, 1, 2, '/')"
    session.ok("del x, y, f, _private, os")
    session.ok(f"%%remote -w -o f _private\n{body}")
    assert session.value("(f(), _private, 'x' in dir())") == "(1, 2, False)"
    session.ok(f"%%remote -w -o x,f\n{body}")
    failure = session.failure(f"%%remote -w -o z\n{body}")
    assert "--out z: the cell assigns no such name. It assigns os, f, _private, x, y." in failure
    # A name that only code in a string reads.
    session.ok("secret = 42")
    assert session.value("found", after="%%remote -w -i secret\nfound = eval('secret')") == "42"
    assert "'nowhere' is not defined" in session.failure("%%remote -i nowhere\n1")


def test_what_a_cell_did_not_come_to_assign_is_left_alone(session: Kernel) -> None:
    """Because it failed, or because a branch didn't run."""
    session.ok("never = False\nx = 'kept'")
    for wait in ("-w", ""):
        assert "ZeroDivisionError" in session.failure(f"%%remote {wait}\nx = x + '!'\n1 / 0")
        assert session.value("x") == "'kept'"
    body = "if never:\n    x, new = 1, 2\ny = 3"
    session.ok(f"%%remote -w\n{body}")
    assert session.value("(x, y, 'new' in dir())") == "('kept', 3, False)"
    assert "without giving 'new' a value" in session.failure(f"%%remote -w -o new\n{body}")
    session.ok("del y")
    session.over(session.ok(f"%%remote --name branches\n{body}"))
    session.ok("job = %workbench job branches")
    assert session.value("(x, job.result())") == "('kept', {'y': 3})"
    # Of several runs, those that came so far have.
    assert "ValueError" in session.failure("%%remote -w -n 2\nif index: raise ValueError\nx = 7")
    assert session.value("wb.get(x[0])") == "7"


def test_what_all_items_need_is_sent_once_and_whole(session: Kernel, gate: Gate) -> None:
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
    session.ok("parts = [big]\ndef f(): return 1")
    session.ok("%%remote -w -n 20\nsame = (parts[0] is big, int(big.sum()) + f())")
    assert session.value("set(same)") == "{(True, 1000001)}"


def test_lines_say_whose_they_are_from_the_first_one_on(session: Kernel) -> None:
    """Also those of tasks that are over before the last one is submitted."""
    session.ok("%%remote -w --map part=range(8)\nimport time")  # there are workers
    cell = session.ok("%%remote --map part=range(150)\nprint('part', part)")
    session.over(cell)
    assert not cell.above
    assert sorted(cell.printed) == sorted(f"[{i}] part {i}" for i in range(150))


def test_once_for_each_item(session: Kernel) -> None:
    session.ok("files = ['a', 'b', 'c']")
    cell = session.ok("%%remote --map files\nprint('reading', item)\nsize = (index, item * 2)")
    session.ok("%get size --as sizes")
    assert session.value("sizes") == "[(0, 'aa'), (1, 'bb'), (2, 'cc')]"
    line = session.over(cell)
    assert re.fullmatch(r"cell \d+ · done in .*s · 3 of 3( · peak .*)? · size", line)
    assert cell.printed == ["[0] reading a", "[1] reading b", "[2] reading c"]
    session.ok('%%remote -w --map "n=(2 * n for n in range(2))"\ndouble = 2 * n')
    assert session.value("double") == "[0, 4]"
    session.ok("%%remote -n 1\nsingle = index")
    assert session.value("(type(single).__name__, wb.get(single))") == "('list', [0])"


def test_a_namespace_that_stays(session: Kernel) -> None:
    """What it has made is there in the next cell; what came from outside is as it is there now."""
    session.ok("n = 3")
    body = "import threading\nlock = threading.Lock()\ntotal, f = n, lambda: n"
    session.ok(f"%%remote --actor side\n{body}")
    session.ok("%%remote --actor side\ntotal += 1")
    session.ok("n, total = 100, 'another'")
    cell = "kind, now = type(lock).__name__, (n, f())"
    session.ok(f"%%remote -w --actor side -o total, kind, now\n{cell}")
    assert session.value("(total, kind, now)") == "(4, 'lock', (100, 100))"
    session.ok("total = 50")
    session.ok("%%remote -w --actor side -i total -o n\nn = 2 * total")
    assert session.value("(n, 'lock' in dir())") == "(100, False)"
    session.ok("@wb.remote\nclass Other: pass\nother = Other.options(name='taken').remote()")
    assert "no namespace for cells" in session.failure("%%remote --actor taken\n1")


def test_a_namespace_has_one_event_loop(session: Kernel) -> None:
    feed = "async def feed():\n    for n in range(3): await queue.put(n)"
    begins = f"import asyncio\nqueue = asyncio.Queue()\n{feed}\ntask = asyncio.create_task(feed())"
    session.ok(f"%%remote -w --actor side\n{begins}")
    session.ok("%%remote -w --actor side -o first\nawait task\nfirst = await queue.get()")
    assert session.value("first") == "0"
    cell = session.ok(
        "%%remote --actor side --name waits\nends = []\nasync def forever():\n"
        "    try:\n        print('waiting')\n        await asyncio.Event().wait()\n"
        "    finally:\n        ends.append(1)\nawait forever()"
    )
    session.until(cell.text)
    session.ok("job = %workbench job waits\njob.cancel()")
    session.over(cell)
    running = "count = len(asyncio.all_tasks())"  # the one that asks
    session.ok(f"%%remote -w --actor side -o ends, count\n{running}")
    assert session.value("(ends, count)") == "([1], 1)"


def test_what_a_namespace_did_not_assign_is_sent(session: Kernel, gate: Gate) -> None:
    """What it had assigned stays, if it is equal to what was sent, and if the cell failed then."""
    session.ok("x, same, late = 'the notebook has it', True, 1")
    session.run("%%remote -w --actor side\nbefore = 7\n1 / 0\nx = 'never'")
    for assigns, there in (("", "the notebook has it"), ("x = 'its own'\n", "its own")):
        session.ok(f"%%remote -w --actor side\n{assigns}pass")
        assert session.value("y", after="%%remote -w --actor side -o y\ny = x") == repr(there)
    session.ok(f"%%remote --actor side\n{gate.wait}\nsame = True\nif late is None: late = 0")
    session.ok("same, late = False, 2")
    session.ok("%%remote --actor side -o y\ny = before, same, late")
    gate.open()
    assert session.value("y", after="%get y") == "(7, True, 2)"
    assert "x" in session.ok("%%remote --dry-run --actor dry\ny = x").results()[0]
    assert session.value("[each.names for each in wb.snapshot().actors]") == "[('actor:side',)]"


@pytest.mark.extended
def test_the_most_memory_that_its_process_had_is_told(session: Kernel) -> None:
    for name, size in (("small", 1), ("big", 10**8), ("again", 1)):
        session.over(session.ok(f"%%remote --name {name}\nlen(b'1' * {size})"))
        session.ok(f"{name} = %workbench job {name}")
    if session.value("small.peak") == "0":
        pytest.skip("the system doesn't tell how much memory a process had")
    assert session.value("big.peak - max(small.peak, again.peak) > 90_000_000") == "True"


def test_a_cell_that_is_quiet_or_quick_has_no_line(session: Kernel) -> None:
    cell = session.ok("%%remote -q\nprint('heard')\nquiet = 1")
    session.ok("%get quiet")
    session.until(cell.text)
    assert not cell.lines
    with session.patient("workbench.ipython.magics.remote"):
        cell = session.ok("%%remote -w\nx = 1")
        session.ok("pass")
    assert not cell.lines


WAITS = [
    "wb.get(refs())",
    "wb.wait(refs())",
    "wb.gather(refs())",
    "wb.map(long, range(5))",
    "list(wb.Executor().map(long, range(5)))",
    "wb.Pool().map(long, range(5))",
    "joblib.Parallel(backend='workbench')(joblib.delayed(long)(n) for n in range(5))",
    "wb.get([actor.long.remote(n) for n in range(5)])",
    "await refs()[0]",
]


def test_an_interrupt_stops_the_tasks_that_the_cell_has_submitted(session: Kernel) -> None:
    session.ok(f"import joblib\ndef long(n):\n    print('there')\n    {FOREVER}")
    session.ok("def refs(): return [wb.remote(long).remote(n) for n in range(5)]")
    session.ok("@wb.remote\nclass Actor:\n    def long(self, n): long(n)\n    def made(self): pass")
    session.ok("actor = Actor.remote()\nwb.get(actor.made.remote())")  # else it may be queued still
    for waits in WAITS:
        cell = session.start(waits)
        session.until(cell.text)
        session.interrupt()
        session.client.kernel_info()  # its idle loop hears a signal only when something else comes
        session.until(lambda cell=cell: cell.idle)  # type: ignore[misc]
        error = "CancelledError" if "await" in waits else "KeyboardInterrupt"
        assert error in cell.failure
        if "(refs" in waits:
            assert "workbench" not in cell.failure, "frames of ours"
        assert session.value("(wb.snapshot().running, wb.snapshot().queued)") == "(0, 0)"


DEAF = (
    "%%remote -w\nimport os, signal, threading\nsignal.pthread_sigmask(signal.SIG_BLOCK, "
    "[signal.SIGINT])\nprint(os.getpid())\nthreading.Event().wait(3600)"
)


def test_who_does_not_hear_an_interrupt_is_ended(session: Kernel) -> None:
    """When it is interrupted again, or after a while; a namespace isn't."""
    for again in (True, False):
        cell = session.start(DEAF)
        session.until(cell.text)
        session.interrupt()
        if again:
            session.until(lambda cell=cell: "interrupt again to kill it" in cell.text("stderr"))  # type: ignore[misc]
            session.interrupt()
        session.until(lambda cell=cell: cell.idle)  # type: ignore[misc]
        assert "its worker was killed" in cell.text("stderr")
        there = f"__import__('os').path.exists('/proc/{int(cell.text())}')"
        assert session.value(f"({there}, wb.snapshot().running)") == "(False, 0)"
    session.ok("%%remote -w\nx = 'the pool is whole'")
    cell = session.start(DEAF.replace("-w", "-w --actor deaf"))
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: "interrupt again to kill it" in cell.text("stderr"))
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "`workbench.kill` of that actor ends it" in cell.text("stderr")


def test_all_that_background_cells_made_at_once(session: Kernel, gate: Gate) -> None:
    session.ok("%workbench stop")  # in another there may be more to get
    cells = [
        session.ok("%%remote --name one\na, b = 1, 2"),
        session.ok("%%remote --name items -n 3\nc = index"),
        session.ok("%%remote --name bad\nd = 1 / 0"),
        session.ok("%%remote --name other\ne = 5"),
    ]
    for cell in cells:
        session.over(cell)
    slow = session.ok(f"%%remote --name slow\n{gate.wait}\nf = 6")
    session.ok("e = 'mine by now'")
    said = session.ok("%get --jobs").text()
    assert said == "one: a, b\nitems: c\nslow is running.\n"
    assert session.value("(a, b, c, e, type(f).__name__)") == (
        "(1, 2, [0, 1, 2], 'mine by now', 'ObjectRef')"
    )
    gate.open()
    session.over(slow)
    assert session.ok("%get --jobs").text() == "slow: f\n"
    assert session.value("f") == "6"
    assert "takes no names" in session.failure("%get --jobs f")


def finished(kernel: Kernel, body: str) -> str:
    """A background cell that is over; its name."""
    cell = kernel.ok(f"%%remote\n{body}")
    kernel.over(cell)
    return f"cell {cell.number}"


def test_what_a_living_notebook_lets_go_of_is_gone_at_once(session: Kernel) -> None:
    for _ in range(3):
        finished(session, "import numpy as np; big, other = np.ones(10**6), 1")
    large = "sum(o.size > 10**6 for o in wb.snapshot().objects)"
    assert session.value(large) == "1"
    session.ok("del big")
    assert eventually(lambda: session.value(large) == "0")


def test_in_a_console_a_line_appears_when_all_is_over(session: Kernel) -> None:
    """Such a front end replaces no output."""
    cell = session.run("%%remote\nprint('said')\nmade = 3", console=True)
    session.until(lambda: re.search(r"said\ncell \d+ · done in .* · made\n$", cell.text()))
    assert not cell.lines


def test_a_result_that_no_variable_waited_for_is_on_the_line(session: Kernel, gate: Gate) -> None:
    for loses in ("answer = 'mine'", "del answer"):
        cell = session.ok(f"%%remote\n{gate.wait}\nanswer, other = 1, 2")
        session.ok(loses)
        gate.open()
        first, *notes = session.over(cell).splitlines()
        assert first.endswith(" · other")
        assert notes == ["  answer: not kept: no variable referred to it when the cell ended"]


def test_it_ends_whatever_its_variable_means_by_then(session: Kernel, gate: Gate) -> None:
    """An array refuses to be compared with a ref."""
    session.ok("import numpy as np\nkept = 1")
    cell = session.ok(f"%%remote\n{gate.wait}\nkept = 1 / 0")
    session.ok("held, kept = kept, np.arange(3)")
    gate.open()
    session.until(lambda: cell.failure)
    assert "failed" in cell.line
    assert session.value("kept.tolist()") == "[0, 1, 2]"


def test_of_two_under_one_cell_each_has_its_own_progress(session: Kernel, gates: Gates) -> None:
    """And both lines are there again after one of them has cleared the cell's output."""
    gate, other = gates(), gates()
    one = (
        f"{gate.wait}\nimport sys\nfrom IPython.display import clear_output\nclear_output()\n"
        f"print(' 40%|##', file=sys.stderr)\n{gate.wait}"
    )
    cell = session.ok(
        "run = get_ipython().run_cell_magic\n"
        f"run('remote', '--name one', {one!r})\n"
        f"run('remote', '--name two', {other.wait!r})"
    )
    session.until(lambda: len(cell.lines) >= 2)
    gate.open()
    session.until(lambda: session.says(r"^one .* 40 %"))
    assert not session.says(r"^two .* 40 %")
    names = [str(line["text/plain"]).split()[0] for line in cell.lines]
    other.open()
    session.until(lambda: session.says(r"^two .*done"))
    gate.open()
    session.until(lambda: session.says(r"^one .*done"))
    assert min(names.count("one"), names.count("two")) >= 2


def test_where_a_script_needs_a_view_a_running_line_has_one(notebook: Opens, gate: Gate) -> None:
    """In VS Code, that is; what is saved at the end is plain."""
    vscode = notebook()
    vscode.ok("%load_ext workbench\n__vsc_ipynb_file__ = 'a.ipynb'")
    cell = vscode.ok(f"%%remote\n{gate.wait}\nx = 1")
    view = "application/vnd.jupyter.widget-view+json"
    vscode.until(lambda: cell.lines and view in cell.lines[-1])
    page = cell.lines[-1][view]["model_id"]
    vscode.until(lambda: vscode.says(r"running \d+ s$"))
    (line,) = re.findall('data-line="(.*?)"', cell.lines[-1]["text/html"])
    vscode.tell(page, do="stop", line=line)
    vscode.until(lambda: "stopped" in cell.line)
    assert set(cell.lines[-1]) == {"text/plain", "text/html"}


def test_a_page_loaded_again_is_told_of_workers_widgets(session: Kernel, gate: Gate) -> None:
    cell = session.ok(
        "%%remote\nimport ipywidgets\n_bar = ipywidgets.IntProgress(value=3, max=4)\n"
        f"display(_bar)\n{gate.wait}"
    )

    def bars() -> list[str]:  # not the kernel's own
        return [id for id, made in cell.opened().items() if made.get("max") == 4]

    session.until(bars)
    states = "__import__('ipywidgets').Widget.get_manager_state()['state']"
    told = f"{states}.get({bars()[0]!r}, {{'state': {{}}}})['state'].get('value')"
    assert eventually(lambda: session.value(told) == "3")
