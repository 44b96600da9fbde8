"""What the workers of a cluster have, compared with what is here; decided, not done.

`EXPRESSION` is evaluated on each kind of worker, where there may be no Workbench: it needs nothing
but the standard library. `compare` says what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

PYTHON_ONLY = ("cloudpickle", "comm", "platformdirs", "tqdm")
"""What a worker needs besides the compiled ones, and could be sent as files."""

COMPILED = ("msgspec", "numpy", "xxhash")
"""What it needs and can't be sent: it is built for a system and a Python."""

NEEDED = (*COMPILED, *PYTHON_ONLY, "ipython")
"""What the workers' part of Workbench imports, by the names under which they are installed."""

_LOOK = f"""
def look():
    import hashlib, importlib.util, os, platform, sys
    from importlib.metadata import distributions
    def version(name):
        return next((found.version for found in distributions(name=name)), "")
    def digest():
        spec = importlib.util.find_spec("workbench")
        if spec is None or not spec.submodule_search_locations:
            return ""
        sums = hashlib.sha256()
        for place in spec.submodule_search_locations:
            for directory, inner, files in os.walk(place):
                inner[:] = sorted(set(inner) - {{"__pycache__"}})
                for name in sorted(files):
                    if name.endswith((".py", ".js", ".css")):
                        path = os.path.join(directory, name)
                        sums.update(os.path.relpath(path, place).encode())
                        with open(path, "rb") as file:
                            sums.update(file.read())
        return sums.hexdigest()[:16]
    return {{
        "python": platform.python_version(),
        "node": platform.node(),
        "directory": os.getcwd(),
        "workbench": digest(),
        "packages": {{name: version(name) for name in {NEEDED!r}}},
    }}
"""

EXPRESSION = f"(lambda space: (exec({_LOOK!r}, space), space['look']())[1])({{}})"
"""Evaluated, it is a dict: the fields of `NodeVersions`."""


class NodeVersions(NamedTuple):
    """What one Python has. ``workbench`` is its files' digest, '' if there is none; ``packages``
    are versions by name, '' of what isn't installed."""

    python: str
    node: str
    directory: str
    workbench: str
    packages: dict[str, str]


class ProbeVerdict(NamedTuple):
    """``refusal``: why workers can't have us, '' if they can; ``ships``: Workbench has to be sent
    to them; ``warnings``: what may go wrong, a sentence each."""

    refusal: str = ""
    ships: bool = False
    warnings: tuple[str, ...] = ()


def here() -> NodeVersions:
    """What this Python has."""
    return found(eval(EXPRESSION))


def found(answer: dict[str, Any]) -> NodeVersions:
    """A worker's answer as a record."""
    return NodeVersions(**answer)


def compare(ours: NodeVersions, theirs: Sequence[NodeVersions]) -> ProbeVerdict:
    """What follows from what the workers have. ``theirs``: one of each node, or of each worker."""
    warnings: list[str] = []
    for each in theirs:
        if refusal := _refusal(ours, each):
            return ProbeVerdict(refusal)
        warnings += _differences(ours, each)
    ships = any(each.workbench != ours.workbench for each in theirs)
    return ProbeVerdict("", ships, tuple(dict.fromkeys(warnings)))


def python_refusal(ours: str, theirs: str, who: str) -> str:
    """Why ``who`` (of cells: what runs them) can't have us, by the versions of Python; '' if they
    may. To be asked before any function is sent: another Python may crash over its code."""
    mine, minor = _minor(ours), _minor(theirs)
    if mine == minor:
        return ""
    return (
        f"This notebook runs Python {ours}, and {who} run Python {theirs}: functions and cells "
        f"can't travel between Python {mine} and {minor}. Use a kernel with Python {minor}, or "
        f"workers with Python {mine}."
    )


def _refusal(ours: NodeVersions, theirs: NodeVersions) -> str:
    if refusal := python_refusal(ours.python, theirs.python, f"the workers on {theirs.node}"):
        return refusal
    missing = [name for name in NEEDED if not theirs.packages.get(name)]
    if missing:
        line = " ".join(
            f"{name}=={v}" if (v := ours.packages.get(name)) else name for name in missing
        )
        return (
            f"The workers on {theirs.node} lack what Workbench needs: {', '.join(missing)}. "
            f"`pip install {line}` installs it there; Workbench itself is sent along."
        )
    return ""


def _differences(ours: NodeVersions, theirs: NodeVersions) -> list[str]:
    said = []
    for name in ("numpy", "cloudpickle"):
        mine, other = ours.packages.get(name, ""), theirs.packages.get(name, "")
        if mine.partition(".")[0] != other.partition(".")[0]:
            said.append(
                f"This notebook has {name} {mine}, and the workers on {theirs.node} have {other}: "
                "what one pickles the other may be unable to read. Install the same version."
            )
    return said


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
