"""What a failing put or get says: bounded, whatever fails, and true about depth."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.serialization.samples import LOCK, Holder
from workbench.errors import SerializationError
from workbench.serialization import codec
from workbench.serialization.inspection import MOST_SHOWN, inspect
from workbench.serialization.pickler import is_picklable
from workbench.serialization.rebuilding import LONGEST_PATH


def failing(value: Any) -> SerializationError:
    with pytest.raises(SerializationError) as caught:
        codec.serialize(value, {}, parts=lambda: {"obj": value})
    return caught.value


def test_a_few_failures_are_shown_and_all_are_there() -> None:
    error = failing([Holder(**{f"lock{i}": LOCK}) for i in range(23)])
    assert len(error.failures) == 23
    assert str(error).count("(_thread.lock)") == MOST_SHOWN
    assert f"… and {23 - MOST_SHOWN} more" in str(error)


def test_failures_that_are_alike_are_one_line() -> None:
    error = failing([LOCK] * 3 + [Holder(lock=LOCK) for _ in range(20)])
    assert len(error.failures) == 23
    assert str(error).count("(_thread.lock)") == 2
    assert "obj[0] (_thread.lock)" in str(error)
    assert "And 2 more are like it, up to obj[2]." in str(error)
    assert "obj[3].lock (_thread.lock)" in str(error)
    assert "And 19 more are like it, up to obj[22].lock." in str(error)
    found = inspect([LOCK, LOCK], {}, "obj")
    assert "And one more is like it, up to obj[1]." in str(found)
    assert found._repr_html_().count("_thread.lock</td>") == 1


def test_several_parts_are_named() -> None:
    with pytest.raises(SerializationError, match=r"^x and z can't be serialized, because of:"):
        codec.serialize(
            ([LOCK], 1, {"k": LOCK}), {}, parts=lambda: {"x": [LOCK], "y": 1, "z": {"k": LOCK}}
        )


class Explodes:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_long_path_is_cut_in_the_middle() -> None:
    value: Any = Explodes()
    for n in range(400):
        value = {f"key {n}": value}
    with pytest.raises(SerializationError) as caught:
        codec.deserialize_inline(codec.serialize(value, {}).inline())
    path = str(caught.value).split(" can't be rebuilt")[0]
    assert len(path) <= LONGEST_PATH + 3
    assert path.startswith("object['key 399']['key 398']")
    assert path.endswith("['key 1']['key 0']")


@pytest.mark.parametrize("depth", [950, 3000, 20_000])
def test_what_is_nested_too_deeply_is_to_be_flattened(depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]
    if depth < 20_000 and is_picklable(value, {}):  # from Python 3.13 on
        return
    assert re.match(r"(?s)obj can't be serialized.*(recursion|deep).*Flatten", str(failing(value)))
