"""Kernels that go and come back, notebooks that share a session, the engine that one is offered."""

from __future__ import annotations

import contextlib
import html
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import Gates, Kernel, Opens
from tests.leaks import eventually

Ends = Callable[[Kernel], None]
crash, restart = partial(Kernel.restart, now=True), partial(Kernel.restart, now=False)
ENDS = [
    pytest.param(crash, id="crash"),
    pytest.param(restart, id="restart", marks=pytest.mark.extended),
    pytest.param(Kernel.reopen, id="close and open", marks=pytest.mark.extended),
]


KILLED = """The kernel .*, after cell 7 had ended: it was killed by SIGKILL, .*[.] \
`%get df the_counter model scores` binds what it had stored[.]
"""


@pytest.fixture
def no_vscode(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests weren't started from VS Code, as far as kernels can see."""
    for name in [name for name in os.environ if name.startswith("VSCODE_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("ends", ENDS)
def test_a_new_kernel_finds_what_the_old_left(notebook: Opens, gates: Gates, ends: Ends) -> None:
    kernel = notebook("analysis.ipynb", WORKBENCH_LINGER="1h")  # shut down, it would be seconds
    kernel.ok("%load_ext workbench\nimport workbench as wb\ndf, rest = [1], [1]")
    kernel.ok("%put df\nunnamed = wb.put('unnamed')")
    kernel.ok(
        "counter = wb.remote(type('Counter', (), {})).options(name='counter').remote()\n"
        "wb.put(counter, name='the_counter')"
    )
    made = kernel.ok("%%remote\nmodel = {'w': [1, 2]}; scores = [3]; print('trained')")
    kernel.over(made)
    kernel.ok("%get scores")
    fast, slow = gates(), gates()
    cells = [
        kernel.ok(
            f"%%remote\nprint('before')\n{gate.wait}\nprint('after')\n{name} = 42; rest.pop()\n;"
        )
        for gate, name in ((slow, "x"), (fast, "y"))
    ]
    kernel.until(lambda: all(cell.text() for cell in cells))
    ends(kernel)
    over, running, finished = (f"cell {cell.number}" for cell in (made, *cells))
    line = kernel.ok("%load_ext workbench\nimport workbench as wb").text()
    assert re.fullmatch(
        r"Workbench joined session analysis-\w+: 2 workers, store of [\d.]+ [MG]B\. "
        r"It has df, the_counter, actor counter\. "
        rf"Background: {running} running, {finished} running; %workbench jobs shows more\. "
        r"Of cells that are done: model, scores; %get brings them\.\n"
        + (KILLED if ends is crash else ""),
        line,
    ), line
    fast.open()
    done = re.compile(rf"{finished} +done, not fetched .* 2 lines +y$", re.MULTILINE)
    assert eventually(lambda: done.search(kernel.ok("%workbench jobs").results()[0]))
    shown = kernel.ok(f"%workbench jobs {finished}")
    kernel.until(lambda: shown.text() == "before\nafter\n")
    assert shown.results() == []
    kernel.ok("%get y")
    assert kernel.value("y") == "42"
    shown = kernel.ok(f"%workbench jobs {running}")
    kernel.until(lambda: shown.text() == "before\n")
    assert kernel.value("type(x).__name__") == "'ObjectRef'"
    slow.open()
    gone = "rest changed on the worker; the kernel that had it is gone"
    assert gone in kernel.over(shown)
    assert shown.text() == "before\nafter\n"
    kernel.ok("%get x")
    again = kernel.ok(f"%workbench jobs {running}")
    kernel.until(lambda: "done in" in again.line)
    assert kernel.value("x") == "42", "what was fetched is no ref again"
    kernel.ok("import workbench as wb")
    names = "sorted(wb.api.engine().ask(wb.engine.queries.Names()))"
    assert kernel.value(names) == "['df', 'the_counter']"
    # What was done before is kept, until somebody has let go of it.
    assert "done, results kept" in kernel.ok("%workbench jobs").results()[0]
    assert kernel.ok("%get model").text() == f"model: what {over} assigned.\n"
    assert kernel.value("model") == "{'w': [1, 2]}"
    kernel.ok("del model")
    assert kernel.over(kernel.ok(f"%workbench jobs {over}")).endswith(" · scores")
    kernel.ok("%get scores")
    assert kernel.value("scores") == "[3]"
    assert "not defined in the store" in kernel.run("%get model").failure
    kernel.ok("%free df the_counter")


EXITS = """\
import os, workbench as wb
noted, answers, kind = [], wb.api.engine().answers, wb.engine.queries.NoteCell
answers |= {kind: lambda *note, write=answers[kind]: (write(*note), noted.append(note))}
while not noted: pass
os._exit(3)"""
GROUP = Path(f"/sys/fs/cgroup/memory/workbench-{os.getpid()}")
GROWS = f"""\
open('{GROUP}/memory.limit_in_bytes', 'w').write('200M')
open('{GROUP}/cgroup.procs', 'w').write('0')
hoard = []
while True: hoard.append(bytearray(1_000_000))"""


@pytest.mark.parametrize(("runs", "how"), [
    (EXITS, r" \(last seen .*, at line [34], .*\): it exited with status 3, as after .*\."),
    (GROWS, r".*: it was killed by SIGKILL, most likely by Linux because memory ran out: .*\."),
], ids=["exits", "grows"])  # fmt: skip
def test_it_is_told_how_the_old_one_died(notebook: Opens, runs: str, how: str) -> None:
    kernel = notebook("died.ipynb", WORKBENCH_HEADROOM="0")
    kernel.ok("%load_ext workbench\ndf = [1]\n%put df")
    with contextlib.suppress(OSError):
        GROUP.mkdir()
    if runs is GROWS and not GROUP.is_dir():
        pytest.skip("no group with a limit can be made here")
    kernel.start(runs)
    assert eventually(lambda: not kernel.manager.is_alive())
    with contextlib.suppress(OSError):
        GROUP.rmdir()
    crash(kernel)
    said = kernel.ok("%load_ext workbench\nfrom workbench.cli import doctor").text()
    died = rf" died at [\d:]+, in cell 2{how}"
    assert re.search(f"The kernel before this one{died} `%get df` binds what it had stored", said)
    found = kernel.value("doctor.kernels()")
    assert re.search(rf"'note', found='died\.ipynb{died} \(Session died-\w+\.\)", found)


def notes_byes(kernel: Kernel, said: Path) -> None:
    kernel.ok("%load_ext workbench\nimport workbench as wb, atexit, pathlib")
    kernel.ok(
        "post = (engine := wb.api.engine()).connection.post\n"
        "def note(bye):\n"
        f"    pathlib.Path({str(said)!r}).write_text(str(bye.final))\n"
        "    post(bye)\n"
        "engine.connection.post = note"
    )


@pytest.mark.parametrize(("server", "ends", "final"), [
    ("Jupyter", Kernel.reopen, True),
    pytest.param("Jupyter", restart, False, marks=pytest.mark.extended),
    # It says so when it restarts a kernel, too.
    pytest.param("VS Code", Kernel.reopen, False, marks=pytest.mark.extended),
])  # fmt: skip
@pytest.mark.usefixtures("no_vscode")
def test_the_session_is_told_when_a_person_shuts_the_kernel_down(
    notebook: Opens, tmp_path: Path, server: str, ends: Ends, final: bool
) -> None:
    said = tmp_path / "said"
    kernel = notebook("shut.ipynb", **({"VSCODE_PID": "1"} if server == "VS Code" else {}))
    notes_byes(kernel, said)
    ends(kernel)
    assert (said.read_text() if said.exists() else "False") == str(final)
    if not final:
        assert "joined" in kernel.ok("%load_ext workbench").text()


@pytest.mark.extended
@pytest.mark.usefixtures("no_vscode")
def test_so_is_it_when_the_kernel_takes_long_to_end(notebook: Opens, tmp_path: Path) -> None:
    """It waits for its children: joblib's resource tracker doesn't hear SIGTERM. Jupyter's server
    kills the kernel then."""
    said = tmp_path / "said"
    kernel = notebook("slow-end.ipynb")
    notes_byes(kernel, said)
    kernel.ok(
        "import subprocess\n"
        "deaf = ['sh', '-c', 'trap \"\" TERM; echo; read until_the_kernel_is_gone']\n"
        "child = subprocess.Popen(deaf, stdin=-1, stdout=-1); child.stdout.readline()"
    )
    kernel.client.shutdown(restart=False)
    assert eventually(lambda: said.exists() and said.read_text())
    assert kernel.manager.is_alive()
    assert said.read_text() == "True"
    crash(kernel)


@pytest.mark.extended
def test_what_nobody_has_goes_when_memory_is_needed_and_that_is_said(notebook: Opens) -> None:
    kernel = notebook("full.ipynb", WORKBENCH_MEMORY="64MB", WORKBENCH_SPILL_DIR="none")
    kernel.ok("%load_ext workbench")
    for name in ("old", "new"):
        cell = kernel.ok(f"%%remote --name {name}\nimport numpy as np\n{name} = np.ones(2_500_000)")
        kernel.until(lambda cell=cell: "done" in cell.line)  # type: ignore[misc]
    crash(kernel)
    line = kernel.ok("%load_ext workbench").text()
    assert " Of cells that are done: old, new; %get brings them.\n" in line
    kernel.ok("import numpy as np\nx = np.ones(3_500_000)\n%put x")
    gone = kernel.run("%get old").failure
    assert "'old' is gone: old had assigned it, and nobody had it when memory was needed" in gone
    kernel.ok("%get new")
    assert kernel.value("new.sum()") == "np.float64(2500000.0)"
    shown = kernel.ok("%workbench jobs old")
    kernel.until(lambda: "done" in shown.line)
    assert "What it made is gone: nobody had it when memory was needed" in shown.line
    assert "results gone" in kernel.ok("%workbench jobs").results()[0]
    kernel.ok("del new, x\n%free x")


def asks(kernel: Kernel, **asked: str) -> dict[str, Any]:
    """What a page is told that asks after one line."""
    page = kernel.value("get_ipython().workbench._notebook.lines._pages[0].model_id").strip("'")
    answer = kernel.tell(page, do="lines", lines=[asked])
    kernel.until(lambda: answer.comms)
    content: dict[str, Any] = answer.comms[-1][1]["data"]["content"]
    return content


def test_a_page_learns_what_became_of_old_lines(notebook: Opens, gates: Gates) -> None:
    kernel, gate = notebook("lines.ipynb"), gates()
    kernel.ok("%load_ext workbench")
    cell = kernel.ok(f"%%remote --name training\n{gate.wait}\nloss = 1")
    kernel.until(lambda: kernel.says("training · .*running"))
    saved = cell.lines[-1]
    assert re.search(r"running .* \(as of \d\d:\d\d, \d+ \w+\)$", saved["text/plain"])
    found = re.findall(r'data-(line|job|name)="(.*?)"', saved["text/html"])
    asked = {key: html.unescape(value) for key, value in found}
    assert asks(kernel, **asked)["button"] == "Stop"
    crash(kernel)
    kernel.ok("%load_ext workbench")
    has_page = "get_ipython().workbench._notebook.lines._pages != []"
    assert eventually(lambda: kernel.value(has_page) == "True")
    told = asks(kernel, **asked)
    assert (told["sign"], told["over"], told["foreign"]) == ("●", False, True)
    went_on = "The kernel ended; the cell went on. `%workbench jobs training` shows it."
    assert told["notes"] == [went_on]
    gate.open()
    assert eventually(lambda: asks(kernel, **asked)["over"])
    told = asks(kernel, **asked)
    assert (told["sign"], told["text"].split(" in ")[0]) == ("✓", "training · done")
    told = asks(kernel, **asked | {"job": "other.1/7"})
    assert told["text"] == "training · of another session, so how it ended isn't known here"


NONE = "No background cells. %%remote starts one."


def test_sessions_begin_by_themselves_take_each_others_place_and_end(fresh: Kernel) -> None:
    """What is said of it; and of background cells that are not there."""
    begun = r"Workbench started session .*: \d+ workers?, store of "
    over = "The session is over for this notebook."
    assert re.match(begun, fresh.ok("%%remote --wait\na = 1").text())
    assert fresh.ok("%%remote --wait\na = 2").text() == ""
    said = fresh.ok("x = 1\n%put x\n%workbench stop").text().splitlines()[-1]
    assert re.fullmatch(rf"{over} Lost with it: 1 object \(.*\): x\.", said)
    assert fresh.ok("%workbench jobs").results() == [NONE]
    assert "MagicError" in fresh.failure("%workbench jobs 1")
    fresh.ok("%workbench start")
    assert "nothing more" in fresh.failure("%workbench stop now")
    line = fresh.ok("%workbench start --session lab --workers 1").text()
    replaces = "It replaces the session before it; nothing is lost."
    assert re.fullmatch(rf"Workbench started session lab: 1 worker, store of .* {replaces}\n", line)
    assert fresh.ok("%workbench jobs").results() == [NONE]
    fresh.ok("%%remote --wait\n1 + 1")
    assert " done " in fresh.ok("%workbench jobs").results()[0]
    assert "Session lab" in (status := fresh.ok("%workbench").text())
    assert "in 0 objects" in status  # what runs cells is none, as in the dashboard
    assert fresh.ok("%workbench stop").text() == f"{over}\n"
    assert re.match(begun, fresh.ok("%%remote --wait\na = 1").text())  # it is told of again


STAND_IN = """
import sys, types
class Client:
    def __init__(self): self.scheduler = types.SimpleNamespace(address="tcp://nowhere:1")
Client.__module__ = "distributed.client"
client = Client()
module = types.ModuleType("distributed")
module.Client = type("Client", (), {"current": staticmethod(lambda: client)})
sys.modules["distributed"] = module
"""
"""As much of distributed as a kernel that is connected has."""


def test_a_client_that_is_connected_is_offered_and_not_taken(kernel: Kernel) -> None:
    kernel.ok(STAND_IN)
    try:
        kernel.ok("%reload_ext workbench\n%unload_ext workbench")
        said = kernel.ok("%load_ext workbench").text().splitlines()
        assert said[0].startswith("Workbench started session")
        assert said[1:] == [
            "This notebook is connected to Dask: `%workbench start --engine dask` runs cells there "
            "(in Python, `wb.init(client)`)."
        ]
        assert "local" in kernel.value("__import__('workbench').snapshot().engine")
    finally:
        kernel.ok("%workbench stop\n%unload_ext workbench\ndel sys.modules['distributed']")
