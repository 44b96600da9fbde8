"""Opens checkpoints: builds their variables anew, in a kernel that is new or has others."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from workbench.checkpoints.records import Checkpoint, Lost, Pickle, StoredGroup
from workbench.engine.base import Engine
from workbench.serialization.arrays import address
from workbench.serialization.class_states import earlier_states
from workbench.serialization.codec import Where
from workbench.serialization.packing import PackedValues

_WHERE = Where("a kept variable", "in this kernel")


class OpenedVariables(NamedTuple):
    """What was built. ``failed``: variables that couldn't be, with the reasons; ``sealed``: digests
    of stored buffers by address, which large arrays show until they are written."""

    values: dict[str, Any]
    failed: dict[str, Lost]
    sealed: dict[int, bytes]


def prepare(checkpoint: Checkpoint) -> str:
    """Set the directory and the module path; return why the directory can't be set, or ''."""
    sys.path[:] = dict.fromkeys((*checkpoint.path, *sys.path))
    try:
        os.chdir(checkpoint.directory)
    except OSError as error:
        return f"{checkpoint.directory}: {error.strerror}"
    return ""


def opened(
    engine: Engine,
    groups: Iterable[StoredGroup],
    checkpoint: Checkpoint,
    namespace: dict[str, Any],
) -> OpenedVariables:
    """Build the variables of some groups, and bind them.

    Imports modules and runs the code that rebuilds objects: only in the main thread. Large arrays
    are mapped, and copied page by page when they are written.
    """
    groups = sorted(groups, key=lambda group: not group.is_code)
    refs = {digest: ref for group in groups for digest, ref in group.buffers.items()}
    boxes = {group.box.id: group.box for group in groups}
    boxed = dict(zip(boxes, engine.get([*boxes.values()], None, False), strict=True))
    buffers = engine.get([*refs.values()], None, False)
    stored = {digest: each.array for digest, each in zip(refs, buffers, strict=True)}
    found = OpenedVariables({}, {}, {address(each): digest for digest, each in stored.items()})
    for name, module in checkpoint.modules.items():
        try:
            found.values[name] = importlib.import_module(module)
        except Exception as error:  # also the module's own
            found.failed[name] = Lost(f"module {module}", str(error), checkpoint.cell)
    found.values.update(checkpoint.plain)
    namespace |= found.values
    for group in groups:
        pickle: Pickle = boxed[group.box.id].pickles[group.place]
        buffers = [
            stored[each] if each in stored else np.frombuffer(each, np.uint8)
            for each in pickle.buffers
        ]
        packed = PackedValues(pickle.stream, buffers, pickle.refs)
        try:
            with earlier_states():
                values: Mapping[str, Any] = packed.open(_WHERE, namespace=namespace)[0]
        except Exception as error:
            lost = Lost("", str(error).partition("\n")[0], group.since)
            found.failed.update(dict.fromkeys(group.names, lost))
        else:
            namespace |= values
            found.values.update(values)
    return found
