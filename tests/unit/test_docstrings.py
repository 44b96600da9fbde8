"""What people can call is documented in full: a summary, every parameter, what comes back."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from numpydoc.validate import validate

import workbench as wb
from workbench.api.actors import ActorClass, ActorHandle, ActorMethod
from workbench.api.functions import RemoteFunction
from workbench.api.gathering import Completed
from workbench.engines.base import Engine

RETURNED = (ActorClass, ActorHandle, ActorMethod, Completed, RemoteFunction)
"""What public functions return, and people call methods of."""

CODES = {
    "GL06": "a section with an unknown name",
    "GL07": "sections in another order",
    "GL08": "no docstring",
    "SS01": "no summary",
    "SS03": "the summary doesn't end with a period",
    "PR01": "a parameter isn't documented",
    "PR02": "one is documented that there isn't",
    "PR03": "parameters in another order",
    "PR07": "a parameter that isn't described",
    "PR10": "no space before the colon",
    "RT01": "no word on what is returned",
    "YD01": "no word on what is yielded",
}
"""numpydoc's: https://numpydoc.readthedocs.io/en/latest/validation.html"""

CLS = "Unknown parameters {'cls'}"
"""It takes every first parameter of that name for a class method's."""


def public(found: Any) -> Iterator[tuple[str, Any]]:
    """What there is to document in it: (full name, object)."""
    if isinstance(found, ModuleType):
        for name in found.__all__:
            yield from public(getattr(found, name))
    elif callable(found):
        yield f"{found.__module__}.{found.__qualname__}", found
        for base in found.__mro__ if inspect.isclass(found) else ():
            if base.__module__.startswith("workbench."):
                for name, member in vars(base).items():
                    if not name.startswith("_") and isinstance(member, DOCUMENTED):
                        yield f"{base.__module__}.{base.__qualname__}.{name}", member


DOCUMENTED = (type(public), classmethod, staticmethod, property)

CALLED = [getattr(wb, name) for name in wb.__all__ if name != "exceptions"]
"""Nobody makes those."""

NAMES = dict(pair for found in (*CALLED, *RETURNED) for pair in public(found))


@pytest.mark.filterwarnings("ignore:Widget:DeprecationWarning")  # it looks at all that is inherited
@pytest.mark.parametrize("name", NAMES)
def test_all_that_people_can_call_is_documented(name: str) -> None:
    errors = validate(name)["errors"]
    assert not [text for code, text in errors if code in CODES and text != CLS]


def test_there_is_much_to_document() -> None:
    assert {"workbench.api.put", "workbench.ref.ObjectRef.future"} <= NAMES.keys()
    assert len(NAMES) > 60


def test_all_that_an_engine_is_asked_says_what_for() -> None:
    for name, member in inspect.getmembers(Engine, inspect.isfunction):
        assert name.startswith("_") or inspect.getdoc(member), name
