"""Code that people can paste: paths to objects, and statements that let go of them. Only texts:
which references there are, `references` knows.
"""

from __future__ import annotations

from typing import Any

MOST_RUNS = 40
"""Runs of neighbours that one statement empties; the rest comes with the next question."""


def typed(step: str, path: str) -> str:
    """What a person types for a step from ``path``: ``step`` may have that several times."""
    return step.format(*[path] * step.count("{}"))


def runs(places: list[int]) -> list[tuple[int, int]]:
    """(first, behind the last) of neighbours, the highest first."""
    found: list[tuple[int, int]] = []
    for place in sorted(set(places), reverse=True):
        if found and found[-1][0] == place + 1:
            found[-1] = place, found[-1][1]
        else:
            found.append((place, place + 1))
    return found


def span(path: str, first: int, behind: int) -> str:
    """The items from ``first`` up to ``behind`` of what is at ``path``."""
    return f"{path}[{first}]" if behind == first + 1 else f"{path}[{first}:{behind}]"


def statement(cut: str, path: str, keys: list[Any], empties: bool = False) -> str:
    """Code that makes what stands at ``path`` let go of these of its slots, all of one kind.

    ``empties``: they are all it has.
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
        case "none":
            return "; ".join(f"{path}.{name} = None" for name in keys)
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
    """As an expression: a range where that is one."""
    (first, behind), *more = runs(keys)
    if not more and len(keys) > 2:
        return f"range({first}, {behind})"
    return repr(sorted(keys, reverse=True))
