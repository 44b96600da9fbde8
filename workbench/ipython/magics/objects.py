"""%objects, %why, %free, %pin, %unpin, %spill: what the store keeps, why, and letting go of it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument

from workbench import api
from workbench.api.observing import asked_by
from workbench.engine.base import acting_on
from workbench.engine.queries import Keepers, Lookup, Reasons
from workbench.errors import ObjectLostError
from workbench.ipython.arguments import as_json, as_written, magic_arguments, parse, unquoted
from workbench.ipython.freshness import compared
from workbench.ipython.meant import Meant, OwnValue, anything_meant, objects_meant
from workbench.ipython.notebook import NotebookMagics
from workbench.report import json
from workbench.report.facts import short_name
from workbench.report.json import JsonAnswer
from workbench.report.text import MOST_ROWS, ORDERS, ObjectTable
from workbench.report.why import LEAST_OWN, Why, Whys, why_value
from workbench.report.why import why as in_words

MOST_WHYS = 5
"""Objects that one `%why` explains; the rest are counted."""

_WHAT = "names in the store, ids, variables that hold an ObjectRef or a list of them, expressions"


@magics_class
class KeepingMagics(NotebookMagics):
    @magic_arguments()
    @argument(
        "pattern",
        nargs="?",
        default="",
        type=unquoted,
        help="of names or types, like train* or ndarray*",
    )
    @argument("--sort", choices=ORDERS, default="size", help="what comes first")
    @as_json
    @line_magic
    def objects(self, line: str) -> ObjectTable | JsonAnswer:
        """List what the store has: name, type, size, where it is, what keeps it, its age."""
        args = parse(self.objects, line)
        found = api.objects(args.pattern, sort=args.sort, limit=MOST_ROWS)
        session = short_name(api.engine().session)
        return JsonAnswer(json.of_objects(session, found)) if args.json else found

    @magic_arguments()
    @argument("--deep", action="store_true", help="look at all there is, however long it takes")
    @argument("what", nargs="+", help=f"{_WHAT}, or any variable")
    @as_json
    @line_magic
    def why(self, line: str) -> Why | Whys | JsonAnswer:
        """Say why an object is still here, and what would let go of each reason."""
        args = parse(self.why, line)
        meant = anything_meant(self._notebook, as_written(line, args.what), args.what)
        found: list[tuple[str, Why]] = []
        for label, what in meant[:MOST_WHYS]:
            if not isinstance(what, OwnValue):
                found.append((label, self._why(what, args, label)))
                continue
            account = api.engine().ask(Keepers(what.box, args.deep))
            if not what.has_stored or account.nbytes >= LEAST_OWN:
                found.append((f"{label} in this process", why_value(account, label)))
        others = len(meant[MOST_WHYS:])
        if args.json:
            return JsonAnswer(json.of_whys(found, others))
        return found[0][1] if len(found) == 1 and not others else Whys(tuple(found), others)

    def _why(self, what: Meant, args: Namespace, label: str) -> Why:
        engine, bindings = api.engine(), self._notebook.bindings
        ref = engine.ask(Lookup(what)) if isinstance(what, str) else what
        if ref is None or not bindings.bindings_of(ref):
            del ref  # this ref would show up as a reason
            return _why(what, args, label)
        with compared(bindings, engine, ref):
            return _why(what, args, label)

    @magic_arguments()
    @argument("what", nargs="+", help=_WHAT)
    @line_magic
    def free(self, line: str) -> None:
        """Delete objects now, even if something refers to them. Arrays that show one stay valid."""
        api.free(self._meant(self.free, line))

    @magic_arguments()
    @argument("what", nargs="+", help=_WHAT)
    @line_magic
    def pin(self, line: str) -> None:
        """Keep objects in memory until `%unpin`."""
        for what in self._meant(self.pin, line):
            api.pin(what)

    @magic_arguments()
    @argument("what", nargs="+", help=_WHAT)
    @line_magic
    def unpin(self, line: str) -> None:
        """Undo `%pin`."""
        for what in self._meant(self.unpin, line):
            api.unpin(what)

    @magic_arguments()
    @argument("what", nargs="+", help=_WHAT)
    @line_magic
    def spill(self, line: str) -> None:
        """Move objects to disk now; they come back when they are used and there is room."""
        for what in self._meant(self.spill, line):
            api.spill(what)

    def _meant(self, magic: Any, line: str) -> list[Meant]:
        words = parse(magic, line).what
        return [what for _, what in objects_meant(self._notebook, as_written(line, words), words)]


def _why(what: Meant, args: Namespace, label: str) -> Why:
    engine, name = acting_on(api.engine(), "why"), what if isinstance(what, str) else ""
    asked = asked_by(engine, what)
    account = engine.ask(Reasons(asked))
    if account is not None and args.deep and not (why := in_words(account, name, label)).complete:
        if not args.json:  # it may take a while
            print(f"{why}\n\nLooking at all there is ...", flush=True)
        account = engine.ask(Reasons(asked, deep=True))
    if account is None:
        raise ObjectLostError(f"{label!r} has just gone: nothing keeps it any more.")
    return in_words(account, name, label)
