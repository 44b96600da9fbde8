"""Each magic, typed into a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kernel.conftest import Kernel
from tests.tables import tables


def test_start_takes_options_and_status_shows_them(fresh: Kernel) -> None:
    assert "No session is running" in fresh.ok("%workbench").text()
    start = "%workbench start --workers 3 --memory 64MB --session desk"
    line = fresh.ok(f"%unload_ext workbench\n%load_ext workbench\n{start}").text()
    assert line == "Workbench started session desk: 3 workers, store of 64 MB.\n"
    fresh.ok("import numpy as np\na = np.zeros(10**6)\n%put a")
    status = fresh.ok("%workbench status").text()
    assert "Session desk: running" in status
    assert re.search(r"workers +3 workers", status)
    assert "8 MB of 64 MB" in status
    assert re.search(r"^  a +ndarray float64 \(1000000,\) +8 MB +in shared memory", status, re.M)
    # The same start again changes nothing and says who uses it; another one is refused.
    assert "Session desk: a notebook" in fresh.ok(start).text()
    failure = fresh.failure("%workbench start --workers 4")
    assert "would lose 1 object" in failure
    assert "%workbench stop" in failure


LEAKS = """
import os, threading, psutil

def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # the directory's own
        return ""

def there():
    targets = map(target, os.listdir("/proc/self/fd"))
    return (
        {t.name for t in threading.enumerate()},
        # IPython writes history at any time, ZeroMQ has an eventfd more or less.
        sorted(t for t in targets if t and "ipython" not in t and "eventfd" not in t),
        [c.cmdline() for c in psutil.Process().children(recursive=True)],
        [line for line in open("/proc/self/maps") if "workbench" in line.split("/")[-1]],
    )
