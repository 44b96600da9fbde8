"""The settings of a session: one frozen record, and where its defaults come from.

Strongest first: what the caller says, ``WORKBENCH_…`` variables, the config file
(``config.toml`` in the user's config directory), what the machine and its containers allow.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError
from workbench.units import parse_bytes

SHARE_OF_MEMORY = 0.3
"""The store's default share of the memory there is: what Ray takes too."""

UNLIMITED = 1 << 60
"""Kernels write "no limit" as a number near 2**63."""

NOTEBOOK_LINGER = 120.0
"""Seconds a notebook's session outlives its kernel: time for a restart, and a coffee."""

LONGEST_LINGER = 1e9
"""Seconds; what the server's protocol takes."""


@dataclass(frozen=True, slots=True)
class Config:
    """How a session is to be.

    Attributes
    ----------
    session : str
        Name; processes that name the same session share it. Empty: one of our own.
    workers : int
        Worker processes.
    memory : int
        Bytes the store may hold.
    linger : float
        Seconds the session outlives its last driver, unless it says goodbye.
    pickle_debug : bool
        Serialize with a pickler in Python, some thirty times slower, which shows the stack of
        objects when something breaks midway.
    cpus : int
        Processors this process may use.
    """

    session: str = ""
    workers: int = 1
    memory: int = 1 << 30
    linger: float = 0.0
    pickle_debug: bool = False
    cpus: int = 1

    @property
    def threads(self) -> int:
        """Threads a worker's numerical libraries may use: the cores are shared out."""
        return max(1, self.cpus // self.workers)


def load(
    given: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    file: Path | None = None,
) -> Config:
    """The settings in force.

    Parameters
    ----------
    given : mapping, optional
        What the caller says: ``session, workers, memory, linger``. None values don't count.
    environ, root, file
        Where to look; tests give their own.

    Raises
    ------
    ConfigError
        If a value can't be used; the message says which, from where, and what would do.
    """
    cpus = cpu_count(root)
    merged: dict[str, Any] = {
        "workers": cpus,
        "memory": int(memory_limit(environ, root) * SHARE_OF_MEMORY),
        "linger": NOTEBOOK_LINGER if _in_notebook(environ) else 0.0,
        "session": notebook_session(environ),
    }
    path = _config_file() if file is None else file
    for source, settings in (
        (str(path), _read(path)),
        ("the environment", _from_environment(environ)),
        ("this call", {k: v for k, v in (given or {}).items() if v is not None}),
    ):
        for key, value in settings.items():
            merged[key] = _parse(key, value, source)
    return Config(cpus=cpus, **merged)


# -- parsing ----------------------------------------------------------------------------------


def _bytes(value: Any) -> int:
    size = parse_bytes(value) if isinstance(value, str) else int(value)
    if size < 1 << 20:
        raise ValueError("the store needs at least 1 MiB")
    return size


def _workers(value: Any) -> int:
    count = int(value)
    if not 1 <= count <= 256:
        raise ValueError("between 1 and 256")
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
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}", str(value)):
        raise ValueError("letters, digits, '-', '_' and '.', 50 at most")
    return str(value)


def _switch(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("0", "1", "true", "false", "yes", "no", "on", "off"):
        raise ValueError("1 or 0")
    return text in ("1", "true", "yes", "on")


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "workers": _workers,
    "memory": _bytes,
    "linger": _seconds,
    "session": _session,
    "pickle_debug": _switch,
}


def _parse(key: str, value: Any, source: str) -> Any:
    parser = _PARSERS.get(key)
    if parser is None:
        known = ", ".join(_PARSERS)
        raise ConfigError(f"There is no setting {key!r} (from {source}). There are: {known}.")
    try:
        return parser(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{key}={value!r} (from {source}) can't be used: {error}.") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        key: environ[f"WORKBENCH_{key.upper()}"]
        for key in _PARSERS
        if environ.get(f"WORKBENCH_{key.upper()}")
    }


def _config_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("workbench") / "config.toml"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError:  # there is none, or it isn't for us
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct or remove it.") from None


# -- what the machine allows --------------------------------------------------------------------


def cpu_count(root: Path = Path("/")) -> int:
    """Processors this process may use: affinity and cgroup quota (v2, then v1), at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota: float | None = None
    for directory in _cgroups(root, "cpu"):
        fields = _text(directory / "cpu.max").split()
        if len(fields) == 2 and fields[0] != "max":
            quota = min(quota or 1e9, int(fields[0]) / int(fields[1]))
        limit, period = (
            _number(directory / "cpu.cfs_quota_us"),
            _number(directory / "cpu.cfs_period_us"),
        )
        if limit and period and limit > 0:
            quota = min(quota or 1e9, limit / period)
    return max(1, min(count or 1, round(quota) if quota is not None else 1 << 20))


def memory_limit(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> int:
    """Bytes of memory there are for us: the least of RAM, cgroup limits and ``MEM_LIMIT``.

    JupyterHub (and so Binder) sets ``MEM_LIMIT``.
    """
    limits = []
    match = re.search(r"MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"))
    if match:
        limits.append(int(match[1]) * 1024)
    for directory in _cgroups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(directory / name)
            if limit is not None and 0 < limit < UNLIMITED:
                limits.append(limit)
    try:
        limits.append(parse_bytes(environ.get("MEM_LIMIT", "")))
    except ValueError:
        pass
    return min(limits, default=4 << 30)


def _cgroups(root: Path, controller: str) -> list[Path]:
    """Directories of this process's cgroup for a controller and of all its parents, v1 and v2."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controllers
            if not base.is_dir():
                base = root / "sys/fs/cgroup" / controller
        else:
            continue
        parts = [p for p in path.split("/") if p not in ("", "..")]
        found += [base.joinpath(*parts[:i]) for i in range(len(parts) + 1)]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


# -- who we are -----------------------------------------------------------------------------------


def _notebook_path(environ: Mapping[str, str]) -> str:
    """The notebook's path, as Jupyter or VS Code tell its kernel; '' if they don't."""
    path = environ.get("JPY_SESSION_NAME", "")
    if not path:
        import sys

        path = str(getattr(sys.modules.get("__main__"), "__vsc_ipynb_file__", "") or "")
    return path


def _in_notebook(environ: Mapping[str, str]) -> bool:
    return bool(_notebook_path(environ))


def notebook_session(environ: Mapping[str, str]) -> str:
    """A name that stays the same for one notebook across kernel restarts; '' outside one."""
    path = _notebook_path(environ)
    if not path:
        return ""
    import hashlib

    digest = hashlib.sha256(os.path.join(os.getcwd(), path).encode()).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", Path(path).stem).strip("-")[:30] or "notebook"
    return f"{stem}-{digest}"
