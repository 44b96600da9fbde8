"""Every fact through every renderer: where two of them tell it, they tell the same.

A renderer here is a function that says which facts it tells of each object, in its own output's
words. What is wanted stands in `report.facts`.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from IPython.core.formatters import HTMLFormatter

from tests.unit.report.test_facts import everything, with_actor
from tests.unit.widgets.snapshots import MB, an_object, elsewhere
from workbench.cli.sessions import SESSIONS, Seen
from workbench.core.descriptions import Account, ObjectDescription, PinRecord
from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.engine.base import Abilities
from workbench.engine.queries import Answering, Describe, Peek, Summary
from workbench.format import NO_FIGURE, UNKNOWN, human_age, human_count, joined
from workbench.report import cards, facts, json, page, reasons, text, why
from workbench.report.facts import Held
from workbench.report.processes import Processes, open_in, owners_of

Told = dict[int, dict[str, str]]
"""By object, each fact in words."""

HELD = {3: (("blocks[3]", "ref"),), 10: (("later", "ref"),)}


def local() -> Snapshot:
    """Objects of all kinds, one with every reason, one of an actor, one with no name at all."""
    now = with_actor(linger=120.0, trouble="No space left on device")
    more = (
        msgspec.structs.replace(everything(), id=21),
        an_object(22, MB, "actor Counter", names=("actor:hits",)),
        an_object(23, 12, where="inline", segment=0, about=None, age=90_000.0),
    )
    return msgspec.structs.replace(now, objects=(*now.objects, *more), count=len(now.objects) + 3)


def wanted(record: ObjectRecord, now: Snapshot, held: Held) -> dict[str, str]:
    """The facts themselves."""
    places = held.get(record.id, ())
    return {
        "title": facts.title_of(record, held),
        "type": facts.type_of(record),
        "size": facts.figure(facts.size_of(record)),
        "where": facts.where_text(record),
        "moves": facts.moves_text(record),
        "age": facts.age_text(record),
        "chips": ", ".join(reasons.chips(record)),
        "why": facts.why_text(record, Processes(now), places),
        "site": facts.site_of(record),
    }


def a_list(now: Snapshot, held: Held) -> Told:
    """%objects in a notebook; in a terminal it has the same cells."""
    listed = text.objects(now.objects, "*", held=held)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", HTMLFormatter()(listed))[1:]
    cells = [
        [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<td.*?</td>", row)]
        for row in rows
    ]
    lines = str(listed).splitlines()[1:]
    for line, row in zip(lines, cells, strict=True):
        assert line.split() == " ".join(row).split()
    names = ("title", "type", "size", "where", "chips", "age")
    for record, row in zip(listed, cells, strict=True):
        id = facts.id_of(record.id)
        row[0] = id if row[0] == id[-8:] else row[0].removeprefix(f"{id[-8:]} ")  # to ask for it by
    return {
        record.id: dict(zip(names, row, strict=True))
        for record, row in zip(listed, cells, strict=True)
    }


def a_document(now: Snapshot, held: Held) -> Told:
    """`workbench objects --json`, whose numbers and codes are put into words by the same tables.

    It is printed in another process, which has no variables of this one.
    """
    told = {}
    for record in now.objects:
        found = json.of_object(record)
        told[record.id] = {
            "type": found["type"],
            "size": facts.figure(found["bytes"]),
            "age": facts.age_text(record.at(found["age"])),
            "chips": ", ".join(reasons.chip(code, n) for code, n in found["pins"].items() if n),
        }
        if record.id not in held:
            told[record.id]["title"] = found["title"]
        if found["state"] != "freed":
            told[record.id]["where"] = facts.WHERE[found["where"]]
    return told


class Source(Answering):
    """As much of an engine as a card asks."""

    session, end_reason = "first-steps~1a2b", None

    def __init__(self, now: Snapshot) -> None:
        self._now = now
        self.answers = {
            Describe: self._describe, Summary: lambda soon: now, Peek: self._peek,
        }  # fmt: skip

    def _describe(self, id: int, patient: bool) -> ObjectDescription:
        record = next(r for r in self._now.objects if r.id == id)
        now = self._now
        return ObjectDescription(record, now.clients, None, None, now.workers, now.actors)

    def state(self, ref: Any) -> str:
        return "ready"

    def get(self, refs: Any, timeout: float | None, is_copy: bool) -> list[Any]:
        raise AssertionError("nothing failed")

    def _peek(self, ref: Any) -> Any:
        raise LookupError("it isn't here")


class Ref:
    def __init__(self, id: int) -> None:
        self.id = id

    def hex(self) -> str:
        return facts.id_of(self.id)


def a_card(now: Snapshot, held: Held) -> Told:
    """A ref at the end of a cell. It doesn't know the variables: it is one."""
    told = {}
    for record in now.objects:
        if record.id in held:
            continue
        lines = dict(cards.of_ref(cast(Any, Source(now)), cast(Any, Ref(record.id))).lines)
        told[record.id] = {"why": lines["why it is here"]}
        if "size" in lines and record.state != "freed":
            size, told[record.id]["where"] = lines["size"].split(", ", 1)
            # Outside of a column, what isn't known is said.
            told[record.id]["size"] = NO_FIGURE if size == UNKNOWN else size
        if "type" in lines:
            told[record.id]["type"] = lines["type"].strip("`")
        if "name" in lines:
            told[record.id]["title"] = lines["name"].replace("`", "")
        if "put at" in lines:
            told[record.id]["site"] = lines["put at"]
    return told


