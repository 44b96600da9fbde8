"""Tab completion in a line of our magics: options, variables, stored names, jobs. Runs nothing.

A matcher of IPython's completer (its API 2): it completes the words it knows, and leaves
expressions and the body of a cell to the other matchers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.magic import Magics

from workbench import api
from workbench.engine.queries import Names, Summary
from workbench.ipython.magics.sessions import ACTIONS
from workbench.ipython.notebook import Notebook
from workbench.ref import ObjectRef

PATIENCE = 0.5  # seconds to wait for the session: Tab must not hang
MOST = 500  # names offered

_LINE = re.compile(r"\s*(?:[\w., ]+=\s*)?(%%?\w+) (.*)", re.DOTALL)
"""A magic, also behind ``ref =``, and the rest of the line."""

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("%put", "%inspect"), ("variables",)),
    "%cost": ("variables", "stored"),
    **dict.fromkeys(("%get", "%why", "%free", "%pin", "%unpin", "%spill"), ("refs", "stored")),
    "%objects": ("stored",),
}
"""Meaning of each magic's positional words."""

_VALUES: Mapping[tuple[str, str], str] = {
    ("%put", "--name"): "stored",
    ("%get", "--as"): "variables",
    ("%%remote", "--in"): "variables",
    ("%%remote", "--out"): "variables",
    ("%%remote", "--map"): "variables",
    ("%%remote", "--actor"): "actors",
}
"""Meaning of the values of options."""


class Completion:
    """Matcher that knows the options of these magics."""

    def __init__(self, notebook: Notebook, magics: Sequence[Magics]) -> None:
        self._notebook = notebook
        self._options: dict[str, list[Any]] = {}
        for each in magics:
            for kind, sign in (("line", "%"), ("cell", "%%")):
                for name, magic in each.magics[kind].items():
                    self._options[sign + name] = list(_options(magic))
        self._sources: dict[str, Callable[[], Iterable[str]]] = {
            "variables": self._variables,
            "refs": self._refs,
            "stored": _stored,
            "actors": _actors,
        }

    @context_matcher(identifier="workbench")
    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        found: list[SimpleCompletion] = []
        line = _LINE.fullmatch(context.text_until_cursor)
        # A cell magic can stand only in the first line.
        first = context.cursor_line == 0
        if line and line[1] in self._options and (first or not line[1].startswith("%%")):
            *before, word = line[2].split(" ")
            words = [each for each in before if each]
            found = list(self._matches(line[1], words, word, context.token))
        return {"completions": found[:MOST], "suppress": bool(found)}

    def _matches(
        self, magic: str, words: list[str], word: str, token: str
    ) -> Iterable[SimpleCompletion]:
        if word.startswith("-"):
            names = [name for option in self._options[magic] for name in option.args]
            kind = "option"
        elif word != token:  # inside an expression
            return
        elif magic == "%workbench" and words[:1] in (["jobs"], ["job"]):
            yield from _jobs(" ".join([*words[1:], word]), word)
            return
        else:
            names, kind = list(self._words(magic, words)), "name"
        for name in dict.fromkeys(names):
            hidden = name.startswith("_") and not word
            if name.startswith(word) and name not in words and not hidden:
                yield SimpleCompletion(text=name, type=kind)

    def _words(self, magic: str, words: list[str]) -> Iterable[str]:
        last = next((o for o in self._options[magic] if words[-1:] and words[-1] in o.args), None)
        if last is not None and "action" not in last.kwds:  # it takes a value
            source = _VALUES.get((magic, max(last.args, key=len)))
            yield from self._sources[source]() if source else last.kwds.get("choices", ())
        elif magic == "%workbench":
            yield from () if words else ACTIONS
        else:
            for source in _ARGUMENTS.get(magic, ()):
                yield from self._sources[source]()

    # -- names --------------------------------------------------------------------------------

    def _variables(self) -> list[str]:
        variables = self._notebook.variables
        names = self._notebook.own_names()
        return sorted(n for n in names if not isinstance(variables.get(n), ModuleType))

    def _refs(self) -> list[str]:
        variables = self._notebook.variables
        return [name for name in self._variables() if isinstance(variables[name], ObjectRef)]


def _options(magic: Any) -> Iterable[Any]:
    """Yield the `argument` decorators of a magic that define an option."""
    for decorator in reversed(getattr(magic, "decorators", ())):
        if getattr(decorator, "args", ("",))[0].startswith("-"):
            yield decorator


def _stored() -> list[str]:
    return _asked(lambda: api.engine().ask(Names()))


def _actors() -> list[str]:
    actors = _asked(lambda: list(api.engine().ask(Summary()).actors))
    return [name.partition(":")[2] for actor in actors for name in actor.names]


def _jobs(written: str, word: str) -> Iterable[SimpleCompletion]:
    """Complete names of background cells: they have a space, so the last word is only a part."""
    jobs = _asked(lambda: list(api.engine().ask(Summary()).jobs))
    for name in dict.fromkeys(job.name for job in jobs):
        if name.startswith(written):
            yield SimpleCompletion(text=name[len(written) - len(word) :], type="name")


def _asked(question: Callable[[], list[Any]]) -> list[Any]:
    """Return the session's answer if it comes in time, else nothing."""
    if not api.is_initialized():
        return []
    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.extend(question())
        except Exception:  # the session has just ended
            pass

    thread = threading.Thread(target=ask, name="workbench-completion", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return list(answer)
