"""The objects of a session and the pins that hold them. Decides when an object dies; no budget.

Pins that keep an object **alive**: a hold by a client (``ref``), a name, a task that needs it,
an object that contains it, a ref that was pickled outside the store (``escaped``), a person's
wish (``user``), a background cell that made it and is yet to be collected (``job``). A ``view``
doesn't keep it alive, but its bytes stay in place until the last view is gone. No alive pin →
freed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import force_setattr

from workbench.core.backlog import Backlog
from workbench.core.entry import FREED, PENDING, READY, Counts, Entry, Kind, fewer, more, without
from workbench.core.events import About, Value, error_value
from workbench.core.tasks import Task
from workbench.format import OWN

MOST_SITES = 20
"""Places remembered at which refs to one object escaped."""

MOST_KINDS = 10_000


class Catalog(dict[int, Entry]):
    """All objects by id, in the order of their making. Read the dict; the methods change it.

    What its attributes ``on_...`` are set to is called:
    ``on_release(entry, value)``, once for each value whose bytes nobody needs any more;
    ``on_unused(entry)``, once or more, before that: the object is freed and no task reads it, so
    whoever has cached it must be told, and counts as a viewer until it has let go;
    ``on_lent(id)``, once or more, when one that is lent is freed, and so wanted back;
    ``on_rest(entry)``, when nobody shows the object any more, or no person pins it;
    ``on_forgotten(client)``, when nothing is left that a client who went has pinned.

    When more dies at once than one batch shall do, the rest is in the ``backlog``: it is there
    still, and may be held again, or is pinned by who is ``leaving``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_release: Callable[[Entry, Value], None]
        self.on_unused: Callable[[Entry], None]
        self.on_lent: Callable[[int], None]
        self.on_rest: Callable[[Entry], None]
        self.on_forgotten: Callable[[int], None]
        self.backlog = Backlog()
        self.leaving: dict[int, bool] = {}  # clients that went and still pin → their views go, too
        self.names: dict[str, int] = {}  # → object id; `bind` changes it
        self.loose: dict[int, str] = {}  # object id → one of the names: it keeps nothing alive
        self._alone: dict[int, tuple[Counts, tuple[int]]] = {}  # client → itself as sole holder
        self._of: dict[int, set[int]] = {}  # client → what it pins: of those that are followed
        self._kinds: dict[Kind, Kind] = {}
        self.lent: dict[int, int] = {}  # by how many leases: these bytes stay where they are
        self._last = Value(b"")  # that was sealed in a segment
        self.inline_bytes = 0
        self.argument_bytes = 0  # in the messages of tasks that aren't over
        self.own = 0  # objects that are Workbench's
        self.now = 0.0  # the time of this batch, which the session says
        self.sealed = self.ended = 0  # objects that came, and that went, since the beginning
        self.touched: dict[int, bool] | None = None  # while anybody subscribes: see `touch`

    def ids(self) -> list[int]:
        """Those of all objects, the newest first."""
        return list(reversed(self))

    def named(self, name: str) -> Entry | None:
        id = self.names.get(name)
        return None if id is None else self[id]

    def names_of(self, entry: Entry) -> tuple[str, ...]:
        """All of them. ``entry.names`` are those that keep it."""
        loose = self.loose.get(entry.id) if self.loose else None
        return entry.names if loose is None else (*entry.names, loose)

    def make(self, id: int) -> Entry:
        """A new object, PENDING. Nothing keeps it yet."""
        entry = self[id] = Entry(id, self.now)
        if self.touched is not None:
            self.touched.setdefault(id, True)
        return entry

    def touch(self, entry: Entry) -> None:
        """It isn't as it was: that goes into ``touched``, with whether it is new."""
        if self.touched is not None:
            self.touched.setdefault(entry.id, False)

    def create_pending(self, id: int, client: int) -> None:
        """The result of a task of this client's, which holds it and is told when it is ready."""
        entry = self.make(id)
        if client in self._of:
            self._of[client].add(id)
        entry.holds, entry.waiting_clients = self._alone.get(client) or self._sole(client)

    def seal(self, entry: Entry, value: Value, about: About | None = None) -> None:
        """The object is complete. Everything it contains is alive as long as it is.

        An object that was freed, or sealed, before gives the new bytes straight back.
        """
        if entry.state is not PENDING:
            self.on_release(entry, value)
            return
        entry.state = READY
        entry.value = value
        self.sealed += 1
        if self.touched is not None:
            self.touch(entry)
        if about is not None:
            self._describe(entry, about)
        if value.segment:
            self._economize(value)
        else:
            self.inline_bytes += len(value.header)
        for child in value.contains:
            self._inside(child).parents += 1

    def seal_inline(self, entry: Entry, value: Value) -> None:
        """The same of one that is PENDING, has no extent and contains none; nobody subscribes."""
        entry.state = READY
        entry.value = value
        self.sealed += 1
        self.inline_bytes += len(value.header)

    def _economize(self, value: Value) -> None:
        """What it has in common with the one before is kept once: many are often of one kind."""
        for field in ("segment", "length", "header"):
            common = getattr(self._last, field)
            if getattr(value, field) == common:
                force_setattr(value, field, common)
        self._last = value

    def _describe(self, entry: Entry, about: About) -> None:
        kind = (about.type, about.site)
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()  # later objects of these kinds have their own copy
        entry.describe(about, self._kinds.setdefault(kind, kind))
        self.own += kind[0].startswith(OWN)

    def _inside(self, id: int) -> Entry:
        """The entry of a contained object; one that is already gone counts as freed."""
        entry = self.get(id)
        if entry is None:
            entry = self.make(id)
            entry.state = FREED
        self.touch(entry)
        return entry

    # -- pins ---------------------------------------------------------------------------------

    def hold(self, entry: Entry, client: int) -> None:
        self._follow(entry, client)
        self.touch(entry)
        entry.holds = more(entry.holds, client) if entry.holds else self._sole(client)[0]

    def drop(self, entry: Entry, client: int) -> None:
        """One hold fewer. A drop of what isn't held is ignored: the object was freed meanwhile."""
        count = entry.holds.get(client)
        if count is not None:
            if self.touched is not None:
                self.touch(entry)
            entry.holds = fewer(entry.holds, client)
            if count == 1:
                if client in self._of:
                    self._unfollow(entry, client)
                self.settle(entry)

    def view(self, entry: Entry, client: int) -> None:
        self._follow(entry, client)
        self.touch(entry)
        entry.viewers = more(entry.viewers, client)

    def unview(self, entry: Entry, client: int) -> None:
        count = entry.viewers.get(client)
        if count is not None:
            self.touch(entry)
            entry.viewers = fewer(entry.viewers, client)
            if count == 1:
                if client in self._of:
                    self._unfollow(entry, client)
                self.settle(entry)
                self.rest(entry)

    def rest(self, entry: Entry) -> None:
        """It may be that nobody shows or pins it now: say so."""
        if entry.state is READY and not entry.viewers and not entry.pinned:
            self.on_rest(entry)

    def add_waiting_client(self, entry: Entry, client: int) -> None:
        if client not in entry.waiting_clients:
            self._follow(entry, client)
            entry.waiting_clients += (client,)

    def need_arguments(self, task: Task) -> Value | None:
        """What the task needs lives as long as it; the value it fails with if that can't be."""
        submit = task.submit
        task.argument_bytes = len(submit.args)
        self.argument_bytes += task.argument_bytes
        failed: Value | None = None
        lost = ""
        for id in (submit.function, *submit.deps) if submit.function else submit.deps:
            entry = self.get(id)
            if entry is None or entry.state is FREED:
                lost = lost or ("unknown" if entry is None else "freed")
                continue
            if entry.state is PENDING:
                if entry.waiting_tasks is None:
                    entry.waiting_tasks = []
                entry.waiting_tasks.append(task)
                task.pending_dependencies += 1
            elif entry.value is not None and entry.value.failed:
                failed = failed or entry.value
            self.need(entry, task)
        for id in submit.contains:
            entry = self.get(id)
            if entry is not None:
                self.need(entry, task)
        if lost:
            text = "An argument of the task is not in the store any more. Put it again."
            return error_value(lost, text)
        return failed

    def need(self, entry: Entry, task: Task) -> None:
        entry.tasks += 1
        task.pins.append(entry.id)
        if self.touched is not None:
            self.touch(entry)

    def lend(self, id: int) -> None:
        """A worker may read it for tasks that nobody has heard of; see `core.leases`."""
        self.lent[id] = self.lent.get(id, 0) + 1

    def unlend(self, id: int) -> None:
        self.lent[id] -= 1
        if not self.lent[id]:
            del self.lent[id]
            entry = self[id]
            self.settle(entry)
            self.rest(entry)

    def unneed_all(self, task: Task) -> None:
        pins, task.pins = task.pins, []
        self.argument_bytes -= task.argument_bytes
        task.argument_bytes = 0
        for id in pins:
            entry = self[id]
            entry.tasks -= 1
            if self.touched is not None:
                self.touch(entry)
            if not entry.tasks:
                self.settle(entry)

    def escape(self, entry: Entry, site: str) -> None:
        """A ref to it is in bytes that nobody can follow: it stays until it is freed."""
        known = site in entry.escapes or len(entry.escapes) == MOST_SITES
        if entry.state is not FREED and not known:
            entry.escapes += (site,)
            self.touch(entry)

    def pin(self, entry: Entry, site: str) -> None:
        """A person wants it kept, or (an empty ``site``) no longer."""
        if entry.state is not FREED:
            entry.pinned = site
            self.touch(entry)
            self.settle(entry)
            self.rest(entry)

    def keep_for(self, entry: Entry, job: str) -> None:
        """A background cell's result waits for somebody to collect it; an empty ``job``: it did."""
        if entry.state is not FREED:
            entry.job = job
            self.touch(entry)
            self.settle(entry)

    def loaded(self, entry: Entry, seconds: float) -> None:
        """It was read, in that time. The first reading counts."""
        if not entry.load_seconds:
            entry.load_seconds = seconds
            self.touch(entry)

    def bind(self, name: str, entry: Entry | None) -> None:
        """``name`` means this object from now on (None: means nothing)."""
        old = self.named(name)
        self.names.pop(name, None)
        if entry is not None:
            self.names[name] = entry.id
            entry.names += (name,)
            self.touch(entry)
        if old is not None:
            self.touch(old)
            if self.loose.get(old.id) == name:
                del self.loose[old.id]
                return
            names = list(old.names)
            names.remove(name)
            old.names = tuple(names)
            self.settle(old)

    def bind_loosely(self, name: str, entry: Entry) -> None:
        """``name``, which is free, means this object as long as something else keeps that; an
        object has one such name."""
        self.names[name] = entry.id
        self.loose[entry.id] = name
        self.touch(entry)

    def follow(self, client: int) -> None:
        """This one will leave before the session ends: keep a list of what it pins.

        Workers, that is. A driver pins most of what there is, so a list would help little.
        """
        self._of[client] = set()

    def _sole(self, client: int) -> tuple[Counts, tuple[int]]:
        """An object's holds and waiting clients if there is but this one."""
        sole = self._alone.get(client)
        if sole is None:
            sole = self._alone[client] = {client: 1}, (client,)
        return sole

    def _follow(self, entry: Entry, client: int) -> None:
        pinned = self._of.get(client)
        if pinned is not None:
            pinned.add(entry.id)

    def _unfollow(self, entry: Entry, client: int) -> None:
        if not any(client in kept for kept in (entry.holds, entry.viewers, entry.waiting_clients)):
            self._of[client].discard(entry.id)

    def forget_client(self, client: int, views: bool) -> None:
        """All its holds are gone with it, and its ``views`` unless they live on."""
        self._alone.pop(client, None)
        pinned = self._of.pop(client, self.keys())
        self.leaving[client] = views
        self.backlog.start(self._forget(client, views, list(pinned)))

    def _forget(self, client: int, views: bool, pinned: list[int]) -> Iterator[None]:
        for id in pinned:
            if self.leaving.get(client) is not views:
                return  # now its views go, too: that is another's work, with all the rest
            entry = self.get(id)
            if entry is None:
                continue
            if client in entry.waiting_clients:
                entry.waiting_clients = tuple(c for c in entry.waiting_clients if c != client)
            if client in entry.holds or client in entry.viewers:
                self.touch(entry)
                viewed = views and client in entry.viewers
                entry.holds = without(entry.holds, client)
                if viewed:
                    entry.viewers = without(entry.viewers, client)
                self.settle(entry)
                if viewed:
                    self.rest(entry)
            yield
        if self.leaving.get(client) is views:
            del self.leaving[client]
            self.on_forgotten(client)

    # -- death --------------------------------------------------------------------------------

    def free(self, entry: Entry) -> None:
        """Free it whatever pins it. Handles stay, and reading through them is an error.

        Every client with a hold may be about to map the bytes, so each counts as a viewer until
        it says otherwise (the session sends it Forget; it answers Unview, at once or when its
        last view dies).
        """
        self.touch(entry)
        for name in entry.names:
            del self.names[name]
        entry.names = entry.escapes = ()
        entry.pinned = entry.job = ""
        if entry.state is READY:
            for client in entry.holds:
                if client not in self.leaving:
                    self.view(entry, client)
        children = self._end(entry) if entry.state is not FREED else ()
        for each in (entry, *children):
            self.settle(each)

    def settle(self, entry: Entry) -> None:
        """Free the object if nothing keeps it; forget it if nothing can even ask for it."""
        if entry.state is not FREED and entry.alive:
            return  # as it is nearly always
        queue = [entry]
        while queue:  # a loop, not recursion: a chain of containers may be long
            if self.backlog.left <= 0:
                self.backlog.add(self._settle_all(queue))
                return
            self.backlog.left -= 1
            entry = queue.pop()
            if entry.state is not FREED:
                for child in self._end(entry):
                    if not child.alive:
                        queue.append(child)
            if entry.tasks:
                continue
            if entry.id in self.lent:
                self.on_lent(entry.id)
                continue
            self.on_unused(entry)
            if entry.viewers:
                continue
            value, entry.value = entry.value, None
            if value is not None:
                self.on_release(entry, value)
            if not entry.alive and self.pop(entry.id, None) is not None and entry.kind is not None:
                self.own -= entry.kind[0].startswith(OWN)

    def _settle_all(self, entries: Iterable[Entry]) -> Iterator[None]:
        for entry in entries:
            self.settle(entry)
            yield

    def _let_go(self, contained: Iterable[int]) -> Iterator[None]:
        """The object that contained these is freed."""
        for id in contained:
            child = self[id]
            child.parents -= 1
            self.touch(child)
            self.settle(child)
            yield

    def _end(self, entry: Entry) -> list[Entry]:
        """Mark it freed; returns the objects it contained, one pin lighter; if these are many,
        that is left for later."""
        was, entry.state = entry.state, FREED
        entry.waiting_clients, entry.waiting_tasks = (), None
        if self.loose and entry.id in self.loose:
            del self.names[self.loose.pop(entry.id)]
        if self.touched is not None:
            self.touch(entry)
        value = entry.value
        if was is not READY or value is None:
            return []
        self.ended += 1
        if not value.segment:
            self.inline_bytes -= len(value.header)
        if not value.contains:
            return []  # as it is nearly always
        if len(value.contains) > self.backlog.left:
            self.backlog.add(self._let_go(value.contains))
            return []
        children = [self[id] for id in value.contains]
        for child in children:
            child.parents -= 1
            self.touch(child)
        return children
