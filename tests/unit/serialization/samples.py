"""Objects of the kinds that people store, for the tests of this directory."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from workbench.serialization import codec

LOCK = threading.Lock()


class Holder:
    """Anything, as attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    """Attributes in slots."""

    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Pair(NamedTuple):
    """A tuple with names."""

    a: Any
    b: Any


@dataclasses.dataclass
class Point:
    """Nothing but numbers."""

    x: float
    y: float


def points(count: int) -> list[Point]:
    """Distinct ones."""
    return [Point(i / 7, i / 11) for i in range(count)]


def texts(count: int) -> list[str]:
    """Distinct ones, each an object of its own."""
    return [f"text {i}" for i in range(count)]


def html(shown: Any) -> str:
    """As a notebook's page shows it."""
    return str(shown._repr_html_())


def closing_over(value: Any) -> Any:
    """A function with one variable of its surroundings."""

    def inner() -> Any:
        return value

    return inner


def by_value(source: str, **names: Any) -> Any:
    """A function ``test`` as notebooks have them: of no module that anybody can import."""
    namespace = {"__name__": "__main__", **names}
    exec(source, namespace)
    return namespace["test"]


def looped() -> list[Any]:
    """Refers to itself, twice."""
    loop: list[Any] = [1]
    loop.append((loop, {"loop": loop}))
    return loop


KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.text()))


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Leaves in containers in containers."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner),
            st.tuples(inner, inner),
            st.dictionaries(KEYS, inner),
            st.sets(KEYS),
            st.builds(Holder, a=inner, b=inner),
        ),
        max_leaves=20,
    )


def extent_of(serialized: codec.Serialized) -> npt.NDArray[np.uint8]:
    """Each part at its place in one read-only extent."""
    extent = np.zeros(max(serialized.size, 1), np.uint8)
    for number, (offset, part) in enumerate(serialized.layout()):
        assert number > len(serialized.buffers) or offset % codec.BUFFER_ALIGN == 0
        extent[offset : offset + part.nbytes] = np.frombuffer(part.tobytes(), np.uint8)
    extent.flags.writeable = False
    return extent
