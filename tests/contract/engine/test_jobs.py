"""Background cells: followed, found again, and what the kernel's end does to them and to names."""

from __future__ import annotations

import re

from tests.contract.engine.conftest import Book, Opens
from tests.contract.engine.systems import Cluster
from tests.kernel.conftest import Gates
from tests.kernel.gates import Gate
from tests.leaks import eventually

NOTEBOOK = "contract.ipynb"

QUEUED = {
    "large": "large = float(data.sum()), len(text)",
    "unnamed": "unnamed = float(ref.sum())",
    "nested": "nested = float(wb.get(within[0]).sum())",
    "listed": "listed = float(wb.get(refs[0]).sum())",
    "function": "function = wb.get(heavy.remote())",
    "awaited": "awaited = float(made.sum())",
}
"""Cells by name, all of which need something that the kernel stored without giving it a name."""


def test_a_line_and_a_job_say_how_a_cell_is_and_ends(book: Book, gate: Gate) -> None:
    cell = book.ok(f"%%remote --name training\nprint('one')\n{gate.wait}\nmodel = 'trained'")
    book.until(lambda: book.says(r"training · .*running \d+ s"))
    book.ok("job = %workbench job training")
    assert book.value("job.state") == "'running'"
    book.until(lambda: re.search("training +running", book.ok("%workbench jobs").results()[0]))
    gate.open()
    assert book.value("job.result()") == "{'model': 'trained'}"
    assert book.value("(await job, job.output())") == r"({'model': 'trained'}, 'one\n')"
    assert re.fullmatch(r"training · done in .*s( · peak .*B)? · model", book.over(cell))
    assert eventually(lambda: re.search("training +done", book.ok("%workbench jobs").results()[0]))


def test_cells_of_which_some_items_fail_or_whose_process_dies_have_failed(book: Book) -> None:
    cell = book.ok("%%remote -n 4\nif index % 2: raise ValueError(index)\nx = index")
    book.until(lambda: "more of them failed" in cell.text("stderr"))
    assert "ValueError" in cell.failure
    assert re.match(r"cell \d+ · failed after .*s · 2 of 4", book.over(cell))
    assert book.value("(wb.get(x[0]), wb.get(x[2]))") == "(0, 2)"
    cell = book.ok("%%remote --name dies --retries 0\nimport os\nos._exit(3)")
    assert "failed" in book.over(cell)
    assert eventually(lambda: re.search("dies +failed", book.ok("%workbench jobs").results()[0]))


def test_a_cell_that_could_not_be_submitted_has_failed(book: Book, cluster: Cluster) -> None:
    book.ok("""
        from workbench import context
        engine = context.get()
        def refuse(*args): raise RuntimeError("no room")
        submit, expected = engine.backend.submit, set(engine.unfinished)
        engine.backend.submit = refuse
    """)
    book.fails("%%remote --name refused\nx = 1", "no room")
    book.ok("engine.backend.submit = submit")
    assert eventually(lambda: re.search("refused +failed", book.ok("%workbench jobs").results()[0]))
    assert book.value("set(engine.unfinished) <= expected") == "True"


def test_queued_cells_outlive_the_kernel(another: Opens, gates: Gates) -> None:
    """With all they take along, though it has no name, and though others had all processors. So do
    names, and what a cell shows meanwhile."""
    gate, made = gates(), gates()
    book = another(NOTEBOOK)
    book.begin()
    book.ok(f"""
        import workbench as wb, numpy as np
        data, text = np.ones(200_000), "x" * 100_000
        wb.put(np.arange(200_000), name="df")
        ref, inner = wb.put(np.ones(200_000)), wb.put(np.ones(200_000))
        within, refs = wb.put([inner]), [wb.put(np.ones(200_000))]
        big = np.ones(5000)
        @wb.remote
        def heavy(): return float(big.sum())
        @wb.remote
        def make():
            {made.wait}
            return np.ones(200_000)
        made = make.remote()
    """)
    count = book.system.workers
    book.ok(f"%%remote --name blocks -n {count}\n{gate.wait}\nx = index")
    made.open()
    for name, source in QUEUED.items():
        book.ok(f"%%remote --name {name}\nimport workbench as wb\n{source}")
    source = "print('part', part)\nitems = float(data.sum()) + part"
    book.ok(f"%%remote --name items --map part=[0,1,2]\n{source}")
    book.ok("del ref, refs, inner, within, made, heavy")
    book.restart(now=True)
    gate.open(count)
    book.begin_again()
    book.ok("import workbench as wb\n%get df")
    assert book.value("int(df[-1])") == "199999"
    for name in QUEUED:
        book.ok(f"%workbench jobs {name}")
        book.ok(f"%get {name}")
    shown = book.ok("%workbench jobs items\n%get items")
    book.until(lambda: shown.printed == [f"[{n}] part {n}" for n in range(3)])
    assert book.value("(large, unnamed, nested, listed, function, awaited)") == (
        "((200000.0, 100000), 200000.0, 200000.0, 200000.0, 5000.0, 200000.0)"
    )
    assert book.value("items") == "[200000.0, 200001.0, 200002.0]"
