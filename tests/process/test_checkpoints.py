"""A notebook's variables from cell to cell: what is stored, and what comes back."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.tables import tables
from workbench.checkpoints import checkpointer
from workbench.checkpoints.checkpointer import Checkpointer
from workbench.checkpoints.groups import look
from workbench.checkpoints.opening import opened
from workbench.checkpoints.records import Checkpoint
from workbench.checkpoints.timeline import MOST, Timeline
from workbench.engine.base import Engine
from workbench.engine.queries import Names
from workbench.serialization import buffer_digests
from workbench.serialization.known_memory import marked

CELLS = dict(tables(__file__)[""])

BUFFER = 200_000  # bytes of an array that is stored on its own


class Notebook:
    """Cells without a shell; names of two underscores aren't its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.names: dict[str, Any] = {"__name__": "__main__", "np": np}
        self.keeper = Checkpointer(engine, self.names, self._own)
        self.cells = 0

    def _own(self) -> list[str]:
        return [name for name in self.names if not name.startswith("__")]

    def run(self, cell: str, *named: str, finish: bool = True) -> Checkpoint:
        exec(compile(cell, "<cell>", "exec"), self.names)
        self.cells += 1
        self.keeper.ended(self.cells, named)
        if finish:
            self.keeper.finish()
        return self.keeper.checkpoint(self.cells, self.cells - 1, cell, 0.0)

    def open(self, then: Checkpoint) -> dict[str, Any]:
        """Go back to a checkpoint; return the variables."""
        found = opened(self.engine, then.groups, then, self.names)
        assert not found.failed
        self.keeper.adopt(then, found)
        return self.names

    def value(self, expression: str) -> Any:
        return eval(expression, self.names)


@pytest.fixture
def notebook(session: Engine) -> Iterator[Notebook]:
    made = Notebook(session)
    yield made
    made.names.clear()
    vars(made).clear()  # pytest keeps it
    gc.collect()


def test_what_connects_variables_comes_back_with_them(notebook: Notebook) -> None:
    before = notebook.run(CELLS["entwined"])
    after = notebook.run(CELLS["changes that"])
    notebook.open(before)
    assert notebook.value("view[2], inner, scale, Base.made, one.x") == (12.0, [1, 2], 2, 2, 1)
    assert notebook.value("np.shares_memory(base, view) and cached.of is inner")
    assert notebook.value("outer['tuple'][0] is inner")
    assert notebook.value("both[1] is two and type(two) is Point and not hasattr(Base, 'later')")
    assert notebook.value("'__repr__' not in vars(Base) and Listed.all == ['First']")
    assert notebook.value("outer.update(later=1) or 'later' in keys")
    assert notebook.value("(up(), read(), two.where(), old())") == (1, 1, 4, 2)
    notebook.open(after)
    assert notebook.value("view[2], outer['inner'], read(), one.where()") == (
        -1.0,
        [1, 2, 3],
        1,
        15,
    )
    assert notebook.value("Base.later and both is None")


def stored(session: Engine) -> int:
    return sum(record.size for record in session.snapshot().objects)


def test_only_what_changed_is_stored(notebook: Notebook, session: Engine) -> None:
    made = f"pair = [np.zeros({BUFFER}, 'u1'), np.ones({BUFFER}, 'u1')]; same = pair[0].copy()"
    first = notebook.run(made)
    assert BUFFER * 2 <= stored(session) < BUFFER * 2.5
    second = notebook.run("pair[1][7] = 3; text = 'short'")
    assert second.changed == ("text", "pair")
    assert stored(session) < BUFFER * 3.5
    assert notebook.run("pair[0].sum()").groups[0].box == first.groups[0].box or not second.deleted
    assert notebook.run("del pair").deleted == ("pair",)


def test_code_that_means_something_else_now_is_not_taken_for_what_it_was(
    notebook: Notebook,
) -> None:
    """An object refers to its class by name, until the name means another class."""
    notebook.run("class A:\n    kind = 'old'\na = A()")
    then = notebook.run("class A:\n    kind = 'new'\nb = A()")
    notebook.run("a = b = A = None")
    notebook.open(then)
    assert notebook.value("(a.kind, b.kind, type(b) is A, type(a) is A)") == (
        *("old", "new"),
        *(True, False),
    )


