"""%workbench: shows, starts and stops the session, and collects its background cells."""

from __future__ import annotations

import contextlib
import gc
import warnings
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument
from IPython.display import display

from workbench import api, config, context
from workbench.core.snapshot import JobRecord
from workbench.engine.base import Engine, acting_on
from workbench.engine.queries import HugePages, Jobs, Outputs, Summary
from workbench.errors import MagicError, SessionError
from workbench.format import printable
from workbench.heap import roots, survey
from workbench.ipython.arguments import as_json, magic_arguments, parse, unquoted
from workbench.ipython.job import Job
from workbench.ipython.meant import job_meant
from workbench.ipython.notebook import NotebookMagics
from workbench.ipython.session_files import open_variables, save_variables
from workbench.report import cards, facts, json
from workbench.report.json import JsonAnswer
from workbench.report.markup import Rich
from workbench.report.memory import MemoryTable
from workbench.report.mistyped import did_you_mean
from workbench.report.sessions import left_text, lost_by_leaving
from workbench.report.text import JobTable

if TYPE_CHECKING:
    from workbench.widgets.views import Dashboard


ACTIONS = ("status", "dashboard", "memory", "start", "stop", "jobs", "job")
KEPT = ("keep", "lost", "history", "branches", "branch")
FILES = ("save", "open")
"""Words that `%workbench` takes: about the session, kept variables, files."""

NONE = "No session is running. `%workbench start` starts one."


class _Start:
    """Settings with which `%workbench start` started the current session here."""

    def __init__(self, engine: Engine) -> None:
        self.settings: dict[str, Any] | None = None


