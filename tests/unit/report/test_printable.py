"""What people read: no names can make a terminal do anything, and no jargon is in the texts."""

from __future__ import annotations

import ast
import io
import json as json_module
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from IPython.core.formatters import HTMLFormatter

from tests.unit.report.test_facts import everything, with_actor
from tests.unit.report.test_renderers import HELD, Ref, Source
from workbench import errors
from workbench.cli import show
from workbench.cli.sessions import SESSIONS, Seen
from workbench.core.descriptions import Account, PinRecord
from workbench.core.events import About
from workbench.core.snapshot import Snapshot
from workbench.error_notes import add
from workbench.format import CONTROLS, LONG_WORD, printable, shortened
from workbench.report import cards, facts, job_status, json, text, why
from workbench.report.html import PARTS, Still
from workbench.report.markup import Table
from workbench.report.previews import Preview, preview

ORDERS = "\x1b]0;mine\x07\x1b[2J\r\x9b31m\x7f\u202e\udcff"
"""To a terminal: another title, an empty screen, the line's beginning, red, text turned around."""

html = HTMLFormatter()

CODES = {"state", "where", "role", "engine", "reason", "keeper"}


def spoiled(part: Any) -> Any:
    """A record of a snapshot, and what is in it, with `ORDERS` in every text of anybody's."""
    if isinstance(part, str):
        return f"{part}{ORDERS}"
    if isinstance(part, tuple):
        return tuple(map(spoiled, part))
    if not isinstance(part, msgspec.Struct):
        return part
    fields = msgspec.structs.asdict(part).items()
    return msgspec.structs.replace(
        part, **{name: value if name in CODES else spoiled(value) for name, value in fields}
    )


def moment() -> Snapshot:
    now = with_actor(linger=120.0, trouble="No space left on device")
    return cast(
        Snapshot, spoiled(msgspec.structs.replace(now, objects=(*now.objects, everything())))
    )


def card(now: Snapshot) -> str:
    source = cast(Any, Source(now))
    told = [cards.of_ref(source, cast(Any, Ref(record.id))) for record in now.objects]
    of_actor = cards.of_actor(source, cast(Any, Ref(now.objects[0].id)), ORDERS, [ORDERS])
    return "\n".join(f"{each}\n{html(each)}" for each in (*told, of_actor))


def account(now: Snapshot) -> str:
    pins = [PinRecord(reason, detail=ORDERS) for reason in ("name", "user", "job", "task")]
    told = why.why(Account(now.objects[0], tuple(pins), now.clients, now.workers), ORDERS)
    return f"{told!r}{html(told)}{why.Whys(((ORDERS, told),))}"


def document(now: Snapshot) -> str:
    told = json.as_text(json.of_session(now))
    assert json_module.loads(told)["drivers"][0]["label"].endswith(ORDERS)
    return told


def command(now: Snapshot) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        show.table(Table(SESSIONS, (Seen(ORDERS, (1,), 0, 0.0, now).row(),)))
        show.line(ORDERS)
    return out.getvalue()


def job(now: Snapshot) -> str:
    told = [job_status.of_record(record) for record in now.jobs]
    return "".join(f"{each!r}{html(each)}" for each in told)


def listing(now: Snapshot) -> str:
    listed = [text.objects(now.objects, held=HELD), text.JobTable(now.jobs)]
    return "".join(f"{each!r}{html(each)}" for each in listed)


def error(now: Snapshot) -> str:
    raised = errors.StoreFullError(facts.full_text(1, now, "", HELD))
    add(raised, f"of {ORDERS}")
    return "".join([str(raised), *raised._render_traceback_()])


RENDERERS = {
    "lists": listing,
    "card of a session": lambda now: f"{cards.of_snapshot(now)}{html(cards.of_snapshot(now))}",
    "cards": card,
    "still": lambda now: f"{Still(PARTS, now)}{Still(PARTS, now).html()}",
    "why": account,
    "error": error,
    "--json": document,
    "ps": command,
    "job": job,
    "%put": lambda now: text.put_line(ORDERS, About(ORDERS, 1, 2, 0, 0.0, 0.0)),
}


@pytest.mark.parametrize("name", RENDERERS)
def test_no_renderer_gives_a_terminal_orders(name: str) -> None:
    told = RENDERERS[name](moment())
    assert "x1b" in told or "u001b" in told  # it tells of it
    assert CONTROLS.findall(told) == []


def test_a_name_stays_in_its_line_and_what_can_be_seen_stays() -> None:
    assert len(Table(("name",), (("a\nb\tc",),)).text().splitlines()) == 2
    for seen in ("ümläut 数据 👩\u200d🔬", "a\tb\n", "`code` <b> \\x1b"):
        assert printable(seen) == seen
    assert printable("a\x1b[2J\r\udcff\u202e") == "a\\x1b[2J\\r\\udcff\\u202e"


def test_a_preview_gives_none() -> None:
    shown = [preview(value) for value in (ORDERS, [ORDERS], {ORDERS: 1})]
    card = [cards.Card(("ObjectRef", "1"), "ready", [], each) for each in (*shown, Preview(ORDERS))]
    told = "".join(f"{each}{html(each)}" for each in card)
    assert CONTROLS.findall(told) == []


def test_a_name_of_a_megabyte_is_cut_in_an_error_s_text_each_time() -> None:
    name = "n" * 1_000_000
    error = errors.WorkbenchError(f"`{name}` has gone. Make `{name}` again.\nOr leave it.")
    said = str(error)
    assert said.startswith("`nnn")
    assert "n` has gone. Make `n" in said
    assert said.endswith("n` again.\nOr leave it.")
    assert said.count("… (999 002 characters) …") == 2
    assert len(said) < 3 * LONG_WORD
    assert error.args[0].count(name) == 2
    path = "/d" * (LONG_WORD // 2 - 10)
    assert shortened(f"There is no {path}. " * 5) == f"There is no {path}. " * 5
    many = shortened(f"{'a b ' * 300_000} can't be read.")
    assert len(many) < 20 * LONG_WORD
    assert many.endswith(" can't be read.")


PACKAGE = Path(__file__).parents[3] / "workbench"

ROOMS = ("report", "ipython", "errors", "error_notes", "cli", "widgets", "api", "course")

JARGON = re.compile(
    r"\b(in[- ]band|out[- ]of[- ]band|resident|warm|extents?|arenas?)\b"
    r"|\bby the kernel because|\bask the kernel for"  # Linux, and not the notebook's
)


def sentences(source: str) -> Iterator[str]:
    """Texts of at least four words, without docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (n.value if isinstance(n, ast.Constant) else "…" for n in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in docstrings and len(text.split()) > 3:
            yield text


@pytest.mark.parametrize("room", ROOMS)
def test_what_people_read_has_no_jargon(room: str) -> None:
    texts = [t for path in (PACKAGE / room).rglob("*.py") for t in sentences(path.read_text())]
    assert texts
    assert [text for text in texts if JARGON.search(text)] == []
