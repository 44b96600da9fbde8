"""Role: what a driver and a worker each answer in their own way. `client.client` asks it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

from workbench.core import instructions as do
from workbench.engine.lending_future import Lending, Missing
from workbench.engine.tally import CallTally


class Role(Protocol):
    """See the module. Any thread may ask."""

    @property
    def task(self) -> do.Run | None:
        """The task that the calling code is part of."""

    @property
    def actor(self) -> int:
        """The actor whose process this is, 0 if it is none's."""

    @property
    def is_restarted(self) -> bool:
        """Whether that was made again, after its process had died."""

    @property
    def namespace(self) -> str:
        """That of the driver from which the calling code comes: of actors' names."""

    def origin(self) -> int:
        """The number that a task submitted now carries to where its output is shown."""
        ...

    def roots(self) -> Mapping[str, Any]:
        """What holds objects here under a name that is no variable's; see `Cells.roots`."""
        ...

    def blocking(
        self, missing: Missing, enough: int = 0, item: int = 0
    ) -> AbstractContextManager[None]:
        """Around every wait for objects: until so many of them are there; 0: all, or one that
        failed. With ``item`` for that one of a generator, or its end."""
        ...

    def polled(self, missing: Missing) -> None:
        """Somebody looked for these, and they aren't there."""
        ...

    @property
    def lending(self) -> Lending | None:
        """What lends the slot of the task that runs here; None if there is none to lend."""

    def tally(self) -> CallTally | None:
        """Where the calls that the running cell submits are counted; None if nobody looks."""

    def new_future(self, missing: Missing, item: int = 0) -> Future[Any]:
        """A new one, for one of these objects."""
        ...

    def show_prints(self) -> None:
        """What tasks are known to have printed is shown, before a person goes on because of it."""
        ...
