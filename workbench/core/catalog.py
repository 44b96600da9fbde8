"""The objects of a session and the pins that keep them. Decides when an object dies; no budget.

Pins that keep an object **alive**: a hold by a client (``ref``), a name, a task that needs it,
an object that contains it, a ref that was pickled outside the store (``escaped``), a person's pin
(``user``), a background cell that made it and wasn't collected yet (``job``). A ``view`` doesn't
keep it alive, but its bytes stay in place until the last view is gone. An object without such pins
is freed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import force_setattr

from workbench.core.backlog import Backlog
from workbench.core.entry import FREED, PENDING, READY, Counts, Entry, Kind, fewer, more, without
from workbench.core.events import About, Value, freed_value
from workbench.core.tasks import Task
from workbench.format import OWN

MOST_SITES = 20
"""Places remembered, per object, where refs to it were pickled outside the store."""

MOST_KINDS = 10_000


class Catalog(dict[int, Entry]):
    """All objects by id, in the order of creation. Read the dict; only methods change it.

    It calls these callbacks: ``on_release(entry, value)``, once for each value whose bytes are no
    longer needed; ``on_unused(entry)``, once or more, before that: the object is freed and no task
    reads it, so clients that cached it must be told, and count as viewers until they have dropped
    it; ``on_lent(id)``, once or more, when a lent object is freed, and so wanted back;
    ``on_rest(entry)``, when an object is neither viewed nor pinned by a person any more;
    ``on_forgotten(client)``, when all pins of a client that left are removed.

    When more objects die at once than one batch may free, the rest waits in the ``backlog``: these
    objects still exist, and may be held again, or be pinned by a client in ``leaving``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_release: Callable[[Entry, Value], None]
        self.on_unused: Callable[[Entry], None]
        self.on_lent: Callable[[int], None]
        self.on_rest: Callable[[Entry], None]
        self.on_forgotten: Callable[[int], None]
        self.backlog = Backlog()
        self.leaving: dict[int, bool] = {}  # clients that left and still pin → views go, too
        self.names: dict[str, int] = {}  # → object id; `bind` changes it
        self.loose: dict[int, str] = {}  # object id → its name that doesn't keep it alive
        self._alone: dict[int, tuple[Counts, tuple[int]]] = {}  # client → its sole hold
        self._pinned_by: dict[int, set[int]] = {}  # followed client → ids that it pins
        self._kinds: dict[Kind, Kind] = {}
        self.lent: dict[int, int] = {}  # object id → lines it is lent to: it doesn't move
        self._last = Value(b"")  # sealed in a segment
        self.inline_bytes = 0
        self.argument_bytes = 0  # in the messages of tasks that aren't over
        self.own = 0  # Workbench's own objects
        self.now = 0.0  # the time of this batch; the session sets it
        self.sealed = self.objects_freed = 0  # objects made, and freed, so far
        self.touched: dict[int, bool] | None = None  # None if nobody subscribes: see `touch`

    def ids(self) -> list[int]:
        return list(reversed(self))

    def named(self, name: str) -> Entry | None:
        id = self.names.get(name)
        return None if id is None else self[id]

    def names_of(self, entry: Entry) -> tuple[str, ...]:
        """Return all names of an object. Those in ``entry.names`` keep it alive."""
        loose = self.loose.get(entry.id) if self.loose else None
        return entry.names if loose is None else (*entry.names, loose)

    def make(self, id: int) -> Entry:
        """Add and return a new object, PENDING. Nothing keeps it alive yet."""
        entry = self[id] = Entry(id, self.now)
        if self.touched is not None:
            self.touched.setdefault(id, True)
        return entry

    def touch(self, entry: Entry) -> None:
        """Mark the object as changed for subscribers, in ``touched``: id → True if it is new."""
        if self.touched is not None:
            self.touched.setdefault(entry.id, False)

    def create_pending(self, id: int, client: int) -> None:
        """Add a result of a client's task. The client holds it and is told when it is ready."""
        entry = self.make(id)
        if client in self._pinned_by:
            self._pinned_by[client].add(id)
        entry.holds, entry.waiting_clients = self._alone.get(client) or self._sole(client)

    def seal(self, entry: Entry, value: Value, about: About | None = None) -> None:
        """Make the object READY. All that it contains lives as long as it does.

        If it was freed or sealed before, the new bytes are released at once.
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
            kind = (about.type, about.site)
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()  # later objects of these kinds share another copy
            entry.describe(about, self._kinds.setdefault(kind, kind))
            self.own += kind[0].startswith(OWN)
        if value.segment:
            self._economize(value)
        else:
            self.inline_bytes += len(value.header)
        for child in value.contains:
            self._inside(child).parents += 1

    def _economize(self, value: Value) -> None:
        """Share equal fields with the value before: consecutive objects are often alike."""
        for field in ("segment", "length", "header"):
            common = getattr(self._last, field)
            if getattr(value, field) == common:
                force_setattr(value, field, common)
        self._last = value

    def _inside(self, id: int) -> Entry:
        """Return the entry of a contained object; make a freed one if it is gone."""
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
        """Remove one hold. Without one nothing happens: the object was freed meanwhile."""
        count = entry.holds.get(client)
        if count is not None:
            if self.touched is not None:
                self.touch(entry)
            entry.holds = fewer(entry.holds, client)
            if count == 1:
                if client in self._pinned_by:
                    self._unfollow(entry, client)
                self.free_if_unused(entry)

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
                if client in self._pinned_by:
                    self._unfollow(entry, client)
                self.free_if_unused(entry)
                self.rest(entry)

    def rest(self, entry: Entry) -> None:
        """Call ``on_rest`` if the object is ready and neither viewed nor pinned by a person."""
        if entry.state is READY and not entry.viewers and not entry.pinned:
            self.on_rest(entry)

    def add_waiting_client(self, entry: Entry, client: int) -> None:
        if client not in entry.waiting_clients:
            self._follow(entry, client)
            entry.waiting_clients += (client,)

    def pin_arguments(self, task: Task) -> Value | None:
        """Pin a task's arguments; return the value that it fails with if one is gone or failed."""
        submit = task.submit
        task.argument_bytes = len(submit.args)
        self.argument_bytes += task.argument_bytes
        failed: Value | None = None
        lost: Value | None = None
        for id in (submit.function, *submit.deps) if submit.function else submit.deps:
            entry = self.get(id)
            if entry is None or entry.state is FREED:
                code = "unknown" if entry is None else "freed"
                lost = lost or freed_value(id, argument=True, code=code)
                continue
            if entry.state is PENDING:
                if entry.waiting_tasks is None:
                    entry.waiting_tasks = []
                entry.waiting_tasks.append(task)
                task.pending_dependencies += 1
            elif entry.value is not None and entry.value.failed:
                failed = failed or entry.value
            self.pin_for_task(entry, task)
        for id in submit.contains:
            entry = self.get(id)
            if entry is not None:
                self.pin_for_task(entry, task)
        return lost or failed

    def pin_for_task(self, entry: Entry, task: Task) -> None:
        entry.tasks += 1
        task.pins.append(entry.id)
        if self.touched is not None:
            self.touch(entry)

    def lend(self, id: int) -> None:
        """Lend an object: a worker may read it for tasks not known here yet; see `core.leases`."""
        self.lent[id] = self.lent.get(id, 0) + 1

    def unlend(self, id: int) -> None:
        self.lent[id] -= 1
        if not self.lent[id]:
            del self.lent[id]
            entry = self[id]
            self.free_if_unused(entry)
            self.rest(entry)

    def unpin_all(self, task: Task) -> None:
        pins, task.pins = task.pins, []
        self.argument_bytes -= task.argument_bytes
        task.argument_bytes = 0
        for id in pins:
            entry = self[id]
            entry.tasks -= 1
            if self.touched is not None:
                self.touch(entry)
            if not entry.tasks:
                self.free_if_unused(entry)

    def escape(self, entry: Entry, site: str) -> None:
        """Keep an object, a ref to which was pickled outside the store, until it is freed."""
        known = site in entry.escapes or len(entry.escapes) == MOST_SITES
        if entry.state is not FREED and not known:
            entry.escapes += (site,)
            self.touch(entry)

    def pin(self, entry: Entry, site: str) -> None:
        """Pin an object for a person; with an empty ``site``, unpin it."""
        if entry.state is not FREED:
            entry.pinned = site
            self.touch(entry)
            self.free_if_unused(entry)
            self.rest(entry)

    def keep_for(self, entry: Entry, job: str) -> None:
        """Pin a background cell's result until it is collected; with an empty ``job``, unpin it."""
        if entry.state is not FREED:
            entry.job = job
            self.touch(entry)
            self.free_if_unused(entry)

    def loaded(self, entry: Entry, seconds: float) -> None:
        """Note how long the first reading of an object took. Later ones are ignored."""
        if not entry.load_seconds:
            entry.load_seconds = seconds
            self.touch(entry)

    def bind(self, name: str, entry: Entry | None) -> None:
        """Give ``name`` to this object, or (None) to none."""
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
            self.free_if_unused(old)

    def bind_loosely(self, name: str, entry: Entry) -> None:
        """Give a free name to an object, without keeping the object alive. It has one such name."""
        self.names[name] = entry.id
        self.loose[entry.id] = name
        self.touch(entry)

    def follow(self, client: int) -> None:
        """Keep a list of what a client pins, because it will leave before the session ends.

        Used for workers. A driver pins most objects, so a list would help little.
        """
        self._pinned_by[client] = set()

    def _sole(self, client: int) -> tuple[Counts, tuple[int]]:
        """Return holds and waiting clients of an object with this client alone."""
        sole = self._alone.get(client)
        if sole is None:
            sole = self._alone[client] = {client: 1}, (client,)
        return sole

    def _follow(self, entry: Entry, client: int) -> None:
        pinned = self._pinned_by.get(client)
        if pinned is not None:
            pinned.add(entry.id)

    def _unfollow(self, entry: Entry, client: int) -> None:
        if not any(client in kept for kept in (entry.holds, entry.viewers, entry.waiting_clients)):
            self._pinned_by[client].discard(entry.id)

    def forget_client(self, client: int, views: bool) -> None:
        """Remove all holds of a client that left, and its views if ``views``."""
        self._alone.pop(client, None)
        pinned = self._pinned_by.pop(client, self.keys())
        self.leaving[client] = views
        self.backlog.start(self._forget(client, views, list(pinned)))

    def _forget(self, client: int, views: bool, pinned: list[int]) -> Iterator[None]:
        for id in pinned:
            if self.leaving.get(client) is not views:
                return  # now its views go, too: another call does it all
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
                self.free_if_unused(entry)
                if viewed:
                    self.rest(entry)
            yield
        if self.leaving.get(client) is views:
            del self.leaving[client]
            self.on_forgotten(client)

    # -- death --------------------------------------------------------------------------------

    def free(self, entry: Entry) -> None:
        """Free an object, whatever pins it. Handles stay, and reading through them is an error.

        Every client with a hold may be about to map the bytes, so each counts as a viewer until it
        answers Forget with Unview, at once or when its last view dies.
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
            self.free_if_unused(each)

    def free_if_unused(self, entry: Entry) -> None:
        """Free the object if no pin keeps it; remove its entry if no client can ask for it."""
        if entry.state is not FREED and entry.alive:
            return  # the usual case
        queue = [entry]
        while queue:  # a loop, not recursion: a chain of containers may be long
            if self.backlog.left <= 0:
                self.backlog.work.append(map(self.free_if_unused, queue))
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

    def _let_go(self, contained: Iterable[int]) -> Iterator[None]:
        """Unpin these objects, whose container was freed."""
        for id in contained:
            child = self[id]
            child.parents -= 1
            self.touch(child)
            self.free_if_unused(child)
            yield

    def _end(self, entry: Entry) -> list[Entry]:
        """Mark it freed, unpin the objects that it contained and return them; if these are too many
        for this batch, queue that."""
        was, entry.state = entry.state, FREED
        entry.waiting_clients, entry.waiting_tasks = (), None
        if self.loose and entry.id in self.loose:
            del self.names[self.loose.pop(entry.id)]
        if self.touched is not None:
            self.touch(entry)
        value = entry.value
        if was is not READY or value is None:
            return []
        self.objects_freed += 1
        if not value.segment:
            self.inline_bytes -= len(value.header)
        if not value.contains:
            return []  # as it is nearly always
        if len(value.contains) > self.backlog.left:
            self.backlog.work.append(self._let_go(value.contains))
            return []
        children = [self[id] for id in value.contains]
        for child in children:
            child.parents -= 1
            self.touch(child)
        return children
