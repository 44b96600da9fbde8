"""Many refs at once: gather, as_completed, map, with a progress bar. Uses only `api`."""

from __future__ import annotations

import builtins
import operator
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from workbench import api
from workbench.api.actors import ActorMethod
from workbench.api.functions import RemoteFunction, remote
from workbench.engine.base import Arrivals, Engine
from workbench.errors import GetTimeoutError
from workbench.errors.remote_frames import shell
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator

PATIENCE = 0.5
"""Seconds of waiting after which a bar appears."""

TICK = 1.0
"""Seconds after which a bar updates its time, even if nothing has come."""

WINDOW = 4096
"""Most unfinished tasks of one `map`: enough for thousands of workers, and an endless generator
doesn't fill the store."""


def gather(
    refs: Iterable[ObjectRef], *, progress: bool | None = None, timeout: float | None = None
) -> list[Any]:
    """Return the values of many refs, in the order given; raise the first failure at once.

    Like `get`, with a progress bar. After a failure the other tasks go on: `cancel` them, or use
    `map`.

    Parameters
    ----------
    refs : iterable of ObjectRef
        Refs of tasks or of stored objects.
    progress : bool, optional
        True: a bar (tqdm's); False: none. Default: a bar if it takes more than half a second, in
        a notebook or a terminal.
    timeout : float, optional
        Seconds to wait at most.

    Returns
    -------
    list
        The values.

    Raises
    ------
    GetTimeoutError
        If time is up. Nothing is lost.
    TaskError
        What the first task that failed raised; also an instance of its own type.
    ObjectFreedError, ObjectLostError, ForeignRefError, WorkerCrashedError
        If an object isn't available; the message says why.
    """
    wanted = _refs(refs, "gather")
    if not wanted:
        return []
    engine = api.engine()
    end = None if timeout is None else time.monotonic() + timeout
    different = dict.fromkeys(wanted)
    with closing(engine.arrivals(different)) as arrivals, _Bar(len(different), progress) as bar:
        for done in range(len(different)):
            ref = _next(arrivals, bar, end)
            if ref is None:
                raise GetTimeoutError(
                    f"{len(different) - done} of {len(different)} objects were not ready after "
                    f"{timeout} s. Their tasks go on; gather them again later, or wait longer."
                )
            _raise_if_failed(engine, ref)
            bar.advance()
    return engine.get(wanted, None, False)


class Completed:
    """Refs as they become ready, for ``for`` and ``async for``. Made by `as_completed`.

    Parameters
    ----------
    refs : list of ObjectRef
        The refs, without duplicates.
    progress : bool, optional
        See `as_completed`.
    """

    def __init__(self, refs: list[ObjectRef], progress: bool | None) -> None:
        self._refs = refs
        self._progress = progress

    def __iter__(self) -> Iterator[ObjectRef]:
        if not self._refs:
            return
        with self._awaited() as (arrivals, bar):
            for _ in self._refs:
                ref = _next(arrivals, bar)
                assert ref is not None
                bar.advance()
                yield ref

    async def __aiter__(self) -> AsyncIterator[ObjectRef]:
        if not self._refs:
            return
        with self._awaited() as (arrivals, bar):
            for _ in self._refs:
                ref = await _arrived(arrivals, bar)
                bar.advance()
                yield ref

    @contextmanager
    def _awaited(self) -> Iterator[tuple[Arrivals, _Bar]]:
        with (
            closing(api.engine().arrivals(self._refs)) as arrivals,
            _Bar(len(self._refs), self._progress) as bar,
        ):
            yield arrivals, bar

    def __len__(self) -> int:
        return len(self._refs)

    def __repr__(self) -> str:
        return f"<as_completed of {len(self._refs)} refs>"


def as_completed(refs: Iterable[ObjectRef], *, progress: bool | None = False) -> Completed:
    """Iterate over refs as they become ready, also over failed ones: their `get` raises.

    Parameters
    ----------
    refs : iterable of ObjectRef
        The refs; a duplicate comes once.
    progress : bool, optional
        True: a bar; None: the default of `gather`. Default: no bar.

    Returns
    -------
    Completed
        For use in ``for`` or ``async for``. Leaving the loop early loses nothing.

    Examples
    --------
    >>> for ref in as_completed(refs):  # doctest: +SKIP
    ...     print(get(ref))
    """
    return Completed(list(dict.fromkeys(_refs(refs, "as_completed"))), progress)


