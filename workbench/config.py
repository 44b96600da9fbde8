"""Settings of a session: one frozen record, and the sources of its defaults.

Strongest first: the caller's arguments, ``WORKBENCH_…`` variables, the config file
(``config.toml`` in the user's config directory), limits of the machine and its containers.
"""

from __future__ import annotations

import os
import re
import reprlib
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError
from workbench.format import human_bytes
from workbench.system.machine import cpu_count, memory_limit, spill_directory
from workbench.system.sizes import parse_bytes

SHARE_OF_MEMORY = 0.3
"""The store's default share of the available memory, as in Ray."""

SHARE_OF_HEADROOM, LEAST_HEADROOM, MOST_HEADROOM = 0.05, 48_000_000, 1_000_000_000
"""Memory that stays free by default: this share of the available memory, within these bounds. The
least is what a kernel takes to show an error, and its user to clear up."""

NOTEBOOK_LINGER = 120.0
"""Seconds a notebook's session outlives its kernel: time for a restart, and a coffee."""

LARGEST_STORE = 1 << 44
"""Bytes. A process has 128 TiB of addresses, and maps the segments of others too."""

ENGINES = ("local", "ray", "dask")
"""Engines that can run a session."""

LARGEST_FILE = 1 << 16
"""Size limit of a config file in bytes; a real one has some hundred."""

LONGEST_ADDRESS = 1000
"""Characters of an address."""

