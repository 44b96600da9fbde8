"""What a value is said to weigh, against what its pickle does; and what a function brings."""

from __future__ import annotations

import io
import types
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.serialization import codec
from workbench.serialization.estimate import MOST_OBJECTS, SMALL, Scale


class Model:
    def __init__(self) -> None:
        self.weights = [np.ones(1000) for _ in range(300)]


WORDS = [f"{i:50}" for i in range(10**5)]

VALUES: dict[str, Any] = {
    "array": np.ones((300, 1000)),
    "a transposed slice": np.ones((1000, 1000)).T[::2],
    "a broadcast row": np.broadcast_to(np.ones(1000), (1000, 1000)),
    "bytes": bytes(10**6),
    "text": "x" * 10**6,
    "floats": [float(i) for i in range(10**5)],
    "a dict of arrays": {i: np.ones(100) for i in range(5000)},
    "a nested list": [[str(i) * 20] * 3 for i in range(20_000)],
    "the same array many times": [np.ones(10**5)] * 1000,
    "ordered": OrderedDict((str(i), "x" * 100) for i in range(10_000)),
    "deque": deque(np.ones(1000) for _ in range(1000)),
    "an instance": Model(),
    "a table of numbers": pd.DataFrame(np.ones((10**5, 3))),
    "a table of text": pd.DataFrame({"a": WORDS}),
    "objects in a table": pd.DataFrame({"a": pd.Series(WORDS, dtype=object)}),
    "objects in an array": np.array(WORDS, dtype=object),
}


@pytest.mark.parametrize("name", VALUES)
def test_it_is_about_what_the_pickle_is(name: str) -> None:
    value = VALUES[name]
    stored = codec.serialize(value, {})
    real = stored.inband + stored.outband
    said = Scale({}).weigh(value).bytes
    assert real / 3 < said < real * 3


def test_what_two_values_share_counts_for_the_first() -> None:
    shared = np.ones(10**6)
    scale = Scale({})
    assert scale.weigh([shared]).bytes > shared.nbytes
    assert scale.weigh({"again": shared}).bytes < 1000
    assert scale.weigh(shared).bytes == 0


def test_a_tangle_without_end_is_looked_at_for_a_moment() -> None:
    root: list[Any] = []
    for _ in range(40):
        root = [[*root, object()], [*root, object()]]
    root[0].append(root)
    scale = Scale({})
    scale.weigh([{i: [object()] for i in range(64)} for _ in range(10 * MOST_OBJECTS // 64)])
    scale.weigh(root)
    assert len(scale._seen) <= 2 * MOST_OBJECTS


def namespace(source: str) -> dict[str, Any]:
    """What a notebook has after a cell."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(source, variables)
    return variables


def test_a_notebooks_function_brings_the_globals_that_it_reads() -> None:
    made = namespace(
        "import math\n"
        "table, other, k = b'x' * 1000, b'y' * 1000, 2\n"
        "def inner(): return table\n"
        "def outer(a, b=b'z' * 500):\n"
        "    def within(): return k, math.pi\n"
        "    return inner()\n"
        "class Thing:\n"
        "    def method(self): return other\n"
        "def close(over): return lambda: over\n"
        "closure = close(b'w' * 700)"
    )
    outer = Scale({}).weigh(made["outer"])
    assert outer.brings.keys() == {"inner", "k", "math"}  # not `table`: that is inner's
    assert 500 < outer.bytes < 1000
    assert not outer.by_import
    assert Scale({}).weigh(made["inner"]).brings == {"table": made["table"]}
    assert Scale({}).weigh(made["Thing"]()).brings == {"other": made["other"]}
    assert Scale({}).weigh(made["Thing"]).brings == {"other": made["other"]}
    assert 700 < Scale({}).weigh(made["closure"]).bytes < 1200


@pytest.mark.parametrize("thing", [np, np.linalg.norm, np.add, len, io.StringIO, types, pd.concat])
def test_what_is_imported_travels_as_a_name(thing: Any) -> None:
    assert Scale({}).weigh(thing) == (SMALL, True, {})


def test_a_custom_reducer_is_not_called() -> None:
    def never(value: Any) -> Any:
        raise AssertionError(value)

    assert Scale({Model: never}).weigh(Model()).bytes == SMALL
