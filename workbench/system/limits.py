"""Why the system refused memory, a file, a process or a thread: which limit, and what to do."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.format import human_bytes
from workbench.system import machine

_OF_PROCESS = {
    errno.EMFILE: (
        resource.RLIMIT_NOFILE,
        "this process can open no more files, `ulimit -n` allows it {}; close some, or raise it "
        "(`resource.setrlimit`)",
    ),
    errno.ENOMEM: (
        resource.RLIMIT_AS,
        "`ulimit -v` allows a process {} of address space; have it raised, or start a smaller "
        "store (`init(memory=...)`)",
    ),
    errno.EFBIG: (
        resource.RLIMIT_FSIZE,
        "`ulimit -f` allows files of {}, and the memory of the store is one; have it raised",
    ),
}
"""By error: the limit of a process, and a clause that names it."""

_OTHERS = {
    errno.ENFILE: "the machine can open no more files; close some, or have `fs.file-max` raised",
    errno.ENOMEM: "the machine has no memory for it, or the process has as many mappings as it may "
    "(`vm.max_map_count`); end what takes much",
    errno.ENOSPC: "the disk is full; delete something there",
    errno.EDQUOT: "your share of the disk is used up; delete something there",
}


def reason(error: BaseException, root: Path = Path("/")) -> str:
    """Return a clause on the limit that the error comes from, and on what to do; '' if from none.

    Parameters
    ----------
    error : BaseException
        What the system, or Python, raised.
    root : Path
        Where the kernel's files are.

    Returns
    -------
    str
    """
    number = getattr(error, "errno", None) or 0
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        has_limit = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        number = errno.ENOMEM if has_limit else errno.EAGAIN  # its stack takes address space
    if number == errno.EAGAIN:
        return _of_processes(root)
    if number in _OF_PROCESS:
        limit, clause = _OF_PROCESS[number]
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            return clause.format(most if number == errno.EMFILE else human_bytes(most))
    return _OTHERS.get(number, "")


def _of_processes(root: Path) -> str:
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    pids = machine.process_limit(root)
    if pids is not None and (most == resource.RLIM_INFINITY or pids < most):
        return (
            f"the container allows {pids} processes and threads in all (`pids.max`); end some, or "
            "have it raised"
        )
    if most == resource.RLIM_INFINITY:
        return "the machine can start no more processes and threads; end some"
    return f"`ulimit -u` allows you {most} processes and threads in all; end some, or raise it"


@contextmanager
def explained(kind: type[OSError], what: str) -> Iterator[None]:
    """Raise a system's refusal in the block as an error of ours that says why ``what`` can't be.

    Parameters
    ----------
    kind : type
        The error's class.
    what : str
        A clause: what can't be done.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = "" if isinstance(error, WorkbenchError) else reason(error)
        if not why:
            raise
        refused = kind(f"{what}: {why}. Nothing is lost.")
        refused.errno = getattr(error, "errno", None)
        raise refused from None
