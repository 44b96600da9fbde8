"""What a call takes along: its function and its arguments, as its head has them and as the system
moves them. What outlives the kernel takes nothing of the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, ClassVar

from msgspec.structs import replace

from workbench.client.arguments import SLOTTED, argument_names, pack_arguments
from workbench.client.function_cache import Export
from workbench.engine.base import Call, Exported
from workbench.engines.cluster.backend import MOST_CODE, Head, Launch, StoredValue
from workbench.engines.cluster.entries import of_object
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


class CallPacking(ClusterStore):
    """See the module. Any thread may call."""

    def launch(
        self,
        head: Head,
        sent: Sent | None,
        call: Call[Any],
        parameters: Callable[[], Sequence[str]],
        keep: bool,
    ) -> Launch:
        """A call with its function and arguments; of a method (no ``sent``) without its function.
        ``keep``: what it takes along outlives this process."""
        stored = StoredValue(b"")
        refs: list[ObjectRef] = []
        if call.args or call.kwargs:
            packed, refs = pack_arguments(call.args, call.kwargs, self.stored_as)
            stored = self.packer.pack(
                packed, lambda: argument_names(call.args, call.kwargs, parameters()), "arguments"
            )
        header, inside, natives = stored.header, stored.inside, stored.natives
        if sent is not None and sent.ref is not None:
            refs.insert(0, sent.ref)  # an actor may keep what is in it for good, as what is inside
            inside, natives = (sent.id, *inside), (self.native(sent.ref), *natives)
        deps = tuple(ref.id for ref in refs)
        dep_natives = tuple(of_object(self.native(ref)) for ref in refs)
        if keep:
            natives = self.outliving(inside, natives)
            dep_natives = self.outliving(deps, dep_natives)
        if stored.buffers:
            of_args = len(inside) - len(stored.inside)
            native = self.backend.put(stored._replace(natives=natives[of_args:]), keep)
            header, deps = SLOTTED, (self.next_id(), *deps)
            dep_natives = native, *dep_natives
        id, code = (0, b"") if sent is None else (sent.id, sent.code)
        head = replace(head, function=id, code=code, args=header, deps=deps, inside=inside)
        options = call.options
        return Launch(
            head, dep_natives, natives, cpus=options.num_cpus, memory=options.memory, keep=keep
        )

    def sent(self, function: Exported) -> Sent:
        """The function as it was sent; sent again if what it refers to is no longer the same."""
        handle = function.handle
        if handle is not None and handle[0] is self:
            known: Sent = handle[1]
            if known.export.is_current() and not known.export.has_more:
                return known
        what = "" if type(function.function) is FunctionType else f"function {function.name}"
        stored, done = self.packer.packed(
            function.function, lambda: {function.name: function.function}, what
        )
        export_of = partial(Export, code=done.code, called=function.function)
        reducers: Any = lambda: self.packer.reducers([])  # noqa: E731
        if not stored.buffers and not stored.inside and len(stored.header) <= MOST_CODE:
            id = self.next_id()
            export = export_of(ObjectRef(id, self), reducers=reducers)
            sent = Sent(id, stored.header, None, export)
        else:
            ref, _ = self.keep_packed(stored)
            sent = Sent(ref.id, b"", ref, export_of(ref, reducers=reducers))
        function.handle = self, sent
        return sent
