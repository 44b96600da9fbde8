"""Cells whose results are kept on disk: `%%remote --cache`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from workbench import config
from workbench.engine.base import Engine
from workbench.errors import MagicError
from workbench.host.cached_runs import look_up
from workbench.host.cell import Cell, facts_of
from workbench.ipython.originals import Originals
from workbench.ipython.sent_settings import SentSettings
from workbench.ref import ObjectRef
from workbench.result_cache.code import texts_of
from workbench.result_cache.conditions import digest_of_file
from workbench.result_cache.fingerprints import StoredFingerprints, key_of, of_facts, of_packed
from workbench.result_cache.records import CacheRequest
from workbench.serialization.buffer_digests import BufferDigests
from workbench.surroundings.interpreter import working_directory


def cache_request(
    how: str | None, reads: Sequence[str] | None, actor: str | None
) -> CacheRequest | None:
    """Return how a cell asks for its result, from the magic's line; None if it doesn't.

    MagicError if that is impossible.
    """
    if not how:
        if reads:
            raise MagicError("--reads says what a cached result depends on: add --cache.")
        return None
    if actor:
        raise MagicError(
            "A cell in a namespace may depend on all cells before it there: no --cache."
        )
    files = tuple(str(Path(file).expanduser().absolute()) for file in reads or ())
    if absent := [file for file in files if not Path(file).is_file()]:
        raise MagicError(f"--reads: there is no file {', '.join(absent)}.")
    return CacheRequest(*_where(), trusts=how == "trust", reads=files)


@functools.cache
def _where() -> tuple[str, int]:
    """Return the directory of the results, and how much they may take."""
    return str(config.cache_directory()), config.load().cache_limit


class CachedCells:
    """One notebook's cells."""

    def __init__(self) -> None:
        self._fingerprints = StoredFingerprints()
        self._digests = BufferDigests()

    def looked_up(
        self,
        engine: Engine,
        cell: Cell,
        originals: Originals,
        item: str | None,
        settings: SentSettings,
    ) -> Cell:
        """Return the cell with what its result is known by; and with its key, if there is one: then
        it needs no inputs. ``item``: the variable of a cell that runs once per item."""
        asked = cell.cached
        if asked is None:
            return cell
        assert originals.packed is not None
        inputs = {"": of_packed(originals.packed, self._digests)}
        pending = [] if item is None else ["index", item]
        for name, ref in originals.names.items():
            assert isinstance(ref, ObjectRef)
            found = self._fingerprints.of(engine, ref)
            if found is None:
                pending.append(name)
            else:
                inputs[name] = found
        asked = replace(
            asked,
            facts=of_facts(
                [*facts_of(cell), *settings.facts, *map(digest_of_file, sorted(asked.reads))]
            ),
            inputs=inputs,
            cwd=working_directory(),
            texts=tuple(texts_of(originals.values.values())),
            pending=tuple(dict.fromkeys(pending)),
            draws_from=settings.draws_from,
        )
        key = "" if pending else key_of(asked.facts, inputs)
        if key and look_up(asked, key)[0] is not None:
            asked = replace(asked, key=key)
        return replace(cell, cached=asked)
