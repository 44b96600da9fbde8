"""What a call may look like: held against Python itself, which calls the same functions."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.api.signatures import ANYTHING, signature_of, signature_of_class, signature_of_method


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., None]:
    """A function with parameters of all kinds, named a to f."""
    names = list("abcdef")
    only, plain, by_name = (draw(st.integers(0, 2)) for _ in range(3))
    without = draw(st.integers(0, only + plain))
    parts = [names.pop(0) + "=None" * (n >= without) for n in range(only + plain)]
    if only:
        parts.insert(only, "/")
    if draw(st.booleans()):
        parts.append("*rest")
    elif by_name:
        parts.append("*")
    parts += [names.pop(0) + ("=1" if draw(st.booleans()) else "") for _ in range(by_name)]
    if draw(st.booleans()):
        parts.append("**others")
    space: dict[str, Any] = {}
    exec(f"def function({', '.join(parts)}): pass", space)
    found: Callable[..., None] = space["function"]
    return found


@given(functions(), st.integers(0, 5), st.sets(st.sampled_from("abcdefg")))
def test_it_refuses_as_python(function: Callable[..., None], count: int, names: set[str]) -> None:
    args, kwargs = (0,) * count, dict.fromkeys(names, 1)
    for each, signature in (
        (function, signature_of(function)),
        (functools.partial(function, 1), signature_of(functools.partial(function, 1))),
        (functools.lru_cache(function), signature_of(functools.lru_cache(function))),
    ):
        signature = pickle.loads(pickle.dumps(signature))
        said = refused = ""
        try:
            each(*args, **kwargs)
        except TypeError as error:
            said = str(error)
        try:
            signature.check("function", args, kwargs)
        except TypeError as error:
            refused = str(error)
        assert bool(said) >= bool(refused), (signature, args, kwargs, refused)
        if type(each) is not functools.partial:  # which may be given again what it has
            assert bool(said) == bool(refused), (signature, args, kwargs, said)


def plain(x: int, y: float = 2, *, where: str) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {"where": ""}, "missing 1 required positional argument: 'x'"),
        ((1,), {}, "missing 1 required keyword-only argument: 'where'"),
        ((1, 2, 3), {}, "takes from 1 to 2 positional arguments but 3 were given"),
        ((1,), {"x": 2, "where": ""}, "got multiple values for argument 'x'"),
        ((1,), {"z": 2}, "got an unexpected keyword argument 'z'"),
    ],
)
def test_it_says_as_python(args: tuple[Any, ...], kwargs: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError) as caught:
        signature_of(plain).check("plain", args, kwargs)
    assert str(caught.value) == f"plain() {problem}. It is plain(x, y=2, *, where)."


class Made:
    def __init__(self, size: int) -> None: ...

    def method(self, x: int, /, y: int = 1) -> None: ...

    @staticmethod
    def static(x: int) -> None: ...

    @classmethod
    def of(cls, x: int) -> None: ...

    @functools.wraps(plain)
    def wrapped(self, *args: Any) -> None: ...

    def odd(*args: Any) -> None: ...


class New:
    def __new__(cls, a: int, *, b: int) -> New:
        return super().__new__(cls)


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        return super().__call__()


def test_classes_and_methods() -> None:
    plain = type("Plain", (), {})
    texts = [signature_of_class(kind).text for kind in (plain, Made, New)]
    assert texts == ["()", "(size)", "(a, *, b)"]
    unknown = Meta("OfMeta", (), {}), type("OfBuiltin", (dict,), {})
    assert [signature_of_class(each) for each in unknown] == [ANYTHING] * 2
    found = {name: signature_of_method(Made, name) for name in vars(Made) if name[:2] != "__"}
    assert {name: each.text for name, each in found.items()} == {
        "method": "(x, /, y=1)",
        "static": "(x)",
        "of": "(x)",
        "wrapped": "(*args)",  # what it wraps may take something else
        "odd": "(...)",
    }
    assert found["method"].names == ("x", "y")


def test_what_is_not_known_is_not_refused_and_long_defaults_are_left_out() -> None:
    for each in (max, functools.partial(plain, where=""), print):
        signature_of(each).check("each", (1, 2, 3, 4), {"key": 5})
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given"):
        signature_of(len).check("len", (1, 2), {})
    function = eval("lambda x='a' * 100, y=object(), z=None: None")
    assert signature_of(function).text == "(x=..., y=..., z=None)"
