"""Role: what differs between a driver and a worker. `client.client` asks it."""

from __future__ import annotations

from typing import Protocol

from workbench.core import instructions as do
from workbench.engine.base import CellListener, Running
from workbench.engine.lending_future import Lending


class Role(Protocol):
    """Answers of a driver or a worker. Any thread may ask."""

    listener: CellListener
    """What is told and asked of the code that runs in this process."""

    @property
    def task(self) -> do.Run | None:
        """The task that the calling code is part of."""

    @property
    def namespace(self) -> str:
        """Namespace for actors' names, of the driver from which the calling code comes."""

    @property
    def lending(self) -> Lending | None:
        """Lends the slot of the task that runs here; None if there is none to lend."""

    def here(self) -> Running:
        """Return where the calling code runs."""
        ...
