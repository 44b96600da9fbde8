"""What live views are fed by a real session, and what their buttons do there. No page."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate, stopper
from tests.process.pages import Page, Row
from tests.process.scripts import Script
from workbench import context
from workbench.engines.base import Engine
from workbench.report import view_texts
from workbench.report.page import key_of
from workbench.report.processes import owners_of
from workbench.widgets import feed as feeds
from workbench.widgets import mirror
from workbench.widgets.actions import perform
from workbench.widgets.feed import Feed
from workbench.widgets.views import Jobs

pytestmark = pytest.mark.fresh_session


LARGE = 1 << 17  # float64s, so that they lie in a segment


@pytest.fixture
def feed(session: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    monkeypatch.setattr(feeds, "LOOKED", TIMEOUT)
    feed = context.companion(Feed)
    yield feed
    feed.close()


def do(session: Engine, action: str, ref: wb.ObjectRef | str, **more: object) -> Row:
    id = ref if isinstance(ref, str) else key_of(ref.id)
    return perform(session, {"do": action, "id": id, **more})


# -- what it is told -------------------------------------------------------------------------------


def test_the_world_has_what_is_there_already(session: Engine) -> None:
    ref = wb.put(np.ones(LARGE), name="data")
    world = context.companion(Feed).world()
    (row,) = world["objects"].values()
    assert row["id"] == key_of(ref.id)
    facts = ("title", "kind", "detail", "where", "owner", "movable", "buffers")
    assert [row[fact] for fact in facts] == [
        "data", "ndarray", f"float64 ({LARGE},)", "memory", "this process", "yes", 1
    ]  # fmt: skip
    (segment,) = world["segments"]
    assert segment["id"] == row["seg"]
    assert segment["live"] == row["len"] == row["size"] >= LARGE * 8
    store, machine = (dict(bar["parts"]) for bar in world["bars"])
    assert store["live"] + store["reusable"] + store["available"] == session.snapshot().capacity
    assert machine["kernels"] > 10 << 20
    assert machine["free"] > 0
    context.companion(Feed).close()


def test_a_look_takes_little_of_a_small_machines_memory(runtime: str) -> None:
    engine = wb.init(workers=0, memory="16MB")
    tracemalloc.start()
    try:
        assert engine.copy_speed() is not None
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_what_comes_changes_and_goes_is_told(session: Engine, page: Page) -> None:
    held: dict[str, Any] = {"ref": wb.put(np.ones(LARGE))}
    key = key_of(held["ref"].id)
    page.until(lambda: key in page.world["objects"])
    wb.pin(held["ref"])
    page.until(lambda: page.world["objects"][key]["movable"] == "no")
    held["array"] = wb.get(held["ref"])
    page.until(lambda: "'view'" in str(page.world["objects"][key]["pins"]))
    wb.unpin(held["ref"])
    held.clear()
    gc.collect()
    page.until(lambda: key not in page.world["objects"])
    assert [sample[3:5] for sample in page.world["timeline"]][-1] == (1, 1)


def test_variables_that_hold_it_by_name(
    session: Engine, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    ref = wb.put([1])
    monkeypatch.setattr(__main__, "mine", ref, raising=False)
    page._feed.nudge()
    page.until(lambda: "mine" in page.row(ref).get("held", ""))
    assert "mine" in page.row(ref)["breaks"]
    monkeypatch.delattr(__main__, "mine")
    page._feed.nudge()
    page.until(lambda: "mine" not in page.row(ref)["held"])


def test_variables_with_a_ref_and_those_with_arrays_are_told_apart(
    session: Engine, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = wb.put(np.ones(LARGE))
    roots: dict[str, Any] = {"mine": ref, "shown": wb.get(ref)}
    monkeypatch.setattr("workbench.client.client.main_variables", lambda: roots)
    page._feed.nudge()
    page.until(lambda: page.row(ref).get("held") == "mine, shown")
    page.until(lambda: {pin["reason"] for pin in page.row(ref)["pins"]} == {"ref", "view"})
    texts = {pin["reason"]: pin["text"] for pin in page.row(ref)["pins"]}
    assert texts["ref"] == "ref in this process: mine"
    assert texts["view"] == "arrays in this process: shown"
    assert page.row(ref)["breaks"].startswith("It is still used by mine:")
    roots.clear()


def test_a_task_and_the_worker_that_runs_it(session: Engine, page: Page, gate: Gate) -> None:
    ref, stop = wb.put(np.ones(LARGE)), stopper(gate.path)

    @wb.remote
    def reads(array: Any) -> str:
        return stop()

    result = reads.remote(ref)
    visitor = gate.next()
    page.until(lambda: page.row(ref).get("movable") == "no")
    page.until(lambda: "reads" in str(page.world["workers"]))
    assert {"reason": "task", "text": "needed by 1 task"} in page.row(ref)["pins"]
    assert "1 task" in page.row(ref)["breaks"]
    visitor.let_on("done")
    assert wb.get(result) == "done"
    page.until(lambda: page.row(ref)["movable"] == "yes")
    page.until(lambda: all(w["does"] == "idle" for w in page.world["workers"]))


def test_nothing_is_told_while_nothing_changes(session: Engine, page: Page) -> None:
    page.until(lambda: page.world["speed"])
    page.until(lambda: all(w["state"] == "idle" for w in page.world["workers"]))
    wb.put(1, name="last")
    page.until(lambda: page.rows(name="last"))
    before = len(page.told)
    pause = threading.Event()
    pause.wait(1.0)
    assert len(page.told) == before


def test_nobody_is_told_who_does_not_look(session: Engine, feed: Feed) -> None:
    page = Page(feed)
    feed.shown(page, True)
    feed.shown(page, False)
    ref = wb.put([1])
    assert eventually(lambda: not any(t.name == "workbench-views" for t in threading.enumerate()))
    told = len(page.told)
    feed.shown(page, True, seq=page.world["seq"])  # what came meanwhile comes now
    page.until(lambda: page.row(ref))
    assert len(page.told) > told
    feed.shown(page, False)


def test_who_looks_again_after_long_need_not_wait(
    session: Engine, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "UNSEEN", -1.0)  # as if nobody had said so for long
    monkeypatch.setattr(feeds, "SLOW", 4 * TIMEOUT)
    gone, page = Page(feed), Page(feed)
    feed.shown(gone, True)
    gone.until(lambda: gone.world["speed"])
    ref, seq = wb.put([1]), page.world["seq"]

    def is_told() -> bool:
        feed.shown(page, True, seq=seq)
        return bool(page.row(ref))

    assert eventually(is_told)


def test_of_very_many_most_are_summed(
    session: Engine, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [wb.put(n) for n in range(mirror.MOST + 500)]
    page.until(lambda: sum(kind["count"] for kind in page.world["rest"]) == 500)
    assert len(page.world["objects"]) == mirror.MOST
    wb.put(1, name="named")
    page.until(lambda: page.rows(name="named"))
    assert len(page.world["objects"]) == mirror.MOST
    del refs
    gc.collect()
    page.until(lambda: len(page.world["objects"]) == 1)
    assert page.world["rest"] == []


def test_when_most_rows_have_gone_others_take_their_place(session: Engine, page: Page) -> None:
    refs = {ref.id: ref for ref in [wb.put("same") for _ in range(mirror.MOST + 500)]}
    page.until(lambda: sum(kind["count"] for kind in page.world["rest"]) == 500)
    for key in list(page.world["objects"])[: mirror.MOST // 2 + 100]:
        del refs[int(key, 16)]
    page.until(lambda: len(page.world["objects"]) == len(refs) and not page.world["rest"])
    assert {*page.world["objects"]} == {*map(key_of, refs)}
    times = [sample[0] for sample in page.world["timeline"]]
    assert times == sorted(times)


def test_a_new_view_has_all_that_came_while_nobody_looked(session: Engine, feed: Feed) -> None:
    page = Page(feed)
    feed.shown(page, True)
    feed.shown(page, False)
    assert eventually(lambda: not any(t.name == "workbench-views" for t in threading.enumerate()))
    feed.shown(page, False)  # nobody to be roused
    for name in ("first", "second"):
        wb.put(1, name=name)
        session.snapshot()  # it has been told by now what it had asked for
    feed.catch_up()
    names = {row["name"] for row in feed.world()["objects"].values()}
    assert {"first", "second"} <= names


def test_a_view_has_what_the_line_before_it_did(session: Engine, feed: Feed) -> None:
    for number in range(20):
        refs = [wb.put([n, number]) for n in range(3)]
        feed.catch_up()
        assert len(feed.world()["objects"]) == 3
        del refs[1:]
        kept = wb.put(number, name="kept")
        feed.catch_up()
        names = sorted(row["name"] for row in feed.world()["objects"].values())
        assert names == ["", "kept"]
        del refs, kept
        wb.free("kept")
        assert eventually(lambda: not wb.snapshot().objects)
        feed.catch_up()


def test_a_new_view_has_what_the_line_before_it_did_while_another_is_shown(
    session: Engine, feed: Feed
) -> None:
    page = Page(feed)
    feed.shown(page, True)
    for number in range(10):
        name = f"kept {number}"
        wb.put(number, name=name)
        feed.catch_up()
        assert name in {each for record in feed.snapshot().objects for each in record.names}
    feed.shown(page, False)


class SlowChanges:
    """Changes that come once they were hurried so often, as a busy cluster's do after a while."""

    def __init__(self, changes: Any, hurries: int) -> None:
        self._changes = changes
        self._left = threading.Semaphore(0)
        self._hurries = hurries

    def next(self, timeout: float | None = None) -> Any:
        for _ in range(self._hurries):
            assert self._left.acquire(timeout=TIMEOUT)
        self._hurries = 0
        return self._changes.next(timeout)

    def hurry(self) -> None:
        self._left.release()
        self._changes.hurry()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)


