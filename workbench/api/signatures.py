"""Arguments that a function, class or method takes: as plain data, checked before a call is sent.
Only calls that surely fail are refused: a wrapper takes what its own code takes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from workbench.format import shortened

ANY_NUMBER = 1 << 30

_SHOWN = bool, int, float, str, bytes, type(None)
"""Defaults of these types are shown if they are short."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters of a callable.

    ``names`` are those of the positional parameters; that of ``*args`` begins with an asterisk.
    The first ``least`` have no default; the first ``only`` can't be given by name. ``keywords``
    are keyword-only, the ``needed`` ones without a default. ``text`` is for people.
    """

    names: tuple[str, ...] = ()
    least: int = 0
    most: int = ANY_NUMBER
    only: int = 0
    keywords: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    takes_others: bool = True  # by name
    text: str = "(...)"

    def takes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """True if it surely takes these arguments; if False, `check` decides."""
        return not kwargs and not self.needed and self.least <= len(args) <= self.most

    def check(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError if ``name`` can't be called with these arguments."""
        if not self.takes(args, kwargs):
            problem = self._problem(len(args), kwargs)
            if problem:
                raise TypeError(shortened(f"{name}() {problem}. It is {name}{self.text}."))

    def _problem(self, count: int, kwargs: Mapping[str, Any]) -> str:
        """Return what is wrong, in Python's words; '' if nothing is."""
        named = self.names[: self.most]
        if count > self.most:
            fewest = f"from {self.least} to " if self.least < self.most else ""
            s = "" if self.most == 1 else "s"
            was = "was" if count == 1 else "were"
            return f"takes {fewest}{self.most} positional argument{s} but {count} {was} given"
        known = {*named[self.only :], *self.keywords}
        for key in kwargs:
            if key in named[self.only : count]:
                return f"got multiple values for argument {key!r}"
            if key not in known and not self.takes_others:
                return f"got an unexpected keyword argument {key!r}"
        kinds = ("positional", named[count : self.least]), ("keyword-only", self.needed)
        for kind, wanted in kinds:
            missing = [each for each in wanted if each not in kwargs or each in named[: self.only]]
            if missing:
                s = "" if len(missing) == 1 else "s"
                listed = ", ".join(map(repr, missing))
                return f"missing {len(missing)} required {kind} argument{s}: {listed}"
        return ""


ANYTHING = Signature()


def signature_of(function: Any, bound: int = 0) -> Signature:
    """Return the signature of a callable, without the first ``bound`` parameters."""
    kind = type(function)
    if kind is MethodType:
        return signature_of(function.__func__, bound + 1)
    if kind is FunctionType:
        return _of_code(function.__code__, function.__defaults__, function.__kwdefaults__, bound)
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
        return Signature(most=0, takes_others=False, text="()")
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
    parameters = list(signature.parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        return ANYTHING
    return Signature(
        tuple(p.name for p in parameters),
        sum(p.default is p.empty for p in parameters),
        len(parameters),
        sum(p.kind is p.POSITIONAL_ONLY for p in parameters),
        takes_others=False,
        text=str(signature),
    )


def _of_code(
    code: CodeType,
    defaults: tuple[Any, ...] | None,
    of_keywords: Mapping[str, Any] | None,
    bound: int,
) -> Signature:
    count, variables = code.co_argcount, code.co_varnames
    by_name = variables[count : count + code.co_kwonlyargcount]
    more = code.co_flags & inspect.CO_VARARGS
    others = code.co_flags & inspect.CO_VARKEYWORDS
    if bound > count:
        return ANYTHING  # the instance is in ``*args``
    named = variables[bound:count]
    given = dict(zip(reversed(variables[:count]), reversed(defaults or ()), strict=False))
    only = max(code.co_posonlyargcount - bound, 0)
    parts = [_shown(name, given) for name in named]
    parts[only:only] = ["/"] if only else []
    end = count + len(by_name)
    rest = f"*{variables[end]}" if more else ""
    if more or by_name:
        parts.append(rest or "*")
    parts += [_shown(name, of_keywords or {}) for name in by_name]
    if others:
        parts.append(f"**{variables[end + bool(more)]}")
    return Signature(
        (*named, rest) if more else named,
        sum(name not in given for name in named),
        ANY_NUMBER if more else len(named),
        only,
        by_name,
        tuple(name for name in by_name if name not in (of_keywords or {})),
        bool(others),
        f"({', '.join(parts)})",
    )


def _shown(name: str, defaults: Mapping[str, Any]) -> str:
    if name not in defaults:
        return name
    value = defaults[name]
    text = repr(value) if type(value) in _SHOWN else "..."
    return f"{name}={text if len(text) < 30 else '...'}"
