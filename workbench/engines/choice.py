"""Which engine a person means: by a name, an address, a client that is connected; and starting it.

Neither Ray nor Dask is imported here before somebody has named it.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

from workbench.config import ENGINES, Config
from workbench.engine.base import Engine
from workbench.errors import ConfigError, SessionError
from workbench.options import Variables

PATIENCE = 10.0
"""Seconds for which an address is tried."""

SCHEMES = {
    "ray://": "ray",
    "tcp://": "dask",
    "tls://": "dask",
    "ucx://": "dask",
    "ws://": "dask",
    "wss://": "dask",
    "inproc://": "dask",
}
"""Whose addresses begin so."""

PACKAGES = {"ray": "ray", "dask": "distributed"}
"""What has to be installed, by engine."""

_PLACE = re.compile(r"((ray|tcp|tls)://)?(?P<host>\[[^]]+\]|[^:/]+):(?P<port>\d+)")
"""An address with a host and a port."""

NAMES = {"local": "this machine's own workers", "ray": "Ray", "dask": "Dask"}
"""What people call them."""

EXAMPLES = '`init("ray://host:10001")`, `init("tcp://host:8786")` or `init("ray")`'


class Choice(NamedTuple):
    """``engine`` and ``address`` as settings take them, None where nothing was said; ``target``: a
    distributed.Client, or the module ray, that is connected already."""

    engine: str | None = None
    address: str | None = None
    target: Any = None


def read(where: Any, engine: str | None, address: str | None) -> Choice:
    """What is meant by `init`'s arguments. ConfigError if they contradict each other, or there is
    no such engine. SessionError if it is the module ray, and that isn't connected. TypeError if
    ``where`` is nothing of the kind."""
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address= is text, not {type(address).__name__}.")
    found = _of_where(where)
    if address and found.address:
        raise ConfigError(f"Both {found.address!r} and address={address!r} say where. Say one.")
    address = address if found.address is None else found.address
    said = {name for name in (found.engine, engine, engine_at(address or "")) if name is not None}
    if unknown := said.difference(ENGINES):
        raise ConfigError(f"There is no engine {min(unknown)!r}. There are: {', '.join(ENGINES)}.")
    if len(said) > 1:
        both = " and ".join(sorted(said))
        raise ConfigError(f"An engine is named in two ways, and they differ: {both}. Say one.")
    chosen = next(iter(said), None)
    target = found.target
    if chosen is not None and address is None and target is None:
        target = live().get(chosen)  # what this process is connected to, if it is
        address = ""  # what the settings say may be another engine's
    return Choice(chosen, address, target)


def _of_where(where: Any) -> Choice:
    if where is None:
        return Choice()
    if isinstance(where, str):
        if where in ENGINES:
            return Choice(where)
        if engine_at(where) is not None:
            return Choice(engine_at(where), where)
        raise ConfigError(
            f"{where!r} is neither an engine ({', '.join(ENGINES)}) nor an address: write "
            f'{EXAMPLES}; of Ray\'s other addresses `init(engine="ray", address={where!r})`.'
        )
    system = system_of(where)
    if system == "ray" and not where.is_initialized():
        raise SessionError("This process isn't connected to Ray: `ray.init()` comes first.")
    if system is not None:
        return Choice(system, None, where)
    raise TypeError(
        f"init takes {EXAMPLES}, a distributed.Client or the module ray; not "
        f"{type(where).__name__}."
    )


def system_of(thing: object) -> str | None:
    """``ray`` of the module ray, ``dask`` of a distributed.Client. Imports nothing."""
    if isinstance(thing, ModuleType):
        return "ray" if thing.__name__ == "ray" else None
    names = {(c.__module__.partition(".")[0], c.__name__) for c in type(thing).__mro__}
    return "dask" if ("distributed", "Client") in names else None


def engine_at(address: str) -> str | None:
    """Whose address that is; None if it doesn't say."""
    return next((name for scheme, name in SCHEMES.items() if address.startswith(scheme)), None)


def live() -> dict[str, Any]:
    """By engine, what this process is connected to: the module ray, a distributed.Client.

    Imports nothing: who is connected has.
    """
    found: dict[str, Any] = {}
    ray, distributed = sys.modules.get("ray"), sys.modules.get("distributed")
    with suppress(Exception):  # half imported, or something else of that name
        if ray is not None and ray.is_initialized():
            found["ray"] = ray
    with suppress(Exception):  # ValueError: there is none
        if distributed is not None:
            found["dask"] = distributed.Client.current()
    return found


def offered(variables: Mapping[str, Any]) -> dict[str, str]:
    """By engine, what `init` takes for what this process is connected to: ``client``, ``ray``.

    ``variables`` may have it under a name.
    """
    found = {}
    for engine, target in live().items():
        names = [n for n, value in variables.items() if value is target and n[:1] != "_"]
        found[engine] = names[0] if names else repr(engine)
    return found


def require(choice: Choice, config: Config) -> None:
    """SessionError if what the engine needs isn't installed; the message has what installs it."""
    package = PACKAGES.get(config.engine)
    if package is not None and choice.target is None and find_spec(package) is None:
        raise SessionError(
            f"{NAMES[config.engine]} isn't installed in this Python, so there is nothing to "
            f"connect with: `pip install 'ipyworkbench[{config.engine}]'` installs it (in a "
            "notebook `%pip install` does; restart the kernel then). Install the same version as "
            "the cluster has."
        )


@cache
def _silent() -> set[str]:
    """Addresses at which nobody answered when they were tried last."""
    return set()


def wait_for_answer(address: str, patience: float = PATIENCE) -> None:
    """Until somebody listens there; SessionError after so many seconds. Where nobody did before,
    it is tried once.

    Ray by itself would try for minutes. An address without a port says nothing of where that is.
    """
    found = _PLACE.fullmatch(address)
    if found is None:
        return
    patience = 0.0 if address in _silent() else patience
    end, pause = time.monotonic() + patience, 0.05
    while True:
        try:
            left = max(end - time.monotonic(), 0.1)
            socket.create_connection((found["host"].strip("[]"), int(found["port"])), left).close()
            _silent().discard(address)
            return
        except OSError as error:
            if time.monotonic() + pause > end:
                _silent().add(address)
                raise SessionError(
                    f"Nobody answers at {address}; it was tried for {patience:g} s "
                    f"({error.strerror or error}). Is the cluster up, and its port open to this "
                    "machine?"
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def connect(
    choice: Choice, config: Config, variables: Variables = (), namespace: str = ""
) -> Engine:
    """Join the session that the settings name, or start it, with their engine. SessionError if what
    the engine needs isn't installed, nobody answers at its address for `PATIENCE` seconds, or the
    workers there can't have us."""
    if config.engine == "local":
        from workbench.engines import local  # brings numpy: not before it is needed

        return local.connect(config, variables, namespace)
    require(choice, config)
    if choice.target is None:
        wait_for_answer(config.address)
    backend = import_module(f"workbench.engines.{config.engine}.backend")
    engine: Engine = backend.connect(choice.target, config, variables, namespace)
    return engine
