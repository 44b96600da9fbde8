"""Heads: all that a task takes along besides the natives of its arguments, as one bytes argument.

Systems are quickest with one argument of bytes. Pure.
"""

from __future__ import annotations

import msgspec

from workbench.core.events import TaskSpec

MOST_CODE = 8 << 10
"""Bytes of a function that travel with each call. A larger one is an object of its own."""


class Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One task. Its id is that of its first result, chosen by whoever submits it.

    ``audience`` is the prefix of the driver that sees what it shows, with the number ``origin``;
    ``job`` the id of the background cell it belongs to, 0 if it is none's. ``function`` is the id
    of what it calls, 0 of a method; ``code`` that, if it is small. ``args`` are its pickled
    arguments without ``deps``: the objects whose values come along, which are ``args`` if these are
    large, the function if it is, and then arguments. ``inside`` are refs in all these. ``actor`` is
    the one whose ``method`` it calls, or that it makes. ``parent``: the task that submitted it.
    ``called``: the name of the actor that it makes. ``retries``: so often its host tries again
    after an exception that its spec names.
    """

    task: int
    name: str
    session: str
    audience: int
    origin: int = 0
    function: int = 0
    code: bytes = b""
    args: bytes = b""
    deps: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    returns: int = 1
    actor: int = 0
    method: str = ""
    spec: TaskSpec | None = None
    job: int = 0
    parent: int = 0
    retries: int = 0
    called: str = ""

    @property
    def is_own(self) -> bool:
        """True if it is one of a background cell's own tasks, and none that these submit."""
        return self.spec is not None and bool(self.spec.job)

    @property
    def ids(self) -> range:
        """Those of its results."""
        return range(self.task, self.task + self.returns)

    @property
    def needs(self) -> tuple[int, ...]:
        """The objects that came along."""
        return (*self.deps, *self.inside)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Head).decode
