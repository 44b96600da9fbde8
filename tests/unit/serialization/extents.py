"""What a store would do with a serialized value, in ordinary memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.serialization import codec

Bytes = npt.NDArray[np.uint8]


def extent_of(serialized: codec.Serialized) -> Bytes:
    """Each part at its place in one read-only extent."""
    extent = np.zeros(max(serialized.size, 1), np.uint8)
    for number, (offset, part) in enumerate(serialized.layout()):
        assert number > len(serialized.buffers) or offset % codec.BUFFER_ALIGN == 0
        extent[offset : offset + part.nbytes] = np.frombuffer(part.tobytes(), np.uint8)
    extent.flags.writeable = False
    return extent
