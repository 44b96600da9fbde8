"""Arguments that a function, class or method takes, as text: Python itself checks a call, of an
empty function with these parameters, before it is sent. Only calls that surely fail are refused: a
wrapper takes what its own code takes.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from workbench.format import shortened

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD

_SHOWN = bool, int, float, str, bytes, type(None)
"""Defaults of these types are shown if they are short."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters of a callable.

    ``names`` are those of the positional parameters; that of ``*args`` begins with an asterisk.
    ``text`` has all parameters, as in a definition.
    """

    names: tuple[str, ...] = ()
    text: str = "(...)"

    def check(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError, in Python's words, if ``name`` can't be called with these arguments."""
        try:
            _empty_function(self.text)(*args, **kwargs)
        except TypeError as error:
            problem = str(error).partition("() ")[2]
        else:
            return
        end = "" if problem.endswith("?") else "."
        raise TypeError(shortened(f"{name}() {problem}{end} It is {name}{self.text}."))


@functools.lru_cache(1000)
def _empty_function(text: str) -> Callable[..., None]:
    """Return a function with these parameters; with any, if they can't be written."""
    space: dict[str, Any] = {"__builtins__": {}, "inf": math.inf, "nan": math.nan}
    try:
        exec(f"def it{text}: pass", space)
    except (SyntaxError, NameError):
        return lambda *args, **kwargs: None
    made: Callable[..., None] = space["it"]
    return made


ANYTHING = Signature()


def signature_of(function: Any, bound: int = 0) -> Signature:
    """Return the signature of a callable, without the first ``bound`` parameters."""
    kind = type(function)
    if kind is MethodType:
        return signature_of(function.__func__, bound + 1)
    if kind is FunctionType:
        return _of_function(function, bound)
    if kind is functools._lru_cache_wrapper:
        return signature_of(function.__wrapped__, bound)
    if kind is functools.partial:
        within = signature_of(function.func, bound + len(function.args))
        return ANYTHING if function.keywords else within
    if kind is BuiltinFunctionType:
        return _of_builtin(function)
    if isinstance(function, type):
        return signature_of_class(function)
    return ANYTHING


def signature_of_class(cls: type) -> Signature:
    metas = inspect.getmro(type(cls))
    if any("__call__" in vars(meta) for meta in metas if meta not in (type, object)):
        return ANYTHING
    init = inspect.getattr_static(cls, "__init__")
    if type(init) is FunctionType:
        return signature_of(init, 1)
    new = inspect.getattr_static(cls, "__new__")
    if init is not vars(object)["__init__"]:
        return ANYTHING
    if new is vars(object)["__new__"]:
        return Signature(text="()")
    return signature_of(new.__func__, 1) if isinstance(new, staticmethod) else ANYTHING


def signature_of_method(cls: type, name: str) -> Signature:
    """Return the signature of a method, without its instance."""
    found = inspect.getattr_static(cls, name)
    if isinstance(found, staticmethod):
        return signature_of(found.__func__)
    if isinstance(found, classmethod):
        return signature_of(found.__func__, 1)
    return signature_of(found, 1) if type(found) is FunctionType else ANYTHING


def _of_builtin(function: Any) -> Signature:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ANYTHING
    is_plain = all(p.kind in _POSITIONAL for p in signature.parameters.values())
    return Signature(tuple(signature.parameters), str(signature)) if is_plain else ANYTHING


def _of_function(function: FunctionType, bound: int) -> Signature:
    # A copy has neither annotations nor what a decorator says of the function.
    copy = FunctionType(function.__code__, {}, "", function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(copy)
    parameters = list(signature.parameters.values())
    first, others = parameters[:bound], parameters[bound:]
    if len(first) < bound or any(p.kind not in _POSITIONAL for p in first):
        return ANYTHING  # the instance is in ``*args``
    names = [p.name for p in others if p.kind in _POSITIONAL]
    names += [f"*{p.name}" for p in others if p.kind is p.VAR_POSITIONAL]
    written = [p if p.default is p.empty else p.replace(default=_Text(p.default)) for p in others]
    return Signature(tuple(names), str(signature.replace(parameters=written)))


class _Text:
    """A default as it is written: itself if that is short, else three dots."""

    def __init__(self, value: Any) -> None:
        self._text = repr(value) if type(value) in _SHOWN else "..."

    def __repr__(self) -> str:
        return self._text if len(self._text) < 30 else "..."
