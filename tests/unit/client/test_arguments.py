"""Refs among a call's arguments are taken out, and values come in their places."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.client.arguments import (
    argument_names,
    name_at,
    pack_arguments,
    parameters_of,
    places_of,
    with_values,
)
from workbench.engine.base import Engine
from workbench.ref import ObjectRef
from workbench.serialization.codec import serialize_small

NOBODY = cast(Engine, object())  # nothing here asks a ref for more than its id


def nowhere(value: Any) -> None:
    """Of no array the store has it."""


refs = st.builds(ObjectRef, st.integers(1, 5), st.just(NOBODY))
plain = st.one_of(st.integers(), st.text(max_size=3), st.lists(refs, max_size=2))
arguments = st.lists(refs | plain, max_size=5).map(tuple)
keywords = st.dictionaries(st.sampled_from("abc"), refs | plain)


@given(arguments, keywords)
def test_refs_at_the_top_become_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    packed, refs = pack_arguments(args, kwargs, nowhere)
    assert refs == [a for a in (*args, *kwargs.values()) if type(a) is ObjectRef]
    assert not any(type(a) is ObjectRef for a in (*packed[0], *packed[1].values()))

    def value(argument: Any) -> Any:
        return f"value {argument.id}" if type(argument) is ObjectRef else argument

    filled = with_values(packed, [value(ref) for ref in refs])
    assert filled == (tuple(map(value, args)), {k: value(v) for k, v in kwargs.items()})


def test_none_stays_none_and_keywords_keep_their_order() -> None:
    ref = ObjectRef(1, NOBODY)
    packed, _ = pack_arguments((None, ref, None), {"b": None, "a": ref}, nowhere)
    args, kwargs = with_values(packed, ["one", "two"])
    assert (args, list(kwargs.items())) == ((None, "one", None), [("b", None), ("a", "two")])


def test_refs_and_small_things_go_through_pythons_own_pickler() -> None:
    """Ours takes twenty times as long."""
    packed, _ = pack_arguments((ObjectRef(1, NOBODY), 2), {"c": ObjectRef(3, NOBODY)}, nowhere)
    assert serialize_small(packed) is not None


@given(arguments, keywords)
def test_errors_name_refs_as_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def few(first: Any, *rest: Any) -> None: ...

    packed, refs = pack_arguments(args, kwargs, nowhere)
    for parameters in (parameters_of(few), (), ("a", "b")):
        named = argument_names(args, kwargs, parameters)
        if len(named) == len(args) + len(kwargs):
            places = places_of(packed)
            assert [named[name_at(place, parameters)] for place in places] == refs


def test_an_array_that_the_store_has_goes_as_its_ref() -> None:
    stored, other, ref = np.arange(3), np.arange(3), ObjectRef(1, NOBODY)
    found = {id(stored): ref}
    packed, refs = pack_arguments((other, stored), {"a": stored}, lambda one: found.get(id(one)))
    assert [r.id for r in refs] == [1, 1]
    assert packed[0][0] is other
    assert packed[0][1] is packed[1]["a"] is None
    assert packed[2:] == ((1, "a"),)
