"""How a ref, an actor's handle and a session show themselves, by one short query and no pins.

Nothing here raises: what can't be found out is said, or left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from workbench.core.descriptions import ObjectDescription
from workbench.core.snapshot import Snapshot
from workbench.engine.base import Engine
from workbench.engine.queries import Describe, Peek, Summary
from workbench.errors import (
    ObjectFreedError,
    TaskCancelledError,
    TaskError,
    WorkbenchError,
    failure_of,
)
from workbench.expressions import describe
from workbench.format import UNKNOWN, human_bytes
from workbench.ref import ObjectRef
from workbench.report import facts, markup, text
from workbench.report.freshness import ago
from workbench.report.previews import Preview, preview
from workbench.report.processes import Processes

Facts = list[tuple[str, str]]

_MOODS = {"ready": "good", "running": "busy", "alive": "good", "failed": "bad", "dead": "bad"}

_RESTARTS = {-1: "as often as it dies", 0: "", None: UNKNOWN}

_NO_PREVIEW = Preview()


@dataclass(repr=False)
class Card(markup.Rich):
    """Facts about one thing; ``full``: share of a session's store in use."""

    name: tuple[str, str]
    state: str
    lines: Facts
    shown: Preview = _NO_PREVIEW
    mood: str = ""
    full: float | None = None

    def __post_init__(self) -> None:
        self.lines = [(label, text) for label, text in self.lines if text]

    def _text(self) -> str:
        width = max((len(label) for label, _ in self.lines), default=0)
        below = "\n" + " " * (width + len("    "))  # of texts with several lines
        lines = [
            f"{label:<{width}}  {markup.unmarked(text).replace(chr(10), below)}"
            for label, text in self.lines
        ]
        shown = self.shown.table.text() if self.shown.table else self.shown.text
        preview = (shown or self.shown.obstacle).splitlines()
        return "\n  ".join([f"{' '.join(self.name)}: {self.state}", *lines, *preview])

    def _repr_html_(self) -> str:
        mood = self.mood or _MOODS.get(self.state, "idle")
        title = markup.title(*self.name, self.state, mood)
        lines = self.lines
        if self.full is not None:
            strip = markup.bar(self.full)
            full = {"store": lambda text: markup.Html(f"{strip} {markup.as_html(text)}")}
            lines = [(label, full.get(label, str)(text)) for label, text in lines]
        shown = self.shown
        if shown.table is not None:
            return markup.card(title, lines, shown.table.html())
        below = markup.pre(shown.text) if shown.text else markup.muted(shown.obstacle)
        return markup.card(title, lines, below)


# -- objects ---------------------------------------------------------------------------------------


def of_ref(engine: Engine, ref: ObjectRef) -> Card:
    name = ("ObjectRef", ref.hex())
    found = engine.ask(Describe(ref.id))
    if engine.end_reason is not None:
        return Card(name, "session over", [("why", engine.end_reason)])
    if engine.state(ref) == "failed":
        return _failed(name, engine, ref)
    if found is None:
        why = "the session has no such object, or doesn't answer just now"
        return Card(name, "unknown", [("why", why)])
    if found.object.state == "pending":
        return _pending(name, found)
    kind, shown = _preview(engine, ref)
    if engine.state(ref) == "failed":  # the query has told this process
        return _failed(name, engine, ref)
    return Card(name, "ready", _object(found, kind), shown)


def _object(found: ObjectDescription, kind: str) -> Facts:
    record = found.object
    type = facts.type_of(record) if record.about else kind
    return [
        ("name", ", ".join(f"`{facts.name_of(name)}`" for name in record.names)),
        ("type", f"`{type}`" if type else ""),
        ("size", f"{human_bytes(facts.size_of(record))}, {facts.where_text(record)}"),
        ("why it is here", facts.why_text(record, Processes(found))),
        ("put at", facts.site_of(record)),
    ]


