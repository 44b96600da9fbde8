"""The shell command: its arguments and its exit status. Other files do the work.

Each is imported by the command that needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from workbench import __version__
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from workbench.cli import admin


def main(arguments: Sequence[str] | None = None, patience: admin.Patience | None = None) -> int:
    """Run one command; return the exit status.

    0: done; 1: impossible, a cell failed, or `doctor` has found a problem; 2: no command of ours.
    ``patience``: timeouts for sessions, if not the usual ones.
    """
    given = command_parser().parse_args(arguments)
    try:
        status = _run(given, patience)
        sys.stdout.flush()
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _run(given: Namespace, patience: admin.Patience | None) -> int:
    match given.command:
        case "doctor":
            from workbench.cli import doctor

            return doctor.run(given.json)
        case "open" | "cache":
            from workbench.cli import files

            if given.command == "open":
                return files.show(given.file, given.json)
            return files.cache(given.what == "clear", given.json)
        case "save":
            from workbench.cli import saving

            return saving.run(given.session, given.file, given.compress)
        case "mcp" | "run":
            from workbench.cli import extras

            if given.command == "run":
                return extras.run(given)
            return extras.mcp(given.kernel, given.read_only)
    from workbench.cli import admin, sessions

    patience = patience or admin.USUAL
    match given.command:
        case "ps":
            return sessions.ps(given.json, patience)
        case "objects":
            return sessions.objects(given.session, given.pattern, given.sort, given.json, patience)
        case "why":
            return sessions.why(given.session, given.name, given.deep, given.json, patience)
        case _:
            return sessions.stop(None if given.all else given.session, given.json, patience)


def command_parser() -> ArgumentParser:
    from argparse import ArgumentParser

    from workbench.report.mistyped import of_arguments
    from workbench.report.text import ORDERS

    class Parser(ArgumentParser):
        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            self._words = sys.argv[1:] if args is None else args
            return super().parse_known_args(args, namespace)

        def error(self, message: str) -> NoReturn:
            super().error(f"{message}.{of_arguments(self, self._words, message)}")

    parser = Parser(
        prog="workbench",
        description="Your sessions of Workbench on this machine. Notebooks show those on Ray or "
        "Dask: `%workbench`, `%objects`, `%why`.",
    )
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, help: str, answers: bool = True) -> ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        if answers:
            added.add_argument("--json", action="store_true", help="print one JSON document")
        return added

    command("ps", "List this machine's sessions, who uses them, and what they take.")

    objects = command("objects", "List what a session's store has.")
    objects.add_argument("session", metavar="SESSION")
    objects.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        default="",
        help="only those of which a name or the type matches, like 'train*'",
    )
    objects.add_argument("--sort", choices=ORDERS, default="size", help="default: %(default)s")

    why = command("why", "Say what keeps an object in a session's store, and what lets go of it.")
    why.add_argument("session", metavar="SESSION")
    why.add_argument("name", metavar="NAME", help="its name, or the id that `objects` shows")

    why.add_argument(
        "--deep", action="store_true", help="look at all there is, however long it takes"
    )

    stop = command("stop", "End a session for everybody who uses it.")
    which = stop.add_mutually_exclusive_group(required=True)
    which.add_argument("session", metavar="SESSION", nargs="?")
    which.add_argument("--all", action="store_true", help="every session of this user")

    about = "Write a session's kept variables and named objects to a file."
    saved = command("save", about, answers=False)
    saved.add_argument("session", metavar="SESSION")
    saved.add_argument("file", metavar="FILE")
    saved.add_argument("--compress", action="store_true", help="smaller, for downloads")

    opened = command("open", "List what a file of `%%workbench save` has. Runs none of its code.")
    opened.add_argument("file", metavar="FILE")

    cache = command("cache", "Say how much results of `%%remote --cache` take, or remove them.")
    cache.add_argument("what", metavar="clear", nargs="?", choices=["clear"], help="remove all")

    about = "Serve a program that speaks the Model Context Protocol, on stdin, stdout."
    mcp = command("mcp", about, answers=False)
    mcp.add_argument("--kernel", type=int, metavar="PID", help="a notebook's kernel to work in")
    mcp.add_argument("--read-only", action="store_true", help="run nothing: state and explain only")

    about = "Execute a notebook, with its background cells, and keep its output."
    run = command("run", about, answers=False)
    run.add_argument("notebook", metavar="NOTEBOOK")
    run.add_argument("-o", "--output", metavar="FILE", help="default: NOTEBOOK.executed.ipynb")
    text = "a variable that is set after the cell tagged `parameters`"
    of = ("NAME", "VALUE")
    run.add_argument("-p", nargs=2, metavar=of, action="append", default=[], help=text)
    text = "a JSON file with an object of such variables; `-p` comes after it"
    run.add_argument("-f", "--parameters", metavar="FILE", help=text)
    run.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="for each cell")
    run.add_argument("--verbose", action="store_true", help="print what the running cell prints")

    command("doctor", "Check what Workbench needs of this machine, and try a session out.")
    return parser
