"""What a server process is told at its start. Plain data."""

from __future__ import annotations

import json

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """One session's settings, as JSON on the command line.

    ``listener`` is the inherited descriptor of the listening socket at ``address``; ``files``
    are removed at the end, in this order; ``path`` is the driver's ``sys.path``, so that workers
    import what the notebook can; ``threads`` is how many threads a worker's libraries may use;
    ``pickle_debug`` has workers pickle slowly and say where something broke. ``headroom`` is how
    many bytes of the machine's memory shall stay free. ``spill_dir`` is where objects go that move
    to disk, '' if none do; ``huge_pages`` has workers ask for such. ``reload`` has workers look
    for edited source files before each task. ``idle`` is after how many seconds without use the
    workers end; ``flags`` are those of the driver's Python that a worker's shall have; ``cells``:
    workers will run a person's cells, not tasks alone.
    """

    session: str
    listener: int
    address: str
    files: tuple[str, ...]
    workers: int
    capacity: int
    threads: int
    path: tuple[str, ...]
    pickle_debug: bool = False
    headroom: int = 0
    spill_dir: str = ""
    huge_pages: bool = False
    reload: bool = False
    idle: float = 0.0
    flags: tuple[str, ...] = ()
    cells: bool = False

    def text(self) -> str:
        """As JSON: Python's, because paths may hold bytes that are no UTF-8."""
        return json.dumps(msgspec.to_builtins(self))


def settings_of(text: str | bytes) -> Settings:
    """What `Settings.text` was given; msgspec.ValidationError or ValueError if it is none."""
    return msgspec.convert(json.loads(text), Settings)
