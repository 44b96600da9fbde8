"""Line on the progress of a long `%put` or `%get`; and the message that it isn't there yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.format import human_bytes, human_seconds, human_time


def copying_text(name: str, done: int, whole: int) -> str:
    return f"%put {name}: copied {human_bytes(done)} of {human_bytes(whole)}"


def pickling_text(name: str, nbytes: float, at_least: bool, seconds: float) -> str:
    """Word the pickling; ``at_least``: the bytes are counted so far, not an estimate of all."""
    about = "at least" if at_least else "about"
    return f"%put {name}: {about} {human_bytes(nbytes)}, pickling, {seconds:.0f} s"


def waiting_text(typed: str, what: Sequence[str], seconds: float) -> str:
    """Word the waiting; ``what``: makers or names of objects; empty if they are being read."""
    doing = f"waiting for {' and '.join(what)}" if what else "reading"
    return f"%get {typed}: {doing}, {seconds:.0f} s"


def arrived_text(typed: str, seconds: float) -> str:
    return f"%get {typed}: arrived after {human_seconds(seconds)}"


def late_text(typed: str, late: Mapping[str, str], there: Sequence[str], timeout: float) -> str:
    """Word a timeout; ``late``: names of objects that aren't there, each with its maker."""
    after = f"after {human_time(timeout)}" if timeout > 0 else "yet"
    coming = [f"{name!r} (of {maker})" if maker else repr(name) for name, maker in late.items()]
    others = f" {_are([*map(repr, there)])}." if there else ""
    return (
        f"{_are(coming)} not there {after}.{others} Nothing was bound and nothing is lost: "
        f"the work goes on. `%get {typed}` again later, or wait longer."
    )


def _are(things: Sequence[str]) -> str:
    return f"{' and '.join(things)} {'is' if len(things) == 1 else 'are'}"


def maker_text(task: str) -> str:
    """Return a task's name for a sentence about who makes something: ``task fit``, ``cell 7``."""
    return task if not task or task.startswith("cell ") else f"task {task}"
