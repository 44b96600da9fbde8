"""The exercises of what can't be pickled: find it, three repairs, and a home for the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.course.exercises import (
    Live,
    Outcome,
    RefusedError,
    almost,
    refused,
    right,
    wrong,
)
from workbench.errors import SerializationError
from workbench.ref import ObjectRef


def _refused(live: Live, value: Any) -> SerializationError | None:
    """The error of storing a value, which nobody keeps; None if it can be stored."""
    try:
        live.engine.put(value)
    except SerializationError as error:
        return error
    return None


def _stored_now(live: Live, name: str) -> ObjectRef:
    """A variable as it would be stored now; refused if a part of it can't be pickled."""
    value, kind = live[name], type(live[name])
    try:
        return live.engine.put(value)[0]
    except SerializationError as error:
        failure = error.failures[0]
    path, now = name + _in_it(failure.path), live[kind.__name__]
    if isinstance(now, type) and now is not kind:
        raise RefusedError(
            almost(
                "`{path}` can't be pickled. But `{name}` is of the class `{kind}` as that was "
                "before: make `{name}` again, of the new class.",
                path=path,
                name=name,
                kind=kind.__name__,
            )
        )
    raise refused("`{path}` can't be pickled: {why}.", path=path, why=failure.why)


def _as_stored(live: Live, name: str, judged: Callable[[Any], Outcome]) -> Outcome:
    """Judge what a variable comes back as now, and what is stored under its name: after a change
    of its class or of a serializer the stored one is an older one."""
    live.record(name)
    ref = _stored_now(live, name)
    now = _built(live, name, lambda: live.fetched(ref), judged)
    if now.state != "right":
        return now
    stored = _built(live, name, lambda: live.value(name), judged)
    if stored.state == "right":
        return stored
    return almost(
        "Your `{name}` would come back right now. The stored one is an older one, which "
        "doesn't: `%put {name}` stores yours.",
        name=name,
    )


def _built(
    live: Live, name: str, get: Callable[[], Any], judged: Callable[[Any], Outcome]
) -> Outcome:
    try:
        back = get()
    except SerializationError as error:
        return wrong("`{name}` can be stored, but not built again: {error}", name=name, error=error)
    return judged(back)


def _in_it(path: str) -> str:
    """A path from its first bracket or dot on, with one kind of quotes."""
    path = path.strip().replace('"', "'")
    return path[min((path.find(mark) for mark in "[." if mark in path), default=len(path)) :]


def find_it(live: Live) -> Outcome:
    error = _refused(live, live["shelf"])
    if error is None:
        return almost(
            "`shelf` can be stored now: run the cell that makes it again, and say which "
            "part could not."
        )
    culprit = live["culprit"]
    if not isinstance(culprit, str):
        return wrong(
            "`culprit` is of type {type}: write the path as text, in quotes.",
            type=type(culprit).__name__,
        )
    given, (failure, *_) = _in_it(culprit), error.failures
    found = _in_it(failure.path)
    if given == found:
        return right(
            "Yes: there is a {type} at `shelf{path}`, and all else can be pickled.",
            type=failure.type,
            path=found,
        )
    if not given and culprit.strip() != "shelf":
        return wrong("`culprit` is no path: a path begins with `shelf`, then come brackets.")
    if not given:
        return almost("It is in `shelf`, but `shelf` as a whole is more than the one part.")
    if found.startswith(given):
        return almost("It is in `shelf{path}`, but that is more than the one part.", path=given)
    return wrong("What is at `shelf{path}` can be pickled, or isn't there.", path=given)


def in_a_function(live: Live) -> Outcome:
    name = live.task_result("named")
    if name != "SNOWMAN":
        return almost("A worker has answered, but with {name!r}: ☃ is a SNOWMAN.", name=name)
    return right("A worker has run the function, and answered {name}.", name=name)


