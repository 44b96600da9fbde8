"""Role: what a driver and a worker each answer in their own way. `client.client` asks it."""

from __future__ import annotations

from typing import Protocol

from workbench.core import instructions as do
from workbench.engine.base import CellListener, Running
from workbench.engine.lending_future import Lending


class Role(Protocol):
    """See the module. Any thread may ask."""

    listener: CellListener
    """What is told and asked of the code that runs in this process."""

    @property
    def task(self) -> do.Run | None:
        """The task that the calling code is part of."""

    @property
    def namespace(self) -> str:
        """That of the driver from which the calling code comes: of actors' names."""

    @property
    def lending(self) -> Lending | None:
        """What lends the slot of the task that runs here; None if there is none to lend."""

    def here(self) -> Running:
        """Where the calling code runs."""
        ...
