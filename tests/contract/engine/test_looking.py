"""Looking: lists, %why, %cost, the session's line and record; what isn't known, or an engine can't
do, is said so, and in the docs."""

from __future__ import annotations

import re

import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import Cluster
from tests.contract.engine.table import PAGE, abilities, of_engines, page_with
from tests.tables import tables

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


def test_why_finds_what_actors_hold(book: Book) -> None:
    book.needs("holders")
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


def test_the_session_is_told_in_lines_without_holes(book: Book) -> None:
    said = book.ok("%workbench").text()
    assert "None" not in said
    assert "workers" in said
    lines = [line.removeprefix("  can't").strip() for line in said.splitlines()]
    for lack in book.lacks.values():
        assert lack.replace("`", "").partition(". ")[0].rstrip(".") + "." in lines
    book.ok("wb.get(wb.remote(lambda: 1).remote())")
    (said,) = (line for line in book.ok("%workbench").text().splitlines() if "  workers" in line)
    assert f"{book.system.workers}" in said
    (shown,) = book.ok("wb.api.engine()").results()
    assert "None" not in shown
    assert "ObjectRef" in book.ok("wb.put(1)").results()[0]


def test_a_pinned_object_stays(book: Book) -> None:
    book.ok("ref = wb.put(np.ones(200_000))\nid = ref.hex()\nwb.pin(ref)\ndel ref")
    assert book.value("int(wb.get(id).sum())") == "200000"
    assert "pinned" in str(book.ok("wb.why(id)").results())
    assert "pinned" in str(book.ok("%objects").results())
    book.ok("wb.unpin(id)")
    book.ok(GONE)


def test_a_session_is_kept_as_long_as_one_says(book: Book) -> None:
    assert "kept for 8 h" in book.ok("%workbench start --keep 8h").text()
    book.ok("%workbench start --keep 0")


USES = {ability: cells for ability, *cells in tables(__file__)[""]}
"""Cells by what a cluster may lack: the last one uses it."""


@pytest.mark.parametrize("ability", USES)
def test_lacks_are_said_where_they_matter(book: Book, cluster: Cluster, ability: str) -> None:
    for cell in USES[ability]:
        told = book.run(cell.replace("{start}", cluster.start))
    said = re.sub(r"\s+", " ", told.failure + told.text() + told.text("stderr"))
    assert book.lacks.get(ability, "") in said


CAN = abilities()


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text()
    message = "the page isn't what the engines say: python -m tests.contract.engine.table"
    assert page_with(of_engines(), page) == page, message


@pytest.mark.parametrize("engine", CAN)
def test_what_is_lacking_is_said_in_three_sentences(engine: str) -> None:
    for ability, lack in CAN[engine].lacking().items():
        sentences = re.split(r"(?<=\.) ", lack)
        assert len(sentences) >= 3, ability
        for sentence in sentences:
            assert sentence[:1].isupper() or sentence[:1] == "`", sentence
            assert sentence.endswith("."), sentence
    assert not CAN["local"].lacking()
