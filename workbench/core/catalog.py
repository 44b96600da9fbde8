"""The objects of a session and the pins that hold them. Decides when an object dies; no budget.

Pins that keep an object **alive**: a hold by a client (``ref``), a name, a task that needs it,
an object that contains it, a ref that was pickled outside the store (``escaped``), a person's
wish (``user``), a background cell that made it and is yet to be collected (``job``). A ``view``
doesn't keep it alive, but its bytes stay in place until the last view is gone. No alive pin →
freed at once. Where an object that has moved was before, as long as anybody knows it, is here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from workbench.core.events import About, Value
from workbench.core.lru import Link

if TYPE_CHECKING:
    from workbench.core.scheduler import Task


MOST_SITES = 20
"""Places remembered at which refs to one object escaped."""


Counts = Mapping[int, int]
"""Something counted by client. Never changed in place, so that objects share them: nearly all
are held once by one client and viewed by none, and a dict of one's own is 200 bytes."""

NONE: Counts = {}

Kind = tuple[str, str]
"""An object's type, and where it was put: shared by all that have the same."""

MOST_KINDS = 10_000

MOST_REPEATS = 0xFFFF

_COST = Struct("<QQIHff")
"""The rest of an `About`, in 32 bytes less its names: a million objects have one each."""


class State(Enum):
    """An object's life. There is no way back."""

    PENDING = "pending"  # a task will make it
    READY = "ready"
    FREED = "freed"  # its value is gone; handles or views to it still live somewhere


@dataclass(slots=True)
class StaleCopy:
    """Where an object was before it moved: its bytes stay while anybody may show them.

    ``owed`` are the clients that haven't taken note of the new place; ``since`` when it moved.
    """

    value: Value
    owed: set[int]
    viewers: Counts
    since: float


class Entry(Link):
    """One object. Fields are written by :class:`Catalog` alone."""

    __slots__ = (
        "cost",
        "escapes",
        "holds",
        "id",
        "job",
        "kind",
        "load_seconds",
        "made",
        "names",
        "parents",
        "pinned",
        "state",
        "tasks",
        "value",
        "viewers",
        "waiting",
        "watchers",
    )

    def __init__(self, id: int, made: float) -> None:
        super().__init__()
        self.id = id
        self.made = made  # when it was put, or its task submitted
        self.state = State.PENDING
        self.value: Value | None = None
        self.kind: Kind | None = None
        self.cost = b""
        self.load_seconds = 0.0  # of its first reading; 0 until there was one
        self.holds: Counts = NONE  # client → number of holds
        self.names: tuple[str, ...] = ()
        self.tasks = 0  # pins by tasks that aren't done
        self.parents = 0  # objects that contain it
        self.escapes: tuple[str, ...] = ()  # where refs to it were pickled outside the store
        self.pinned = ""  # where a person asked for it to be kept
        self.job = ""  # the background cell that it is kept for
        self.viewers: Counts = NONE  # client → zero-copy views alive there
        self.watchers: tuple[int, ...] = ()  # clients to tell when it is ready
        self.waiting: list[Task] | None = None  # those that start when it is ready

    @property
    def about(self) -> About | None:
        """What is known of its put."""
        if self.kind is None:
            return None
        inband, outband, buffers, repeats, pickle_seconds, copy_seconds = _COST.unpack(self.cost)
        type, site = self.kind
        return About(type, inband, outband, buffers, pickle_seconds, copy_seconds, site, repeats)

    @property
    def alive(self) -> bool:
        """Whether any pin keeps it."""
        return bool(
            self.holds or self.names or self.tasks or self.parents or self.escapes or self.pinned
            or self.job
        )  # fmt: skip


