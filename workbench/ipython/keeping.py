"""Keeps the notebook's variables after each cell, and brings them back: `%workbench keep`, `%undo`,
`%checkout`, branches. The kernel's main thread."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench import context
from workbench.checkpoints.checkpointer import Checkpointer
from workbench.checkpoints.opening import opened, prepare
from workbench.checkpoints.records import Checkpoint, Lost, StoredGroup
from workbench.checkpoints.timeline import Timeline, kept_name
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Summary
from workbench.errors import MagicError, SessionError
from workbench.format import printable
from workbench.ipython.running_cell import RunningCell
from workbench.report import checkpoints as texts
from workbench.report.checkpoints import LostTable
from workbench.report.history import CellHistory
from workbench.system.ki_protection import ki_protection

IDLE = 0.05
"""Seconds after a cell's end until what is left of its variables is compared, one by one."""

SLICE = 0.02
"""Seconds of work that are done at once while the notebook is idle."""

BUSY = 10
"""The notebook is idle so many times as long as comparing a variable will take, before that begins:
it can't be interrupted, and the next cell waits for it."""


class _KeptSession:
    """What is kept in one session: its checkpoints, and what was last compared."""

    def __init__(
        self, engine: Engine, variables: dict[str, Any], names: Callable[[], list[str]]
    ) -> None:
        self.engine = engine
        self.timeline = Timeline(engine, kept_name())
        self.keeper = Checkpointer(engine, variables, lambda: [n for n in names() if n[:2] != "__"])
        self.missing: dict[str, Lost] = {}  # what an earlier kernel had, and this one couldn't get
        self.source = ""
        self.seconds = 0.0
        self.number = 0  # of the checkpoint of the last cell
        self.moved = False  # that cell went to another checkpoint: it makes one if it did more

    def begin(self, cell: int, source: str, seconds: float, moved: bool = False) -> None:
        self.source, self.seconds, self.moved = source, seconds, moved
        self.number = self.timeline.next_number()
        self.keeper.ended(cell, _names_in(source))
        self.record()

    def record(self) -> None:
        """Publish the checkpoint of the last cell, as far as its variables were compared."""
        if self.moved and not (self.keeper.changed or self.keeper.deleted):
            return
        present = self.timeline.present
        before = None if present is None else present.number
        if present is not None and before == self.number:
            before = present.before
        made = self.keeper.checkpoint(self.number, before, self.source, self.seconds)
        self.timeline.record(made)

    def finish(self) -> None:
        """Compare all that is left."""
        if not self.keeper.is_done:
            self.keeper.finish()
            self.record()


