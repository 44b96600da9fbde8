"""Role: what a driver and a worker each answer in their own way. `client.client` asks it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from workbench.core import instructions as do


class Role(Protocol):
    """See the module. Any thread may ask."""

    @property
    def task(self) -> do.Run | None:
        """The task that the calling code is part of."""

    @property
    def actor(self) -> int:
        """The actor whose process this is, 0 if it is none's."""

    def origin(self) -> int:
        """The number that a task submitted now carries to where its output is shown."""
        ...

    def roots(self) -> Mapping[str, Any]:
        """What holds objects here under a name that is no variable's; see `engines.base.WHERE`."""
        ...

    def blocking(self) -> AbstractContextManager[None]:
        """Around every wait for objects."""
        ...

    def show_prints(self) -> None:
        """What tasks are known to have printed is shown, before a person goes on because of it."""
        ...