class Catalog:
    """All objects by id and by name.

    Parameters
    ----------
    on_release : callable(Entry, Value)
        Called once for each value whose bytes nobody needs any more.
    on_unused : callable(Entry)
        Called, once or more, before that: the object is freed and no task reads it. Whoever
        has cached it must be told, and counts as a viewer until it has let go.
    on_vacated : callable(Value)
        Called when nobody shows the old place of an object that has moved.
    on_rest : callable(Entry)
        Called when nobody shows the object any more, or no person pins it.
    """

    def __init__(
        self,
        on_release: Callable[[Entry, Value], None],
        on_unused: Callable[[Entry], None] = lambda entry: None,
        on_vacated: Callable[[Value], None] = lambda value: None,
        on_rest: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        self._entries: dict[int, Entry] = {}
        self._names: dict[str, int] = {}
        self._alone: dict[int, tuple[Counts, tuple[int]]] = {}  # client → itself as sole holder
        self._of: dict[int, set[int]] = {}  # client → what it pins: of those that are followed
        self._on_release = on_release
        self._on_unused = on_unused
        self._on_vacated = on_vacated
        self._on_rest = on_rest
        self._kinds: dict[Kind, Kind] = {}
        self._last = Value(b"")  # that was sealed in a segment
        self.stale_copies: dict[int, StaleCopy] = {}  # by object. Read it
        self.get = self._entries.get
        self.inline_bytes = 0
        self.now = 0.0  # the time of this batch, which the session says
        self.sealed = self.ended = 0  # objects that came, and that went, since the beginning
        self.touched: dict[int, bool] | None = None  # if anybody watches: what changed, see `touch`

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: int) -> bool:
        return id in self._entries

    def entries(self) -> Iterable[Entry]:
        """All of them, in the order of their making."""
        return self._entries.values()

    def ids(self) -> list[int]:
        """Those of all objects, the newest first."""
        return list(reversed(self._entries))

    @property
    def names(self) -> dict[str, int]:
        """Name → object id. Read it; :meth:`bind` changes it."""
        return self._names

    def named(self, name: str) -> Entry | None:
        """The object of that name."""
        id = self._names.get(name)
        return None if id is None else self._entries[id]

    def expect(self, id: int) -> Entry:
        """The entry for an object that a task will make; new, or already known."""
        return self._entries.get(id) or self._make(id)

    def _make(self, id: int) -> Entry:
        entry = self._entries[id] = Entry(id, self.now)
        if self.touched is not None:
            self.touched.setdefault(id, True)
        return entry

    def touch(self, entry: Entry) -> None:
        """It isn't as it was: that goes into ``touched``, with whether it is new."""
        if self.touched is not None:
            self.touched.setdefault(entry.id, False)

    def create_pending(self, id: int, client: int) -> None:
        """A new object that a task will make for ``client``, who holds it and waits for it."""
        entry = self._make(id)
        if client in self._of:
            self._of[client].add(id)
        entry.holds, entry.watchers = self._alone.get(client) or self._sole(client)

    def seal(self, entry: Entry, value: Value, about: About | None = None) -> None:
        """The object is complete. Everything it contains is alive as long as it is.

        An object that was freed, or sealed, before gives the new bytes straight back.
        """
        if entry.state is not State.PENDING:
            self._on_release(entry, value)
            return
        entry.state = State.READY
        entry.value = value
        self.sealed += 1
        self.touch(entry)
        if value.segment:
            self._economize(value)
        if about is not None:
            self._describe(entry, about)
        if not value.segment:
            self.inline_bytes += len(value.header)
        for child in value.contains:
            self._inside(child).parents += 1

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
        entry.kind = self._kinds.setdefault(kind, kind)
        entry.cost = _COST.pack(
            about.inband, about.outband, about.buffers, min(about.repeats, MOST_REPEATS),
            about.pickle_seconds, about.copy_seconds,
        )  # fmt: skip

    def _inside(self, id: int) -> Entry:
        """The entry of a contained object; one that is already gone counts as freed."""
        entry = self._entries.get(id)
        if entry is None:
            entry = self._make(id)
            entry.state = State.FREED
        self.touch(entry)
        return entry

    # -- pins ---------------------------------------------------------------------------------

    def hold(self, entry: Entry, client: int) -> None:
        """One more hold by ``client``."""
        self._follow(entry, client)
        self.touch(entry)
        entry.holds = _more(entry.holds, client) if entry.holds else self._sole(client)[0]

    def drop(self, entry: Entry, client: int) -> None:
        """One hold fewer. A drop of what isn't held is ignored: the object was freed meanwhile."""
        count = entry.holds.get(client)
        if count is not None:
            self.touch(entry)
            entry.holds = _fewer(entry.holds, client)
            if count == 1:
                if client in self._of:
                    self._unfollow(entry, client)
                self.settle(entry)

    def view(self, entry: Entry, client: int) -> None:
        """One more view in ``client``."""
        self._follow(entry, client)
        self.touch(entry)
        entry.viewers = _more(entry.viewers, client)

    def unview(self, entry: Entry, client: int) -> None:
        """One view fewer there."""
        count = entry.viewers.get(client)
        if count is not None:
            self.touch(entry)
            entry.viewers = _fewer(entry.viewers, client)
            if count == 1:
                if client in self._of:
                    self._unfollow(entry, client)
                self.settle(entry)
                self._rest(entry)

    def move(self, entry: Entry, value: Value) -> tuple[int, ...]:
        """The object's bytes are at ``value`` now; returns who must be told.

        Those who may know the old place, by their own holds, are counted until they have taken
        note; so are the views of it. Until then the object has a ghost, and doesn't move again.
        """
        assert entry.value is not None
        assert entry.id not in self.stale_copies
        holders = tuple(entry.holds)
        stale = StaleCopy(entry.value, set(holders), entry.viewers, self.now)
        entry.value, entry.viewers = value, NONE
        self.touch(entry)
        self.stale_copies[entry.id] = stale
        self._settle_stale(entry.id, stale)
        return holders

    def noted(self, id: int, client: int) -> None:
        """``client`` knows the new place."""
        stale = self.stale_copies.get(id)
        if stale is not None:
            stale.owed.discard(client)
            self._settle_stale(id, stale)

    def viewed(self, id: int, segment: int, client: int) -> Entry | None:
        """``client`` has a view of the object's bytes in that segment; the object, if there."""
        stale, entry = self.stale_copies.get(id), self.get(id)
        if stale is not None and stale.value.segment == segment:
            stale.viewers = _more(stale.viewers, client)
        elif entry is not None:
            self.view(entry, client)
        return entry

    def unviewed(self, id: int, segment: int, client: int) -> None:
        """That view is gone; segment 0: ``client`` has answered Forget."""
        stale, entry = self.stale_copies.get(id), self.get(id)
        if stale is not None and stale.value.segment == segment:
            if client in stale.viewers:
                stale.viewers = _fewer(stale.viewers, client)
                self._settle_stale(id, stale)
        elif entry is not None:
            self.unview(entry, client)

    def _settle_stale(self, id: int, stale: StaleCopy) -> None:
        if not stale.owed and not stale.viewers:
            del self.stale_copies[id]
            self._on_vacated(stale.value)
            entry = self.get(id)
            if entry is not None:
                self._rest(entry)

    def _rest(self, entry: Entry) -> None:
        if entry.state is State.READY and not entry.viewers and not entry.pinned:
            self._on_rest(entry)

    def watch(self, entry: Entry, client: int) -> None:
        """``client`` is to be told when it is ready."""
        if client not in entry.watchers:
            self._follow(entry, client)
            entry.watchers += (client,)

    def await_by(self, entry: Entry, task: Task) -> None:
        """A task starts when it is ready."""
        if entry.waiting is None:
            entry.waiting = []
        entry.waiting.append(task)

    def need(self, entry: Entry) -> None:
        """A task needs it."""
        entry.tasks += 1
        self.touch(entry)

    def unneed(self, entry: Entry) -> None:
        """That task doesn't any more."""
        entry.tasks -= 1
        self.touch(entry)
        self.settle(entry)

    def escape(self, entry: Entry, site: str) -> None:
        """A ref to it is in bytes nobody can watch: it stays until it is freed."""
        known = site in entry.escapes or len(entry.escapes) == MOST_SITES
        if entry.state is not State.FREED and not known:
            entry.escapes += (site,)
            self.touch(entry)

    def pin(self, entry: Entry, site: str) -> None:
        """A person wants it kept, or (an empty ``site``) no longer."""
        if entry.state is not State.FREED:
            entry.pinned = site
            self.touch(entry)
            self.settle(entry)
            self._rest(entry)

    def keep_for(self, entry: Entry, job: str) -> None:
        """A background cell's result waits for somebody to collect it; an empty ``job``: it did."""
        if entry.state is not State.FREED:
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
        self._names.pop(name, None)
        if entry is not None:
            self._names[name] = entry.id
            entry.names += (name,)
            self.touch(entry)
        if old is not None:
            self.touch(old)
            names = list(old.names)
            names.remove(name)
            old.names = tuple(names)
            self.settle(old)

    def follow(self, client: int) -> None:
        """This one will leave before the session ends: keep a list of what it pins.

        Workers, that is. A driver pins most of what there is, so a list would help little.
        """
        self._of[client] = set()

    def _sole(self, client: int) -> tuple[Counts, tuple[int]]:
        """What an object's holds and watchers are if there is but this client."""
        sole = self._alone.get(client)
        if sole is None:
            sole = self._alone[client] = {client: 1}, (client,)
        return sole

    def _follow(self, entry: Entry, client: int) -> None:
        pinned = self._of.get(client)
        if pinned is not None:
            pinned.add(entry.id)

    def _unfollow(self, entry: Entry, client: int) -> None:
        if not any(client in kept for kept in (entry.holds, entry.viewers, entry.watchers)):
            self._of[client].discard(entry.id)

    def forget_client(self, client: int, views: bool = True) -> None:
        """All its holds are gone with it, and its ``views`` unless they live on."""
        self._alone.pop(client, None)
        for id, stale in list(self.stale_copies.items()):
            stale.owed.discard(client)
            if views:
                stale.viewers = _without(stale.viewers, client)
            self._settle_stale(id, stale)
        pinned = self._of.pop(client, self._entries.keys())
        for entry in [e for e in map(self.get, list(pinned)) if e is not None]:
            if client in entry.watchers:
                entry.watchers = tuple(c for c in entry.watchers if c != client)
            if client in entry.holds or client in entry.viewers:
                self.touch(entry)
                viewed = views and client in entry.viewers
                entry.holds = _without(entry.holds, client)
                if viewed:
                    entry.viewers = _without(entry.viewers, client)
                self.settle(entry)
                if viewed:
                    self._rest(entry)

    # -- death --------------------------------------------------------------------------------

    def free(self, entry: Entry) -> None:
        """Free it whatever pins it. Handles stay, and reading through them is an error.

        Every client with a hold may be about to map the bytes, so each counts as a viewer until
        it says otherwise (the session sends it Forget; it answers Unview, at once or when its
        last view dies).
        """
        self.touch(entry)
        for name in entry.names:
            del self._names[name]
        entry.names = entry.escapes = ()
        entry.pinned = entry.job = ""
        if entry.state is State.READY:
            for client in entry.holds:
                self.view(entry, client)
        children = self._end(entry) if entry.state is not State.FREED else ()
        for each in (entry, *children):
            self.settle(each)

    def settle(self, entry: Entry) -> None:
        """Free the object if nothing keeps it; forget it if nothing can even ask for it."""
        if entry.state is not State.FREED and entry.alive:
            return  # as it is nearly always
        queue = [entry]
        while queue:  # a loop, not recursion: a chain of containers may be long
            entry = queue.pop()
            if entry.state is not State.FREED:
                if entry.alive:
                    continue
                queue.extend(self._end(entry))
            if entry.tasks:
                continue
            self._on_unused(entry)
            if entry.viewers:
                continue
            value, entry.value = entry.value, None
            if value is not None:
                self._on_release(entry, value)
            if not entry.alive:
                self._entries.pop(entry.id, None)

    def _end(self, entry: Entry) -> list[Entry]:
        """Mark it freed; returns the objects it contained, one pin lighter."""
        was, entry.state = entry.state, State.FREED
        entry.watchers, entry.waiting = (), None
        self.touch(entry)
        if was is not State.READY or entry.value is None:
            return []
        self.ended += 1
        if not entry.value.segment:
            self.inline_bytes -= len(entry.value.header)
        children = [self._entries[id] for id in entry.value.contains]
        for child in children:
            child.parents -= 1
            self.touch(child)
        return children

    def check(self) -> None:
        """Raise AssertionError unless every entry has a reason, and the counts are true."""
        parents: Counter[int] = Counter()
        inline = 0
        for id, entry in self._entries.items():
            assert entry.id == id
            assert entry.alive or entry.viewers, "nothing keeps it"
            assert all(n > 0 for n in (*entry.holds.values(), *entry.viewers.values()))
            assert entry.tasks >= 0
            if entry.state is State.FREED:
                assert not entry.names, "a name of nothing"
                assert not entry.escapes
                assert not entry.pinned
                assert not entry.job
                assert entry.value is None or entry.viewers or entry.tasks, "bytes nobody reads"
            else:
                assert entry.alive
                assert (entry.value is None) == (entry.state is State.PENDING)
            for client in (*entry.holds, *entry.viewers, *entry.watchers):
                assert client not in self._of or id in self._of[client]
            if entry.state is not State.PENDING:
                assert not entry.watchers, "was to be told when it was ready"
                assert not entry.waiting
            if entry.state is State.READY and entry.value is not None:
                parents.update(entry.value.contains)
                inline += 0 if entry.value.segment else len(entry.value.header)
        assert all(stale.owed or stale.viewers for stale in self.stale_copies.values())
        assert inline == self.inline_bytes
        assert {id: e.parents for id, e in self._entries.items() if e.parents} == parents
        named = [(name, id) for id, e in self._entries.items() for name in e.names]
        assert dict(named) == self._names
        assert len(named) == len(self._names)


def _more(counts: Counts, client: int) -> Counts:
    return {**counts, client: counts.get(client, 0) + 1}


def _fewer(counts: Counts, client: int) -> Counts:
    """One less of ``client``, who is there."""
    left = counts[client] - 1
    if not left and len(counts) == 1:
        return NONE
    return {**counts, client: left} if left else _without(counts, client)


def _without(counts: Counts, client: int) -> Counts:
    if client not in counts:
        return counts
    return {c: n for c, n in counts.items() if c != client} if len(counts) > 1 else NONE
