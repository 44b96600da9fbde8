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
from workbench.engine.base import Engine

RETURNED = (ActorClass, ActorHandle, ActorMethod, Completed, RemoteFunction)
"""What public functions return, and people call methods of."""

CODES = {
    *("GL06", "GL07", "GL08"),  # sections: unknown names, another order; no docstring
    *("SS01", "SS03"),  # no summary, or no period at its end
    *("PR01", "PR02", "PR03", "PR07", "PR10"),  # parameters: missing, unknown, badly described
    *("RT01", "YD01"),  # no word on what comes back
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
def test_all_that_people_can_call_is_documented() -> None:
    assert {"workbench.api.put", "workbench.ref.ObjectRef.future"} <= NAMES.keys()
    assert len(NAMES) > 60
    for name in NAMES:
        errors = validate(name)["errors"]
        assert not [text for code, text in errors if code in CODES and text != CLS], name


def test_all_that_an_engine_is_asked_says_what_for() -> None:
    for name, member in inspect.getmembers(Engine, inspect.isfunction):
        assert name.startswith("_") or inspect.getdoc(member), name