@pytest.fixture
def view(feed: Feed) -> Iterator[Jobs]:
    view, page = Jobs(), Page(feed)
    feed.shown(page, True)
    yield view
    feed.shown(page, False)


def test_a_view_waits_for_a_session_that_is_slow_to_answer(
    session: Engine, feed: Feed, view: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "FIRST", 0.0)
    monkeypatch.setattr(feeds, "PACE", 0.01)
    monkeypatch.setattr(feed, "_changes", SlowChanges(feed._changes, 6))
    wb.put(1, name="kept")
    feed.catch_up()
    assert "kept" in {each for record in feed.snapshot().objects for each in record.names}
    assert view_texts.LATE not in repr(view._still())


def test_what_is_older_than_the_line_before_it_says_so(
    session: Engine, feed: Feed, view: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "LOOKED", 0.0)
    slow = SlowChanges(feed._changes, 1000)
    monkeypatch.setattr(feed, "_changes", slow)
    wb.put(1, name="kept")
    feed.catch_up()
    assert view_texts.LATE in " ".join(repr(view._still()).split())
    for _ in range(1000):
        slow.hurry()
    feed.catch_up()
    assert eventually(lambda: view_texts.LATE not in " ".join(repr(view._still()).split()))


def test_what_a_button_did_is_looked_at_at_once(
    session: Engine, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, view = wb.put(1, name="kept"), Jobs()
    monkeypatch.setattr(feed, "_changes", SlowChanges(feed._changes, 1))
    page = Page(feed)
    feed.shown(page, True)
    view._perform({"do": "pin", "id": key_of(kept.id)})
    page.until(lambda: any(pin["reason"] == "user" for pin in page.rows(name="kept")[0]["pins"]))
    feed.shown(page, False)


def test_when_nobody_has_looked_for_long_the_session_notes_nothing(
    session: Engine, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, page = wb.put([1], name="kept"), Page(feed)
    feed.shown(page, True)
    page.until(lambda: page.rows(name="kept"))
    subscription = feed._changes
    monkeypatch.setattr(feeds, "FORGOTTEN", 0.01)
    feed.shown(page, False)
    assert eventually(lambda: feed._is_asleep)
    assert subscription.is_over
    wb.free(kept)
    wb.put([2], name="later")
    feed.catch_up()
    names = {row["name"] for row in feed.world()["objects"].values()}
    assert "later" in names
    monkeypatch.undo()
    feed.shown(page, True, seq=0)
    page.until(lambda: page.rows(name="later"))


def test_two_processes_see_the_same(runtime: str, script: Callable[..., Script]) -> None:
    engine = wb.init(session="both", workers=1, memory="64MB")
    feed = context.companion(Feed)
    page = Page(feed)
    feed.shown(page, True)
    other = script(
        f"""
        import numpy as np
        wb.init(session='both')
        ref = wb.put(np.ones({LARGE}), name='theirs')
        say('put')
        hear()
        """
    )
    assert other.line() == "put"
    page.until(lambda: page.rows(name="theirs"))
    (row,) = page.rows(name="theirs")
    assert row["owner"] != "this process"
    assert "other process" in row["breaks"]
    other.signal(9)
    page.until(lambda: page.rows(name="theirs")[0]["owner"] == "a process that left")
    feed.close()
    assert engine.ended is None


def test_the_end_of_the_session_is_told(session: Engine, page: Page) -> None:
    wb.shutdown()
    page.until(lambda: page.world["ended"])
    assert "shut down" in page.world["ended"]


def test_who_looks_again_after_the_end_is_told_too(session: Engine, feed: Feed) -> None:
    page = Page(feed)
    feed.shown(page, True)
    page.until(lambda: page.told)
    feed.shown(page, False)
    assert eventually(lambda: not any(t.name == "workbench-views" for t in threading.enumerate()))
    page.world = feed.world()
    wb.shutdown()
    feed.shown(page, True, seq=page.world["seq"])
    assert "shut down" in page.world["ended"]
    assert "shut down" in feed.world()["ended"]


# -- what its buttons do ---------------------------------------------------------------------------


def test_free(session: Engine, page: Page) -> None:
    ref = wb.put([1])
    assert do(session, "free", ref)["ok"]
    with pytest.raises(wb.errors.ObjectFreedError):
        wb.get(ref)
    page.until(lambda: page.row(ref).get("movable") == "freed")


def test_pin_and_unpin(session: Engine, page: Page) -> None:
    ref = wb.put([1])
    assert do(session, "pin", ref)["ok"]
    page.until(lambda: "user" in [pin["reason"] for pin in page.row(ref).get("pins", ())])
    assert page.row(ref)["pins"][0]["text"] == "pinned at a live view's button"
    assert do(session, "unpin", ref)["ok"]
    page.until(lambda: "user" not in [pin["reason"] for pin in page.row(ref)["pins"]])


def test_spill_says_where_it_is_or_why_not(session: Engine) -> None:
    answer = do(session, "spill", wb.put(np.ones(LARGE)))
    assert not answer["ok"]
    assert "started without a `spill_dir`" in answer["text"]


def test_spill(runtime: str) -> None:
    wb.init(workers=1, memory="64MB", spill_dir=runtime)
    engine = wb.api.engine()
    ref = wb.put(np.ones(LARGE))
    feed = context.companion(Feed)
    page = Page(feed)
    feed.shown(page, True)
    answer = do(engine, "spill", ref)
    assert answer["ok"], answer["text"]
    page.until(lambda: page.row(ref)["where"] == "disk")
    assert page.row(ref)["owner"] == "this process"  # who made it: in the file nobody writes
    assert dict(page.world["bars"][0]["beside"])["spilled"] == page.row(ref)["len"]
    assert page.world["timeline"][-1][5] == 1
    wb.pin(ref)  # which brings it back
    page.until(lambda: page.row(ref)["where"] == "memory")
    assert page.row(ref)["owner"] == "this process"
    assert "the server" in owners_of(wb.snapshot()).values()
    feed.close()


def test_why(session: Engine) -> None:
    ref = wb.put([1], name="<b>")
    answer = do(session, "why", key_of(ref.id))
    assert "named `<b>`" in answer["text"]
    assert f"%free {'<b>'}" in answer["text"]
    assert "&lt;b&gt;" in answer["html"]
    assert "<b>" not in answer["html"].replace("<b></b>", "")


def test_cost(session: Engine) -> None:
    ref = wb.put({"large": np.ones(LARGE), "words": ["a", "b"] * 5000})
    answer = do(session, "cost", ref, name="both")
    assert answer["tree"]["name"] == "both"
    assert {child["name"] for child in answer["tree"]["children"]} == {"['large']", "['words']"}
    assert answer["tree"]["bytes"] > LARGE * 8


@pytest.mark.parametrize("action", ["why", "cost", "free"])
def test_of_what_is_gone_the_answer_says_so(session: Engine, action: str) -> None:
    answer = do(session, action, "abc123")
    assert answer["ok"] == (action == "free")
    assert answer["text"]


def test_what_is_no_request_is_answered_too(session: Engine) -> None:
    for request in ({"do": "free"}, {"do": "nothing", "id": "1"}, {"do": "free", "id": "x"}):
        assert not perform(session, request)["ok"]


@pytest.mark.parametrize("id", ["-1", "0", "8000000000000000", "f" * 40])
def test_an_id_that_cannot_be_one_is_not_sent(session: Engine, id: str) -> None:
    assert not do(session, "free", id)["ok"]
    assert wb.get(wb.put(1)) == 1  # the line still carries what follows


def test_after_the_end_buttons_say_that(session: Engine) -> None:
    ref = wb.put([1])
    wb.shutdown()
    answer = do(session, "pin", ref)
    assert not answer["ok"]
    assert "shut down" in answer["text"]


def test_repeats_are_counted_as_long_as_the_array_lives(session: Engine, page: Page) -> None:
    array = np.ones(LARGE)
    refs = [wb.put(array), wb.put({"inside": [array]}), wb.put(array[1:])]
    page.until(lambda: page.row(refs[-1]))
    assert [page.row(ref)["repeats"] for ref in refs] == [0, 2, 0]  # times in all
    array[:] = 2.0
    anew = wb.put(array)
    page.until(lambda: page.row(anew))
    assert page.row(anew)["repeats"] == 0
    again = wb.put(np.ones(LARGE))  # another one, perhaps where another was
    page.until(lambda: page.row(again))
    assert page.row(again)["repeats"] == 0
