"""Settings in the form that travels: those that mean the same in another process."""

from __future__ import annotations

import io
import logging
import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from workbench.format import human_bytes
from workbench.serialization.estimate import Estimator
from workbench.serialization.pickler import Pickler
from workbench.surroundings.modules import MODULES
from workbench.surroundings.parts import parts

LARGEST = 1_000_000
"""Bytes up to which a variable of a module travels with the settings."""


def packed(value: Mapping[str, Mapping[Any, Any]]) -> tuple[bytes, dict[str, str]]:
    """Return the pickle of all values of parts that can be pickled; and why others can't, by what a
    person calls them."""
    with suppress(Exception):
        return _pickled(value), {}
    there: dict[str, dict[Any, Any]] = {}
    lost: dict[str, str] = {}
    for name, values in value.items():
        for key, each in values.items():
            try:
                _pickled({name: {key: each}})
            except Exception as error:
                lost |= dict.fromkeys(parts()[name].words([key]), str(error))
            else:
                there.setdefault(name, {})[key] = each
    return _pickled(there), lost


def opened(data: bytes) -> Any:
    return pickle.loads(data) if data else {}


def _pickled(value: Mapping[str, Mapping[Any, Any]]) -> bytes:
    for each in value.get(MODULES, {}).values():
        size = Estimator({}).estimate(each)
        if size.bytes > LARGEST or (size.at_least and size.can_be_pickled):
            raise pickle.PicklingError(f"it has more than {human_bytes(LARGEST)}")
    with io.BytesIO() as buffer:
        Pickler(buffer, _REDUCERS, lambda _: True).dump(value)  # all in band
        return buffer.getvalue()


def _stream_handler(handler: logging.StreamHandler[Any]) -> Any:
    names = [name for name in ("stderr", "stdout") if handler.stream is getattr(sys, name)]
    if not names:
        raise pickle.PicklingError(f"{handler} writes to something that only this process has")
    return _handler, (names[0], "", handler.level, handler.formatter)


_REDUCERS = {
    logging.NullHandler: lambda _: (logging.NullHandler, ()),
    logging.StreamHandler: _stream_handler,
    logging.FileHandler: lambda each: (
        _handler,
        ("", each.baseFilename, each.level, each.formatter),
    ),
}
"""Of handlers of loggers that write to the screen or a file."""


def _handler(
    stream: str, file: str, level: int, formatter: logging.Formatter | None
) -> logging.Handler:
    made = logging.StreamHandler(getattr(sys, stream)) if stream else None
    made = made or logging.FileHandler(file, delay=True)
    made.setLevel(level)
    made.setFormatter(formatter)
    return made
