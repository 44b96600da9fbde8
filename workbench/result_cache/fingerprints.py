"""Digests of values and code: equal in every process, wherever the code stands in its file.

A cell on a worker has only what travels with it. So a digest of that is a digest of all that it
reads, except for what lies outside of the process: see `outside`, `conditions`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import xxhash

from workbench.engine.base import Engine
from workbench.engine.queries import Pack
from workbench.ref import ObjectRef
from workbench.result_cache.code import mentioned, own_modules
from workbench.serialization.buffer_digests import BufferDigests
from workbench.serialization.packing import OtherSide, PackedValues

FORMAT = "2"
"""Part of each key: changed when the same inputs have to give other keys, or entries change."""

MOST_REMEMBERED = 10_000
"""Stored objects whose digests a process remembers."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digest of a value. ``class_ids`` are cloudpickle's ids of the classes that travel in it:
    they differ in each process, and are no part of the digest. ``modules``: a person's own that it
    mentions."""

    digest: bytes
    class_ids: tuple[str, ...]
    modules: frozenset[str]


def fingerprint(engine: Engine, value: Any) -> Fingerprint:
    """Return the digest of any value. Runs code of its class.

    Raises
    ------
    SerializationError
        If it can't be pickled.
    """
    there = OtherSide(code_apart=True)
    return of_packed(engine.ask(Pack(value, lambda: {"a value": value}, there))[0])


def of_packed(packed: PackedValues, digests: BufferDigests | None = None) -> Fingerprint:
    """Return the digest of packed values, whose code is apart. ``digests`` are known ones."""
    digests = digests or BufferDigests()
    digest = xxhash.xxh3_128(packed.stream)
    codes = packed.code
    for code in codes:
        digest.update(repr(code_facts(code)).encode())
    for buffer in packed.buffers:
        digest.update(f"{buffer.dtype} {buffer.shape}".encode())
        digest.update(digests.digest(buffer))
    modules = mentioned(codes) | {n for n in own_modules() if n.encode() in packed.stream}
    return Fingerprint(digest.digest(), tuple(packed.class_ids), frozenset(modules))


class StoredFingerprints:
    """Digests of stored objects: each is computed once, as a stored object doesn't change."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Fingerprint] = {}

    def of(self, engine: Engine, ref: ObjectRef) -> Fingerprint | None:
        """Return the digest of an object; None if it isn't there yet, or failed."""
        found = self._known.get((ref.session, ref.id))
        if found is None:
            if engine.state(ref) != "ready":
                return None
            found = fingerprint(engine, engine.get([ref], None, False)[0])
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[ref.session, ref.id] = found
        return found


def of_facts(facts: Iterable[object]) -> str:
    """Return a digest of facts, each by its `repr`; and of the Python that runs."""
    digest = xxhash.xxh3_128()
    for fact in (FORMAT, platform.python_version(), platform.machine(), *facts):
        digest.update(repr(fact).encode() + b"\0")
    return digest.hexdigest()


def key_of(facts: str, inputs: Mapping[str, Fingerprint]) -> str:
    """Return the key of a result, for a file's name: of facts about the code, and of the inputs by
    name."""
    digest = xxhash.xxh3_128(facts.encode())
    for name, each in sorted(inputs.items()):
        digest.update(name.encode() + b"\0" + each.digest)
    return digest.hexdigest()


def class_ids(inputs: Mapping[str, Fingerprint]) -> list[str]:
    """Return the ids of all classes in the inputs, in an order that depends on the key only."""
    return [each for _, found in sorted(inputs.items()) for each in found.class_ids]


def code_facts(code: CodeType) -> tuple[object, ...]:
    """Return what a code object does, without where it stands: for `repr`."""
    return (
        code.co_name,
        code.co_qualname,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        [_constant(each) for each in code.co_consts],
    )


def _constant(value: object) -> object:
    """Return a constant of code for `repr`; a set has no order of its own."""
    match value:
        case CodeType():
            return code_facts(value)
        case tuple():
            return tuple(map(_constant, value))
        case frozenset():
            return "frozenset", sorted(map(repr, map(_constant, value)))
    return value
