"""Session files: what is saved comes back, and what was changed is refused."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from tests.patience import THOROUGH
from workbench.engine.base import Engine
from workbench.engine.queries import Pack
from workbench.errors import SessionFileError
from workbench.serialization.packing import pack
from workbench.session_file import contents
from workbench.session_file.contents import SessionFile, save
from workbench.session_file.layout import HEAD, MAGIC, PAGE

VALUES: dict[str, Any] = {
    "empty": np.zeros((0, 3)),
    "fields": np.zeros(3, [("x", int), ("y", "U3"), ("z", float, (2, 2))]),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "number": 1.5,
    "scalar": np.array(7),
    "strided": np.arange(20)[::2],
    "table": pa.table({"x": [1, 2], "s": ["a", None]}),
    "text": "grün\ud800",
    "when": np.array(["2026-01-01"], "M8[D]"),
}
"""What opens without code, by name."""


@pytest.fixture(scope="module")
def engine() -> Any:
    class Packs:
        """The part of an engine that saving uses."""

        def ask(self, query: Any) -> Any:
            assert type(query) is Pack
            return pack(query.value, {}, [], query.parts, there=query.there)

    return Packs()


@pytest.mark.parametrize("level", [0, 3])
def test_what_needs_no_code_is_opened_without(tmp_path: Path, engine: Engine, level: int) -> None:
    saved = save(tmp_path / "f.wb", VALUES, {}, engine, level)
    assert sorted(saved.names) == sorted(VALUES)
    assert saved.nbytes == (tmp_path / "f.wb").stat().st_size
    found, failed = SessionFile(tmp_path / "f.wb").open({})
    assert not failed
    for name, value in VALUES.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tobytes("A") == np.copy(value, "K").tobytes("A")
            assert found[name].flags.writeable
        else:
            assert found[name] == value
    found["fortran"][0, 0] = 9  # only here
    assert SessionFile(tmp_path / "f.wb").open({})[0]["fortran"][0, 0] == 0


def test_what_runs_code_is_opened_if_it_is_trusted(tmp_path: Path, engine: Engine) -> None:
    base = np.arange(10.0)
    values = {"base": base, "view": base[2:4], "held": [base], "os": __import__("os")}
    lost = save(tmp_path / "f.wb", {**values, "rows": (n for n in [1])}, {}, engine, 0).lost
    assert "generator" in lost["rows"]
    file = SessionFile(tmp_path / "f.wb")
    assert file.open({})[0] == {}
    found, _ = file.open({}, trusted=True)
    found["base"][2] = -1
    assert (found["view"][0], found["held"][0] is found["base"]) == (-1, True)
    save(tmp_path / "f.wb", {"__builtins__": 1}, {}, engine, 0)
    with pytest.raises(SessionFileError, match="damaged"):
        SessionFile(tmp_path / "f.wb")


def test_a_file_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, engine: Engine
) -> None:
    save(tmp_path / "f.wb", {"n": 1}, {}, engine, 0)

    class Fails:
        def __reduce__(self) -> Any:
            if is_late:
                raise KeyboardInterrupt
            return Fails, ()

    is_late = False
    values = {"fails": Fails(), "large": np.zeros(10)}
    contents._sorted(values, {}, engine)
    is_late = True
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "f.wb", values, {}, engine, 0)
    assert SessionFile(tmp_path / "f.wb").open({})[0] == {"n": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["f.wb"]


def is_refused_or_same(path: Path, data: bytes, expected: dict[str, Any]) -> bool:
    path.write_bytes(data)
    try:
        found, failed = SessionFile(path).open({})
    except SessionFileError:
        return True
    return not failed and {n: np.asarray(v).tobytes() for n, v in found.items()} == expected


def test_a_changed_byte_is_seen_wherever_it_is(tmp_path: Path, engine: Engine) -> None:
    """All but those between the blocks, which mean nothing."""
    values = {"a": np.arange(4), "s": "text", "f": np.ones((2, 2), order="F")}
    save(tmp_path / "f.wb", values, {}, engine, 0)
    whole = (tmp_path / "f.wb").read_bytes()
    expected = {name: np.asarray(value).tobytes() for name, value in values.items()}
    ends = PAGE, 2 * PAGE, 3 * PAGE
    places = [*range(64), *(n for end in ends for n in range(end - 4, end + 60))]
    for place in [*places, *range(3 * PAGE, len(whole))]:
        if place < len(whole):
            changed = whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :]
            assert is_refused_or_same(tmp_path / "g.wb", changed, expected), place
    for length in range(0, len(whole), 7):
        assert is_refused_or_same(tmp_path / "g.wb", whole[:length], expected), length


@pytest.mark.thorough
def test_a_hostile_index_is_an_error_and_nothing_else(tmp_path: Path, engine: Engine) -> None:
    """Its checksum is right; its fields are whatever somebody wrote there."""
    save(tmp_path / "f.wb", {"a": np.arange(4), "t": pa.table({"x": [1]})}, {}, engine, 0)
    whole = (tmp_path / "f.wb").read_bytes()
    _, begin, length, _ = HEAD.unpack(whole[: HEAD.size])
    index = whole[begin : begin + length].decode()
    chance = random.Random(3)
    instead = ["-1", "1e9", "18446744073709551615", "null", "[]", "{}", '"O"', '"x"', "4096", "0"]
    for _ in range(10_000 if THOROUGH else 300):
        tokens = [*filter(None, re.split(r"([-\w.\"]+)", index))]
        for _ in range(chance.randint(1, 3)):
            tokens[chance.randrange(len(tokens))] = chance.choice(instead)
        text = "".join(tokens).encode()
        head = HEAD.pack(MAGIC, begin, len(text), xxhash.xxh3_64_intdigest(text))
        (tmp_path / "g.wb").write_bytes(head + whole[len(head) : begin] + text)
        with contextlib.suppress(SessionFileError):  # any other error fails
            SessionFile(tmp_path / "g.wb").open({})
