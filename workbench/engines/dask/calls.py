"""What Dask itself runs for us, in a thread of a worker: it has a child run a head, and passes on
what that says. Nothing that a task does can raise here: its failure is a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.engines.cluster import heads
from workbench.engines.cluster.backend import ENDED, Message, TaskEnd
from workbench.engines.cluster.hosting import is_own
from workbench.engines.cluster.keeper import encode as encode_batch
from workbench.engines.cluster.outputs import LOST
from workbench.engines.cluster.parcels import refused
from workbench.engines.dask.actors import ActorGone, CallStopped
from workbench.engines.dask.channel import ActorShape, LendsSlot, MadeItem, RunHead, ShownBytes
from workbench.engines.dask.packed import Bundle, NativeForm, PackedValue, pack
from workbench.engines.dask.slots import ChildDied, SlotChild
from workbench.engines.dask.worker_plugin import WorkerSide

INLINE_RESULTS = 16 << 10
"""Bytes of results that travel beside the end of a task, so that nobody has to fetch them."""


class HeadCall(msgspec.Struct, array_like=True, frozen=True):
    """What a task's Dask key stands for. ``picks``: of each dependency, which value is meant.

    Its end goes to ``reply_to``, the number of who submitted it. A call of an ``actor`` has a
    ``number`` among those from there; its creation a ``shape``. ``function``: see `RunHead`.
    """

    key: str
    session: str
    reply_to: int
    task: int
    name: str
    head: bytes
    picks: list[int]
    inside: list[NativeForm]
    results: int
    retries: int = 0
    actor: int = 0
    number: int = 0
    shape: ActorShape | None = None
    group: str = ""
    ahead: int = 0
    function: bool = False


encode_call = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(HeadCall).decode
_encode_end = msgspec.msgpack.Encoder().encode
_encode_values = msgspec.msgpack.Encoder().encode


def run_head(call: bytes, *bundles: Bundle) -> Bundle:
    """A Dask task."""
    return Attempt(_decode_call(call), bundles).run()


class Attempt:
    """One call of `run_head`."""

    def __init__(self, call: HeadCall, bundles: Sequence[Bundle]) -> None:
        self._call = call
        self._bundles = bundles
        self._side = WorkerSide.here()
        self._side.begun.add(call.key)

    def run(self) -> Bundle:
        call = self._call
        left = call.retries
        while True:
            try:
                values, fds = self._values()
                message = RunHead(
                    call.task, call.head, call.session, self._side.scheduler, values, call.inside,
                    call.shape, False, call.group, call.ahead, call.function,
                )  # fmt: skip
                done, beside = self._side.run(call, message, fds, self._heard)
                return self._over(done.end, done.values, beside)
            except ChildDied as died:
                is_stopped = died.killed and not call.actor
                self._show_what_is_left(died, not is_stopped and left == 0)
                if is_stopped:
                    return self._failed("stopped", "cancelled", f"`{call.name}` was stopped.")
                if left == 0:
                    code = "actor" if call.actor else "crashed"
                    return self._failed("failed", code, self._said(died))
                left -= 1
            except CallStopped:
                return self._failed(
                    "stopped", "cancelled", f"`{call.name}` was stopped before it began."
                )
            except ActorGone as gone:
                said = f"{call.name.partition('.')[0]} {gone.why}"
                value = gone.value or pack(refused("actor", said))[0]
                return self._failed_as("failed", value)
            except BaseException as error:  # of the worker, or Dask's: never a task's own
                said = f"{type(error).__name__}: {error}"
                return self._failed("failed", "crashed", f"`{call.name}` did not run: {said}")

    def _show_what_is_left(self, died: ChildDied, is_failed: bool) -> None:
        """What the process showed last, and hadn't sent. Where nobody knows it, that is said; of a
        job by the keeper, unless it hears here that the task has ``failed``."""
        head = heads.decode(self._call.head)

        def message(kind: str, data: bytes) -> Message:
            return Message(head.task, kind, data, head.origin, head.audience, head.job, died.worker)

        if died.unsent is not None:
            left = [message(kind, data) for task, kind, data in died.unsent if task == head.task]
            if is_failed and is_own(head):
                end = TaskEnd(head.task, "failed", 0.0, 0, (True,), (None,), died.worker)
                left.append(message(ENDED, _encode_end(end)))
        else:
            left = [message("stderr", LOST.encode())] if is_failed and not head.job else []
        if left:
            self._side.shown(self._call.session, encode_batch(left))

    def _said(self, died: ChildDied) -> str:
        how = f"was killed by signal {-died.code}" if died.code < 0 else f"ended ({died.code})"
        words = f" It last wrote:\n{died.words}" if died.words else ""
        return f"The worker process {how} while it ran `{self._call.name}`.{words}"

    def _values(self) -> tuple[list[PackedValue], list[int]]:
        values, fds = [], []
        for bundle, pick in zip(self._bundles, self._call.picks, strict=True):
            packed = bundle.values[pick - 1]
            values.append(packed)
            if packed.lengths:
                fds.append(bundle.segment(pick - 1).fd)
        return values, fds

    def _heard(self, child: SlotChild, said: Any, fds: list[int]) -> None:
        """What a child says while it runs the task: in the thread that reads it."""
        if type(said) is ShownBytes:
            self._side.shown(self._call.session, said.data)
        elif type(said) is LendsSlot:
            self._side.lend(child, said.on)
        elif type(said) is MadeItem:
            self._side.store_item(self._call, said, fds)

    def _failed(self, how: str, code: str, text: str) -> Bundle:
        return self._failed_as(how, pack(refused(code, text))[0])

    def _failed_as(self, how: str, value: PackedValue) -> Bundle:
        call = self._call
        none: tuple[None, ...] = (None,) * call.results
        end = TaskEnd(call.task, how, 0.0, 0, (True,) * call.results, none)
        return self._over(_encode_end(end), [value] * call.results, [])

    def _over(self, end: bytes, values: list[PackedValue], fds: list[int]) -> Bundle:
        """The bundle; its end goes out on the channel at once, behind all that was shown."""
        call = self._call
        size = sum(value.nbytes for value in values)
        small = not fds and size <= INLINE_RESULTS
        told = ["end", call.key, end, _encode_values(values) if small else None]
        bundle = Bundle.of(call.key, end, values, fds)
        inside = [native[0] for value in values for native in value.natives]
        if inside:
            self._side.contains(call.key, inside)
        self._side.ends(call, told)
        return bundle
