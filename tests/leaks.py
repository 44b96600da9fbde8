"""What must not outlive a test: descriptors, threads, processes, mappings, files. One check."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil

from tests.patience import TIMEOUT

T = TypeVar("T")


def eventually(condition: Callable[[], object], timeout: float = TIMEOUT) -> bool:
    """Whether the condition comes to hold. For what nobody announces; else wait for the event.

    A look may cost a processor as long as what is waited for: they get rarer.
    """
    began = time.monotonic()
    pause = threading.Event()
    while not condition():
        waited = time.monotonic() - began
        if waited > timeout:
            return bool(condition())  # who was held up all that time looks once more
        pause.wait(min(0.005 + waited / 8, 0.1))
    return True


@dataclass(frozen=True)
class Resources:
    """What this process has, and what runs for it."""

    descriptors: dict[int, str]
    threads: frozenset[threading.Thread]
    processes: frozenset[psutil.Process]
    mappings: frozenset[str]

    @classmethod
    def now(cls, runtime_directory: str, apart_from: str | None = None) -> Resources:
        """Take stock. Processes: our children, and whoever has a session in that directory; but
        not those of a session in the directory ``apart_from``."""
        processes = frozenset(psutil.Process().children(recursive=True))
        others = processes_of(apart_from) if processes and apart_from else frozenset()
        return cls(
            descriptors(),
            frozenset(threading.enumerate()),
            (processes - others) | processes_of(runtime_directory),
            frozenset(_mappings()),
        )

    def beyond(self, before: Resources) -> list[str]:
        """What is here and wasn't before, each by name."""
        return [
            *(
                f"descriptor {fd}: {target}"
                for fd, target in self.descriptors.items()
                if before.descriptors.get(fd) != target
            ),
            *(f"thread {thread.name}" for thread in self.threads - before.threads),
            *(_describe(process) for process in self.processes - before.processes),
            *(f"mapping {line}" for line in self.mappings - before.mappings),
        ]


@contextlib.contextmanager
def nothing_left(runtime_directory: str, apart_from: str | None = None) -> Iterator[None]:
    """Fails, with a list, if anything that began inside goes on, or left a file behind.

    Works in any process: a test, a kernel's cell, a script. A session in the directory
    ``apart_from`` may go on.
    """
    before = Resources.now(runtime_directory, apart_from)
    yield

    def left() -> list[str]:
        files = sorted(os.listdir(runtime_directory))
        ours = [f"file {name}" for name in files if name.endswith((".workbench", ".workbench.log"))]
        # As long as there are files, there is no need to go through all processes.
        return ours or Resources.now(runtime_directory, apart_from).beyond(before)

    if lines := gone_or_collected(left):
        raise AssertionError("left behind:\n" + "\n".join(f"  {line}" for line in lines))


def gone_or_collected(left: Callable[[], Sequence[T]]) -> Sequence[T]:
    """What is still left after a while, even if what only cycles keep is let go.

    It isn't collected if nothing is left: among all that the tests import, that takes a processor
    0.2 s, for each test.
    """
    if eventually(lambda: not left(), 0.2):
        return ()

    def is_gone() -> bool:
        gc.collect()  # each time: what ends late is garbage only then
        return not left()

    return () if eventually(is_gone) else left()


def descriptors(pid: int | str = "self") -> dict[int, str]:
    """Those of a process, and what each refers to."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed again, as the directory's own
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def _mappings() -> Iterator[str]:
    with open("/proc/self/maps") as lines:
        for line in lines:
            if "memfd:workbench" in line:
                yield line.split()[0]


def processes_of(runtime_directory: str) -> frozenset[psutil.Process]:
    """Servers, forkservers and workers (which keep the forkserver's command line) of any driver."""
    mark = runtime_directory + os.sep
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(mark in argument for argument in process.cmdline()):
                found.add(process)
    return frozenset(found)


def _describe(process: psutil.Process) -> str:
    try:
        line = f"process {process.pid} ({process.status()}, of {process.ppid()})"
        return f"{line}: {' '.join(process.cmdline())[:120]}"
    except psutil.ZombieProcess:  # it has no command line any more
        return f"{line}: nobody has waited for its end"
    except psutil.Error:
        return f"process {process.pid}, gone meanwhile"
