"""What the workers of a cluster have, compared with what is here: the same Workbench and the same
Python have to be there.

`EXPRESSION` is evaluated on each kind of worker, where there may be no Workbench: it needs nothing
but the standard library.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from workbench.errors import SessionError

_LOOK = """
def look():
    import platform
    from importlib import import_module
    def version(name):
        try:
            return import_module(name).__version__
        except ImportError:
            return ""
    return {
        "python": platform.python_version(),
        "node": platform.node(),
        "workbench": version("workbench"),
        "packages": {name: version(name) for name in ("numpy", "cloudpickle")},
    }
"""

EXPRESSION = f"(lambda space: (exec({_LOOK!r}, space), space['look']())[1])({{}})"
"""Evaluated, it is a dict: the fields of `NodeVersions`."""


class NodeVersions(NamedTuple):
    """What one Python has: versions, '' of what isn't installed."""

    python: str
    node: str
    workbench: str
    packages: dict[str, str]


def here() -> NodeVersions:
    return NodeVersions(**eval(EXPRESSION))


def check(ours: NodeVersions, theirs: Sequence[NodeVersions]) -> None:
    """SessionError if the workers can't have us; what may go wrong is warned of, once.

    ``theirs``: one of each node, or of each worker.
    """
    for each in theirs:
        who = f"the workers on {each.node}"
        check_python(ours.python, each.python, who)
        if each.workbench != ours.workbench:
            have = f"have Workbench {each.workbench}" if each.workbench else "have no Workbench"
            raise SessionError(
                f"This notebook has Workbench {ours.workbench}, and {who} {have}. `pip install "
                f"ipyworkbench=={ours.workbench}` installs it there."
            )
    said = (_difference(name, ours, each) for each in theirs for name in ours.packages)
    for warning in dict.fromkeys(filter(None, said)):
        warnings.warn(warning, stacklevel=4)


def check_python(ours: str, theirs: str, who: str) -> None:
    """SessionError if ``who`` (of cells: what runs them) can't have us, by the versions of Python.

    To be asked before any function is sent: another Python may crash over its code.
    """
    mine, minor = _minor(ours), _minor(theirs)
    if mine != minor:
        raise SessionError(
            f"This notebook runs Python {ours}, and {who} run Python {theirs}: functions and cells "
            f"can't travel between Python {mine} and {minor}. Use a kernel with Python {minor}, or "
            f"workers with Python {mine}."
        )


def _difference(name: str, ours: NodeVersions, theirs: NodeVersions) -> str:
    mine, other = ours.packages[name], theirs.packages.get(name, "")
    if mine.partition(".")[0] == other.partition(".")[0]:
        return ""
    return (
        f"This notebook has {name} {mine}, and the workers on {theirs.node} have {other}: what one "
        "pickles the other may be unable to read. Install the same version."
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