LONGEST_LINGER = 1e9
"""Seconds; the limit of the server's protocol."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a session.

    Parameters
    ----------
    session : str
        Name; processes with the same name share the session. Empty: a private one.
    workers : int
        Worker processes. 0: only actors, and tasks that need no processor.
    memory : int
        Bytes the store may hold.
    linger : float
        Seconds the session outlives its last driver, if that doesn't say goodbye.
    headroom : int
        Bytes of the machine's memory that stay free. What would take them fails with MemoryError
        in the notebook and in tasks; if others take them, the youngest task of the largest users
        is ended, lest Linux kill the notebook. 0: no such limit.
    reload : bool
        Have workers check for edited source files before each task. In a notebook with
        ``%autoreload`` on, and at ``importlib.reload``, they check anyway.
    spill_dir : str
        A directory on disk for objects that have no room in memory. Empty: they stay in memory,
        and a full store is an error.
    huge_pages : bool
        Ask the kernel for pages of 2 MB for shared memory: large arrays are written and read
        faster if it grants them. The status says whether it did.
    idle : float
        Seconds without use after which a session's workers end, until the next task, and its
        free memory is returned to the machine. 0: never.
    log_to_driver : bool
        Print here what tasks and actors print.
    glance : float
        Seconds that displays (the repr of a ref or a session) wait for the session.
    cpus : int
        Processors this process may use.
    engine : str
        The engine that runs it: one of `ENGINES`.
    address : str
        Address of a cluster, as Ray or Dask write it. Empty: their default.
    keep : bool
        Keep a notebook's variables after each cell, from the beginning: see ``%workbench keep``.
    cache_limit : int
        Bytes on disk that cached results may take, of all sessions together: see
        ``%%remote --cache``.
    """

    session: str = ""
    workers: int = 1
    memory: int = 1 << 30
    linger: float = 0.0
    headroom: int = 0
    reload: bool = False
    spill_dir: str = ""
    huge_pages: bool = False
    idle: float = 600.0
    log_to_driver: bool = True
    glance: float = 0.5
    cpus: int = 1
    engine: str = "local"
    address: str = ""
    keep: bool = False
    cache_limit: int = 10_000_000_000

    @property
    def threads(self) -> int:
        """Threads a worker's numerical libraries may use: its share of the cores."""
        return max(1, self.cpus // max(1, self.workers))


def load(
    given: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    file: Path | None = None,
) -> Config:
    """Return the settings in force. ``given`` are the caller's; None values don't count.

    ConfigError if a value can't be used; the message says which, from where, and what is valid.
    """
    cpus = cpu_count(root)
    limit = memory_limit(environ, root)
    merged: dict[str, Any] = {
        "workers": cpus,
        "memory": int(limit * SHARE_OF_MEMORY),
        "headroom": min(max(int(limit * SHARE_OF_HEADROOM), LEAST_HEADROOM), MOST_HEADROOM),
        "linger": NOTEBOOK_LINGER if notebook_path(environ) else 0.0,
        "session": notebook_session(environ),
        "spill_dir": spill_directory(environ, root),
    }
    path = _config_file() if file is None else file
    variables = {k: v for k in _PARSERS if (v := environ.get(f"WORKBENCH_{k.upper()}"))}
    for source, settings in (
        (str(path), _read(path)),
        ("the environment", variables),
        ("this call", {k: v for k, v in (given or {}).items() if v is not None}),
    ):
        for key, value in settings.items():
            merged[key] = _parse(key, value, source)
    return Config(cpus=cpus, **merged)


def too_large(
    config: Config, environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> str:
    """Return a warning if the store is larger than the available memory; else ''."""
    limit = memory_limit(environ, root)
    if config.memory <= limit:
        return ""
    return (
        f"The store may take {human_bytes(config.memory)}, and there are {human_bytes(limit)} of "
        "memory: before it is full, this process or the workers may be killed. Choose less "
        f"(`memory={human_bytes(int(limit * SHARE_OF_MEMORY)).replace(' ', '')!r}`), and larger "
        "objects go to disk."
    )


# -- parsing ----------------------------------------------------------------------------------


def _bytes(value: Any) -> int:
    size = parse_bytes(value) if isinstance(value, str) else int(value)
    if size < 1 << 20:
        raise ValueError("the store needs at least 1 MiB")
    if size > LARGEST_STORE:
        raise ValueError("16 TiB at most: a process can't map more")
    return size


def _up_to(value: Any) -> int:
    size = 0 if str(value).strip() == "0" else parse_bytes(str(value))
    if size > LARGEST_STORE:
        raise ValueError("16 TiB at most")
    return size


def _workers(value: Any) -> int:
    try:
        count = int(value)
    except ValueError:
        raise ValueError("a whole number") from None
    if not 0 <= count <= 256:
        raise ValueError("between 0 and 256")
    return count


def _seconds(value: Any) -> float:
    match = re.fullmatch(r"([0-9.]+)\s*(s|m|h)?", str(value).strip().lower())
    if not match:
        raise ValueError("write it like 30, 10m or 8h")
    seconds = float(match[1]) * {"m": 60, "h": 3600}.get(match[2], 1)
    if seconds > LONGEST_LINGER:
        raise ValueError("30 years at most")
    return seconds


def _session(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}(~[0-9a-f]{8})?", str(value)):
        raise ValueError("letters, digits, '-', '_' and '.', 50 at most")
    return str(value)


def _switch(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("0", "1", "true", "false", "yes", "no", "on", "off"):
        raise ValueError("1 or 0")
    return text in ("1", "true", "yes", "on")


def _directory(value: Any) -> str:
    text = str(os.fspath(value)).strip()
    if text.lower() in ("", "none", "off"):
        return ""
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise ValueError("there is no such directory; 'none' keeps everything in memory")
    if not os.access(path, os.W_OK | os.X_OK):
        raise ValueError("we may not write there; 'none' keeps everything in memory")
    return path


def _engine(value: Any) -> str:
    text = str(value).strip().lower()
    if text not in ENGINES:
        raise ValueError(f"there are {', '.join(ENGINES)}")
    return text


def _address(value: Any) -> str:
    text = str(value).strip()
    if len(text) > LONGEST_ADDRESS or re.search(r"\s", text):
        raise ValueError("write it like ray://host:10001 or tcp://host:8786")
    return text


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "workers": _workers,
    "memory": _bytes,
    "linger": _seconds,
    "session": _session,
    "headroom": _up_to,
    "reload": _switch,
    "spill_dir": _directory,
    "huge_pages": _switch,
    "idle": _seconds,
    "log_to_driver": _switch,
    "glance": _seconds,
    "engine": _engine,
    "address": _address,
    "keep": _switch,
    "cache_limit": _up_to,
}


def _parse(key: str, value: Any, source: str) -> Any:
    parser = _PARSERS.get(key)
    if parser is None:
        known = ", ".join(_PARSERS)
        raise ConfigError(f"There is no setting {key!r} (from {source}). There are: {known}.")
    try:
        return parser(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(
            f"{key}={_shown(value)} (from {source}) can't be used: {error}."
        ) from None


def _shown(value: Any) -> str:
    short = reprlib.Repr()
    short.maxstring = short.maxother = 300
    try:
        return short.repr(value)
    except ValueError:  # more digits than Python converts
        return "…"


def cache_directory() -> Path:
    """Return where cached results are, of all sessions of this user."""
    from platformdirs import user_cache_path

    return user_cache_path("workbench") / "results"


def _config_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("workbench") / "config.toml"


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is a pipe, not a file. Remove it.")
            text = file.read(LARGEST_FILE + 1)
    except OSError:  # there is no such file, or it isn't readable
        return {}
    try:
        if len(text) > LARGEST_FILE:
            raise ValueError(f"it has more than {human_bytes(LARGEST_FILE)}")
        import tomllib  # late: most people have no such file, and it delays a session's start

        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct or remove it.") from None


# -- this process ----------------------------------------------------------------------------------


def is_interactive() -> bool:
    """True if a person's cells run in this process."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and get_ipython() is not None


def notebook_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the notebook's path, as Jupyter or VS Code give it to the kernel; else ''.

    Programs that a notebook starts inherit its environment, but aren't the notebook.
    """
    if not is_interactive():
        return ""
    path = environ.get("JPY_SESSION_NAME", "")
    if not path:
        path = str(getattr(sys.modules.get("__main__"), "__vsc_ipynb_file__", "") or "")
    return path


def notebook_session(environ: Mapping[str, str]) -> str:
    """Return a name for a notebook that survives kernel restarts; '' outside one."""
    path = notebook_path(environ)
    if not path:
        return ""
    import hashlib

    digest = hashlib.sha256(os.path.join(os.getcwd(), path).encode()).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", Path(path).stem).strip("-")[:30] or "notebook"
    return f"{stem}-{digest}"