def test_what_cannot_be_stored_is_said_until_it_can(notebook: Notebook) -> None:
    cell = "rows = (n for n in [1]); held = [rows, 1]; text = open('/dev/null')"
    then = notebook.run(
        f"{cell}; whole = globals(); import weakref; end = weakref.finalize(np, dict)"
    )
    names = ("rows", "held", "text", "whole", "end")
    assert {n: each.cell for n, each in then.lost.items()} == dict.fromkeys(names, 1)
    assert "open file" in then.lost["text"].why
    assert then.names == ["np", "weakref"]
    then = notebook.run("held.pop(0); text.close(); text = 'read'; del whole, end", "held")
    assert sorted(then.lost) == ["rows"]
    assert notebook.open(then)["held"] == [1]


def test_what_takes_long_is_compared_when_there_is_time(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.run("large = [[n] for n in range(1000)]; few = [1]")
    monkeypatch.setattr(checkpointer, "SOON", 0.0)
    then = notebook.run("large[0] = few[0] = 7", "few", finish=False)
    assert (then.changed, then.not_compared) == (("few",), {"large": 1})
    assert not notebook.keeper.is_done
    monkeypatch.setattr(checkpointer, "LARGE", 0.0)
    assert not notebook.run("few[0] = 8", "few", finish=False).changed
    notebook.keeper.finish()
    now = notebook.keeper.checkpoint(3, 2, "", 0.0)
    assert (sorted(now.changed), now.not_compared) == (["few", "large"], {})


@pytest.mark.parametrize("size", [BUFFER, 4_000_000])
def test_what_a_thread_writes_while_it_is_stored_is_never_taken_for_another_content(
    notebook: Notebook, session: Engine, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored has the digest of its own bytes, not that of those before."""
    notebook.names["array"] = array = np.zeros(size, np.uint8)
    put = session.put

    def write_and_put(value: Any, name: str = "") -> Any:
        array[size // 2] = 5  # as a thread does between the look and the copy
        return put(value, name)

    with monkeypatch.context() as patched:
        patched.setattr(session, "put", write_and_put)
        first = notebook.run("")
    array[size // 2] = 0
    second = notebook.run("")
    assert [notebook.open(each)["array"][size // 2] for each in (first, second)] == [5, 0]


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "MemoryError", "RecursionError"])
def test_an_interruption_loses_nothing(notebook: Notebook, error: str) -> None:
    names = notebook.names
    names["raises"] = True
    cell = CELLS["shy"].format(raises="raises", error=error)
    if error != "RecursionError":
        with pytest.raises((KeyboardInterrupt, MemoryError)):
            notebook.run(cell)
    else:
        assert "RecursionError" in notebook.run(cell).lost["shy"].why
    then = notebook.run("raises = False", "shy")
    assert {"shy", "other", "Shy"} <= {*then.names}
    assert not then.lost


def test_a_full_store_keeps_what_was_kept_last(session: Engine, notebook: Notebook) -> None:
    timeline = Timeline(session, "kept:test")
    for number in range(1, 8):
        notebook.run(f"array = np.full({10_000_000}, {number}, 'u1')")
        timeline.record(notebook.keeper.checkpoint(number, number - 1, "", 0.0))
    kept = [each.number for each in timeline]
    assert kept[-1] == 7
    assert 2 < len(kept) < 7  # 64 MB have room for six
    then = notebook.run("array = np.zeros(70_000_000, 'u1')")
    assert "needs 70 MB" in then.lost["array"].why
    again = Timeline(session, "kept:test")
    assert again.load()
    notebook.open([*again][-1])
    assert notebook.value("array[0]") == 7
    timeline.forget()
    assert session.ask(Names("kept:")) == []
    timeline.close()
    again.close()


@pytest.fixture
def timeline(session: Engine) -> Iterator[Timeline]:
    made = Timeline(session, "kept:test")
    yield made
    made.forget()
    made.close()


def empty(number: int, before: int | None) -> Checkpoint:
    return Checkpoint(number, before, number, "", 0.0, 0.0, (), {}, {}, {}, (), (), "/", ())


def test_branches_begin_where_they_were_made(session: Engine, timeline: Timeline) -> None:
    timeline.record(empty(1, None))
    timeline.record(empty(2, 1))
    timeline.move(next(iter(timeline)), "other")
    timeline.record(empty(3, 1))
    assert [each.number for each in timeline.line()] == [3, 1]
    assert [each.number for each in timeline.line("main")] == [2, 1]
    found = Timeline(session, "kept:test")
    assert found.load()
    assert (found.branch, found.branches) == ("other", {"main": 2, "other": 3})
    assert found.of_cell(2) is not None
    found.close()


def test_the_oldest_go_but_for_the_ends_of_branches(timeline: Timeline) -> None:
    timeline.record(empty(1, None))
    timeline.branches["first"] = 1
    for number in range(2, MOST + 6):
        timeline.record(empty(number, number - 1))
    numbers = [each.number for each in timeline]
    assert numbers[0] == 1
    assert numbers[1:] == [*range(MOST + 6 - len(numbers) + 1, MOST + 6)]
    assert len(numbers) == MOST + 2


def test_a_second_kernel_of_a_notebook_leaves_nothing(
    session: Engine, timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline.record(empty(1, None))
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", lambda: 0)  # the first one is at work
        second = Timeline(session, "kept:test")
        assert not second.load()
        second.record(empty(1, None))
    assert session.ask(Names("kept:")) == ["kept:test"]
    second.forget()
    second.close()
    assert session.ask(Names("kept:")) == ["kept:test"]


def test_writes_to_memory_that_another_variable_shows_are_seen(notebook: Notebook) -> None:
    """Watching a part's whole anew forgets what was known of the part."""
    first = notebook.run("part = np.zeros(400_000)[:300_000]")
    notebook.run("whole = part.base; part[150_000] = 5")
    then = notebook.run("del whole")
    notebook.open(first)
    assert notebook.open(then)["part"][150_000] == 5


def test_what_is_written_elsewhere_to_shared_memory_is_seen(notebook: Notebook) -> None:
    file = os.memfd_create("shared")
    os.truncate(file, 2_000_000)
    notebook.names["memory"], others = mmap.mmap(file, 2_000_000), mmap.mmap(file, 2_000_000)
    os.close(file)
    notebook.run("array = np.frombuffer(memory, 'u1')")
    others[1_000_000] = 5
    assert notebook.open(notebook.run(""))["array"][1_000_000] == 5


def test_what_could_not_be_opened_is_not_taken_for_what_is_stored(notebook: Notebook) -> None:
    cell = "class Shy:\n    def __setstate__(self, it): assert np.ready; vars(self).update(it)"
    then = notebook.run(f"np.ready = False\n{cell}\nshy = Shy(); shy.x = 1")
    notebook.run("shy.x = 2")
    found = opened(notebook.engine, then.groups, then, notebook.names)
    assert {*found.failed} == {"shy"}
    notebook.keeper.adopt(then, found)
    now = notebook.run("np.ready = True")
    assert notebook.open(now)["shy"].x == 2
    del np.ready


def test_a_proxy_of_nothing_disturbs_no_other_variable(notebook: Notebook) -> None:
    cell = "class Proxy:\n    @property\n    def __class__(self): raise RuntimeError('no request')"
    then = notebook.run(f"{cell}\nrequest = Proxy(); x = [1]")
    assert {*then.lost} == {"request"}
    assert {"x", "Proxy"} < {*then.names}


def test_what_only_pickling_has_made_links_no_variables(notebook: Notebook) -> None:
    cell = "class Nested:\n    def __getstate__(self): return {'outer': {'inner': [{}]}}"
    notebook.run(f"{cell}\nmany = [Nested() for _ in range(100)]")
    names = {"many": notebook.names["many"]}
    first, again = (look(notebook.engine, names, notebook.names, {}) for _ in range(2))
    assert len(first.links & again.links) > 100 > 10 > len(first.links - again.links)


def test_windows_of_an_array_stay_windows(notebook: Notebook) -> None:
    made = "view = np.lib.stride_tricks.sliding_window_view"
    then = notebook.run(
        f"{made}(np.arange(30_000.0), 10_000); far = np.broadcast_to(view[0], (9, 10**4))"
    )
    assert then.nbytes < 1_000_000
    notebook.run("view = far = 0")
    notebook.open(then)
    assert notebook.value("view[5, 5], view.strides, far[8, 7]") == (10.0, (8, 8), 7.0)


def test_what_views_of_one_block_show_is_not_read_again(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    if marked(np.zeros(1_000_000)) is None:
        pytest.skip("this Linux, or this container, doesn't tell which pages were written")
    then = notebook.run("array = np.zeros(400_000); left, right = array[:300_000], array[100_000:]")
    notebook.open(then)
    last = notebook.run("left[150_000] = 5")
    with monkeypatch.context() as patched:
        patched.setattr(buffer_digests, "digest_of", None)
        notebook.run("")
    assert notebook.open(last)["right"][50_000] == 5


def test_an_array_in_a_bytearray_is_said_to_be_lost(notebook: Notebook) -> None:
    """Each alone would come back, but in memory of its own."""
    then = notebook.run("held = bytearray(100); array = np.frombuffer(held, 'u1'); x = [held[:1]]")
    assert {*then.lost} == {"held", "array"}
    assert "memory of another object, bytearray (100)" in then.lost["held"].why
    assert {*notebook.run("held = None", "array").lost} == set()
