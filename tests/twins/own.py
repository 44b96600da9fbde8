"""A module of one's own, whose state the twin programs change."""

from __future__ import annotations

level = 1
items: list[int] = []


class Kind:
    made = 0

    def __init__(self) -> None:
        Kind.made += 1


def configure(to: int) -> None:
    global level
    level = to
    items.append(to)
