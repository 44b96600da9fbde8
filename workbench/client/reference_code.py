"""Code that people can paste: paths to objects, and statements that let go of them. Only texts:
`references` finds the references.
"""

from __future__ import annotations

from typing import Any

MOST_RUNS = 40
"""Most runs of neighbours that one statement empties; a later question shows the rest."""


def typed(step: str, path: str) -> str:
    """Return the expression for a step from ``path``: each ``{}`` in ``step`` stands for it."""
    return step.format(*[path] * step.count("{}"))


def runs(places: list[int]) -> list[tuple[int, int]]:
    """Return (first, behind the last) of each run of neighbours, the highest first."""
    found: list[tuple[int, int]] = []
    for place in sorted(set(places), reverse=True):
        if found and found[-1][0] == place + 1:
            found[-1] = place, found[-1][1]
        else:
            found.append((place, place + 1))
    return found


def span(path: str, first: int, behind: int) -> str:
    """Return the expression for the items from ``first`` up to ``behind`` at ``path``."""
    return f"{path}[{first}]" if behind == first + 1 else f"{path}[{first}:{behind}]"


def statement(cut: str, path: str, keys: list[Any], empties: bool = False) -> str:
    """Return code that empties these slots of the object at ``path``, all of one kind.

    ``empties``: it has no other slots.
    """
    match cut:
        case "index" | "item" | "place" if empties and len(keys) > 1:
            return f"{path}.clear()"
        case "index":
            return "del " + ", ".join(span(path, *run) for run in runs(keys)[:MOST_RUNS])
        case "item":
            return "del " + ", ".join(f"{path}[{key!r}]" for key in keys[:MOST_RUNS])
        case "place" if len(keys) == 1:
            return f"del {path}[list({path})[{keys[0]}]]"
        case "place":
            return (
                f"any({path}.__delitem__(k) for k in [list({path})[n] for n in {_places(keys)}]);"
            )
        case "element" if len(keys) == 1:
            return f"{path}.discard(list({path})[{keys[0]}])"
        case "element":
            return f"any({path}.discard(k) for k in [list({path})[n] for n in {_places(keys)}]);"
        case "array" | "array.flat":
            flat = cut.removeprefix("array")
            return f"{path}{flat}[{keys[0] if len(keys) == 1 else sorted(keys)}] = None"
        case "attribute":
            return "del " + ", ".join(f"{path}.{name}" for name in keys)
        case "forced attribute":
            return "; ".join(f"object.__delattr__({path}, {name!r})" for name in keys)
        case "frame":
            return f"{path}.clear(); {path}.f_locals;"
        case "close":
            return f"{path}.close()"
        case "cache":
            return f"{path}.cache_clear()"
    assert cut or not path.isidentifier(), path  # else the variable itself would go
    return f"del {path}"


def _places(keys: list[int]) -> str:
    """Return the places as an expression: a range if they are one."""
    (first, behind), *more = runs(keys)
    if not more and len(keys) > 2:
        return f"range({first}, {behind})"
    return repr(sorted(keys, reverse=True))
