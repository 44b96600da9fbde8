"""Values and errors on their way through a cluster: what comes out is what went in."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

from workbench import errors
from workbench.engines.cluster import parcels
from workbench.engines.cluster.backend import StoredValue
from workbench.engines.cluster.parcels import Packer
from workbench.errors import ForeignRefError, ObjectFreedError, TaskCancelledError
from workbench.ref import ObjectRef


def packer(natives: dict[int, Any] | None = None) -> Packer:
    known = {} if natives is None else natives
    return Packer("session~1", 7, lambda ref: known[ref.id], "here")


def travelled(stored: StoredValue) -> tuple[StoredValue, list[pickle.PickleBuffer]]:
    """As a system moves it: pickled, its buffers apart and read-only where it comes."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(stored, 5, buffer_callback=buffers.append)
    came = pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])
    return came, buffers


VALUES = {
    "nothing": None,
    "in Fortran's order": np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
    "none of a thing": np.empty((0, 3)),
    "a record": {"x": np.ones((1000, 10)), "y": "text" * 10_000},
}


@pytest.mark.parametrize("what", VALUES)
def test_a_value_comes_out_as_it_went_in(what: str) -> None:
    value = VALUES[what]
    here = packer()
    came, _ = travelled(here.pack(value, None))
    for stored in (came, travelled(parcels.again(came))[0]):
        np.testing.assert_equal(here.open(1, stored), value)


def test_a_large_array_is_not_copied_on_either_side() -> None:
    value = np.arange(100_000.0)
    stored = packer().pack(value, None)
    (buffer,) = stored.buffers
    assert np.shares_memory(np.frombuffer(buffer, np.float64), value)
    came, _ = travelled(stored)
    read = packer().open(1, came)
    assert np.shares_memory(read, np.frombuffer(came.buffers[0], np.float64))
    assert not read.flags.writeable
    copied = packer().open(1, came, copy=True)
    copied[1] = 5
    assert read[1] == 1


class Engine:
    session = "session~1"


def test_refs_travel_with_their_natives_and_those_of_another_session_are_refused() -> None:
    def refuse(ref: ObjectRef) -> Any:
        raise ForeignRefError("another's")

    ref: Any = ObjectRef(11, Engine())  # type: ignore[arg-type]
    stored = packer({11: "native"}).pack({"deep": [ref]}, None)
    assert (stored.inside, stored.natives) == ((11,), ("native",))
    with pytest.raises(ForeignRefError, match="another's"):
        Packer("session~2", 7, refuse, "here").pack([ref], None)


def test_what_stands_for_an_error_raises_it() -> None:
    refusals = {"cancelled": TaskCancelledError, "freed": ObjectFreedError}
    for code, kind in refusals.items():
        with pytest.raises(kind, match="so it is"):
            packer().open(1, parcels.refused(code, "so it is"))
    with pytest.raises(LookupError):
        parcels.contents(parcels.refused("freed", "gone"))


@pytest.mark.parametrize(
    ("name", "ours", "words"),
    [
        ("OwnerDiedError", errors.ObjectLostError, "owned it has ended.*Make it again"),
        ("ObjectLostError", errors.ObjectLostError, "nodes.*have gone.*Run again"),
        ("ObjectFetchTimedOutError", errors.ObjectLostError, "in time.*Try again"),
        ("ObjectFreedError", errors.ObjectFreedError, "freed.*Put it again"),
    ],
)
def test_losses_are_in_our_words(name: str, ours: type[errors.WorkbenchError], words: str) -> None:
    ray = pytest.importorskip("ray")
    from workbench.engines.ray.system import translated

    error = getattr(ray.exceptions, name)("ab" * 28, owner_address=b"", call_site="")
    found = translated(error)
    assert type(found) is ours
    assert re.search(words, str(found))
    assert "abab" not in str(found)
    assert "RAY_" not in str(found)
