"""Resolves the words on a magic's line to objects (names, variables, ids, expressions), or to a
background cell.

Asks the session and the notebook's variables; does nothing with what it finds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench import api
from workbench.api.actors import ActorHandle
from workbench.core.snapshot import JobRecord
from workbench.engine.base import ROOT_NOTE
from workbench.engine.queries import Held, Lookup, Names
from workbench.errors import MagicError, ObjectLostError
from workbench.ipython.arguments import unquoted
from workbench.ipython.notebook import Notebook
from workbench.ref import ObjectRef
from workbench.report.mistyped import did_you_mean

_REPR = re.compile(r"ObjectRef\(([0-9a-f]{16})\b[^)]*\)")

Meant = ObjectRef | str
"""Argument for `api`: a ref, or the name or id of an object."""


class OwnValue(NamedTuple):
    """A value of this process's own, in a list: `queries.Keepers` empties it. ``has_stored``: parts
    of it, or a copy, are in the store."""

    box: list[Any]
    has_stored: bool = False


Named = tuple[str, Meant | OwnValue]
"""What a word means, behind the person's name for it."""


def objects_meant(notebook: Notebook, text: str, words: list[str]) -> list[tuple[str, Meant]]:
    """Return the objects that a line names, each with the person's name for it.

    ``text`` is the part of the line with the ``words``. A word is a variable that has a ref or a
    list of refs, a name in the store, a variable that is a stored object, an id, or an expression.

    Raises
    ------
    MagicError
        If there is no session, or a variable has nothing to do with the store.
    ObjectLostError
        If a word means nothing at all.
    """
    if not api.is_initialized():
        raise MagicError("No session is running, so nothing is stored.")
    found = []
    for label, what in anything_meant(notebook, text, words, only_stored=True):
        if isinstance(what, OwnValue):
            kind = type(what.box[0]).__name__
            raise MagicError(
                f"`{label}` is a {kind} that has nothing of the store: no ref, and no array that "
                "shows a stored object."
            )
        found.append((label, what))
    return found


def anything_meant(
    notebook: Notebook, text: str, words: list[str], only_stored: bool = False
) -> list[Named]:
    """Return the same, and values that aren't stored, or only in part.

    ``only_stored``: those only where there is nothing stored.
    """
    if _REPR.search(text):  # refs as they print
        words = _REPR.sub(r"\1", text).split()
    elif len(words) > 1 and not all(map(_is_whole, words)) and _is_whole(text):
        words = [text]  # one expression with spaces in it
    return [each for word in words for each in _one(notebook, unquoted(word), only_stored)]


def _one(notebook: Notebook, word: str, only_stored: bool) -> Iterator[Named]:
    variables = notebook.variables
    refs = _refs(word, variables.get(word))
    if refs:
        yield from refs
    elif api.engine().ask(Lookup(word)) is not None:
        if word in variables and not only_stored:
            yield word, OwnValue([variables[word]], has_stored=True)
        yield word, word
    elif word in variables:
        yield from _shown(notebook, word, variables[word], only_stored)
    elif (ref := api.engine().ask(Lookup(word, or_id=True))) is not None:
        yield ref.hex(), ref.hex()
    elif (wrong := _mistake(word)) and not word.isalnum():
        raise MagicError(f"`{word}` is no name or id, and no expression: {wrong}.")
    elif word.isidentifier() or wrong:
        known = [*notebook.own_names(), *api.engine().ask(Names())]
        raise ObjectLostError(
            f"This session has no object {word!r}: no variable, name or id is that."
            f"{did_you_mean(word, known)}"
        )
    else:
        value = notebook.shell.ev(word)
        yield from _refs(word, value) or _shown(notebook, word, value, only_stored)


def _shown(notebook: Notebook, word: str, value: Any, only_stored: bool) -> Iterator[Named]:
    """Yield what a value is of the store, else what it shows, and the value."""
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value):
        raise MagicError(
            f"`{word}` is a str that may be an object's id: `${word}` puts that into the line."
        )
    stored: list[tuple[str, Meant]] = [
        (word, ref)
        for key, ref in notebook.bindings.held().items()
        if key.partition(ROOT_NOTE)[0] == word
    ]
    stored = stored[:1] or [
        (places[0][0], f"{id:016x}")
        for id, places in api.engine().ask(Held(word, value)).items()
        if not only_stored or places[0][0] == word
    ]
    if not stored or not only_stored:
        yield word, OwnValue([value], bool(stored))
    yield from stored


def _refs(path: str, value: Any) -> list[tuple[str, Meant]]:
    """Return the refs that a value is, or consists of; none if it has anything else."""
    if isinstance(value, ObjectRef):
        return [(path, value)]
    if isinstance(value, ActorHandle):
        return [(path, value._ref)]
    inside: Iterable[tuple[str, Any]]
    if isinstance(value, dict):
        inside = [(f"{path}[{key!r}]", each) for key, each in value.items()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = [(f"{path}[{place}]", each) for place, each in enumerate(value)]
    else:
        return []
    found = [_refs(below, each) for below, each in inside]
    return [ref for refs in found for ref in refs] if all(found) else []


def _is_whole(text: str) -> bool:
    """True if the text is an expression, or may be an id."""
    return text.isalnum() or not _mistake(text)


def _mistake(text: str) -> str:
    """Return what is wrong with it as an expression; '' if it is one."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError as error:
        return error.msg
    except ValueError as error:
        return str(error)
    return ""


def job_meant(jobs: Sequence[JobRecord], wanted: str) -> JobRecord:
    """Return the job that is meant by ``cell 7``, ``7`` or ``#3``.

    Cell numbers begin anew with each kernel. So of several jobs with one name it is one that
    nobody has collected, else one that isn't over, else the last.

    Raises
    ------
    MagicError
        If there is none.
    """
    found = [job for job in jobs if wanted in (job.name, f"#{job.number}", job.name.split()[-1])]
    if not found:
        names = list(dict.fromkeys(job.name for job in jobs))
        hint, there = did_you_mean(wanted, names), ", ".join(names) or "none"
        raise MagicError(f"There is no background cell {wanted!r}.{hint} There are: {there}.")
    return max(found, key=lambda job: (job.kept, not job.is_over, job.number))
