"""What live views are fed by a real session, and what their buttons do there. No page."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import __main__
import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.pages import Page, Row
from workbench import context
from workbench.engine.base import Engine
from workbench.report import view_texts
from workbench.report.page import key_of
from workbench.widgets.actions import perform
from workbench.widgets.feed import Feed, Timing
from workbench.widgets.views import Jobs

LARGE = 1 << 17  # float64s, so that they lie in a segment


class Busy:
    """An engine whose changes come once they were hurried ``hurries`` times, as those of a busy
    cluster do after a while."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.hurries = 0
        self.subscriptions: list[Any] = []

    def changes(self) -> Any:
        self.subscriptions.append(BusyChanges(self, self.engine.changes()))
        return self.subscriptions[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class BusyChanges:
    def __init__(self, of: Busy, changes: Any) -> None:
        self.of = of
        self.changes = changes
        self.heard = threading.Semaphore(0)

    def next(self, timeout: float | None = None) -> Any:
        for _ in range(self.of.hurries):
            assert self.heard.acquire(timeout=TIMEOUT)
        self.of.hurries = 0
        return self.changes.next(timeout)

    def hurry(self) -> None:
        self.heard.release()
        self.changes.hurry()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.changes, name)


@pytest.fixture
def busy(session: Engine) -> Busy:
    return Busy(session)


@pytest.fixture
def feed(busy: Any) -> Iterator[Feed]:
    feed = Feed(busy, Timing(looked=TIMEOUT))
    yield feed
    feed.close()


@contextmanager
def shown(feed: Feed) -> Iterator[Page]:
    page = Page(feed)
    feed.set_shown(page, True)
    yield page
    feed.set_shown(page, False)


def nobody_is_fed() -> bool:
    return eventually(lambda: not any(t.name == "workbench-views" for t in threading.enumerate()))


def names(feed: Feed) -> set[str]:
    return {row["name"] for row in feed.world()["objects"].values()}


@pytest.mark.fresh_session
def test_the_world_has_what_is_there_already(session: Engine) -> None:
    ref = wb.put(np.ones(LARGE), name="data")
    feed = context.companion(Feed)
    world = feed.world()
    (row,) = world["objects"].values()
    assert row["id"] == key_of(ref.id)
    facts = ("title", "kind", "detail", "where", "owner", "movable", "buffers")
    assert [row[fact] for fact in facts] == [
        "data", "ndarray", f"float64 ({LARGE},)", "memory", "this process", "yes", 1
    ]  # fmt: skip
    (segment,) = world["segments"]
    assert segment["id"] == row["seg"]
    assert segment["live"] == row["len"] == row["size"] >= LARGE * 8
    store, machine, own = (dict(bar["parts"]) for bar in world["bars"])
    assert store["live"] + store["reusable"] + store["available"] == session.snapshot().capacity
    assert machine["kernels"] > 10 << 20
    assert machine["free"] > 0
    assert own["objects"] > 10 << 20
    feed.close()


def test_what_comes_changes_and_goes_is_told(session: Engine, page: Page) -> None:
    page.until(lambda: page.world["speed"])
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
    puts, frees = page.world["timeline"][-1][3:5]
    assert puts == frees > 0
    assert all(len(message) > 3 for message in page.told), "where nothing changed, nothing is told"


def test_variables_with_refs_and_arrays_differ(session: Engine, page: Page, feed: Feed) -> None:
    ref = wb.put(np.ones(LARGE))
    __main__.mine, __main__.shown = ref, wb.get(ref)  # type: ignore[attr-defined]
    feed.nudge()
    page.until(lambda: page.row(ref).get("held", "").startswith("mine, shown"))
    page.until(lambda: {pin["reason"] for pin in page.row(ref)["pins"]} == {"ref", "view"})
    texts = {pin["reason"]: pin["text"] for pin in page.row(ref)["pins"]}
    assert texts["ref"].startswith("ref in this process: mine, ref in test_variables")
    assert texts["view"] == "arrays in this process: shown"
    assert page.row(ref)["breaks"].startswith("It is still used by mine")
    del __main__.mine, __main__.shown
    feed.nudge()
    page.until(lambda: "mine" not in page.row(ref)["held"])


