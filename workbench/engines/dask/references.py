"""Which keys the value of another key refers to: they live as long as it. At Dask's scheduler, on
its event loop alone."""

from __future__ import annotations

from typing import Any

from workbench.engines.dask.kept_session import release, want


class References:
    """See the module. To Dask, the value that refers to keys is a client that wants them."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._inside: dict[str, list[str]] = {}  # key → keys of refs in its value

    def contains(self, key: str, inside: list[str], **_: Any) -> None:
        """The value of a key refers to these."""
        if key not in self._scheduler.tasks:
            return
        self._inside.setdefault(key, []).extend(inside)
        want(self._scheduler, inside, _wanter(key))

    def forgotten(self, key: str) -> None:
        """The value is gone. Called amid a transition: Dask must be through with that first."""
        inside = self._inside.pop(key, None)
        if inside is not None:
            later = self._scheduler.loop.add_callback
            later(release, self._scheduler, inside, _wanter(key))

    def clear(self) -> None:
        """None refers to any more."""
        for key in list(self._inside):
            release(self._scheduler, self._inside.pop(key), _wanter(key))


def _wanter(key: str) -> str:
    return f"workbench-in-{key}"