"""


def test_unload_leaves_nothing_behind(fresh: Kernel) -> None:
    fresh.ok(LEAKS)
    fresh.ok("%load_ext workbench\nimport numpy as np\n%unload_ext workbench")  # imports done
    fresh.ok("before = there()")
    fresh.ok(
        "%load_ext workbench\na = np.ones(10**6)\nref = %put a\n"
        "total = wb.get(wb.remote(np.sum).remote(ref))\n%get a\ndel a, ref"
    )
    fresh.ok("during = there()")
    fresh.ok("%unload_ext workbench")
    fresh.ok("after = there()")
    assert fresh.value("during == before") == "False"
    for index in range(4):
        assert fresh.value(f"after[{index}]") == fresh.value(f"before[{index}]")
    assert fresh.run("%put x").text("stderr").startswith("UsageError")
    assert fresh.value("hasattr(get_ipython(), 'workbench')") == "False"
    bare = fresh.ok("%load_ext workbench\n%put --name a 1")
    assert not bare.results()  # though the cell's tree was made before


def test_put_reports_its_cost_in_one_line_and_gives_a_ref_when_asked(session: Kernel) -> None:
    line = session.ok("import numpy as np\nx = np.ones((1000, 500))\n%put x").text()
    assert re.fullmatch(
        r"x: ndarray float64 \(1000, 500\), 4 MB in [\d.]+ m?s, [\d.e-]+ [GM]B/s"
        r"( in new memory)?; 4 MB copied directly in 1 buffer\n",
        line,
    )
    bare = session.ok("x = [1, 2]\n%put x")
    assert re.fullmatch(r"x: list \(2\), \d+ B in [\d.]+ [mµ]?s; all of it pickled\n", bare.text())
    assert not bare.results()  # Out[n] would keep the object alive
    assert session.value("type(ref).__name__", after="ref = %put x") == "'ObjectRef'"
    assert session.value("wb.get(ref)") == "[1, 2]"
    for line, name, value in [
        ("%put --name a 1 + 1", "a", "2"),
        ("%put -n text 'two  spaces ' + \"and 'quotes'\"", "text", "\"two  spaces and 'quotes'\""),
        ("%put sum(n for n in (1, 2)) --name total", "total", "3"),
    ]:
        session.ok(line)
        assert session.value(name, after=f"%get {name}") == value


def test_get_brings_a_view_a_copy_or_one_on_write(session: Kernel) -> None:
    session.ok("import numpy as np\nx = np.arange(10**6)\n%put x\ndel x")
    session.ok("%get x --as y")
    assert session.value("(y.flags.writeable, y.flags.owndata, int(y.sum()))") == (
        "(False, False, 499999500000)"
    )
    assert "read-only" in session.run("y[0] = 1").failure
    session.ok("%get x --copy --as z\nz[0] = 7")
    assert session.value("(int(z[0]), int(y[0]))") == "(7, 0)"
    session.ok("%get x --cow --as c\nc[0] = 8")
    assert session.value("(int(c[0]), int(y[0]), int(c.sum() - y.sum()))") == "(8, 0, 8)"
    assert "Give one of them" in session.run("%get x --cow --copy").failure


def test_rich_display_and_figures(session: Kernel) -> None:
    cell = session.ok(
        "%%remote -w\n"
        "from IPython.display import HTML, display, clear_output\n"
        "import matplotlib.pyplot as plt\n"
        "handle = display(HTML('<b>bold</b>'), display_id='one')\n"
        "handle.update(HTML('<i>new</i>'))\n"
        "clear_output(wait=True)\n"
        "plt.plot([1, 2])\n"
        "1;"
    )
    session.until(lambda: cell.results("image/png"))
    assert cell.results("text/html") == ["<b>bold</b>"]
    updates = [c for kind, c in cell.outputs if kind == "update_display_data"]
    assert updates[0]["data"]["text/html"] == "<i>new</i>"
    assert updates[0]["transient"] == {"display_id": "one"}
    assert cell.clears == [True]
    assert len(cell.results("image/png")) == 1
    assert "1" not in cell.results()


def test_output_of_a_function_called_in_an_asyncio_task(session: Kernel) -> None:
    """It belongs to the cell that started the task, whatever runs meanwhile."""
    session.ok("import asyncio\n@wb.remote\ndef say(what): print(what)\ngate = asyncio.Event()")
    first = session.ok(
        "async def later():\n    await gate.wait()\n    await say.remote('from the first')\n"
        "task = asyncio.create_task(later())"
    )
    second = session.ok("gate.set()\nawait task\nwb.get(say.remote('from the second'))")
    session.until(lambda: first.text() and second.text())
    assert first.text() == "from the first\n"
    assert second.text() == "from the second\n"


def test_headless_a_cell_waits_for_and_fails_with_its_background_work(session: Kernel) -> None:
    assert session.run("%%remote\nprint('in time')", headless=True).text() == "in time\n"
    cell = session.run("%%remote\nraise KeyError('lost')", headless=True)
    assert "KeyError" in (cell.error or "")
    assert cell.failure.count("KeyError: 'lost'") == 1
    assert session.run("1 + 1", headless=True).error is None
    assert session.run("%%remote\nraise KeyError('lost')").error is None  # with a person it goes on


START = (
    "%workbench start --memory 16MB --spill-dir none\n%put --name keep 'this'\nfiles = ['a']\n"
    "gone = wb.put(1)\nwb.free(gone)"
)


def test_bad_input_is_one_paragraph_of_our_own_type(fresh: Kernel) -> None:
    fresh.ok("wb.init(session='other')\nforeign = wb.put(1)\n%workbench stop")
    fresh.ok(START)
    for wanted, code in tables(__file__)[""]:
        error, says = wanted.split(": ", 1)
        cell = fresh.run(code)
        assert (code, cell.error) == (code, error), cell.failure
        assert says in cell.failure
        assert "Traceback" not in cell.failure
        assert "\n\n" not in cell.failure
        if "stop" not in code:
            assert fresh.value("wb.get('keep')") == "'this'", "nothing is lost, the session goes on"


MAGICS = ("put", "get", "inspect", "cost", "objects", "why", "free", "pin", "unpin", "spill")


def test_every_magic_tells_what_it_takes(session: Kernel) -> None:
    for magic in (*MAGICS, "workbench"):
        said = session.ok(f"%{magic} --help").text()
        assert said.startswith(f"Usage: %{magic} ")
        assert "::" not in said
    for line in ("%%remote -h", "%%remote --help\n1 / 0", "%remote --help"):
        said = session.ok(line).text()
        assert said.startswith("Usage: %%remote [-w]")
        assert "Run the cell on a worker" in said


def test_an_object_goes_to_disk_and_the_status_says_so(fresh: Kernel, tmp_path: Path) -> None:
    fresh.ok(f"%workbench start --workers 1 --memory 64MB --spill-dir {tmp_path} --huge-pages")
    fresh.ok("import numpy as np\nx = np.arange(10**6)\n%put x\n%spill x")
    status = fresh.ok("%workbench").text()
    assert "8 MB on disk" in status
    assert re.search(r"huge pages +\w", status)
    assert re.search(r"^x .* on disk +named", fresh.ok("%objects").results()[0], re.M)
    fresh.ok("%pin x")
    assert "SpillError: 'x' can't be moved to disk: it is pinned" in fresh.failure("%spill x")
    fresh.ok("%workbench stop\n%reset -f")
    assert "ConfigError" in fresh.failure("%workbench start --spill-dir /no/such/place")


def test_a_comment_behind_a_magic(session: Kernel) -> None:
    session.ok("x = [1]\n%put x  # stored\ny = 'a # b'")
    session.ok("%get x --as y  # it isn't \"new\"\ny = 'a # b'")
    session.ok("%put --name kept 'a # b' + y  # an expression\n%get x --as z  # a list")
    assert session.value("(z, wb.get('kept'))") == "([1], 'a # ba # b')"
    assert session.ok("%workbench status  # of all").text().startswith("Session ")


def test_what_is_no_expression_is_told_apart_from_what_is_not_there(session: Kernel) -> None:
    said = session.failure("%why [1,2")
    assert "MagicError: `[1,2` is no name or id, and no expression: '[' was never closed" in said
    assert "This session has no object 'there_is_none'" in session.failure("%why there_is_none")
    name = "a_name_" + 20 * "that_goes_on_"
    session.ok(f"{name} = [1]\n%put {name}")
    listed = session.ok("%objects").results()[0].splitlines()
    assert len(listed[1]) < 150  # a long name leaves the other columns in sight
    assert listed[1].startswith("a_name_that_goes_on_")


def test_errors_name_sessions_as_people_do(session: Kernel) -> None:
    session.ok("double = wb.remote(lambda x: 2 * x)\nold = double.remote(1)\nwb.get(old)")
    said = session.run("double(1)").failure
    assert "double is remote: call `double.remote(...)`, or `double.__wrapped__(...)`" in said
    said = session.run("%workbench start").failure
    name = session.value("wb.api.engine().session.partition('~')[0]")
    assert f"This process is in session {name} already" in said
    session.ok("%workbench stop\n%workbench start --workers 1")
    for line in ("wb.get(old)", "%why old"):
        said = session.run(line).failure
        assert f"ForeignRefError: The ref belongs to session {name}, and this" in said
        assert "~" not in said