def test_nobody_is_told_who_does_not_look(session: Engine, feed: Feed) -> None:
    with shown(feed) as page:
        pass
    ref = wb.put([1])
    assert nobody_is_fed()
    feed.set_shown(page, False)  # nobody to be roused
    told = len(page.told)
    feed.set_shown(page, True, seq=page.world["seq"])  # what came meanwhile comes now
    page.until(lambda: page.row(ref))
    assert len(page.told) > told
    feed.set_shown(page, False)


def test_who_looks_again_after_long_need_not_wait(session: Engine, feed: Feed) -> None:
    # As if nobody had said so for long.
    feed.timing = replace(feed.timing, unseen=-1.0, slow=4 * TIMEOUT)
    gone, page = Page(feed), Page(feed)
    feed.set_shown(gone, True)
    gone.until(lambda: gone.world["speed"])
    ref, seq = wb.put([1]), page.world["seq"]

    def is_told() -> bool:
        feed.set_shown(page, True, seq=seq)
        return bool(page.row(ref))

    assert eventually(is_told)


def test_a_view_has_what_the_line_before_it_did(session: Engine, feed: Feed) -> None:
    """While nobody looks, and while a page does."""

    def has_it(number: int) -> None:
        for name in (f"gone {number}", f"kept {number}"):
            wb.put(number, name=name)
            feed.catch_up()
            assert names(feed).intersection([f"gone {number}", f"kept {number}"]) == {name}
            wb.free(name)

    for number in range(10):
        has_it(number)
    with shown(feed):
        for number in range(10, 20):
            has_it(number)


@pytest.fixture
def view(feed: Feed) -> Iterator[Jobs]:
    """One of that feed's, beside a page."""
    view = Jobs()
    context.companion(Feed).close()
    view.feed = feed
    with shown(feed):
        yield view