def lock_in_a_class(live: Live) -> Outcome:
    _stored_now(live, "logbook")
    if live.stored("logbook") is None:
        return almost("`logbook` can be pickled now, but isn't in the store yet.")
    notes = list(live["logbook"].notes)

    def judged(copy: Any) -> Outcome:
        found = list(getattr(copy, "notes", ()))
        if found != notes:
            return almost(
                "The logbook that comes back has {count} notes; yours has {all}.",
                count=len(found),
                all=len(notes),
            )
        if not hasattr(getattr(copy, "lock", None), "acquire"):
            return almost("The logbook that comes back has all notes, but no lock.")
        return right(
            "The logbook that comes back has all {count} notes, and a lock of its own.",
            count=len(found),
        )

    return _as_stored(live, "logbook", judged)


def _file_of(connection: Any) -> str:
    """The file of a connection's database; empty if it is in memory."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def connection(live: Live) -> Outcome:
    import sqlite3

    here, query = live["signs"], "SELECT count(*) FROM signs"
    if not isinstance(here, sqlite3.Connection):
        return wrong(
            "`signs` is of type {type}, and no connection: run the notebook's second cell again.",
            type=type(here).__name__,
        )
    try:
        here.execute(query).fetchone()
    except sqlite3.Error as closed:
        return wrong(
            "Your `signs` can't be read ({error}): run the notebook's second cell again.",
            error=closed,
        )
    _stored_now(live, "signs")

    def judged(back: Any) -> Outcome:
        if not isinstance(back, sqlite3.Connection):
            return wrong("What comes back is {value}, no connection.", value=repr(back)[:80])
        if back is here:
            return almost("What comes back is the notebook's own connection; a worker has none.")
        try:
            (rows,) = back.execute(query).fetchone()
            file = _file_of(back)
        except sqlite3.Error as error:
            return almost(
                "A connection comes back, but the signs can't be read from it: {error}.",
                error=error,
            )
        finally:
            back.close()
        if file != _file_of(here):
            return almost(
                "A connection comes back, but not to the database in {file}: what is written to "
                "one isn't in the other.",
                file=Path(_file_of(here)).name,
            )
        return right(
            "A new connection comes back, to the same file, and finds all {rows} signs.", rows=rows
        )

    return _as_stored(live, "signs", judged)


def in_its_place(live: Live) -> Outcome:
    recorder, parcel = live["recorder"], live["parcel"]
    kind = type(recorder).__name__
    back = live.value("parcel")
    if back is ...:
        return wrong(
            "The store's `parcel` is still `...`: the last `%put parcel` failed, or didn't run."
        )
    _stored_now(live, "parcel")  # what is stored may be an older one

    def judged(back: Any) -> Outcome:
        if type(back).__name__ != kind:
            return wrong(
                "What comes back is of type {type}, and not a {kind}.",
                type=type(back).__name__,
                kind=kind,
            )
        if list(back.notes) != list(recorder.notes):
            return almost("A {kind} comes back, but with other notes.", kind=kind)
        if _refused(live, recorder) is None:
            return almost(
                "A {kind} comes back. But now every {kind} can be stored: you changed "
                "the class, or registered it (`wb.deregister_serializer({kind})` undoes "
                "that). This was about one object.",
                kind=kind,
            )
        return right(
            "`parcel` is of type {type}; what comes back is a {kind}, with its notes.",
            type=type(parcel).__name__,
            kind=kind,
        )

    return _as_stored(live, "parcel", judged)


def a_home(live: Live) -> Outcome:
    home = live["home"]
    if not hasattr(getattr(home, "count", None), "remote"):
        if hasattr(home, "remote"):
            return almost("`home` is the class. No actor runs yet: who starts one?")
        return wrong(
            "`home` is of type {type}, in your kernel: no worker can call it.",
            type=type(home).__name__,
        )

    actor = live.actor(home)
    if actor is None or actor.cls != "Home":
        return wrong("`home` is no actor of the class `Home`.")

    methods = home.count, home.add, home.add, home.count
    answers = [live.answer(method.remote("TEST SIGN")) for method in methods]
    if error := next((error for _, error in answers if error), ""):
        return almost("`home` is an actor, but a call has failed: {error}", error=error)
    added = answers[-1][0] - answers[0][0]
    if added != 2:
        return almost(
            "`home` is an actor, but after two calls of `add` it counts {added} more: "
            "is there a new database in each call?",
            added=added,
        )
    return right("`home` is an actor: its one database has counted both calls of `add`.")
