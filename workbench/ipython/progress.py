"""Line under a cell that shows how far a long put or get is; the result replaces it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from workbench.engine.base import Engine
from workbench.engine.queries import Describe, OwnReducers, PutProgress
from workbench.engine.tally import CallTally
from workbench.errors import GetTimeoutError
from workbench.format import printable
from workbench.ipython.output import ERASE, Router
from workbench.ref import ObjectRef
from workbench.report import progress as texts
from workbench.report.job_status import CallsStatus
from workbench.report.markup import Rich
from workbench.serialization.estimate import Estimator

AFTER = 1.0  # seconds until the line appears: shorter waits need none
WORTH_WATCHING = 1_000_000  # bytes; storing less takes less than a second
COUNTING = 0.05  # seconds to estimate how much will be stored
EVERY = 0.5  # seconds between two updates


@contextmanager
def progress(
    router: Router, text_at: Callable[[float], str], after: float | None = None
) -> Iterator[Callable[..., None]]:
    """Show the progress of the block, once it takes longer than ``after`` seconds.

    Yields a function that ends the line and puts a result in its place; if there was no
    line, it prints the result, or not (``only_instead``). Without that call the line is removed.

    ``text_at`` returns the line's text for the seconds so far. It is called in a thread that ends
    with the block; its errors are dropped.
    """
    line, over = _ProgressLine(router), threading.Event()
    after = AFTER if after is None else after
    # The target is no closure: if Ctrl-C comes before the block, this frame dies, `finally` runs.
    thread = threading.Thread(
        target=_watch, args=(line, text_at, over, after), name="workbench-progress", daemon=True
    )

    try:
        thread.start()
        yield line.close
    finally:
        over.set()
        line.close()


def _watch(
    line: _ProgressLine, text_at: Callable[[float], str], over: threading.Event, pause: float
) -> None:
    began = time.monotonic()
    while not over.wait(pause):
        pause = EVERY
        with contextlib.suppress(Exception):  # the session ended; the block reports it
            line.show(text_at(time.monotonic() - began))


def watch_put(
    router: Router, engine: Engine, values: Mapping[str, Any], stored: Sequence[object]
) -> AbstractContextManager[Callable[[str], object]]:
    """Show the progress of storing these values in turn; ``stored`` grows with each."""
    estimator = Estimator(engine.ask(OwnReducers()), COUNTING)
    sizes = {name: estimator.estimate(value)[:2] for name, value in values.items()}
    if sum(nbytes for nbytes, _ in sizes.values()) < WORTH_WATCHING:
        return nullcontext(lambda text: print(printable(text)))

    def text_at(seconds: float) -> str:
        copying = engine.ask(PutProgress())
        name, (nbytes, at_least) = list(sizes.items())[min(len(stored), len(sizes) - 1)]
        if copying is not None:
            return texts.copying_text(name, *copying)
        return texts.pickling_text(name, nbytes, at_least, seconds)

    return progress(router, text_at)


class CallsProgress:
    """Progress of calls that running cells submit to executors or joblib: each cell has a line."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._shown: dict[int, _ShownTally] = {}  # by cell
        self._lock = threading.Lock()

    def tally(self) -> CallTally | None:
        """Return the tally of the cell whose code is running here. None if it is over, or nobody
        would see it."""
        router, origin = self._router, self._router.origin()
        if router.is_text(origin) or router.headless or not router.cell(origin).is_running:
            return None
        with self._lock:
            if origin not in self._shown:
                self._shown[origin] = _ShownTally(router)
            return self._shown[origin].tally

    def end(self) -> None:
        """Finish the lines of cells that are over."""
        with self._lock:
            ended = [self._shown.pop(origin) for origin in self._over()]
        for shown in ended:
            shown.close()

    def _over(self) -> list[int]:
        return [each for each in self._shown if not self._router.cell(each).is_running]


class _ShownTally:
    """Tally of one cell, and its line."""

    def __init__(self, router: Router) -> None:
        self.tally = CallTally(self._show)
        self._line = _ProgressLine(router)
        self._began = time.monotonic()

    def _show(self, done: int, known: int) -> None:
        self._line.show(CallsStatus(done, known))

    def close(self) -> None:
        self.tally.close()
        done, known = self.tally.done, self.tally.known
        seconds = time.monotonic() - self._began
        self._line.close(CallsStatus(done, known, seconds), only_instead=True)


class Waiting:
    """What a `%get` waits for: ``refs`` by name, and the ``names`` as a person typed them."""

    def __init__(self, engine: Engine, refs: Mapping[str, ObjectRef], names: str) -> None:
        self._engine = engine
        self._refs = refs
        self._names = names
        self._began = time.monotonic()
        self._makers: dict[str, str] = {}

    def wait(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds.

        Raises
        ------
        GetTimeoutError
            If something is still to come; nothing is lost.
        """
        _, late = self._engine.wait(list(self._refs.values()), len(self._refs), max(timeout, 0))
        if not late:
            return
        makers = {name: self._maker(name) for name, ref in self._refs.items() if ref in late}
        there = [name for name in self._refs if name not in makers]
        raise GetTimeoutError(texts.late_text(self._names, makers, there, timeout))

    def waiting_line(self, seconds: float) -> str:
        pending = [n for n, ref in self._refs.items() if self._engine.state(ref) == "pending"]
        makers = dict.fromkeys(filter(None, map(self._maker, pending)))
        return texts.waiting_text(self._names, list(makers) or pending, seconds)

    def arrived_line(self) -> str:
        return texts.arrived_text(self._names, time.monotonic() - self._began)

    def _maker(self, name: str) -> str:
        """Name the task that makes the object; asks the session once."""
        if name not in self._makers:
            described = self._engine.ask(Describe(self._refs[name].id))
            task = None if described is None else described.task
            self._makers[name] = "" if task is None else texts.maker_text(task.name)
        return self._makers[name]


class _ProgressLine:
    """One updated display in a kernel; in a terminal, one line that is overwritten."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._origin = router.origin()
        self._lock = threading.Lock()  # for the thread that closes, and the one that shows
        self._id = ""
        self._closed = False

    def show(self, text: str | Rich) -> None:
        """Show or update the line. In the thread."""
        with self._lock:
            if not self._closed:
                self._write(text)

    def close(self, text: str | Rich = "", only_instead: bool = False) -> None:
        """Show the result, once; a late update shows nothing any more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._id:
                self._write(text, last=True)
            elif text and not only_instead:
                print(printable(str(text)))

    def _write(self, what: str | Rich, last: bool = False) -> None:
        text = printable(str(what))
        is_new = not self._id
        self._id = self._id or self._router.display_id("progress")
        if not self._router.is_text(self._origin):
            bundle = {"text/plain": text} if isinstance(what, str) else what._repr_mimebundle_()
            self._router.display(self._origin, self._id, bundle, is_new)
        elif self._router.is_terminal and sys.stdout.isatty():
            self._router.passing_line = not last
            sys.stdout.write(ERASE + text + "\n" * (last and bool(text)))
            sys.stdout.flush()
        elif last and text:
            print(text)