@pytest.mark.fresh_session
def test_a_view_waits_for_a_session_that_is_slow_to_answer_or_says_that_it_is_older(
    session: Engine, busy: Busy, feed: Feed, view: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    feed.timing = replace(feed.timing, first=0.0, pace=0.01)
    busy.hurries = 6
    kept = wb.put(1, name="kept")
    feed.catch_up()
    assert "kept" in {each for record in feed.snapshot().objects for each in record.names}
    assert not feed.is_late
    feed.timing = replace(feed.timing, looked=0.0)
    busy.hurries = 1000
    feed.catch_up()
    assert feed.is_late
    view._ipython_display_()
    assert view_texts.LATE in " ".join(capsys.readouterr().out.split())
    feed.timing = replace(feed.timing, looked=TIMEOUT)
    for _ in range(1000):
        busy.subscriptions[-1].hurry()
    feed.catch_up()
    assert not feed.is_late
    wb.free(kept)


@pytest.mark.fresh_session
def test_a_button_is_heard_at_once(session: Engine, busy: Busy, feed: Feed, view: Jobs) -> None:
    kept = wb.put(1, name="kept")
    with shown(feed) as page:
        page.until(lambda: page.rows(name="kept"))
        busy.hurries = 1
        view._perform({"do": "pin", "id": key_of(kept.id)})
        page.until(lambda: "user" in [pin["reason"] for pin in page.rows(name="kept")[0]["pins"]])
    wb.free(kept)


def test_long_unwatched_a_session_notes_nothing(session: Engine, busy: Busy, feed: Feed) -> None:
    kept = wb.put([1], name="kept")
    with shown(feed) as page:
        page.until(lambda: page.rows(name="kept"))
        feed.timing = replace(feed.timing, forgotten=0.01)
    assert eventually(lambda: busy.subscriptions[-1].is_over)
    feed.timing = Timing()
    wb.free(kept)
    later = wb.put([2], name="later")
    feed.catch_up()
    assert "later" in names(feed)
    feed.set_shown(page, True, seq=0)
    page.until(lambda: page.rows(name="later"))
    wb.free(later)


def test_an_object_that_moves_to_disk_is_told(runtime: str) -> None:
    engine = wb.init(workers=1, memory="64MB", spill_dir=runtime)
    feed = context.companion(Feed)
    with shown(feed) as page:
        ref = wb.put(np.ones(LARGE))
        assert do(engine, "spill", ref)["ok"]
        page.until(lambda: page.row(ref)["where"] == "disk")
        assert page.row(ref)["owner"] == "this process"  # who made it: in the file nobody writes
        assert dict(page.world["bars"][0]["beside"])["spilled"] == page.row(ref)["len"]
        assert page.world["timeline"][-1][5] == 1
    feed.close()


def test_the_end_of_the_session_is_told(session: Engine, feed: Feed, page: Page) -> None:
    away, ref = Page(feed), wb.put([1])
    wb.shutdown()
    page.until(lambda: page.world["ended"])
    assert "shut down" in page.world["ended"]
    feed.set_shown(away, True, seq=away.world["seq"])
    assert "shut down" in away.world["ended"]
    assert "shut down" in feed.world()["ended"]
    answer = do(session, "pin", ref)
    assert not answer["ok"]
    assert "shut down" in answer["text"]


def do(session: Engine, action: str, ref: wb.ObjectRef | str, **more: object) -> Row:
    id = ref if isinstance(ref, str) else key_of(ref.id)
    return perform(session, {"do": action, "id": id, **more})


def test_pin_and_free(session: Engine, page: Page) -> None:
    ref = wb.put([1])
    assert do(session, "pin", ref)["ok"]
    page.until(lambda: "user" in [pin["reason"] for pin in page.row(ref).get("pins", ())])
    assert page.row(ref)["pins"][0]["text"] == "pinned at a live view's button"
    assert do(session, "unpin", ref)["ok"]
    page.until(lambda: "user" not in [pin["reason"] for pin in page.row(ref)["pins"]])
    assert do(session, "free", ref)["ok"]
    with pytest.raises(wb.errors.ObjectFreedError):
        wb.get(ref)
    page.until(lambda: page.row(ref).get("movable") == "freed")


def test_questions_are_answered_and_what_cannot_be_done_says_why(session: Engine) -> None:
    ref = wb.put({"large": np.ones(LARGE), "words": ["a", "b"] * 5000}, name="<b>")
    answer = do(session, "why", ref)
    assert "named `<b>`" in answer["text"]
    assert "%free <b>" in answer["text"]
    assert "&lt;b&gt;" in answer["html"]
    assert "<b>" not in answer["html"].replace("<b></b>", "")
    tree = do(session, "cost", ref, name="both")["tree"]
    assert tree["name"] == "both"
    assert {child["name"] for child in tree["children"]} == {"['large']", "['words']"}
    assert tree["bytes"] > LARGE * 8
    answer = do(session, "spill", ref)
    assert not answer["ok"]
    assert "started without a `spill_dir`" in answer["text"]
    session.name(None, "<b>")


def test_what_is_gone_or_no_request_is_answered_too(session: Engine) -> None:
    for action in ("why", "cost", "free"):
        answer = do(session, action, "abc123")
        assert answer["ok"] == (action == "free")
        assert answer["text"]
    for request in ({"do": "free"}, {"do": "nothing", "id": "1"}, {"do": "free", "id": "x"}):
        assert not perform(session, request)["ok"]
    for id in ("-1", "0", "8000000000000000", "f" * 40):  # which can't be one, and isn't sent
        assert not do(session, "free", id)["ok"]
    assert wb.get(wb.put(1)) == 1  # the line still carries what follows
