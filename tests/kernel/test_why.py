"""%why, %free, %pin and %objects asked as a person asks: by ids, lists, expressions, variables.

Mostly with ``--deep``: on a busy machine one look may take too long for the short answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.conftest import Kernel, a_kernel
from tests.leaks import eventually


@pytest.fixture(scope="module")
def kernel(runtime_dir: str) -> Iterator[Kernel]:
    """One of its own: a search takes as long as there are things in the kernel."""
    yield from a_kernel(runtime_dir, WORKBENCH_WORKERS="2")


@pytest.fixture
def lab(session: Kernel) -> Kernel:
    session.ok("import numpy as np\nblocks = [wb.put(np.full(10**5, n)) for n in range(4)]")
    return session


def names(lab: Kernel) -> str:
    return str(lab.ok("%objects").results()[0])


def test_why_takes_what_a_person_has(lab: Kernel) -> None:
    why = lab.ok("%why --deep blocks[3]").results()[0]
    assert "`blocks[3]`" in why
    assert "del blocks[3]" in why
    assert "`blocks[2]`" in lab.ok("%why --deep blocks[ 1 + 1 ]").results()[0]
    every = lab.ok("%why --deep blocks").results()[0]
    assert all(f"blocks[{n}]: ndarray" in every for n in range(4))


def test_why_takes_a_variable_that_shows_a_freed_object(lab: Kernel) -> None:
    lab.ok("mine = wb.get(blocks[0])\n%free blocks[0]\nblocks[0] = None")
    why = lab.ok("%why --deep mine").results()[0]
    assert "freed already" in why
    assert "`mine`" in why
    lab.ok("frame = {'part': mine[3:]}\ndel mine")
    assert "frame['part']" in lab.ok("%why --deep frame").results()[0]
    lab.ok("nothing, moth = [1, 2], '123456789abcdef0'")
    assert "has nothing of the store" in lab.failure("%pin nothing")
    assert "`$moth` puts that into the line" in lab.failure("%why moth")
    assert "Did you mean 'blocks'" in lab.failure("%why blcks")


def test_why_tells_of_what_is_stored_and_of_the_kernels_own_memory(lab: Kernel) -> None:
    lab.ok("import pandas as pd\nshown, own = wb.get(blocks[0]), np.ones(10**5)")
    lab.ok("frame = pd.DataFrame({'a': shown, 'b': own}, copy=False)\ndel shown")
    why = lab.ok("%why --deep frame").results()[0]
    assert "frame in this process: DataFrame (100000, 2), 80" in why
    assert "`own`, with 800 kB of it\n    to let go: `del own`\n    frees nothing alone" in why
    assert "All of them together free 80" in why
    assert "\n\nframe: ndarray int64 (100000,), 80" in why
    lab.ok("part = wb.get(blocks[1], copy_on_write=True)\npart[:50_000] = 1")
    why = lab.ok("%why --deep part").results()[0]
    assert "`part`\n    to let go: `del part`\n    frees 40" in why
    assert "arrays in this notebook: `part`" in why
    lab.ok("%put own --name copy")
    why = lab.ok("%why --deep own").results()[0]
    assert "own in this process" in why
    assert "named `copy`" in why
    assert "only this question refers to" in lab.ok("%why own.sum()").results()[0]
    lab.ok("%free copy\ndel own, frame, part")


def test_lists_and_ids_are_freed_and_pinned(lab: Kernel) -> None:
    assert lab.ok("%objects zzz*").results()[0] == "No object matches 'zzz*'."
    lab.ok("%pin blocks[0] blocks[1]")
    assert names(lab).count("pinned") == 2
    lab.ok("%unpin blocks")
    assert "pinned" not in names(lab)
    id = lab.value("blocks[0].hex()").strip("'")
    lab.ok(f"%pin {id}\n%free {id}\n%free blocks")
    assert eventually(lambda: names(lab) == "No objects. %put makes one.")  # but refs to them


def test_a_search_that_was_cut_short_says_so_and_deep_looks_at_all(lab: Kernel) -> None:
    """Not: no variable leads to it."""
    lab.ok("from workbench.client import search_budget as b\nusual, b.MOST = b.MOST, -1")
    lab.ok("x = wb.put([1], name='x')\nclass Cache: kept = {'a': [x]}\ndel x")
    why = lab.ok("%why x").results()[0]
    assert "not found among the first" in why
    assert "`%why x --deep` looks at all" in why
    deep = lab.ok("%why x --deep")
    assert "not found among the first" in deep.text()  # the short answer comes first
    assert "`Cache.kept['a'][0]`" in deep.results()[0]
    lab.ok("b.MOST = usual")


def test_what_ipython_keeps_in_secret_is_found(lab: Kernel) -> None:
    lab.ok("get_ipython().user_ns_hidden['secret'] = blocks.pop()\nid = blocks[-1].id + 1")
    why = lab.ok("print(wb.why(f'{id:016x}', deep=True))").text()
    assert "`get_ipython().user_ns_hidden['secret']`" in why
    lab.ok("del get_ipython().user_ns_hidden['secret']")
    assert eventually(lambda: len(names(lab).splitlines()) == 4)  # the head, and three blocks


def test_a_timer_is_named_and_nothing_that_the_loop_needs_is_deleted(lab: Kernel) -> None:
    lab.ok("import asyncio\nref = blocks[0]\nlater = asyncio.get_running_loop().call_later")
    number = lab.ok("later(3600, print, blocks)").number
    lab.ok("later(3600, print, blocks)\ndel blocks")
    asked = lab.ok("asked = wb.why(ref, deep=True)\nprint(asked)").text()
    assert asked.count("a timer of the event loop, due in 59 min") == 2
    lab.ok("for reason in asked.reasons: exec(reason.code)")
    assert f"`_{number}.cancel()`" in asked  # and not of `_`, which is another by now
    assert lab.value(f"_{number}.cancelled()") == "True"


def test_an_output_is_a_reason_too(lab: Kernel) -> None:
    cell = lab.ok("wb.get(blocks[0])")
    lab.ok("asked = wb.why(blocks[0], deep=True)\ndel blocks")
    assert f"`Out[{cell.number}]`" in lab.ok("print(asked)").text()
    # `%reset -f out` would leave one of IPython's.
    lab.ok("exec(next(reason.code for reason in asked.reasons if 'Out[' in reason.text))")
    assert eventually(lambda: names(lab) == "No objects. %put makes one.")


def test_an_error_of_ours_keeps_nothing_of_what_it_was_about(lab: Kernel) -> None:
    lab.ok("mine = wb.get(blocks[0])")
    assert "SpillError" in lab.run("%spill blocks").failure
    assert "kept by" not in names(lab)
    lab.ok("del mine, blocks")
    assert eventually(lambda: names(lab) == "No objects. %put makes one.")


def test_what_has_no_name_is_listed_with_the_id_to_ask_by(lab: Kernel) -> None:
    lab.ok("import pickle\nkept = pickle.dumps(blocks[0])\ndel blocks")
    (row,) = names(lab).splitlines()[1:]
    id, _, place = row.partition(" from ")
    assert place.startswith("Cell In[")
    assert "ref pickled at" in lab.ok(f"%why --deep {id}").results()[0]
    lab.ok(f"%free {id}")
    assert eventually(lambda: names(lab) == "No objects. %put makes one.")


def test_what_a_namespace_of_remote_cells_has_is_let_go_of_in_such_a_cell(lab: Kernel) -> None:
    lab.ok("x = wb.get(blocks[0])\nid = blocks[0].hex()")
    lab.ok("%%remote --actor db --wait\nkept = [x]")
    lab.ok("del x\nblocks[0] = None")
    why = lab.ok("%why --deep $id").results()[0]
    assert "actor db: `kept[0]`" in why
    assert "`del kept[0]` in a cell of `%%remote --actor db`" in why


def test_ctrl_c_ends_a_long_search(lab: Kernel) -> None:
    lab.ok(
        "import threading\nfrom workbench.client import referrer_search as r\n"
        "usual = r.ReferrerSearch.run\n"
        "begun, go = threading.Event(), threading.Event()\n"
        "def slow(search): begun.set(); go.wait(); return usual(search)\n"
        "r.ReferrerSearch.run = slow"
    )
    lab.ok("threading.Thread(target=lambda: begun.wait() and print('begun'), daemon=True).start()")
    cell = lab.start("%why --deep blocks[0]")
    lab.until(lambda: "begun" in "".join(each.text() for each in lab._cells.values()))
    lab.interrupt()
    lab.until(lambda: cell.idle)
    assert "KeyboardInterrupt" in cell.failure
    lab.ok("r.ReferrerSearch.run = usual\ngo.set()")
    assert "`blocks[0]`" in lab.ok("%why --deep blocks[0]").results()[0]
