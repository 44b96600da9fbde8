"""How tests are run: how much Hypothesis tries, in which processes, in which order. No fixtures:
those live with the tests that use them.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.patience import TEST_TIMEOUT, THOROUGH
from workbench.system.machine import cpu_count

settings.register_profile(
    "workbench",
    deadline=None,
    max_examples=400 if THOROUGH else 20,
    stateful_step_count=50,
    # `make test` tries the same examples each time, so it judges the change; `make slow` new ones.
    derandomize=not THOROUGH,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("workbench")

# A shell that starts us in the background has us ignore Ctrl-C, and all that we start inherits it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of processes are started, each of which would compile all of the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Each that imports numpy has OpenBLAS start a thread a processor, which then spins for 0.1 s: for
# 2 ** 28 cycles, unless this says less (4 is the least). That was a third of some tests' time.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

FIRST = (
    "tests/unit/client/test_referrer_search",
    "tests/unit/client/test_value_holders",
    "tests/process/test_why",
    "tests/browser/test_views",
    "tests/browser",
    "tests/kernel/test_notebooks",
    "tests/kernel/test_course.py",
    "tests/kernel/test_write_back",
    "tests/kernel/test_sessions",
    "tests/kernel/test_remote",
    "tests/process/test_interrupts",
    "tests/process/test_clean_workers",
    "tests/process/test_cli",
    "tests/chaos",
    "tests/kernel",
    "tests/process",
)
"""What takes long begins first, so that no process works alone in the end; before all, what looks
at each object that the process has, which are few then."""

SPREAD = (
    "tests/chaos",
    "tests/kernel/test_course.py",
    "tests/process/test_interrupts",
    "tests/unit/client/test_referrer_search",
    "tests/unit/serialization/test_costs_exam",
    "tests/unit/serialization/test_inspection_exam",
)
"""Files whose tests share nothing, and take so long that processes had better share those."""

_LOOK = "unit/client/test_collector", "process/test_why", "process/why"
SEE_ALL = (FIRST[0], *map("tests/".__add__, _LOOK))
"""They look through all that the process has."""

SOURCES = tuple(f"tests/unit/test_{n}.py" for n in ("architecture", "interrupted_loops", "rooms"))
"""They look at the package's code, which is parsed once for them: see `tests/unit/sources.py`."""

STARTS = "COUNT_STARTS"
"""Names the file in which starts of Python are counted, by `tests/starts/sitecustomize.py`."""

ALONE = "TEST_ALONE"
"""Set in the process that a test marked ``own_process`` has got."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Here, because only this file is read before the command line is."""
    parser.addoption(
        "--engine",
        action="append",
        help="run the engines' suite (tests/contract/engine) over this one: local, ray, dask, all",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest-timeout looks, and before a process is started."""
    if config.option.timeout is None:
        config.option.timeout = TEST_TIMEOUT
    if STARTS not in os.environ:
        handle, os.environ[STARTS] = tempfile.mkstemp(prefix="starts-")
        os.close(handle)
        config.add_cleanup(lambda: os.remove(os.environ.pop(STARTS)))
        folders = [str(Path(__file__).parent / "starts"), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How often Python was started: each start takes a core half a second, if it imports numpy."""
    terminalreporter.write_line(f"Python was started {os.stat(os.environ[STARTS]).st_size} times.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow folders first, but last in a process alone, which had better fail early; what is marked
    ``own_process`` gets one."""
    items.sort(key=_rank, reverse=not hasattr(config, "workerinput"))
    for item in items:
        if item.get_closest_marker("own_process") and ALONE not in os.environ:
            assert isinstance(item, pytest.Function)
            item.fixturenames.clear()  # they are for the test, which isn't here
            item.runtest = lambda item=item: _run_alone(item)  # type: ignore[method-assign, misc]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What was there before the tests stays: no collection looks through it, which takes a
    processor 0.2 s, each time."""
    if item.nodeid.startswith(SEE_ALL):
        gc.unfreeze()
    elif gc.get_freeze_count() < 10_000:
        gc.collect()
        gc.freeze()


def _rank(item: pytest.Item) -> int:
    return next((n for n, each in enumerate(FIRST) if item.nodeid.startswith(each)), len(FIRST))


def _run_alone(item: pytest.Item) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", "-n0"]
    run = subprocess.run(
        [*command, item.nodeid],
        cwd=item.config.rootpath,
        env={**os.environ, ALONE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        pytest.fail(run.stdout, pytrace=False)


class ByFile(LoadScopeScheduling):
    """A file's tests share a process and its fixtures; those of a notebook, which is run once for
    them. Two processes have a browser: one for the views, which take most of the time, and one for
    all else."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/browser") and "test_views" not in nodeid:
            return "tests/browser"
        if nodeid.startswith("tests/contract/engine"):
            return "tests/contract/engine"  # one kernel for all
        if nodeid.startswith(SPREAD):
            return nodeid
        if nodeid.startswith(SOURCES):
            return "sources"
        if nodeid.startswith("tests/kernel/test_notebooks"):
            return " ".join(["test_notebooks", *re.findall(r"\b\d\d-[a-z-]+", nodeid)])
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """In the order in which they were collected, not by their number."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors for us, a container's limits included: now and then one
    waits for a page, or for what shall end."""
    return cpu_count() + 1
