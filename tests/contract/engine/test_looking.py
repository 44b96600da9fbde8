"""Looking: lists, %why, %cost, the session's line and record; what isn't known is said so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.contract.engine.conftest import Book

GONE = """
for _ in range(20_000):
    if int(id, 16) not in [record.id for record in wb.objects()]: break
    pause(0.005)
else: raise AssertionError(wb.objects())
"""
"""Waits until there is no object of that ``id``."""


WHY = "' '.join(str(wb.why(block, deep=True)).split())"
"""What `%why` says of ``block``, in one line."""


def test_objects_are_listed_shown_and_kept_by_arrays(book: Book) -> None:
    book.ok("ref = wb.put(np.ones(200_000), name='block')\nid = ref.hex()\nrow = wb.get(ref)[5:9]")
    (table,) = book.ok("%objects").results()
    assert re.search(r"block +ndarray", table), table
    assert "1.6 MB" in table
    assert "None" not in table
    found = book.value("[(r.names, r.size > 1_600_000) for r in wb.objects('block')]")
    assert found == "[(('block',), True)]"
    still = "from workbench.report.html import PARTS, Still\nStill(PARTS, wb.snapshot())"
    (html,) = book.ok(still).results("text/html")
    assert "block" in html
    assert ">None<" not in html
    book.ok("wb.put(0, name='block')\ndel ref")  # the name is another's now
    book.ok("(kept,) = [r for r in wb.objects() if r.id == int(id, 16)]\nassert kept.viewers")
    assert "`row`" in str(book.ok("%why --deep row").results())
    book.ok("del row, kept\nOut.clear()")
    book.ok(GONE)


@pytest.mark.needs("why", "wb.why(wb.put('x'))")
def test_why_finds_what_actors_hold(book: Book) -> None:
    book.ok("""
        class Keeps:
            def keep(self, refs):
                self.refs, self.array = refs, wb.get(refs[0])
        keeper = wb.remote(Keeps).options(name="keeps things").remote()
        block = wb.put(np.ones(200_000), name="shared_block")
        wb.get(keeper.keep.remote([block]))
    """)
    said = book.value(WHY)
    assert "ref in Keeps 'keeps things': `Keeps.refs[0]`" in said, said
    assert "arrays in Keeps 'keeps things': `Keeps.array`" in said, said
    assert "`block`" in said
    assert "no answer" not in said
    book.ok("wb.kill(keeper)")
    book.ok("%%remote -w --actor kept\nmine = wb.get('shared_block')[5:]")
    said = book.value(WHY)
    assert "arrays in actor kept: `mine`" in said, said
    book.ok("wb.kill(wb.get_actor('kept'))\nwb.free(block)")


def test_the_session_is_told_in_lines_without_holes_and_its_workers_are_counted_alike(
    book: Book,
) -> None:
    said = book.ok("%workbench").text()
    assert "None" not in said
    assert "workers" in said
    lines = [line.removeprefix("  can't").strip() for line in said.splitlines()]
    for lack in book.lacks.values():
        assert lack.replace("`", "").partition(". ")[0].rstrip(".") + "." in lines
    book.ok("from workbench import context\nfrom workbench.report import facts")
    book.ok("wb.get(wb.remote(lambda: 1).remote())\nnow = wb.api.engine().summary()")
    (said,) = (line for line in book.ok("%workbench").text().splitlines() if "  workers" in line)
    heading = book.value("facts.workers_heading(now)").strip("'")
    pool = heading.split(" · ")[1].replace(" started", " workers started")
    assert pool in said
    assert f"{book.system.workers}" in pool
    (shown,) = book.ok("context.get()").results()
    assert "None" not in shown
    assert "ObjectRef" in book.ok("wb.put(1)").results()[0]


@pytest.mark.needs("pin", "wb.pin(wb.put('x'))")
def test_a_pinned_object_stays(book: Book) -> None:
    book.ok("ref = wb.put(np.ones(200_000))\nid = ref.hex()\nwb.pin(ref)\ndel ref")
    assert book.value("int(wb.get(id).sum())") == "200000"
    assert "pinned" in str(book.ok("wb.why(id)").results())
    assert "pinned" in str(book.ok("%objects").results())
    book.ok("wb.unpin(id)")
    book.ok(GONE)


@pytest.mark.needs("keep", "%workbench start --keep 8h")
def test_a_session_is_kept_as_long_as_one_says(book: Book) -> None:
    assert "kept for 8 h" in book.ok("%workbench start --keep 8h").text()
    book.ok("%workbench start --keep 0")


@pytest.mark.needs("edited", "%load_ext autoreload", "%autoreload 2", "%put --name told 1")
@pytest.mark.extended
def test_workers_take_up_an_edited_module(book: Book, tmp_path: Path) -> None:
    module = tmp_path / "edited_for_contract.py"

    def edit(text: str, time: int) -> None:
        module.write_text(text)
        os.utime(module, (time, time))

    book.ok(f"%workbench stop\nimport sys\nsys.path.insert(0, {str(tmp_path)!r})")
    book.ok(f"%load_ext autoreload\n%autoreload 2\n%workbench start {book.system.start}")
    for answer in (1, 22):
        edit(f"def f(): return {answer}", 1_700_000_000 + answer)
        for _ in range(3):  # whichever worker it is, it has the module
            book.ok("%%remote -w\nimport edited_for_contract\nfound = edited_for_contract.f()")
            assert book.value("found") == f"{answer}"
    book.ok(f"%autoreload 0\n%workbench stop\nimport sys\nsys.path.remove({str(tmp_path)!r})")
    book.ok(f"%workbench start {book.system.start}")


@pytest.mark.needs("huge_pages", "%workbench stop", "%workbench start {start} --huge-pages")
@pytest.mark.extended
def test_huge_pages_are_asked_for(book: Book) -> None:
    """Whether there are any is the machine's affair."""
    book.ok(f"%workbench stop\n%workbench start {book.system.start} --huge-pages")
    assert "huge pages" in book.ok("%workbench").text()
    book.ok(f"%workbench stop\n%workbench start {book.system.start}")


@pytest.mark.needs("spill", "wb.spill(wb.put(np.ones(10**6)))")
def test_an_object_moves_to_disk(book: Book) -> None:
    """This suite's sessions have no disk: that is said, and nothing is lost."""
    book.ok("ref = wb.put(np.ones(200_000))")
    book.fails("wb.spill(ref)", "SpillError")
    assert book.value("int(wb.get(ref).sum())") == "200000"