class Keeping:
    """Kept variables of one notebook, in the session that it is in.

    ``variables`` are all it has; ``names`` returns the names of its own, which are kept.
    """

    def __init__(
        self, variables: dict[str, Any], names: Callable[[], list[str]], running: RunningCell
    ) -> None:
        self._variables = variables
        self._names = names
        self._running = running
        self._session: _KeptSession | None = None
        self._began = 0.0
        self._moved = False  # the running cell went to another checkpoint
        self._timer: asyncio.TimerHandle | None = None  # until what is left is compared

    # -- the shell's events -----------------------------------------------------------------------

    def meet(self, engine: Engine, keep: bool) -> str:
        """Begin with a session: bring back what an earlier kernel has kept there, and go on. Return
        a line on that, or ''. ``keep``: begin to keep in any case."""
        was_kept = self._session is not None
        self.leave()
        if engine.can.keep or engine.ask(Lookup(kept_name())) is None:
            return self.keep(engine) if keep else texts.NOT_HERE * was_kept
        session = self._begin(engine)
        present = session.timeline.present
        if present is None:  # another kernel of this name is at work
            return self.keep(engine) if keep else ""
        self._session, self._moved = session, True
        before = dict(self._variables)
        own = {*self._names()}
        failed = prepare(present)
        found = opened(engine, present.groups, present, self._variables)
        stays = [n for n in found.values if n in own and not _is_same(before[n], found.values[n])]
        session.missing = {**present.lost, **found.failed}
        session.keeper.adopt(present, found)
        self._variables.update({name: before[name] for name in stays})
        said = texts.back_text(present, found.failed, stays)
        return f"{said} The directory is not back: {failed}." if failed else said

    def _begin(self, engine: Engine) -> _KeptSession:
        from workbench.widgets.kept import Kept  # few keep variables

        session = _KeptSession(engine, self._variables, self._names)
        session.timeline.load()
        kept = context.companion(Kept)
        kept.timeline = session.timeline
        with contextlib.suppress(RuntimeError):  # a terminal, which has no views
            kept.check_out = partial(self._check_out, asyncio.get_running_loop())
        return session

    def leave(self) -> bool:
        """End with a session, or with a kernel that ends: what is kept stays. True if variables
        were kept."""
        session, self._session = self._session, None
        if session is None:
            return False
        session.timeline.close()
        return session.engine.end_reason is None

    def cell_begins(self) -> None:
        self._began = time.perf_counter()
        if self._timer is not None:
            self._timer.cancel()

    def cell_ended(self, result: Any) -> None:
        session, moved = self._session, self._moved
        self._moved = False
        if session is None or session.engine.end_reason is not None:
            return
        source = getattr(getattr(result, "info", None), "raw_cell", "") or ""
        seconds = time.perf_counter() - self._began
        try:
            session.begin(self._running.number, source, seconds, moved)
            if full := session.keeper.full:
                print(printable(texts.full_text(full)))
        except (KeyboardInterrupt, MemoryError):  # what wasn't compared is, after the next cell
            print(texts.INTERRUPTED)
            return
        except SessionError:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a terminal's: it is never idle
            session.finish()
            return
        if not session.keeper.is_done:
            self._wait(session, loop)

    def _wait(self, session: _KeptSession, loop: asyncio.AbstractEventLoop) -> None:
        """Have the next variable compared when the notebook has been idle for long enough."""
        seconds = max(IDLE, BUSY * session.keeper.next_seconds)
        self._timer = loop.call_later(seconds, self._sweep, session, loop)

    def _sweep(self, session: _KeptSession, loop: asyncio.AbstractEventLoop) -> None:
        if session is not self._session or session.engine.end_reason is not None:
            return
        with contextlib.suppress(SessionError, MemoryError):  # the next cell's end goes on
            session.keeper.sweep(SLICE)
            if session.keeper.is_done:
                session.record()
            else:
                self._wait(session, loop)

    # -- what a person asks for -------------------------------------------------------------------

    def keep(self, engine: Engine) -> str:
        """Begin to keep variables; return the line on that.

        Raises
        ------
        MagicError
            If the session can't keep them.
        """
        if engine.can.keep:
            raise MagicError(engine.can.keep)
        if self._session is None:
            self._session = self._begin(engine)
        session = self._session
        began = time.perf_counter()
        session.begin(self._running.number, "", 0.0)
        session.finish()
        self._moved = True
        present = session.timeline.present
        assert present is not None
        seconds = time.perf_counter() - began
        linger = engine.ask(Summary()).linger if session.timeline.name else 0.0
        return texts.kept_text(present, seconds, linger)

    def stop(self) -> str:
        """Keep the variables no longer, and forget what was kept."""
        session = self._kept()
        session.timeline.forget()
        self.leave()
        return texts.NO_LONGER

    def undo(self) -> str:
        """Go to the checkpoint before the last cell that changed variables."""
        session = self._kept()
        session.finish()  # it may be that one
        line = session.timeline.line()
        did = next((n for n, each in enumerate(line) if each.changed or each.deleted), len(line))
        if did + 1 >= len(line):
            raise MagicError(texts.NOTHING_TO_UNDO)
        return self._move(session, line[did + 1])

    def checkout(self, cell: str) -> str:
        """Go to the checkpoint of a cell, by its number; or of a branch's last cell."""
        session = self._kept()
        timeline = session.timeline
        if cell in timeline.branches:
            return self.switch(cell)
        number = cell.strip("[]")
        target = timeline.of_cell(int(number)) if number.isdigit() else None
        if target is None:
            there = ", ".join(str(each.cell) for each in reversed(timeline.line()))
            raise MagicError(texts.no_checkpoint_text(cell, there, timeline.branches))
        return self._move(session, target)

    def _check_out(self, loop: asyncio.AbstractEventLoop, number: int, present: int) -> str:
        """Go to a checkpoint, for a view: ``present`` is the one that it shows. Not the main
        thread, which does it, unless a cell runs or has run."""
        if self._running.is_running:
            raise MagicError(texts.MEANWHILE)
        return asyncio.run_coroutine_threadsafe(self._go(number, present), loop).result()

    async def _go(self, number: int, present: int) -> str:
        session = self._kept()
        now = session.timeline.present
        target = next((each for each in session.timeline if each.number == number), None)
        if self._running.is_running or target is None or now is None or now.number != present:
            raise MagicError(texts.MEANWHILE)
        return self._move(session, target)

    def switch(self, branch: str) -> str:
        """Go to a branch's last checkpoint; a new branch begins with the present one."""
        session = self._kept()
        timeline, present = session.timeline, session.timeline.present
        assert present is not None
        if branch not in timeline.branches:
            timeline.move(present, branch)
            self._moved = True
            return texts.branch_text(branch, True)
        line = timeline.line(branch)
        return f"{texts.branch_text(branch, False)} {self._move(session, line[0], branch)}"

    def branches(self) -> CellHistory:
        return CellHistory(*self._kept().timeline.shown, only_ends=True)

    def history(self) -> CellHistory:
        return CellHistory(*self._kept().timeline.shown)

    @property
    def line(self) -> list[Checkpoint]:
        """The present branch's checkpoints, the last one first; none if nothing is kept."""
        return [] if self._session is None else self._session.timeline.line()

    def lost(self) -> LostTable:
        session = self._kept()
        present, there = session.timeline.present, self._variables
        missing = {name: each for name, each in session.missing.items() if name not in there}
        lost = session.keeper.lost | missing
        return LostTable(lost, *((present.not_compared, present.altered) if present else ({}, {})))

    def _kept(self) -> _KeptSession:
        if self._session is None or self._session.engine.end_reason is not None:
            raise MagicError(texts.NONE_KEPT)
        return self._session

    def _move(self, session: _KeptSession, target: Checkpoint, branch: str = "") -> str:
        session.finish()  # the present variables can be had again
        session.begin(self._running.number, "", 0.0, moved=True)  # as threads and callbacks left
        session.finish()
        present = session.timeline.present
        assert present is not None
        changed, groups = _differing(present, target)
        refs = [ref for group in groups for ref in (group.box, *group.buffers.values())]
        there = session.engine.get(refs, None, False)  # may wait, for the disk: Ctrl-C is heard
        with ki_protection():  # all is set back, or nothing: also the attributes of classes
            found = opened(session.engine, groups, target, self._variables)
            for name in (*present.names, *present.lost):
                if name not in target.names and name not in target.lost:
                    self._variables.pop(name, None)
            session.timeline.move(target, branch)
            self._moved |= self._running.is_running
        del there
        session.keeper.adopt(target, found)
        stays = [name for name in target.lost if name in self._variables]
        gone = {name: each for name, each in target.lost.items() if name not in stays}
        session.missing = {**gone, **found.failed}
        altered = {n: why for n, why in target.altered.items() if n in found.values}
        return printable(texts.moved_text(target, changed, session.missing, stays, altered))


def _differing(present: Checkpoint, target: Checkpoint) -> tuple[list[str], list[StoredGroup]]:
    """Return the variables in which two checkpoints differ, and the groups of the target that must
    be opened: if code differs, also those that refer to it."""
    same = {(group.box, group.place) for group in present.groups}
    groups = [group for group in target.groups if (group.box, group.place) not in same]
    differ = {name for group in groups for name in group.names}
    for table in ("plain", "modules"):
        now: Mapping[str, Any] = getattr(present, table)
        then: Mapping[str, Any] = getattr(target, table)
        differ |= {name for name in then if name not in now or not _is_same(now[name], then[name])}
    differ |= {n for n in present.names if n not in target.names and n not in target.lost}
    code = {name for group in groups if group.is_code for name in group.names}
    groups += [p for p in target.groups if p not in groups and p.uses & code]
    return sorted(differ), groups


def _names_in(source: str) -> set[str]:
    """Return the names that a cell reads or binds, also in functions that it defines; all words,
    if it has IPython's syntax."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {*source.replace(",", " ").split()}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and repr(one) == repr(other))