def map(
    fn: Callable[..., Any] | RemoteFunction[..., Any] | ActorMethod,
    items: Iterable[Any],
    *more: Iterable[Any],
    progress: bool | None = None,
) -> list[Any]:
    """Call a function with each item on the pool; return the results in the items' order.

    Like the builtin `map`, but parallel, and it waits. If a call fails or the wait is interrupted,
    all unfinished calls are cancelled.

    Parameters
    ----------
    fn : callable, or what `remote` made of one, or an actor's method
        Its options apply: ``map(f.options(num_cpus=2), items)``.
    items, *more : iterable
        One argument each, as for the builtin: the shortest ends it. They may be endless or larger
        than the memory: a few thousand calls are submitted at a time.
    progress : bool, optional
        As for `gather`.

    Returns
    -------
    list
        The results.

    Raises
    ------
    TaskError
        What the first call that failed raised; also an instance of its own type.
    TypeError
        If the function has no result, several, or yields.
    SerializationError
        If the function or an item can't be pickled.
    """
    function: Any = fn if isinstance(fn, RemoteFunction | ActorMethod) else remote(fn)
    if not isinstance(function, RemoteFunction | ActorMethod):
        raise TypeError("map takes a function. For a class, make actors, and map a method.")
    if function._options.num_returns != 1:
        raise TypeError(
            f"map takes a function with one result, not num_returns="
            f"{function._options.num_returns!r}. Call `.remote(...)` for each item instead."
        )
    total = _shortest(items, *more)
    calls = zip(items, *more, strict=False)
    engine = api.engine()
    refs: list[ObjectRef] = []
    done = 0
    with closing(engine.arrivals(())) as arrivals, _Bar(total, progress) as bar:

        def note(ref: ObjectRef | None) -> bool:
            nonlocal done
            if ref is not None:
                _raise_if_failed(engine, ref)
                done += 1
                bar.advance()
            return ref is not None

        def keep_below(most: int) -> None:
            """Note what has come, and wait until fewer than ``most`` are unfinished."""
            while note(arrivals.take()):
                pass
            while len(refs) - done >= most:
                note(_next(arrivals, bar))

        try:
            for arguments in calls:
                # One C call makes the ref and appends it: Ctrl-C can't come in between.
                refs.extend(builtins.map(lambda args: function.remote(*args), [arguments]))  # noqa: C417
                arrivals.add(refs[-1:])
                bar.refresh()
                keep_below(WINDOW)
            keep_below(1)
        except BaseException:
            if engine.end_reason is None:
                engine.cancel(refs)
            raise
    return engine.get(refs, None, False)


def _refs(refs: Iterable[ObjectRef], name: str) -> list[ObjectRef]:
    if isinstance(refs, ObjectRefGenerator):  # it would wait for the last item before all else
        raise TypeError(f"{name} takes a list of refs. Iterate a stream as it is, or list(stream).")
    if isinstance(refs, ObjectRef):
        raise TypeError(f"{name} takes a list of refs; for one ref write {name}([ref]).")
    found: list[Any] = list(refs)
    for ref in found:
        if isinstance(ref, ObjectRefGenerator):
            raise TypeError(
                f"{name} takes ObjectRefs, and a stream isn't one: it has many. Iterate it, or "
                "take its `completed()`, which is ready when the stream is over."
            )
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"{name} takes ObjectRefs; the list has a {type(ref).__name__}.")
    return found


def _shortest(*iterables: Iterable[Any]) -> int | None:
    """Return how many calls there will be, if all iterables know their length."""
    hints = [operator.length_hint(each, -1) for each in iterables]
    known = [hint for hint in hints if hint >= 0]
    return min(known) if len(known) == len(hints) else None


def _raise_if_failed(engine: Engine, ref: ObjectRef) -> None:
    if engine.state(ref) == "failed":
        engine.get([ref], None, False)


def _next(arrivals: Arrivals, bar: _Bar, end: float | None = None) -> ObjectRef | None:
    """Return the next ref that is ready, updating the bar; None after the time ``end``."""
    while True:
        left = None if end is None else max(end - time.monotonic(), 0.0)
        due = bar.due()
        limits = [limit for limit in (left, due) if limit is not None]
        ref = arrivals.next(min(limits, default=None))
        bar.refresh()
        if ref is not None or (end is not None and time.monotonic() >= end):
            return ref


async def _arrived(arrivals: Arrivals, bar: _Bar) -> ObjectRef:
    """Do the same as `_next` on an event loop."""
    import asyncio

    while (ref := arrivals.take()) is None:
        soon = arrivals.future_of_next()
        if soon is not None:
            await asyncio.wait([asyncio.wrap_future(soon)], timeout=bar.due())
            bar.refresh()
    return ref


class _Bar:
    """tqdm's bar, made when it is needed: importing it takes longer than most waits."""

    def __init__(self, total: int | None, progress: bool | None) -> None:
        self._total = total
        self._count = 0
        self._started = time.monotonic()
        self._due: float | None = None if progress is False else self._started
        if progress is None:
            self._due = self._started + PATIENCE if _is_watched() else None
        self._bar: Any = None

    def due(self) -> float | None:
        """Return the seconds until the bar has to be updated; None: never."""
        return None if self._due is None else max(self._due - time.monotonic(), 0.0)

    def advance(self) -> None:
        self._count += 1
        if self._bar is not None:
            self._bar.update()

    def refresh(self) -> None:
        now = time.monotonic()
        if self._due is None or now < self._due:
            return
        if self._bar is None:
            self._bar = bar = _tqdm()(total=self._total)
            bar.start_t = bar.last_print_t = bar.start_t - (now - self._started)
            bar.update(self._count)
        else:
            self._bar.refresh()
        self._due = now + TICK

    def __enter__(self) -> _Bar:
        self.refresh()
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    """True if a moving bar can be seen: in a kernel or a terminal."""
    in_kernel = getattr(shell(), "kernel", None) is not None
    return in_kernel or bool(getattr(sys.stderr, "isatty", bool)())


def _tqdm() -> Any:
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc,type-arg,unused-ignore]
        monitor_interval = 0  # no thread of its own: we refresh it

    return Bar
