"""Every message there is, there and back; and what isn't one is refused."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import THOROUGH
from workbench.core import events, instructions, loop_events
from workbench.errors import ProtocolError
from workbench.wire.codec import decode_from_client, decode_from_server, encode

FROM_CLIENT = typing.get_args(events.Message)
FROM_SERVER = typing.get_args(instructions.Message)
DECODERS = [(decode_from_client, FROM_CLIENT), (decode_from_server, FROM_SERVER)]


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type: so a new message is covered the day it is added."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated and arguments[0] is str:
        return st.from_regex(arguments[1].pattern, fullmatch=True)
    if origin is typing.Annotated:
        low, high = 0.0, 2.0**40
        for part in arguments[1:]:
            low = max(low, part.ge or 0, part.gt or 0)
            high = min(high, part.le or high, (part.lt or high + 1) - 1)
        whole = arguments[0] is int
        return st.integers(int(low), int(high)) if whole else st.floats(low, high)
    if origin is tuple and arguments[-1] is ...:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if arguments:  # a union
        return st.one_of(*map(values, arguments))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        return st.builds(kind, **{f: values(hints[f]) for f in kind.__struct_fields__})
    return {
        int: st.integers(-(2**63), 2**64 - 1),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str: st.text(max_size=10),
        bytes: st.binary(max_size=20),
        type(None): st.none(),
    }[kind]


@pytest.mark.parametrize("kind", dict.fromkeys(FROM_CLIENT + FROM_SERVER), ids=lambda k: k.__name__)
@settings(max_examples=400 if THOROUGH else 5)
@given(data=st.data())
def test_each_message_survives_the_wire(kind: Any, data: st.DataObject) -> None:
    message = data.draw(values(kind))
    for decode, kinds in DECODERS:
        if kind in kinds:
            assert list(decode(encode([message] * 2))) == [message] * 2


def test_nothing_the_loop_notices_can_come_from_a_client() -> None:
    for event in (loop_events.Left(), loop_events.Tick(), loop_events.WorkerExited(1, 0)):
        with pytest.raises(ProtocolError):
            decode_from_client(encode([event]))


def test_text_that_is_no_unicode_travels_escaped() -> None:
    (hello,) = decode_from_client(encode([events.Hello(1, 2, label="data\udcff/ü.py")]))
    assert hello.label == "data\\udcff/ü.py"


BAD = [
    encode([[1]]),  # Hello without its fields
    encode([[99]]),  # no such message
    encode([["Hello", 1, 2]]),
    encode({"a": 1}),
    encode([[1, 2, -5]]),  # a prefix below one
    encode([[13, 1, -1]]),  # growing by less than nothing
    encode([[1, 1, 1, 0, float("nan")]]),  # a linger that never ends
    encode([[1, 1, 1, 0, float("inf")]]),
    encode([[15, 1, 1, b"", [], [], -1]]),  # less than no results
    encode([[11, 1, "name"]]).replace(b"name", b"\xff\xfea!"),  # not utf-8
    encode([[2]]) + b"x",  # something behind it
    b"\xc1",
    b"",
    b"\x91" * 10_000,
]


@pytest.mark.parametrize("payload", BAD)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    for decode in (decode_from_client, decode_from_server):
        with pytest.raises(ProtocolError, match="Not a message of ours"):
            decode(payload)


@given(st.binary(max_size=200))
def test_junk_is_refused_or_happens_to_be_messages(junk: bytes) -> None:
    for decode, kinds in DECODERS:
        try:
            messages = decode(junk)
        except ProtocolError:
            continue
        assert all(type(m) in kinds for m in messages)
