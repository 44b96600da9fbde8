"""How a ref, an actor's handle and a session show themselves. One short question, and no pins.

Whatever is the matter, nothing here raises: what can't be found out is said, or left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workbench import markup
from workbench.core.snapshot import ClientRecord, ObjectDescription, Snapshot
from workbench.engines.base import ACTOR_PREFIX, Engine, engine_of
from workbench.errors import ObjectFreedError, TaskCancelledError, TaskError
from workbench.listing import Objects
from workbench.previews import Preview, preview
from workbench.reasons import in_short
from workbench.units import count, human_bytes, human_seconds

if TYPE_CHECKING:
    from workbench.actors import ActorHandle
    from workbench.ref import ObjectRef

Facts = list[tuple[str, str]]

_WHERE = {
    "inline": "in the server's messages",
    "memory": "in shared memory",
    "disk": "on disk",
}

_MOODS = {"ready": "good", "running": "busy", "alive": "good", "failed": "bad", "dead": "bad"}


class Portrait:
    """One thing as text and as HTML."""

    def __init__(
        self,
        name: tuple[str, str],
        state: str,
        facts: Facts,
        shown: Preview | None = None,
        mood: str = "",
    ) -> None:
        self.name = name
        self.state = state
        self.facts = [(label, text) for label, text in facts if text]
        self.shown = shown or Preview()
        self.mood = mood or _MOODS.get(state, "idle")

    def bundle(self) -> dict[str, str]:
        """What Jupyter is given."""
        return {"text/plain": self.text(), "text/html": self.html()}

    def text(self) -> str:
        """For a terminal."""
        width = max((len(label) for label, _ in self.facts), default=0)
        lines = [f"{label:<{width}}  {text.replace('`', '')}" for label, text in self.facts]
        head = f"{' '.join(self.name)}: {self.state}"
        return "\n  ".join([head, *lines, *self._text().splitlines()])

    def _text(self) -> str:
        shown = self.shown
        return shown.table.text() if shown.table else shown.text or shown.obstacle

    def html(self) -> str:
        """For a notebook."""
        title = markup.title(*self.name, self.state, self.mood)
        return markup.card(title, self._html_facts(), self._html())

    def _html_facts(self) -> Facts:
        return self.facts

    def _html(self) -> markup.Html:
        shown = self.shown
        if shown.table is not None:
            return shown.table.html()
        return markup.pre(shown.text) if shown.text else markup.muted(shown.obstacle)


def of_ref(ref: ObjectRef) -> Portrait:
    """An object, as its ref shows it."""
    engine, name = engine_of(ref), ("ObjectRef", ref.hex())
    found = engine.describe(ref)
    if engine.ended is not None:
        return Portrait(name, "session over", [("why", engine.ended)])
    if engine.state(ref) == "failed":
        return _failed(name, engine, ref)
    if found is None:
        why = "the session has no such object, or doesn't answer just now"
        return Portrait(name, "unknown", [("why", why)])
    if found.object.state == "pending":
        return _pending(name, found)
    kind, shown = _preview(engine, ref)
    if engine.state(ref) == "failed":  # which this process did not know before
        return _failed(name, engine, ref)
    return Portrait(name, "ready", _facts(found, kind), shown)


def _facts(found: ObjectDescription, kind: str) -> Facts:
    record, about = found.object, found.object.about
    type = about.type if about else kind
    return [
        ("name", ", ".join(f"`{name}`" for name in record.names)),
        ("type", f"`{type}`" if type else ""),
        ("size", f"{human_bytes(record.size)} {_WHERE.get(record.where, '')}"),
        ("kept by", in_short(record, found.clients)),
        ("put at", about.site if about else ""),
    ]


def _pending(name: tuple[str, str], found: ObjectDescription) -> Portrait:
    record, task = found.object, found.task
    seconds = record.age or 0.0
    age = f"{human_seconds(round(seconds))} ago" if seconds >= 1 else "just now"
    facts = [("submitted", age), ("kept by", in_short(record, found.clients))]
    if task is None:
        return Portrait(name, "pending", facts)
    doing = {"waiting": ", until its arguments are there", "running": f" on worker {task.worker}"}
    text = f"`{task.name}`{doing.get(task.state, '')}"
    return Portrait(name, task.state, [("task", text), *facts])


def _failed(name: tuple[str, str], engine: Engine, ref: ObjectRef) -> Portrait:
    try:
        engine.get([ref], 0, False)
    except Exception as error:
        text = str(error).strip().split("\n")[0]
        kind = type(error).__name__
        states = {ObjectFreedError: "freed", TaskCancelledError: "stopped"}
        state = next((word for kind, word in states.items() if isinstance(error, kind)), "failed")
        why = "why" if state != "failed" else "error"
        said = isinstance(error, TaskError) or state != "failed"  # its type's name
        return Portrait(name, state, [(why, text if said else f"{kind}: {text}")])
    return Portrait(name, "failed", [])


def _preview(engine: Engine, ref: ObjectRef) -> tuple[str, Preview]:
    """What kind of thing it is, and its beginning."""
    from workbench.serialization.codec import describe

    kind = ""
    try:
        value = engine.peek(ref)
        kind = describe(value)
        return kind, preview(value)
    except LookupError as reason:
        return kind, Preview(obstacle=f"no preview: {reason}")
    except Exception as error:  # of the value's class
        return kind, Preview(obstacle=f"no preview: its class raises {type(error).__name__}")


def of_actor(handle: ActorHandle) -> Portrait:
    """An actor, as its handle shows it."""
    ref, description = handle._ref, handle._description
    engine, name = engine_of(ref), ("ActorHandle", description.cls)
    methods = ", ".join(f"`{method}`" for method in description.methods if method[:1] != "_")
    found = engine.describe(ref)
    if engine.ended is not None:
        return Portrait(name, "session over", [("why", engine.ended), ("methods", methods)])
    if found is None:
        return Portrait(name, "unknown", [("methods", methods)])
    if found.actor is None:
        return Portrait(name, "dead", [("methods", methods)])
    actor = found.actor
    names = (each.removeprefix(ACTOR_PREFIX) for each in actor.names)
    restarts = {-1: "as often as it dies", 0: ""}.get(actor.restarts, str(actor.restarts))
    moods = {"alive": "busy" if actor.calls else "good", "being made": "busy"}
    return Portrait(
        name,
        actor.state,
        [
            ("name", ", ".join(f"`{each}`" for each in names)),
            ("calls", f"{actor.calls} not done" if actor.calls else "none waiting"),
            ("restarts left", restarts),
            ("methods", methods),
            ("id", ref.hex()),
        ],
        mood=moods.get(actor.state, ""),
    )


def of_session(engine: Engine) -> Portrait:
    """A session, as `init` returns it."""
    name = ("Session", _short(engine.session))
    snapshot = engine.overview()
    if engine.ended is not None:
        return Portrait(name, "over", [("why", engine.ended)])
    if snapshot is None:
        return Portrait(name, "busy", [("why", "it doesn't answer just now")], mood="busy")
    return Overview(snapshot)


class Overview(Portrait):
    """A session at a glance: pool, store, what has a name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        actors = {actor.id for actor in snapshot.actors}
        self._named = Objects(tuple(r for r in snapshot.objects if r.id not in actors))
        states = [worker.state for worker in snapshot.workers if not worker.actor]
        pool = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        tasks = f"{count(snapshot.running, 'task')} running, {snapshot.queued} queued"
        jobs = [f"`{job.name}` {job.state}" for job in snapshot.jobs if job.kept or not job.is_over]
        super().__init__(
            ("Session", _short(snapshot.session)),
            "running",
            [
                ("pool", f"{count(len(states), 'worker')} ({pool}); {tasks}"),
                ("store", self._store()),
                ("actors", ", ".join(f"`{actor.cls}` {actor.state}" for actor in snapshot.actors)),
                ("background", ", ".join(jobs)),
                ("open in", _drivers(snapshot.clients)),
                ("trouble", snapshot.trouble),
            ],
            mood="good",
        )

    def _store(self) -> str:
        now = self._snapshot
        disk = f", {human_bytes(now.spilled)} more on disk" if now.spilled else ""
        return (
            f"{human_bytes(now.live)} of {human_bytes(now.capacity)} in "
            f"{count(now.count, 'object')}{disk}"
        )

    def _text(self) -> str:
        return str(self._named) if self._named else ""

    def _html(self) -> markup.Html:
        return self._named.table().html() if self._named else markup.Html()

    def _html_facts(self) -> Facts:
        """With a strip that shows how full the store is."""
        strip = markup.bar((self._snapshot.live or 0) / (self._snapshot.capacity or 1))
        return [
            (label, markup.Html(f"{strip} {markup.as_html(text)}") if label == "store" else text)
            for label, text in self.facts
        ]


def _short(session: str) -> str:
    """Its name without what makes it unique."""
    return session.rpartition(".")[0] or session


def _drivers(clients: Iterable[ClientRecord]) -> str:
    labels: Sequence[str] = [c.label or "a process" for c in clients if c.role == "driver"]
    return ", ".join(labels)