@magics_class
class SessionMagics(NotebookMagics):
    @magic_arguments()
    @argument("action", nargs="?", default="status", help=", ".join(ACTIONS + KEPT + FILES))
    @argument("what", nargs="*", help="a background cell: its name, or #number; a branch; a file")
    @argument("--engine", type=unquoted, help="what runs it: local (this machine), ray or dask")
    @argument(
        "--address",
        type=unquoted,
        help="where that is: auto, local, host:6379 or ray://host:10001; tcp://host:8786",
    )
    @argument("--workers", help="worker processes")
    @argument("--memory", help="size of the store, like 2GB")
    @argument(
        "--spill-dir",
        type=unquoted,
        help="where objects go that have no room in memory; 'none': nowhere",
    )
    @argument("--huge-pages", action="store_true", default=None, help="ask Linux for pages of 2 MB")
    @argument(
        "--session", type=unquoted, help="name; notebooks that give the same one share a session"
    )
    @argument(
        "--keep",
        "--linger",
        dest="linger",
        help="how long it stays after the last notebook left, like 8h",
    )
    @argument("--compress", action="store_true", default=None, help="save: smaller, for downloads")
    @argument("--trust", action="store_true", default=None, help="open: also what runs code")
    @argument("--from", dest="begin", type=int, metavar="N", help="jobs NAME --json: from byte N")
    @as_json
    @line_magic
    def workbench(self, line: str) -> Rich | Job | Dashboard | JsonAnswer | None:
        """Show, start or stop the session; list its background cells, or collect one.

        `%workbench dashboard` shows it live. `%workbench memory` shows what this process's own
        memory is taken by, and what lets go of it; it needs no session.

        `%workbench jobs NAME` shows here what that one shows, and binds what it assigns;
        `job = %workbench job NAME` is for waiting (`await job`, `job.result()`), `job.cancel()`
        and `job.output()`.
        `%workbench start --keep 8h` also changes how long a session that runs is kept.

        `%workbench keep` keeps the variables after each cell: they survive the kernel; `keep off`
        ends that. `lost` lists those that can't be stored, `history` the cells, `branches` their
        branches; `branch NAME` makes one, or goes to it.

        `%workbench save FILE` writes the variables to a file, `%workbench open FILE` binds them.

        `--json` is for programs; `jobs NAME --json` has what that cell printed, and binds nothing.
        """
        args = vars(parse(self.workbench, line))
        action, what, asks_json, begin = map(args.pop, ("action", "what", "json", "begin"))
        settings = {k: v for k, v in args.items() if v is not None}
        words = ACTIONS + KEPT + FILES
        if action not in words:
            hint = did_you_mean(action, words)
            known = ", ".join(words)
            raise MagicError(f"%workbench knows {known}, not {action!r}.{hint}")
        takes_more = action in ("jobs", "job", "branch", *FILES)
        if what and not takes_more and (action, what) != ("keep", ["off"]):
            raise MagicError(f"`%workbench {action}` takes nothing more, not {' '.join(what)!r}.")
        if action in FILES and not asks_json:
            self._file(action, " ".join(map(unquoted, what)), settings)
            return None
        if settings and action != "start":
            raise MagicError(f"These options go with `%workbench start`: {', '.join(settings)}.")
        if begin is not None and not (asks_json and action == "jobs" and what):
            raise MagicError("--from goes with `%workbench jobs NAME --json`.")
        if asks_json:
            return JsonAnswer(self._document(action, " ".join(map(unquoted, what)), begin or 0))
        if action in KEPT:
            return self._kept(action, what)
        match action:
            case "start" if settings.keys() == {"linger"} and api.is_initialized():
                acting_on(api.engine(), "keep").keep(config.load(settings).linger)
                self._print_users()
            case "start" if api.is_initialized() and settings == context.companion(_Start).settings:
                self._print_users()  # the cell was run again
            case "start":
                self._start(settings)
            case "stop":
                lost = _lost() if (running := api.is_initialized()) else ""
                api.shutdown()
                self._notebook.bindings.clear()
                print(printable(left_text(lost)) if running else NONE)
            case "jobs":
                return self._jobs(" ".join(map(unquoted, what)))
            case "job":
                return self._job(" ".join(map(unquoted, what)))
            case "dashboard":
                from workbench.widgets.views import dashboard  # imports ipywidgets

                return dashboard()
            case "memory":
                return MemoryTable(_memory())
            case _:
                if not api.is_initialized():
                    print(NONE)
                    return None
                engine = api.engine()
                more = [
                    ("huge pages", "" if engine.can.huge_pages else engine.ask(HugePages())),
                    ("can't", facts.lacks_text(engine.can.lacking().values())),
                ]
                print(cards.of_snapshot(engine.ask(Summary()), more))
        return None

    def _document(self, action: str, wanted: str, begin: int) -> json.Document:
        """Return the answer to a question as data."""
        keeping = self._notebook.keeping
        made = {
            "status": _status,
            "memory": lambda: json.of_memory(_memory()),
            "jobs": lambda: json.of_jobs(api.engine().ask(Jobs()) if api.is_initialized() else ()),
            "lost": lambda: json.of_lost(keeping.lost()),
            "history": lambda: json.of_history(keeping.history()),
            "branches": lambda: json.of_branches(keeping.branches()),
        }
        if action not in made:
            raise MagicError(f"--json goes with {', '.join(made)}, not with {action}.")
        if not wanted:
            return made[action]()
        job = self._chosen(wanted)
        return json.of_output(job, api.engine().ask(Outputs(job.id)), begin)

    def _kept(self, action: str, what: list[str]) -> Rich | None:
        keeping = self._notebook.keeping
        match action:
            case "keep" if what == ["off"]:
                print(keeping.stop())
            case "keep":
                print(keeping.keep(api.engine()))
            case "lost":
                return keeping.lost()
            case "history":
                display(keeping.history())  # not into `Out`, which would keep what is stored
            case "branch" if what:
                print(keeping.switch(unquoted(" ".join(what))))
            case _:
                display(keeping.branches())
        return None

    def _file(self, action: str, path: str, settings: dict[str, Any]) -> None:
        option = {"save": "compress", "open": "trust"}[action]
        if not path or settings.keys() - {option}:
            raise MagicError(f"Write it like this: `%workbench {action} demo.wb [--{option}]`.")
        if action == "save":
            said = save_variables(self._notebook, api.engine(), path, option in settings)
        else:
            said = open_variables(self._notebook, path, option in settings)
        print(said)

    def _start(self, settings: dict[str, Any]) -> None:
        """Start or join a session; an empty one is replaced."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            api.init(**settings)  # the extension prints what was started
        context.companion(_Start).settings = settings
        for each in said:
            print(each.message)

    @staticmethod
    def _print_users() -> None:
        now = api.engine().ask(Summary())
        print(printable(f"Session {facts.session_name(now)}: {facts.users_text(now)}."))

    def _jobs(self, wanted: str) -> JobTable | None:
        """List the background cells; or collect one: show its output, bind what it assigned."""
        if not wanted:
            return JobTable(api.engine().ask(Summary()).jobs if api.is_initialized() else ())
        record = self._chosen(wanted)
        self._notebook.collect(api.engine(), record.id)
        return None

    def _job(self, wanted: str) -> Job:
        """Return one background cell, to wait for, read, cancel."""
        if not wanted:
            raise MagicError("Name one: `job = %workbench job cell 7`. `%workbench jobs` has them.")
        record, ours = self._chosen(wanted), self._notebook.jobs
        job = ours.get(record.id) or self._notebook.collect(api.engine(), record.id)
        assert job is not None
        return job

    @staticmethod
    def _chosen(wanted: str) -> JobRecord:
        return job_meant(api.engine().ask(Jobs()) if api.is_initialized() else (), wanted)


def _status() -> json.Document:
    if not api.is_initialized():
        return json.of_status(None, None)
    engine = api.engine()
    return json.of_status(facts.short_name(engine.session), engine.ask(Summary()))


def _memory() -> survey.Survey:
    gc.collect()  # what would go by itself explains nothing
    return survey.survey(roots.roots(), roots.attributes())


def _lost() -> str:
    """Return what is lost when the notebook leaves its session; '' if it is over or busy."""
    with contextlib.suppress(SessionError):
        return lost_by_leaving(api.engine())
    return ""
