"""What people write in remote cells, in a real kernel: magics, widgets, errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.kernel.conftest import Cell, Kernel
from tests.kernel.gates import Gate
from tests.leaks import eventually
from tests.tables import tables

TABLES = tables(__file__)
CELLS = dict(TABLES.pop("cells"))


def test_time_magics(session: Kernel) -> None:
    session.ok("x = 20")
    cell = session.ok("%%remote -w\n%%time\n\ny = x + 1\ny * 2")
    assert re.search(r"^CPU times: user .+\nWall time: ", cell.text(), re.M)
    assert cell.results() == ["42"]
    assert session.value("y") == "21"
    cell = session.ok("%%remote -w\n%time z = x + 2\n%time z * 2")
    assert cell.text().count("Wall time: ") == 2
    assert cell.results() == ["44"]
    assert session.value("z") == "22"
    session.ok("%%remote -w\nbest = %timeit -q -o -n 1 -r 2 sum(range(x))\n")
    cell = session.ok("%%remote -w\n%%timeit -n 1 -r 2 k = x\ninner = k + 1")
    assert "per loop" in cell.text()
    assert session.value("(best.loops, 'inner' in globals())") == "(1, False)"


def test_shell_commands(session: Kernel, tmp_path: Path) -> None:
    (tmp_path / "one.txt").touch()
    session.ok(f"where = {str(tmp_path)!r}")
    cell = session.ok(
        "%%remote -w\nfiles = !ls {where}\n!echo it is $where and \\\n  more\n"
        "for n in range(2):\n    !echo n={n + 1}\nline = 6"
    )
    assert session.value("list(files)") == "['one.txt']"
    assert cell.text().splitlines() == [f"it is {tmp_path} and more", "n=1", "n=2"]
    session.ok("%%remote -w\n%%bash --out said\necho from bash")
    assert session.value("said") == r"'from bash\n'"
    cell = session.ok("%%remote -w\n%%capture caught\nprint('hush')\nkept = 3")
    assert cell.text() == ""
    assert session.value("(kept, caught.stdout)") == r"(3, 'hush\n')"


def test_help_is_text_under_the_cell(session: Kernel) -> None:
    cell = session.ok("%%remote -w\nimport textwrap\ntextwrap??")  # more than a screen of it
    text = re.sub(r"\x1b\[[\d;]*m", "", cell.text())
    assert "class TextWrapper" in text
    assert "def dedent" in text


def test_what_cannot_be_there_is_refused_before_it_is_sent(session: Kernel) -> None:
    """`tests/unit/ipython/test_cells.py` has more of it."""
    for says, magic in TABLES["refused"]:
        failure = session.failure(f"%%remote\nif x:\n    {magic}\n    x")
        assert "CellSyntaxError" in failure
        assert says in failure
        assert f"in line 3 of the cell. Nothing was sent.\n    {magic}" in failure
    unknown = "UsageError: Line magic function `%no_such_magic` not found."
    assert unknown in session.failure("%%remote -w\n%no_such_magic 3")  # on the worker


def test_line_numbers_hold_below_magics(session: Kernel) -> None:
    cell = session.run("%%remote -w\n\n%%time\n!echo a \\\n  b\n%time x = 1\n1 / 0")
    assert f"Cell In[{cell.number}], line 7\n" in cell.failure
    assert "\n----> 7 1 / 0\n" in cell.failure
    assert "Wall time" in cell.text()


def test_what_needs_a_person_says_so(session: Kernel) -> None:
    for ask in ("breakpoint()", "import pdb; pdb.set_trace()", "import getpass; getpass.getpass()"):
        cell = session.run(f"%%remote -w\n{ask}\npass")
        assert re.search(r"UnattendedError: \w+\(\) needs a person", cell.failure)
        line = "[23]" if "pdb" in ask else "2"  # before Python 3.13 it stops at the next one
        assert re.search(rf"Cell In\[{cell.number}\], line {line}\b", cell.failure)


def test_a_worker_lets_go_of_a_cells_values(fresh: Kernel) -> None:
    fresh.ok(f"%workbench start --workers 1\n{CELLS['gone']}")
    for name, body in TABLES["held"]:
        fresh.run(f"%%remote -w\n{body.replace('HOLD', CELLS['holds'])}\n")
        assert (name, fresh.value("wb.get(gone.remote())")) == (name, "True")
    # Widgets stay in the front end when their cell is over.
    first = fresh.ok("%%remote -w -q\nimport ipywidgets\ndisplay(ipywidgets.HTML('x'))")
    second = fresh.ok("%%remote -w -q\nimport gc\ngc.collect()\nprint('collected')")
    fresh.until(second.text)
    assert first.opened()
    assert not [kind for kind, *_ in first.comms + second.comms if kind == "comm_close"]


def test_frames_of_libraries_are_one_line_until_asked_for(session: Kernel) -> None:
    said = session.failure("%%remote -w\nimport re\nre.sub('a', lambda m: 1 / 0, 'a')")
    assert "frames in" not in said  # one alone is no more than the line about it
    fails = CELLS["fails in a library"]
    cell = session.run(f"%%remote -w\n{fails}")
    short = cell.failure
    assert re.search(r"^  … \d+ frames in pandas$", short, re.M)
    assert "site-packages" not in short
    assert f"Cell In[{cell.number}], line 6\n" in short
    assert "`%tb Verbose`" in short
    whole = session.run("%tb Verbose").failure or session.run("%tb Verbose").text()
    assert "frames in pandas" not in whole
    assert whole.count("site-packages/pandas") >= 4
    cell = session.run(f"%%remote\n{fails}")
    session.until(lambda: cell.failure)
    assert "`%tb" not in cell.failure  # it isn't the last error: no cell has raised it
    assert "After `%xmode Verbose`" in cell.failure
    said = session.failure("%xmode Verbose\n" + "raise __import__('sys').last_value")
    assert "frames in pandas" not in said
    session.ok("%xmode Context")
    said = session.failure("%%remote -w\nimport pandas as pd\npd.Series(['x']).astype(float)")
    # The innermost frame stays.
    assert re.search(r"^  … \d+ frames in pandas\n\nFile .*/pandas/.*\n", said, re.M)


def test_it_is_shown_as_ipython_shows_its_own(session: Kernel) -> None:
    """In colours, with an arrow, and no lines of other functions; in the mode that was chosen."""
    helper = session.ok("def half(a):\n    b = a\n    return b / 0\n\ndef other(): ...")
    cell = session.run("%%remote -w\nx = 1\n\nhalf(x)\n")
    (content,) = [content for kind, content in cell.outputs if kind == "error"]
    assert "\x1b[31mZeroDivisionError\x1b[39m: division by zero" in "\n".join(content["traceback"])
    assert (
        f"Cell In[{cell.number}], line 4\n      2 x = 1\n      3 \n----> 4 half(x)\n\n"
        f"Cell In[{helper.number}], line 3, in half\n      1 def half(a):\n      2     b = a\n"
        "----> 3     return b / 0\n\nZeroDivisionError: division by zero"
    ) in cell.failure
    try:
        cell = session.run("%xmode Minimal\n" + "raise __import__('sys').last_value")
        assert "half" not in cell.failure
        cell = session.run("%xmode Plain\n" + "raise __import__('sys').last_value")
        assert f"  Cell In[{helper.number}], line 3, in half\n    return b / 0\n" in cell.failure
    finally:
        session.ok("%xmode Context")


def test_debug_explains_what_cannot_be_debugged(session: Kernel) -> None:
    session.run("%%remote -w\nx = 1\nx / 0")
    printed = session.ok("%debug").text()
    assert max(map(len, printed.splitlines())) <= 80
    said = " ".join(printed.split())
    assert "ZeroDivisionError was raised on a worker in cell [" in said
    assert "without its first line, `%%remote`, and then `%debug`" in said
    session.run("wb.get(wb.remote(lambda: 1 / 0).remote())")
    said = " ".join(session.ok("%debug").text().split())
    assert "call the function here, without `.remote`," in said


def test_functions_that_other_processes_cannot_find(session: Kernel) -> None:
    session.ok("def sq(x): return x * x")
    cell = "import multiprocessing\nwith multiprocessing.Pool(1) as p:\n    p.map(sq, [1])"
    failed = session.failure(f"%%remote -w\n{cell}")
    assert "`workbench.map(sq, items)` runs it on the session's workers instead" in failed
    does = "%%remote -w\nimport workbench\nlist(workbench.map(sq, [1, 2]))"
    assert session.ok(does).results() == ["[1, 4]"]


def test_a_missing_name_says_where_it_would_have_come_from(session: Kernel) -> None:
    session.ok("seen = 1\n%put --name stored 2")
    for option in ("", " -w"):
        remote = f"%%remote{option}\n"
        assert "`%%remote -i seen`" in session.failure(f"{remote}exec('y = seen + 1')")
        assert "The store has an object 'stored'" in session.failure(f"{remote}eval('stored')")
        assert "Did you mean 'seen'?" in session.failure(f"{remote}eval('seeen')")
        assert "Neither the notebook nor the store" in session.failure(f"{remote}eval('qqqqqq')")


def test_a_module_that_the_notebook_finds(session: Kernel, tmp_path: Path) -> None:
    (tmp_path / "only_in_the_notebook.py").touch()
    session.ok("@wb.remote\ndef load(): import only_in_the_notebook")
    session.ok(f"import sys\nsys.path.append({str(tmp_path)!r})")
    cell = session.run("wb.get(load.remote())")
    assert f"The notebook finds 'only_in_the_notebook' at {tmp_path}" in cell.failure
    session.ok("sys.path.pop()")


def test_a_remote_cell_is_where_the_notebook_is(session: Kernel, tmp_path: Path) -> None:
    (tmp_path / "in_the_new_place.py").write_text("value = 5")
    session.ok(f"import os, sys\nhome, place = os.getcwd(), {str(tmp_path)!r}")
    session.ok("os.chdir(place)\nsys.path.insert(0, place)\nos.environ['FLAVOUR'] = 'mint'")
    look = (
        "%%remote -w\nimport os, in_the_new_place\n"
        "there = os.getcwd(), os.environ.get('FLAVOUR'), in_the_new_place.value\nos.chdir('/')"
    )
    session.ok(look)
    assert session.value("there == (place, 'mint', 5)") == "True"
    session.ok("os.chdir(home)\nsys.path.pop(0)\ndel os.environ['FLAVOUR']")
    session.ok(look)
    assert session.value("there == (home, None, 5)") == "True"


def test_warnings_and_logging(session: Kernel) -> None:
    cell = session.ok(
        "%%remote -w\nimport logging, warnings\n\n"
        "warnings.warn('careful')\nlogging.getLogger('mine').warning('noted')"
    )
    session.until(lambda: "noted" in cell.text("stderr"))
    label = re.escape(f"Cell In[{cell.number}]")
    said = rf"^{label}:4: UserWarning: careful\n  warnings.warn\('careful'\)"
    assert re.search(said, cell.text("stderr"))


def test_widgets_appear_live_under_the_cell(session: Kernel, gate: Gate) -> None:
    cell = session.ok(
        "%%remote -q\nimport ipywidgets\nbar = ipywidgets.FloatProgress(max=2)\ndisplay(bar)\n"
        f"bar.value = 1\n{gate.wait}\nbar.value = 2\n_end = ipywidgets.HTML('<b>end</b>')\n"
        "print('over')"
    )
    view = "application/vnd.jupyter.widget-view+json"
    session.until(lambda: cell.results(view) and cell.said("value") == [0.0, 1.0])
    model = cell.results(view)[0]["model_id"]
    assert cell.opened()[model]["_model_name"] == "FloatProgressModel"
    gate.open()
    later = session.ok("%get --jobs")
    session.until(lambda: "over" in cell.text())
    assert cell.said("value") == [0.0, 1.0, 2.0, "<b>end</b>"]
    assert not later.comms
    # the front end asks for its state again, and a person moves it: the kernel knows it
    asked = session.send(model, {"method": "request_state"})
    session.until(lambda: asked.idle)
    assert asked.said("value") == [2.0]
    assert not [c for kind, c in asked.outputs if kind == "stream"]


def test_tqdm_picks_the_bar_of_a_notebook(session: Kernel) -> None:
    cell = session.ok(
        "%%remote -w\nfrom tqdm.auto import tqdm\nfor _ in tqdm(range(3), desc='three'):\n    pass"
    )
    session.until(lambda: any(v == 3.0 for v in cell.said("value")))
    assert "FloatProgressModel" in {s["_model_name"] for s in cell.opened().values()}
    assert cell.text("stderr") == ""


def test_a_widgets_buffers_arrive(session: Kernel) -> None:
    cell = session.ok("%%remote -w\nimport ipywidgets\nipywidgets.Image(value=b'\\x00\\xff')")
    session.until(lambda: any(buffers for *_, buffers in cell.comms))
    assert [b for *_, buffers in cell.comms for b in buffers] == [b"\x00\xff"]
    # A page that is loaded again asks for the state, with them.
    (image,) = [id for id, state in cell.opened().items() if state["_model_name"] == "ImageModel"]
    answer = session.send(image, {"method": "request_state"})
    session.until(lambda: answer.comms)
    _, content, buffers = answer.comms[-1]
    assert content["data"]["buffer_paths"] == [["value"]]
    assert buffers == [b"\x00\xff"]


def test_a_failed_cell_keeps_nothing_that_it_took_along_or_made(session: Kernel) -> None:
    """Neither in the notebook, which remembers its error, nor in the worker that it ran in."""
    session.ok("import numpy as np\nref = wb.put(np.ones(10**5))\nown = np.ones(10**5)")
    for _ in range(2):
        session.run("%%remote -w\nmade = ref * 2\nown[0] = 2\n1 / 0")
    session.ok("del ref")
    session.run("1 / 0")  # IPython's last error is another one now
    large = "[each.about for each in wb.snapshot().objects if each.size > 10**5]"
    assert eventually(lambda: session.value(large) == "[]"), session.value(large)


def test_errors_that_ipython_shows_its_own_way(session: Kernel) -> None:
    for body, said in [
        ("raise ExceptionGroup('two', [ValueError(1), KeyError('k')])", "2 of 2: KeyError: 'k'"),
        (
            "try:\n    raise ExceptionGroup('several', [ValueError(1)])\n"
            "except ExceptionGroup:\n    1 / 0",
            "While handling: ExceptionGroup: several",
        ),
        ("compile('x =', 'there', 'exec')", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ]:
        for cell in (session.run(f"%%remote -w\n{body}"), session.run("%tb")):
            assert said in cell.failure
            assert "Traceback on the worker" in cell.failure
            assert "/workbench/" not in cell.failure
            assert not cell.text("stderr")


def model(cell: Cell, name: str, **state: Any) -> str:
    """The id of the widget with that model, made under the cell."""
    wanted = {"_model_name": name, **state}
    return next(id for id, made in cell.opened().items() if wanted.items() <= made.items())


def test_the_controls_of_a_namespace_work(session: Kernel) -> None:
    cell = session.ok(f"%%remote --wait --actor desk\n{CELLS['controls']}")
    moved = {"method": "update", "state": {"value": 5}, "buffer_paths": []}
    session.send(model(cell, "IntSliderModel"), moved)
    session.until(lambda: "now 5\n" in cell.text())
    session.tell(model(cell, "ButtonModel", description="bad"), event="click")
    session.until(lambda: "ValueError: of a callback" in cell.text("stderr"))
    session.tell(model(cell, "ButtonModel", description=""), event="click")
    session.until(lambda: "pressed, at 5\n" in cell.text())
    assert session.ok("%%remote -w --actor desk\nprint(slider.value)").text() == "5\n"
    assert "still" not in cell.notes


def test_others_say_that_they_are_a_still(session: Kernel) -> None:
    cell = session.ok(f"%%remote --wait\n{CELLS['controls']}")
    session.until(lambda: "Its widgets don't react" in cell.notes)
    session.tell(model(cell, "ButtonModel", description=""), event="click")
    cell = session.ok("%%remote --wait\nimport ipywidgets\nipywidgets.FloatProgress(value=5)")
    assert "still" not in cell.notes