def _pending(name: tuple[str, str], found: ObjectDescription) -> Card:
    record, task, processes = found.object, found.task, Processes(found)
    lines = [
        ("submitted", ago(record.age or 0.0)),
        ("why it is here", facts.why_text(record, processes)),
    ]
    if task is None:
        return Card(name, "pending", lines)
    return Card(name, task.state, [("task", facts.task_text(task, processes)), *lines])


def _failed(name: tuple[str, str], engine: Engine, ref: ObjectRef) -> Card:
    try:
        engine.get([ref], 0, False)
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        if isinstance(error, ObjectFreedError):
            return Card(name, "freed", [("why", said)])
        if isinstance(error, TaskCancelledError):
            return Card(name, "stopped", [("why", said)])
        text = f"{type(error).__name__}: {said}"
        if isinstance(error, TaskError):
            text = failure_of(error).text.split("\n")[0]
        return Card(name, "failed", [("error", text)])
    return Card(name, "failed", [])


def _preview(engine: Engine, ref: ObjectRef) -> tuple[str, Preview]:
    kind = ""
    try:
        value = engine.ask(Peek(ref))
        kind = describe(value)
        return kind, preview(value)
    except LookupError as reason:
        return kind, Preview(obstacle=f"no preview: {reason}")
    except Exception as error:
        return kind, Preview(obstacle=f"no preview: to build it raises {type(error).__name__}")


# -- actors ----------------------------------------------------------------------------------------


def of_actor(engine: Engine, ref: ObjectRef, cls: str, methods: Iterable[str]) -> Card:
    name = ("ActorHandle", cls)
    can = ("methods", ", ".join(f"`{method}`" for method in methods if method[:1] != "_"))
    found = engine.ask(Describe(ref.id))
    if engine.end_reason is not None:
        return Card(name, "session over", [("why", engine.end_reason), can])
    if found is None:
        return Card(name, "unknown", [can])
    if found.actor is None:
        return Card(name, "dead", [can])
    actor = found.actor
    restarts = _RESTARTS.get(actor.restarts, str(actor.restarts))
    moods = {"alive": "busy" if actor.calls else "good", "being made": "busy"}
    return Card(
        name,
        actor.state or UNKNOWN,
        [
            ("name", ", ".join(f"`{facts.plain_name(each)}`" for each in actor.names)),
            ("calls", f"{actor.calls} not done" if actor.calls else "none waiting"),
            ("restarts left", restarts),
            can,
            ("id", ref.hex()),
        ],
        mood=moods.get(actor.state, ""),
    )


# -- sessions --------------------------------------------------------------------------------------


def of_session(engine: Engine) -> Card:
    name = ("Session", facts.short_name(engine.session))
    try:
        return of_snapshot(engine.ask(Summary(soon=True)))
    except (WorkbenchError, TimeoutError):
        if engine.end_reason is not None:
            return Card(name, "over", [("why", engine.end_reason)])
        return Card(name, "busy", [("why", "it doesn't answer just now")], mood="busy")


def of_snapshot(snapshot: Snapshot, more: Facts | None = None) -> Card:
    actors = {actor.id for actor in snapshot.actors}
    named = tuple(r for r in snapshot.objects if r.names and r.id not in actors)
    return Card(
        ("Session", facts.session_name(snapshot)),
        "running",
        [*facts.session_facts(snapshot), *(more or []), *_listed(named, snapshot.count)],
        Preview(table=text.ObjectTable(named).table() if named else None),
        "good",
        (snapshot.live or 0) / (snapshot.capacity or 1),
    )


def _listed(named: Collection[object], every: int) -> Facts:
    """Explain why the list below is shorter than the number of objects, if it is."""
    if not 0 < len(named) < every:
        return []
    those = "the one that has" if len(named) == 1 else "those that have"
    return [("listed", f"{len(named)} of {every} objects, {those} a name; `%objects` lists all")]