def an_error(now: Snapshot, held: Held) -> Told:
    """A StoreFullError."""
    lines = facts.full_text(MB, now, "", held).splitlines()[1:-2]
    told = {}
    for record, line in zip(now.objects, lines, strict=True):
        wants = wanted(record, now, held)
        size, _, rest = line.strip().partition("  ")
        title = wants["title"]
        assert rest.startswith(f"{title} ("), rest
        kind, _, why = rest.removeprefix(f"{title} (").partition("): ")
        assert why.startswith("freed, still shown; ") == (record.state == "freed")
        why = why.removeprefix("freed, still shown; ")
        told[record.id] = {"size": size, "title": title, "type": kind, "why": why}
    return told


def a_page(now: Snapshot, held: Held) -> Told:
    """A row as a page is told it, put into words as the page does."""
    processes, owners, words = Processes(now), owners_of(now), page.words_of(now, Abilities())
    told = {}
    for record in now.objects:
        born = None if record.age is None else now.taken - record.age
        row = page.row_of(record, processes, owners, born, held.get(record.id, ()))
        chips = Counter[str]()
        for pin in row.pins or ():
            chips[pin.reason] += pin.n
        moves = {"no": f"no: {row.stays}", "freed": words.movable["freed"], None: NO_FIGURE}
        told[record.id] = {
            "title": row.title,
            "type": " ".join(filter(None, (row.kind or UNKNOWN, row.detail))),
            "size": facts.figure(row.size),
            "moves": moves.get(row.movable, row.movable or ""),
            "age": NO_FIGURE if row.born is None else human_age(round(now.taken - row.born, 1)),
            "chips": ", ".join(_chip(words.reasons[code], n) for code, n in chips.items()),
            "site": row.site,
        }
        if record.state != "freed":
            told[record.id]["where"] = words.where[row.where or ""]
        if row.pins and not any(len(held) > 1 for held in (record.holders, record.viewers or ())):
            told[record.id]["why"] = _together(row.pins)
    return told


def _chip(words: tuple[str, str], n: int) -> str:
    one, several = words
    return one if n == 1 or one == several else f"{human_count(n)} {several}"


def _together(pins: list[page.PagePin]) -> str:
    """In one line: those of a kind stand beside each other anyway."""
    return ", ".join(pin.text for pin in pins)


RENDERERS: dict[str, Callable[[Snapshot, Held], Told]] = {
    "%objects": a_list,
    "--json": a_document,
    "card": a_card,
    "StoreFullError": an_error,
    "page": a_page,
}


@pytest.mark.parametrize("name", RENDERERS)
@pytest.mark.parametrize("moment", ["local", "elsewhere"])
def test_every_renderer_tells_the_facts_as_they_are(name: str, moment: str) -> None:
    now, held = (local(), HELD) if moment == "local" else (elsewhere(), {})
    told = RENDERERS[name](now, held)
    assert told
    for record in now.objects:
        if record.id in told:
            wants = wanted(record, now, held)
            if name == "page":  # where what stands between backticks is code
                wants["why"] = wants["why"].replace("`", "")
            assert told[record.id] == {fact: wants[fact] for fact in told[record.id]}, record


def test_the_account_of_an_object_has_the_same_phrases_as_its_record() -> None:
    now = local()
    record = next(r for r in now.objects if r.id == 21)
    pins = (
        PinRecord("name", detail="x"), PinRecord("user", detail="cell 5"),
        PinRecord("job", detail="cell 4"),
        *(PinRecord("ref", client, places=()) for client in record.holders),
        PinRecord("escaped", detail="cell 6"), PinRecord("view", record.viewers[0]),  # type: ignore[index]
    )  # fmt: skip
    account = Account(record, pins, now.clients, now.workers, now.actors)
    said = [line.text.partition(", where nothing")[0] for line in why.why(account, "x").reasons]
    record = msgspec.structs.replace(record, tasks=0, parents=0)
    assert said == [pin.text for pin in facts.pins_of(record, Processes(now))]


def test_a_card_says_why_it_lists_fewer_objects_than_there_are() -> None:
    now = local()
    named = sum(1 for record in now.objects if record.names)
    said = f"{named} of 49 objects, those that have a name; `%objects` lists all"
    for count, listed in ((49, said), (named, None), (0, None)):
        card = dict(cards.of_snapshot(msgspec.structs.replace(now, count=count)).lines)
        assert card.get("listed") == listed


def test_the_status_a_card_and_ps_tell_one_session() -> None:
    now = local()
    card = dict(cards.of_snapshot(now).lines)
    row = dict(zip(SESSIONS, Seen("first-steps", (1,), 0, 0.0, now).row(), strict=True))
    assert card["store"] == row["store"]
    assert f"({row['workers']})" in card["workers"]
    assert card["actors"] == row["actors"] == "Counter 'hits'"
    assert [name.partition(" (")[0] for name in row["open in"].split(", ")] == open_in(now)
    assert card["open in"].startswith(joined(open_in(now)))
    assert card["last spill error"] == "No space left on device"
    document = json.of_session(now)
    assert [driver["label"] for driver in document["drivers"]] == open_in(now)
    assert document["workers"] == facts.worker_states(now)
    assert [actor["name"] for actor in document["actors"]] == [row["actors"]]
