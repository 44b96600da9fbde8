"""Settings of a server process. Plain data."""

from __future__ import annotations

import json

import msgspec

from workbench.config import Config


class Settings(msgspec.Struct, frozen=True):
    """One session's settings, as JSON on the command line: its ``config``, and where it is.

    ``listener``: inherited descriptor of the listening socket at ``address``; ``files``: removed at
    the end, in this order; ``path``: the driver's ``sys.path``, so that workers can import the
    same; ``threads``: how many threads a worker's libraries may use; ``flags``: flags of the
    driver's Python, which workers get too; ``cells``: workers will run a person's cells, not only
    tasks.
    """

    session: str
    listener: int
    address: str
    files: tuple[str, ...]
    config: Config
    threads: int
    path: tuple[str, ...]
    flags: tuple[str, ...] = ()
    cells: bool = False

    def text(self) -> str:
        """Return them as JSON: Python's, because paths may not be valid UTF-8."""
        return json.dumps(msgspec.to_builtins(self))


def settings_of(text: str | bytes) -> Settings:
    """Return the settings in this text; msgspec.ValidationError or ValueError if invalid."""
    return msgspec.convert(json.loads(text), Settings)
