"""What a call takes along: its arguments and its function, as its head has them and as the system
moves them. What outlives the kernel takes nothing of the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

from workbench.client.arguments import SLOTTED, argument_names, pack_arguments
from workbench.client.function_cache import Export
from workbench.engine.base import Exported
from workbench.engines.cluster.backend import Native
from workbench.engines.cluster.heads import MOST_CODE
from workbench.engines.cluster.store import ClusterStore
from workbench.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Sent:
    """A function as it was sent: in each head, or (no ``code``) as an object of its own."""

    id: int
    code: bytes
    ref: ObjectRef | None
    export: Export

    is_a_functions: ClassVar[bool] = True  # see `client.references.is_ours`


class PackedArguments(NamedTuple):
    """``args`` and ``deps`` are `Head`'s, ``dep_natives`` those of the latter; ``inside`` are the
    ids of other refs in them, and ``natives`` theirs."""

    args: bytes = b""
    deps: tuple[int, ...] = ()
    dep_natives: tuple[Native, ...] = ()
    inside: tuple[int, ...] = ()
    natives: tuple[Native, ...] = ()


class CallPacker:
    """See the module. Any thread may call."""

    def __init__(self, process: ClusterStore) -> None:
        self._process = process

    def arguments(
        self, args: Any, kwargs: Any, parameters: Callable[[], Sequence[str]], keep: bool
    ) -> PackedArguments:
        """Arguments, which may have names. ``keep``: they outlive this process."""
        if not args and not kwargs:
            return PackedArguments()
        packed, refs = pack_arguments(args, kwargs, self._process.stored_as)
        deps = tuple(ref.id for ref in refs)
        natives = tuple(self._dep(ref) for ref in refs)
        stored = self._process.packer.pack(
            packed, lambda: argument_names(args, kwargs, parameters()), "arguments"
        )
        if keep:
            inside = self._process.outliving(stored.inside, stored.natives)
            stored = stored._replace(natives=inside)
            natives = self._process.outliving(deps, natives)
        if not stored.buffers:
            return PackedArguments(stored.header, deps, natives, stored.inside, stored.natives)
        native = self._process.backend.put(stored, keep)
        return PackedArguments(
            SLOTTED, (self._process.next_id(), *deps), (native, *natives), stored.inside,
            stored.natives,
        )  # fmt: skip

    def _dep(self, ref: ObjectRef) -> Native:
        native = self._process.native(ref)
        return native[1] if type(native) is tuple else native

    def code(self, sent: Sent | None, keep: bool) -> tuple[tuple[int, ...], tuple[Native, ...]]:
        """Id and native of a function that is an object of its own; nothing if it isn't."""
        if sent is None or sent.ref is None:
            return (), ()
        natives: tuple[Native, ...] = (self._process.native(sent.ref),)
        return (sent.id,), self._process.outliving((sent.id,), natives) if keep else natives

    def function(self, function: Exported) -> Sent:
        """The function as it was sent; sent again if what it refers to is no longer the same."""
        handle = function.handle
        if handle is not None and handle[0] is self._process:
            known: Sent = handle[1]
            if known.export.is_current() and not known.export.has_more:
                return known
        what = "" if type(function.function) is FunctionType else f"function {function.name}"
        stored, done = self._process.packer.packed(
            function.function, lambda: {function.name: function.function}, what
        )
        export_of = partial(Export, code=done.code, called=function.function)
        reducers: Any = lambda: self._process.packer.reducers([])  # noqa: E731
        if not stored.buffers and not stored.inside and len(stored.header) <= MOST_CODE:
            id = self._process.next_id()
            export = export_of(ObjectRef(id, self._process), reducers=reducers)
            sent = Sent(id, stored.header, None, export)
        else:
            ref, _ = self._process.keep_packed(stored)
            sent = Sent(ref.id, b"", ref, export_of(ref, reducers=reducers))
        function.handle = self._process, sent
        return sent
