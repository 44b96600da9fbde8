"""A run whose result is kept on disk: it is found there, or made and stored."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import CodeType
from typing import Any

from workbench import context
from workbench.engine.base import Engine
from workbench.engine.queries import Pack
from workbench.errors import SerializationError, SessionFileError, WorkbenchError
from workbench.format import human_bytes, joined
from workbench.host.display import recorded, show_again
from workbench.host.outstream import MOST_RECORDED
from workbench.host.reloading import edited_since_import
from workbench.report import cached as texts
from workbench.result_cache.code import mentioned, reached, texts_in, texts_of
from workbench.result_cache.entries import ResultCache, StoredResult
from workbench.result_cache.fingerprints import Fingerprint, class_ids, fingerprint, key_of
from workbench.result_cache.outside import Outside, watched
from workbench.result_cache.records import CacheRequest, FromCache, ResultFacts, Shown
from workbench.serialization.codec import Where
from workbench.serialization.packing import OtherSide

_WHERE = Where("a cached result", "here")


class FreshRun:
    """A run that just ended: its result, and what storing that needs to know."""

    def __init__(self, value: Any, drew: bool, why: str = "") -> None:
        self.value, self.drew, self.why = value, drew, why


def cache_of(asked: CacheRequest) -> ResultCache:
    return ResultCache(Path(asked.directory), asked.limit)


def look_up(asked: CacheRequest, key: str) -> tuple[StoredResult | None, tuple[str, ...]]:
    """Return the result of that key, unless what it depends on has changed; and what has."""
    entry = cache_of(asked).find(key)
    if entry is None or asked.trusts or asked.key:
        return entry, ()
    here = asked.cwd.rstrip(os.sep) + os.sep
    changed = tuple(each.removeprefix(here) for each in entry.facts.conditions.changed())
    return (None, changed) if changed else (entry, ())


def found_or_made(
    asked: CacheRequest,
    values: dict[str, Any],
    code: Iterable[CodeType],
    make: Callable[[], FreshRun],
) -> tuple[Any, FromCache, Mapping[str, str]]:
    """Return the result, what became of the request, and today's ids of classes by those of then.

    ``values`` are the inputs that are pending; ``code`` is what runs, apart from own modules.

    Raises
    ------
    WorkbenchError
        If a result that was found isn't there any more.
    Exception
        What ``make`` raises: nothing is stored then.
    """
    engine = context.get()
    assert engine is not None
    inputs = asked.inputs | {name: fingerprint(engine, each) for name, each in values.items()}
    key = asked.key or key_of(asked.facts, inputs)
    entry, changed = look_up(asked, key)
    if entry is not None:
        try:
            new_ids = entry.new_ids(class_ids(inputs))
            packed, shown = entry.read(new_ids)
            value = packed.open(_WHERE)[0]
        except (SessionFileError, SerializationError):
            cache_of(asked).remove(key)
            entry = None
        else:
            for each in shown:
                show_again(*each)
            cache_of(asked).use(key)
            same = entry.facts.draws_from in ("", asked.draws_from)
            return value, FromCache(entry.facts, same_draws=same), new_ids
    if asked.key:
        raise WorkbenchError(texts.GONE)
    made, why = _make(engine, asked, key, inputs, values, list(code), make)
    return made, FromCache(None, why, changed), {}


def _make(
    engine: Engine,
    asked: CacheRequest,
    key: str,
    inputs: Mapping[str, Fingerprint],
    values: Mapping[str, Any],
    code: Sequence[CodeType],
    make: Callable[[], FreshRun],
) -> tuple[Any, str]:
    """Return the result of a run, and why it isn't stored, or ''."""
    outside = Outside()
    texts_there = *texts_in(code), *texts_of(values.values()), *asked.texts, *asked.reads
    outside.names(texts_there, asked.cwd)
    began, since = time.perf_counter(), time.time()
    with watched(outside) as alone, recorded() if alone else nullcontext([]) as shown:
        made = make()
    if not alone:
        return made.value, ""
    seconds = time.perf_counter() - began
    why = made.why or _why_not(outside, shown, asked)
    used = reached(mentioned(code).union(*(each.modules for each in inputs.values())))
    if edited := edited_since_import(sorted(used), since):
        why = texts.EDITED.format(joined(edited))
    if why:
        return made.value, why
    conditions, changed = outside.conditions(used, asked.reads)
    if changed and not asked.trusts:
        return made.value, texts.CHANGED.format(joined(changed))
    unchecked, draws_from = outside.unchecked(code), asked.draws_from if made.drew else ""
    ids = class_ids(inputs)
    facts = ResultFacts(time.time(), seconds, conditions, unchecked, ids, draws_from)
    return made.value, _store(engine, asked, key, made.value, facts, shown)


def _why_not(outside: Outside, shown: list[Shown], asked: CacheRequest) -> str:
    """Return why a result can't be stored, apart from itself; '' if it can."""
    if any(kind == "comm" for kind, _, _ in shown):
        return texts.WIDGETS
    if sum(len(data) for _, data, _ in shown) > MOST_RECORDED:
        return texts.FLOOD
    if outside.calls and not asked.trusts:
        return texts.CALLS
    return ""


def _store(
    engine: Engine,
    asked: CacheRequest,
    key: str,
    value: Any,
    facts: ResultFacts,
    shown: list[Shown],
) -> str:
    """Store a result; return why that isn't possible, or ''."""
    try:
        there = OtherSide(code_apart=True)
        packed = engine.ask(Pack(value, lambda: {"its result": value}, there))[0]
    except SerializationError as error:
        return texts.UNPICKLED.format(error.failures[0].why if error.failures else error)
    if packed.refs:
        return texts.REFS
    cache, nbytes = cache_of(asked), len(packed.stream) + sum(b.nbytes for b in packed.buffers)
    if nbytes > asked.limit:
        return texts.LARGE.format(human_bytes(nbytes), human_bytes(asked.limit))
    if not cache.is_private():
        return texts.SHARED.format(asked.directory)
    try:
        cache.store(key, facts, packed, shown)
    except OSError as error:
        return f"{asked.directory}: {error.strerror or error}"
    return ""
